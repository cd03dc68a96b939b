//! The events of a run. Other threads send them; the main thread of the command handles them.

use std::path::PathBuf;
use std::sync::mpsc::Sender;

use cluster::AgentId;
use cluster::control::{Heartbeat, Refusal, Report, Reserved, Started};

use crate::Result;

pub(crate) enum Event {
    Interrupt,
    /// All labs of a simultaneous start are ready.
    Begin,
    Reserved(AgentId, Result<Reserved, Refusal>),
    Prepared(AgentId, Result<(), Refusal>),
    Started(AgentId, Result<Started, Refusal>),
    /// An agent has executed an order, or rejected it.
    Ordered(AgentId, Result<(), Refusal>),
    Report(Report),
    Heartbeat(String, Heartbeat),
    /// A part of some results was received.
    Fetching,
    /// The folder with an agent's results.
    Fetched(AgentId, Result<PathBuf>),
}

/// Interrupts a run, or starts its lab.
#[derive(Clone, Debug)]
pub struct Interrupt(pub(super) Sender<Event>);

impl Interrupt {
    /// Starts the lab of a run with a [starter](super::Options::starter).
    pub fn begin(&self) {
        // It fails only if the run is over.
        let _ = self.0.send(Event::Begin);
    }

    /// The first call ends the run in an orderly way, the second one at once.
    pub fn interrupt(&self) {
        // It fails only if the run is over.
        let _ = self.0.send(Event::Interrupt);
    }
}
