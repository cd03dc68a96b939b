//! Messages between the command and the lab's process: one JSON object per line.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;

use base::Span;
use cluster::AgentId;
use cluster::control::{ProgramEvent, TrunkState};
use run::live::Frame;
use run::record::Failure;
use serde::{Deserialize, Serialize};

use crate::control::{Answer, Request};
use crate::registry::HostEntry;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromLab {
    /// The namespaces are ready, by host name.
    Ready {
        hosts: BTreeMap<String, HostEntry>,
    },
    /// The lab runs, and its programs are ready. Only a lab with a command of the user reports it.
    Started,
    Progress {
        now_ns: u64,
        waiting_for: String,
        packets: u64,
        /// All finite programs and flows have ended.
        idle: bool,
        trunks: Vec<TrunkState>,
    },
    /// A program that other shards may wait for has changed its state.
    Program(ProgramEvent),
    /// All programs that start with the lab are ready.
    Up,
    Answer {
        id: u64,
        answer: Answer,
    },
    /// The state before the next frame, after [`ToLab::Watch`].
    State(Box<Frame>),
    Frame(Box<Frame>),
    /// The data path may not set its own real-time priority.
    Realtime,
    /// The lab is ending, which may take some time.
    Ending,
    /// The lab could not start.
    Failed(Failure),
    /// The lab has ended and written its record.
    Finished,
}

/// The common start time of a lab with several shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CommonStart {
    /// Lab time zero on this host's monotonic clock.
    pub(super) origin_ns: u64,
    pub(super) bound_ns: u64,
}

impl CommonStart {
    /// Time from now to lab time zero.
    pub(super) fn until(self) -> Span {
        Span::from_nanos(self.origin_ns.saturating_sub(sys::clock::monotonic()))
    }

    pub(super) fn bound(self) -> Span {
        Span::from_nanos(self.bound_ns)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToLab {
    /// Starts a lab that is ready. Several shards start together.
    Start {
        common: Option<CommonStart>,
    },
    /// A better estimate of lab time zero.
    Clock(CommonStart),
    Lost {
        agent: AgentId,
    },
    Regained {
        agent: AgentId,
    },
    /// Egress lead time of packets for an agent.
    Lead {
        agent: AgentId,
        lead_ns: u64,
    },
    /// A program of another shard has changed its state.
    Program(ProgramEvent),
    /// Number of other running labs of this user, and of those with real-time scheduling.
    Others {
        labs: u32,
        realtime: u32,
    },
    /// A request of another command.
    Request {
        id: u64,
        request: Request,
    },
    /// Send the state and then frames, or stop sending.
    Watch(bool),
    /// End now: the run is complete.
    Complete,
    /// End now, in an orderly way.
    Stop,
}

/// Sends a message. Errors are ignored, because they mean that the receiver has ended.
pub(super) fn send(mut channel: &UnixStream, message: &impl Serialize) {
    if let Ok(mut text) = serde_json::to_vec(message) {
        text.push(b'\n');
        let _ = channel.write_all(&text);
    }
}

/// Parses a line; `None` if it is of another version.
pub(super) fn parse<'a, T: Deserialize<'a>>(line: &'a str) -> Option<T> {
    serde_json::from_str(line).ok()
}

#[cfg(test)]
mod tests {
    use run::record::FailureKind;

    use super::*;

    #[test]
    fn messages_round_trip() {
        let text = "no\nroom".to_owned();
        let message = FromLab::Failed(Failure { kind: FailureKind::DiskFull, text });
        let text = serde_json::to_string(&message).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(parse(&text), Some(message));
        assert_eq!(parse::<ToLab>("\"stop\"\n"), Some(ToLab::Stop));
        let others = ToLab::Others { labs: 3, realtime: 1 };
        assert_eq!(parse(&serde_json::to_string(&others).unwrap()), Some(others));
        assert_eq!(parse::<ToLab>("\"unknown\""), None);
    }
}
