//! Confinement of processes: capabilities, system calls, environment, and visible files and devices
//! of the host.

pub mod capability;
pub mod environment;
pub mod private;
pub mod seccomp;
pub mod user;
pub mod view;

pub use capability::Capabilities;

use crate::{Result, check, limits};

/// Capabilities of a program in a lab. They are valid in the lab's user namespace: for its network
/// namespaces, and for files whose owner and group are mapped into it.
pub const PROGRAM: Capabilities = Capabilities::CHOWN
    .and(Capabilities::DAC_OVERRIDE)
    .and(Capabilities::FOWNER)
    .and(Capabilities::FSETID)
    .and(Capabilities::KILL)
    .and(Capabilities::SETGID)
    .and(Capabilities::SETUID)
    .and(Capabilities::SETPCAP)
    .and(Capabilities::NET_BIND_SERVICE)
    .and(Capabilities::NET_BROADCAST)
    .and(Capabilities::NET_ADMIN)
    .and(Capabilities::NET_RAW)
    .and(Capabilities::IPC_LOCK)
    .and(Capabilities::SYS_CHROOT)
    // FRR's zebra does not start without it. The system calls that it permits here, mainly mounts,
    // are blocked by the filter.
    .and(Capabilities::SYS_ADMIN);

/// Confines the calling thread, and the processes that it starts, like a program of a lab:
/// limited capabilities, no privileges gained by executing a file, no real-time scheduling,
/// filtered system calls.
pub fn program() -> Result<()> {
    limits::forbid_realtime()?;
    capability::limit(PROGRAM)?;
    forbid_new_privileges()?;
    seccomp::install()
}

/// Executing a file no longer gives the calling thread, or its children, more privileges
/// (`PR_SET_NO_NEW_PRIVS`).
pub fn forbid_new_privileges() -> Result<()> {
    // SAFETY: takes integers only.
    let result = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1_u64, 0_u64, 0_u64, 0_u64) };
    check("prctl(PR_SET_NO_NEW_PRIVS)", result)?;
    Ok(())
}
