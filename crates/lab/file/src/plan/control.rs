//! Explicit rate control: the protocol of a lab, and session generators.

use base::{Bandwidth, Bytes, NodeId, Ratio, Span, Time};
use ratecontrol::{Protocol, Settings};
use workload::Sizes;

/// Rate control of a lab; the whole lab uses the same protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The rate control protocol.
    pub protocol: Protocol,
    /// Settings of the protocol; the lab's seed is their key.
    pub settings: Settings,
    /// Share of the control packets that each link loses, independently.
    pub loss: Ratio,
    /// Access routers, which assign sessions to plain flows; ascending.
    pub access: Vec<NodeId>,
}

/// A session generator: many sessions, measured together.
#[derive(Clone, Debug, PartialEq)]
pub struct Population {
    /// Unique name among session generators.
    pub name: String,
    /// Wire size of a data packet.
    pub packet: Bytes,
    /// Its sessions, in the order in which they were generated or listed.
    pub sessions: Vec<Session>,
    /// The rules that generated them; `None`: they were listed.
    pub drawing: Option<Drawing>,
}

/// Rules that generate sessions, together with the lab's seed and the generator's name; the
/// generator adds hosts, each with one link.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// Number of generated sessions.
    pub count: u32,
    /// Routers with generated hosts, ascending, each once.
    pub routers: Vec<NodeId>,
    /// Number of places for hosts at each router.
    pub hosts: u32,
    /// Rate of the hosts' links.
    pub host_rate: Bandwidth,
    /// Delay of the hosts' links.
    pub host_delay: Span,
    /// Interval in which sessions join.
    pub start: (Time, Time),
    /// Interval in which sessions leave; `None` if none does.
    pub leave: Option<(Time, Time)>,
    /// Number of sessions that leave.
    pub leave_count: u32,
    /// Data of a session on the wire; `None`: without end.
    pub size: Option<Sizes>,
    /// Minimum and maximum demand of a session; `None`: unlimited.
    pub demand: Option<(Bandwidth, Bandwidth)>,
}

/// A session: data from one node to another at the rate that the network assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// The sending node.
    pub from: NodeId,
    /// The receiving node.
    pub to: NodeId,
    /// Time at which it joins.
    pub start: Time,
    /// Time at which it leaves, finished or not.
    pub leave: Option<Time>,
    /// Wire bytes that it sends before it leaves; `None`: unlimited.
    pub size: Option<Bytes>,
    /// Maximum usable rate; `None`: unlimited.
    pub demand: Option<Bandwidth>,
}
