//! A filter of system calls (seccomp(2)): blocks calls that programs of a lab network do not need
//! and for which the kernel's attack surface is large.
//!
//! Blocked calls fail with `EPERM` (unknown ones, such as `clone3`, with `ENOSYS`, after which the
//! C library uses `clone`). The kernel caches the result for calls that are allowed with any
//! arguments, so the filter has no cost per packet.

use crate::{Error, Result};

/// `struct sock_filter`: classic BPF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    value: u32,
}

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    length: u16,
    instructions: *const Instruction,
}

const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
const JUMP_IF_GE: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
const IF_ANY_BIT: u16 = 0x45; // BPF_JMP | BPF_JSET | BPF_K
const RETURN: u16 = 0x06; // BPF_RET | BPF_K

// Fields of `struct seccomp_data`. Arguments are 64 bits wide; flags and commands are in the lower
// half, which comes first on both architectures.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const fn argument(index: u32) -> u32 {
    16 + 8 * index
}

const ALLOW: u32 = 0x7fff_0000; // SECCOMP_RET_ALLOW
const KILL: u32 = 0x8000_0000; // SECCOMP_RET_KILL_PROCESS
const fn fail(errno: libc::c_int) -> u32 {
    0x0005_0000 | errno as u32 // SECCOMP_RET_ERRNO
}

#[cfg(target_arch = "x86_64")]
const NATIVE: u32 = 0xc000_003e; // AUDIT_ARCH_X86_64
#[cfg(target_arch = "aarch64")]
const NATIVE: u32 = 0xc000_00b7; // AUDIT_ARCH_AARCH64

/// The filter knows no calls from this number on (`open_tree_attr` of Linux 6.15). New calls have
/// the same number on all architectures. Calls of the x32 ABI, which the kernel reports as x86-64,
/// have higher numbers, so this limit blocks them too.
const FIRST_UNKNOWN: u32 = 467;

/// Calls that fail with `EPERM`.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    // Namespaces of other processes.
    libc::SYS_setns,
    // The kernel, its modules and its state.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    // Large interfaces with many past vulnerabilities.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    // seccomp does not filter operations of io_uring, such as opening a socket.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
    #[cfg(target_arch = "x86_64")]
    libc::SYS__sysctl,
];

/// New namespaces, as flags of `unshare` and `clone`.
const NEW_NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// `CLONE_NEWTIME`, which is a part of the exit signal in the flags of `clone`.
const NEW_TIME: u32 = 0x80;

/// Calls that fail if an argument has a value or any of some bits.
struct Conditional {
    call: libc::c_long,
    argument: u32,
    test: u16,
    value: u32,
    errno: libc::c_int,
}

impl Conditional {
    const fn bits(call: libc::c_long, value: u32) -> Self {
        Self { call, argument: 0, test: IF_ANY_BIT, value, errno: libc::EPERM }
    }
}

const CONDITIONAL: [Conditional; 4] = [
    Conditional::bits(libc::SYS_unshare, NEW_NAMESPACES | NEW_TIME),
    Conditional::bits(libc::SYS_clone, NEW_NAMESPACES),
    // Both calls can insert input into the terminal that started the program.
    Conditional {
        call: libc::SYS_ioctl,
        argument: 1,
        test: IF_EQUAL,
        value: libc::TIOCSTI as u32,
        errno: libc::EPERM,
    },
    Conditional {
        call: libc::SYS_ioctl,
        argument: 1,
        test: IF_EQUAL,
        value: libc::TIOCLINUX as u32,
        errno: libc::EPERM,
    },
];

/// Socket families that network namespaces isolate. Others reach the hypervisor (`AF_VSOCK`),
/// processors of the host (`AF_QIPCRTR`) or the kernel's ciphers (`AF_ALG`), and the first socket
/// of such a family loads a kernel module.
const FAMILIES: [libc::c_int; 9] = [
    libc::AF_UNIX,
    libc::AF_INET,
    libc::AF_INET6,
    libc::AF_NETLINK,
    libc::AF_PACKET,
    libc::AF_KEY,
    libc::AF_CAN,
    libc::AF_TIPC,
    libc::AF_XDP,
];

const fn load(offset: u32) -> Instruction {
    Instruction { code: LOAD, if_true: 0, if_false: 0, value: offset }
}

/// Continues if the test holds, otherwise skips `others` instructions.
const fn unless_skip(test: u16, value: u32, others: u8) -> Instruction {
    Instruction { code: test, if_true: 0, if_false: others, value }
}

const fn end(action: u32) -> Instruction {
    Instruction { code: RETURN, if_true: 0, if_false: 0, value: action }
}

fn filter() -> Vec<Instruction> {
    let mut list = vec![
        load(ARCHITECTURE),
        // Other architectures have different call numbers.
        Instruction { code: IF_EQUAL, if_true: 1, if_false: 0, value: NATIVE },
        end(KILL),
        load(NUMBER),
    ];
    list.extend([unless_skip(JUMP_IF_GE, FIRST_UNKNOWN, 1), end(fail(libc::ENOSYS))]);
    // The flags of `clone3` are in memory, which a filter cannot read.
    list.extend([unless_skip(IF_EQUAL, libc::SYS_clone3 as u32, 1), end(fail(libc::ENOSYS))]);
    for call in REFUSED {
        list.extend([unless_skip(IF_EQUAL, *call as u32, 1), end(fail(libc::EPERM))]);
    }
    for one in CONDITIONAL {
        list.extend([
            unless_skip(IF_EQUAL, one.call as u32, 4),
            load(argument(one.argument)),
            unless_skip(one.test, one.value, 1),
            end(fail(one.errno)),
            load(NUMBER),
        ]);
    }
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        let count = FAMILIES.len() as u8;
        list.extend([unless_skip(IF_EQUAL, call as u32, count + 3), load(argument(0))]);
        // Each skips the other families and the error.
        list.extend((1..=count).rev().zip(FAMILIES).map(|(skipped, family)| Instruction {
            code: IF_EQUAL,
            if_true: skipped,
            if_false: 0,
            value: family as u32,
        }));
        list.extend([end(fail(libc::EAFNOSUPPORT)), load(NUMBER)]);
    }
    list.push(end(ALLOW));
    list
}

/// Installs the filter for the calling thread and its children; it cannot be removed. Requires
/// `no_new_privs`, see [`super::forbid_new_privileges`].
///
/// # Errors
/// The error of the kernel (`EINVAL`: it has no seccomp).
pub fn install() -> Result<()> {
    let filter = filter();
    let program = Program { length: filter.len() as u16, instructions: filter.as_ptr() };
    // Speculative execution mitigations for filtered processes cost every program several percent;
    // kernels since 5.16 disable them by default.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: `program` describes `filter`; both outlive the call, which copies them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::c_ulong::from(libc::SECCOMP_SET_MODE_FILTER),
            flags,
            &raw const program,
        )
    };
    match result {
        0 => Ok(()),
        // With TSYNC: the number of a thread that has another filter.
        1.. => Err(Error::from_errno("seccomp", libc::ESRCH)),
        _ => Err(Error::last("seccomp")),
    }
}

#[cfg(test)]
mod tests;
