//! The lab's agreement on what each flow may send, as far as this member takes part in it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::Time;
use cluster::agreement::{self, Seat, To, Traffic, slbn};
use cluster::{AgentId, Assignment};
use fabric::Fabric;
use lab::plan::{Model, Plan};
use rustix::net::{RecvFlags, SendFlags};
use sharing::{Law, Sharing};

use super::buffer::Body;
use crate::piece::Piece;

/// Largest message that is read.
const LARGEST: usize = 256 << 10;

/// Messages read before packets have their turn.
const BUDGET: usize = 64;

/// Addresses all other members.
const ALL: u16 = u16::MAX;

/// This member's seat, and the way to the other members.
pub(super) struct Council {
    seat: Seat,
    /// The agent, which carries messages; `None` where there is nobody else.
    notices: Option<OwnedFd>,
    buffer: Vec<u8>,
    /// Since when the seat has something to act on that did not come from the fabric.
    pending: Option<Time>,
    /// Messages that the agent had no room for, and those that could not be read.
    unsent: u64,
    malformed: u64,
}

impl Council {
    /// Takes the seat; `None` where this member can do without: it is alone, and knows all flows.
    pub(super) fn join(
        plan: &Plan,
        piece: Option<&Piece>,
        notices: Option<OwnedFd>,
        fabric: &mut Fabric<Body>,
    ) -> Option<Self> {
        let Model::Collapsed(law) = plan.model else { return None };
        let members = piece.map_or(1, |piece| piece.members.len());
        if members < 2 && law.sharing != Sharing::Slbn {
            return None;
        }
        let own = piece.map_or(AgentId(0), |piece| piece.own);
        fabric.join(u32::from(own.0));
        let alone = Assignment::alone(plan.nodes.len());
        let assignment = piece.map_or(&alone, |piece| &piece.assignment);
        let homes = slbn::homes(plan, assignment, members);
        let law = Law { sharing: law.sharing, window: law.window };
        Some(Self {
            seat: Seat::new(agreement::build(law, own, members, homes, plan.seed)),
            notices,
            buffer: vec![0; LARGEST],
            pending: None,
            unsent: 0,
            malformed: 0,
        })
    }

    /// Readable when messages have come.
    pub(super) fn notices(&self) -> Option<BorrowedFd<'_>> {
        self.notices.as_ref().map(AsFd::as_fd)
    }

    /// When it is to have its turn.
    pub(super) fn next_turn(&self, fabric: &Fabric<Body>) -> Option<Time> {
        self.pending.or_else(|| self.seat.next_turn(fabric))
    }

    pub(super) fn lose(&mut self, now: Time, agent: AgentId) {
        self.pending.get_or_insert(now);
        self.seat.lose(now, agent);
    }

    pub(super) fn regain(&mut self, now: Time, agent: AgentId) {
        self.pending.get_or_insert(now);
        self.seat.regain(now, agent);
    }

    /// Takes in what other members say.
    pub(super) fn receive(&mut self, now: Time) {
        let Some(notices) = &self.notices else { return };
        for _ in 0..BUDGET {
            let received = rustix::net::recv(notices, &mut self.buffer[..], RecvFlags::DONTWAIT);
            let Ok((length, _)) = received else { return };
            if length == 0 {
                // The end of the stream: the agent is gone.
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
            if self.seat.on_message(now, from, bytes).is_err() {
                self.malformed += 1;
            }
        }
    }

    /// Tells the others what the fabric has to tell, and the fabric what follows.
    pub(super) fn turn(&mut self, now: Time, fabric: &mut Fabric<Body>) {
        let Self { seat, notices, unsent, pending, .. } = self;
        *pending = None;
        seat.turn(now, fabric, |to, bytes| {
            let Some(notices) = notices else { return };
            let to = match to {
                To::All => ALL,
                To::One(agent) => agent.0,
            };
            let message = [&to.to_le_bytes()[..], bytes].concat();
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            // Whatever is not sent is made good by the digests, later.
            *unsent += u64::from(rustix::net::send(notices, &message, flags).is_err());
        });
    }

    /// How long news took that are in force now, see [`Seat::delays`].
    pub(super) fn delays(&mut self) -> impl Iterator<Item = base::Span> {
        self.seat.delays()
    }

    /// What was said.
    pub(super) fn talk(&self) -> Talk {
        let (sent, received) = self.seat.traffic();
        Talk { sent, received, unsent: self.unsent, malformed: self.malformed }
    }
}

/// What members of a lab have said to each other, as one of them sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Talk {
    /// Messages that were sent; one for all others counts once.
    pub(crate) sent: Traffic,
    /// Messages that came.
    pub(crate) received: Traffic,
    /// Messages that the agent had no room for.
    pub(crate) unsent: u64,
    /// Messages that could not be read.
    pub(crate) malformed: u64,
}
