//! State of one TCP connection and of the session on it.

use base::{Span, Time};
use bgp::capability::Capability;
use bgp::negotiated::Families;
use bgp::open::Open;
use bgp::{Asn, Negotiated};

use crate::{Connection, End, Hole, Reason, Sender, State};

/// Marker for the absence of a slot.
pub(super) const NOWHERE: u32 = u32::MAX;

/// Parameters of an OPEN that sessions need.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    body: Box<[u8]>,
    pub(super) asn: Asn,
    pub(super) id: u32,
    pub(super) hold: Span,
    pub(super) four_octet: bool,
    pub(super) extended: bool,
    pub(super) send: Families,
    pub(super) receive: Families,
}

impl Offer {
    /// Parses the body of an OPEN; `None` if it is malformed.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let open = Open::parse(body).ok()?;
        let has = |wanted: fn(&Capability<'_>) -> bool| open.capabilities().any(|one| wanted(&one));
        let (receive, send) = open.add_path();
        Some(Self {
            body: body.into(),
            asn: open.asn(),
            id: open.id,
            hold: Span::from_secs(open.hold_time.into()),
            four_octet: has(|one| matches!(one, Capability::FourOctetAs(_))),
            extended: has(|one| matches!(one, Capability::ExtendedMessage)),
            send,
            receive,
        })
    }

    /// Encoding of messages to the sender of `other`.
    pub(super) fn negotiate(&self, other: &Self) -> Negotiated {
        match (Open::parse(&self.body), Open::parse(&other.body)) {
            (Ok(sender), Ok(receiver)) => Negotiated::between(&sender, &receiver),
            _ => Negotiated::default(),
        }
    }
}

/// Time of the last received message: by the capture's clock, and in elapsed nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub(super) time: Time,
    pub(super) elapsed: u64,
}

#[derive(Debug)]
pub(super) struct Conn {
    pub(super) received: Received,
    /// Slot of the peering; [`NOWHERE`] before the first message.
    pub(super) slot: u32,
    pub(super) mirror: u32,
    /// Fast path: an established session with a certain encoding and without held messages.
    pub(super) fast: bool,
    /// The router's end; undefined before the slot is placed.
    pub(super) router: End,
    pub(super) connection: Connection,
    pub(super) opened: Time,
    /// State that this connection has reached; [`State::Idle`] before and after.
    pub(super) state: State,
    pub(super) admitted: bool,
    pub(super) dead: bool,
    /// A NOTIFICATION was sent: both ends process no further message (RFC 4271 §6).
    pub(super) notified: bool,
    pub(super) open: [bool; 2],
    pub(super) offers: [Option<Box<Offer>>; 2],
    /// Whether a message was received, by end.
    pub(super) spoke: [bool; 2],
    /// Bytes missing before the first message, by end.
    pub(super) early: [Option<Hole>; 2],
}

impl Conn {
    pub(super) const fn new(opened: Time, elapsed: u64, connection: Connection) -> Self {
        Self {
            received: Received { time: opened, elapsed },
            slot: NOWHERE,
            mirror: 0,
            fast: false,
            router: End::High,
            connection,
            opened,
            state: State::Idle,
            admitted: false,
            dead: false,
            notified: false,
            open: [false; 2],
            offers: [const { None }; 2],
            spoke: [false; 2],
            early: [const { None }; 2],
        }
    }

    pub(super) fn begin_again(&mut self) {
        let (received, slot, mirror) = (self.received, self.slot, self.mirror);
        *self = Self { received, slot, mirror, ..Self::new(self.opened, 0, self.connection) };
    }

    /// Exchanges peer and router; earlier messages are not repeated.
    pub(super) fn exchange_ends(&mut self) {
        self.open.swap(0, 1);
        self.offers.swap(0, 1);
        (self.admitted, self.fast, self.state) = (false, false, State::Idle);
    }

    pub(super) fn sender(&self, end: End) -> Sender {
        if end == self.router { Sender::Local } else { Sender::Peer }
    }

    /// Minimum hold time of the captured OPENs. `None` without an OPEN; zero disables the hold
    /// timer (RFC 4271 §4.2).
    pub(super) fn hold(&self) -> Option<Span> {
        self.offers.iter().flatten().map(|offer| offer.hold).min()
    }

    pub(super) fn offer(&self, sender: Sender) -> Option<&Offer> {
        self.offers[index(sender)].as_deref()
    }

    /// Remembers a gap before the first message of `end`; it is reported when the peering is known.
    pub(super) fn remember(&mut self, end: End, hole: &Hole) {
        let early = self.early[end.index()].get_or_insert(*hole);
        if early != hole {
            early.time = hole.time;
            early.missing += hole.missing;
            early.skipped += hole.skipped;
            early.unconfirmed += hole.unconfirmed;
            early.acknowledged &= hole.acknowledged;
            early.limit = early.limit.filter(|limit| Some(*limit) == hole.limit);
        }
    }
}

/// The state that a message of `kind` proves: before the message (`true`) or after it.
pub(super) fn proves(conn: &Conn, from: Sender, kind: u8) -> Option<(State, Reason, bool)> {
    let met = conn.open.contains(&true);
    let reason = if met { Reason::Seen } else { Reason::Inferred };
    let peer_spoke = conn.spoke[conn.router.other().index()];
    match kind {
        // OPEN: the router waits for the OPEN of its peer, or both were sent.
        1 if conn.state > State::OpenConfirm => None,
        1 if conn.open[index(other(from))] => Some((State::OpenConfirm, Reason::Seen, false)),
        1 => Some((State::OpenSent, Reason::Seen, false)),
        // KEEPALIVE: the router waits for that of the peer. The router's own KEEPALIVE shows
        // that it received the peer's OPEN, and is the only evidence if the peer's messages
        // are not captured.
        4 if !met => Some((State::Established, reason, true)),
        4 if from == Sender::Peer || !peer_spoke => Some((State::Established, reason, false)),
        4 => Some((State::OpenConfirm, reason, false)),
        // UPDATE and ROUTE-REFRESH occur only in established sessions.
        2 | 5 => Some((State::Established, reason, true)),
        _ => None,
    }
}

pub(super) const fn other(sender: Sender) -> Sender {
    match sender {
        Sender::Peer => Sender::Local,
        Sender::Local => Sender::Peer,
    }
}

pub(super) const fn index(sender: Sender) -> usize {
    sender as usize
}
