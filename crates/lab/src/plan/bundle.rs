//! Bundles: traffic from one site's box to another's, held back at the first.

use base::{Bandwidth, NodeId, Ratio, Span};
use fabric::QueueConfig;

/// A bundle: packets that pass its sendbox and, on every shortest path from there, its receivebox.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// Its name: given, or `from-to`.
    pub name: String,
    /// Its sendbox, a node of role [`super::Role::SendBox`].
    pub from: NodeId,
    /// Its receivebox, a node of role [`super::Role::ReceiveBox`].
    pub to: NodeId,
    /// In which order packets leave the sendbox.
    pub scheduler: QueueConfig,
    /// The law that sets the rate.
    pub control: BundleControl,
    /// How both boxes recognise the same packet.
    pub marking: Marking,
    /// How much of its work the sendbox does.
    pub mode: Mode,
    /// The rate is never below.
    pub floor: Bandwidth,
    /// The rate is never above.
    pub ceiling: Option<Bandwidth>,
    /// Its share beside other bundles at the same bottleneck.
    pub weight: u32,
    /// Look for cross traffic that gives way, and compete with it.
    pub elasticity: bool,
    /// Look for paths of unequal delay, and step aside.
    pub multipath: bool,
    /// What happens to the boxes' messages.
    pub feedback: Feedback,
}

/// The law that sets a bundle's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleControl {
    /// Copa.
    Copa,
    /// Nimbus' `BasicDelay`.
    BasicDelay,
    /// BBR.
    Bbr,
    /// Always this rate.
    Constant(Bandwidth),
}

/// How both boxes recognise the same packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marking {
    /// By a keyed hash of its headers; packets stay as they are.
    Header,
    /// By a number in a header around it.
    Encapsulation,
}

/// How much of its work a sendbox does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It measures.
    Observe,
    /// It also computes the rate, and lets packets pass all the same.
    DryRun,
    /// It paces packets to the rate.
    Enforce,
}

/// What happens to the messages of a bundle's boxes alone, both ways, beside what happens to all
/// packets on the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Share that is lost, independently.
    pub loss: Ratio,
    /// Each is late by up to this, uniformly drawn; they overtake each other.
    pub jitter: Span,
}

/// What happens to a box's process; packets pass a box without one as they pass a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoxAction {
    /// It ends, without a word; what waits in it is lost.
    Stop,
    /// It starts, knowing nothing of before.
    Start,
    /// It ends and starts at once.
    Restart,
}

/// What a bundle is doing, as records and expectations name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BundleState {
    /// Nothing is held back: the bundle has not yet built a queue in the network.
    Learning,
    /// The rate holds the network's queue short.
    Delay,
    /// Cross traffic that gives way would take all: the hosts' own controls compete.
    PassThrough,
    /// Rate control would do harm.
    Disabled,
    /// The receivebox is not heard.
    FailOpen,
    /// The sendbox's process does not run.
    Stopped,
}

impl BundleState {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Learning,
        Self::Delay,
        Self::PassThrough,
        Self::Disabled,
        Self::FailOpen,
        Self::Stopped,
    ];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Learning => "learning",
            Self::Delay => "delay",
            Self::PassThrough => "pass-through",
            Self::Disabled => "disabled",
            Self::FailOpen => "fail-open",
            Self::Stopped => "stopped",
        }
    }
}
