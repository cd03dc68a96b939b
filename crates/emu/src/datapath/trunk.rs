//! Packets to and from other members' hosts: sent ahead, held until they are due.

use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::{IfaceId, Span, Time};
use cluster::AgentId;
use cluster::clock::MOST_LEAD;
use cluster::control::TrunkState;
use cluster::trunk::{Message, Outgoing, Received, Trunk, TrunkOptions, TrunkStatistics};
use fabric::Fabric;
use sys::socket::{TrainReceiver, TrainSender};

use super::buffer::Body;
use super::egress::{Egress, Whole};
use crate::clock::LabClock;
use crate::piece::Piece;

/// Bytes of packets that may wait until they are due: what a lead of 20 ms brings at 200 Gbit/s.
const MEMORY: usize = 512 << 20;

/// Receives that a turn makes at most, before ports have their turn again.
const BUDGET: usize = 2;

/// The ways to all other members, over one socket.
pub(super) struct Trunks {
    /// The member that has each interface, where that is another one.
    places: Vec<Option<AgentId>>,
    lost: Vec<bool>,
    /// How long before they are due packets leave for each member.
    leads: Vec<Span>,
    addresses: Vec<SocketAddr>,
    trunk: Trunk,
    socket: OwnedFd,
    sender: TrainSender,
    receiver: TrainReceiver,
    held: Held,
    /// The socket would not take more.
    blocked: bool,
    clock: LabClock,
}

/// Packets that are not due yet.
#[derive(Default)]
struct Held {
    heap: BinaryHeap<Early>,
    /// Keeps packets that are due together in the order in which they came.
    count: u64,
    bytes: usize,
    /// Packets that found no room.
    dropped: u64,
    /// Packets for interfaces that are not here.
    astray: u64,
}

/// A packet that came before it is due.
struct Early {
    due: Time,
    count: u64,
    iface: IfaceId,
    whole: Whole,
}

impl Ord for Early {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // A heap gives the greatest first.
        (other.due, other.count).cmp(&(self.due, self.count))
    }
}

impl PartialOrd for Early {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Early {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Early {}

impl Trunks {
    pub(super) fn new(piece: &Piece, socket: OwnedFd, clock: LabClock) -> Self {
        let ifaces = (0..piece.plan.ifaces.len()).map(IfaceId::at);
        let members = piece.members.len();
        Self {
            places: ifaces.map(|iface| piece.elsewhere(iface)).collect(),
            lost: vec![false; members],
            leads: vec![Span::ZERO; members],
            addresses: piece.trunks.clone(),
            trunk: Trunk::new(TrunkOptions {
                own: piece.own,
                members,
                key: piece.key,
                epoch: sys::clock::realtime(),
                encrypt: piece.encrypt,
                datagram: piece.datagram,
            }),
            sender: TrainSender::default(),
            receiver: TrainReceiver::default(),
            socket,
            held: Held::default(),
            blocked: false,
            clock,
        }
    }

    /// Readable when packets have come.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The other member that has an interface.
    pub(super) fn place(&self, iface: IfaceId) -> Option<AgentId> {
        self.places.get(iface.index()).copied().flatten()
    }

    /// Lets packets for a member leave so long before they are due.
    pub(super) fn lead(
        &mut self,
        now: Time,
        fabric: &mut Fabric<Body>,
        agent: AgentId,
        lead: Span,
    ) {
        let (lead, Some(known)) = (lead.min(MOST_LEAD), self.leads.get_mut(agent.index())) else {
            return;
        };
        if *known != lead {
            *known = lead;
            let places = &self.places;
            fabric.set_lead(now, |iface| places.get(iface.index()) == Some(&Some(agent)), lead);
        }
    }

    /// How long before they are due packets leave for each member.
    pub(super) fn leads(&self) -> &[Span] {
        &self.leads
    }

    /// How long before it is due a packet for an interface leaves.
    pub(super) fn lead_to(&self, iface: IfaceId) -> Span {
        let lead = self.place(iface).and_then(|agent| self.leads.get(agent.index()));
        lead.copied().unwrap_or_default()
    }

    /// Takes a packet for another member's interface, and sends trains that are full; false if
    /// nothing more can wait.
    pub(super) fn put(&mut self, to: AgentId, message: &Message<'_>) -> bool {
        if self.lost.get(to.index()).is_none_or(|lost| *lost) {
            return true;
        }
        let taken = self.trunk.put(to, message);
        while self.trunk.has_full() && !self.blocked {
            let now = self.clock.now();
            let Some(outgoing) = self.trunk.next_full(now) else { break };
            let to = self.addresses[outgoing.to.index()];
            self.blocked = !push(&mut self.sender, self.socket.as_fd(), to, outgoing);
            if !self.blocked {
                self.trunk.sent();
            }
        }
        taken
    }

