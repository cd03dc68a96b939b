//! A member's place at the table: between its fabric and the agreement.

use std::collections::BTreeMap;

use base::{Span, Time};
use fabric::Fabric;
use sharing::{FlowName, Notice};

use super::{Agreement, Output, To};
use crate::{AgentId, Result};

/// Messages that went one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many; one for all counts once.
    pub messages: u64,
    /// Their bytes, without what carries them.
    pub bytes: u64,
}

impl Traffic {
    pub(super) fn count(&mut self, bytes: &[u8]) {
        self.messages += 1;
        self.bytes += bytes.len() as u64;
    }
}

/// Carries what a fabric announces to the agreement, and what that comes to back to the fabric.
pub struct Seat {
    agreement: Box<dyn Agreement>,
    /// The fabric's topology as the agreement knows it.
    changes: Option<u64>,
    /// Flows that have started and have no share yet.
    started: BTreeMap<FlowName, Time>,
    delays: Vec<Span>,
    sent: Traffic,
    received: Traffic,
}

impl Seat {
    /// A seat for this agreement; the fabric has [joined](Fabric::join).
    pub fn new(agreement: Box<dyn Agreement>) -> Self {
        Self {
            agreement,
            changes: None,
            started: BTreeMap::new(),
            delays: Vec::new(),
            sent: Traffic::default(),
            received: Traffic::default(),
        }
    }

    /// A message has come; [`Self::turn`] is to follow.
    ///
    /// # Errors
    /// If it cannot be read; nothing has changed then.
    pub fn on_message(&mut self, now: Time, from: AgentId, bytes: &[u8]) -> Result<()> {
        self.received.count(bytes);
        self.agreement.on_message(now, from, bytes)
    }

    /// A member is gone; [`Self::turn`] is to follow.
    pub fn lose(&mut self, now: Time, agent: AgentId) {
        self.agreement.lose(now, agent);
    }

    /// A member that was gone is there again; [`Self::turn`] is to follow.
    pub fn regain(&mut self, now: Time, agent: AgentId) {
        self.agreement.regain(now, agent);
    }

    /// When [`Self::turn`] is next to be called: at once after changes of `fabric`.
    pub fn next_turn<B: Clone + 'static>(&self, fabric: &Fabric<B>) -> Option<Time> {
        if fabric.has_announced() || self.changes != Some(fabric.topology_changes()) {
            return Some(fabric.now());
        }
        self.agreement.next_wake()
    }

    /// Does all that is to be done now: to be called after messages and at [`Self::next_turn`].
    pub fn turn<B: Clone + 'static>(
        &mut self,
        now: Time,
        fabric: &mut Fabric<B>,
        mut send: impl FnMut(To, &[u8]),
    ) {
        let changes = fabric.topology_changes();
        if self.changes != Some(changes) {
            self.changes = Some(changes);
            self.agreement.relink(now, &fabric.capacities());
        }
        let announced = fabric.announced();
        if !announced.is_empty() {
            for one in &announced {
                match one.notice {
                    Notice::Started { flow, .. } => _ = self.started.entry(flow).or_insert(now),
                    Notice::Ended { flow } => _ = self.started.remove(&flow),
                    Notice::Rate { .. } => {}
                }
            }
            self.agreement.announce(now, &announced);
        }
        if self.agreement.next_wake().is_some_and(|at| at <= now) {
            self.agreement.on_wake(now);
        }
        let mut heard = Vec::new();
        let mut delays = Vec::new();
        while let Some(output) = self.agreement.poll() {
            match output {
                Output::Send { to, bytes } => {
                    self.sent.count(&bytes);
                    send(to, &bytes);
                }
                Output::Hear { notice, announced } => {
                    heard.push(notice);
                    delays.push(now.since(announced));
                }
                Output::Share { flow, share, allowance } => {
                    fabric.assign(now, flow, share, allowance);
                    delays.extend(self.started.remove(&flow).map(|at| now.since(at)));
                }
            }
        }
        if !heard.is_empty() {
            fabric.hear(now, &heard);
        }
        self.delays.append(&mut delays);
    }

    /// How long news were under way that the fabric has worked in since the last call: notices of
    /// other members' flows since they were announced, or the first shares of own flows since
    /// these started.
    pub fn delays(&mut self) -> impl Iterator<Item = Span> {
        self.delays.drain(..)
    }

    /// What was sent and received so far.
    pub fn traffic(&self) -> (Traffic, Traffic) {
        (self.sent, self.received)
    }
}
