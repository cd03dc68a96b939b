//! Events for the main thread of an agent.

use std::sync::mpsc::Sender;

use cluster::control::{ClockKey, FromShard, Heartbeat, ProgramEvent, Refusal, Report};
use zenoh::query::Query;

use super::process::Process;
use crate::Result;
use crate::session::Peer;

/// Strings at the first place are identifiers of labs.
pub(super) enum Event {
    Command {
        query: Query,
        /// The number in its certificate.
        coordinator: u16,
        command: String,
    },
    /// A heartbeat of another agent.
    Heartbeat(Peer, Heartbeat),
    /// The key for the pings of another agent, with the agent's name.
    ClockKey(String, ClockKey),
    /// A heartbeat of a lab's coordinator.
    Coordinator(String),
    /// A report of another agent of a lab.
    Report(String, Report),
    /// An event of a program on another agent.
    Program(String, ProgramEvent),
    /// A shard's process was started, or could not be started.
    ProcessStarted(String, Result<Process, Refusal>),
    /// A message of a shard's process.
    Message(String, FromShard),
    /// The control connection of a shard's process was closed.
    Disconnected(String),
    /// A shard's process has exited, with its exit status and last output.
    Exited(String, String),
    /// Results have been packed; their size.
    Packed(String, Result<u64, Refusal>),
    /// No other agent was found, with the reason.
    NoPeers(String),
    /// The lost agent that a probe has found; see [`Recovery`](cluster::recovery::Recovery).
    Probed(Option<String>),
    /// The session was replaced, or the old one is closed and no new one could be opened.
    SessionReplaced(Result<()>),
    Stop,
}

/// Asks an agent to end.
#[derive(Clone, Debug)]
pub struct Stop(pub(super) Sender<Event>);

impl Stop {
    /// The first call ends the agent in an orderly way, the second one at once.
    pub fn stop(&self) {
        // It fails only if the agent has ended.
        let _ = self.0.send(Event::Stop);
    }
}
