//! Aggregation of samples and changes into frames.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use base::{Bytes, Span, Time};
use lab::plan::Plan;

use super::frame::{
    DirectionRow, EventLine, FlowRow, Frame, LinkChange, LinkRow, LogLine, MachineState,
    ProgramRow, ProgramState, SeriesRow, SystemState,
};
use super::hello::LinkValues;
use super::system::{Point, Points, Systems};
use crate::sample::bundle::BundleSample;
use crate::sample::control::ControlSample;
use crate::{Change, ChangeKind, FlowSample, Level, LinkSample, ShareSample, SubflowSample};

/// Minimum length of a frame of a running lab: at most ten frames per second.
pub const MIN_FRAME_SPAN: Span = Span::from_millis(100);

/// Maximum delay of samples after the end of their frame: flows report them at intervals of 50 ms.
const MAX_SAMPLE_DELAY: Span = Span::from_millis(100);

/// The length of frames of a running lab: the smallest multiple of the sampling interval that is at
/// least [`MIN_FRAME_SPAN`].
pub fn live_span(interval: Span) -> Span {
    let interval = interval.as_nanos().max(1);
    Span::from_nanos(interval * MIN_FRAME_SPAN.as_nanos().div_ceil(interval))
}

/// Aggregates samples and changes into frames. Frame *n* starts at lab time *n* × `span`. A sample
/// belongs to the frame with the midpoint of its interval, or to the next one if it is late.
#[derive(Debug)]
pub struct FrameBuilder {
    span: Span,
    /// Time after the end of a frame for which its samples are awaited.
    delay: Span,
    /// Wire bytes per packet beyond layer 3.
    overhead: Bytes,
    /// Number of the first frame: earlier samples are ignored.
    first: u64,
    /// Number of the next frame.
    next: u64,
    sums: BTreeMap<u64, Sums>,
    machine: Option<MachineState>,
    /// Changes after the last frame, by time and sequence number.
    pending: BTreeMap<(Time, u64), Update>,
    updates: u64,
    /// State of the programs at the last frame.
    programs: Vec<ProgramRow>,
    /// Properties of the links at the last frame.
    links: Vec<LinkValues>,
    changed_links: BTreeSet<u32>,
    /// Events until the last frame.
    events: Vec<EventLine>,
    systems: Systems,
    /// The state of each system in the newest sample.
    newest_states: Vec<String>,
    /// The state of each system at the last frame.
    states: Vec<String>,
}

/// A change at one time.
#[derive(Debug)]
enum Update {
    Program(ProgramRow),
    Network(Vec<LinkPart>),
    System(SystemState),
    Event(String),
    Log(LogLine),
}

/// A change of a part of a link's properties.
#[derive(Debug)]
enum LinkPart {
    Direction(u32, usize, (Option<f64>, f64, f64, Option<u64>)),
    State(u32, bool),
}

/// Sums over the samples of a frame.
#[derive(Debug, Default)]
struct Sums {
    links: BTreeMap<u32, [DirectionSum; 2]>,
    flows: BTreeMap<u32, FlowSum>,
    series: BTreeMap<u32, SeriesSum>,
}

/// A series over the samples of a frame.
#[derive(Clone, Copy, Debug)]
enum SeriesSum {
    Bytes(u64),
    /// The sum and the number of samples.
    Mean(f64, u32),
    Max(f64),
}

#[derive(Clone, Copy, Debug, Default)]
struct DirectionSum {
    sent_bytes: u64,
    queue_max_bytes: u64,
    dropped: u64,
    queue_delay: Span,
}

#[derive(Clone, Copy, Debug, Default)]
struct FlowSum {
    received_bytes: u64,
    /// RTT of the last sample with an RTT.
    rtt: Option<Span>,
    lost: u64,
}

impl FrameBuilder {
    /// A builder of frames of a run on the virtual clock, whose samples arrive without delay.
    pub fn on_virtual_clock(plan: &Plan) -> Self {
        Self { delay: Span::ZERO, ..Self::new(plan, plan.interval) }
    }

    /// A builder of frames of this length, from the start of the run.
    pub fn new(plan: &Plan, span: Span) -> Self {
        let systems = Systems::new(plan);
        let states = vec![String::new(); systems.hello.len()];
        let waiting_row = |at| ProgramRow { program: at as u32, ..ProgramRow::default() };
        Self {
            span: Span::from_nanos(span.as_nanos().max(1)),
            delay: MAX_SAMPLE_DELAY,
            overhead: plan.overhead,
            first: 0,
            next: 0,
            sums: BTreeMap::new(),
            machine: None,
            pending: BTreeMap::new(),
            updates: 0,
            programs: (0..plan.programs.len()).map(waiting_row).collect(),
            links: plan.links.iter().map(|link| LinkValues::of(link, plan.overhead)).collect(),
            changed_links: BTreeSet::new(),
            events: Vec::new(),
            systems,
            newest_states: states.clone(),
            states,
        }
    }

