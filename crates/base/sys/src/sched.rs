//! Scheduling of the calling thread, and CPU time taken by other processes and by the hypervisor.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::{Error, Result, check};

/// Sets the timer slack of the calling thread in nanoseconds: the maximum delay of timers by choice
/// of the kernel (default 50 µs; minimum 1).
pub fn set_timer_slack(nanos: u64) -> Result<()> {
    // SAFETY: takes an integer, touches no memory.
    check("prctl(PR_SET_TIMERSLACK)", unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos) })?;
    Ok(())
}

/// Sets real-time priority of the calling thread (`SCHED_FIFO`; 1 is the lowest). Children do
/// not inherit it.
pub fn set_fifo(priority: i32) -> Result<()> {
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

/// See [`set_fifo`]; threads and processes that the calling thread starts inherit it.
pub fn set_fifo_for_all(priority: i32) -> Result<()> {
    set_policy(libc::SCHED_FIFO, priority)
}

/// See [`set_fifo`], for the threads of this name of another process.
///
/// # Errors
/// If no thread has this name, or the priority of the last one cannot be set.
pub fn set_fifo_of(pid: u32, name: &str, priority: i32) -> Result<()> {
    let path = format!("/proc/{pid}/task");
    let failed = |cause| Error::file("read", &path, cause);
    let mut result = Err(failed(std::io::ErrorKind::NotFound.into()));
    for task in std::fs::read_dir(&path).map_err(failed)? {
        let task = task.map_err(failed)?;
        // A thread may have ended.
        let found = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let id = task.file_name().to_str().and_then(|id| id.parse().ok());
        if let Some(id) = id.filter(|_| found.trim_end() == name) {
            let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
            result = set_policy_of(id, policy, priority);
        }
    }
    result
}

/// Whether the calling thread has real-time priority.
pub fn is_fifo() -> bool {
    // SAFETY: the call has no pointers.
    let policy = unsafe { libc::sched_getscheduler(0) };
    policy >= 0 && policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_FIFO
}

fn set_policy(policy: libc::c_int, priority: i32) -> Result<()> {
    set_policy_of(0, policy, priority)
}

/// For the thread with this number; 0 is the calling thread.
fn set_policy_of(thread: libc::pid_t, policy: libc::c_int, priority: i32) -> Result<()> {
    let param = libc::sched_param { sched_priority: priority };
    // SAFETY: `param` outlives the call.
    let result = unsafe { libc::sched_setscheduler(thread, policy, &raw const param) };
    check("sched_setscheduler", result)?;
    Ok(())
}

/// Returns the calling thread to ordinary scheduling.
pub fn set_ordinary() -> Result<()> {
    // This may fail without a privilege; children then start with ordinary scheduling in any case.
    set_policy(libc::SCHED_OTHER, 0)
        .or_else(|_| set_policy(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0))
}

/// Sets the calling thread's time slice under the ordinary scheduler; with a shorter slice a thread
/// is scheduled sooner after a wake-up (EEVDF, Linux 6.12; ignored before). Requires no privilege.
pub fn set_slice(nanos: u64) -> Result<()> {
    /// `struct sched_attr` of `linux/sched/types.h`, first version.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime: nanos,
        deadline: 0,
        period: 0,
    };
    // SAFETY: the structure carries its own size and outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    check("sched_setattr", result as libc::c_int)?;
    Ok(())
}

/// CPU time of the host since boot, in nanoseconds summed over its CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Time in use, including interrupts.
    pub busy: u64,
    /// Idle, or waiting for a disk.
    pub idle: u64,
    /// Time in which this host was ready to run but its hypervisor ran another guest.
    pub steal: u64,
}

impl CpuTimes {
    /// Reads `/proc/stat`.
    pub fn read() -> Result<Self> {
        let path = "/proc/stat";
        let text = fs::read_to_string(path).map_err(|e| Error::file("read", path, e))?;
        Self::parse(&text).ok_or(Error::Malformed("/proc/stat"))
    }

    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find(|line| line.starts_with("cpu "))?;
        // user nice system idle iowait irq softirq steal guest guest_nice; guest times are
        // included in user.
        let mut ticks = line.split_ascii_whitespace().skip(1).map_while(|t| t.parse::<u64>().ok());
        let mut next = || ticks.next();
        let (user, nice, system) = (next()?, next()?, next()?);
        let (idle, iowait) = (next()?, next()?);
        let (irq, softirq) = (next().unwrap_or(0), next().unwrap_or(0));
        let steal = next().unwrap_or(0);
        let nanos = |ticks: u64| ticks.saturating_mul(1_000_000_000 / hertz());
        Some(Self {
            busy: nanos(user + nice + system + irq + softirq),
            idle: nanos(idle + iowait),
            steal: nanos(steal),
        })
    }

    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    /// Stolen time as a share of all time; 0 if no time has passed.
    pub fn steal_share(self) -> f64 {
        let total = self.busy + self.idle + self.steal;
        if total == 0 { 0.0 } else { self.steal as f64 / total as f64 }
    }

    /// Busy time as a share of the time without stolen time; 0 if no time has passed.
    pub fn busy_share(self) -> f64 {
        let total = self.busy + self.idle;
        if total == 0 { 0.0 } else { self.busy as f64 / total as f64 }
    }
}

