//! The first router acts for hosts that know nothing of rate control (SLBN §II).
//!
//! **Problem.** Flows do not say when they are active and what they want. Their first router sees
//! their packets, and keeps something for each flow anyway; so it calls `API.Join`, `API.Leave`
//! and `API.Change` for them, and holds their packets to the rate that `API.Rate` gives.
//!
//! ```text
//! hosts → packet() ┬ known? → shaper at the assigned rate → Action::Release → network
//!                  └ new:     Action::Join, and so on      ← assigned() ← a Source of a protocol
//! network → returning() (only looked at)
//! ```
//!
//! | seen | done | where |
//! |---|---|---|
//! | SYN, or a packet of a flow without a record ("when they detect a new flow") | Join | here |
//! | SYN with another initial sequence number: the ports are used again | Leave, Join | here |
//! | FIN both ways, or RST | Leave at once; the record lingers for what comes late | `flow.rs` |
//! | FIN this way only | Leave after [`Policy::linger`] | `flow.rs` |
//! | nothing for [`Policy::idle`] ("an inactivity timer for each flow") | Leave | `flow.rs` |
//! | less used than assigned ("significantly lower") | Change down | `usage.rs` |
//! | packets that wait for the shaper | Change up | `usage.rs` |
//! | more flows than [`Policy::flows`] | the packet passes unshaped, and is counted | here |
//!
//! Beyond the limit flows pass rather than push others out: a flood of new flows then costs the
//! network no Joins and Leaves, and those who are there keep their rates. Records end by FIN, RST
//! or silence, and then there is room again.
//!
//! Each direction of a connection is a session of its own, at its own first router. Packets of a
//! flow never overtake each other, except that a flow may find room, and be shaped, after some of
//! its packets have passed unshaped.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use base::{Bandwidth, Bytes, Ratio, Span, Time};

use crate::{Result, SessionId, Settings};

mod flow;
mod shaper;
#[cfg(test)]
mod tests;
mod usage;

use flow::{Flow, Step};

/// What a router does with flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Records at most; packets of further flows pass unshaped.
    pub flows: usize,
    /// What a flow may send before it has a rate. Its first packet always goes at once.
    pub initial: Bandwidth,
    /// What waits of one flow is at most what its rate sends in this time …
    pub queue: Span,
    /// … but this may always wait …
    pub queue_least: Bytes,
    /// … and never more than this.
    pub queue_most: Bytes,
    /// Bytes that wait of all flows at most.
    pub buffer: Bytes,
    /// A flow without a packet for so long has ended.
    pub idle: Span,
    /// After a FIN in one direction the other is waited for this long; and for so long what comes
    /// late of an ended flow is known as such.
    pub linger: Span,
    /// A flow's use of its rate is judged this often.
    pub window: Span,
    /// Using less than this share of its rate is significantly less …
    pub low: Ratio,
    /// … if it does so in this many windows one after another, and its packets never wait longer
    /// than `patience`.
    pub calm: u32,
    /// Its demand becomes the most that it used in these windows, and this share of that on top.
    /// While 1 + `headroom` < 1 / `low`, the flow keeps what it then has.
    pub headroom: Ratio,
    /// No demand falls below this: how fast a source asks for more depends on its rate.
    pub floor: Bandwidth,
    /// A flow whose packets wait this long presses against its rate: if its demand was the limit,
    /// there is none any more.
    pub patience: Span,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            flows: 65_536,
            initial: Bandwidth::from_mbits_per_sec(1),
            queue: Span::from_millis(100),
            queue_least: Bytes::new(64 << 10),
            queue_most: Bytes::new(4 << 20),
            buffer: Bytes::new(256 << 20),
            idle: Span::from_secs(10),
            linger: Span::from_secs(1),
            window: Span::from_millis(200),
            low: Ratio::from_parts_per_billion(750_000_000),
            calm: 3,
            headroom: Ratio::from_parts_per_billion(250_000_000),
            floor: Bandwidth::from_bits_per_sec(256_000),
            patience: Span::from_millis(10),
        }
    }
}

/// What a router reads in a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its size on the wire.
    pub bytes: u32,
    /// With SYN: the initial sequence number.
    pub syn: Option<u32>,
    /// Whether it has FIN.
    pub fin: bool,
    /// Whether it has RST.
    pub rst: bool,
}

