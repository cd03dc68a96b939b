//! Packets to and from the hosts of other agents: sent early and held until they are due.

use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::{IfaceId, Span, Time};
use cluster::AgentId;
use cluster::clock::MAX_EGRESS_LEAD;
use cluster::control::TrunkState;
use cluster::trunk::{Message, Outgoing, Received, Trunk, TrunkOptions, TrunkStatistics};
use fabric::Fabric;
use sys::socket::{TrainReceiver, TrainSender};
use wire::{Offload, VIRTIO_HEADER};

use super::buffer::Body;
use crate::clock::LabClock;
use crate::shard::Shard;

/// Maximum bytes of held packets: 200 Gbit/s with an egress lead time of 20 ms.
const MAX_HELD_BYTES: usize = 512 << 20;

/// Maximum receive calls per turn, so that ports get their turn.
const MAX_RECEIVES_PER_TURN: usize = 2;

/// The links to all other agents, over one socket.
pub(super) struct Trunks {
    /// The agent of each interface on another agent, by `IfaceId`.
    remote_agents: Vec<Option<AgentId>>,
    lost: Vec<bool>,
    /// The egress lead time to each agent.
    leads: Vec<Span>,
    addresses: Vec<SocketAddr>,
    trunk: Trunk,
    socket: OwnedFd,
    sender: TrainSender,
    receiver: TrainReceiver,
    held: HeldPackets,
    /// The socket's send buffer is full.
    blocked: bool,
    clock: LabClock,
}

/// A packet of another agent, in the kernel's format.
#[derive(Debug)]
pub(super) struct AssembledPacket {
    /// IP version: 4 or 6.
    pub(super) version: u8,
    /// Virtio header and packet.
    pub(super) frame: Vec<u8>,
}

impl AssembledPacket {
    /// Number of packets on the wire.
    pub(super) fn segments(&self) -> u64 {
        let Some((virtio, packet)) = self.frame.split_first_chunk::<VIRTIO_HEADER>() else {
            return 0;
        };
        let offload = Offload::read(*virtio, 0);
        let payload = packet.len().saturating_sub(usize::from(offload.headers));
        let of = |size: u16| payload.div_ceil(usize::from(size)).max(1) as u64;
        offload.segment.map_or(1, of)
    }
}

/// Packets that are not due yet.
#[derive(Default)]
struct HeldPackets {
    heap: BinaryHeap<HeldPacket>,
    /// Arrival number, which keeps the order of packets with equal due times.
    count: u64,
    bytes: usize,
    /// Packets dropped because the memory was full.
    dropped: u64,
    /// Packets for interfaces of other shards.
    misrouted: u64,
}

/// A packet received before its due time.
struct HeldPacket {
    due: Time,
    count: u64,
    iface: IfaceId,
    packet: AssembledPacket,
}

impl Ord for HeldPacket {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Reversed, since a `BinaryHeap` returns the greatest element first.
        (other.due, other.count).cmp(&(self.due, self.count))
    }
}

impl PartialOrd for HeldPacket {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for HeldPacket {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for HeldPacket {}

impl Trunks {
    pub(super) fn new(shard: &Shard, socket: OwnedFd, clock: LabClock) -> Self {
        let ifaces = (0..shard.plan.ifaces.len()).map(IfaceId::at);
        let members = shard.members.len();
        Self {
            remote_agents: ifaces.map(|iface| shard.remote_agent(iface)).collect(),
            lost: vec![false; members],
            leads: vec![Span::ZERO; members],
            addresses: shard.trunks.clone(),
            trunk: Trunk::new(TrunkOptions {
                own: shard.own,
                agents: members,
                key: shard.key,
                epoch: sys::clock::realtime(),
                encrypt: shard.encrypt,
                datagram: shard.datagram,
            }),
            sender: TrainSender::default(),
            receiver: TrainReceiver::default(),
            socket,
            held: HeldPackets::default(),
            blocked: false,
            clock,
        }
    }

    /// Readable when packets have arrived.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The agent of an interface, if it is another agent.
    pub(super) fn agent_of(&self, iface: IfaceId) -> Option<AgentId> {
        self.remote_agents.get(iface.index()).copied().flatten()
    }

    /// Sets the egress lead time to an agent: packets are sent this long before they are due.
    pub(super) fn set_lead(
        &mut self,
        now: Time,
        fabric: &mut Fabric<Body>,
        agent: AgentId,
        lead: Span,
    ) {
        let (lead, Some(known)) = (lead.min(MAX_EGRESS_LEAD), self.leads.get_mut(agent.index()))
        else {
            return;
        };
        if *known != lead {
            *known = lead;
            let agents = &self.remote_agents;
            fabric.set_lead(now, |iface| agents.get(iface.index()) == Some(&Some(agent)), lead);
        }
    }

    /// The egress lead time to each agent.
    pub(super) fn leads(&self) -> &[Span] {
        &self.leads
    }

    /// The egress lead time of packets for an interface.
    pub(super) fn lead_to(&self, iface: IfaceId) -> Span {
        let lead = self.agent_of(iface).and_then(|agent| self.leads.get(agent.index()));
        lead.copied().unwrap_or_default()
    }

