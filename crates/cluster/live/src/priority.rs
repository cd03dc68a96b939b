//! Real-time priority of the threads that carry messages between machines.
//!
//! They preempt the labs' data paths, which are real-time threads too. On an overloaded machine the
//! data paths never sleep, and without this priority the other agents would consider it lost. The
//! message threads need little CPU time.

/// Data paths have priority 10.
const PRIORITY: i32 = 11;

/// Raises the priority of the calling thread, if permitted. Its child threads do not inherit it.
pub(crate) fn raise() {
    // Without the permission, data paths are not real-time threads either.
    let _ = sys::sched::set_fifo(PRIORITY);
}

/// Resets the priority of the calling thread.
pub(crate) fn reset() {
    // It can fail only if `raise` failed.
    let _ = sys::sched::set_ordinary();
}

/// Runs `start`. All threads that it starts have the raised priority, if permitted.
pub(crate) fn raise_threads_of<T>(start: impl FnOnce() -> T) -> T {
    let allowed = sys::sched::set_fifo_for_all(PRIORITY).is_ok();
    let started = start();
    if allowed {
        reset();
    }
    started
}
