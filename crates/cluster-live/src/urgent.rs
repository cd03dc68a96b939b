//! Threads that carry messages between machines go before the labs' data paths, which are
//! real-time threads, and on a machine that has too much to do never rest: it would be taken for
//! dead by the others. They have little to do themselves.

/// Real-time priority of the messages' threads: data paths have 10.
const PRIORITY: i32 = 11;

/// The calling thread goes before data paths, where that is allowed. What it starts does not.
pub(crate) fn hurry() {
    // Without the permission, data paths have none either.
    let _ = sys::sched::set_fifo(PRIORITY);
}

/// The calling thread has the time it had before [`hurry`].
pub(crate) fn rest() {
    // It was changed before, and this needs no permission.
    let _ = sys::sched::set_ordinary();
}

/// Threads that `start` makes go before data paths, and those that they make; the calling one
/// does not.
pub(crate) fn of<T>(start: impl FnOnce() -> T) -> T {
    let allowed = sys::sched::set_fifo_for_all(PRIORITY).is_ok();
    let started = start();
    if allowed {
        rest();
    }
    started
}
