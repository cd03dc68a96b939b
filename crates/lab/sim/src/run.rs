//! A run on the virtual clock, from plan to record, in its own run folder.

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::{Bytes, Span, Time};
use lab::live::mark_comment;
use lab::plan::{MirrorTarget, Model, Plan};
use run::record::{
    Clock, Engine, EventRecord, Failure, FailureKind, RunRecord, Simulation as Took, Status,
};
use run::{BundleLedger, FlowLedger, LinkLedger, RunResults, ShareLedger, Start};
use run::{ControlSample, Level, Recorder, RecorderHandle, RecorderOptions, RunFolder, Schedule};

use crate::engine::Engine as Simulator;
use crate::live::{Action, Done, Live, Refusal, Reply};
use crate::{Error, Result, Simulation, fluid, sessions};

/// Steps of the engine between checks of the wall clock, the limits and the stop flag.
const TURNS: u64 = 1 << 17;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub struct Options {
    /// The folder in which run folders are created.
    pub runs_dir: PathBuf,
    /// The command line that repeats the run.
    pub repeat: String,
    /// Whether the process does nothing else, so that its peak memory is that of the run.
    pub alone: bool,
    /// The live view, which sets the pace.
    pub live: Option<Arc<Live>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    pub now: Time,
    /// Maximum duration in virtual time.
    pub duration: Span,
    /// Wall-clock time since the start.
    pub took: Duration,
    /// Number of events so far.
    pub events: u64,
    /// Number of link crossings so far.
    pub packet_hops: u64,
}

