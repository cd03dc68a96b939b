//! A piece of a lab, as its own process sees it: between the agent and the lab's process.

use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::Span;
use cluster::control::{FromPiece, PieceProgress, ToPiece};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::message::{self, FromLab, ToLab};
use super::{Begun, Options, Signals, Usher, begin, lab, remains};
use crate::launch::{self, LabHandle};
use crate::oom::OomKills;
use crate::piece::{Piece, Sockets};
use crate::{Error, Result};

/// A lab's process that runs and says nothing for so long hangs: it speaks five times a second.
const SILENCE: Duration = Duration::from_secs(10);

/// One that was told to end may be silent for so long, beside its programs' grace: it ends
/// programs and namespaces, and writes results.
const ENDING: Duration = Duration::from_secs(60);

/// Runs the piece; its folder. `news` is a copy of `control` that the lab's process must not keep.
pub(crate) fn run(
    piece: Piece,
    sockets: Sockets,
    control: UnixStream,
    news: &mut Option<UnixStream>,
) -> Result<PathBuf> {
    let plan = Arc::clone(&piece.plan);
    let options = Options {
        runs_dir: piece.runs_dir.clone(),
        lab_dir: piece.lab_dir.clone(),
        repeat: String::new(),
        engine: piece.engine,
        stay: piece.stay,
        starter: None,
    };
    let oom_kills = OomKills::watch();
    let Begun { folder, record, choice } = begin(&plan, &options)?;
    let job = lab::Job {
        plan: Arc::clone(&plan),
        folder: folder.clone(),
        record,
        engine: choice.engine,
        lab_dir: options.lab_dir,
        stay: options.stay,
        piece: Some(Arc::new(piece)),
        sockets: Some(sockets),
    };
    let mut control = Some(control);
    let launch = launch::Options { uplink: plan.uplink, ..launch::Options::new(&plan.name) };
    let copies = [&mut control, news];
    let started = launch::fork_lab(&launch, move |side| {
        // The agent is to read end-of-file when this process's parent is gone.
        for copy in copies {
            drop(copy.take());
        }
        lab::main(job, side)
    });
    let mut handle = match started {
        Ok(handle) => handle,
        Err(error) => {
            let _ = std::fs::remove_dir_all(folder.path());
            return Err(error);
        }
    };
    let Some(control) = control else { return Err(Error::LostLab) };
    let usher = Usher { plan: &plan, folder: &folder, registration: None, entries: 0 };
    let grace = plan.programs.iter().map(|program| program.grace).max().unwrap_or_default();
    let mut attendant = Attendant::new(&handle, control, usher, grace)?;
    let ending = attendant.attend();
    drop(attendant);
    if ending.is_err() {
        // Whatever it does, nobody waits for it.
        let _ = handle.kill();
    }
    handle.end();
    let exit = handle.wait();
    let vanished = matches!(ending, Ok(super::End::Vanished));
    let record = remains(&folder, ending, exit, &oom_kills)?;
    match record.failure {
        Some(failure) if vanished => Err(Error::Lab(failure)),
        _ => Ok(folder.path().to_owned()),
    }
}

/// Passes on what the agent and the lab's process say to each other.
struct Attendant<'a> {
    handle: &'a LabHandle,
    lab: BufReader<UnixStream>,
    agent: BufReader<UnixStream>,
    signals: Signals,
    usher: Usher<'a>,
    grace: Duration,
    running: bool,
    /// When the lab was last heard of.
    heard: Instant,
    /// The agent is gone.
    orphaned: bool,
    stopping: bool,
}

impl<'a> Attendant<'a> {
    fn new(
        handle: &'a LabHandle,
        control: UnixStream,
        usher: Usher<'a>,
        grace: Span,
    ) -> Result<Self> {
        let lab = handle.channel().try_clone().map_err(Error::Channel)?;
        Ok(Self {
            handle,
            lab: BufReader::new(lab),
            agent: BufReader::new(control),
            signals: Signals::listen()?,
            usher,
            grace: Duration::from_nanos(grace.as_nanos()),
            running: false,
            heard: Instant::now(),
            orphaned: false,
            stopping: false,
        })
    }

