//! A run on the virtual clock, from plan to record, in a folder of its own.

use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use base::{Bytes, Span, Time};
use lab::plan::{MirrorTarget, Model, Plan};
use outcome::{BundleLedger, Ended, FlowLedger, LinkLedger, ShareLedger, Start};
use record::run::{
    Clock, Engine, EventRecord, Failure, FailureKind, RunRecord, Simulation as Took, Status,
};
use record::{ControlSample, Level, Recorder, RecorderHandle, RecorderOptions, RunFolder};

use crate::clockwork::Clockwork;
use crate::{Error, Result};

/// Turns of the engine between looks at the wall clock, the limits and the wish to stop.
const TURNS: u64 = 1 << 17;

/// The command hears of the progress this often.
const NEWS: Duration = Duration::from_millis(200);

/// How a run is done.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where run folders are made.
    pub runs_dir: PathBuf,
    /// The command that repeats the run.
    pub repeat: String,
    /// Whether the process does nothing else, so that its memory is the run's.
    pub alone: bool,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Virtual time.
    pub now: Time,
    /// When it ends at the latest.
    pub duration: Span,
    /// Wall-clock time since its start.
    pub took: Duration,
    /// Events so far.
    pub events: u64,
    /// Links that packets have crossed.
    pub packet_hops: u64,
}

