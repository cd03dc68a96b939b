//! States of a bundle, and causes of their changes.

use std::fmt;

use base::Time;

/// The state of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not controlled: the bundle has not caused a queue in the network yet.
    Learning,
    /// The rate keeps the network's queue at the target; the bundle's queue is at the sendbox.
    Delay,
    /// Not controlled: the hosts' congestion control competes with other traffic, which would take
    /// the capacity that delay control leaves.
    PassThrough,
    /// Not controlled, because rate control would lower the throughput.
    Disabled(Reason),
    /// No feedback from the receivebox: not controlled.
    FailOpen,
}

/// The reason why control is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Packets take paths with persistently different delays: no single rate fits them.
    ImbalancedPaths,
}

impl State {
    /// All states, each reason of `Disabled` separately.
    pub const ALL: [Self; 5] = [
        Self::Learning,
        Self::Delay,
        Self::PassThrough,
        Self::Disabled(Reason::ImbalancedPaths),
        Self::FailOpen,
    ];

    /// Name of the state in records, without the reason.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Learning => "learning",
            Self::Delay => "delay",
            Self::PassThrough => "pass-through",
            Self::Disabled(_) => "disabled",
            Self::FailOpen => "fail-open",
        }
    }

    /// Its position in [`Self::ALL`].
    pub const fn index(self) -> usize {
        match self {
            Self::Learning => 0,
            Self::Delay => 1,
            Self::PassThrough => 2,
            Self::Disabled(_) => 3,
            Self::FailOpen => 4,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled(Reason::ImbalancedPaths) => f.write_str("disabled (imbalanced paths)"),
            other => f.write_str(other.as_str()),
        }
    }
}

/// Cause of a change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The bundle's own queue was detected in the network.
    Queue,
    /// Other traffic fills the queue when the bundle sends less.
    OtherTraffic,
    /// Control delivers less than the bundle gets without it.
    Harm,
    /// The queue drains when the bundle sends less.
    Drained,
    /// Packets take paths with different delays.
    Imbalance,
    /// The paths have equal delays again.
    Balance,
    /// No feedback from the receivebox arrived in time.
    NoFeedback,
    /// Feedback from the receivebox arrives again.
    Feedback,
}

impl Cause {
    /// All causes, in the order of their declaration.
    pub const ALL: [Self; 8] = [
        Self::Queue,
        Self::OtherTraffic,
        Self::Harm,
        Self::Drained,
        Self::Imbalance,
        Self::Balance,
        Self::NoFeedback,
        Self::Feedback,
    ];

    /// Description for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "the bundle's own queue appeared in the network",
            Self::OtherTraffic => "other traffic fills the queue when the bundle sends less",
            Self::Harm => "throughput is lower with control than without it",
            Self::Drained => "the queue drains when the bundle sends less",
            Self::Imbalance => "paths with different delays reorder packets",
            Self::Balance => "packets are in order again",
            Self::NoFeedback => "no feedback from the receivebox",
            Self::Feedback => "feedback from the receivebox arrives",
        }
    }
}

/// A change of a bundle's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Time of the change.
    pub at: Time,
    /// The state before.
    pub from: State,
    /// The state after.
    pub to: State,
    /// Cause of the change.
    pub cause: Cause,
}
