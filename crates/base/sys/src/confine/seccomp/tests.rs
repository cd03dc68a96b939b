use super::*;

/// Evaluates the filter as the kernel does.
fn verdict(architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let filter = filter();
    let (mut at, mut accumulator) = (0, 0);
    loop {
        let Instruction { code, if_true, if_false, value } = filter[at];
        let jump = |condition: bool| usize::from(if condition { if_true } else { if_false });
        at += 1;
        match code {
            LOAD => {
                accumulator = match value {
                    NUMBER => number,
                    ARCHITECTURE => architecture,
                    offset => arguments[(offset as usize - 16) / 8] as u32,
                }
            }
            IF_EQUAL => at += jump(accumulator == value),
            JUMP_IF_GE => at += jump(accumulator >= value),
            IF_ANY_BIT => at += jump(accumulator & value != 0),
            RETURN => return value,
            _ => panic!("unknown instruction {code:#x}"),
        }
    }
}

fn native(call: libc::c_long, arguments: [u64; 6]) -> u32 {
    verdict(NATIVE, call as u32, arguments)
}

#[test]
fn refuses_listed_calls_and_allows_others() {
    for call in REFUSED {
        assert_eq!(native(*call, [0; 6]), fail(libc::EPERM), "{call}");
    }
    for call in 0..500 {
        let expected = match call {
            libc::SYS_clone3 | 467.. => fail(libc::ENOSYS),
            call if REFUSED.contains(&call) => fail(libc::EPERM),
            // Of the family `AF_UNSPEC`.
            libc::SYS_socket | libc::SYS_socketpair => fail(libc::EAFNOSUPPORT),
            _ => ALLOW,
        };
        assert_eq!(native(call, [0; 6]), expected, "{call}");
    }
}

/// The filter does not see operations of `io_uring`, which can open sockets of blocked families.
#[test]
fn refuses_io_uring() {
    for call in [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register] {
        assert_eq!(native(call, [0; 6]), fail(libc::EPERM), "{call}");
    }
}

#[test]
fn refuses_new_namespaces_but_allows_threads() {
    let thread = (libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_THREAD) as u64;
    for flag in [libc::CLONE_NEWUSER, libc::CLONE_NEWNET, libc::CLONE_NEWNS, libc::CLONE_NEWPID] {
        for call in [libc::SYS_clone, libc::SYS_unshare] {
            let flags = flag as u32 as u64;
            assert_eq!(native(call, [flags, 0, 0, 0, 0, 0]), fail(libc::EPERM));
            assert_eq!(native(call, [flags | thread, 0, 0, 0, 0, 0]), fail(libc::EPERM));
        }
    }
    assert_eq!(native(libc::SYS_clone, [thread, 0, 0, 0, 0, 0]), ALLOW);
    assert_eq!(native(libc::SYS_unshare, [libc::CLONE_FILES as u64, 0, 0, 0, 0, 0]), ALLOW);
}

#[test]
fn refuses_by_argument_value() {
    // The kernel ignores the upper half of a command.
    let ioctl = |command: u64| native(libc::SYS_ioctl, [0, command, 0, 0, 0, 0]);
    assert_eq!(ioctl(libc::TIOCSTI), fail(libc::EPERM));
    assert_eq!(ioctl(libc::TIOCSTI | 1 << 40), fail(libc::EPERM));
    assert_eq!(ioctl(libc::FIONREAD), ALLOW);
}

/// `AF_VSOCK`, `AF_ALG`, `AF_QIPCRTR`, and those of later kernels.
#[test]
fn refuses_sockets_that_no_network_namespace_separates() {
    for family in 0..200 {
        let is_separate = FAMILIES.contains(&family);
        let expected = if is_separate { ALLOW } else { fail(libc::EAFNOSUPPORT) };
        for call in [libc::SYS_socket, libc::SYS_socketpair] {
            // The kernel ignores the upper half of the number.
            for number in [family as u64, family as u64 | 1 << 40] {
                assert_eq!(native(call, [number, 0, 0, 0, 0, 0]), expected, "{call} {family}");
            }
        }
    }
    for family in [libc::AF_VSOCK, libc::AF_ALG, 42] {
        assert!(!FAMILIES.contains(&family), "{family}");
    }
}

#[test]
fn kills_other_architectures_and_refuses_x32() {
    let (i386, arm) = (0x4000_0003, 0x4000_0028);
    for architecture in [i386, arm, 0] {
        assert_eq!(verdict(architecture, libc::SYS_read as u32, [0; 6]), KILL);
    }
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_read, libc::SYS_mount] {
        let number = call as u32 | 0x4000_0000;
        assert_eq!(verdict(NATIVE, number, [0; 6]), fail(libc::ENOSYS));
    }
}

#[test]
fn installed_filter_refuses_calls_of_its_thread_only() {
    let confined = || {
        super::super::forbid_new_privileges().unwrap();
        install().unwrap();
        crate::namespace::unshare(crate::namespace::Kinds::USER).unwrap_err().errno()
    };
    assert_eq!(std::thread::spawn(confined).join().unwrap(), Some(libc::EPERM));
    // Threads and other programs still start.
    let status = std::process::Command::new("/bin/true").status().unwrap();
    assert!(status.success());
}
