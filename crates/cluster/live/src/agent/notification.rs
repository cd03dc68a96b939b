//! The notifications of an agent for its operator.

use std::fmt;
use std::net::IpAddr;

use base::{Bandwidth, Bytes};
use cluster::control::Offer;
use serde::Serialize;

/// In each variant, `lab` is the identifier of the lab and `name` its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Notification {
    #[serde(rename = "listens")]
    Listening {
        name: String,
        at: Vec<String>,
        trunk: IpAddr,
        offer: Offer,
    },
    /// None of the agents to join was found so far.
    #[serde(rename = "alone")]
    NoPeers {
        why: String,
    },
    #[serde(rename = "heard")]
    Alive {
        name: String,
    },
    Lost {
        name: String,
    },
    /// A new session replaces one that did not deliver the heartbeats of a reachable agent.
    SessionReplaced,
    /// The session is closed, and no new one could be opened.
    SessionFailed {
        why: String,
    },
    /// The list of revoked certificates has changed and is invalid.
    Revocations {
        why: String,
    },
    /// Resources are reserved for a lab.
    Reserved {
        lab: String,
        name: String,
        hosts: u32,
    },
    Refused {
        name: String,
        why: String,
    },
    Started {
        lab: String,
        name: String,
    },
    Finished {
        lab: String,
        name: String,
        /// Size of the packed results.
        bytes: u64,
    },
    /// A shard could not be built, or its process died.
    Failed {
        lab: String,
        name: String,
        why: String,
    },
    /// The coordinator of a lab is lost.
    Orphaned {
        lab: String,
        then: OrphanAction,
    },
    /// A shard and its results are deleted.
    Removed {
        lab: String,
        name: String,
        why: String,
    },
}

/// The reaction to the loss of a lab's coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum OrphanAction {
    /// The lab ends, and its results are deleted.
    #[serde(rename = "ends")]
    End,
    #[serde(rename = "goes_on")]
    Continue,
    /// The lab has ended; its results are retained because no one else may have them.
    #[serde(rename = "waits")]
    RetainResults,
}

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening { name, at, trunk, offer } => {
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
            Self::NoPeers { why } => write!(f, "no other agent found yet: {why}"),
            Self::Alive { name } => write!(f, "agent {name} is alive"),
            Self::Lost { name } => write!(f, "agent {name} is lost"),
            Self::SessionReplaced => {
                f.write_str("opened a new session: a reachable agent stayed lost in the old one")
            }
            Self::SessionFailed { why } => write!(f, "no session, trying again: {why}"),
            Self::Reserved { lab, name, hosts } => {
                let ending = if *hosts == 1 { "" } else { "s" };
                write!(f, "{name} ({lab}): reserved resources for {hosts} host{ending}")
            }
            Self::Refused { name, why } => write!(f, "{name}: refused: {why}"),
            Self::Started { lab, name } => write!(f, "{name} ({lab}) started"),
            Self::Finished { lab, name, bytes } => {
                write!(f, "{name} ({lab}) finished with {} of results", Bytes::new(*bytes))
            }
            Self::Failed { lab, name, why } => write!(f, "{name} ({lab}) failed: {why}"),
            Self::Orphaned { lab, then } => {
                let then = match then {
                    OrphanAction::End => "the lab ends".to_owned(),
                    OrphanAction::Continue => "the lab continues".to_owned(),
                    OrphanAction::RetainResults => {
                        format!("fetch its results with `netarium cluster collect {lab}`")
                    }
                };
                write!(f, "{lab}: its coordinator is lost: {then}")
            }
            Self::Removed { lab, name, why } => write!(f, "{name} ({lab}) removed: {why}"),
        }
    }
}
