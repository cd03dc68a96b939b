//! The threads of the data path. The first one waits for packets and deadlines. The second one
//! handles the deadlines that the first one misses, for example because the hypervisor runs another
//! guest on its CPU. Both work under one lock, so that the order of events is that of one thread.

use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{Builder, Thread, park_timeout, scope};
use std::time::Duration;

use base::{Span, Time};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use sys::sched;

use super::THREAD;
use super::messages::{Batch, Command, Report, Setup};
use super::ports::Poller;
use super::worker::{REALTIME_PRIORITY, TIME_SLICE_NANOS, Worker};
use crate::Result;
use crate::clock::LabClock;

/// Time after a deadline at which the second thread wakes. With 30 µs it costs a third of the data
/// path's CPU time, with 100 µs a fifth, and the latency of the last packets is similar.
const SECOND_THREAD_DELAY: Span = Span::from_micros(100);

/// After it has woken for nothing, the second thread sleeps for at least this: while packets are
/// due every few microseconds, it must not wake for each of them.
const SECOND_THREAD_REST: Span = Span::from_millis(1);

/// Builds the state of the data path, in its first thread.
pub(super) fn build(
    setup: Setup,
    inbox: Receiver<Command>,
    outbox: Sender<Batch>,
    waker: Arc<OwnedFd>,
) -> Result<(Worker, Poller)> {
    let poller = Poller::try_new(&setup.enclosure, waker)?;
    let worker = Worker::try_new(setup, inbox, outbox, &poller)?;
    Ok((worker, poller))
}

/// Runs the data path until the command to finish.
pub(super) fn run(mut worker: Worker, mut poller: Poller) -> Report {
    let usage = Usage::of_this_thread();
    worker.prepare(&mut poller);
    let (clock, signal) = (worker.clock(), ThreadSignal::new());
    let worker = Mutex::new(worker);
    let usage_of_second = scope(|scope| {
        let (cell, signal, clock) = (&worker, &signal, &clock);
        let builder = Builder::new().name(THREAD.to_owned());
        // Without a second CPU, or if the thread cannot be started, there is only the first thread.
        let thread = cpus_of_second().and_then(|cpus| {
            builder.spawn_scoped(scope, move || run_second(cell, signal, clock, &cpus)).ok()
        });
        let end = EndGuard(signal, thread.as_ref().map(|thread| thread.thread().clone()));
        run_first(cell, &mut poller, clock, &end);
        drop(end);
        thread.map(|thread| thread.join().unwrap_or_else(|payload| resume_unwind(payload)))
    });
    let usage = usage.until(Usage::of_this_thread()).combine(usage_of_second);
    let worker = worker.into_inner().unwrap_or_else(PoisonError::into_inner);
    Report { cpu: usage.cpu, cpu_wait: usage.cpu_wait, ..worker.finish() }
}

/// State that the threads share without the lock.
#[derive(Debug)]
struct ThreadSignal {
    /// The deadline of the first thread's sleep, in nanoseconds of lab time.
    deadline: AtomicU64,
    /// Number of announced deadlines.
    announced: AtomicU64,
    /// The second thread sleeps and has to wake for deadlines before this; zero while it is awake.
    sleeps_until: AtomicU64,
    /// Whether the first thread has real-time priority.
    realtime: AtomicBool,
    ended: AtomicBool,
}

impl ThreadSignal {
    const fn new() -> Self {
        Self {
            deadline: AtomicU64::new(u64::MAX),
            announced: AtomicU64::new(0),
            sleeps_until: AtomicU64::new(0),
            realtime: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }
    }

    fn announce(&self, deadline: Time) {
        self.deadline.store(deadline.as_nanos(), Ordering::SeqCst);
        self.announced.fetch_add(1, Ordering::SeqCst);
    }

    /// Sleeps in the second thread for at most `left`, until a deadline before `until` is
    /// announced; not at all if one was announced after the number `last_announced` was read.
    fn sleep(&self, last_announced: u64, until: u64, left: Span) {
        self.sleeps_until.store(until, Ordering::SeqCst);
        let has_new_deadline = self.announced.load(Ordering::SeqCst) != last_announced;
        if !has_new_deadline && !self.ended.load(Ordering::SeqCst) {
            park_timeout(Duration::from_nanos(left.as_nanos()));
        }
        self.sleeps_until.store(0, Ordering::SeqCst);
    }
}

/// Ends the second thread when the first one ends or panics.
struct EndGuard<'a>(&'a ThreadSignal, Option<Thread>);

impl EndGuard<'_> {
    /// Announces the deadline of a sleep, and wakes the second thread if it would sleep longer.
    fn announce(&self, deadline: Time, realtime: bool) {
        let Self(signal, Some(second)) = self else { return };
        signal.realtime.store(realtime, Ordering::Relaxed);
        signal.announce(deadline);
        if deadline.as_nanos() < signal.sleeps_until.load(Ordering::SeqCst) {
            second.unpark();
        }
    }
}

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.1.iter().for_each(Thread::unpark);
    }
}

