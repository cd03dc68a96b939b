//! The emulated network of a run.

use std::collections::BTreeMap;

use base::Distribution;
use serde::{Deserialize, Serialize};

/// The network's picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Topology {
    /// The nodes.
    pub nodes: Vec<TopologyNode>,
    /// The links.
    pub links: Vec<TopologyLink>,
}

/// A node in the picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyNode {
    /// Its name.
    pub name: String,
    /// What it is.
    pub role: NodeRole,
    /// From the left, 0 to 1.
    pub x: f64,
    /// From the top, 0 to 1.
    pub y: f64,
    /// Its addresses with prefix lengths.
    #[serde(default)]
    pub addresses: Vec<String>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// Runs programs.
    Host,
    /// Forwards at layer 3.
    Router,
    /// Forwards unseen.
    Switch,
    /// Forwards, and holds back the bundles that it sends.
    SendBox,
    /// Forwards, and acknowledges the bundles that it receives.
    ReceiveBox,
}

/// A link in the picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopologyLink {
    /// Its name.
    pub name: String,
    /// Names of its first and second end.
    pub ends: [String; 2],
    /// Both directions in words, `up` first, such as `10 Mbit/s, 25 ms, fq-codel`.
    pub text: [String; 2],
    /// Rates at the start, `up` first; `None` where unlimited or a trace.
    pub rate_bit_per_s: [Option<u64>; 2],
    /// Propagation delays at the start, `up` first.
    pub delay_ns: [u64; 2],
}

/// One direction of a link over the whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSummary {
    /// The link's name.
    pub name: String,
    /// `up` (first end to second) or `down`.
    pub direction: String,
    /// Name of the sending end.
    pub from: String,
    /// Name of the receiving end.
    pub to: String,
    /// Packets sent.
    pub sent_packets: u64,
    /// Wire bytes sent.
    pub sent_bytes: u64,
    /// Mean rate of wire bytes over the run.
    pub throughput_bit_per_s: f64,
    /// Share of the capacity that was used, 0 to 1; `None` without a rate.
    pub utilisation: Option<f64>,
    /// Dropped packets by reason; reasons without any are left out.
    #[serde(default)]
    pub drops: BTreeMap<String, u64>,
    /// Packets marked with congestion experienced.
    pub marks: u64,
    /// The most wire bytes that the queue held.
    pub queue_max_bytes: u64,
    /// Times that packets waited in the queue.
    pub queue_delay: Option<Distribution>,
}

impl LinkSummary {
    /// Dropped packets, whatever the reason.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }
}
