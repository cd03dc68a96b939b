//! Connects a fabric to the agreement.

use std::collections::BTreeMap;

use base::{AgentId, Span, Time};
use fabric::Fabric;
use sharing::{FlowName, Notice, Sharing, SharingPolicy};

use crate::{Agreement, Notices, Output, Recipient, Result, Slbn};

/// The agreement of agent `own` of `agents` under a sharing rule, without flows. For
/// SLBN, `homes` has the agent that owns each link ([`crate::slbn::homes`]), and `seed` is the
/// seed of the random delays.
pub fn build(
    law: SharingPolicy,
    own: AgentId,
    agents: usize,
    homes: Vec<AgentId>,
    seed: u64,
) -> Box<dyn Agreement> {
    match law.sharing {
        Sharing::Slbn => Box::new(Slbn::new(own, agents, homes, law.window, seed)),
        Sharing::RttMaxMin | Sharing::MaxMin | Sharing::None => Box::new(Notices::new(own, agents)),
    }
}

/// Messages in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// A message to all other agents counts once.
    pub messages: u64,
    /// Payload bytes of the messages.
    pub bytes: u64,
}

impl Traffic {
    pub(super) fn count(&mut self, bytes: &[u8]) {
        self.messages += 1;
        self.bytes += bytes.len() as u64;
    }
}

/// Passes the announcements of a fabric to the agreement, and its results to the fabric.
pub struct AgreementClient {
    agreement: Box<dyn Agreement>,
    /// Number of topology changes of the fabric that the agreement has received.
    changes: Option<u64>,
    /// Start times of flows without a share.
    started: BTreeMap<FlowName, Time>,
    delays: Vec<Span>,
    sent: Traffic,
    received: Traffic,
}

impl AgreementClient {
    /// The fabric must have [joined](Fabric::join).
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

    /// Handles a message; call [`Self::turn`] afterwards.
    ///
    /// # Errors
    /// If it cannot be decoded; the state is then unchanged.
    pub fn on_message(&mut self, now: Time, from: AgentId, bytes: &[u8]) -> Result<()> {
        self.received.count(bytes);
        self.agreement.on_message(now, from, bytes)
    }

    /// Removes an agent; call [`Self::turn`] afterwards.
    pub fn on_agent_lost(&mut self, now: Time, agent: AgentId) {
        self.agreement.on_agent_lost(now, agent);
    }

    /// Restores a lost agent; call [`Self::turn`] afterwards.
    pub fn on_agent_restored(&mut self, now: Time, agent: AgentId) {
        self.agreement.on_agent_restored(now, agent);
    }

    /// Time of the next [`Self::turn`]; now, if `fabric` has changed.
    pub fn next_wake<B: Clone + 'static>(&self, fabric: &Fabric<B>) -> Option<Time> {
        if fabric.has_announced() || self.changes != Some(fabric.topology_changes()) {
            return Some(fabric.now());
        }
        self.agreement.next_wake()
    }

    /// Does all work that is due. Call it after each message and at [`Self::next_wake`].
    pub fn turn<B: Clone + 'static>(
        &mut self,
        now: Time,
        fabric: &mut Fabric<B>,
        mut send: impl FnMut(Recipient, &[u8]),
    ) {
        let changes = fabric.topology_changes();
        if self.changes != Some(changes) {
            self.changes = Some(changes);
            self.agreement.set_capacities(now, &fabric.capacities());
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
        let mut remote = Vec::new();
        let mut delays = Vec::new();
        while let Some(output) = self.agreement.poll() {
            match output {
                Output::Send { to, bytes } => {
                    self.sent.count(&bytes);
                    send(to, &bytes);
                }
                Output::RemoteNotice { notice, announced } => {
                    remote.push(notice);
                    delays.push(now.since(announced));
                }
                Output::Share { flow, share, allowance } => {
                    fabric.assign(now, flow, share, allowance);
                    delays.extend(self.started.remove(&flow).map(|at| now.since(at)));
                }
            }
        }
        if !remote.is_empty() {
            fabric.apply_notices(now, &remote);
        }
        self.delays.append(&mut delays);
    }

    /// Takes the delays of the changes applied since the last call: from the announcement of
    /// another agent's flow, or from the start of a local flow to its first share.
    pub fn delays(&mut self) -> impl Iterator<Item = Span> {
        self.delays.drain(..)
    }

    pub fn traffic(&self) -> (Traffic, Traffic) {
        (self.sent, self.received)
    }
}
