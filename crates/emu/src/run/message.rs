//! What the command and the lab's process say to each other: a JSON object a line.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;

use base::Span;
use cluster::AgentId;
use cluster::control::{ProgramEvent, TrunkState};
use record::run::Failure;
use serde::{Deserialize, Serialize};

/// From the lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromLab {
    /// The namespaces stand: host name to descriptor number in the lab's process.
    Ready { hosts: BTreeMap<String, i32> },
    /// How far it is.
    Progress {
        now_ns: u64,
        waiting_for: String,
        packets: u64,
        /// All that has an end of its own has come to it.
        idle: bool,
        trunks: Vec<TrunkState>,
    },
    /// Something has happened to a program, which members elsewhere may wait for.
    Program(ProgramEvent),
    /// It is ending, which may take a while.
    Ending,
    /// It could not start.
    Failed(Failure),
    /// It has ended and written its record.
    Finished,
}

/// When a lab of several members began, as well as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Common {
    /// Lab time zero on the own monotonic clock.
    pub(super) origin_ns: u64,
    /// It is at most so wrong.
    pub(super) bound_ns: u64,
}

impl Common {
    /// How long it is until then.
    pub(super) fn until(self) -> Span {
        Span::from_nanos(self.origin_ns.saturating_sub(sys::clock::monotonic()))
    }

    pub(super) fn bound(self) -> Span {
        Span::from_nanos(self.bound_ns)
    }
}

/// To the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToLab {
    /// Begin: the lab stands and waits for this. Several members begin together.
    Start { common: Option<Common> },
    /// The lab's time zero is known better.
    Clock(Common),
    /// A member of the lab is gone.
    Lost { agent: AgentId },
    /// It is there again.
    Regained { agent: AgentId },
    /// Packets for a member are to leave so long before they are due.
    Lead { agent: AgentId, lead_ns: u64 },
    /// Something has happened to another member's program.
    Program(ProgramEvent),
    /// So many other labs of this user run now, and so many of them ask for real-time scheduling.
    Others { labs: u32, realtime: u32 },
    /// End now, in order.
    Stop,
}

/// Says something. A listener that is gone needs no telling: its end reads end-of-file.
pub(crate) fn send(mut channel: &UnixStream, message: &impl Serialize) {
    if let Ok(mut text) = serde_json::to_vec(message) {
        text.push(b'\n');
        let _ = channel.write_all(&text);
    }
}

/// Understands a line; `None` where it is of another version.
pub(super) fn parse<'a, T: Deserialize<'a>>(line: &'a str) -> Option<T> {
    serde_json::from_str(line).ok()
}

#[cfg(test)]
mod tests {
    use record::run::FailureKind;

    use super::*;

    #[test]
    fn lines_survive() {
        let text = "no\nroom".to_owned();
        let message = FromLab::Failed(Failure { kind: FailureKind::DiskFull, text });
        let text = serde_json::to_string(&message).unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(parse(&text), Some(message));
        assert_eq!(parse::<ToLab>("\"stop\"\n"), Some(ToLab::Stop));
        let others = ToLab::Others { labs: 3, realtime: 1 };
        assert_eq!(parse(&serde_json::to_string(&others).unwrap()), Some(others));
        assert_eq!(parse::<ToLab>("\"dance\""), None);
    }
}