/// Runs `plan` to its end and returns its record; the folder is `runs_dir/<name>-<id>`.
///
/// If `stop` is set, the run ends early in an orderly way: it keeps the results so far, and the
/// record has the status `interrupted`. A run that reaches one of the plan's limits is kept as
/// well; its record has the status `failed`, exit code 2, and a failure that names the limit. A run
/// whose results cannot be written also gives a failed record.
///
/// # Errors
/// If the plan cannot run on the virtual clock, in which case nothing is written; if the folder
/// cannot be created; or if not even the failure can be written.
pub fn run(
    plan: &Plan,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<RunRecord> {
    let engine = engine(plan)?;
    let begin = |folder: &RunFolder| {
        let start = Start {
            id: folder.id(),
            repeat: &options.repeat,
            clock: Clock::Virtual,
            engine: Engine {
                name: "virtual clock".to_owned(),
                why: "selected in the command".to_owned(),
                rejected: Vec::new(),
            },
        };
        run::begin(plan, start)
    };
    let (folder, record) =
        RunFolder::begin(&options.runs_dir, &plan.name, &lab::resolved(plan), begin)?;
    let simulated = panic::catch_unwind(AssertUnwindSafe(|| {
        simulate(plan, engine, &folder, record, options, progress, stop)
    }));
    match simulated {
        Ok(Ok(record)) => Ok(record),
        Ok(Err(error)) => {
            folder.end(error.failure())?;
            Ok(folder.read_record()?)
        }
        Err(panic) => {
            let text = "internal error: the simulation panicked".to_owned();
            // If this fails too, readers see a killed run.
            let _ = folder.end(Failure { kind: FailureKind::Internal, text });
            panic::resume_unwind(panic)
        }
    }
}

/// The engine for a plan's model and traffic.
fn engine(plan: &Plan) -> Result<Box<dyn Simulator>> {
    if sessions::all_controlled(plan) {
        return sessions::engine(plan);
    }
    Ok(match plan.model {
        Model::Hop | Model::Collapsed(_) => Box::new(Simulation::try_new(plan)?),
        Model::Fluid => Box::new(fluid::Simulation::try_new(plan)?),
    })
}

/// Runs to the end and writes the record.
fn simulate(
    plan: &Plan,
    mut engine: Box<dyn Simulator>,
    folder: &RunFolder,
    record: RunRecord,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> std::result::Result<RunRecord, run::Error> {
    let mut captures = run::Captures::of(plan).names;
    captures.truncate(if engine.has_packets() { plan.captures.len() } else { 0 });
    let recorder = Recorder::start(
        folder,
        &RecorderOptions {
            started_unix_ns: record.started_unix_ms * 1_000_000,
            links: plan.links.iter().map(|link| link.name.clone()).collect(),
            flows: plan.flows.iter().map(|flow| flow.name.clone()).collect(),
            bundles: plan.bundles.iter().map(|bundle| bundle.name.clone()).collect(),
            nodes: plan.nodes.iter().map(|node| node.name.clone()).collect(),
            captures,
            lossless: true,
        },
    )?;
    engine.record(plan, &recorder.handle());
    let view = options.live.as_ref().map(|live| {
        live.begin(plan, &record, folder.path(), engine.can_set());
        recorder.handle().connect(Arc::clone(live.tap()));
        View { live: Arc::clone(live), schedule: Schedule::new(Arc::new(plan.clone())) }
    });
    let running = Running {
        plan,
        engine,
        view,
        handle: recorder.handle(),
        links: LinkLedger::new(plan, recorder.handle()),
        shares: ShareLedger::new(plan, recorder.handle()),
        flows: FlowLedger::new(plan),
        bundles: BundleLedger::new(plan, recorder.handle()),
        control: Vec::new(),
        events: Vec::new(),
        started: Instant::now(),
        waited: Duration::ZERO,
        next_progress: if options.live.is_some() { Duration::ZERO } else { PROGRESS_INTERVAL },
    };
    let record = running.finish(record, recorder, progress, stop, options.alone);
    folder.write_record(&record)?;
    Ok(record)
}

/// Why a run ends.
enum End {
    /// Its duration is over, or all finite flows have ended.
    Complete,
    /// The stop flag was set, or its record cannot be written.
    Interrupted,
    /// It reached a limit.
    Limit(Error),
}

/// The live view of a run.
struct View {
    live: Arc<Live>,
    /// The changes that watchers see, with the links in the order of the plan.
    schedule: Schedule,
}

impl View {
    /// Shows the changes up to `at`, and an event.
    fn event(&mut self, at: Time, text: &str) {
        let changes = self.schedule.changes(at);
        self.live.tap().with(|builder| {
            for change in &changes {
                builder.change(change);
            }
            builder.event(at, text);
        });
    }

    /// Shows changes that the engine has accepted.
    fn set(&mut self, at: Time, fields: &[(String, String)]) {
        let planned = self.schedule.changes(at);
        let set = self.schedule.set(at, fields, Path::new("."));
        let set = set.map(|(changes, _)| changes).unwrap_or_default();
        self.live.tap().with(|builder| {
            planned.iter().chain(&set).for_each(|change| builder.change(change));
        });
    }
}

struct Running<'a> {
    plan: &'a Plan,
    engine: Box<dyn Simulator>,
    view: Option<View>,
    handle: RecorderHandle,
    links: LinkLedger,
    shares: ShareLedger,
    flows: FlowLedger,
    bundles: BundleLedger,
    control: Vec<ControlSample>,
    events: Vec<EventRecord>,
    started: Instant,
    /// Wall-clock time in which it waited for watchers.
    waited: Duration,
    next_progress: Duration,
}

impl Running<'_> {
    /// Runs until the end of the run, a limit or an interrupt.
    fn drive(&mut self, progress: &mut dyn FnMut(&Progress), stop: &AtomicBool) -> End {
        let end = Time::ZERO + self.plan.duration;
        // The clock would not advance by intervals below 1 ns.
        let interval = self.plan.interval.max(Span::from_nanos(1));
        let mut sample = (Time::ZERO + interval).min(end);
        let mut budget = TURNS;
        let mut reached = Time::ZERO;
        loop {
            let limit = self.wait(&mut reached, progress, stop);
            if self.view.is_some() && stop.load(Ordering::Relaxed) {
                return End::Interrupted;
            }
            let before = self.engine.events();
            let left = self.plan.limits.events.saturating_sub(before);
            let steps = budget.min(left.max(1));
            // Between samples, a pause must not have an effect.
            let there = if limit < sample {
                self.engine.handle_at_most(limit, steps)
            } else {
                self.engine.advance_at_most(sample, steps)
            };
            let passed = self.engine.events() - before;
            reached = if there { limit.min(sample) } else { reached.max(self.engine.now()) };
            if there && (self.engine.now() >= sample || self.engine.is_done()) {
                self.sample();
                sample = (sample + interval).min(end);
                if let Some(error) = self.out_of_memory() {
                    return End::Limit(error);
                }
            }
            if self.engine.is_done() || self.engine.now() >= end {
                return End::Complete;
            }
            if let Some(error) = self.exhausted() {
                return End::Limit(error);
            }
            budget = budget.saturating_sub(passed.max(1));
            if budget == 0 {
                budget = TURNS;
                if let Some(error) = self.out_of_memory() {
                    return End::Limit(error);
                }
                self.tell(progress);
                if stop.load(Ordering::Relaxed) || self.handle.failed() {
                    return End::Interrupted;
                }
            }
        }
    }

    fn exhausted(&self) -> Option<Error> {
        if self.engine.is_stuck() {
            return Some(Error::Standstill { at: self.engine.now() });
        }
        let limit = self.plan.limits.events;
        (self.engine.events() >= limit).then(|| Error::EventLimit { limit, at: self.engine.now() })
    }

    fn out_of_memory(&self) -> Option<Error> {
        let limit = self.plan.limits.memory;
        let needed = Bytes::new(self.engine.memory());
        (needed > limit).then(|| Error::MemoryLimit { limit, needed, at: self.engine.now() })
    }

    fn sample(&mut self) {
        let now = self.engine.now();
        let counters = self.engine.link_counters(self.links.reported());
        self.links.enter_changed(now, counters);
        self.shares.enter(now, self.engine.shares());
        self.engine.enter_bundles(&mut self.bundles);
        let (handle, flows) = (&self.handle, &mut self.flows);
        self.engine.sample(&mut |sample| {
            flows.enter(&sample);
            handle.flow(sample);
        });
        for sample in self.engine.subflows() {
            flows.enter_subflow(&sample);
            handle.subflow(sample);
        }
        for transfer in self.engine.transfers() {
            handle.transfer(transfer);
        }
        if let Some(sample) = self.engine.judge() {
            self.handle.control(sample);
            self.control.push(sample);
        }
        self.take_events();
        if let Some(view) = &self.view {
            view.live.sampled(now);
        }
    }

    /// Records the lab events since the last call.
    fn take_events(&mut self) {
        for event in self.engine.happened() {
            if let Some(view) = &mut self.view {
                view.event(event.at, &event.text);
            }
            self.record_event(event.at, event.text, Vec::new());
        }
    }

    fn record_event(&mut self, at: Time, text: String, set: Vec<(String, String)>) {
        self.handle.log(at, Level::Info, "event", &text);
        self.events.push(EventRecord { at_s: at.as_secs_f64(), text, set });
    }

    /// Waits until watchers let a run that has reached this time go on, and handles their requests.
    /// Returns how far it may go on.
    fn wait(
        &mut self,
        reached: &mut Time,
        progress: &mut dyn FnMut(&Progress),
        stop: &AtomicBool,
    ) -> Time {
        let Some(view) = &self.view else { return Time::MAX };
        let live = Arc::clone(&view.live);
        self.tell(progress);
        let begin = Instant::now();
        let limit = live.wait(*reached, stop);
        self.waited += begin.elapsed();
        for (action, reply) in live.take_requests() {
            // A watcher that has gone needs no reply.
            let _ = reply.send(self.act(reached, action));
        }
        limit.max(*reached)
    }

    /// Handles a request at the time that the run has reached.
    fn act(&mut self, reached: &mut Time, action: Action) -> Reply {
        self.take_events();
        match action {
            Action::Mark(text) => {
                let (at, at_events) = (*reached, mark_comment(*reached, &text));
                let text = format!("mark: {text}");
                if let Some(view) = &mut self.view {
                    view.event(at, &text);
                }
                self.record_event(at, text.clone(), Vec::new());
                Ok(Done { at, events: vec![text], warnings: None, at_events })
            }
            Action::Set(fields) => {
                // After all events so far, so that an event of the lab file has the same effect.
                self.engine.handle_at_most(*reached, u64::MAX);
                let at = *reached + Span::from_nanos(1);
                let found = self.engine.set(at, &fields).map_err(Refusal::Wrong)?;
                let Some(found) = found else {
                    return Err(Refusal::Impossible(
                        "this model of the virtual clock does not change links while it runs",
                    ));
                };
                *reached = at;
                let texts = found.changes.iter().map(|change| change.event.text.clone());
                let events = texts.collect();
                for change in found.changes {
                    if let Some(view) = &mut self.view {
                        view.set(at, &change.fields);
                        view.event(at, &change.event.text);
                    }
                    self.record_event(at, change.event.text, change.fields);
                }
                let (warnings, at_events) = (Some(found.warnings), found.at_events);
                Ok(Done { at, events, warnings, at_events })
            }
        }
    }

    fn tell(&mut self, progress: &mut dyn FnMut(&Progress)) {
        let elapsed = self.started.elapsed();
        if elapsed < self.next_progress {
            return;
        }
        self.next_progress = elapsed + PROGRESS_INTERVAL;
        let took = elapsed.saturating_sub(self.waited);
        progress(&Progress {
            now: self.engine.now(),
            duration: self.plan.duration,
            took,
            events: self.engine.events(),
            packet_hops: self.engine.packet_hops(),
        });
    }

    /// Runs to the end, and completes the record.
    fn finish(
        mut self,
        mut record: RunRecord,
        recorder: Recorder,
        progress: &mut dyn FnMut(&Progress),
        stop: &AtomicBool,
        alone: bool,
    ) -> RunRecord {
        let end = self.drive(progress, stop);
        self.engine.stop();
        self.sample();
        let wall = self.started.elapsed().saturating_sub(self.waited).as_secs_f64();
        let now = self.engine.now();
        record.trace_hash = Some(format!("{:016x}", self.engine.trace_hash()));
        let events = self.engine.events();
        record.simulation = Some(Took {
            model: model(self.plan.model).to_owned(),
            events,
            packet_hops: self.engine.packet_hops(),
            wall_s: wall,
            events_per_s: events as f64 / wall.max(1e-9),
            speed_factor: now.as_secs_f64() / wall.max(1e-9),
            peak_memory_bytes: alone.then(peak_memory).flatten(),
        });
        record.events = std::mem::take(&mut self.events);
        record.warnings = ignored(self.plan, self.engine.has_packets());
        record.warnings.extend(self.engine.warnings(self.plan));
        if let Some((control, names, rows)) = self.engine.control() {
            record.control = Some(control);
            self.handle.sessions(names, rows);
        }
        record.status = match &end {
            End::Complete => Status::Finished,
            End::Interrupted | End::Limit(_) => Status::Interrupted,
        };
        let queue_delays = self.engine.take_queue_delays();
        let results = self.engine.results();
        let written = recorder.finish();
        let limit = match end {
            End::Limit(error) => Some(Failure { kind: FailureKind::Lab, text: error.to_string() }),
            End::Complete | End::Interrupted => None,
        };
        if let Some(failure) = written.error.map(|error| error.failure()).or(limit) {
            record.fail(failure);
        }
        run::complete(
            &mut record,
            &RunResults {
                plan: self.plan,
                at: now,
                flow_results: &results,
                links: &self.links,
                flows: &self.flows,
                control: &self.control,
                bundles: &self.bundles,
                queue_delays: &queue_delays,
                effects: None,
            },
        );
        record
    }
}

const fn model(model: Model) -> &'static str {
    match model {
        Model::Hop => "hop",
        Model::Collapsed(_) => "collapsed",
        Model::Fluid => "fluid",
    }
}

/// Features of the lab that simulated packets do not support.
fn ignored(plan: &Plan, has_packets: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if !plan.captures.is_empty() && !has_packets {
        warnings.push("captures are omitted: this model has no packets".to_owned());
    }
    if !plan.tcp_events.is_empty() && !has_packets {
        warnings.push("TCP events are omitted: this model has no packets".to_owned());
    }
    if plan.mirrors.iter().any(|mirror| mirror.to == MirrorTarget::File) {
        warnings.push("mirror files are omitted: simulated packets carry no bytes".to_owned());
    }
    if plan.mirrors.iter().any(|mirror| mirror.to != MirrorTarget::File) {
        warnings.push(
            "mirrors to nodes are omitted: the virtual clock has no programs to read them"
                .to_owned(),
        );
    }
    warnings
}

fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string(Path::new("/proc/self/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
