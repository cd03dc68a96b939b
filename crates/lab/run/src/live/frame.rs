//! Frames: the state of a lab in an interval, and what changed in it.

use serde::{Deserialize, Serialize};

use super::LinkValues;

/// Maximum number of events, and of log lines, in a frame.
const MAX_LINES: usize = 1000;

/// Rates, queues and delays of an interval, and changes until its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// Lab time at the end of the interval.
    pub t: f64,
    /// Length of the interval; 0 for a state, which precedes the next frame.
    pub span: f64,
    /// Links that sent, queued or dropped packets.
    pub links: Vec<LinkRow>,
    /// Flows with samples in the interval.
    pub flows: Vec<FlowRow>,
    /// Programs whose state has changed.
    pub programs: Vec<ProgramRow>,
    /// Links whose properties have changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<LinkChange>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventLine>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogLine>,
    /// Values of the series of systems.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<SeriesRow>,
    /// Systems whose state has changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<SystemState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineState>,
    /// Frames before this one that were dropped because the watcher read too slowly.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DirectionRow {
    /// Rate of sent wire bytes in bit/s.
    pub sent_bps: f64,
    /// Maximum queue length in wire bytes.
    pub queue_bytes: u64,
    pub dropped_packets: u64,
    /// Maximum queueing delay in seconds.
    pub queue_delay_s: f64,
}

/// A link, in JSON a list: link, then the fields of direction 0 and of direction 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "LinkTuple", from = "LinkTuple")]
pub struct LinkRow {
    /// Position of the link in the hello.
    pub link: u32,
    pub directions: [DirectionRow; 2],
}

type LinkTuple = (u32, f64, u64, u64, f64, f64, u64, u64, f64);

impl From<LinkRow> for LinkTuple {
    fn from(row: LinkRow) -> Self {
        let [a, b] = row.directions;
        (
            row.link,
            a.sent_bps,
            a.queue_bytes,
            a.dropped_packets,
            a.queue_delay_s,
            b.sent_bps,
            b.queue_bytes,
            b.dropped_packets,
            b.queue_delay_s,
        )
    }
}

impl From<LinkTuple> for LinkRow {
    fn from(row: LinkTuple) -> Self {
        let direction = |sent_bps, queue_bytes, dropped_packets, queue_delay_s| DirectionRow {
            sent_bps,
            queue_bytes,
            dropped_packets,
            queue_delay_s,
        };
        let directions =
            [direction(row.1, row.2, row.3, row.4), direction(row.5, row.6, row.7, row.8)];
        Self { link: row.0, directions }
    }
}

/// A flow, in JSON a list of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "FlowTuple", from = "FlowTuple")]
pub struct FlowRow {
    /// Position of the flow in the hello.
    pub flow: u32,
    /// Rate of received payload in bit/s.
    pub goodput_bps: f64,
    /// The last smoothed RTT in seconds; `None` if the transport reports none.
    pub rtt_s: Option<f64>,
    /// Retransmitted segments or lost datagrams.
    pub lost_packets: u64,
}

type FlowTuple = (u32, f64, Option<f64>, u64);

impl From<FlowRow> for FlowTuple {
    fn from(row: FlowRow) -> Self {
        (row.flow, row.goodput_bps, row.rtt_s, row.lost_packets)
    }
}

impl From<FlowTuple> for FlowRow {
    fn from((flow, goodput_bps, rtt_s, lost_packets): FlowTuple) -> Self {
        Self { flow, goodput_bps, rtt_s, lost_packets }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramState {
    /// Its start time or start conditions are not reached.
    #[default]
    Waiting,
    Running,
    /// Its readiness condition holds.
    Ready,
    /// It ended as the lab expects.
    Exited,
    Failed,
}

/// A program, in JSON a list of the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "ProgramTuple", from = "ProgramTuple")]
pub struct ProgramRow {
    /// Position of the program in the hello.
    pub program: u32,
    pub state: ProgramState,
    /// Exit status; `None` while it runs, and after a signal.
    pub exit_code: Option<i32>,
}

type ProgramTuple = (u32, ProgramState, Option<i32>);

impl From<ProgramRow> for ProgramTuple {
    fn from(row: ProgramRow) -> Self {
        (row.program, row.state, row.exit_code)
    }
}

impl From<ProgramTuple> for ProgramRow {
    fn from((program, state, exit_code): ProgramTuple) -> Self {
        Self { program, state, exit_code }
    }
}

/// The properties of a link since a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkChange {
    /// Position of the link in the hello.
    pub link: u32,
    #[serde(flatten)]
    pub values: LinkValues,
}

/// The number of a series and its value, in JSON a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeriesRow(pub u32, pub f64);

/// The position of a system in the hello, and a text for its state, in JSON a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemState(pub u32, pub String);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventLine {
    pub at: f64,
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    pub at: f64,
    /// `info`, `warning` or `error`.
    pub level: String,
    pub source: String,
    pub text: String,
}

/// Lateness of packets that left the emulated network, and stalls, since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineState {
    pub late_p50_s: f64,
    pub late_p99_s: f64,
    pub late_max_s: f64,
    /// Stalls of the data path: times of 1 ms or more by which it missed a deadline.
    #[serde(default)]
    pub stalls: u64,
    /// Length of all stalls.
    #[serde(default)]
    pub stalled_s: f64,
    /// Whether the results so far are trusted; the verdict at the end of the run considers more.
    pub trusted: bool,
}

impl Frame {
    /// Adds the changes of an earlier frame that was not sent, without its rates.
    pub fn add_earlier(&mut self, earlier: Self) {
        self.events.splice(..0, earlier.events);
        self.log.splice(..0, earlier.log);
        // The last state of each program, link and system is retained.
        let mut programs = earlier.programs;
        programs.retain(|old| self.programs.iter().all(|new| new.program != old.program));
        programs.append(&mut self.programs);
        self.programs = programs;
        let mut changes = earlier.changes;
        changes.retain(|old| self.changes.iter().all(|new| new.link != old.link));
        changes.append(&mut self.changes);
        self.changes = changes;
        let mut states = earlier.states;
        states.retain(|old| self.states.iter().all(|new| new.0 != old.0));
        states.append(&mut self.states);
        self.states = states;
        self.machine = self.machine.or(earlier.machine);
        self.dropped += earlier.dropped;
        self.limit_lines();
    }

    /// Omits the oldest events and log lines above the limit of a frame, and logs how many.
    pub(super) fn limit_lines(&mut self) {
        let events = self.events.len().saturating_sub(MAX_LINES);
        let lines = self.log.len().saturating_sub(MAX_LINES);
        self.events.drain(..events);
        self.log.drain(..lines);
        if events + lines > 0 {
            let text = format!(
                "{events} events and {lines} log lines are omitted here; see run.json and log.jsonl"
            );
            let (level, source) = ("warning".to_owned(), "watch".to_owned());
            self.log.push(LogLine { at: self.t, level, source, text });
        }
    }
}
