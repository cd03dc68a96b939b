//! Settings of a bundle.

use std::fmt;

use base::{Bandwidth, Bytes};
use queue::{Discipline, QueueConfig, QueueLimit};

use crate::constants::Constants;
use crate::control::Control;
use crate::digest::Key;

/// Settings of one bundle at the sendbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Identifier of the bundle, the same at both gateways.
    pub id: u32,
    /// Keys, from the secret of both gateways.
    pub key: Key,
    /// The congestion controller.
    pub control: Control,
    /// The scheduler of the sendbox's queue. With the limit [`QueueLimit::UNLIMITED`] its capacity
    /// is two round trips of the path: enough for any connection to fill the path.
    pub scheduler: QueueConfig,
    /// How the receivebox identifies packets of the bundle.
    pub marking: Marking,
    /// Whether the gateway controls the bundle.
    pub mode: Mode,
    /// Minimum rate that control sets.
    pub floor: Bandwidth,
    /// Maximum rate that control sets; `None`: not limited.
    pub ceiling: Option<Bandwidth>,
    /// Weight of its share beside other bundles at the same bottleneck: one of weight 2 gets twice
    /// as much as one of weight 1, if both use Copa. At least 1.
    pub weight: u32,
    /// Bytes per packet on the path in addition to its layer-3 bytes at the site: those of lower
    /// layers and of an encapsulation. The same at both gateways.
    pub overhead: Bytes,
    /// Detect elastic cross traffic, and let the hosts compete with it.
    pub elasticity: bool,
    /// Detect imbalanced paths, and disable control for them.
    pub multipath: bool,
    /// The seed of all random decisions.
    pub seed: u64,
    /// Constants of the detectors, for experiments.
    pub constants: Constants,
}

impl Settings {
    /// The default settings.
    pub fn new(id: u32, key: Key) -> Self {
        Self {
            id,
            key,
            control: Control::default(),
            scheduler: QueueConfig {
                discipline: Discipline::Fq { flows: 65_536, quantum: Bytes::new(15_140) },
                limit: QueueLimit::UNLIMITED,
                ecn: false,
            },
            marking: Marking::Header,
            mode: Mode::Enforce,
            floor: Bandwidth::from_mbits_per_sec(1),
            ceiling: None,
            weight: 1,
            overhead: Bytes::new(38),
            elasticity: true,
            multipath: true,
            seed: 0,
            constants: Constants::default(),
        }
    }
}

/// How both gateways identify a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// By a keyed hash of header fields that the network does not change.
    #[default]
    Header,
    /// By an encapsulation header.
    Encapsulation,
}

/// Operating mode of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Measure, without computing a rate.
    Observe,
    /// Compute the rate, but do not apply it.
    DryRun,
    /// Pace the bundle at the computed rate.
    #[default]
    Enforce,
}

impl Marking {
    /// Name of the marking.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Encapsulation => "encapsulation",
        }
    }
}

impl fmt::Display for Marking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Mode {
    /// Name of the mode.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::DryRun => "dry-run",
            Self::Enforce => "enforce",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
