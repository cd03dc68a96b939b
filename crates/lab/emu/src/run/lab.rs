//! A run in the lab's own process: setup, supervision, end, record.
//!
//! `finish`, `live`, `recording` and `requests` are the parts of this module's loop; they use its
//! state [`Running`].

use std::collections::BTreeMap;
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
use lab::plan::{Action, Plan, Role, Uplink as UplinkPlan};
use lab::routes::Routes;
use run::Schedule;
use run::calls::CallWriter;
use run::live::Tap;
use run::record::{EventRecord, RunRecord};
use run::waits::{HostWaits, Waits};
use run::{Captures, Level, Recorder, RunFolder};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::finish::End;
use super::flow_ends::flow_specs;
use super::live;
use super::load::Meter;
use super::message::{self, CommonStart, FromLab, ToLab};
use super::outbox::Outbox;
use super::recording::{Recording, start_recorder};
use super::requests::Requests;
use crate::clock::LabClock;
use crate::control::Answer;
use crate::datapath::{Batch, Datapath, Setup};
use crate::enclosure::{
    self, Enclosure, Engine, HostNet, KernelChanges, attached_hosts_text, hosts_text,
    install_names, install_private_files,
};
use crate::flow::{FlowEngine, FlowOptions, Observation};
use crate::launch::LabSide;
use crate::program::{ProgramEvent, Supervisor};
use crate::registry::HostEntry;
use crate::shard::{Shard, Sockets};
use crate::uplink::{self, Access, Uplink};
use crate::users::Users;
use crate::{Error, Result};

/// Time from the start of the data path to lab time zero, for calibration.
pub(super) const CALIBRATION_LEAD: Span = Span::from_millis(60);

/// Time before a change at which it is passed to the data path, which first computes routes.
const CHANGE_LEAD: Span = Span::from_millis(1_500);

/// Maximum interval between two turns of the control loop.
pub(super) const MAX_TURN_INTERVAL: Span = Span::from_millis(50);

/// Interval of progress reports to the command.
const PROGRESS_INTERVAL: Span = Span::from_millis(200);

/// Parameters of a lab's process.
pub(super) struct Job {
    pub(super) plan: Arc<Plan>,
    pub(super) folder: RunFolder,
    /// The record as created at the start.
    pub(super) record: RunRecord,
    pub(super) engine: Engine,
    pub(super) lab_dir: PathBuf,
    pub(super) users: Users,
    pub(super) stay: bool,
    /// For a lab that stays up.
    pub(super) up: Option<Up>,
    /// A command of the user runs in the lab, and the run ends with it.
    pub(super) attached: bool,
    /// This agent's shard of the lab; `None` if the whole lab is here.
    pub(super) shard: Option<Arc<Shard>>,
    /// The shard's sockets, until the data path takes them.
    pub(super) sockets: Option<Sockets>,
}

/// The state of a lab that stays up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Up {
    /// Whether the lab ends after its duration.
    pub(super) ends: bool,
    /// All programs that start with the lab have been ready.
    pub(super) is_ready: bool,
}

impl Job {
    /// When the lab ends without a request.
    fn end(&self) -> Option<Time> {
        self.up.is_none_or(|up| up.ends).then_some(Time::ZERO + self.plan.duration)
    }

    /// The end that a request causes: it is the planned one of a lab that stays up.
    fn requested_end(&self) -> End {
        if self.up.is_some_and(|up| up.is_ready) { End::Complete } else { End::Interrupted }
    }

    /// Whether a node belongs to this shard.
    fn is_here(&self, node: NodeId) -> bool {
        self.shard.as_ref().is_none_or(|shard| shard.is_here(node))
    }
}

/// Runs the lab; returns the process's exit status.
pub(super) fn main(job: Job, side: LabSide) -> i32 {
    let Ok(channel) = side.channel.try_clone() else { return 70 };
    let ended = Running::start(job, side).and_then(Running::run);
    match ended {
        Ok(()) => {
            message::send(&channel, &FromLab::Finished);
            0
        }
        Err(error) => {
            message::send(&channel, &FromLab::Failed(error.failure()));
            i32::from(error.exit_code().code())
        }
    }
}

