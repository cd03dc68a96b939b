//! What flows and programs did in a run.

use base::Distribution;
use serde::{Deserialize, Serialize};

/// A built-in flow over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    /// Its name.
    pub name: String,
    /// The node that opened the connection.
    pub from: String,
    /// The node that accepted it.
    pub to: String,
    /// What it did, in words: `TCP cubic`, `transfers, TCP cubic`, `UDP 5 Mbit/s`, `RPC`.
    pub kind: String,
    /// When it started; `None` if it did not.
    pub started_s: Option<f64>,
    /// When its last byte arrived, or it was stopped.
    pub ended_s: Option<f64>,
    /// Time from start to complete delivery of a finite amount; `None` if it did not complete.
    pub completion_s: Option<f64>,
    /// Payload bytes sent.
    pub sent_bytes: u64,
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Mean rate of received payload from start to end.
    pub goodput_bit_per_s: f64,
    /// TCP segments sent again.
    pub retransmits: Option<u64>,
    /// Retransmission timeouts, where the transport tells them.
    #[serde(default)]
    pub timeouts: Option<u64>,
    /// Datagrams sent.
    pub sent_datagrams: Option<u64>,
    /// Datagrams that never arrived.
    pub lost_datagrams: Option<u64>,
    /// Datagrams that later-sent ones had overtaken.
    pub reordered_datagrams: Option<u64>,
    /// Datagrams that arrived again.
    pub duplicate_datagrams: Option<u64>,
    /// Responses received.
    pub responses: Option<u64>,
    /// Transfers that began, each over a connection of its own.
    #[serde(default)]
    pub transfers_started: Option<u64>,
    /// Transfers that were delivered whole.
    #[serde(default)]
    pub transfers_completed: Option<u64>,
    /// Completion times of transfers.
    #[serde(default)]
    pub completion: Option<Distribution>,
    /// Slowdowns of transfers.
    #[serde(default)]
    pub slowdown: Option<Slowdown>,
    /// The longest time without a byte at the receiver while it ran.
    #[serde(default)]
    pub gap_s: Option<f64>,
    /// Bytes that a multipath sender sent again over another path.
    #[serde(default)]
    pub reinjected_bytes: Option<u64>,
    /// The most bytes that waited at a multipath receiver for earlier ones.
    #[serde(default)]
    pub reorder_max_bytes: Option<u64>,
    /// The most bytes, at any sample, that a multipath receiver kept unread.
    #[serde(default)]
    pub buffered_max_bytes: Option<u64>,
    /// The paths of a multipath flow.
    #[serde(default)]
    pub paths: Vec<PathSummary>,
    /// Round-trip times as the sender's TCP smoothed them.
    pub rtt: Option<Distribution>,
    /// One-way delays of datagrams.
    pub delay: Option<Distribution>,
    /// Times from request to response.
    pub latency: Option<Distribution>,
    /// What ended it early.
    pub error: Option<String>,
}

/// A path of a multipath flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathSummary {
    /// The sender's link.
    pub link: String,
    /// Subflows there were on it.
    pub subflows: u64,
    /// Payload bytes that the sender handed to them, repetitions included.
    pub sent_bytes: u64,
    /// Payload bytes that arrived over them, repetitions included.
    pub received_bytes: u64,
    /// TCP segments sent again.
    pub retransmits: u64,
}

/// Completion times of transfers over the times that they would have taken alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The largest.
    pub max: f64,
}

/// A real program over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramSummary {
    /// Its name; its output is in `programs/<name>/`.
    pub name: String,
    /// The node it ran on.
    pub node: String,
    /// What ran.
    pub command: String,
    /// When it first started; `None` if it did not.
    pub started_s: Option<f64>,
    /// When it was ready; `None` without a ready condition.
    pub ready_s: Option<f64>,
    /// When it ended for the last time.
    pub ended_s: Option<f64>,
    /// How it ended; `None` if it never started.
    pub end: Option<ProgramEnd>,
    /// Whether it ended as the lab expects.
    pub as_expected: bool,
    /// How often it was started again.
    pub restarts: u32,
    /// Its last lines on standard error.
    #[serde(default)]
    pub last_stderr: Vec<String>,
    /// Bytes of its output that were beyond its limit, and are not in its files.
    #[serde(default)]
    pub discarded_output_bytes: u64,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramEnd {
    /// By itself, with this exit status.
    Exit(i32),
    /// By this signal, which the lab did not send.
    Signal(i32),
    /// The kernel's OOM killer ended it.
    #[serde(rename = "out_of_memory")]
    OutOfMemory,
    /// The lab stopped or killed it.
    Stopped,
}
