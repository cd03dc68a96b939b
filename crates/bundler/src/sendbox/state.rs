//! What a bundle is doing, and why.

use std::fmt;

use base::Time;

/// The state of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing is held back: the bundle has not yet built a queue in the network.
    Learning,
    /// The rate holds the network's queue at the target; the bundle's queue is at the sendbox.
    Delay,
    /// Elastic cross traffic would take what delay control leaves: the hosts' own controls
    /// compete, with a short queue at the sendbox.
    PassThrough,
    /// Rate control would do harm.
    Disabled(Reason),
    /// The receivebox is not heard: everything passes.
    FailOpen,
}

/// Why rate control is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Packets take paths whose delays differ persistently: no one rate suits them.
    ImbalancedPaths,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Learning,
        Self::Delay,
        Self::PassThrough,
        Self::Disabled(Reason::ImbalancedPaths),
        Self::FailOpen,
    ];

    /// The word for records, without the reason.
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

/// Why a bundle's state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The bundle's own queue showed in the network.
    Queue,
    /// Cross traffic answers to the bundle's pulses.
    Elastic,
    /// A queue stays though the bundle gives way, and grows if it does not.
    Standing,
    /// Others fill the queue when the bundle sends less.
    Others,
    /// Control delivers less than the bundle gets without it.
    Harm,
    /// The queue drains when the bundle sends less.
    Drained,
    /// Cross traffic no longer answers.
    Inelastic,
    /// Acknowledgements tell of paths with different delays.
    Imbalance,
    /// They no longer do.
    Balance,
    /// Nothing was heard from the receivebox for too long.
    Silence,
    /// The receivebox is heard (again).
    Heard,
}

impl Cause {
    /// In words, for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "the bundle's own queue showed in the network",
            Self::Elastic => "cross traffic answers to pulses of the rate",
            Self::Standing => "others' queue stays though the bundle gives way",
            Self::Others => "others fill the queue when the bundle sends less",
            Self::Harm => "control delivers less than the bundle gets without it",
            Self::Drained => "the queue drains when the bundle sends less",
            Self::Inelastic => "cross traffic no longer answers to pulses of the rate",
            Self::Imbalance => "packets overtake each other on paths of different delay",
            Self::Balance => "packets keep their order again",
            Self::Silence => "the receivebox is not heard",
            Self::Heard => "the receivebox is heard",
        }
    }
}

/// A change of a bundle's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// When.
    pub at: Time,
    /// From this state …
    pub from: State,
    /// … to this one.
    pub to: State,
    /// Why.
    pub cause: Cause,
}