/// Time in nanoseconds for which the calling thread was ready but waited for a CPU, since its
/// start; `None` if the kernel does not report it.
pub fn run_queue_wait() -> Option<u64> {
    RunQueueWait::of_this_thread()?.nanos()
}

/// The file in which the kernel reports how long a thread waited for a CPU.
#[derive(Debug)]
pub struct RunQueueWait(File);

impl RunQueueWait {
    /// That of the calling thread; `None` if the kernel does not report it.
    pub fn of_this_thread() -> Option<Self> {
        File::open("/proc/thread-self/schedstat").ok().map(Self)
    }

    /// See [`run_queue_wait`]; any thread may read it.
    pub fn nanos(&self) -> Option<u64> {
        let mut text = [0; 80];
        let length = self.0.read_at(&mut text, 0).ok()?;
        second_field(std::str::from_utf8(&text[..length]).ok()?)
    }
}

fn second_field(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// CPU time, user and system, of all reaped descendants of this process in nanoseconds; `None` if
/// the kernel does not report it.
pub fn children_cpu() -> Option<u64> {
    let ticks = children_ticks(&fs::read_to_string("/proc/self/stat").ok()?)?;
    Some(ticks.saturating_mul(1_000_000_000 / hertz()))
}

fn children_ticks(stat: &str) -> Option<u64> {
    // The name, in parentheses, may contain any characters; state is field 3, cutime and cstime are
    // 16 and 17.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(13);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Time since boot in nanoseconds for which some task of the host waited for memory; `None` if the
/// kernel does not report it (`CONFIG_PSI`).
pub fn memory_stall() -> Option<u64> {
    stalled(&fs::read_to_string("/proc/pressure/memory").ok()?)
}

fn stalled(pressure: &str) -> Option<u64> {
    let line = pressure.lines().find(|line| line.starts_with("some "))?;
    let micros: u64 = line.rsplit_once("total=")?.1.trim().parse().ok()?;
    Some(micros.saturating_mul(1000))
}

/// Clock ticks per second, the unit in several files of `/proc`.
fn hertz() -> u64 {
    // SAFETY: no memory is involved.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64
}

/// Number of CPUs that this process may use.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[cfg(test)]
mod tests {
    use super::CpuTimes;

    #[test]
    fn reads_stolen_time() {
        let times = CpuTimes::parse("cpu  10 0 20 100 5 1 2 7 0 0\ncpu0 1 2 3 4\n").unwrap();
        assert_eq!((times.busy, times.idle, times.steal), (33e7 as u64, 105e7 as u64, 7e7 as u64));
        assert!((times.steal_share() - 7.0 / 145.0).abs() < 1e-12);
        assert!((times.busy_share() - 33.0 / 138.0).abs() < 1e-12);
        assert_eq!(CpuTimes::parse("intr 5"), None);
        assert!(CpuTimes::read().unwrap().idle > 0);
    }

    #[test]
    fn reads_what_the_kernel_counts() {
        assert_eq!(super::second_field("153829126 15242 3\n"), Some(15_242));
        assert_eq!(super::second_field(""), None);
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 70 8 20 0 1 0 4242 9 10";
        assert_eq!(super::children_ticks(stat), Some(78));
        assert_eq!(super::children_ticks("7 (sh) S 1"), None);
        let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull total=3\n";
        assert_eq!(super::stalled(pressure), Some(12_000));
        assert_eq!(super::stalled("full total=3"), None);
        assert!(super::run_queue_wait().is_some() && super::children_cpu().is_some());
    }

    #[test]
    fn threads_get_priority_by_name_where_the_caller_may() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("sched-test".to_owned());
        let thread = thread.spawn(move || {
            let allowed = super::set_fifo(1).is_ok();
            assert_eq!(super::is_fifo(), allowed);
            super::set_ordinary().unwrap();
            sender.send(allowed).unwrap();
            let _ = ended.recv();
            super::is_fifo()
        });
        let thread = thread.unwrap();
        let allowed = receiver.recv().unwrap();
        let own = std::process::id();
        assert!(super::set_fifo_of(own, "no-such-thread", 1).is_err());
        assert_eq!(super::set_fifo_of(own, "sched-test", 1).is_ok(), allowed);
        drop(end);
        assert_eq!(thread.join().unwrap(), allowed);
        assert!(!super::is_fifo(), "the priority is of that thread only");
    }

    #[test]
    fn slack_is_accepted() {
        super::set_timer_slack(1).unwrap();
    }
}