/// Runs `plan` to its end and returns its record; the folder is `runs_dir/<name>-<id>`.
///
/// Once `stop` is set the run ends in order: results so far are kept, and the record says
/// `interrupted`. A run that reaches one of the plan's limits is kept as well; its record says
/// `failed`, exit code 2, and its failure names the limit. A run whose results cannot be written
/// gives a failed record, too.
///
/// # Errors
/// When the plan can't run on the virtual clock, before anything is written, or when the folder
/// can't be made, or not even the failure can be written.
pub fn run(
    plan: &Plan,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<RunRecord> {
    let engine = Clockwork::try_new(plan)?;
    let begin = |folder: &RunFolder| {
        let start = Start {
            id: folder.id(),
            repeat: &options.repeat,
            clock: Clock::Virtual,
            engine: Engine {
                name: "virtual clock".to_owned(),
                why: "the run was asked for on it".to_owned(),
                rejected: Vec::new(),
            },
        };
        outcome::begin(plan, start)
    };
    let (folder, record) =
        RunFolder::begin(&options.runs_dir, &plan.name, &lab::resolved(plan), begin)?;
    let simulated = panic::catch_unwind(AssertUnwindSafe(|| {
        simulate(plan, engine, &folder, record, options.alone, progress, stop)
    }));
    match simulated {
        Ok(Ok(record)) => Ok(record),
        Ok(Err(error)) => {
            folder.end(error.failure())?;
            Ok(folder.read_record()?)
        }
        Err(panic) => {
            let text = "internal error: the simulation panicked".to_owned();
            // Where that fails, readers find the run killed.
            let _ = folder.end(Failure { kind: FailureKind::Internal, text });
            panic::resume_unwind(panic)
        }
    }
}

/// Runs to the end and writes the record.
fn simulate(
    plan: &Plan,
    engine: Clockwork,
    folder: &RunFolder,
    record: RunRecord,
    alone: bool,
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> std::result::Result<RunRecord, record::Error> {
    let recorder = Recorder::start(
        folder,
        &RecorderOptions {
            started_unix_ns: record.started_unix_ms * 1_000_000,
            links: plan.links.iter().map(|link| link.name.clone()).collect(),
            flows: plan.flows.iter().map(|flow| flow.name.clone()).collect(),
            bundles: plan.bundles.iter().map(|bundle| bundle.name.clone()).collect(),
            nodes: plan.nodes.iter().map(|node| node.name.clone()).collect(),
            captures: Vec::new(),
            lossless: true,
        },
    )?;
    let running = Running {
        plan,
        engine,
        handle: recorder.handle(),
        links: LinkLedger::new(plan, recorder.handle()),
        shares: ShareLedger::new(plan, recorder.handle()),
        flows: FlowLedger::new(plan),
        bundles: BundleLedger::new(plan, recorder.handle()),
        control: Vec::new(),
        events: Vec::new(),
        started: Instant::now(),
        next_news: NEWS,
    };
    let record = running.finish(record, recorder, progress, stop, alone);
    folder.write_record(&record)?;
    Ok(record)
}

/// Why a run ends.
enum End {
    /// Its time is over, or everything finite has finished.
    Complete,
    /// Its user ended it, or its record can't be written.
    Interrupted,
    /// It reached a limit.
    Limit(Error),
}

/// A run under way.
struct Running<'a> {
    plan: &'a Plan,
    engine: Clockwork,
    handle: RecorderHandle,
    links: LinkLedger,
    shares: ShareLedger,
    flows: FlowLedger,
    bundles: BundleLedger,
    control: Vec<ControlSample>,
    events: Vec<EventRecord>,
    started: Instant,
    next_news: Duration,
}

impl Running<'_> {
    /// Runs to the end, whatever it is.
    fn drive(&mut self, progress: &mut dyn FnMut(&Progress), stop: &AtomicBool) -> End {
        let end = Time::ZERO + self.plan.duration;
        // An interval below 1 ns would never pass.
        let interval = self.plan.interval.max(Span::from_nanos(1));
        let mut sample = (Time::ZERO + interval).min(end);
        let mut budget = TURNS;
        loop {
            let before = self.engine.events();
            let left = self.plan.limits.events.saturating_sub(before);
            let there = self.engine.advance_at_most(sample, budget.min(left.max(1)));
            let passed = self.engine.events() - before;
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
        self.engine.enter_links(&mut self.links);
        self.shares.enter(now, self.engine.shares());
        self.engine.enter_bundles(&mut self.bundles);
        let (handle, flows) = (&self.handle, &mut self.flows);
        self.engine.sample(&mut |sample| {
            flows.enter(&sample);
            handle.flow(sample);
        });
        self.engine.subflows(&mut |sample| {
            flows.enter_subflow(&sample);
            handle.subflow(sample);
        });
        self.engine.transfers(&mut |transfer| handle.transfer(transfer));
        if let Some(sample) = self.engine.judge() {
            self.handle.control(sample);
            self.control.push(sample);
        }
        let events = &mut self.events;
        self.engine.happened(&mut |event| {
            handle.log(event.at, Level::Info, "event", &event.text);
            events.push(EventRecord { at_s: event.at.as_secs_f64(), text: event.text });
        });
    }

    fn tell(&mut self, progress: &mut dyn FnMut(&Progress)) {
        let took = self.started.elapsed();
        if took < self.next_news {
            return;
        }
        self.next_news = took + NEWS;
        progress(&Progress {
            now: self.engine.now(),
            duration: self.plan.duration,
            took,
            events: self.engine.events(),
            packet_hops: self.engine.packet_hops(),
        });
    }

    /// Runs, and completes the record.
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
        let wall = self.started.elapsed().as_secs_f64();
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
        record.warnings = ignored(self.plan);
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
        outcome::complete(
            &mut record,
            &Ended {
                plan: self.plan,
                at: now,
                results: &results,
                links: &self.links,
                flows: &self.flows,
                control: &self.control,
                bundles: &self.bundles,
                queue_delays: &queue_delays,
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

/// What the lab asks for and simulated packets can't give.
fn ignored(plan: &Plan) -> Vec<String> {
    let mut warnings = Vec::new();
    if !plan.captures.is_empty() {
        warnings.push("captures are left out: simulated packets carry no bytes".to_owned());
    }
    if plan.mirrors.iter().any(|mirror| mirror.to == MirrorTarget::File) {
        warnings.push("mirror files are left out: simulated packets carry no bytes".to_owned());
    }
    if plan.mirrors.iter().any(|mirror| mirror.to != MirrorTarget::File) {
        warnings.push("mirrors to nodes are left out: no program could read them".to_owned());
    }
    warnings
}

/// The most memory that this process has held.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string(Path::new("/proc/self/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