    /// Restarts with the first frame that begins at or after `now`.
    pub fn restart(&mut self, now: Time) {
        self.apply_changes(now);
        self.sums.clear();
        self.pending.retain(|_, update| !matches!(update, Update::Log(_)));
        self.machine = None;
        self.first = now.as_nanos().div_ceil(self.span.as_nanos());
        self.next = self.first;
        // Apply the changes until the first frame begins.
        self.apply_changes(self.start_of(self.first));
    }

    /// The state before the next frame: all programs, all links that have changed, all events.
    pub fn state(&self) -> Frame {
        let change =
            |link: &u32| LinkChange { link: *link, values: self.links[*link as usize].clone() };
        let states = self.states.iter().enumerate().filter(|(_, state)| !state.is_empty());
        let states = states.map(|(at, state)| SystemState(at as u32, state.clone()));
        let mut frame = Frame {
            states: states.collect(),
            t: self.start_of(self.next).as_secs_f64(),
            programs: self.programs.clone(),
            changes: self.changed_links.iter().map(change).collect(),
            events: self.events.clone(),
            ..Frame::default()
        };
        frame.limit_lines();
        frame
    }

    pub fn link(&mut self, sample: &LinkSample) {
        let side = sample.direction.index();
        let (link, dropped) = (sample.link.index() as u32, sample.dropped());
        let Some(sums) = self.sums_of(sample.at, sample.interval) else { return };
        let sum = &mut sums.links.entry(link).or_default()[side];
        sum.sent_bytes += sample.sent_bytes;
        sum.queue_max_bytes = sum.queue_max_bytes.max(sample.queue_max_bytes);
        sum.dropped += dropped;
        sum.queue_delay = sum.queue_delay.max(sample.queue_delay_max.unwrap_or_default());
    }

    pub fn flow(&mut self, sample: &FlowSample) {
        let flow = sample.flow.index() as u32;
        let Some(sums) = self.sums_of(sample.at, sample.interval) else { return };
        let sum = sums.flows.entry(flow).or_default();
        sum.received_bytes += sample.received_bytes;
        sum.rtt = sample.rtt.or(sum.rtt);
        sum.lost += sample.retransmits.unwrap_or(0) + sample.lost.unwrap_or(0);
        self.enter(sample.at, sample.interval, self.systems.flow(sample));
    }

    pub fn subflow(&mut self, sample: &SubflowSample) {
        if let Some((system, points, state)) = self.systems.subflow(sample) {
            self.enter(sample.at, sample.interval, points);
            self.set_state(sample.at, system, &state);
        }
    }

    pub fn bundle(&mut self, sample: &BundleSample) {
        if let Some((system, points)) = self.systems.bundle(sample) {
            self.enter(sample.at, sample.interval, points);
            self.set_state(sample.at, system, sample.state);
        }
    }

    pub fn control(&mut self, sample: &ControlSample) {
        self.enter(sample.at, sample.interval, self.systems.control(sample));
    }

    /// The shares of all flows at one time.
    pub fn shares(&mut self, samples: &[ShareSample]) {
        if let Some(first) = samples.first() {
            self.enter(first.at, first.interval, self.systems.shares(samples));
        }
    }

    fn enter(&mut self, end: Time, interval: Span, points: Points) {
        if points.is_empty() {
            return;
        }
        let Some(sums) = self.sums_of(end, interval) else { return };
        for (series, point) in points {
            let point = match point {
                Point::Bytes(bytes) => SeriesSum::Bytes(bytes),
                Point::Mean(value) => SeriesSum::Mean(value, 1),
                Point::Max(value) => SeriesSum::Max(value),
            };
            sums.add_series(series, point);
        }
    }

    fn set_state(&mut self, at: Time, system: u32, state: &str) {
        let newest = &mut self.newest_states[system as usize];
        if newest != state {
            state.clone_into(newest);
            self.push(at, Update::System(SystemState(system, state.to_owned())));
        }
    }

    /// Number of series of systems.
    pub(super) const fn series(&self) -> u32 {
        self.systems.count()
    }

    pub fn program(&mut self, at: Time, program: u32, state: ProgramState, exit: Option<i32>) {
        self.push(at, Update::Program(ProgramRow { program, state, exit_code: exit }));
    }

    /// A change of the network; it may be in the future.
    pub fn change(&mut self, change: &Change) {
        let parts = match &change.kind {
            ChangeKind::Configure(link, direction, config) => {
                let values = LinkValues::direction(config, self.overhead);
                vec![LinkPart::Direction(link.index() as u32, direction.index(), values)]
            }
            ChangeKind::LinkState { links, up, .. } => {
                links.iter().map(|link| LinkPart::State(link.index() as u32, *up)).collect()
            }
        };
        self.push(change.at, Update::Network(parts));
    }

