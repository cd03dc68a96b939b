//! The minimal user-space network: reads packets from one TUN device and writes them to the other.
//! A faster network must save system calls; a slower one has avoidable costs.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::{Outcome, nanos};

/// Max packets of one device before the other one is served.
const BUDGET: usize = 64;

/// Copies between two non-blocking devices, which are standard input and standard output, and
/// reports on standard error.
pub(crate) fn copy(seconds: &str) -> Outcome {
    let (input, output) = (std::io::stdin(), std::io::stdout());
    let ends = [input.as_fd(), output.as_fd()];
    let end = sys::clock::monotonic() + nanos(seconds)?;
    let mut buffer = vec![0_u8; 1 << 17];
    let mut packets = 0_u64;
    while sys::clock::monotonic() < end {
        let mut polled = ends.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let timeout = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        rustix::event::poll(&mut polled, Some(&timeout))?;
        let ready = polled.map(|fd| !fd.revents().is_empty());
        if ready[0] {
            packets += drain(ends[0], ends[1], &mut buffer)?;
        }
        if ready[1] {
            packets += drain(ends[1], ends[0], &mut buffer)?;
        }
    }
    eprintln!("{{\"packets\":{packets},\"cpu_ns\":{}}}", sys::clock::thread_cpu());
    Ok(())
}

fn drain(from: BorrowedFd<'_>, to: BorrowedFd<'_>, buffer: &mut [u8]) -> rustix::io::Result<u64> {
    let mut packets = 0;
    for _ in 0..BUDGET {
        let count = match rustix::io::read(from, &mut *buffer) {
            Ok(count) => count,
            Err(Errno::AGAIN) => break,
            Err(errno) => return Err(errno),
        };
        // A device that is down drops the packet.
        if rustix::io::write(to, &buffer[..count]).is_ok() {
            packets += 1;
        }
    }
    Ok(packets)
}