    /// Sends what a turn has gathered.
    pub(super) fn send(&mut self, now: Time) {
        self.blocked = false;
        while let Some(outgoing) = self.trunk.next(now) {
            let to = self.addresses[outgoing.to.index()];
            if !push(&mut self.sender, self.socket.as_fd(), to, outgoing) {
                self.blocked = true;
                break;
            }
            self.trunk.sent();
        }
    }

    /// Whether sending must be tried again.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Reads what has come, and keeps it until it is due.
    pub(super) fn receive(&mut self, now: Time) {
        for _ in 0..BUDGET {
            let (trunk, held, places) = (&mut self.trunk, &mut self.held, &self.places);
            let received = self.receiver.receive(self.socket.as_fd(), |bytes, segment, _| {
                trunk.take(now, bytes, segment, |received| held.keep(places, received));
            });
            if received.unwrap_or(0) < TrainReceiver::most() {
                return;
            }
        }
    }

    /// When the next packet that waits is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.held.heap.peek().map(|early| early.due)
    }

    /// Hands on what is due.
    pub(super) fn release(&mut self, now: Time, egress: &mut Egress) {
        while self.held.heap.peek().is_some_and(|early| early.due <= now) {
            let Some(Early { due, iface, whole, .. }) = self.held.heap.pop() else { break };
            self.held.bytes -= whole.frame.len();
            egress.stage_whole(iface, whole, due);
        }
    }

    /// Takes back the memory of a packet.
    pub(super) fn recycle(&mut self, frame: Vec<u8>) {
        self.trunk.recycle(frame);
    }

    /// A member is gone: nothing more is sent to it.
    pub(super) fn lose(&mut self, agent: AgentId) {
        if let Some(lost) = self.lost.get_mut(agent.index()) {
            *lost = true;
            self.trunk.forget(agent);
            // Half a train to it may be on its way.
            self.sender = TrainSender::default();
        }
    }

    /// A member that was gone is there again.
    pub(super) fn regain(&mut self, agent: AgentId) {
        if let Some(lost) = self.lost.get_mut(agent.index()) {
            *lost = false;
        }
    }

    /// What each member has sent, in short.
    pub(super) fn states(&self) -> Vec<TrunkState> {
        let peers = (0..self.addresses.len()).map(AgentId::at);
        let state = |seen: &TrunkStatistics| TrunkState {
            received: seen.received_datagrams,
            lost: seen.lost,
            late: seen.late,
        };
        peers.map(|peer| self.trunk.statistics(peer).map(state).unwrap_or_default()).collect()
    }

    /// What each member has sent.
    pub(super) fn statistics(&self) -> Vec<TrunkStatistics> {
        let peers = (0..self.addresses.len()).map(AgentId::at);
        peers.map(|peer| self.trunk.statistics(peer).cloned().unwrap_or_default()).collect()
    }

    /// Packets that found no room while they waited, and datagrams that found none in the socket.
    pub(super) fn dropped(&self) -> (u64, u64) {
        (self.held.dropped, sys::socket::dropped_on_arrival(self.socket()).unwrap_or(0))
    }

    /// Packets for interfaces that are not here.
    pub(super) fn astray(&self) -> u64 {
        self.held.astray
    }
}

/// Sends a train; false: there is no room for it.
fn push(
    sender: &mut TrainSender,
    socket: BorrowedFd<'_>,
    to: SocketAddr,
    train: Outgoing<'_>,
) -> bool {
    // What cannot be sent to one of them is lost, as it would be on its way.
    sender.send(socket, to, train.bytes, train.segment).unwrap_or(true)
}

impl Held {
    fn keep(&mut self, places: &[Option<AgentId>], received: Received) {
        if places.get(received.iface.index()) != Some(&None) {
            self.astray += 1;
            return;
        }
        if self.bytes + received.frame.len() > MEMORY {
            self.dropped += 1;
            return;
        }
        let Received { due, iface, version, frame, .. } = received;
        let whole = Whole { version, frame };
        self.bytes += whole.frame.len();
        self.count += 1;
        let count = self.count;
        self.heap.push(Early { due, count, iface, whole });
    }
}