    pub fn event(&mut self, at: Time, text: &str) {
        self.push(at, Update::Event(text.to_owned()));
    }

    pub fn log(&mut self, at: Time, level: Level, source: &str, text: &str) {
        let level = match level {
            Level::Info => "info",
            Level::Warn => "warning",
            Level::Error => "error",
        };
        let [level, source, text] = [level, source, text].map(str::to_owned);
        self.push(at, Update::Log(LogLine { at: at.as_secs_f64(), level, source, text }));
    }

    pub fn machine(&mut self, state: MachineState) {
        self.machine = Some(state);
    }

    /// Applies changes until `now` to the state without a frame.
    pub fn apply_changes(&mut self, now: Time) {
        self.take_updates(now, &mut Frame::default());
    }

    /// The next frame, once its samples have arrived. If several frames are complete, they become
    /// one longer frame.
    pub fn poll(&mut self, now: Time) -> Option<Frame> {
        let complete = now.as_nanos().saturating_sub(self.delay.as_nanos());
        let until = complete / self.span.as_nanos();
        (until > self.next).then(|| self.close(until, self.start_of(until)))
    }

    /// The remaining frames of a run that ended at `end`. The last one has at least half of the
    /// length of the others.
    pub fn finish(&mut self, end: Time) -> Vec<Frame> {
        let (end_ns, span) = (end.as_nanos(), self.span.as_nanos());
        let is_short = end_ns % span < span.div_ceil(2);
        let count = (end_ns / span + u64::from(!is_short)).max(self.next + 1);
        let mut frames = Vec::new();
        while self.next + 1 < count {
            let until = self.next + 1;
            frames.push(self.close(until, self.start_of(until)));
        }
        frames.push(self.close(u64::MAX, end));
        frames
    }

    fn start_of(&self, number: u64) -> Time {
        Time::from_nanos(number.saturating_mul(self.span.as_nanos()))
    }

    /// The sums of the frame of a sample; `None` before the first frame.
    fn sums_of(&mut self, end: Time, interval: Span) -> Option<&mut Sums> {
        let middle = end.as_nanos().saturating_sub(interval.as_nanos() / 2);
        let number = middle / self.span.as_nanos();
        (number >= self.first).then(|| self.sums.entry(number.max(self.next)).or_default())
    }

    fn push(&mut self, at: Time, update: Update) {
        self.pending.insert((at, self.updates), update);
        self.updates += 1;
    }

    /// Closes all frames before number `until` as one frame that ends at `end`.
    fn close(&mut self, until: u64, end: Time) -> Frame {
        let start = self.start_of(self.next);
        let length = end.since(start);
        let later = self.sums.split_off(&until);
        let mut sums = Sums::default();
        for (_, more) in std::mem::replace(&mut self.sums, later) {
            sums.add(more);
        }
        self.next = until;
        // The length is zero if the run ended at the start of its last frame.
        let seconds = if length.is_positive() { length } else { self.span }.as_secs_f64();
        let mut frame = Frame {
            t: end.as_secs_f64(),
            span: seconds,
            links: sums.links.iter().map(|(link, sums)| link_row(*link, sums, seconds)).collect(),
            flows: sums.flows.iter().map(|(flow, sum)| flow_row(*flow, *sum, seconds)).collect(),
            series: sums.series.iter().map(|(at, sum)| series_row(*at, *sum, seconds)).collect(),
            machine: self.machine.take(),
            ..Frame::default()
        };
        if start == Time::ZERO {
            frame.programs.clone_from(&self.programs);
        }
        self.take_updates(end, &mut frame);
        frame.limit_lines();
        frame
    }

    /// Applies changes until `end` to the state, and adds them to the frame.
    fn take_updates(&mut self, end: Time, frame: &mut Frame) {
        let mut links = BTreeSet::new();
        while let Some(first) = self.pending.first_entry()
            && first.key().0 <= end
        {
            let ((at, _), update) = first.remove_entry();
            match update {
                Update::Program(row) => {
                    if let Some(state) = self.programs.get_mut(row.program as usize) {
                        *state = row;
                        frame.programs.retain(|other| other.program != row.program);
                        frame.programs.push(row);
                    }
                }
                Update::Network(parts) => {
                    links.extend(parts.iter().filter_map(|part| self.apply(part)));
                }
                Update::System(state) => {
                    self.states[state.0 as usize].clone_from(&state.1);
                    frame.states.retain(|other| other.0 != state.0);
                    frame.states.push(state);
                }
                Update::Event(text) => {
                    let event = EventLine { at: at.as_secs_f64(), text };
                    self.events.push(event.clone());
                    frame.events.push(event);
                }
                Update::Log(line) => frame.log.push(line),
            }
        }
        let change =
            |link: &u32| LinkChange { link: *link, values: self.links[*link as usize].clone() };
        frame.changes.extend(links.iter().map(change));
        self.changed_links.append(&mut links);
    }

