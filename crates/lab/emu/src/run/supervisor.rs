//! The loop between a lab's process and its controller: forwards messages and signals, registers
//! the lab, and ends a shard's lab that no longer answers.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ::lab::plan::Plan;
use base::Span;
use cluster::control::{ProgramEvent, ShardProgress};
use run::RunFolder;
use run::live::{Hello, Message, Source};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use sys::process::{self, Received};

use super::Up;
use super::lines::LabLines;
use super::message::{self, FromLab, ToLab};
use crate::control::{Answer, Request, Server};
use crate::datapath::{REALTIME_PRIORITY, THREAD};
use crate::launch::LabHandle;
use crate::registry::{Entry, HostEntry, Registration, Registry};
use crate::{Error, Result};

/// Time without a message after which a shard's lab is ended: it sends five messages per second.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);

/// The same for a lab that ends programs and namespaces and writes results, in addition to the
/// grace times of its programs.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// The origin of a lab's start and stop messages: the command in a terminal, or an agent.
pub(super) trait Controller {
    /// The socket at which its messages arrive; `None` if it sends none, or has ended.
    fn socket(&self) -> Option<BorrowedFd<'_>>;

    /// Messages that have arrived, after its socket became readable. The last message of a
    /// controller that has ended is [`ToLab::Stop`].
    fn read(&mut self) -> Result<Vec<ToLab>>;

    /// Closes the copies of its sockets in the lab's process.
    fn close(&mut self) {}

    /// Handles a lab that is ready; returns its start if the lab need not wait for it.
    fn on_ready(&mut self) -> Option<ToLab>;

    /// Whether it is a command of the user that runs in the lab.
    fn is_attached(&self) -> bool {
        false
    }

    /// Starts the command of the user in the lab whose first process is `lab`.
    fn on_started(&mut self, _lab: u32, _hosts: &Hosts) -> Result<()> {
        Ok(())
    }

    /// Handles a signal; returns whether the lab continues.
    fn handle_signal(&mut self, _received: Received) -> Result<bool> {
        Ok(false)
    }

    fn on_progress(&mut self, progress: ShardProgress, name: &str);

    /// All programs that start with the lab are ready.
    fn on_up(&mut self) {}

    /// A program that other shards may wait for has changed its state.
    fn on_program(&mut self, _event: ProgramEvent) {}
}

/// How the connection to a lab's process ended.
pub(super) enum End {
    /// The lab reported its end.
    Finished,
    /// It was killed after a second interrupt of the user.
    KilledByUser,
    /// Its process ended without a report.
    NoReport,
}

pub(super) type Hosts = BTreeMap<String, HostEntry>;