    /// Adds a packet for another agent's interface, and sends full trains; false if the
    /// send queue is full.
    pub(super) fn put(&mut self, to: AgentId, message: &Message<'_>) -> bool {
        if self.lost.get(to.index()).is_none_or(|lost| *lost) {
            return true;
        }
        let taken = self.trunk.put(to, message);
        while self.trunk.has_full() && !self.blocked {
            let now = self.clock.now();
            let Some(outgoing) = self.trunk.next_full(now) else { break };
            let to = self.addresses[outgoing.to.index()];
            self.blocked = !send_train(&mut self.sender, self.socket.as_fd(), to, outgoing);
            if !self.blocked {
                self.trunk.sent();
            }
        }
        taken
    }

    /// Sends the packets collected in a turn.
    pub(super) fn send(&mut self, now: Time) {
        self.blocked = false;
        while let Some(outgoing) = self.trunk.next(now) {
            let to = self.addresses[outgoing.to.index()];
            if !send_train(&mut self.sender, self.socket.as_fd(), to, outgoing) {
                self.blocked = true;
                break;
            }
            self.trunk.sent();
        }
    }

    /// Whether sending must be retried.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Receives packets, and holds them until they are due.
    pub(super) fn receive(&mut self, now: Time) {
        for _ in 0..MAX_RECEIVES_PER_TURN {
            let (trunk, held, agents) = (&mut self.trunk, &mut self.held, &self.remote_agents);
            let received = self.receiver.receive(self.socket.as_fd(), |bytes, segment, _| {
                trunk.receive(now, bytes, segment, |received| held.keep(agents, received));
            });
            if received.unwrap_or(0) < TrainReceiver::most() {
                return;
            }
        }
    }

    /// Due time of the next held packet.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.held.heap.peek().map(|held| held.due)
    }

    /// Passes due packets to `stage`, with their due times.
    pub(super) fn release(
        &mut self,
        now: Time,
        mut stage: impl FnMut(IfaceId, AssembledPacket, Time),
    ) {
        while self.held.heap.peek().is_some_and(|held| held.due <= now) {
            let Some(HeldPacket { due, iface, packet, .. }) = self.held.heap.pop() else { break };
            self.held.bytes -= packet.frame.len();
            stage(iface, packet, due);
        }
    }

    /// Recycles the memory of a packet.
    pub(super) fn recycle(&mut self, frame: Vec<u8>) {
        self.trunk.recycle(frame);
    }

    /// Stops sending to a lost agent.
    pub(super) fn on_agent_lost(&mut self, agent: AgentId) {
        if let Some(lost) = self.lost.get_mut(agent.index()) {
            *lost = true;
            self.trunk.forget(agent);
            // A train to it may have been sent in part.
            self.sender = TrainSender::default();
        }
    }

    /// Resumes sending to an agent that has returned.
    pub(super) fn on_agent_restored(&mut self, agent: AgentId) {
        if let Some(lost) = self.lost.get_mut(agent.index()) {
            *lost = false;
        }
    }

    pub(super) fn states(&self) -> Vec<TrunkState> {
        let peers = (0..self.addresses.len()).map(AgentId::at);
        let state = |statistics: &TrunkStatistics| TrunkState {
            received: statistics.received_datagrams,
            lost: statistics.lost,
            late: statistics.late,
        };
        peers.map(|peer| self.trunk.statistics(peer).map(state).unwrap_or_default()).collect()
    }

    /// Counters of packets from each agent.
    pub(super) fn statistics(&self) -> Vec<TrunkStatistics> {
        let peers = (0..self.addresses.len()).map(AgentId::at);
        peers.map(|peer| self.trunk.statistics(peer).cloned().unwrap_or_default()).collect()
    }

    /// Packets dropped while held because the memory was full, and datagrams dropped by the socket.
    pub(super) fn dropped(&self) -> (u64, u64) {
        (self.held.dropped, sys::socket::dropped_on_arrival(self.socket()).unwrap_or(0))
    }

    /// Packets for interfaces of other shards.
    pub(super) fn misrouted(&self) -> u64 {
        self.held.misrouted
    }
}

/// Sends a train; false if the socket's send buffer is full.
fn send_train(
    sender: &mut TrainSender,
    socket: BorrowedFd<'_>,
    to: SocketAddr,
    train: Outgoing<'_>,
) -> bool {
    // A packet that the socket rejects counts as lost in the network.
    sender.send(socket, to, train.bytes, train.segment).unwrap_or(true)
}

impl HeldPackets {
    fn keep(&mut self, remote_agents: &[Option<AgentId>], received: Received) {
        if remote_agents.get(received.iface.index()) != Some(&None) {
            self.misrouted += 1;
            return;
        }
        if self.bytes + received.frame.len() > MAX_HELD_BYTES {
            self.dropped += 1;
            return;
        }
        let Received { due, iface, version, frame, .. } = received;
        let packet = AssembledPacket { version, frame };
        self.bytes += packet.frame.len();
        self.count += 1;
        let count = self.count;
        self.heap.push(HeldPacket { due, count, iface, packet });
    }
}
