//! Batches of datagrams: one system call for many, and the kernel's receive timestamps.

use std::os::fd::{AsRawFd, BorrowedFd};

use super::{count, set};
use crate::{Result, clock};

/// Maximum number of datagrams per call.
pub const BATCH: usize = 16;

/// A received datagram: its first bytes, length and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<const N: usize> {
    /// The first `N` bytes, if the datagram has that many.
    pub head: [u8; N],
    /// The length of the whole payload in bytes.
    pub length: usize,
    /// Receive time in the kernel, in nanoseconds of `CLOCK_MONOTONIC`.
    pub at: u64,
}

/// Enables receive timestamps, which the kernel takes before it wakes any process.
pub fn set_arrival_stamps(socket: BorrowedFd<'_>) -> Result<()> {
    let call = "setsockopt(SO_TIMESTAMPNS)";
    set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1 as libc::c_int, call)
}

/// Sends up to [`BATCH`] datagrams to the socket's peer, each consisting of one of `heads` and all
/// of `rest`. Returns the number that the kernel accepted. `None`: its buffer is full.
pub fn send_datagrams<const N: usize>(
    socket: BorrowedFd<'_>,
    heads: &[[u8; N]],
    rest: &[u8],
) -> Result<Option<usize>> {
    let heads = &heads[..heads.len().min(BATCH)];
    let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut parts = [[empty; 2]; BATCH];
    for (part, head) in parts.iter_mut().zip(heads) {
        part[0] = libc::iovec { iov_base: head.as_ptr().cast_mut().cast(), iov_len: N };
        part[1] = libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
    }
    let mut messages = [no_message(); BATCH];
    for (message, part) in messages.iter_mut().zip(&mut parts) {
        message.msg_hdr.msg_iov = part.as_mut_ptr();
        message.msg_hdr.msg_iovlen = 2;
    }
    // SAFETY: every message points at two slices that outlive the call; sending only reads them.
    let sent = unsafe {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), heads.len() as _, flags as _)
    };
    count("sendmmsg", sent as isize)
}

/// Receives up to [`BATCH`] datagrams and passes each to `each`; returns their number. Only the
/// first `N` bytes of a payload are copied. Receive times are those of the kernel after
/// [`set_arrival_stamps`], otherwise that of this call.
pub fn receive_datagrams<const N: usize>(
    socket: BorrowedFd<'_>,
    mut each: impl FnMut(Arrival<N>),
) -> Result<usize> {
    let mut heads = [[0_u8; N]; BATCH];
    // Words, because control messages are aligned like their header.
    let mut controls = [[0_u64; 8]; BATCH];
    let empty = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut parts = [empty; BATCH];
    let mut messages = [no_message(); BATCH];
    for (index, message) in messages.iter_mut().enumerate() {
        let head = heads[index].as_mut_ptr().cast();
        parts[index] = libc::iovec { iov_base: head, iov_len: N };
        message.msg_hdr.msg_iov = &raw mut parts[index];
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_control = controls[index].as_mut_ptr().cast();
        message.msg_hdr.msg_controllen = size_of_val(&controls[index]) as _;
    }
    // SAFETY: every message points at a head and a control buffer of the lengths it states, which
    // outlive the call. MSG_TRUNC makes the length that of the whole datagram.
    let got = unsafe {
        let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
        let none = std::ptr::null_mut();
        libc::recvmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), BATCH as _, flags as _, none)
    };
    let Some(got) = count("recvmmsg", got as isize)? else { return Ok(0) };
    let (now, wall) = (clock::monotonic(), clock::realtime());
    for (message, head) in messages.iter().zip(heads).take(got) {
        // SAFETY: the kernel has filled this message.
        let stamp = unsafe { stamp(&message.msg_hdr) };
        let at = stamp.map_or(now, |stamp| to_monotonic(stamp, wall, now));
        each(Arrival { head, length: message.msg_len as usize, at });
    }
    Ok(got)
}

/// The kernel's timestamps use the wall clock, which may be set meanwhile: a time in the future, or
/// more than ten seconds ago, counts as now.
fn to_monotonic(stamp: u64, wall: u64, now: u64) -> u64 {
    match wall.checked_sub(stamp) {
        Some(age) if age < 10_000_000_000 => now.saturating_sub(age),
        _ => now,
    }
}

fn no_message() -> libc::mmsghdr {
    // SAFETY: null pointers and zero lengths are a valid, empty message.
    unsafe { std::mem::zeroed() }
}

/// The arrival time of a received message, in nanoseconds of `CLOCK_REALTIME`.
///
/// # Safety
/// The kernel has filled `header` and the control buffer that it describes.
unsafe fn stamp(header: &libc::msghdr) -> Option<u64> {
    // SAFETY: the control buffer is as `header` describes it; the macros stay within it, and
    // a time stamp's data is a `timespec`, possibly unaligned.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            let is_stamp = (*control).cmsg_level == libc::SOL_SOCKET
                && (*control).cmsg_type == libc::SCM_TIMESTAMPNS;
            if is_stamp {
                let time = libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned();
                return Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64);
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_clock_that_was_set_does_not_bend_arrivals() {
        let at = |stamp| super::to_monotonic(stamp, 1_000_000_000_000, 50_000_000_000);
        assert_eq!(at(999_999_999_000), 49_999_999_000);
        assert_eq!(at(1_000_000_000_001), 50_000_000_000);
        assert_eq!(at(1_000), 50_000_000_000);
    }
}
