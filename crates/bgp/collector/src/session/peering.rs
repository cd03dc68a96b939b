//! A pair of speakers: its current session, and the messages that are held until they
//! can be decoded.

use std::collections::VecDeque;
use std::net::IpAddr;

use base::{Span, Time};
use bgp::{Message, Negotiated};

use super::clock::DISORDER;
use super::connection::{Conn, Received};
use super::inference::Inference;
use crate::{
    Close, ConnectionId, End, Event, Hole, MirrorId, Peering, Reading, Reason, Sender, Sink, State,
};

/// Number of decodable UPDATEs after which a peer is known to use the negotiated encoding.
const CHECKED_UPDATES: u32 = 64;
/// Maximum length of the body of an UPDATE without routes (End-of-RIB of any family, RFC 4724 §2).
const END_OF_RIB: usize = 11;

/// Two addresses at one mirror, the lower one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Pair {
    pub(super) mirror: MirrorId,
    pub(super) low: IpAddr,
    pub(super) high: IpAddr,
}

impl Pair {
    pub(super) fn new(mirror: MirrorId, one: IpAddr, two: IpAddr) -> Self {
        Self { mirror, low: one.min(two), high: one.max(two) }
    }
}

/// Output of reassembly before the router's end is known.
#[derive(Clone, Debug)]
pub(super) enum Raw {
    Message(Received, ConnectionId, End, Box<[u8]>),
    Hole(ConnectionId, End, Hole),
    Closed(Time, ConnectionId, Close),
}

/// A second connection beside that of the session, until one of the two is accepted.
#[derive(Debug)]
pub(super) struct Collision {
    pub(super) newer: ConnectionId,
    pub(super) since: u64,
    pub(super) input: VecDeque<Raw>,
    /// Bytes of messages in `input`.
    pub(super) bytes: usize,
    /// Ends that sent a KEEPALIVE on the earlier connection and on the newer one.
    pub(super) keepalives: [[bool; 2]; 2],
}

/// Routes of a pair whose router is uncertain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Routes {
    /// Bytes of UPDATEs from the lower and from the higher address.
    pub(super) bytes: [u64; 2],
    /// Whether they sent messages.
    pub(super) sent: [bool; 2],
    pub(super) since: Option<u64>,
}

impl Routes {
    /// Counts a message. If both ends have the same address, nothing is compared.
    pub(super) fn count(&mut self, elapsed: u64, pair: &Pair, sender: IpAddr, message: &[u8]) {
        self.sent[usize::from(sender == pair.high)] = true;
        if message[18] == 2 && message.len() > bgp::HEADER + END_OF_RIB && pair.low != pair.high {
            self.bytes[usize::from(sender == pair.high)] += message.len() as u64;
            self.since.get_or_insert(elapsed);
        }
    }

    pub(super) fn of(&self, pair: &Pair, end: IpAddr) -> u64 {
        self.bytes[usize::from(end == pair.high)]
    }
}

#[derive(Debug)]
enum Held {
    /// A message of this many bytes.
    Message(Time, Sender, usize),
    Other(Event<'static>),
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) pair: Pair,
    /// The sides are assigned when `placed` is set.
    pub(super) peering: Peering,
    pub(super) placed: bool,
    /// Removed: the slot is free.
    pub(super) gone: bool,
    pub(super) raw: Vec<Raw>,
    /// Bytes in `raw` or in `kept`.
    pub(super) raw_bytes: usize,
    /// The router's end is guessed: all input, for a possible reversal.
    pub(super) kept: Option<Vec<Raw>>,
    /// Another connection may replace the session.
    pub(super) collision: Option<Box<Collision>>,
    pub(super) routes: Routes,
    pub(super) guessed: bool,
    pub(super) guess_reported: bool,
    /// Time since which the slot waits for a place or, later, for the encoding.
    pub(super) waiting: u64,
    pub(super) state: State,
    pub(super) live: Vec<ConnectionId>,
    pub(super) leader: Option<ConnectionId>,
    pub(super) sessions: u32,
    pub(super) fresh: bool,
    pub(super) inference: Inference,
    /// Encoding of the earlier sessions, of peer and router.
    pub(super) earlier: Option<[Negotiated; 2]>,
    pub(super) reading_reported: bool,
    pub(super) passed: u64,
    /// Number of decodable UPDATEs of the peer in this session, up to [`CHECKED_UPDATES`].
    pub(super) checked: u32,
    pub(super) hold: Option<Span>,
    pub(super) last: Time,
    pub(super) received: Received,
    held: Vec<Held>,
    held_bytes: Vec<u8>,
}

impl Slot {
    pub(super) fn new(pair: Pair, peering: Peering, received: Received) -> Self {
        Self {
            pair,
            peering,
            placed: false,
            gone: false,
            raw: Vec::new(),
            raw_bytes: 0,
            kept: None,
            collision: None,
            routes: Routes::default(),
            guessed: false,
            guess_reported: false,
            waiting: received.elapsed,
            state: State::Idle,
            live: Vec::new(),
            leader: None,
            sessions: 0,
            fresh: true,
            inference: Inference::new(None),
            earlier: None,
            reading_reported: false,
            passed: 0,
            checked: 0,
            hold: None,
            last: Time::ZERO,
            received,
            held: Vec::new(),
            held_bytes: Vec::new(),
        }
    }

    /// Time of the end of a session that was captured at `time`: bytes of the other direction
    /// may have been captured later. A much later last message has a wrong time.
    pub(super) fn end_time(&self, time: Time) -> Time {
        if self.last.since(time) <= DISORDER { time.max(self.last) } else { time }
    }

