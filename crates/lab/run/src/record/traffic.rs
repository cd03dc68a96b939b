//! Summaries of flows and programs.

use base::Distribution;
use serde::{Deserialize, Serialize};

/// A built-in flow over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSummary {
    pub name: String,
    /// The node that opened the connection.
    pub from: String,
    /// The node that accepted it.
    pub to: String,
    /// A description: `TCP cubic`, `transfers, TCP cubic`, `UDP 5 Mbit/s`, `RPC`.
    pub kind: String,
    /// Start time; `None` if it did not start.
    pub started_s: Option<f64>,
    /// Time of the last received byte, or of the stop.
    pub ended_s: Option<f64>,
    /// Time from start to complete delivery; `None` if it did not complete.
    pub completion_s: Option<f64>,
    /// Payload bytes sent.
    pub sent_bytes: u64,
    /// Payload bytes received.
    pub received_bytes: u64,
    /// Mean rate of received payload from start to end.
    pub goodput_bit_per_s: f64,
    /// Retransmitted TCP segments.
    pub retransmits: Option<u64>,
    /// Retransmission timeouts, if the transport reports them.
    #[serde(default)]
    pub timeouts: Option<u64>,
    pub sent_datagrams: Option<u64>,
    /// Datagrams that did not arrive.
    pub lost_datagrams: Option<u64>,
    /// Reordered datagrams: received after one that was sent later.
    pub reordered_datagrams: Option<u64>,
    pub duplicate_datagrams: Option<u64>,
    pub responses: Option<u64>,
    /// Started transfers, each over a separate connection.
    #[serde(default)]
    pub transfers_started: Option<u64>,
    #[serde(default)]
    pub transfers_completed: Option<u64>,
    #[serde(default)]
    pub completion: Option<Distribution>,
    #[serde(default)]
    pub slowdown: Option<Slowdown>,
    /// The longest time without a received byte while it ran.
    #[serde(default)]
    pub gap_s: Option<f64>,
    /// Bytes that a multipath sender reinjected on another path.
    #[serde(default)]
    pub reinjected_bytes: Option<u64>,
    /// Maximum of bytes received out of order at a multipath receiver.
    #[serde(default)]
    pub reorder_max_bytes: Option<u64>,
    /// Maximum, over all samples, of unread bytes at a multipath receiver.
    #[serde(default)]
    pub buffered_max_bytes: Option<u64>,
    /// The paths of a multipath flow.
    #[serde(default)]
    pub paths: Vec<PathSummary>,
    /// Smoothed RTTs of the sender's TCP.
    pub rtt: Option<Distribution>,
    /// One-way delays of datagrams.
    pub delay: Option<Distribution>,
    /// Times from request to response.
    pub latency: Option<Distribution>,
    /// The error that ended it early.
    pub error: Option<String>,
    /// How much the hosts may have changed its results; `None` on the virtual clock.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub host_effect: Option<HostEffect>,
}

/// Bounds of the errors that the hosts caused in the results of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostEffect {
    /// Maximum share by which the goodput may be below that of the lab.
    pub goodput_share: f64,
    /// Maximum by which its mean delay may exceed that of the lab. Its delays are those of
    /// datagrams, responses or transfers, or else the RTT.
    pub mean_ns: u64,
    /// The same for its median delay.
    pub p50_ns: u64,
    /// The same for the 99th percentile of its delays.
    pub p99_ns: u64,
    /// Its delays without those to which the host may have added more than the tolerance; `None`
    /// if none is left, or if the run had several hosts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trimmed: Option<TrimmedDelays>,
}

/// Delays that the host did not disturb.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrimmedDelays {
    /// Number of omitted delays.
    pub left_out: u64,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
}

/// A path of a multipath flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathSummary {
    /// The sender's link.
    pub link: String,
    /// Number of subflows on the path.
    pub subflows: u64,
    /// Payload bytes that the sender passed to them, with retransmissions.
    pub sent_bytes: u64,
    /// Payload bytes received over them, with duplicates.
    pub received_bytes: u64,
    /// Retransmitted TCP segments.
    pub retransmits: u64,
}

/// Completion times of transfers divided by their times on an empty network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slowdown {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    pub max: f64,
}

/// A real program over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramSummary {
    /// Its name; its output is in `programs/<name>/`.
    pub name: String,
    /// The node it ran on.
    pub node: String,
    pub command: String,
    /// Time of the first start; `None` if it did not start.
    pub started_s: Option<f64>,
    /// Time at which it was ready; `None` without a readiness condition.
    pub ready_s: Option<f64>,
    /// Time of the last end.
    pub ended_s: Option<f64>,
    /// How it ended; `None` if it did not start.
    pub end: Option<ProgramEnd>,
    /// Whether it ended as the lab expects.
    pub as_expected: bool,
    pub restarts: u32,
    /// The last lines of its standard error.
    #[serde(default)]
    pub last_stderr: Vec<String>,
    /// Bytes of output beyond its limit, which are not in its files.
    #[serde(default)]
    pub discarded_output_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProgramEnd {
    /// It exited with this status.
    Exit(i32),
    /// It was ended by this signal, which the lab did not send.
    Signal(i32),
    /// It was killed by the kernel's OOM killer.
    #[serde(rename = "out_of_memory")]
    OutOfMemory,
    /// The lab stopped or killed it.
    Stopped,
}

impl std::fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exit(status) => write!(f, "exit {status}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::OutOfMemory => f.write_str("killed: out of memory"),
            Self::Stopped => f.write_str("stopped by the lab"),
        }
    }
}
