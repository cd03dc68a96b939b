//! Connections by their addresses, oldest first.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use base::Time;

use super::half::Half;
use super::listener::{Last, Listener};
use crate::{ConnectionId, End, Hole, MirrorId, Receiver, Segment};

/// Key of a connection: the lower end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) mirror: MirrorId,
    low: (u128, u16),
    high: (u128, u16),
}

impl Key {
    /// The same connection at another mirror.
    pub(super) const fn at(self, mirror: MirrorId) -> Self {
        Self { mirror, ..self }
    }

    /// Mirror and addresses, without ports.
    pub(super) const fn pair(&self) -> (MirrorId, u128, u128) {
        (self.mirror, self.low.0, self.high.0)
    }

    /// The connection of a segment, and the sending end.
    #[inline]
    pub(super) fn of(segment: &Segment<'_>) -> (Self, End) {
        let (source, destination) = (bits(segment.source), bits(segment.destination));
        let mirror = segment.mirror;
        if source <= destination {
            (Self { mirror, low: source, high: destination }, End::Low)
        } else {
            (Self { mirror, low: destination, high: source }, End::High)
        }
    }
}

#[inline]
fn bits(socket: SocketAddr) -> (u128, u16) {
    let address = match socket.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    };
    (address, socket.port())
}

/// A SYN that may start a new connection with the same addresses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) from: End,
    pub(super) opener: End,
    pub(super) initial: u32,
    pub(super) time: Time,
}

#[derive(Debug)]
pub(super) struct Flow {
    pub(super) key: Key,
    /// Keys at the other mirrors of the connection.
    joined: Vec<Key>,
    /// Last acknowledgment of each end.
    pub(super) acknowledged: [Option<u32>; 2],
    pub(super) is_device: bool,
    pub(super) halves: [Half; 2],
    pub(super) last: Time,
    pub(super) candidate: Option<Candidate>,
    pub(super) proven: bool,
    /// Ended, and retained so that late segments do not start it again.
    pub(super) dead: bool,
    /// Listed among the flows with a timeout.
    pub(super) queued: bool,
    /// Messages and gaps of each direction from a NOTIFICATION on, which follow the held bytes of
    /// the other direction.
    pub(super) last_messages: [Vec<Last>; 2],
    /// Number of segments that started with a message, up to a maximum.
    pub(super) first_segments: u8,
    before: u32,
    after: u32,
}

impl Flow {
    pub(super) const fn new(key: Key, time: Time, history: usize) -> Self {
        Self {
            key,
            joined: Vec::new(),
            acknowledged: [None; 2],
            is_device: false,
            halves: [Half::new(history), Half::new(history)],
            last: time,
            candidate: None,
            proven: false,
            dead: false,
            queued: false,
            last_messages: [const { Vec::new() }; 2],
            first_segments: 0,
            before: NONE,
            after: NONE,
        }
    }

    /// The half that `from` sends, and the listener to its messages.
    pub(super) fn half<'a, R: Receiver>(
        &'a mut self,
        id: ConnectionId,
        from: End,
        receiver: &'a mut R,
    ) -> (&'a mut Half, Listener<'a, R>) {
        let is_other_held = self.halves[from.other().index()].is_held();
        let last_messages = &mut self.last_messages[from.index()];
        let to = Listener {
            receiver,
            id,
            from,
            messages: 0,
            skipped: 0,
            foreign: 0,
            extended: None,
            is_other_held,
            last_messages,
        };
        (&mut self.halves[from.index()], to)
    }

    /// Sets the maximum message length (RFC 8654): extended if no captured OPEN lacks the
    /// capability and at least one has it.
    pub(super) fn agree_on_length(&mut self) {
        let [low, high] = &mut self.halves;
        let offers = [low.extended(), high.extended()];
        let allowed = offers.contains(&Some(true)) && !offers.contains(&Some(false));
        low.allow_extended(allowed);
        high.allow_extended(allowed);
    }

    /// Bytes of messages that follow the held bytes of the other direction.
    pub(super) fn last_bytes(&self) -> usize {
        let length = |last: &Last| match last {
            Last::Message(_, bytes) => bytes.len(),
            Last::Hole(_) => size_of::<Hole>(),
        };
        self.last_messages.iter().flatten().map(length).sum()
    }

    const fn list(&self) -> usize {
        (self.proven && !self.dead) as usize
    }
}

