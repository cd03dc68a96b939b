//! A run, from inside the lab's own process: build, supervise, end, write the record.

use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};

use base::{FlowId, NodeId, ProgramId, Span, Time};
use cluster::AgentId;
use cluster::control::{self, ProgramChange, TrunkState};
use lab::plan::{Action, Event, Plan, Role};
use lab::routes::Routes;
use outcome::Schedule;
use record::calls::CallWriter;
use record::run::{EventRecord, RunRecord};
use record::{Level, Recorder, RunFolder};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::books::Books;
use super::ends::flow_specs;
use super::finish::End;
use super::load::Meter;
use super::message::{self, Common, FromLab, ToLab};
use super::recording::{captures, start_recorder};
use crate::clock::LabClock;
use crate::datapath::{Batch, Datapath, Setup};
use crate::enclosure::{self, Enclosure, Engine, install_names};
use crate::flow::{FlowEngine, FlowOptions, Observation};
use crate::launch::LabSide;
use crate::piece::{Piece, Sockets};
use crate::program::{ProgramEvent, Supervisor};
use crate::uplink::{RESOLVER, Uplink};
use crate::{Error, Result};

/// From the start of the data path to the lab's time zero: what calibration takes.
pub(super) const LEAD: Span = Span::from_millis(60);

/// How far ahead changes of the network are handed to the data path: long enough that computing
/// routes is never late.
const AHEAD: Span = Span::from_millis(1_500);

/// The control loop looks around at least this often.
pub(super) const ROUND: Span = Span::from_millis(50);

/// The command hears of the progress this often.
const NEWS: Span = Span::from_millis(200);

/// What a lab's process is given.
pub(super) struct Job {
    pub(super) plan: Arc<Plan>,
    pub(super) folder: RunFolder,
    /// As it was begun.
    pub(super) record: RunRecord,
    pub(super) engine: Engine,
    pub(super) lab_dir: PathBuf,
    pub(super) stay: bool,
    /// What of the lab is here, where it is not all of it.
    pub(super) piece: Option<Arc<Piece>>,
    /// The piece's, until the data path has them.
    pub(super) sockets: Option<Sockets>,
}

impl Job {
    /// Whether a node is taken care of here.
    fn is_here(&self, node: NodeId) -> bool {
        self.piece.as_ref().is_none_or(|piece| piece.is_here(node))
    }
}

/// Runs the lab; the result is the process's exit status.
pub(super) fn main(job: Job, side: LabSide) -> i32 {
    let Ok(news) = side.channel.try_clone() else { return 70 };
    let ended = Running::start(job, side).and_then(Running::run);
    match ended {
        Ok(()) => {
            message::send(&news, &FromLab::Finished);
            0
        }
        Err(error) => {
            message::send(&news, &FromLab::Failed(error.failure()));
            i32::from(error.exit_code())
        }
    }
}

/// A lab that runs.
pub(super) struct Running {
    pub(super) job: Job,
    pub(super) channel: BufReader<UnixStream>,
    pub(super) enclosure: Arc<Enclosure>,
    /// Ends with the lab.
    _uplink: Option<Uplink>,
    pub(super) routes: Routes,
    pub(super) recorder: Recorder,
    /// The recording for replay cannot go on.
    pub(super) unrecorded: Arc<AtomicBool>,
    pub(super) datapath: Datapath,
    pub(super) supervisor: Supervisor,
    pub(super) flows: Option<FlowEngine>,
    pub(super) flow_samples: Receiver<Observation>,
    pub(super) schedule: Schedule,
    pub(super) books: Books,
    /// Events that took place.
    pub(super) events: Vec<EventRecord>,
    pub(super) warnings: Vec<String>,
    /// Programs that went down with their node.
    pub(super) felled: Vec<ProgramId>,
    pub(super) clock: LabClock,
    /// By how much the lab's time here may differ from that of its first member, at most.
    pub(super) clock_bound: Span,
    pub(super) next_news: Time,
    pub(super) delivered: u64,
    /// What the trunks have brought so far, by member.
    trunks: Vec<TrunkState>,
    pub(super) meter: Meter,
    /// The command asked to stop before the lab had begun.
    pub(super) stopped: bool,
}