pub(super) struct Running {
    pub(super) job: Job,
    pub(super) channel: BufReader<UnixStream>,
    pub(super) outbox: Outbox,
    pub(super) tap: Arc<Tap>,
    pub(super) enclosure: Arc<Enclosure>,
    /// Not read; open until the lab ends.
    _uplink: Option<Uplink>,
    pub(super) routes: Arc<Routes>,
    pub(super) recorder: Recorder,
    /// The recording for replay has failed.
    pub(super) unrecorded: Arc<AtomicBool>,
    pub(super) datapath: Datapath,
    pub(super) supervisor: Supervisor,
    pub(super) flows: Option<FlowEngine>,
    pub(super) flow_samples: Receiver<Observation>,
    pub(super) schedule: Schedule,
    pub(super) kernels: KernelChanges,
    pub(super) recording: Recording,
    pub(super) requests: Requests,
    pub(super) events: Vec<EventRecord>,
    pub(super) warnings: Vec<String>,
    /// Programs stopped together with their node.
    pub(super) stopped_with_node: Vec<ProgramId>,
    pub(super) clock: LabClock,
    /// Maximum difference between lab time here and on the first agent.
    pub(super) clock_bound: Span,
    pub(super) next_progress: Time,
    pub(super) delivered: u64,
    /// Counters of the trunks at the last report, by agent.
    trunks: Vec<TrunkState>,
    pub(super) meter: Meter,
    /// The command asked to stop before the lab had started.
    pub(super) stopped: bool,
    /// The command of the user has ended.
    completed: bool,
    reported_start: bool,
}

