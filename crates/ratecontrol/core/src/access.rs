//! The first router acts on behalf of hosts without rate control (SLBN §II).
//!
//! **Problem.** Flows do not announce when they are active and which rate they require. Their first
//! router sees their packets and keeps state per flow anyway. So it calls `API.Join`, `API.Leave`
//! and `API.Change` for them, and shapes their packets to the rate from `API.Rate`.
//!
//! ```text
//! hosts → packet() ┬ known? → shaper at the assigned rate → Action::Release → network
//!                  └ new:     Action::Join, and so on      ← assigned() ← a Source of a protocol
//! network → returning() (flags only)
//! ```
//!
//! | event | action | where |
//! |---|---|---|
//! | SYN, or a packet of a flow without a record ("when they detect a new flow") | Join | here |
//! | SYN with another initial sequence number: the ports are reused | Leave, Join | here |
//! | FIN in both directions, or RST | Leave at once; keep the record for late packets | `flow.rs` |
//! | FIN in this direction only | Leave after [`Policy::linger`] | `flow.rs` |
//! | no packets for [`Policy::idle`] ("an inactivity timer for each flow") | Leave | `flow.rs` |
//! | less used than assigned ("significantly lower") | Change to a lower rate | `usage.rs` |
//! | packets queued in the shaper | Change to a higher rate | `usage.rs` |
//! | more flows than [`Policy::flows`] | the packet passes unshaped, and is counted | here |
//!
//! Above the limit, new flows pass unshaped instead of replacing others: a flood of new flows then
//! causes no Joins and Leaves in the network, and existing flows keep their rates. Records end by
//! FIN, RST or idle timeout, which makes room again.
//!
//! Each direction of a connection is a separate session, at its own first router. Packets of a flow
//! are never reordered, except if a flow gets a record, and is shaped, after some of its packets
//! have passed unshaped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{Bandwidth, Bytes, Time};

use crate::{Result, SessionId, Settings};

mod flow;
mod policy;
mod shaper;
#[cfg(test)]
mod tests;
mod usage;

use flow::{Flow, Step};
pub use policy::{Policy, Seen};

/// An action that the driver must execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<K, P> {
    /// `API.Join` for a flow as this session; the packet is its first.
    Join {
        /// The session; numbers are unique.
        session: SessionId,
        /// The flow that the session carries.
        key: K,
        /// The requested rate.
        demand: Bandwidth,
    },
    /// `API.Change`.
    Change {
        /// The session, after its `Join`.
        session: SessionId,
        /// The new requested rate.
        demand: Bandwidth,
    },
    /// `API.Leave`; the last event of the session.
    Leave {
        /// The session, after its `Join`.
        session: SessionId,
    },
    /// Send a packet into the network.
    Release(P),
    /// Drop a packet, because its flow's queue or the buffer is full.
    Drop(P),
}

/// Counters of a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sessions that joined.
    pub joins: u64,
    /// Sessions that left.
    pub leaves: u64,
    /// Changes of demands.
    pub changes: u64,
    /// Packets that passed unshaped because there were too many flows.
    pub unshaped: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}

/// A first router. `K` identifies a flow by fields of its packets (addresses, protocol, ports); `P`
/// is the driver's handle of a packet.
///
/// The driver passes all packets from and to the hosts behind the router, calls it at
/// [`Self::next_wake`], and after each call takes all actions with [`Self::poll`].
#[derive(Debug)]
pub struct AccessRouter<K, P> {
    settings: Settings,
    policy: Policy,
    flows: Vec<Option<Flow<K, P>>>,
    free: Vec<u32>,
    keys: BTreeMap<K, u32>,
    sessions: BTreeMap<SessionId, u32>,
    /// One timer entry per flow with a deadline.
    due: BTreeSet<(Time, u32)>,
    actions: VecDeque<Action<K, P>>,
    /// Number of sessions so far.
    joined: u32,
    buffered: u64,
    /// Number of packets in all queues.
    waiting: usize,
    counters: Counters,
}

impl<K: Copy + Ord, P> AccessRouter<K, P> {
    /// Creates a router before its first packet.
    ///
    /// # Errors
    /// As [`Settings::check`].
    pub fn try_new(settings: &Settings, policy: Policy) -> Result<Self> {
        settings.check()?;
        Ok(Self {
            settings: *settings,
            policy,
            flows: Vec::new(),
            free: Vec::new(),
            keys: BTreeMap::new(),
            sessions: BTreeMap::new(),
            due: BTreeSet::new(),
            actions: VecDeque::new(),
            joined: 0,
            buffered: 0,
            waiting: 0,
            counters: Counters::default(),
        })
    }

    /// Processes a packet from a host.
    pub fn packet(&mut self, now: Time, key: K, seen: Seen, packet: P) {
        let Some(slot) = self.keys.get(&key).copied().or_else(|| self.admit(now, key, seen)) else {
            self.actions.push_back(Action::Release(packet));
            return;
        };
        if let Some(initial) = seen.syn {
            self.open(now, slot, initial);
        }
        let (policy, room) = (self.policy, self.policy.buffer.count() - self.buffered);
        let Some(flow) = self.flow(slot) else { return };
        match flow.enqueue(now, &policy, seen, packet, room) {
            None => {
                self.buffered += u64::from(seen.bytes);
                self.waiting += 1;
            }
            Some(packet) => {
                self.counters.dropped += 1;
                self.actions.push_back(Action::Drop(packet));
            }
        }
        self.step(now, slot);
    }