impl Running {
    fn start(mut job: Job, mut side: LabSide) -> Result<Self> {
        let plan = Arc::clone(&job.plan);
        let link_up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
        let routes = Routes::compute(&plan, &link_up);
        let mut warnings = Vec::new();
        warn_all(&mut warnings, &side.notices);
        warnings.extend(privileged_programs(&job));
        let (enclosure, uplink) = enclose(&job, &mut side, &routes, &mut warnings)?;
        let here = |node| job.is_here(node);
        let supervisor = Supervisor::new(&plan, &enclosure, &job.folder, &job.lab_dir, here)?;
        let hosts = enclosure
            .hosts
            .iter()
            .map(|host| (plan.nodes[host.node.index()].name.clone(), host.netns.as_raw_fd()));
        message::send(&side.channel, &FromLab::Ready { hosts: hosts.collect() });
        let mut channel = BufReader::new(side.channel);
        let mut meter = Meter::start();
        let start = told_to_start(&mut channel, &mut meter);
        meter.restart();
        let common = start.common();
        let (captures, mirror_captures, names) = captures(&plan);
        let until = common.map_or(LEAD, Common::until);
        let started_unix_ns = sys::clock::realtime() + until.as_nanos();
        let recorder = start_recorder(&job, names, started_unix_ns)?;
        let books = Books::start(&job, recorder.handle(), started_unix_ns)?;
        let enclosure = Arc::new(enclosure);
        let soon = || sys::clock::monotonic() + LEAD.as_nanos();
        let clock = LabClock::new(common.map_or_else(soon, |common| common.origin_ns));
        let calls = plan.record.then(|| CallWriter::start(&job.folder, &lab::resolved(&plan)));
        let calls = calls.transpose()?;
        let unrecorded = calls.as_ref().map_or_else(Arc::default, CallWriter::failure);
        let datapath = Datapath::start(Setup {
            plan: Arc::clone(&plan),
            enclosure: Arc::clone(&enclosure),
            forwarding: Box::new(Routes::compute(&plan, &link_up)),
            recorder: recorder.handle(),
            captures,
            mirror_captures,
            clock: clock.clone(),
            calls,
            piece: job.piece.clone().zip(job.sockets.take()),
        })?;
        let (flows, flow_samples) = start_flows(&job, &enclosure, &clock)?;
        channel.get_ref().set_nonblocking(true).map_err(Error::Channel)?;
        Ok(Self {
            channel,
            schedule: Schedule::new(Arc::clone(&plan)),
            books,
            enclosure,
            _uplink: uplink,
            routes,
            recorder,
            unrecorded,
            datapath,
            supervisor,
            flows,
            flow_samples,
            events: Vec::new(),
            warnings,
            felled: Vec::new(),
            clock,
            clock_bound: common.map_or(Span::ZERO, Common::bound),
            next_news: Time::ZERO,
            delivered: 0,
            trunks: Vec::new(),
            meter,
            stopped: start == Told::End,
            job,
        })
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    fn run(mut self) -> Result<()> {
        let late = self.now().since(Time::ZERO);
        if late.is_positive() && !self.stopped {
            self.warnings.push(format!("the lab had begun {late} before this member could"));
        }
        // Nothing starts before time zero.
        while self.clock.until_start().is_positive() && !self.must_stop() {
            self.nap(self.clock.until_start().min(ROUND));
        }
        let end = loop {
            if let Some(end) = self.round() {
                break end;
            }
        };
        if self.job.piece.is_some() {
            message::send(self.channel.get_ref(), &FromLab::Ending);
        }
        self.finish(end)
    }

    /// One turn of the control loop; the reason to end, once there is one.
    fn round(&mut self) -> Option<End> {
        let now = self.now();
        for change in self.schedule.changes(now + AHEAD) {
            self.datapath.change(change);
        }
        for event in self.schedule.due(now) {
            self.act(event, now);
        }
        let mut failed = None;
        for event in self.supervisor.step(now) {
            failed = failed.or(self.note(event, now));
        }
        self.drain();
        if let Some(error) = failed {
            return Some(End::Failed(error));
        }
        if !self.datapath.is_running() {
            return Some(End::Failed(Error::DatapathPanicked));
        }
        if self.recorder.handle().failed()
            || self.books.failed()
            || self.unrecorded.load(Ordering::Relaxed)
        {
            // The recorder says why when it is finished.
            return Some(End::Interrupted);
        }
        if self.must_stop() {
            return Some(End::Interrupted);
        }
        if let Some(share) = self.meter.observe(now) {
            self.datapath.limit_realtime(share);
        }
        // A piece ends when all have: somebody who hears them all says so.
        let is_over = self.job.piece.is_none() && self.is_done();
        if now.since(Time::ZERO) >= self.job.plan.duration || is_over {
            return Some(End::Complete);
        }
        self.tell(now);
        self.sleep(now);
        None
    }

    /// Whether all that has an end of its own has come to it.
    fn is_done(&self) -> bool {
        let plan = &self.job.plan;
        let has_work = plan.programs.iter().any(|program| !program.service)
            || plan.flows.iter().any(lab::plan::Flow::is_finite);
        !self.job.stay
            && has_work
            && self.schedule.next().is_none()
            && self.supervisor.is_work_over()
            && self.flows.as_ref().is_none_or(|flows| flows.pending() == 0)
    }

    fn act(&mut self, event: Event, now: Time) {
        self.recorder.handle().log(now, Level::Info, "event", &event.text);
        self.events.push(EventRecord { at_s: event.at.as_secs_f64(), text: event.text });
        match event.action {
            Action::Stop(program) => self.supervisor.stop(program, now),
            Action::Kill(program) => self.supervisor.kill(program, now),
            Action::Start(program) => self.supervisor.start(program, now),
            Action::FlowStart(flow) => self.with_flows(|flows| flows.start(flow)),
            Action::FlowStop(flow) => self.with_flows(|flows| flows.stop(flow)),
            Action::NodeDown(node) => {
                for program in self.programs_on(node) {
                    let outcome = self.supervisor.outcome(program);
                    if outcome.started.is_some() && outcome.ended.is_none() {
                        self.felled.push(program);
                        self.supervisor.kill(program, now);
                    }
                }
            }
            Action::NodeUp(node) => {
                for program in self.programs_on(node) {
                    if let Some(at) = self.felled.iter().position(|felled| *felled == program) {
                        self.felled.swap_remove(at);
                        self.supervisor.start(program, now);
                    }
                }
            }
            // The data path has these already.
            Action::Set { .. } | Action::LinkDown(_) | Action::LinkUp(_) | Action::Box(..) => {}
        }
    }

    fn with_flows(&self, act: impl Fn(&FlowEngine)) {
        self.flows.iter().for_each(act);
    }

    fn programs_on(&self, node: NodeId) -> Vec<ProgramId> {
        let programs = self.job.plan.programs.iter().enumerate();
        programs.filter(|(_, p)| p.node == node).map(|(at, _)| ProgramId::at(at)).collect()
    }

    /// Logs what a program did; the error that ends the run, if it is one.
    pub(super) fn note(&mut self, event: ProgramEvent, now: Time) -> Option<Error> {
        let name = |id: ProgramId| self.job.plan.programs[id.index()].name.clone();
        let log = |level, id, text: &str| self.recorder.handle().log(now, level, &name(id), text);
        match event {
            ProgramEvent::Started(id) => {
                log(Level::Info, id, "started");
                self.tell_others(id, ProgramChange::Started, now);
            }
            ProgramEvent::Ready(id) => {
                log(Level::Info, id, "ready");
                self.tell_others(id, ProgramChange::Ready, now);
            }
            ProgramEvent::Ended { program, end, as_expected, again } => {
                self.tell_others(program, ProgramChange::Ended { well: as_expected }, now);
                let level = if as_expected { Level::Info } else { Level::Error };
                let again = again.map_or_else(String::new, |at| format!(", again at {at}"));
                log(level, program, &format!("ended: {end:?}{again}"));
            }
            ProgramEvent::OutputLimit(id) => {
                let limit = self.job.plan.programs[id.index()].output;
                let text = format!("output limit of {limit} reached: the rest is discarded");
                log(Level::Warn, id, &text);
            }
            ProgramEvent::Failed(id, error) => {
                log(Level::Error, id, &error.to_string());
                return Some(error);
            }
        }
        None
    }

    /// Lets programs of other members that wait for this go on.
    fn tell_others(&self, program: ProgramId, change: ProgramChange, now: Time) {
        let waits = |other: &lab::plan::Program| {
            !self.job.is_here(other.node) && other.after.contains(&program)
        };
        if self.job.plan.programs.iter().any(waits) {
            let (program, at_ns) = (program.index() as u32, now.as_nanos());
            let event = control::ProgramEvent { program, at_ns, change };
            message::send(self.channel.get_ref(), &FromLab::Program(event));
        }
    }

    /// Takes in counters and samples.
    fn drain(&mut self) {
        while let Some(batch) = self.datapath.batch() {
            self.enter(batch);
        }
        self.flow_samples.try_iter().for_each(|seen| self.books.keep(seen));
    }

    fn enter(&mut self, batch: Batch) {
        self.delivered = batch.delivered;
        self.trunks.clone_from(&batch.trunks);
        self.books.enter(batch);
    }

    /// Whether the command asked to stop, or is gone. Whatever else it has said is done.
    fn must_stop(&mut self) -> bool {
        while !self.stopped {
            match hear(&mut self.channel) {
                Heard::Nothing => break,
                Heard::End => self.stopped = true,
                Heard::Message(said) => self.obey(said),
            }
        }
        self.stopped
    }

    fn obey(&mut self, said: ToLab) {
        match said {
            ToLab::Stop => self.stopped = true,
            ToLab::Others { labs, realtime } => self.meter.others(labs, realtime),
            ToLab::Clock(common) => {
                self.clock.adjust(common.origin_ns);
                self.clock_bound = self.clock_bound.max(common.bound());
            }
            ToLab::Lost { agent } => self.lose(agent),
            ToLab::Regained { agent } => self.regain(agent),
            ToLab::Lead { agent, lead_ns } => {
                self.datapath.lead(agent, Span::from_nanos(lead_ns));
            }
            ToLab::Program(event) => {
                let (program, at) = (event.program as usize, Time::from_nanos(event.at_ns));
                self.supervisor.hear(ProgramId::at(program), event.change, at);
            }
            ToLab::Start { .. } => {}
        }
    }

    /// A member is gone: what it has of the network, and its ends of flows.
    fn lose(&mut self, agent: AgentId) {
        self.datapath.lose(agent);
        self.flows_with(agent).into_iter().for_each(|id| self.with_flows(|flows| flows.lose(id)));
    }

    fn regain(&mut self, agent: AgentId) {
        self.datapath.regain(agent);
        self.flows_with(agent).into_iter().for_each(|id| self.with_flows(|flows| flows.regain(id)));
    }

    /// The flows that have an end at a member.
    fn flows_with(&self, agent: AgentId) -> Vec<FlowId> {
        let Some(piece) = &self.job.piece else { return Vec::new() };
        let is_there = |node: NodeId| piece.assignment.owner(node) == Some(agent);
        let flows = self.job.plan.flows.iter().enumerate();
        let ends = flows.filter(|(_, flow)| is_there(flow.from) || is_there(flow.to));
        ends.map(|(at, _)| FlowId::at(at)).collect()
    }

    fn tell(&mut self, now: Time) {
        if now < self.next_news {
            return;
        }
        self.next_news = now + NEWS;
        let plan = &self.job.plan;
        let waited = plan.programs.iter().enumerate().filter(|(at, program)| {
            let outcome = self.supervisor.outcome(ProgramId::at(*at));
            let is_here = self.supervisor.is_here(ProgramId::at(*at));
            is_here && !program.service && outcome.ended.is_none()
        });
        let mut names: Vec<&str> = waited.map(|(_, program)| program.name.as_str()).collect();
        let more = names.len().saturating_sub(3);
        names.truncate(3);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let waiting_for = names.join(", ") + &more;
        let news = FromLab::Progress {
            now_ns: now.as_nanos(),
            waiting_for,
            packets: self.delivered,
            idle: self.is_done(),
            trunks: self.trunks.clone(),
        };
        message::send(self.channel.get_ref(), &news);
    }

    /// Until something happens or is due.
    fn sleep(&self, now: Time) {
        let mut wake = (now + ROUND).min(Time::ZERO + self.job.plan.duration);
        let due = [self.supervisor.next_wake(), self.schedule.next()];
        for at in due.into_iter().flatten() {
            wake = wake.min(at);
        }
        self.nap(wake.since(self.now()));
    }

    /// For so long, or until something happens.
    fn nap(&self, span: Span) {
        let nap = span.as_nanos();
        let timeout = Timespec {
            tv_sec: (nap / 1_000_000_000) as i64,
            tv_nsec: (nap % 1_000_000_000) as i64,
        };
        let mut fds = vec![PollFd::new(self.channel.get_ref(), PollFlags::IN)];
        fds.extend(self.supervisor.files().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
    }
}

/// What the command had to say.
enum Heard {
    Message(ToLab),
    /// Not yet anything, or something of another version.
    Nothing,
    /// It is gone.
    End,
}

fn hear(channel: &mut BufReader<UnixStream>) -> Heard {
    let mut line = String::new();
    match channel.read_line(&mut line) {
        Ok(0) => Heard::End,
        Ok(_) => message::parse(&line).map_or(Heard::Nothing, Heard::Message),
        Err(_) => Heard::Nothing,
    }
}

/// What a lab that stands was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// To begin at once.
    Begin,
    /// To begin when its other members do.
    Together(Common),
    /// To end instead.
    End,
}

impl Told {
    fn common(self) -> Option<Common> {
        match self {
            Self::Together(common) => Some(common),
            Self::Begin | Self::End => None,
        }
    }
}

/// Waits for the word to begin.
fn told_to_start(channel: &mut BufReader<UnixStream>, meter: &mut Meter) -> Told {
    loop {
        match hear(channel) {
            Heard::Message(ToLab::Start { common }) => {
                return common.map_or(Told::Begin, Told::Together);
            }
            Heard::Message(ToLab::Others { labs, realtime }) => meter.others(labs, realtime),
            Heard::Message(ToLab::Stop) | Heard::End => return Told::End,
            Heard::Message(_) | Heard::Nothing => {}
        }
    }
}

/// Starts the flows that have an end here, if there are any; what they tell.
fn start_flows(
    job: &Job,
    enclosure: &Enclosure,
    clock: &LabClock,
) -> Result<(Option<FlowEngine>, Receiver<Observation>)> {
    let plan = &job.plan;
    let (samples, told) = mpsc::channel();
    let sink = Box::new(move |seen| drop(samples.send(seen)));
    let options = FlowOptions { clock: clock.clone(), interval: plan.interval, seed: plan.seed };
    let flows = match flow_specs(plan, enclosure, |node| job.is_here(node))? {
        specs if specs.is_empty() => None,
        specs => Some(FlowEngine::spawn(specs, options, sink)?),
    };
    Ok((flows, told))
}

/// Makes the namespaces, and connects and names what is in them.
fn enclose(
    job: &Job,
    side: &mut LabSide,
    routes: &Routes,
    warnings: &mut Vec<String>,
) -> Result<(Enclosure, Option<Uplink>)> {
    let plan = &job.plan;
    let enclosure = enclosure::build_part(plan, routes, job.engine, |node| job.is_here(node))?;
    warn_all(warnings, &enclosure.notices);
    let mut uplink = side.uplink.take();
    if let Some(uplink) = &mut uplink {
        let is_host = |at: NodeId| plan.nodes[at.index()].kind == Role::Host;
        for host in enclosure.hosts.iter().filter(|host| is_host(host.node)) {
            uplink.connect(host, &plan.nodes[host.node.index()].name)?;
        }
    }
    let resolver = uplink.as_ref().map(|_| RESOLVER);
    warn_all(warnings, &install_names(&side.mounts, plan, resolver));
    Ok((enclosure, uplink))
}

/// Names the programs here whose rights are not limited.
fn privileged_programs(job: &Job) -> impl Iterator<Item = String> {
    let here = job.plan.programs.iter().filter(|program| job.is_here(program.node));
    here.filter(|program| program.privileged).map(|program| {
        let name = &program.name;
        format!(
            "program {name} ran privileged: neither its capabilities nor its system calls were \
             limited"
        )
    })
}

fn warn_all(warnings: &mut Vec<String>, notices: &[impl Display]) {
    warnings.extend(notices.iter().map(ToString::to_string));
}