const NONE: u32 = u32::MAX;

/// All connections. Two lists in the order of the last segment: connections without messages (or
/// ended), which are removed first, and the others.
#[derive(Debug, Default)]
pub(super) struct Table {
    numbers: HashMap<Key, u32>,
    /// The last connections of each pair that had messages of a session, and may have it still.
    sessions: HashMap<(MirrorId, u128, u128), Vec<u32>>,
    flows: Vec<Option<Flow>>,
    free: Vec<u32>,
    ends: [Option<(u32, u32)>; 2],
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    /// Lets segments with `key`, at another mirror, belong to a flow.
    pub(super) fn join(&mut self, number: u32, key: Key) {
        if self.numbers.insert(key, number).is_none() {
            self.get(number).joined.push(key);
        }
    }

    pub(super) fn find(&self, key: &Key) -> Option<u32> {
        self.numbers.get(key).copied()
    }

    pub(super) fn sessions_of(&mut self, key: &Key) -> &mut Vec<u32> {
        self.sessions.entry(key.pair()).or_default()
    }

    pub(super) fn get(&mut self, number: u32) -> &mut Flow {
        self.flows[number as usize].as_mut().expect("numbers are of flows that are there")
    }

    pub(super) fn numbers(&self) -> Vec<u32> {
        let present = self.flows.iter().enumerate().filter(|(_, flow)| flow.is_some());
        present.map(|(number, _)| number as u32).collect()
    }

    pub(super) fn insert(&mut self, flow: Flow) -> u32 {
        let (key, list) = (flow.key, flow.list());
        let number = if let Some(number) = self.free.pop() {
            self.flows[number as usize] = Some(flow);
            number
        } else {
            self.flows.push(Some(flow));
            self.flows.len() as u32 - 1
        };
        self.numbers.insert(key, number);
        self.append(number, list);
        number
    }

    pub(super) fn remove(&mut self, number: u32) {
        self.unlink(number);
        if let Some(flow) = self.flows[number as usize].take() {
            for key in flow.joined.iter().chain([&flow.key]) {
                self.numbers.remove(key);
            }
            if let Some(sessions) = self.sessions.get_mut(&flow.key.pair()) {
                sessions.retain(|session| *session != number);
                if sessions.is_empty() {
                    self.sessions.remove(&flow.key.pair());
                }
            }
        }
        self.free.push(number);
    }

    /// Applies `change` to a flow, which may move it to the other list, and makes it the newest.
    #[inline]
    pub(super) fn touch(&mut self, number: u32, change: impl FnOnce(&mut Flow)) {
        self.unlink(number);
        let flow = self.get(number);
        change(flow);
        let list = flow.list();
        self.append(number, list);
    }

    /// A flow has delivered a message: moves it to the other list.
    pub(super) fn prove(&mut self, number: u32) {
        if !self.get(number).proven {
            self.touch(number, |flow| flow.proven = true);
        }
    }

    /// The flow to remove first, if there is one.
    pub(super) fn oldest(&self, proven: bool) -> Option<u32> {
        self.ends[usize::from(proven)].map(|(oldest, _)| oldest)
    }

    fn append(&mut self, number: u32, list: usize) {
        let newest = self.ends[list].map(|(_, newest)| newest);
        let flow = self.get(number);
        (flow.before, flow.after) = (newest.unwrap_or(NONE), NONE);
        match &mut self.ends[list] {
            Some((_, newest)) => {
                let before = std::mem::replace(newest, number);
                self.get(before).after = number;
            }
            empty => *empty = Some((number, number)),
        }
    }

    fn unlink(&mut self, number: u32) {
        let flow = self.get(number);
        let (before, after, list) = (flow.before, flow.after, flow.list());
        if before != NONE {
            self.get(before).after = after;
        }
        if after != NONE {
            self.get(after).before = before;
        }
        let Some((oldest, newest)) = &mut self.ends[list] else { return };
        if *oldest == number {
            *oldest = after;
        }
        if *newest == number {
            *newest = before;
        }
        if *oldest == NONE || *newest == NONE {
            self.ends[list] = None;
        }
    }
}
