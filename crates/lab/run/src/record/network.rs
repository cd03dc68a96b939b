//! The emulated network of a run.

use std::collections::BTreeMap;

use base::Distribution;
use serde::{Deserialize, Serialize};

use crate::DropReason;

/// The topology, with positions for a plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    pub nodes: Vec<TopologyNode>,
    pub links: Vec<TopologyLink>,
}

/// A node of the plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyNode {
    pub name: String,
    pub role: NodeRole,
    /// Position from the left, 0 to 1.
    pub x: f64,
    /// Position from the top, 0 to 1.
    pub y: f64,
    /// Its addresses with prefix lengths.
    #[serde(default)]
    pub addresses: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    Host,
    /// Forwards at layer 3.
    Router,
    /// Forwards at layer 2.
    Switch,
    /// Forwards, and paces the bundles that it sends.
    SendBox,
    /// Forwards, and acknowledges the bundles that it receives.
    ReceiveBox,
}

/// A link of the plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyLink {
    pub name: String,
    /// Names of its first and second end.
    pub ends: [String; 2],
    /// Descriptions of both directions, `up` first, for example `10 Mbit/s, 25 ms, fq-codel`.
    pub text: [String; 2],
    /// Rates at the start, `up` first; `None` if unlimited or a trace.
    pub rate_bit_per_s: [Option<u64>; 2],
    /// Propagation delays at the start, `up` first.
    pub delay_ns: [u64; 2],
}

/// One direction of a link over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSummary {
    pub name: String,
    /// `up` (first end to second) or `down`.
    pub direction: String,
    /// Name of the sending end.
    pub from: String,
    /// Name of the receiving end.
    pub to: String,
    pub sent_packets: u64,
    /// Wire bytes sent.
    pub sent_bytes: u64,
    /// Mean rate of wire bytes over the run.
    pub throughput_bit_per_s: f64,
    /// Used share of the capacity, 0 to 1; `None` if unlimited.
    pub utilisation: Option<f64>,
    /// Dropped packets by reason, and packets whose TTL expired (`ttl exceeded`); reasons without
    /// packets are omitted.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// Packets marked as congestion experienced (ECN CE).
    pub marks: u64,
    /// Maximum queue length in wire bytes.
    pub queue_max_bytes: u64,
    pub queue_delay: Option<Distribution>,
}

impl LinkSummary {
    /// Packets dropped for any reason, without those whose TTL expired.
    pub fn dropped(&self) -> u64 {
        self.causes().map(|(_, count)| count).sum()
    }

    /// Dropped packets by reason, without those whose TTL expired.
    pub fn causes(&self) -> impl Iterator<Item = (&str, u64)> {
        let drops = self.drops.iter().map(|(reason, count)| (reason.as_str(), *count));
        drops.filter(|(reason, _)| *reason != DropReason::TtlExceeded.as_str())
    }

    /// Packets whose TTL expired at the receiving router, for example those of `traceroute`.
    pub fn expired(&self) -> u64 {
        self.drops.get(DropReason::TtlExceeded.as_str()).copied().unwrap_or(0)
    }

    /// Packets that entered the link.
    pub fn packets(&self) -> u64 {
        self.sent_packets + self.drops.values().sum::<u64>()
    }
}
