//! Clocks, as nanosecond counts.

use rustix::time::{ClockId, clock_gettime};

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of `CLOCK_MONOTONIC`: the clock of deadlines, the same for every process.
pub fn monotonic() -> u64 {
    read(ClockId::Monotonic)
}

/// Nanoseconds since 1970 (`CLOCK_REALTIME`): the clock of capture files and records.
pub fn realtime() -> u64 {
    read(ClockId::Realtime)
}

/// Nanoseconds of CPU that the calling thread has used.
pub fn thread_cpu() -> u64 {
    read(ClockId::ThreadCPUTime)
}

/// Nanoseconds of CPU that this process has used, all threads together.
pub fn process_cpu() -> u64 {
    read(ClockId::ProcessCPUTime)
}

#[cfg(test)]
mod tests {
    #[test]
    fn clocks_advance() {
        let (wall, real, cpu) = (super::monotonic(), super::realtime(), super::thread_cpu());
        let mut sum = 0_u64;
        while super::monotonic() - wall < 2_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(super::realtime() > real && super::thread_cpu() > cpu);
        assert!(super::process_cpu() >= super::thread_cpu());
    }
}