    /// Processes a packet of the opposite direction of a flow, returning to the host; `key` is that
    /// of the flow.
    pub fn returning(&mut self, now: Time, key: K, seen: Seen) {
        if !seen.fin && !seen.rst {
            return;
        }
        if let Some(slot) = self.keys.get(&key).copied()
            && let Some(flow) = self.flow(slot)
        {
            flow.hear(seen);
            self.step(now, slot);
        }
    }

    /// `API.Rate`: sets the rate of a session. Data gets this rate less the share of control
    /// packets ([`Settings::data_rate`]).
    pub fn assigned(&mut self, now: Time, session: SessionId, rate: Bandwidth) {
        let data = self.settings.data_rate(rate);
        if let Some(slot) = self.sessions.get(&session).copied()
            && let Some(flow) = self.flow(slot)
        {
            flow.assign(now, data);
            self.step(now, slot);
        }
    }

    /// Handles the rejection of a session: its flow passes unshaped until it ends.
    pub fn refuse(&mut self, now: Time, session: SessionId) {
        if let Some(slot) = self.sessions.remove(&session)
            && let Some(flow) = self.flow(slot)
        {
            flow.release_from_control(now);
            self.step(now, slot);
        }
    }

    /// Deadline of the next [`Self::on_wake`].
    pub fn next_wake(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Handles deadlines up to `now`.
    pub fn on_wake(&mut self, now: Time) {
        while let Some((at, slot)) = self.due.first().copied()
            && at <= now
        {
            self.due.pop_first();
            if let Some(flow) = self.flow(slot) {
                flow.armed = None;
            }
            self.step(now, slot);
        }
    }

    /// The next action, in the order of creation.
    pub fn poll(&mut self) -> Option<Action<K, P>> {
        self.actions.pop_front()
    }

    /// Counters since the start.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Number of flows with a record.
    pub fn flows(&self) -> usize {
        self.keys.len()
    }

    /// Number of bytes in all queues.
    pub const fn buffered(&self) -> Bytes {
        Bytes::new(self.buffered)
    }

    /// Memory of records and queued packets in bytes.
    pub fn memory(&self) -> u64 {
        let packets = self.waiting * size_of::<(Seen, P)>();
        (self.flows.capacity() * size_of::<Option<Flow<K, P>>>() + packets) as u64
    }

    fn flow(&mut self, slot: u32) -> Option<&mut Flow<K, P>> {
        self.flows.get_mut(slot as usize)?.as_mut()
    }

    /// Creates the record of a flow from its first packet, if it should have one. A packet that
    /// ends a flow creates no record.
    fn admit(&mut self, now: Time, key: K, seen: Seen) -> Option<u32> {
        if seen.rst || (seen.fin && seen.syn.is_none()) {
            return None;
        }
        if self.keys.len() >= self.policy.flows {
            self.counters.unshaped += 1;
            return None;
        }
        let flow = Flow::new(now, key, &self.policy);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() as u32 - 1
        });
        self.flows[slot as usize] = Some(flow);
        self.keys.insert(key, slot);
        self.join(slot);
        Some(slot)
    }

    fn join(&mut self, slot: u32) {
        let session = SessionId(self.joined);
        self.joined = self.joined.wrapping_add(1);
        self.counters.joins += 1;
        self.sessions.insert(session, slot);
        if let Some(flow) = self.flow(slot) {
            flow.session = Some(session);
            let (key, demand) = (flow.key, Bandwidth::MAX);
            self.actions.push_back(Action::Join { session, key, demand });
        }
    }

    fn leave(&mut self, slot: u32) {
        if let Some(flow) = self.flow(slot)
            && let Some(session) = flow.session.take()
        {
            self.sessions.remove(&session);
            self.counters.leaves += 1;
            self.actions.push_back(Action::Leave { session });
        }
    }

    /// Processes a SYN. A retransmitted one has no effect; after the flow's end, or with
    /// another initial sequence number, it opens a new connection with the same ports, possibly
    /// to another destination.
    fn open(&mut self, now: Time, slot: u32, initial: u32) {
        let policy = self.policy;
        let Some(flow) = self.flow(slot) else { return };
        if !flow.reopen(now, initial, &policy) {
            return;
        }
        self.leave(slot);
        self.join(slot);
    }

    /// Executes all due steps of a flow, and sets its timer.
    fn step(&mut self, now: Time, slot: u32) {
        loop {
            let policy = self.policy;
            let Some(flow) = self.flow(slot) else { return };
            match flow.step(now, &policy) {
                Step::Release(bytes, packet) => {
                    self.buffered -= u64::from(bytes);
                    self.waiting -= 1;
                    self.actions.push_back(Action::Release(packet));
                }
                Step::Change(demand) => {
                    if let Some(session) = flow.session {
                        self.counters.changes += 1;
                        self.actions.push_back(Action::Change { session, demand });
                    }
                }
                Step::Leave => self.leave(slot),
                Step::Forget => return self.forget(slot),
                Step::Wait(at) => return self.arm(slot, at),
            }
        }
    }

    fn arm(&mut self, slot: u32, at: Time) {
        let Some(flow) = self.flow(slot) else { return };
        let before = flow.armed.replace(at);
        if before != Some(at) {
            if let Some(before) = before {
                self.due.remove(&(before, slot));
            }
            self.due.insert((at, slot));
        }
    }

    fn forget(&mut self, slot: u32) {
        if let Some(flow) = self.flows.get_mut(slot as usize).and_then(Option::take) {
            self.keys.remove(&flow.key);
            if let Some(at) = flow.armed {
                self.due.remove(&(at, slot));
            }
            self.free.push(slot);
        }
    }
}
