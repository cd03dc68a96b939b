//! A run, from inside the lab's own process: build, supervise, end, write the record.

use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};

use base::{NodeId, ProgramId, Span, Time};
use lab::plan::{Action, Event, Plan, Role};
use lab::routes::Routes;
use outcome::{BundleLedger, FlowLedger, LinkLedger, Schedule, ShareLedger};
use record::calls::CallWriter;
use record::run::{EventRecord, RunRecord, Status};
use record::{Level, Recorder, RunFolder};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::ends::flow_specs;
use super::load::Meter;
use super::message::{self, FromLab, ToLab};
use super::recording::{captures, keep, sink, start_recorder};
use super::summary;
use super::verdict;
use crate::datapath::{Batch, Datapath, Report, Setup};
use crate::enclosure::{self, Enclosure, Engine, install_names};
use crate::flow::{FlowEngine, FlowOptions, FlowResult, Observation};
use crate::launch::LabSide;
use crate::program::{ProgramEvent, Supervisor};
use crate::uplink::{RESOLVER, Uplink};
use crate::{Error, Result};

/// From the start of the data path to the lab's time zero: what calibration takes.
pub(super) const LEAD: Span = Span::from_millis(60);

/// How far ahead changes of the network are handed to the data path: long enough that computing
/// routes is never late.
const AHEAD: Span = Span::from_millis(1_500);

/// The control loop looks around at least this often.
const ROUND: Span = Span::from_millis(50);

/// The command hears of the progress this often.
const NEWS: Span = Span::from_millis(200);

/// After the programs' own grace times, what still stands is left to the kernel.
const PATIENCE: Span = Span::from_secs(2);

/// What a lab's process is given.
pub(super) struct Job {
    pub(super) plan: Arc<Plan>,
    pub(super) folder: RunFolder,
    /// As it was begun.
    pub(super) record: RunRecord,
    pub(super) engine: Engine,
    pub(super) lab_dir: PathBuf,
    pub(super) stay: bool,
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
            let code = error.exit_code();
            message::send(&news, &FromLab::Failed { text: error.to_string(), code });
            i32::from(code)
        }
    }
}

/// Why a run ends.
enum End {
    /// Its time is over, or everything finite has finished.
    Complete,
    /// Its user ended it.
    Interrupted,
    /// Something that the lab needs failed.
    Failed(Error),
}

impl End {
    /// The status to record, and what went wrong.
    fn told(self) -> (Status, Option<Error>) {
        match self {
            Self::Complete => (Status::Finished, None),
            Self::Interrupted => (Status::Interrupted, None),
            Self::Failed(error) => (Status::Failed, Some(error)),
        }
    }
}

/// A lab that runs.
struct Running {
    job: Job,
    channel: BufReader<UnixStream>,
    enclosure: Arc<Enclosure>,
    /// Ends with the lab.
    _uplink: Option<Uplink>,
    routes: Routes,
    recorder: Recorder,
    /// The recording for replay cannot go on.
    unrecorded: Arc<AtomicBool>,
    datapath: Datapath,
    supervisor: Supervisor,
    flows: Option<FlowEngine>,
    flow_samples: Receiver<Observation>,
    schedule: Schedule,
    ledger: LinkLedger,
    bundles: BundleLedger,
    shares: ShareLedger,
    flow_ledger: FlowLedger,
    /// Events that took place.
    events: Vec<EventRecord>,
    warnings: Vec<String>,
    /// Programs that went down with their node.
    felled: Vec<ProgramId>,
    origin: u64,
    next_news: Time,
    delivered: u64,
    meter: Meter,
    /// The command asked to stop before the lab had begun.
    stopped: bool,
}