    /// Whether UPDATEs are checked: speakers may negotiate path identifiers and not send them.
    pub(super) fn has_path_ids(&self) -> bool {
        let Peering { from_peer, from_local, .. } = &self.peering;
        !from_peer.add_path.is_empty() || !from_local.add_path.is_empty()
    }

    /// Whether UPDATEs of the peer are still checked, although the OPENs determine their encoding.
    pub(super) const fn is_unchecked(&self) -> bool {
        self.checked < CHECKED_UPDATES
    }

    pub(super) const fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether the slot has no place yet, messages with an unknown encoding, or a collision.
    pub(super) const fn is_waiting(&self) -> bool {
        !self.placed || self.is_holding() || self.collision.is_some()
    }

    pub(super) fn holds(&self) -> (usize, usize) {
        let collision = self.collision.as_ref();
        let (events, bytes) = collision.map_or((0, 0), |one| (one.input.len(), one.bytes));
        let held = self.held.len() + self.raw.len();
        (held + events, self.held_bytes.len() + self.raw_bytes + bytes)
    }

    /// Delivers to the sink, or queues behind held messages.
    pub(super) fn message<S: Sink>(
        &mut self,
        sink: &mut S,
        time: Time,
        from: Sender,
        message: Message<'_>,
    ) {
        self.last = time;
        if self.is_holding() {
            self.hold(time, from, message);
        } else {
            sink.event(&self.peering, &Event::Message { time, from, message });
        }
    }

    pub(super) fn hold(&mut self, time: Time, from: Sender, message: Message<'_>) {
        let bytes = message.bytes();
        self.held_bytes.extend_from_slice(bytes);
        self.held.push(Held::Message(time, from, bytes.len()));
    }

    /// Delivers an item that is not a message to the sink, or queues it behind held messages.
    pub(super) fn tell<S: Sink>(&mut self, sink: &mut S, event: Event<'static>) {
        if self.is_holding() {
            self.held.push(Held::Other(event));
        } else {
            sink.event(&self.peering, &event);
        }
    }

    pub(super) fn change<S: Sink>(
        &mut self,
        sink: &mut S,
        time: Time,
        state: State,
        reason: Reason,
    ) {
        let old = std::mem::replace(&mut self.state, state);
        if old == state {
            return;
        }
        self.fresh |= state == State::Idle;
        self.last = time;
        self.tell(sink, Event::State { time, old, new: state, reason });
    }

    /// Reports the inferred encoding to the sink, which applies it from now on.
    pub(super) fn read<S: Sink>(&mut self, sink: &mut S, time: Time, otherwise: u64) {
        self.apply_inference();
        self.reading_reported = true;
        let confidence = self.inference.confidence();
        let reading = Reading { time, confidence, otherwise };
        sink.event(&self.peering, &Event::Reading(reading));
    }

    pub(super) fn apply_inference(&mut self) {
        self.peering.from_peer = self.inference.negotiated(Sender::Peer);
        self.peering.from_local = self.inference.negotiated(Sender::Local);
    }

    /// Decides open questions and delivers held messages.
    pub(super) fn release<S: Sink>(&mut self, sink: &mut S, time: Time) {
        if !self.is_holding() {
            return;
        }
        self.inference.assume();
        self.read(sink, time, 0);
        let bytes = std::mem::take(&mut self.held_bytes);
        let mut at = 0;
        for held in std::mem::take(&mut self.held) {
            let event = match held {
                Held::Message(time, from, length) => {
                    let Some(message) = Message::split(&bytes[at..]) else { continue };
                    at += length;
                    self.passed += u64::from(message.kind().0 == 2);
                    Event::Message { time, from, message }
                }
                Held::Other(event) => event,
            };
            sink.event(&self.peering, &event);
        }
    }

    /// Applies the OPENs when a session on `conn` starts, or when another OPEN is received. The
    /// remaining questions are inferred from the bytes.
    pub(super) fn agree(&mut self, conn: &Conn) {
        let (peer, local) = (conn.offer(Sender::Peer), conn.offer(Sender::Local));
        if let Some(offer) = peer {
            (self.peering.peer_as, self.peering.peer_id) = (offer.asn, offer.id);
        }
        if let Some(offer) = local {
            (self.peering.local_as, self.peering.local_id) = (offer.asn, offer.id);
        }
        self.hold = conn.hold().or(self.hold);
        self.inference = Inference::new(self.earlier);
        self.peering.certain = false;
        match (peer, local) {
            (Some(peer), Some(local)) => {
                self.peering.from_peer = peer.negotiate(local);
                self.peering.from_local = local.negotiate(peer);
                self.peering.certain = true;
                return;
            }
            (Some(offer), None) => self.inference.bound(Sender::Peer, offer),
            (None, Some(offer)) => self.inference.bound(Sender::Local, offer),
            (None, None) => {}
        }
        self.apply_inference();
    }

    /// Starts a session, whose encoding is probably that of the last one.
    pub(super) fn begin(&mut self) {
        if std::mem::take(&mut self.fresh) {
            self.peering.session = self.sessions;
            self.sessions += 1;
        }
        if let Some(reading) = self.reading() {
            self.earlier = Some(reading);
        }
        (self.reading_reported, self.passed, self.checked) = (false, 0, 0);
    }

    /// Encoding of messages of peer and router, if it is more than a prior.
    pub(super) fn reading(&self) -> Option<[Negotiated; 2]> {
        let known = self.peering.certain || self.reading_reported;
        known.then_some([self.peering.from_peer, self.peering.from_local]).or(self.earlier)
    }
}
