//! Explicit rate control: the protocol of a lab, and populations of sessions.

use base::{Bandwidth, Bytes, NodeId, Ratio, Span, Time};
use ratecontrol::{Protocol, Settings};
use transport::workload::Sizes;

/// The protocol that gives controlled traffic its rates; all of a lab has the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// Which protocol.
    pub protocol: Protocol,
    /// Its settings; they are keyed by the lab's seed.
    pub settings: Settings,
    /// Share of the control packets that each link loses, independently.
    pub loss: Ratio,
    /// Routers that turn plain flows into sessions, ascending.
    pub access: Vec<NodeId>,
}

/// Many sessions, measured together.
#[derive(Clone, Debug, PartialEq)]
pub struct Population {
    /// Its name, unique among populations.
    pub name: String,
    /// A data packet on the wire.
    pub packet: Bytes,
    /// Its sessions, in the order in which they were drawn or listed.
    pub sessions: Vec<Session>,
    /// What they were drawn by; `None`: they were listed.
    pub drawing: Option<Drawing>,
}

/// What sessions are drawn by, beside the lab's seed and the population's name; it brings hosts,
/// each with one link.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// How many sessions.
    pub count: u32,
    /// Routers that hosts hang on, ascending, each once.
    pub routers: Vec<NodeId>,
    /// Places for hosts at each router.
    pub hosts: u32,
    /// Rate of the hosts' links.
    pub host_rate: Bandwidth,
    /// Delay of the hosts' links.
    pub host_delay: Span,
    /// When the first and the last can join.
    pub start: (Time, Time),
    /// When the first and the last can leave; `None`: nobody does.
    pub leave: Option<(Time, Time)>,
    /// How many of `count` leave.
    pub leave_count: u32,
    /// Data on the wire of a session; `None`: without end.
    pub size: Option<Sizes>,
    /// The least and the most that a session can demand; `None`: whatever it gets.
    pub demand: Option<(Bandwidth, Bandwidth)>,
}

/// A session: data from one node to another at the rate that the network assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Where its data comes from.
    pub from: NodeId,
    /// Where it goes.
    pub to: NodeId,
    /// When it joins.
    pub start: Time,
    /// When it leaves, finished or not.
    pub leave: Option<Time>,
    /// Data on the wire that it sends before it leaves by itself; `None`: without end.
    pub size: Option<Bytes>,
    /// The most that it can use; `None`: whatever it gets.
    pub demand: Option<Bandwidth>,
}