/// Passes messages between a lab's process and its controller.
pub(super) struct Supervisor<'a> {
    handle: &'a mut LabHandle,
    plan: &'a Plan,
    folder: &'a RunFolder,
    controller: &'a mut dyn Controller,
    lab: LabLines,
    signals: Signals,
    hosts: Hosts,
    /// Number of SIGINT, SIGTERM and SIGHUP received.
    interrupts: u32,
    /// Makes the lab known to other commands.
    registration: Option<(Registry, Registration)>,
    /// Accepts requests of other commands.
    server: Option<Server>,
    /// Registered labs at the last report to the lab.
    entries: usize,
    is_shard: bool,
    /// If `netarium up` started the lab: its properties.
    up: Option<&'a Up>,
    /// Description of the lab for watchers; computed for the first one.
    hello: Option<Message>,
    /// Whether the lab sends frames.
    is_watched: bool,
    running: bool,
    stopping: bool,
    /// When the lab last sent a message.
    last_message: Instant,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        handle: &'a mut LabHandle,
        plan: &'a Plan,
        folder: &'a RunFolder,
        is_shard: bool,
        up: Option<&'a Up>,
        controller: &'a mut dyn Controller,
    ) -> Result<Self> {
        let lab = handle.channel().try_clone().map_err(Error::Channel)?;
        let signals = Signals::listen(controller.is_attached())?;
        Ok(Self {
            handle,
            plan,
            folder,
            controller,
            lab: LabLines::new(lab),
            signals,
            hosts: Hosts::new(),
            interrupts: 0,
            registration: None,
            server: None,
            entries: 0,
            is_shard,
            up,
            hello: None,
            is_watched: false,
            running: false,
            stopping: false,
            last_message: Instant::now(),
        })
    }

    /// Returns when the lab has ended.
    pub(super) fn supervise(&mut self) -> Result<End> {
        loop {
            let [lab, signals, controller] = self.wait()?;
            if lab {
                for line in self.lab.read()? {
                    let Some(line) = line else {
                        let insisted = self.interrupts > 1;
                        return Ok(if insisted { End::KilledByUser } else { End::NoReport });
                    };
                    self.last_message = Instant::now();
                    if self.receive(&line)? {
                        return Ok(End::Finished);
                    }
                }
            }
            if signals {
                self.handle_signals()?;
            }
            if controller {
                for message in self.controller.read()? {
                    self.send(&message);
                }
            }
            let requests = self.server.as_mut().map(Server::receive);
            for (id, request) in requests.into_iter().flatten() {
                match request {
                    Request::Watch => self.watch(id),
                    request => self.send(&ToLab::Request { id, request }),
                }
            }
            self.stop_frames();
            if let Some(limit) = self.silence_timeout()
                && self.last_message.elapsed() > limit
            {
                return Err(Error::SilentLab(Span::from_nanos(limit.as_nanos() as u64)));
            }
        }
    }

    fn handle_signals(&mut self) -> Result<()> {
        for received in self.signals.take() {
            if let Some(received) = received
                && self.controller.handle_signal(received)?
            {
                continue;
            }
            self.interrupts += 1;
            match self.interrupts {
                1 => self.send(&ToLab::Stop),
                // A second interrupt skips the programs' grace time.
                _ => self.handle.kill()?,
            }
        }
        Ok(())
    }

    /// Whether lab, signals and controller can be read.
    fn wait(&self) -> Result<[bool; 3]> {
        let (lab, controller) = (self.lab.as_fd(), self.controller.socket());
        let sources = [Some(lab), Some(self.signals.as_fd()), controller];
        let poll_fd = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds: Vec<_> = sources.into_iter().flatten().map(poll_fd).collect();
        let first_of_server = fds.len();
        fds.extend(self.server.iter().flat_map(Server::files).map(poll_fd));
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        match rustix::event::poll(&mut fds, Some(&second)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Error::Channel(errno.into())),
        }
        fds.truncate(first_of_server);
        Ok([0, 1, 2].map(|at| fds.get(at).is_some_and(|fd| !fd.revents().is_empty())))
    }

    /// Maximum time without a message of the lab; `None` while it is built or waits for its start,
    /// and in a terminal, whose user sees that it is silent.
    fn silence_timeout(&self) -> Option<Duration> {
        let grace = self.plan.programs.iter().map(|program| program.grace).max();
        match (self.is_shard, self.stopping, self.running) {
            (false, ..) | (true, false, false) => None,
            (true, false, true) => Some(SILENCE_TIMEOUT),
            (true, true, _) => {
                Some(Duration::from_nanos(grace.unwrap_or_default().as_nanos()) + END_TIMEOUT)
            }
        }
    }

    /// Passes a message of the lab on; returns whether the lab has finished.
    fn receive(&mut self, line: &str) -> Result<bool> {
        match message::parse(line) {
            Some(FromLab::Ready { hosts }) => {
                self.hosts.clone_from(&hosts);
                // Inside its own lab, a registered command would look like a killed one: processes
                // have other numbers there.
                if !self.controller.is_attached() {
                    self.register(hosts);
                }
                if let Some(start) = self.controller.on_ready() {
                    self.send(&start);
                }
            }
            Some(FromLab::Progress { now_ns, waiting_for, packets, idle, trunks }) => {
                self.report_other_labs();
                let progress = ShardProgress { now_ns, idle, waiting_for, packets, trunks };
                let registered = self.registration.as_ref().map(|(_, lab)| &lab.entry().name);
                self.controller.on_progress(progress, registered.unwrap_or(&self.plan.name));
            }
            Some(FromLab::Up) => self.controller.on_up(),
            Some(FromLab::Answer { id, answer }) => {
                self.server.iter_mut().for_each(|server| server.answer(id, &answer));
            }
            Some(FromLab::State(frame)) => {
                self.server.iter_mut().for_each(|server| server.state(&frame));
            }
            Some(FromLab::Frame(frame)) => {
                self.server.iter_mut().for_each(|server| server.frame(&frame));
            }
            Some(FromLab::Started) => self.controller.on_started(self.handle.pid(), &self.hosts)?,
            Some(FromLab::Program(event)) => self.controller.on_program(event),
            Some(FromLab::Realtime) => {
                // Errors are ignored: the verdict shows the effect.
                let _ = sys::sched::set_fifo_of(self.handle.pid(), THREAD, REALTIME_PRIORITY);
            }
            Some(FromLab::Ending) => self.stopping = true,
            Some(FromLab::Failed(failure)) => return Err(Error::Lab(failure)),
            Some(FromLab::Finished) => return Ok(true),
            None => {}
        }
        Ok(false)
    }

    /// Sends a message to the lab; a stop only once.
    fn send(&mut self, message: &ToLab) {
        match message {
            ToLab::Start { .. } => {
                self.report_other_labs();
                (self.running, self.last_message) = (true, Instant::now());
            }
            ToLab::Stop | ToLab::Complete if self.stopping => return,
            ToLab::Stop | ToLab::Complete => {
                (self.stopping, self.last_message) = (true, Instant::now());
            }
            _ => {}
        }
        message::send(self.handle.channel(), message);
        // The lab could not be watched before.
        if matches!(message, ToLab::Start { .. }) && self.is_watched {
            message::send(self.handle.channel(), &ToLab::Watch(true));
        }
    }

    /// Makes a client of the socket a watcher.
    fn watch(&mut self, id: u64) {
        if self.hello.is_none() {
            self.hello = self.folder.read_record().ok().map(|record| {
                let path = self.folder.path();
                let mut hello = Hello::of(self.plan, &record, path, Source::Live);
                if self.up.is_some_and(|up| !up.ends) {
                    hello.duration_s = None;
                }
                hello.commands = ["set", "mark"].map(str::to_owned).into();
                Message::Hello(Box::new(hello))
            });
        }
        let Some(server) = &mut self.server else { return };
        if let Some(hello) = &self.hello {
            server.watch(id, hello);
        } else {
            let why = "the record of the run cannot be read".to_owned();
            server.answer(id, &Answer::Refused { why });
        }
        if server.has_watchers() {
            self.is_watched = true;
            if self.running {
                self.send(&ToLab::Watch(true));
            }
        }
    }

    /// Stops the lab's frames if there are no watchers.
    fn stop_frames(&mut self) {
        if self.is_watched && self.server.as_ref().is_none_or(|server| !server.has_watchers()) {
            self.is_watched = false;
            self.send(&ToLab::Watch(false));
        }
    }

    /// The server, which sends the end of the run to watchers.
    pub(super) fn take_server(&mut self) -> Option<Server> {
        self.server.take()
    }

    /// Registers the lab, so that other commands find it. A failure does not stop the lab.
    fn register(&mut self, hosts: Hosts) {
        let path = self.folder.path();
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (id, init) = (self.folder.id(), self.handle.pid());
        let entry = Entry::new(&self.plan.name, id, std::process::id(), init, path);
        let registered = entry.and_then(|mut entry| {
            entry.hosts = hosts;
            entry.realtime = self.plan.realtime;
            entry.seed = Some(self.plan.seed);
            entry.is_up = self.up.is_some();
            let registry = Registry::open()?;
            if !self.is_shard {
                let socket = registry.socket(id);
                self.server = Server::bind(socket.clone()).ok();
                entry.socket = self.server.is_some().then_some(socket);
            }
            let registration = registry.register(entry)?;
            Ok((registry, registration))
        });
        self.registration = registered.ok();
    }

    /// Reports the number of other labs to the lab, if it has changed.
    fn report_other_labs(&mut self) {
        let Some((registry, own)) = &self.registration else { return };
        let count = entries(registry);
        if self.entries == count {
            return;
        }
        self.entries = count;
        // The entries are read only if their number has changed.
        let live = registry.list().map(|listing| listing.live).unwrap_or_default();
        let others = || live.iter().filter(|lab| lab.id != own.entry().id);
        let realtime = others().filter(|lab| lab.realtime).count() as u32;
        let others = ToLab::Others { labs: others().count() as u32, realtime };
        message::send(self.handle.channel(), &others);
    }
}