/// What a router wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<K, P> {
    /// `API.Join` for a flow, as a session with this number; the packet is its first.
    Join {
        /// The session; no number comes twice.
        session: SessionId,
        /// The flow.
        key: K,
        /// What it wants.
        demand: Bandwidth,
    },
    /// `API.Change`.
    Change {
        /// The session.
        session: SessionId,
        /// What it wants now.
        demand: Bandwidth,
    },
    /// `API.Leave`; no more is heard of the session.
    Leave {
        /// The session.
        session: SessionId,
    },
    /// A packet goes on into the network.
    Release(P),
    /// A packet found its flow's queue, or the buffer, full.
    Drop(P),
}

/// What a router has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sessions that joined.
    pub joins: u64,
    /// Sessions that left.
    pub leaves: u64,
    /// Changes of demands.
    pub changes: u64,
    /// Packets that passed unshaped since there were too many flows.
    pub unshaped: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}

/// A first router. `K` names a flow as its packets do (addresses, protocol, ports); `P` is the
/// driver's handle on a packet.
///
/// The driver gives it all packets of hosts behind it, and those that return to them; wakes it at
/// [`Self::next_wake`]; and after each call takes all actions with [`Self::poll`].
#[derive(Debug)]
pub struct AccessRouter<K, P> {
    settings: Settings,
    policy: Policy,
    flows: Vec<Option<Flow<K, P>>>,
    free: Vec<u32>,
    keys: BTreeMap<K, u32>,
    sessions: BTreeMap<SessionId, u32>,
    /// One entry for each flow that waits for a time.
    due: BTreeSet<(Time, u32)>,
    actions: VecDeque<Action<K, P>>,
    /// Sessions so far.
    joined: u32,
    buffered: u64,
    /// Packets that wait in all queues.
    waiting: usize,
    counters: Counters,
}

impl<K: Copy + Ord, P> AccessRouter<K, P> {
    /// A router that sees its first packet.
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

    /// A packet of a host comes, to be sent on.
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

    /// A packet of a flow's opposite direction returns to the host; `key` is the flow's own.
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

    /// `API.Rate`: a session has a rate. Its data may take what control packets leave of it.
    pub fn assigned(&mut self, now: Time, session: SessionId, rate: Bandwidth) {
        let data = self.settings.data_rate(rate);
        if let Some(slot) = self.sessions.get(&session).copied()
            && let Some(flow) = self.flow(slot)
        {
            flow.assign(now, data);
            self.step(now, slot);
        }
    }

    /// A session cannot be: its flow passes unshaped while it lasts.
    pub fn refuse(&mut self, now: Time, session: SessionId) {
        if let Some(slot) = self.sessions.remove(&session)
            && let Some(flow) = self.flow(slot)
        {
            flow.release_from_control(now);
            self.step(now, slot);
        }
    }

    /// When to call [`Self::on_wake`].
    pub fn next_wake(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Deadlines up to `now` have come.
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

    /// The next action, in the order in which they came about.
    pub fn poll(&mut self) -> Option<Action<K, P>> {
        self.actions.pop_front()
    }

    /// What it has counted.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Flows that it has a record of.
    pub fn flows(&self) -> usize {
        self.keys.len()
    }

    /// Bytes that wait in all queues.
    pub const fn buffered(&self) -> Bytes {
        Bytes::new(self.buffered)
    }

    /// Bytes of memory that records and the packets that wait take.
    pub fn memory(&self) -> u64 {
        let packets = self.waiting * size_of::<(Seen, P)>();
        (self.flows.capacity() * size_of::<Option<Flow<K, P>>>() + packets) as u64
    }

    fn flow(&mut self, slot: u32) -> Option<&mut Flow<K, P>> {
        self.flows.get_mut(slot as usize)?.as_mut()
    }

    /// Makes a record of a flow whose first packet this is, if it is to have one. What ends a flow
    /// begins none.
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

    /// A SYN. Sent again it is the same one; after the flow's end, or with another initial
    /// sequence number, it opens a new connection over the same ports, which may go elsewhere.
    fn open(&mut self, now: Time, slot: u32, initial: u32) {
        let policy = self.policy;
        let Some(flow) = self.flow(slot) else { return };
        if !flow.reopen(now, initial, &policy) {
            return;
        }
        self.leave(slot);
        self.join(slot);
    }

    /// Does all that a flow has to do now, and sets its timer.
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
