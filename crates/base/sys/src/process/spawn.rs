//! Starts a program in namespaces from a process with many threads.

use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use super::Child;
use crate::namespace::Kinds;
use crate::{Error, Result, check};

#[derive(Debug)]
pub struct Spawn<'a> {
    /// The file to execute. The program can find its mount, and with it the permission to change
    /// the file, in `/proc/self/exe`.
    pub program: BorrowedFd<'a>,
    /// Its arguments, including its name.
    pub arguments: Vec<CString>,
    /// Its environment, `NAME=value`.
    pub environment: Vec<CString>,
    pub net: BorrowedFd<'a>,
    /// The mount namespace of the program, of which it gets a copy; `None`: that of this process.
    pub mounts: Option<BorrowedFd<'a>>,
    /// New namespaces; with `PID` the program is process 1.
    pub namespaces: Kinds,
    /// Descriptors 0, 1, 2 and so on of the program. It inherits no others.
    pub files: Vec<BorrowedFd<'a>>,
}

/// Data for the child, prepared by the parent: the child shares its memory and must not allocate.
struct Plan {
    program: libc::c_int,
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
    net: libc::c_int,
    /// -1: none.
    mounts: libc::c_int,
    files: *const libc::c_int,
    file_count: libc::c_int,
    /// Result of the child: the error number, and the failed step.
    failure: (libc::c_int, &'static str),
}

/// Runs in the child on a separate stack, while the parent's thread is suspended.
extern "C" fn child(plan: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the parent passes a `Plan` that lives until the child has executed or ended, and
    // everything it points to does too; only system calls are made.
    unsafe {
        let plan = &mut *plan.cast::<Plan>();
        let mut step = "setns";
        let mut ok = libc::setns(plan.net, libc::CLONE_NEWNET) == 0;
        if ok && plan.mounts != -1 {
            step = "setns to the node's files";
            ok = libc::setns(plan.mounts, libc::CLONE_NEWNS) == 0
                && libc::unshare(libc::CLONE_NEWNS) == 0;
        }
        if ok {
            step = "setsid";
            ok = libc::setsid() != -1;
        }
        for at in 0..plan.file_count {
            if ok {
                step = "dup2";
                ok = libc::dup2(*plan.files.offset(at as isize), at) != -1;
            }
        }
        if ok {
            // Close all other descriptors (Linux 5.9). Those of this process close on exec anyway.
            let close = |first: libc::c_int, last: libc::c_uint| {
                libc::syscall(libc::SYS_close_range, first, last, 0)
            };
            close(plan.file_count, (plan.program - 1) as libc::c_uint);
            close(plan.program + 1, libc::c_uint::MAX);
            // Ignored signals would stay ignored; handled ones get the default on exec.
            for signal in 1..=libc::SIGRTMAX() {
                libc::signal(signal, libc::SIG_DFL);
            }
            step = "execveat";
            libc::syscall(
                libc::SYS_execveat,
                plan.program,
                c"".as_ptr(),
                plan.arguments,
                plan.environment,
                libc::AT_EMPTY_PATH,
            );
        }
        plan.failure = (*libc::__errno_location(), step);
        libc::_exit(127)
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Starts a program, with all signals blocked until it unblocks them.
///
/// # Errors
/// The failed step, from the new namespaces to the execution.
pub fn spawn(request: &Spawn<'_>) -> Result<Child> {
    const STACK: usize = 64 * 1024;
    // Duplicates with higher numbers than those of the program.
    let above = request.files.len() as libc::c_int;
    let duplicate = |file: &BorrowedFd<'_>| {
        // SAFETY: the descriptor is open.
        let copy = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, above) };
        // SAFETY: the kernel has just given us this descriptor.
        Result::Ok(unsafe { OwnedFd::from_raw_fd(check("fcntl(F_DUPFD_CLOEXEC)", copy)?) })
    };
    let files = request.files.iter().map(duplicate).collect::<Result<Vec<_>>>()?;
    let program = duplicate(&request.program)?;
    let numbers: Vec<libc::c_int> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let (arguments, environment) = (pointers(&request.arguments), pointers(&request.environment));
    let mut plan = Plan {
        program: program.as_raw_fd(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        net: request.net.as_raw_fd(),
        mounts: request.mounts.map_or(-1, |mounts| mounts.as_raw_fd()),
        files: numbers.as_ptr(),
        file_count: above,
        failure: (0, ""),
    };
    let mut stack = vec![0_u128; STACK / 16];
    let flags = request.namespaces.0
        | libc::CLONE_VM
        | libc::CLONE_VFORK
        | libc::CLONE_PIDFD
        | libc::SIGCHLD;
    let mut pidfd: libc::c_int = -1;
    // SAFETY: the signal sets are plain data. The child runs `child` with a stack and a plan that
    // outlive it, because CLONE_VFORK returns after it has executed or ended. No signal handler
    // can run in it, because all signals are blocked.
    let (pid, error) = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let top = stack.as_mut_ptr().add(stack.len());
        let plan = (&raw mut plan).cast();
        let pid = libc::clone(child, top.cast(), flags, plan, &raw mut pidfd);
        let error = Error::last("clone");
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        (pid, error)
    };
    if pid == -1 {
        return Err(error);
    }
    // SAFETY: the kernel has just given us this descriptor.
    let mut started = Child::from_parts(pid as u32, unsafe { OwnedFd::from_raw_fd(pidfd) });
    let (errno, step) = plan.failure;
    if errno != 0 {
        started.wait()?;
        return Err(Error::from_errno(step, errno));
    }
    Ok(started)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;
    use crate::process::Exit;

    fn text(text: &str) -> CString {
        CString::new(text).unwrap()
    }

    #[test]
    fn a_program_gets_its_files_and_environment() {
        let net = crate::namespace::current_net().unwrap();
        let (null, shell) = (File::open("/dev/null").unwrap(), File::open("/bin/sh").unwrap());
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut child = match spawn(&Spawn {
            program: shell.as_fd(),
            arguments: vec![
                text("sh"),
                text("-c"),
                text("echo $WHAT $$; ls /proc/self/fd; exit 3"),
            ],
            environment: vec![text("WHAT=pid"), text("PATH=/usr/bin:/bin")],
            net: net.as_fd(),
            mounts: None,
            namespaces: Kinds::PID,
            files: vec![null.as_fd(), writer.as_fd(), null.as_fd()],
        }) {
            Ok(child) => child,
            Err(error) if error.is_denied() => {
                eprintln!("SKIPPED a_program_gets_its_files_and_environment: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        drop(writer);
        let mut output = String::new();
        reader.read_to_string(&mut output).unwrap();
        assert_eq!(child.wait().unwrap(), Exit::Code(3));
        // `ls` uses descriptor 3 for reading the folder.
        assert_eq!(output, "pid 1\n0\n1\n2\n3\n");
    }

    #[test]
    fn a_file_that_is_no_program_is_an_error() {
        let net = crate::namespace::current_net().unwrap();
        let null = File::open("/dev/null").unwrap();
        let error = spawn(&Spawn {
            program: null.as_fd(),
            arguments: vec![text("x")],
            environment: vec![],
            net: net.as_fd(),
            mounts: None,
            namespaces: Kinds::NONE,
            files: vec![],
        });
        match error.unwrap_err() {
            error if error.to_string().starts_with("setns") => {
                eprintln!("SKIPPED a_file_that_is_no_program_is_an_error: {error}");
            }
            error => assert_eq!(error.errno(), Some(libc::EACCES), "{error}"),
        }
    }
}