/// Number of files in the registry.
fn entries(registry: &Registry) -> usize {
    let files = std::fs::read_dir(registry.dir()).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|e| e == "json")).count()
}

/// Signals to this process, as long as this value exists.
enum Signals {
    /// SIGINT, SIGTERM and SIGHUP end the lab.
    Counted(SignalPipe),
    /// The controller handles signals one by one.
    Queued(process::Signals),
}

impl Signals {
    fn listen(queued: bool) -> Result<Self> {
        if queued {
            return Ok(Self::Queued(process::Signals::listen()?));
        }
        SignalPipe::listen().map(Self::Counted)
    }

    /// The signals since the last call; those without details are counted only.
    fn take(&mut self) -> Vec<Option<Received>> {
        match self {
            Self::Counted(pipe) => {
                pipe.clear();
                vec![None]
            }
            Self::Queued(signals) => std::iter::from_fn(|| signals.take()).map(Some).collect(),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Counted(pipe) => pipe.pipe.as_fd(),
            Self::Queued(signals) => signals.as_fd(),
        }
    }
}

/// Forwards SIGINT, SIGTERM and SIGHUP as bytes to a pipe, as long as this value exists.
struct SignalPipe {
    pipe: UnixStream,
    ids: Vec<signal_hook::SigId>,
}

impl SignalPipe {
    fn listen() -> Result<Self> {
        let (pipe, write) = UnixStream::pair().map_err(Error::Channel)?;
        pipe.set_nonblocking(true).map_err(Error::Channel)?;
        let mut signals = Self { pipe, ids: Vec::new() };
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            let copy = write.try_clone().map_err(Error::Channel)?;
            let id = signal_hook::low_level::pipe::register(signal, copy);
            signals.ids.push(id.map_err(Error::Channel)?);
        }
        Ok(signals)
    }

    fn clear(&mut self) {
        let mut bytes = [0; 64];
        while self.pipe.read(&mut bytes).is_ok_and(|count| count > 0) {}
    }
}

impl Drop for SignalPipe {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
