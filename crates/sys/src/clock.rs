//! Clocks, as nanosecond counts.

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer; these clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of `CLOCK_MONOTONIC`: the clock of deadlines, the same for every process.
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970 (`CLOCK_REALTIME`): the clock of capture files and records.
pub fn realtime() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Nanoseconds of CPU that the calling thread has used.
pub fn thread_cpu() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds of CPU that this process has used, all threads together.
pub fn process_cpu() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
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
