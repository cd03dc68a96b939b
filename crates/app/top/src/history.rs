//! Received frames of a run, in bounded memory, and the state at a time.

use std::collections::{BTreeMap, VecDeque};

use run::live::{
    DirectionRow, End, FlowRow, Frame, Hello, LinkRow, LinkValues, MachineState, ProgramRow, Source,
};

/// Maximum number of frames of a running lab: 5 minutes at ten frames a second.
const MAX_FRAMES: usize = 3000;

/// Maximum number of rows in frames of a running lab, about 30 MB.
const MAX_ROWS: usize = 400_000;

const MIN_FRAMES: usize = 20;

/// Maximum number of events and log lines.
const MAX_LINES: usize = 20_000;

/// Time over which rates of a running lab are averaged.
const LIVE_WINDOW_S: f64 = 1.0;

const FINISHED_WINDOWS: f64 = 200.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Event,
    Info,
    Warning,
    Error,
}

/// An event or a log line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: f64,
    pub(crate) level: Level,
    pub(crate) source: String,
    pub(crate) text: String,
}

/// Values that frames change, at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) t: f64,
    pub(crate) links: Vec<LinkValues>,
    pub(crate) programs: Vec<ProgramRow>,
    /// The last log line of each program.
    pub(crate) notes: Vec<String>,
    pub(crate) machine: Option<MachineState>,
}

/// A flow over a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FlowRates {
    pub(crate) goodput_bps: f64,
    pub(crate) rtt_s: Option<f64>,
    pub(crate) lost_per_s: f64,
}

/// Rates over the window that ends at a time.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    pub(crate) links: BTreeMap<u32, [DirectionRow; 2]>,
    pub(crate) flows: BTreeMap<u32, FlowRates>,
    pub(crate) seconds: f64,
}

#[derive(Debug)]
pub(crate) struct History {
    pub(crate) hello: Hello,
    /// The state before the first retained frame.
    base: State,
    pub(crate) frames: VecDeque<Frame>,
    /// Number of frames before the first retained one.
    pub(crate) first: usize,
    rows: usize,
    pub(crate) lines: VecDeque<Line>,
    /// Frames that the lab did not send because this process was slow.
    pub(crate) dropped: u64,
    pub(crate) end: Option<End>,
    programs: BTreeMap<String, usize>,
}

impl State {
    fn apply(&mut self, frame: &Frame, programs: &BTreeMap<String, usize>) {
        self.t = frame.t;
        for row in &frame.programs {
            if let Some(program) = self.programs.get_mut(row.program as usize) {
                *program = *row;
            }
        }
        for change in &frame.changes {
            if let Some(link) = self.links.get_mut(change.link as usize) {
                link.clone_from(&change.values);
            }
        }
        for line in &frame.log {
            if let Some(program) = programs.get(&line.source) {
                let first = line.text.lines().next().unwrap_or_default();
                first.clone_into(&mut self.notes[*program]);
            }
        }
        self.machine = frame.machine.or(self.machine);
    }
}

impl History {
    pub(crate) fn new(hello: Hello) -> Self {
        let waiting = |at| ProgramRow { program: at as u32, ..ProgramRow::default() };
        let names = hello.programs.iter().map(|program| program.name.clone());
        let base = State {
            links: hello.links.iter().map(|link| link.values.clone()).collect(),
            programs: (0..hello.programs.len()).map(waiting).collect(),
            notes: vec![String::new(); hello.programs.len()],
            ..State::default()
        };
        Self {
            base,
            frames: VecDeque::new(),
            first: 0,
            rows: 0,
            lines: VecDeque::new(),
            dropped: 0,
            end: None,
            programs: names.enumerate().map(|(at, name)| (name, at)).collect(),
            hello,
        }
    }

    pub(crate) fn add(&mut self, mut frame: Frame) {
        frame.links.sort_by_key(|row| row.link);
        frame.flows.sort_by_key(|row| row.flow);
        // The terminal does not show them.
        frame.series = Vec::new();
        self.dropped += frame.dropped;
        self.enter_lines(&frame);
        if frame.span <= 0.0 {
            self.base.apply(&frame, &self.programs);
            return;
        }
        self.rows += frame.links.len() + frame.flows.len();
        self.frames.push_back(frame);
        let is_full = |own: &Self| own.frames.len() > MAX_FRAMES || own.rows > MAX_ROWS;
        while !self.is_finished() && is_full(self) && self.frames.len() > MIN_FRAMES {
            let Some(old) = self.frames.pop_front() else { return };
            self.base.apply(&old, &self.programs);
            self.rows -= old.links.len() + old.flows.len();
            self.first += 1;
        }
    }

