//! This agent's part in the agreement on rates: the client and the socket to the other agents.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use agreement::{AgreementClient, Recipient, Traffic, slbn};
use base::{AgentId, Time};
use cluster::Assignment;
use fabric::Fabric;
use lab::plan::{Model, Plan};
use rustix::net::{RecvFlags, SendFlags};
use sharing::{Sharing, SharingPolicy};

use super::buffer::Body;
use crate::shard::Shard;

const MAX_MESSAGE_BYTES: usize = 256 << 10;

/// Messages received per turn of the data path.
const MAX_RECEIVES_PER_TURN: usize = 64;

/// The recipient number of all other agents.
const ALL_AGENTS: u16 = u16::MAX;

pub(super) struct AgreementSocket {
    client: AgreementClient,
    /// The socket to the agent, which relays the messages; `None` on a single agent.
    notices: Option<OwnedFd>,
    buffer: Vec<u8>,
    /// Time of the first input since the last turn that did not come from the fabric.
    pending: Option<Time>,
    /// Messages dropped because the socket was full.
    unsent: u64,
    /// Received messages that could not be decoded.
    malformed: u64,
}

impl AgreementSocket {
    /// Joins the agreement; `None` if it is not needed, as on a single agent with all flows.
    pub(super) fn join(
        plan: &Plan,
        shard: Option<&Shard>,
        notices: Option<OwnedFd>,
        fabric: &mut Fabric<Body>,
    ) -> Option<Self> {
        let Model::Collapsed(policy) = plan.model else { return None };
        let agents = shard.map_or(1, |shard| shard.members.len());
        if agents < 2 && policy.sharing != Sharing::Slbn {
            return None;
        }
        let own = shard.map_or(AgentId(0), |shard| shard.own);
        fabric.join(u32::from(own.0));
        let alone = Assignment::alone(plan.nodes.len());
        let assignment = shard.map_or(&alone, |shard| &shard.assignment);
        let links: Vec<_> = plan.links.iter().map(|link| link.ends).collect();
        let homes = slbn::homes(&links, assignment.owners(), agents);
        let policy = SharingPolicy { sharing: policy.sharing, window: policy.window };
        Some(Self {
            client: AgreementClient::new(agreement::build(policy, own, agents, homes, plan.seed)),
            notices,
            buffer: vec![0; MAX_MESSAGE_BYTES],
            pending: None,
            unsent: 0,
            malformed: 0,
        })
    }

    /// Readable when messages have arrived.
    pub(super) fn notices(&self) -> Option<BorrowedFd<'_>> {
        self.notices.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn next_wake(&self, fabric: &Fabric<Body>) -> Option<Time> {
        self.pending.or_else(|| self.client.next_wake(fabric))
    }

    pub(super) fn on_agent_lost(&mut self, now: Time, agent: AgentId) {
        self.pending.get_or_insert(now);
        self.client.on_agent_lost(now, agent);
    }

    pub(super) fn on_agent_restored(&mut self, now: Time, agent: AgentId) {
        self.pending.get_or_insert(now);
        self.client.on_agent_restored(now, agent);
    }

    /// Receives the messages of other agents.
    pub(super) fn receive(&mut self, now: Time) {
        let Some(notices) = &self.notices else { return };
        for _ in 0..MAX_RECEIVES_PER_TURN {
            let received = rustix::net::recv(notices, &mut self.buffer[..], RecvFlags::DONTWAIT);
            let Ok((length, _)) = received else { return };
            if length == 0 {
                // End of stream: the agent has closed the socket.
                self.notices = None;
                return;
            }
            let message = self.buffer[..length].split_first_chunk();
            let Some((from, bytes)) = message else {
                self.malformed += 1;
                continue;
            };
            let from = AgentId(u16::from_le_bytes(*from));
            self.pending = Some(now);
            if self.client.on_message(now, from, bytes).is_err() {
                self.malformed += 1;
            }
        }
    }

    /// Sends the fabric's announcements, and applies the resulting shares to the fabric.
    pub(super) fn turn(&mut self, now: Time, fabric: &mut Fabric<Body>) {
        let Self { client, notices, unsent, pending, .. } = self;
        *pending = None;
        client.turn(now, fabric, |to, bytes| {
            let Some(notices) = notices else { return };
            let to = match to {
                Recipient::All => ALL_AGENTS,
                Recipient::One(agent) => agent.0,
            };
            let message = [&to.to_le_bytes()[..], bytes].concat();
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // Digests and retransmissions repair dropped messages.
            *unsent += u64::from(rustix::net::send(notices, &message, flags).is_err());
        });
    }

    /// See [`AgreementClient::delays`].
    pub(super) fn delays(&mut self) -> impl Iterator<Item = base::Span> {
        self.client.delays()
    }

    pub(super) fn traffic(&self) -> AgreementTraffic {
        let (sent, received) = self.client.traffic();
        AgreementTraffic { sent, received, unsent: self.unsent, malformed: self.malformed }
    }
}

/// Counters of the agreement's messages on this agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgreementTraffic {
    /// A message to all other agents counts once.
    pub(crate) sent: Traffic,
    pub(crate) received: Traffic,
    /// Messages dropped because the socket was full.
    pub(crate) unsent: u64,
    pub(crate) malformed: u64,
}
