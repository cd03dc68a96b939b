//! Bundles: traffic between the gateways of two sites, paced at the sending one.

use base::{Bandwidth, NodeId, Ratio, Span};
pub use bundler::constants::{Constant as BundleConstant, Constants as BundleConstants};
pub use bundler::control::Control as BundleControl;
pub use bundler::settings::{Marking, Mode};
use fabric::QueueConfig;

/// A bundle: packets that pass its sendbox and, on every shortest path from there, its receivebox.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// Name: given, or `from-to`.
    pub name: String,
    /// Its sendbox, a node of role [`super::Role::SendBox`].
    pub from: NodeId,
    /// Its receivebox, a node of role [`super::Role::ReceiveBox`].
    pub to: NodeId,
    /// The scheduler of the sendbox.
    pub scheduler: QueueConfig,
    /// The congestion controller of the bundle's rate.
    pub control: BundleControl,
    /// The method by which both gateways identify the same packet.
    pub marking: Marking,
    /// The operating mode of the sendbox.
    pub mode: Mode,
    /// Minimum rate of the bundle.
    pub floor: Bandwidth,
    /// Maximum rate of the bundle.
    pub ceiling: Option<Bandwidth>,
    /// Relative share among bundles at the same bottleneck.
    pub weight: u32,
    /// Detect elastic cross traffic, and compete with it.
    pub elasticity: bool,
    /// Detect paths of unequal delay, and stop pacing then.
    pub multipath: bool,
    /// Impairments of the gateways' messages.
    pub feedback: Feedback,
    /// Constants of the detectors.
    pub constants: BundleConstants,
}

/// Impairments of the messages between a bundle's gateways, in both directions, in addition to
/// those of all packets on the links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feedback {
    /// Share of messages lost, independently.
    pub loss: Ratio,
    /// Maximum random delay of each message, uniformly distributed; messages may be reordered.
    pub jitter: Span,
}

/// An event of a gateway's process; without the process, packets pass the node like a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoxAction {
    /// The process ends without notice; queued packets are lost.
    Stop,
    /// The process starts without earlier state.
    Start,
    /// The process ends and starts immediately.
    Restart,
}

/// The state of a bundle, as named in records and expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BundleState {
    /// No pacing: the bundle has not built a queue in the network yet.
    Learning,
    /// The rate keeps the network's queue short.
    Delay,
    /// Elastic cross traffic would take all capacity: the hosts' own
    /// congestion controllers compete.
    PassThrough,
    /// Rate control would be harmful.
    Disabled,
    /// No feedback from the receivebox.
    FailOpen,
    /// The sendbox's process is not running.
    Stopped,
}

impl BundleState {
    /// All bundle states.
    pub const ALL: [Self; 6] = [
        Self::Learning,
        Self::Delay,
        Self::PassThrough,
        Self::Disabled,
        Self::FailOpen,
        Self::Stopped,
    ];

    /// The word for the state.
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