    fn enter_lines(&mut self, frame: &Frame) {
        let events = frame.events.iter().map(|event| {
            let (level, source, text) = (Level::Event, String::new(), event.text.clone());
            Line { at: event.at, level, source, text }
        });
        // The log repeats events.
        let is_event = |text: &str| frame.events.iter().any(|event| event.text == text);
        let log = frame.log.iter().filter(|line| !is_event(&line.text)).map(|line| {
            let level = match line.level.as_str() {
                "error" => Level::Error,
                "warning" => Level::Warning,
                _ => Level::Info,
            };
            let (source, text) = (line.source.clone(), line.text.clone());
            Line { at: line.at, level, source, text }
        });
        let mut lines: Vec<Line> = events.chain(log).collect();
        lines.sort_by(|a, b| a.at.total_cmp(&b.at));
        self.lines.extend(lines);
        let excess = self.lines.len().saturating_sub(MAX_LINES);
        if !self.is_finished() {
            self.lines.drain(..excess);
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.hello.source == Source::Finished
    }

    /// The number of the newest frame.
    pub(crate) fn last(&self) -> usize {
        self.first + self.frames.len().saturating_sub(1)
    }

    /// Lab time at the end of the newest frame.
    pub(crate) fn newest(&self) -> f64 {
        self.frames.back().map_or(self.base.t, |frame| frame.t)
    }

    /// The state after a frame.
    pub(crate) fn state(&self, number: usize) -> State {
        let mut state = self.base.clone();
        let count = (number + 1).saturating_sub(self.first);
        for frame in self.frames.iter().take(count) {
            state.apply(frame, &self.programs);
        }
        state
    }

    /// The time over which rates are averaged: 1 s of a running lab, one of 200 parts of a run.
    pub(crate) fn window(&self) -> f64 {
        if !self.is_finished() {
            return LIVE_WINDOW_S.max(self.hello.interval_s);
        }
        let part = self.hello.duration_s.unwrap_or_default() / FINISHED_WINDOWS;
        part.max(self.hello.interval_s)
    }

    /// The number of the frame `seconds` later than frame `number`.
    pub(crate) fn later(&self, number: usize, seconds: f64) -> usize {
        let at = number.saturating_sub(self.first);
        let Some(frame) = self.frames.get(at) else { return self.last() };
        let t = frame.t + seconds;
        let found = self.frames.partition_point(|frame| frame.t < t - 1e-9);
        self.first + found.min(self.frames.len().saturating_sub(1))
    }

    /// Rates over the window that ends with a frame.
    pub(crate) fn rates(&self, number: usize) -> Rates {
        let count = (number + 1).saturating_sub(self.first).min(self.frames.len());
        let Some(last) = count.checked_sub(1).and_then(|at| self.frames.get(at)) else {
            return Rates::default();
        };
        let start = last.t - self.window() + 1e-9;
        let frames = self.frames.iter().take(count).rev().take_while(|frame| frame.t > start);
        let mut rates = Rates::default();
        // The newest frame comes first: its RTT is shown.
        for frame in frames {
            rates.add(frame);
        }
        rates.divide();
        rates
    }

    /// Means of parts of the time, from `from` on: `value` of the rows in a frame.
    pub(crate) fn series(
        &self,
        from: f64,
        part: f64,
        count: usize,
        until: usize,
        value: impl Fn(&Frame) -> f64,
    ) -> Vec<Option<f64>> {
        let mut sums = vec![(0.0, 0.0); count];
        let start = self.frames.partition_point(|frame| frame.t <= from);
        let end = (until + 1).saturating_sub(self.first).min(self.frames.len());
        for frame in self.frames.iter().take(end).skip(start) {
            let begin = (frame.t - frame.span - from).max(0.0);
            let first = (begin / part) as usize;
            let value = value(frame);
            // A frame may be longer than a part.
            for (at, sum) in sums.iter_mut().enumerate().skip(first) {
                let part_end = (at + 1) as f64 * part;
                let time = part_end.min(frame.t - from) - begin.max(part_end - part);
                if time <= 0.0 {
                    break;
                }
                sum.0 += value * time;
                sum.1 += time;
            }
        }
        // Rounding errors of times are less than a thousandth of a part.
        let known = |time: f64| time > part / 1000.0;
        sums.into_iter().map(|(sum, time)| known(time).then(|| sum / time)).collect()
    }
}

/// The row of a link in a frame, whose links are sorted.
pub(crate) fn link_row(frame: &Frame, link: u32) -> LinkRow {
    let found = frame.links.binary_search_by_key(&link, |row| row.link);
    found.map_or_else(|_| LinkRow::default(), |at| frame.links[at])
}

/// The row of a flow in a frame, whose flows are sorted.
pub(crate) fn flow_row(frame: &Frame, flow: u32) -> FlowRow {
    let found = frame.flows.binary_search_by_key(&flow, |row| row.flow);
    found.map_or_else(|_| FlowRow::default(), |at| frame.flows[at])
}

impl Rates {
    /// Adds an earlier frame, weighted by its length.
    fn add(&mut self, frame: &Frame) {
        self.seconds += frame.span;
        for row in &frame.links {
            let sums = self.links.entry(row.link).or_default();
            for (sum, row) in sums.iter_mut().zip(row.directions) {
                sum.sent_bps += row.sent_bps * frame.span;
                sum.queue_bytes = sum.queue_bytes.max(row.queue_bytes);
                sum.dropped_packets += row.dropped_packets;
                sum.queue_delay_s = sum.queue_delay_s.max(row.queue_delay_s);
            }
        }
        for row in &frame.flows {
            let empty = FlowRates { goodput_bps: 0.0, rtt_s: row.rtt_s, lost_per_s: 0.0 };
            let sum = self.flows.entry(row.flow).or_insert(empty);
            sum.goodput_bps += row.goodput_bps * frame.span;
            sum.rtt_s = sum.rtt_s.or(row.rtt_s);
            sum.lost_per_s += row.lost_packets as f64;
        }
    }

    fn divide(&mut self) {
        let seconds = if self.seconds > 0.0 { self.seconds } else { 1.0 };
        for direction in self.links.values_mut().flatten() {
            direction.sent_bps /= seconds;
        }
        for flow in self.flows.values_mut() {
            flow.goodput_bps /= seconds;
            flow.lost_per_s /= seconds;
        }
    }
}
