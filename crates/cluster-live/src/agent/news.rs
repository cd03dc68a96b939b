//! What an agent tells its operator.

use std::fmt;
use std::net::IpAddr;

use base::{Bandwidth, Bytes};
use cluster::control::Offer;
use serde::Serialize;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum News {
    /// It answers now.
    Listens {
        /// Its name.
        name: String,
        /// Where.
        at: Vec<String>,
        /// The address of its trunks.
        trunk: IpAddr,
        /// What it can hold.
        offer: Offer,
    },
    /// Those that it is to join have not been heard so far.
    Alone {
        /// What is known of why.
        why: String,
    },
    /// Another agent is heard.
    Heard {
        /// Its name.
        name: String,
    },
    /// Another agent is not heard any more.
    Lost {
        /// Its name.
        name: String,
    },
    /// The list of revoked certificates has changed and cannot be used.
    Revocations {
        /// Why.
        why: String,
    },
    /// Room is kept for a lab.
    Reserved {
        /// Of the lab.
        lab: String,
        /// The lab's.
        name: String,
        /// Its hosts here.
        hosts: u32,
    },
    /// Somebody was refused.
    Refused {
        /// The lab's name.
        name: String,
        /// Why.
        why: String,
    },
    /// A lab has begun.
    Started {
        /// Of the lab.
        lab: String,
        /// The lab's.
        name: String,
    },
    /// A piece has ended.
    Finished {
        /// Of the lab.
        lab: String,
        /// The lab's.
        name: String,
        /// Packed results.
        bytes: u64,
    },
    /// A piece could not be built, or died.
    Failed {
        /// Of the lab.
        lab: String,
        /// The lab's.
        name: String,
        /// Why.
        why: String,
    },
    /// The coordinator of a lab is not heard any more.
    Orphaned {
        /// Of the lab.
        lab: String,
        /// What follows.
        then: Orphan,
    },
    /// A piece and its results are removed.
    Removed {
        /// Of the lab.
        lab: String,
        /// The lab's.
        name: String,
        /// Why.
        why: String,
    },
}

/// What becomes of a lab without its coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Orphan {
    /// Nothing is left of it.
    Ends,
    /// To its end.
    GoesOn,
    /// It is over; its results may be all that is left of the run.
    Waits,
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listens { name, at, trunk, offer } => {
                let memory = offer.memory as f64 / f64::from(1 << 30);
                write!(
                    f,
                    "agent {name} listens on {}; trunks at {trunk}; {} cores, {memory:.1} GiB of \
                     memory",
                    at.join(", "),
                    offer.cores,
                )?;
                match offer.nic.map(Bandwidth::from_bits_per_sec) {
                    Some(rate) => write!(f, ", interface of {rate}"),
                    None => write!(f, ", interface of unknown rate"),
                }
            }
            Self::Revocations { why } => write!(f, "revoked certificates: {why}"),
            Self::Alone { why } => write!(f, "no other agent is heard yet: {why}"),
            Self::Heard { name } => write!(f, "agent {name} is there"),
            Self::Lost { name } => write!(f, "agent {name} is not heard any more"),
            Self::Reserved { lab, name, hosts } => {
                let ending = if *hosts == 1 { "" } else { "s" };
                write!(f, "{name} ({lab}): room is kept for {hosts} host{ending}")
            }
            Self::Refused { name, why } => write!(f, "{name}: refused: {why}"),
            Self::Started { lab, name } => write!(f, "{name} ({lab}) begins"),
            Self::Finished { lab, name, bytes } => {
                write!(f, "{name} ({lab}) has ended, with {} of results", Bytes::new(*bytes))
            }
            Self::Failed { lab, name, why } => write!(f, "{name} ({lab}) failed: {why}"),
            Self::Orphaned { lab, then } => {
                let then = match then {
                    Orphan::Ends => "so it ends",
                    Orphan::GoesOn => "but it goes on",
                    Orphan::Waits => "so its results wait to be collected",
                };
                write!(f, "{lab}: its coordinator is not heard any more, {then}")
            }
            Self::Removed { lab, name, why } => write!(f, "{name} ({lab}) is removed: {why}"),
        }
    }
}