    /// Applies a part of a change; returns the link.
    fn apply(&mut self, part: &LinkPart) -> Option<u32> {
        let (LinkPart::Direction(link, ..) | LinkPart::State(link, _)) = *part;
        let values = self.links.get_mut(link as usize)?;
        match *part {
            LinkPart::Direction(_, side, (rate, delay, loss, queue)) => {
                values.rate_bps[side] = rate;
                values.delay_s[side] = delay;
                values.loss[side] = loss;
                values.queue_bytes[side] = queue;
            }
            LinkPart::State(_, up) => values.up = up,
        }
        Some(link)
    }
}

impl Sums {
    fn add(&mut self, later: Self) {
        for (link, more) in later.links {
            let sums = self.links.entry(link).or_default();
            for (sum, more) in sums.iter_mut().zip(more) {
                sum.sent_bytes += more.sent_bytes;
                sum.queue_max_bytes = sum.queue_max_bytes.max(more.queue_max_bytes);
                sum.dropped += more.dropped;
                sum.queue_delay = sum.queue_delay.max(more.queue_delay);
            }
        }
        for (flow, more) in later.flows {
            let sum = self.flows.entry(flow).or_default();
            sum.received_bytes += more.received_bytes;
            sum.rtt = more.rtt.or(sum.rtt);
            sum.lost += more.lost;
        }
        for (series, more) in later.series {
            self.add_series(series, more);
        }
    }

    fn add_series(&mut self, series: u32, more: SeriesSum) {
        let sum = self.series.entry(series);
        let joined = match (sum.or_insert(more.zero()), more) {
            (SeriesSum::Bytes(sum), SeriesSum::Bytes(more)) => SeriesSum::Bytes(*sum + more),
            (SeriesSum::Mean(sum, count), SeriesSum::Mean(more, new)) => {
                SeriesSum::Mean(*sum + more, *count + new)
            }
            (SeriesSum::Max(sum), SeriesSum::Max(more)) => SeriesSum::Max(sum.max(more)),
            // A series always has points of one kind.
            (_, more) => more,
        };
        self.series.insert(series, joined);
    }
}

impl SeriesSum {
    const fn zero(self) -> Self {
        match self {
            Self::Bytes(_) => Self::Bytes(0),
            Self::Mean(..) => Self::Mean(0.0, 0),
            Self::Max(_) => Self::Max(0.0),
        }
    }
}

fn series_row(series: u32, sum: SeriesSum, seconds: f64) -> SeriesRow {
    let value = match sum {
        SeriesSum::Bytes(bytes) => bytes as f64 * 8.0 / seconds,
        SeriesSum::Mean(sum, count) => sum / f64::from(count.max(1)),
        SeriesSum::Max(value) => value,
    };
    SeriesRow(series, value)
}

fn link_row(link: u32, sums: &[DirectionSum; 2], seconds: f64) -> LinkRow {
    let directions = sums.map(|sum| DirectionRow {
        sent_bps: sum.sent_bytes as f64 * 8.0 / seconds,
        queue_bytes: sum.queue_max_bytes,
        dropped_packets: sum.dropped,
        queue_delay_s: sum.queue_delay.as_secs_f64(),
    });
    LinkRow { link, directions }
}

fn flow_row(flow: u32, sum: FlowSum, seconds: f64) -> FlowRow {
    FlowRow {
        flow,
        goodput_bps: sum.received_bytes as f64 * 8.0 / seconds,
        rtt_s: sum.rtt.map(Span::as_secs_f64),
        lost_packets: sum.lost,
    }
}

/// A frame builder that the threads of a run share. It receives samples and log lines while a
/// watcher is connected.
#[derive(Debug)]
pub struct Tap {
    is_watched: AtomicBool,
    builder: Mutex<FrameBuilder>,
}

impl Tap {
    pub fn new(builder: FrameBuilder) -> Self {
        Self { is_watched: AtomicBool::new(false), builder: Mutex::new(builder) }
    }

    /// Whether samples and log lines are needed.
    pub fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    pub fn with<R>(&self, act: impl FnOnce(&mut FrameBuilder) -> R) -> R {
        act(&mut self.builder.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts making frames unless it has started; returns the state before the next frame.
    pub fn watch(&self, now: Time) -> Frame {
        let was_watched = self.is_watched.swap(true, Ordering::Relaxed);
        self.with(|builder| {
            if !was_watched {
                builder.restart(now);
            }
            builder.state()
        })
    }

    /// Stops making frames.
    pub fn unwatch(&self) {
        self.is_watched.store(false, Ordering::Relaxed);
    }
}
