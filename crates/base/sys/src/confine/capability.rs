//! Capabilities (capabilities(7)).

use crate::{Result, check};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities(u64);

macro_rules! capabilities {
    ($($name:ident = $number:literal),* $(,)?) => {
        impl Capabilities {
            $(
                #[doc = concat!("`CAP_", stringify!($name), "`")]
                pub const $name: Self = Self(1 << $number);
            )*
        }
    };
}

// Numbers from linux/capability.h.
capabilities! {
    CHOWN = 0, DAC_OVERRIDE = 1, FOWNER = 3, FSETID = 4, KILL = 5, SETGID = 6, SETUID = 7,
    SETPCAP = 8, NET_BIND_SERVICE = 10, NET_BROADCAST = 11, NET_ADMIN = 12, NET_RAW = 13,
    IPC_LOCK = 14, SYS_CHROOT = 18, SYS_ADMIN = 21, SYS_NICE = 23, SYS_RESOURCE = 24,
    SETFCAP = 31,
}

impl Capabilities {
    pub const NONE: Self = Self(0);

    /// The union of this set and `other`.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The intersection of both sets.
    #[must_use]
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether all of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The effective capabilities of the calling thread.
    pub fn effective() -> Result<Self> {
        Ok(Self::join(get()?.map(|half| half.effective)))
    }

    /// Whether the calling thread has these capabilities in its effective set.
    pub fn are_effective(self) -> bool {
        Self::effective().is_ok_and(|effective| effective.contains(self))
    }

    fn numbers(self) -> impl Iterator<Item = u32> {
        (0..u64::BITS).filter(move |bit| self.0 & 1 << bit != 0)
    }

    fn halves(self) -> [u32; 2] {
        [self.0 as u32, (self.0 >> u32::BITS) as u32]
    }

    fn join([low, high]: [u32; 2]) -> Self {
        Self(u64::from(high) << u32::BITS | u64::from(low))
    }
}

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// `struct __user_cap_data_struct`, of which version 3 has two.
#[derive(Clone, Copy)]
#[repr(C)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`.
const VERSION: u32 = 0x2008_0522;

/// Removes all capabilities except `keep` from the calling thread, including those that it, or its
/// children, could regain by executing a file.
pub fn limit(keep: Capabilities) -> Result<()> {
    // Dropping from the bounding set requires CAP_SETPCAP. Without it the thread either has no
    // capabilities, or gains none after `no_new_privs`.
    if Capabilities::SETPCAP.are_effective() {
        for number in Capabilities(!keep.0).numbers() {
            // SAFETY: takes integers only.
            let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, u64::from(number), 0, 0, 0) };
            match check("prctl(PR_CAPBSET_DROP)", result) {
                // The kernel has no capabilities from this number on.
                Err(error) if error.errno() == Some(libc::EINVAL) => break,
                result => result?,
            };
        }
    }
    let keep = keep.common(Capabilities::effective()?);
    // A filter of system calls may permit no change where none is needed.
    if is_limited(keep)? { Ok(()) } else { set(keep) }
}

/// Whether the calling thread, and what it executes, has exactly, or at most, these capabilities.
fn is_limited(keep: Capabilities) -> Result<bool> {
    let now = get()?;
    Ok(Capabilities::join(now.map(|half| half.permitted)) == keep
        && Capabilities::join(now.map(|half| half.effective)) == keep
        && keep.contains(Capabilities::join(now.map(|half| half.inheritable))))
}

/// Programs that the calling thread executes keep all of its capabilities without being root
/// (ambient capabilities).
pub(super) fn pass_on() -> Result<()> {
    let all = Capabilities::effective()?;
    set_with_inheritable(all, all)?;
    for number in all.numbers() {
        let raise = libc::PR_CAP_AMBIENT_RAISE as libc::c_ulong;
        // SAFETY: takes integers only.
        let result = unsafe {
            libc::prctl(libc::PR_CAP_AMBIENT, raise, libc::c_ulong::from(number), 0_u64, 0_u64)
        };
        check("prctl(PR_CAP_AMBIENT_RAISE)", result)?;
    }
    Ok(())
}

/// Sets permitted and effective capabilities, and clears the inheritable ones, of
/// the calling thread.
pub(super) fn set(capabilities: Capabilities) -> Result<()> {
    set_with_inheritable(capabilities, Capabilities::NONE)
}

fn get() -> Result<[Data; 2]> {
    let header = Header { version: VERSION, pid: 0 };
    let mut data = [Data { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: version 3 reads a header and fills two elements of data; both outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw const header, data.as_mut_ptr()) };
    check("capget", result as libc::c_int)?;
    Ok(data)
}

fn set_with_inheritable(capabilities: Capabilities, inheritable: Capabilities) -> Result<()> {
    let header = Header { version: VERSION, pid: 0 };
    let [own, passed] = [capabilities.halves(), inheritable.halves()];
    let half = |at: usize| Data { effective: own[at], permitted: own[at], inheritable: passed[at] };
    let data = [half(0), half(1)];
    // SAFETY: version 3 reads a header and two elements of data; both outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) };
    check("capset", result as libc::c_int)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> String {
        std::fs::read_to_string("/proc/thread-self/status").unwrap()
    }

    /// The lines of the capability sets.
    fn capabilities(status: &str) -> String {
        status.lines().filter(|line| line.starts_with("Cap")).collect()
    }

    #[test]
    fn limit_removes_capabilities_for_good() {
        // Capabilities are per thread.
        let work = || {
            let before = Capabilities::effective().unwrap();
            limit(Capabilities::NET_RAW).unwrap();
            let after = Capabilities::effective().unwrap();
            assert_eq!(after, before.common(Capabilities::NET_RAW));
            if before.contains(Capabilities::SETPCAP) {
                let status = status();
                assert!(status.contains("CapBnd:\t0000000000002000"), "{status}");
            }
            assert!(set(before).is_err() || before == after);
        };
        std::thread::spawn(work).join().unwrap();
    }

    #[test]
    fn limit_changes_nothing_where_nothing_is_to_remove() {
        let work = || {
            limit(Capabilities::NET_ADMIN.and(Capabilities::NET_RAW)).unwrap();
            pass_on().unwrap();
            let before = status();
            limit(Capabilities::NET_ADMIN.and(Capabilities::NET_RAW)).unwrap();
            assert_eq!(capabilities(&before), capabilities(&status()));
            // A change of the permitted set clears the inheritable one.
            limit(Capabilities::NET_RAW).unwrap();
            assert!(capabilities(&status()).contains("CapInh:\t0000000000000000"));
        };
        std::thread::spawn(work).join().unwrap();
    }
}
