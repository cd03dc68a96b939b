//! How a bundle is treated.

use std::fmt;

use base::{Bandwidth, Bytes};
use queue::{Discipline, QueueConfig, QueueLimit};

use crate::control::Control;
use crate::digest::Key;

/// Settings of one bundle at the sendbox.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Tells bundles between the same boxes apart; the same at both.
    pub id: u32,
    /// The secret that both boxes share.
    pub key: Key,
    /// What sets the rate.
    pub control: Control,
    /// What orders the queue at the sendbox. With the limit [`QueueLimit::UNLIMITED`] it holds what
    /// the path carries in two round trips: enough for any connection to fill the path, and no
    /// more.
    pub scheduler: QueueConfig,
    /// How packets are told apart at both boxes.
    pub marking: Marking,
    /// What the box does with what it finds.
    pub mode: Mode,
    /// The rate is never below this.
    pub floor: Bandwidth,
    /// Nor above this.
    pub ceiling: Option<Bandwidth>,
    /// Its share beside other bundles at the same bottleneck: one of weight 2 gets twice what one
    /// of weight 1 gets, if both have Copa. At least 1.
    pub weight: u32,
    /// Bytes that a packet costs on the path beyond its layer-3 bytes at the site: of lower layers
    /// and of an encapsulation. The same at both boxes.
    pub overhead: Bytes,
    /// Look for elastic cross traffic, and let the hosts compete with it.
    pub elasticity: bool,
    /// Look for imbalanced paths, and do nothing where there are.
    pub multipath: bool,
    /// Keys what is drawn.
    pub seed: u64,
}

impl Settings {
    /// The usual settings.
    pub fn new(id: u32, key: Key) -> Self {
        Self {
            id,
            key,
            control: Control::default(),
            scheduler: QueueConfig {
                discipline: Discipline::Sfq {
                    flows: 65_536,
                    quantum: Bytes::new(1514),
                    perturb: None,
                },
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
        }
    }
}

/// How the boxes recognise a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marking {
    /// By a keyed hash of header fields that the network does not change.
    #[default]
    Header,
    /// By a header of their own around each packet.
    Encapsulation,
}

/// How far the box goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Measures, and controls nothing.
    Observe,
    /// Finds the rate that it would set, and does not set it.
    DryRun,
    /// Paces the bundle.
    #[default]
    Enforce,
}

impl Marking {
    /// The word for it.
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
    /// The word for it.
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
