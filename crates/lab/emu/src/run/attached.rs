//! A run with a command of the user, which is attached to the terminal: the lab starts before the
//! command and ends after it.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use ::lab::plan::Plan;
use base::{NodeId, Span};
use cluster::control::ShardProgress;
use run::RunRecord;
use sys::process::{Received, Signal};

use super::message::ToLab;
use super::supervisor::{Controller, Hosts};
use super::{Options, supervise};
use crate::launch::Foreground;
use crate::{Error, Result};

/// Time between SIGTERM at the end of the duration and the end of the lab, which kills the command.
const TERM_TIMEOUT: Span = Span::from_secs(5);

/// A run whose command has ended.
#[derive(Debug)]
pub struct AttachedRun {
    pub record: RunRecord,
    /// Exit status of the command in the convention of shells; `None` if it was not started.
    pub status: Option<i32>,
}

/// Runs `plan`, and in it `command` on the host `node`. The command has the terminal, the
/// environment, the user, the working directory and the files of this process. Signals to this
/// process are passed on to it. The run ends with the command; at the end of the plan's duration
/// the command gets SIGTERM.
///
/// The calling process must have one thread.
///
/// # Errors
/// If the lab could not start, with the exit code of [`Error::exit_code`].
pub fn run_attached(
    plan: &Plan,
    options: &Options,
    node: NodeId,
    command: &[OsString],
) -> Result<AttachedRun> {
    let limit = plan.duration;
    let plan = Plan { duration: limit + TERM_TIMEOUT, ..plan.clone() };
    let node = plan.nodes[node.index()].name.clone();
    let mut attached = Attached { node, command, limit, state: State::Waiting };
    let record = supervise(&Arc::new(plan), options, None, &mut attached)?.record;
    Ok(AttachedRun { record, status: attached.status()? })
}

/// The command of the user as the controller of its lab.
struct Attached<'a> {
    node: String,
    command: &'a [OsString],
    limit: Span,
    state: State,
}

enum State {
    Waiting,
    Running { command: Foreground, stopped: bool },
    Ended(i32),
}

impl Attached<'_> {
    /// Exit status of the command, which ends with the lab.
    fn status(self) -> Result<Option<i32>> {
        match self.state {
            State::Waiting => Ok(None),
            State::Running { mut command, .. } => command.wait().map(Some),
            State::Ended(status) => Ok(Some(status)),
        }
    }
}

impl Controller for Attached<'_> {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            State::Running { command, .. } => Some(command.as_fd()),
            State::Waiting | State::Ended(_) => None,
        }
    }

    fn read(&mut self) -> Result<Vec<ToLab>> {
        let State::Running { command, .. } = &mut self.state else { return Ok(Vec::new()) };
        let Some(status) = command.exit_status()? else { return Ok(Vec::new()) };
        self.state = State::Ended(status);
        Ok(vec![ToLab::Complete])
    }

    fn on_ready(&mut self) -> Option<ToLab> {
        Some(ToLab::Start { common: None })
    }

    fn is_attached(&self) -> bool {
        true
    }

    fn on_started(&mut self, lab: u32, hosts: &Hosts) -> Result<()> {
        let missing = || Error::NoNamespace { node: self.node.clone() };
        let net = hosts.get(&self.node).ok_or_else(missing)?.net;
        let command = Foreground::start(lab, net, self.command)?;
        self.state = State::Running { command, stopped: false };
        Ok(())
    }

    fn handle_signal(&mut self, received: Received) -> Result<bool> {
        let State::Running { command, .. } = &self.state else { return Ok(false) };
        // The terminal has sent it to the command, too.
        if !received.from_keyboard {
            command.signal(received.signal)?;
        }
        Ok(true)
    }

    fn on_progress(&mut self, progress: ShardProgress, _name: &str) {
        let State::Running { command, stopped } = &mut self.state else { return };
        if !*stopped && progress.now_ns >= self.limit.as_nanos() {
            *stopped = true;
            // An error means that it has ended.
            let _ = command.signal(Signal::TERM);
        }
    }
}
