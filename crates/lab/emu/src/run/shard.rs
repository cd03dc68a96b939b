//! The agent as the controller of a shard of a lab.

use std::io::BufReader;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use cluster::control::{FromShard, ProgramEvent, ShardProgress, ToShard};

use super::lines::lines;
use super::message::{self, ToLab};
use super::supervisor::Controller;
use super::{Options, supervise};
use crate::shard::{Shard, Sockets};
use crate::{Error, Result};

/// Runs a shard of a lab until the lab ends. Sends [`FromShard`] and receives [`ToShard`] on
/// `control`. At end-of-file the agent has ended, and the shard ends in an orderly way.
///
/// The calling process has one thread and holds no other copy of `control`.
///
/// # Errors
/// If the shard could not start or failed; the error is reported on `control` as well.
pub fn run_shard(
    shard: Shard,
    trunk: OwnedFd,
    notices: OwnedFd,
    control: UnixStream,
) -> Result<()> {
    for fd in [&trunk, &notices] {
        rustix::io::ioctl_fionbio(fd, true).map_err(|errno| Error::Channel(errno.into()))?;
    }
    let mut agent = Agent { stream: Some(BufReader::new(control)), is_gone: false };
    let ended = run(shard, Sockets { trunk, notices }, &mut agent);
    agent.send(&match &ended {
        Ok(folder) => FromShard::Finished { folder: folder.clone() },
        Err(error) => FromShard::Failed { text: error.to_string(), code: error.exit_code().code() },
    });
    ended.map(drop)
}

fn run(shard: Shard, sockets: Sockets, agent: &mut Agent) -> Result<PathBuf> {
    let options = Options {
        runs_dir: shard.runs_dir.clone(),
        lab_dir: shard.lab_dir.clone(),
        repeat: String::new(),
        engine: shard.engine,
        stay: shard.stay,
        starter: None,
        up: None,
    };
    let plan = Arc::clone(&shard.plan);
    let ended = supervise(&plan, &options, Some((shard, sockets)), agent)?;
    match ended.record.failure {
        Some(failure) if ended.vanished => Err(Error::Lab(failure)),
        _ => Ok(ended.folder.path().to_owned()),
    }
}

/// The agent's end of a control socket.
struct Agent {
    /// `None` in the lab's process: the agent reads end-of-file when this process ends.
    stream: Option<BufReader<UnixStream>>,
    is_gone: bool,
}

impl Agent {
    fn send(&self, message: &FromShard) {
        if let Some(stream) = &self.stream {
            message::send(stream.get_ref(), message);
        }
    }
}

impl Controller for Agent {
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().filter(|_| !self.is_gone).map(|stream| stream.get_ref().as_fd())
    }

    fn read(&mut self) -> Result<Vec<ToLab>> {
        let Some(stream) = &mut self.stream else { return Ok(Vec::new()) };
        let mut messages = Vec::new();
        for line in lines(stream)? {
            let Some(line) = line else {
                self.is_gone = true;
                messages.push(ToLab::Stop);
                break;
            };
            // Messages of another version are ignored.
            messages.extend(message::parse(&line).map(|message| to_lab(&message)));
        }
        Ok(messages)
    }

    fn close(&mut self) {
        self.stream = None;
    }

    fn on_ready(&mut self) -> Option<ToLab> {
        self.send(&FromShard::Ready);
        None
    }

    fn on_progress(&mut self, progress: ShardProgress, _name: &str) {
        self.send(&FromShard::Progress(progress));
    }

    fn on_program(&mut self, event: ProgramEvent) {
        self.send(&FromShard::Program(event));
    }
}

/// A message of the agent, for the lab.
fn to_lab(message: &ToShard) -> ToLab {
    match *message {
        ToShard::Start { origin_ns, bound_ns } => {
            ToLab::Start { common: Some(message::CommonStart { origin_ns, bound_ns }) }
        }
        ToShard::Clock { origin_ns, bound_ns } => {
            ToLab::Clock(message::CommonStart { origin_ns, bound_ns })
        }
        ToShard::Lost { agent } => ToLab::Lost { agent },
        ToShard::Regained { agent } => ToLab::Regained { agent },
        ToShard::Lead { agent, lead_ns } => ToLab::Lead { agent, lead_ns },
        ToShard::Program(event) => ToLab::Program(event),
        ToShard::Stop => ToLab::Stop,
    }
}
