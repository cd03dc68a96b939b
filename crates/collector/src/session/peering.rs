//! A pair of speakers: its present session, and what is held back until it can be read.

use std::net::IpAddr;

use base::{Span, Time};
use bgp::{Message, Negotiated};

use super::connection::{Conn, Heard};
use super::inference::Inference;
use super::perspective::Routes;
use crate::{
    Close, ConnectionId, End, Event, Hole, MirrorId, Peering, Reading, Reason, Sender, Sink, State,
};

/// Two addresses, the lower one first, as one mirror shows them.
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

/// What reassembly said before it was known which end is the router.
#[derive(Clone, Debug)]
pub(super) enum Raw {
    Message(Heard, ConnectionId, End, Box<[u8]>),
    Hole(ConnectionId, End, Hole),
    Closed(Time, ConnectionId, Close),
}

/// What waits for the decision how to read it.
#[derive(Debug)]
enum Held {
    /// A message: as many bytes.
    Message(Time, Sender, usize),
    Other(Event<'static>),
}

/// A pair and its session.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) pair: Pair,
    /// Its two sides are assigned once `placed`.
    pub(super) peering: Peering,
    pub(super) placed: bool,
    /// Forgotten: the slot is free.
    pub(super) gone: bool,
    pub(super) raw: Vec<Raw>,
    /// Bytes in `raw` or in `kept`.
    pub(super) raw_bytes: usize,
    /// Which end is the router was guessed: all that came, to be read again if that is wrong.
    pub(super) kept: Option<Vec<Raw>>,
    pub(super) routes: Routes,
    /// Which end is the router was guessed.
    pub(super) guessed: bool,
    /// It was reported that a guess leaves routes out.
    pub(super) guess_reported: bool,
    /// When waiting began: for a place or, later, for a reading.
    pub(super) waiting: u64,
    /// The state that the sink was told last.
    pub(super) state: State,
    /// Connections whose session is not over.
    pub(super) live: Vec<ConnectionId>,
    /// The connection whose OPENs count.
    pub(super) leader: Option<ConnectionId>,
    /// Sessions so far.
    pub(super) sessions: u32,
    /// The next connection begins a session.
    pub(super) fresh: bool,
    pub(super) inference: Inference,
    /// How the sessions before this one were read, peer and router.
    pub(super) earlier: Option<[Negotiated; 2]>,
    /// The sink was told how this session is read.
    pub(super) told: bool,
    /// UPDATEs that went on under the present reading.
    pub(super) passed: u64,
    /// The last hold time that an OPEN told.
    pub(super) hold: Option<Span>,
    /// Time of the last event.
    pub(super) last: Time,
    pub(super) heard: Heard,
    held: Vec<Held>,
    held_bytes: Vec<u8>,
}

impl Slot {
    pub(super) fn new(pair: Pair, peering: Peering, heard: Heard) -> Self {
        Self {
            pair,
            peering,
            placed: false,
            gone: false,
            raw: Vec::new(),
            raw_bytes: 0,
            kept: None,
            routes: Routes::default(),
            guessed: false,
            guess_reported: false,
            waiting: heard.elapsed,
            state: State::Idle,
            live: Vec::new(),
            leader: None,
            sessions: 0,
            fresh: true,
            inference: Inference::new(None),
            earlier: None,
            told: false,
            passed: 0,
            hold: None,
            last: Time::ZERO,
            heard,
            held: Vec::new(),
            held_bytes: Vec::new(),
        }
    }

    pub(super) const fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether it has no place yet, or messages that cannot be read yet.
    pub(super) const fn is_waiting(&self) -> bool {
        !self.placed || self.is_holding()
    }

    /// Events and bytes that wait.
    pub(super) const fn holds(&self) -> (usize, usize) {
        (self.held.len() + self.raw.len(), self.held_bytes.len() + self.raw_bytes)
    }

    /// Tells the sink, or lines up behind what is held.
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

    /// Tells the sink something that is no message, or lets it line up.
    pub(super) fn tell<S: Sink>(&mut self, sink: &mut S, event: Event<'static>) {
        if self.is_holding() {
            self.held.push(Held::Other(event));
        } else {
            sink.event(&self.peering, &event);
        }
    }

    /// Moves on to `state`, if it is another one.
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

    /// The sink reads on as inferred, and is told so.
    pub(super) fn read<S: Sink>(&mut self, sink: &mut S, time: Time, otherwise: u64) {
        self.apply_inference();
        self.told = true;
        let confidence = self.inference.confidence();
        let reading = Reading { time, confidence, otherwise };
        sink.event(&self.peering, &Event::Reading(reading));
    }

    pub(super) fn apply_inference(&mut self) {
        self.peering.from_peer = self.inference.negotiated(Sender::Peer);
        self.peering.from_local = self.inference.negotiated(Sender::Local);
    }

    /// Decides what is open and lets go what is held.
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

    /// A session on `conn` begins, or more is known of it: what its OPENs say becomes fact, and
    /// the rest is asked of its bytes.
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

    /// A session begins: how the last one was read is how this one is likely to be.
    pub(super) fn begin(&mut self) {
        if std::mem::take(&mut self.fresh) {
            self.peering.session = self.sessions;
            self.sessions += 1;
        }
        if let Some(reading) = self.reading() {
            self.earlier = Some(reading);
        }
        (self.told, self.passed) = (false, 0);
    }

    /// How messages of peer and router are read, if that is more than a prior.
    pub(super) fn reading(&self) -> Option<[Negotiated; 2]> {
        let known = self.peering.certain || self.told;
        known.then_some([self.peering.from_peer, self.peering.from_local]).or(self.earlier)
    }
}
