//! One start of a program.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{PipeReader, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use base::ProgramId;
use lab::plan::Command;
use sys::confine::environment;
use sys::namespace::Kinds;
use sys::process::{Child, Exit, InitReport, ProgramSetup, Signal, Spawn, spawn};

use super::output::Collector;
use super::{INIT, NodeNamespaces, Slot};
use crate::{Error, Result};

#[derive(Debug)]
pub(super) enum End {
    Exit(Exit),
    /// The program could not be executed.
    NotExecuted(Error),
}

#[derive(Debug)]
pub(super) struct Instance {
    child: Child,
    report: PipeReader,
    program: String,
    user: String,
    command: String,
    dir: PathBuf,
    /// Files of standard output and error, with their lengths at the start.
    pub(super) output: [(PathBuf, u64); 2],
    /// Their stream keys in the collector.
    pub(super) streams: [u64; 2],
}

/// The argument vector.
pub(super) fn argument_vector(command: &Command) -> Vec<OsString> {
    match command {
        Command::Shell(line) => vec!["/bin/sh".into(), "-c".into(), line.into()],
        Command::Exec(words) => words.iter().map(OsString::from).collect(),
    }
}

fn text(bytes: Vec<u8>) -> sys::Result<CString> {
    CString::new(bytes)
        .map_err(|error| sys::Error::Nul(String::from_utf8_lossy(&error.into_vec()).into_owned()))
}

/// Starts `setup` under an init in the namespaces of its node.
pub(super) fn start_init(
    setup: &ProgramSetup,
    additions: &BTreeMap<String, String>,
    namespaces: &NodeNamespaces,
    output: [BorrowedFd<'_>; 2],
) -> sys::Result<(Child, PipeReader)> {
    let (reader, writer) =
        std::io::pipe().map_err(|cause| sys::Error::Call { call: "pipe", cause })?;
    let null = File::open("/dev/null").map_err(|e| sys::Error::file("open", "/dev/null", e))?;
    let mut variables: BTreeMap<OsString, OsString> = environment::inherited().collect();
    variables.extend(additions.iter().map(|(name, value)| (name.into(), value.into())));
    let variable = |(name, value): (OsString, OsString)| {
        let mut bytes = name.into_vec();
        bytes.push(b'=');
        bytes.extend_from_slice(value.as_bytes());
        text(bytes)
    };
    let arguments = ["netarium".into(), INIT.into()].into_iter().chain(setup.to_arguments());
    let child = spawn(&Spawn {
        program: namespaces.executable.as_fd(),
        arguments: arguments
            .map(|word: OsString| text(word.into_vec()))
            .collect::<sys::Result<_>>()?,
        environment: variables.into_iter().map(variable).collect::<sys::Result<_>>()?,
        net: namespaces.net.as_fd(),
        mounts: namespaces.mounts.as_ref().map(AsFd::as_fd),
        namespaces: Kinds::PID | Kinds::MOUNT | Kinds::UTS,
        files: vec![null.as_fd(), output[0], output[1], writer.as_fd()],
    })?;
    Ok((child, reader))
}

/// Whether the command of a failed execution exists.
fn is_found(command: &str) -> bool {
    let search = std::env::var_os("PATH").unwrap_or_default();
    command.contains('/') || std::env::split_paths(&search).any(|dir| dir.join(command).exists())
}

impl Instance {
    pub(super) fn start(
        id: ProgramId,
        slot: &Slot,
        namespaces: &NodeNamespaces,
        collector: &Collector,
    ) -> Result<Self> {
        let [out, err] = ["stdout", "stderr"].map(|name| slot.output.join(name));
        let stdout = collector.open(id.index(), &out)?;
        let stderr = collector.open(id.index(), &err)?;
        let program = &slot.program;
        let setup = ProgramSetup {
            host: slot.host.clone().into(),
            dir: slot.dir.clone(),
            daemon: program.service,
            privileged: program.privileged,
            private_files: namespaces.mounts.is_some(),
            user: slot.user.clone(),
            command: argument_vector(&program.command),
        };
        let files = [stdout.pipe.as_fd(), stderr.pipe.as_fd()];
        let started = start_init(&setup, &slot.env, namespaces, files);
        let (child, report) =
            started.map_err(|cause| Error::NotStarted { program: program.name.clone(), cause })?;
        Ok(Self {
            child,
            report,
            program: program.name.clone(),
            user: program.user.as_ref().map(|user| user.name.clone()).unwrap_or_default(),
            command: setup.command[0].to_string_lossy().into_owned(),
            dir: setup.dir,
            output: [(out, stdout.length), (err, stderr.length)],
            streams: [stdout.key, stderr.key],
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// How the program ended; `None` if it runs.
    pub(super) fn poll(&mut self) -> Option<End> {
        // An error means that another call has already waited for the process: it has ended.
        let exit = self.child.try_wait().unwrap_or(Some(Exit::Signal(9)))?;
        let mut bytes = Vec::new();
        // The init has ended, and so has every other process with the pipe's writing end.
        let _ = self.report.read_to_end(&mut bytes);
        let mut reported = exit;
        let refused = |errno, wrong| {
            let cause = std::io::Error::from_raw_os_error(errno);
            let (program, command) = (self.program.clone(), self.command.clone());
            let dir = self.dir.clone();
            End::NotExecuted(match (wrong, cause.kind()) {
                (InitReport::NoDirectory(_), _) => Error::NoDirectory { program, dir, cause },
                (InitReport::NotConfined(_), _) => Error::NotConfined { program, cause },
                (InitReport::NoUser(_), _) => {
                    Error::NoUser { program, user: self.user.clone(), cause }
                }
                (_, std::io::ErrorKind::NotFound) => Error::NotFound { program, command },
                // A directory in `PATH` without access gives "permission denied".
                _ if !is_found(&command) => Error::NotFound { program, command },
                _ => Error::NotExecutable { program, command, cause },
            })
        };
        for report in InitReport::parse(&bytes) {
            match report {
                InitReport::NotExecuted(errno)
                | InitReport::NoDirectory(errno)
                | InitReport::NotConfined(errno)
                | InitReport::NoUser(errno) => {
                    return Some(refused(errno, report));
                }
                InitReport::Ended(exit) => reported = exit,
            }
        }
        Some(End::Exit(reported))
    }

    /// Sends a signal to the init, which forwards termination signals.
    pub(super) fn signal(&self, signal: Signal) {
        // An error means that it has ended.
        let _ = self.child.signal(signal);
    }
}

impl AsFd for Instance {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.child.as_fd()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
