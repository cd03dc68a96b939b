//! Wrappers for `unsafe` code and raw system calls: namespaces, TUN and `AF_PACKET` ports,
//! rtnetlink, processes and their signals, clocks and scheduling. This crate is independent of
//! labs; each module wraps one kernel interface in safe, owned types.
#![allow(missing_docs, reason = "not a public interface")]

pub mod clock;
pub mod confine;
mod error;
pub mod limits;
pub mod memory;
pub mod namespace;
pub mod netlink;
pub mod packet;
pub mod process;
pub mod ring;
pub mod sched;
pub mod socket;
pub mod sysctl;
pub mod timer;
pub mod tun;

pub use error::Error;

pub type Result<T> = std::result::Result<T, Error>;

/// Converts the result `-1` of a system call to an error with the call's name.
pub(crate) fn check(call: &'static str, result: libc::c_int) -> Result<libc::c_int> {
    if result == -1 { Err(Error::last(call)) } else { Ok(result) }
}

/// Adds the name of the system call to the error of a rustix call.
pub(crate) fn named<T>(call: &'static str, result: rustix::io::Result<T>) -> Result<T> {
    result.map_err(|errno| Error::from_errno(call, errno.raw_os_error()))
}