/// The loop of the first thread: handles events, writes, sleeps, reads.
fn run_first(cell: &Mutex<Worker>, poller: &mut Poller, clock: &LabClock, end: &EndGuard<'_>) {
    let mut ready = Vec::new();
    // The lock is poisoned if the second thread has panicked.
    let Ok(mut worker) = cell.lock() else { return };
    while !worker.is_finished() {
        let now = clock.now();
        worker.handle_due(now);
        worker.adapt(now);
        let sleep = worker.next_sleep();
        if !sleep.timeout.is_positive() {
            let arrived = poller.wait(sleep.timeout, &mut ready);
            worker.receive(arrived, None, &mut ready);
            continue;
        }
        end.announce(sleep.deadline, worker.is_realtime());
        drop(worker);
        let arrived = poller.wait(sleep.timeout, &mut ready);
        let woken = clock.now();
        let Ok(again) = cell.lock() else { return };
        worker = again;
        if ready.is_empty() && arrived.is_empty() {
            worker.update_latency(sleep, woken);
        }
        worker.receive(arrived, Some(woken), &mut ready);
    }
}

/// The loop of the second thread, on the given CPUs: handles events and writes if the first one has
/// missed its deadline.
fn run_second(
    cell: &Mutex<Worker>,
    signal: &ThreadSignal,
    clock: &LabClock,
    cpus: &CpuSet,
) -> Usage {
    let usage = Usage::of_this_thread();
    // Thread properties are best effort, as those of the first thread.
    let _ = sched_setaffinity(None, cpus);
    let _ = sched::set_timer_slack(1);
    let _ = sched::set_slice(TIME_SLICE_NANOS);
    let mut realtime = false;
    let mut rest_end = 0;
    while !signal.ended.load(Ordering::SeqCst) {
        if signal.realtime.load(Ordering::Relaxed) != realtime {
            realtime = !realtime;
            let _ =
                if realtime { sched::set_fifo(REALTIME_PRIORITY) } else { sched::set_ordinary() };
        }
        let last_announced = signal.announced.load(Ordering::SeqCst);
        let deadline = signal.deadline.load(Ordering::SeqCst);
        let overdue = deadline.saturating_add(SECOND_THREAD_DELAY.as_nanos());
        if overdue <= clock.now().as_nanos() {
            match cell.try_lock() {
                Ok(mut worker) => {
                    worker.handle_due(clock.now());
                    signal.announce(worker.next_sleep().deadline);
                    rest_end = 0;
                    continue;
                }
                // The first thread works.
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Poisoned(_)) => break,
            }
        }
        // A deadline before the end of the rest does not wake this thread.
        let until = if overdue < rest_end { 0 } else { deadline };
        let left = overdue.max(rest_end).saturating_sub(clock.now().as_nanos());
        signal.sleep(last_announced, until, Span::from_nanos(left));
        rest_end = (clock.now() + SECOND_THREAD_REST).as_nanos();
    }
    usage.until(Usage::of_this_thread())
}

/// CPU time that a thread has used.
#[derive(Clone, Copy, Debug)]
struct Usage {
    cpu: Span,
    /// Time for which it was ready but waited for a CPU, if the kernel reports it.
    cpu_wait: Option<Span>,
}

impl Usage {
    fn of_this_thread() -> Self {
        let cpu_wait = sched::run_queue_wait().map(Span::from_nanos);
        Self { cpu: Span::from_nanos(sys::clock::thread_cpu()), cpu_wait }
    }

    fn until(self, end: Self) -> Self {
        let cpu_wait = end.cpu_wait.zip(self.cpu_wait);
        Self {
            cpu: end.cpu.saturating_sub(self.cpu),
            cpu_wait: cpu_wait.map(|(end, start)| end.saturating_sub(start)),
        }
    }

    /// Adds the usage of the second thread. Due packets waited only while both threads waited.
    fn combine(self, second: Option<Self>) -> Self {
        let Some(second) = second else { return self };
        let cpu_wait = self.cpu_wait.zip(second.cpu_wait).map(|(own, other)| own.min(other));
        Self { cpu: self.cpu + second.cpu, cpu_wait }
    }
}

/// The CPUs of the second thread: the last half of those that this thread may use; `None` if there
/// is one only. The first thread may use all, so that it need not wait for one in use.
fn cpus_of_second() -> Option<CpuSet> {
    let allowed = sched_getaffinity(None).ok()?;
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    let mut half = CpuSet::new();
    cpus[cpus.len().div_ceil(2)..].iter().for_each(|cpu| half.set(*cpu));
    (half.count() > 0).then_some(half)
}

#[cfg(test)]
mod tests;