    /// Until the lab has ended.
    fn attend(&mut self) -> Result<super::End> {
        loop {
            let happened = self.wait()?;
            if happened[0] {
                for line in lines(&mut self.lab)? {
                    let Some(line) = line else { return Ok(super::End::Vanished) };
                    self.heard = Instant::now();
                    if self.pass_up(&line)? {
                        return Ok(super::End::Finished);
                    }
                }
            }
            if happened[1] {
                self.signals.clear();
                self.stop();
            }
            if happened[2] {
                self.hear_agent()?;
            }
            if let Some(limit) = self.patience()
                && self.heard.elapsed() > limit
            {
                return Err(Error::SilentLab(Span::from_nanos(limit.as_nanos() as u64)));
            }
        }
    }

    /// Which of lab, signals and agent have something to say.
    fn wait(&self) -> Result<[bool; 3]> {
        let mut fds = vec![
            PollFd::new(self.lab.get_ref(), PollFlags::IN),
            PollFd::new(&self.signals.pipe, PollFlags::IN),
        ];
        if !self.orphaned {
            fds.push(PollFd::new(self.agent.get_ref(), PollFlags::IN));
        }
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        match rustix::event::poll(&mut fds, Some(&second)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(Error::Channel(errno.into())),
        }
        let has = |at: usize| fds.get(at).is_some_and(|fd| !fd.revents().is_empty());
        Ok([has(0), has(1), has(2)])
    }

    /// How long the lab may be silent; `None`: it is being built, or waits for its start.
    fn patience(&self) -> Option<Duration> {
        if self.stopping { Some(self.grace + ENDING) } else { self.running.then_some(SILENCE) }
    }

    /// Tells the agent what the lab has said; whether it has finished.
    fn pass_up(&mut self, line: &str) -> Result<bool> {
        let said = match message::parse(line) {
            Some(FromLab::Ready { hosts }) => {
                self.usher.register(self.handle.pid(), hosts);
                FromPiece::Ready
            }
            Some(FromLab::Progress { now_ns, waiting_for, packets, idle, trunks }) => {
                self.usher.tell_others(self.handle);
                let progress = PieceProgress { now_ns, idle, waiting_for, packets, trunks };
                FromPiece::Progress(progress)
            }
            Some(FromLab::Program(event)) => FromPiece::Program(event),
            Some(FromLab::Ending) => {
                self.stopping = true;
                return Ok(false);
            }
            Some(FromLab::Failed(failure)) => return Err(Error::Lab(failure)),
            Some(FromLab::Finished) => return Ok(true),
            None => return Ok(false),
        };
        message::send(self.agent.get_ref(), &said);
        Ok(false)
    }

    fn hear_agent(&mut self) -> Result<()> {
        for line in lines(&mut self.agent)? {
            let Some(line) = line else {
                self.orphaned = true;
                self.stop();
                return Ok(());
            };
            // What is of another version is passed over.
            if let Some(said) = message::parse(&line) {
                self.pass_down(&said);
            }
        }
        Ok(())
    }

    /// Tells the lab what the agent has said.
    fn pass_down(&mut self, said: &ToPiece) {
        let told = match *said {
            ToPiece::Start { origin_ns, bound_ns } => {
                self.usher.tell_others(self.handle);
                (self.running, self.heard) = (true, Instant::now());
                ToLab::Start { common: Some(message::Common { origin_ns, bound_ns }) }
            }
            ToPiece::Clock { origin_ns, bound_ns } => {
                ToLab::Clock(message::Common { origin_ns, bound_ns })
            }
            ToPiece::Lost { agent } => ToLab::Lost { agent },
            ToPiece::Regained { agent } => ToLab::Regained { agent },
            ToPiece::Lead { agent, lead_ns } => ToLab::Lead { agent, lead_ns },
            ToPiece::Program(event) => ToLab::Program(event),
            ToPiece::Stop => return self.stop(),
        };
        message::send(self.handle.channel(), &told);
    }

    fn stop(&mut self) {
        if !self.stopping {
            (self.stopping, self.heard) = (true, Instant::now());
            message::send(self.handle.channel(), &ToLab::Stop);
        }
    }
}

/// The lines that can be read now, at least one; `None` at the end of the stream.
fn lines(stream: &mut BufReader<UnixStream>) -> Result<Vec<Option<String>>> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = match stream.read_line(&mut line) {
            // The other end was killed before it had heard everything.
            Err(e) if e.kind() == ErrorKind::ConnectionReset => 0,
            read => read.map_err(Error::Channel)?,
        };
        lines.push((read > 0).then_some(line));
        if read == 0 || stream.buffer().is_empty() {
            return Ok(lines);
        }
    }
}
