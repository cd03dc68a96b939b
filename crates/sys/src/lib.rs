//! Everything that needs `unsafe` or a raw system call: namespaces, TUN and `AF_PACKET` ports,
//! rtnetlink, processes and their signals, clocks and scheduling. Nothing here knows what a lab
//! is; each module wraps one kernel interface in safe, owned types.

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

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;

/// Turns the `-1` of a system call into an error that names it.
pub(crate) fn check(call: &'static str, result: libc::c_int) -> Result<libc::c_int> {
    if result == -1 { Err(Error::last(call)) } else { Ok(result) }
}