impl Running {
    fn start(job: Job, mut side: LabSide) -> Result<Self> {
        let plan = Arc::clone(&job.plan);
        let link_up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
        let routes = Routes::compute(&plan, &link_up);
        let mut warnings = Vec::new();
        warn_all(&mut warnings, &side.notices);
        let (enclosure, uplink) = enclose(&job, &mut side, &routes, &mut warnings)?;
        let supervisor = Supervisor::new(&plan, &enclosure, &job.folder, &job.lab_dir)?;
        let hosts = enclosure
            .hosts
            .iter()
            .map(|host| (plan.nodes[host.node.index()].name.clone(), host.netns.as_raw_fd()));
        message::send(&side.channel, &FromLab::Ready { hosts: hosts.collect() });
        let mut channel = BufReader::new(side.channel);
        let mut meter = Meter::start();
        let stopped = !told_to_start(&mut channel, &mut meter);
        meter.restart();
        let (captures, mirror_captures, names) = captures(&plan);
        let recorder = start_recorder(&job, names)?;
        let enclosure = Arc::new(enclosure);
        let origin = sys::clock::monotonic() + LEAD.as_nanos();
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
            origin,
            calls,
        })?;
        let (samples, flow_samples) = mpsc::channel();
        let sink = sink(recorder.handle(), samples);
        let options = FlowOptions { origin, interval: plan.interval, seed: plan.seed };
        let flows = match flow_specs(&plan, &enclosure)? {
            specs if specs.is_empty() => None,
            specs => Some(FlowEngine::spawn(specs, options, sink)?),
        };
        channel.get_ref().set_nonblocking(true).map_err(Error::Channel)?;
        Ok(Self {
            channel,
            schedule: Schedule::new(Arc::clone(&plan)),
            ledger: LinkLedger::new(&plan, recorder.handle()),
            bundles: BundleLedger::new(&plan, recorder.handle()),
            shares: ShareLedger::new(&plan, recorder.handle()),
            flow_ledger: FlowLedger::new(&plan),
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
            origin,
            next_news: Time::ZERO,
            delivered: 0,
            meter,
            stopped,
            job,
        })
    }

    fn now(&self) -> Time {
        Time::from_nanos(sys::clock::monotonic().saturating_sub(self.origin))
    }

    fn run(mut self) -> Result<()> {
        // Nothing starts before time zero.
        self.sleep(Time::ZERO);
        while sys::clock::monotonic() < self.origin {
            self.sleep(Time::ZERO + Span::from_millis(1));
        }
        let end = loop {
            if let Some(end) = self.round() {
                break end;
            }
        };
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
        if self.recorder.handle().failed() || self.unrecorded.load(Ordering::Relaxed) {
            // The recorder says why when it is finished.
            return Some(End::Interrupted);
        }
        if self.must_stop() {
            return Some(End::Interrupted);
        }
        if let Some(share) = self.meter.observe(now) {
            self.datapath.limit_realtime(share);
        }
        if now.since(Time::ZERO) >= self.job.plan.duration || self.is_done() {
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
    fn note(&mut self, event: ProgramEvent, now: Time) -> Option<Error> {
        let name = |id: ProgramId| self.job.plan.programs[id.index()].name.clone();
        let log = |level, id, text: &str| self.recorder.handle().log(now, level, &name(id), text);
        match event {
            ProgramEvent::Started(id) => log(Level::Info, id, "started"),
            ProgramEvent::Ready(id) => log(Level::Info, id, "ready"),
            ProgramEvent::Ended { program, end, as_expected, again } => {
                let level = if as_expected { Level::Info } else { Level::Error };
                let again = again.map_or_else(String::new, |at| format!(", again at {at}"));
                log(level, program, &format!("ended: {end:?}{again}"));
            }
            ProgramEvent::Failed(id, error) => {
                log(Level::Error, id, &error.to_string());
                return Some(error);
            }
        }
        None
    }

    /// Takes in counters and samples.
    fn drain(&mut self) {
        while let Some(batch) = self.datapath.batch() {
            self.enter(batch);
        }
        self.flow_samples.try_iter().for_each(|seen| keep(&mut self.flow_ledger, &seen));
    }

    fn enter(&mut self, batch: Batch) {
        self.delivered = batch.delivered;
        enter((&mut self.ledger, &mut self.shares, &mut self.bundles), batch);
    }

    /// Whether the command asked to stop, or is gone.
    fn must_stop(&mut self) -> bool {
        while !self.stopped {
            match hear(&mut self.channel) {
                Heard::Nothing => break,
                Heard::End | Heard::Message(ToLab::Stop) => self.stopped = true,
                Heard::Message(ToLab::Others { labs, realtime }) => {
                    self.meter.others(labs, realtime);
                }
                Heard::Message(ToLab::Start) => {}
            }
        }
        self.stopped
    }

    fn tell(&mut self, now: Time) {
        if now < self.next_news {
            return;
        }
        self.next_news = now + NEWS;
        let plan = &self.job.plan;
        let waited = plan.programs.iter().enumerate().filter(|(at, program)| {
            let outcome = self.supervisor.outcome(ProgramId::at(*at));
            !program.service && outcome.ended.is_none()
        });
        let mut names: Vec<&str> = waited.map(|(_, program)| program.name.as_str()).collect();
        let more = names.len().saturating_sub(3);
        names.truncate(3);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let waiting_for = names.join(", ") + &more;
        let news =
            FromLab::Progress { now_ns: now.as_nanos(), waiting_for, packets: self.delivered };
        message::send(self.channel.get_ref(), &news);
    }

    /// Until something happens or is due.
    fn sleep(&self, now: Time) {
        let mut wake = (now + ROUND).min(Time::ZERO + self.job.plan.duration);
        let due = [self.supervisor.next_wake(), self.schedule.next()];
        for at in due.into_iter().flatten() {
            wake = wake.min(at);
        }
        let nap = wake.since(self.now()).as_nanos();
        let timeout = Timespec {
            tv_sec: (nap / 1_000_000_000) as i64,
            tv_nsec: (nap % 1_000_000_000) as i64,
        };
        let mut fds = vec![PollFd::new(self.channel.get_ref(), PollFlags::IN)];
        fds.extend(self.supervisor.files().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
    }

    fn finish(mut self, end: End) -> Result<()> {
        let ended = self.now();
        let results = self.flows.take().map_or_else(Vec::new, FlowEngine::finish);
        self.end_programs();
        let dropped = self.device_drops() + self.receiver_drops(&results);
        let (mut report, batches) = match self.datapath.finish() {
            Ok(finished) => finished,
            Err(error) => {
                self.warnings.push(error.to_string());
                (Report::default(), Vec::new())
            }
        };
        for batch in batches {
            enter((&mut self.ledger, &mut self.shares, &mut self.bundles), batch);
        }
        self.warnings.append(&mut report.warnings);
        self.flow_samples.try_iter().for_each(|seen| keep(&mut self.flow_ledger, &seen));
        let (load, steal_s) = self.meter.finish(&report);
        let recorded = self.recorder.finish();
        let mut record = self.job.record;
        let mut failure;
        (record.status, failure) = end.told();
        let lost = report.calls.as_ref().map_or(0, |calls| calls.lost);
        let unrecorded = report.calls.as_mut().and_then(|calls| calls.error.take());
        if let Some(error) = recorded.error.or(unrecorded) {
            record.status = Status::Failed;
            failure = failure.or(Some(Error::Record(error)));
        }
        if lost > 0 {
            self.warnings
                .push(format!("cannot be replayed: {lost} calls were not written in time"));
        }
        let host = record::run::HostFaults {
            steal_s,
            dropped_packets: dropped,
            capture_drops: recorded.capture_drops,
            records_lost: recorded.records_lost + lost,
            cpu_s: report.cpu.as_secs_f64(),
        };
        let found = summary::Found {
            plan: &self.job.plan,
            at: ended,
            results: &results,
            supervisor: &self.supervisor,
            report: &report,
            host,
            load,
            tolerance: verdict::tolerance(&self.job.plan, &self.routes),
        };
        summary::enter(&mut record, found);
        record.exit_code = failure.as_ref().map(Error::exit_code);
        record.events = self.events;
        record.warnings = self.warnings;
        record.warnings.extend(failure.map(|failure| failure.to_string()));
        let ended = outcome::Ended {
            plan: &self.job.plan,
            at: ended,
            results: &results,
            links: &self.ledger,
            flows: &self.flow_ledger,
            control: &[],
            bundles: &self.bundles,
            queue_delays: &report.queue_delays,
        };
        outcome::complete(&mut record, &ended);
        self.job.folder.write_record(&record)?;
        if let Some(enclosure) = Arc::into_inner(self.enclosure) {
            enclosure::close(enclosure.hosts);
        }
        Ok(())
    }

    /// Every program gets its grace; what outlives it dies with this process.
    fn end_programs(&mut self) {
        let start = self.now();
        self.supervisor.shutdown(start);
        let grace = self.job.plan.programs.iter().map(|program| program.grace).max();
        let until = start + grace.unwrap_or_default() + PATIENCE;
        while !self.supervisor.is_over() && self.now() < until {
            let now = self.now();
            for event in self.supervisor.step(now) {
                self.note(event, now);
            }
            if self.supervisor.is_over() {
                break;
            }
            let mut fds: Vec<_> = self
                .supervisor
                .files()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
                .collect();
            let timeout = Timespec { tv_sec: 0, tv_nsec: ROUND.as_nanos() as i64 };
            let _ = rustix::event::poll(&mut fds, Some(&timeout));
        }
    }

    /// Datagrams that flows' receivers had no room for. The kernel counts damaged ones together
    /// with them, and those are the lab's doing.
    fn receiver_drops(&mut self, results: &[FlowResult]) -> u64 {
        let datagrams = results.iter().filter_map(|result| result.datagrams);
        let mut sum: u64 = datagrams.map(|counts| counts.overrun).sum();
        for host in &self.enclosure.hosts {
            if sum == 0 {
                break;
            }
            match enclosure::damaged_datagrams(host, &self.job.plan) {
                Ok(damaged) => sum = sum.saturating_sub(damaged),
                Err(error) => self.warnings.push(error.to_string()),
            }
        }
        sum
    }

    fn device_drops(&mut self) -> u64 {
        let mut sum = 0;
        for host in &self.enclosure.hosts {
            match enclosure::device_drops(host, &self.job.plan) {
                Ok(drops) => sum += drops,
                Err(error) => self.warnings.push(error.to_string()),
            }
        }
        sum
    }
}

/// Enters what a batch tells.
fn enter(
    (links, shares, bundles): (&mut LinkLedger, &mut ShareLedger, &mut BundleLedger),
    batch: Batch,
) {
    links.enter(batch.at, batch.links);
    shares.enter(batch.at, batch.shares);
    for change in batch.bundle_changes {
        bundles.transition(change.bundle, &change.transition);
    }
    bundles.enter(batch.at, batch.bundles);
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

/// Waits for the word to begin; `false` where the lab is to end instead.
fn told_to_start(channel: &mut BufReader<UnixStream>, meter: &mut Meter) -> bool {
    loop {
        match hear(channel) {
            Heard::Message(ToLab::Start) => return true,
            Heard::Message(ToLab::Others { labs, realtime }) => meter.others(labs, realtime),
            Heard::Message(ToLab::Stop) | Heard::End => return false,
            Heard::Nothing => {}
        }
    }
}

/// Makes the namespaces, and connects and names what is in them.
fn enclose(
    job: &Job,
    side: &mut LabSide,
    routes: &Routes,
    warnings: &mut Vec<String>,
) -> Result<(Enclosure, Option<Uplink>)> {
    let plan = &job.plan;
    let enclosure = enclosure::build(plan, routes, job.engine)?;
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

fn warn_all(warnings: &mut Vec<String>, notices: &[impl Display]) {
    warnings.extend(notices.iter().map(ToString::to_string));
}