impl Running {
    fn start(mut job: Job, mut side: LabSide) -> Result<Self> {
        let plan = Arc::clone(&job.plan);
        let routes = first_routes(&plan);
        let mut warnings = Vec::new();
        warn_all(&mut warnings, &side.notices);
        warnings.extend(privileged_programs(&job));
        let (enclosure, uplink) = enclose(&job, &mut side, &routes, &mut warnings)?;
        let (folder, dir, users) = (&job.folder, &job.lab_dir, &job.users);
        let supervisor =
            Supervisor::new(&plan, &enclosure, folder, dir, users, |it| job.is_here(it))?;
        message::send(&side.channel, &FromLab::Ready { hosts: entries(&plan, &enclosure) });
        let mut channel = BufReader::new(side.channel);
        let mut meter = Meter::start();
        let start = wait_for_start(&mut channel, &mut meter);
        meter.restart();
        let common = start.common();
        let Captures { ifaces: captures, mirrors: mirror_captures, names } = Captures::of(&plan);
        let started_unix_ns = unix_start(common);
        let recorder = start_recorder(&job, names, started_unix_ns)?;
        let recording = Recording::start(&job, recorder.handle(), started_unix_ns)?;
        let enclosure = Arc::new(enclosure);
        let soon = sys::clock::monotonic() + CALIBRATION_LEAD.as_nanos();
        let clock = LabClock::new(common.map_or(soon, |common| common.origin_ns));
        let record = || CallWriter::start(&job.folder, &lab::resolved(&plan));
        let calls = plan.record.then(record).transpose()?;
        let unrecorded = calls.as_ref().map_or_else(Arc::default, CallWriter::failure);
        let datapath = Datapath::start(Setup {
            plan: Arc::clone(&plan),
            enclosure: Arc::clone(&enclosure),
            forwarding: Box::new(Arc::clone(&routes)),
            recorder: recorder.handle(),
            captures,
            mirror_captures,
            clock: clock.clone(),
            calls,
            shard: job.shard.clone().zip(job.sockets.take()),
        })?;
        let (flows, flow_samples) = start_flows(&job, &enclosure, &clock, datapath.waits())?;
        let (tap, outbox) = live::start(&job, channel.get_ref(), &recorder)?;
        Ok(Self {
            outbox,
            tap,
            channel,
            schedule: Schedule::new(Arc::clone(&plan)),
            kernels: KernelChanges::new(plan, Arc::clone(&enclosure), Arc::clone(&routes)),
            recording,
            requests: Requests::default(),
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
            stopped_with_node: Vec::new(),
            clock,
            clock_bound: common.map_or(Span::ZERO, CommonStart::bound),
            next_progress: Time::ZERO,
            delivered: 0,
            trunks: Vec::new(),
            meter,
            stopped: start == StartSignal::End,
            completed: false,
            reported_start: false,
            job,
        })
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    fn run(mut self) -> Result<()> {
        let late = self.now().since(Time::ZERO);
        if late.is_positive() && !self.stopped {
            self.warnings.push(format!("the lab started {late} before this shard was ready"));
        }
        // No flow or program starts before time zero.
        while self.clock.until_start().is_positive() && !self.must_stop() {
            self.wait_for(self.clock.until_start().min(MAX_TURN_INTERVAL));
        }
        let end = loop {
            if let Some(end) = self.turn() {
                break end;
            }
        };
        if self.job.shard.is_some() {
            self.outbox.send(&FromLab::Ending);
        }
        self.finish(end)
    }

    /// One turn of the control loop; returns the reason to end, if there is one.
    fn turn(&mut self) -> Option<End> {
        let now = self.now();
        self.pass_changes(now + CHANGE_LEAD);
        self.change_kernels(now);
        for event in self.schedule.due(now) {
            self.recorder.handle().log(now, Level::Info, "event", &event.text);
            self.record_event(event.at, event.text);
            self.apply(&event.action, now);
        }
        self.handle_due(now);
        let mut failed = None;
        for event in self.supervisor.step(now) {
            failed = failed.or(self.log_program_event(event, now));
        }
        self.drain();
        if let Some(error) = failed {
            return Some(End::Failed(error));
        }
        if !self.datapath.is_running() {
            return Some(End::Failed(Error::DatapathPanicked));
        }
        if self.recorder.handle().failed()
            || self.recording.failed()
            || self.unrecorded.load(Ordering::Relaxed)
        {
            // The recorder returns the error when it is finished.
            return Some(End::Interrupted);
        }
        if self.must_stop() {
            return Some(self.job.requested_end());
        }
        self.report_up(now);
        if self.job.attached && !self.reported_start && self.supervisor.is_ready() {
            self.reported_start = true;
            self.outbox.send(&FromLab::Started);
        }
        if let Some(share) = self.meter.observe(now) {
            self.datapath.limit_realtime(share);
        }
        // The coordinator ends a cluster run when all shards are done.
        let is_over = self.job.shard.is_none() && self.is_done();
        if self.job.end().is_some_and(|end| now >= end) || is_over || self.completed {
            return Some(End::Complete);
        }
        self.report_progress(now);
        self.send_frame(now);
        self.sleep(now);
        None
    }

    /// Whether all finite programs and flows have ended.
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

    /// Performs an action on programs and flows.
    pub(super) fn apply(&mut self, action: &Action, now: Time) {
        match *action {
            Action::Stop(program) => self.supervisor.stop(program, now),
            Action::Kill(program) => self.supervisor.kill(program, now),
            Action::Start(program) => self.supervisor.start(program, now),
            Action::FlowStart(flow) => self.with_flows(|flows| flows.start(flow)),
            Action::FlowStop(flow) => self.with_flows(|flows| flows.stop(flow)),
            Action::NodeDown(node) => {
                for program in self.programs_on(node) {
                    let outcome = self.supervisor.outcome(program);
                    if outcome.started.is_some() && outcome.ended.is_none() {
                        self.stopped_with_node.push(program);
                        self.supervisor.kill(program, now);
                    }
                }
            }
            Action::NodeUp(node) => {
                for program in self.programs_on(node) {
                    if let Some(at) = self
                        .stopped_with_node
                        .iter()
                        .position(|stopped_with_node| *stopped_with_node == program)
                    {
                        self.stopped_with_node.swap_remove(at);
                        self.supervisor.start(program, now);
                    }
                }
            }
            // The data path and `kernels` apply these changes.
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

    /// Logs an event of a program; returns the error that ends the run, if it is one.
    pub(super) fn log_program_event(&mut self, event: ProgramEvent, now: Time) -> Option<Error> {
        self.show_program(&event, now);
        let name = |id: ProgramId| self.job.plan.programs[id.index()].name.clone();
        let log = |level, id, text: &str| self.recorder.handle().log(now, level, &name(id), text);
        match event {
            ProgramEvent::Started(id) => {
                log(Level::Info, id, "started");
                self.notify_others(id, ProgramChange::Started, now);
            }
            ProgramEvent::Ready(id) => {
                log(Level::Info, id, "ready");
                self.notify_others(id, ProgramChange::Ready, now);
            }
            ProgramEvent::Ended { program, end, as_expected, again } => {
                let level = if as_expected { Level::Info } else { Level::Error };
                let again = again.map_or_else(String::new, |at| format!(", again at {at}"));
                log(level, program, &format!("ended: {end}{again}"));
                self.notify_others(program, ProgramChange::Ended { well: as_expected }, now);
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

    /// Reports the change if programs of other shards depend on it.
    fn notify_others(&mut self, program: ProgramId, change: ProgramChange, now: Time) {
        let waits = |other: &lab::plan::Program| {
            !self.job.is_here(other.node) && other.after.contains(&program)
        };
        if self.job.plan.programs.iter().any(waits) {
            let (program, at_ns) = (program.index() as u32, now.as_nanos());
            let event = control::ProgramEvent { program, at_ns, change };
            self.outbox.send(&FromLab::Program(event));
        }
    }

    /// Records counters and samples received so far.
    fn drain(&mut self) {
        while let Some(batch) = self.datapath.batch() {
            self.enter(batch);
        }
        self.flow_samples.try_iter().for_each(|seen| self.recording.keep(seen));
    }

    fn enter(&mut self, batch: Batch) {
        if let Some(machine) = batch.machine {
            self.tap.with(|builder| builder.machine(machine));
        }
        self.delivered = batch.delivered;
        self.trunks.clone_from(&batch.trunks);
        self.recording.enter(batch);
    }

    /// Handles the messages of the command; returns whether it has requested the stop or ended.
    fn must_stop(&mut self) -> bool {
        while !self.stopped {
            match receive(&mut self.channel) {
                Received::Nothing => break,
                Received::End => self.stopped = true,
                Received::Message(message) => self.handle_message(message),
            }
        }
        self.stopped
    }

    fn handle_message(&mut self, message: ToLab) {
        match message {
            ToLab::Stop => self.stopped = true,
            ToLab::Complete => self.completed = true,
            ToLab::Others { labs, realtime } => self.meter.set_other_labs(labs, realtime),
            ToLab::Clock(common) => {
                self.clock.adjust(common.origin_ns);
                self.clock_bound = self.clock_bound.max(common.bound());
            }
            ToLab::Lost { agent } => self.on_agent_lost(agent),
            ToLab::Regained { agent } => self.on_agent_restored(agent),
            ToLab::Lead { agent, lead_ns } => {
                self.datapath.set_lead(agent, Span::from_nanos(lead_ns));
            }
            ToLab::Program(event) => {
                let (program, at) = (event.program as usize, Time::from_nanos(event.at_ns));
                self.supervisor.on_remote_change(ProgramId::at(program), event.change, at);
            }
            ToLab::Request { id, request } => {
                let answer = self.handle(request);
                self.outbox.send(&FromLab::Answer { id, answer });
            }
            ToLab::Watch(is_watched) => self.watch(is_watched),
            ToLab::Start { .. } => {}
        }
    }

    /// Reports once that all programs that start with the lab are ready.
    fn report_up(&mut self, now: Time) {
        if let Some(up) = self.job.up.as_mut().filter(|up| !up.is_ready)
            && self.supervisor.has_started(now)
        {
            up.is_ready = true;
            self.outbox.send(&FromLab::Up);
        }
    }

    /// Passes the changes up to this time to the data path and prepares those of the kernels.
    pub(super) fn pass_changes(&mut self, until: Time) {
        for change in self.schedule.changes(until) {
            self.kernels.prepare(&change);
            self.change_network(change);
        }
    }

    /// Applies the changes that are due to the nodes' kernels.
    fn change_kernels(&mut self, now: Time) {
        for error in self.kernels.apply(now) {
            let text =
                format!("an event could not be applied to links and routes of a node: {error}");
            self.recorder.handle().log(now, Level::Warn, "event", &text);
            self.warnings.push(text);
        }
    }

    /// Handles the loss of an agent, with its part of the network and its ends of flows.
    fn on_agent_lost(&mut self, agent: AgentId) {
        self.datapath.on_agent_lost(agent);
        let ids = self.flows_with(agent);
        self.with_flows(|flows| ids.iter().for_each(|id| flows.on_agent_lost(*id)));
    }

    fn on_agent_restored(&mut self, agent: AgentId) {
        self.datapath.on_agent_restored(agent);
        let ids = self.flows_with(agent);
        self.with_flows(|flows| ids.iter().for_each(|id| flows.on_agent_restored(*id)));
    }

    /// The flows that have an end on an agent.
    fn flows_with(&self, agent: AgentId) -> Vec<FlowId> {
        let Some(shard) = &self.job.shard else { return Vec::new() };
        let is_there = |node: NodeId| shard.assignment.owner(node) == Some(agent);
        let flows = self.job.plan.flows.iter().enumerate();
        let ends = flows.filter(|(_, flow)| is_there(flow.from) || is_there(flow.to));
        ends.map(|(at, _)| FlowId::at(at)).collect()
    }

    fn report_progress(&mut self, now: Time) {
        if now < self.next_progress {
            return;
        }
        self.next_progress = now + PROGRESS_INTERVAL;
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
        let progress = FromLab::Progress {
            now_ns: now.as_nanos(),
            waiting_for,
            packets: self.delivered,
            idle: self.is_done(),
            trunks: self.trunks.clone(),
        };
        self.outbox.send(&progress);
    }

    /// Waits until a descriptor is readable or an event is due.
    fn sleep(&mut self, now: Time) {
        let mut wake =
            self.job.end().map_or(now + MAX_TURN_INTERVAL, |end| end.min(now + MAX_TURN_INTERVAL));
        let due = [self.supervisor.next_wake(), self.schedule.next()];
        for at in due.into_iter().flatten() {
            wake = wake.min(at);
        }
        self.wait_for(wake.since(self.now()));
    }

    /// Waits for this time, or until a descriptor is readable.
    fn wait_for(&mut self, span: Span) {
        if self.datapath.requests_realtime() {
            self.outbox.send(&FromLab::Realtime);
        }
        let nanos = span.as_nanos();
        let timeout = Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as i64,
        };
        let blocked = if self.outbox.is_blocked() { PollFlags::OUT } else { PollFlags::empty() };
        let mut fds = vec![PollFd::new(self.channel.get_ref(), PollFlags::IN | blocked)];
        fds.extend(self.supervisor.files().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
    }
}

/// The result of a read from the command.
enum Received {
    Message(ToLab),
    /// No message yet, or one of another version.
    Nothing,
    /// End-of-file: the command has ended.
    End,
}

fn receive(channel: &mut BufReader<UnixStream>) -> Received {
    let mut line = String::new();
    match channel.read_line(&mut line) {
        Ok(0) => Received::End,
        Ok(_) => message::parse(&line).map_or(Received::Nothing, Received::Message),
        Err(_) => Received::Nothing,
    }
}

/// The command's decision about a lab that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StartSignal {
    Begin,
    /// Start together with the other shards.
    Together(CommonStart),
    /// End without a start.
    End,
}

impl StartSignal {
    fn common(self) -> Option<CommonStart> {
        match self {
            Self::Together(common) => Some(common),
            Self::Begin | Self::End => None,
        }
    }
}

/// Waits for the command to start or end the lab.
fn wait_for_start(channel: &mut BufReader<UnixStream>, meter: &mut Meter) -> StartSignal {
    loop {
        match receive(channel) {
            Received::Message(ToLab::Start { common }) => {
                return common.map_or(StartSignal::Begin, StartSignal::Together);
            }
            Received::Message(ToLab::Others { labs, realtime }) => {
                meter.set_other_labs(labs, realtime);
            }
            Received::Message(ToLab::Request { id, .. }) => {
                let answer = Answer::Refused { why: "the lab has not started yet".to_owned() };
                message::send(channel.get_ref(), &FromLab::Answer { id, answer });
            }
            Received::Message(ToLab::Stop | ToLab::Complete) | Received::End => {
                return StartSignal::End;
            }
            Received::Message(_) | Received::Nothing => {}
        }
    }
}

/// Wall-clock time of lab time zero, nanoseconds since 1970 (UTC).
fn unix_start(common: Option<CommonStart>) -> u64 {
    sys::clock::realtime() + common.map_or(CALIBRATION_LEAD, CommonStart::until).as_nanos()
}

/// The routes at the start, with all tables.
fn first_routes(plan: &Plan) -> Arc<Routes> {
    let link_up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
    let routes = Routes::compute(plan, &link_up);
    routes.fill(plan);
    Arc::new(routes)
}

/// The hosts for the registry, by name.
fn entries(plan: &Plan, enclosure: &Enclosure) -> BTreeMap<String, HostEntry> {
    let entry = |host: &HostNet| {
        let node = &plan.nodes[host.node.index()];
        let entry = HostEntry {
            net: host.netns.as_raw_fd(),
            mounts: host.mounts.as_ref().map(AsRawFd::as_raw_fd),
            user: node.user.as_ref().map(|user| user.name.clone()),
        };
        (node.name.clone(), entry)
    };
    enclosure.hosts.iter().map(entry).collect()
}

/// Starts the flows that have an end here, if there are any, and returns their observations.
fn start_flows(
    job: &Job,
    enclosure: &Enclosure,
    clock: &LabClock,
    datapath: Arc<Waits>,
) -> Result<(Option<FlowEngine>, Receiver<Observation>)> {
    let plan = &job.plan;
    let (samples, observations) = mpsc::channel();
    let sink = Box::new(move |seen| drop(samples.send(seen)));
    let options = FlowOptions {
        clock: clock.clone(),
        interval: plan.interval,
        seed: plan.seed,
        // With several shards, these would be only the waits of this host.
        waits: job
            .shard
            .is_none()
            .then(|| (HostWaits { datapath, ..HostWaits::default() }, plan.tolerance)),
    };
    let flows = match flow_specs(plan, enclosure, |node| job.is_here(node))? {
        specs if specs.is_empty() => None,
        specs => Some(FlowEngine::spawn(specs, options, sink)?),
    };
    Ok((flows, observations))
}

/// Creates the namespaces, with uplinks and name resolution.
fn enclose(
    job: &Job,
    side: &mut LabSide,
    routes: &Routes,
    warnings: &mut Vec<String>,
) -> Result<(Enclosure, Option<Uplink>)> {
    let plan = &job.plan;
    let mut enclosure = enclosure::build_part(plan, routes, job.engine, |node| job.is_here(node))?;
    warn_all(warnings, &enclosure.notices);
    let mut uplink = side.uplink.take();
    if let Some(uplink) = &mut uplink {
        let has_uplink = |at: NodeId| match plan.uplink {
            UplinkPlan::None => false,
            UplinkPlan::Hosts => plan.nodes[at.index()].kind == Role::Host,
            UplinkPlan::Router(router) => at == router,
        };
        let ipv6 = matches!(plan.uplink, UplinkPlan::Router(_));
        let access = Access { ipv6, loopback: job.attached };
        for host in enclosure.hosts.iter().filter(|host| has_uplink(host.node)) {
            uplink.connect(host, &plan.nodes[host.node.index()].name, access)?;
        }
    }
    let resolver = uplink.as_ref().map(|_| uplink::resolver());
    let hosts = if job.attached {
        let machine = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        attached_hosts_text(plan, &machine)
    } else {
        hosts_text(plan)
    };
    warn_all(warnings, &install_names(&side.mounts, hosts, resolver.as_deref()));
    // After the name files, which programs see in the views too.
    let shared = [&*job.lab_dir, job.folder.path()];
    install_private_files(&side.mounts, plan, &mut enclosure, &shared, &job.users)?;
    Ok((enclosure, uplink))
}

/// Names of the programs here that run with full privileges.
fn privileged_programs(job: &Job) -> impl Iterator<Item = String> {
    let here = job.plan.programs.iter().filter(|program| job.is_here(program.node));
    here.filter(|program| program.privileged).map(|program| {
        let name = &program.name;
        format!(
            "program {name} ran privileged: neither its capabilities, its system calls nor its \
             writable files were limited"
        )
    })
}

fn warn_all(warnings: &mut Vec<String>, notices: &[impl Display]) {
    warnings.extend(notices.iter().map(ToString::to_string));
}
