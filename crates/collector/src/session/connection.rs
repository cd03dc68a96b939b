//! One TCP connection, as the session on it is known.

use base::{Span, Time};
use bgp::capability::Capability;
use bgp::negotiated::Families;
use bgp::open::Open;
use bgp::{Asn, Negotiated};

use super::inference::index;
use crate::{Connection, End, Hole, Reason, Sender, State};

/// No slot.
pub(super) const NOWHERE: u32 = u32::MAX;

/// What an OPEN says, as far as sessions need it.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    body: Box<[u8]>,
    pub(super) asn: Asn,
    pub(super) id: u32,
    pub(super) hold: Span,
    pub(super) four_octet: bool,
    pub(super) extended: bool,
    /// Families whose path identifiers it would send.
    pub(super) send: Families,
    /// Families whose path identifiers it would take.
    pub(super) receive: Families,
}

impl Offer {
    /// Of the body of an OPEN; `None` if it cannot be read.
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

    /// How its sender writes to the sender of `other`.
    pub(super) fn negotiate(&self, other: &Self) -> Negotiated {
        match (Open::parse(&self.body), Open::parse(&other.body)) {
            (Ok(sender), Ok(receiver)) => Negotiated::between(&sender, &receiver),
            _ => Negotiated::default(),
        }
    }
}

/// When a message was last heard: by the capture's clock, and in elapsed nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) time: Time,
    pub(super) elapsed: u64,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) heard: Heard,
    /// The peering's slot; [`NOWHERE`] before its first message.
    pub(super) slot: u32,
    pub(super) mirror: u32,
    /// Messages of an Established session whose reading is a fact, and nothing is held.
    pub(super) fast: bool,
    /// The router's end. Means nothing while the slot is not placed.
    pub(super) router: End,
    pub(super) connection: Connection,
    pub(super) opened: Time,
    /// As far as this connection has brought its session; [`State::Idle`] before and after.
    pub(super) state: State,
    /// Its peering's machine knows of it.
    pub(super) admitted: bool,
    /// The session on it is over.
    pub(super) dead: bool,
    /// By sender: an OPEN was seen, and what it says.
    pub(super) open: [bool; 2],
    pub(super) offers: [Option<Box<Offer>>; 2],
    /// By end: a message was seen.
    pub(super) spoke: [bool; 2],
    /// By end: what is missing before the first message.
    pub(super) early: [Option<Hole>; 2],
}

impl Conn {
    pub(super) const fn new(opened: Time, elapsed: u64, connection: Connection) -> Self {
        Self {
            heard: Heard { time: opened, elapsed },
            slot: NOWHERE,
            mirror: 0,
            fast: false,
            router: End::High,
            connection,
            opened,
            state: State::Idle,
            admitted: false,
            dead: false,
            open: [false; 2],
            offers: [const { None }; 2],
            spoke: [false; 2],
            early: [const { None }; 2],
        }
    }

    /// Nothing of it was read yet.
    pub(super) fn begin_again(&mut self) {
        let (heard, slot, mirror) = (self.heard, self.slot, self.mirror);
        *self = Self { heard, slot, mirror, ..Self::new(self.opened, 0, self.connection) };
    }

    pub(super) fn sender(&self, end: End) -> Sender {
        if end == self.router { Sender::Local } else { Sender::Peer }
    }

    /// The hold time, as far as OPENs tell: the least that was seen bounds what was agreed.
    /// `None` if no OPEN was seen; zero if there is none (RFC 4271 §4.2).
    pub(super) fn hold(&self) -> Option<Span> {
        self.offers.iter().flatten().map(|offer| offer.hold).min()
    }

    pub(super) fn offer(&self, sender: Sender) -> Option<&Offer> {
        self.offers[index(sender)].as_deref()
    }

    /// A hole before the first message of `end`: told when there is a peering to tell it of.
    pub(super) fn remember(&mut self, end: End, hole: &Hole) {
        let early = self.early[end.index()].get_or_insert(*hole);
        if early != hole {
            early.time = hole.time;
            early.missing += hole.missing;
            early.skipped += hole.skipped;
            early.unconfirmed += hole.unconfirmed;
            early.acknowledged &= hole.acknowledged;
        }
    }
}

/// The state that a message of `kind` proves, before (`true`) or after the message itself.
pub(super) fn proves(conn: &Conn, from: Sender, kind: u8) -> Option<(State, Reason, bool)> {
    let met = conn.open.contains(&true);
    let reason = if met { Reason::Seen } else { Reason::Inferred };
    let peer_spoke = conn.spoke[conn.router.other().index()];
    match kind {
        // OPEN: the router waits for its peer's answer, or has both.
        1 if conn.state > State::OpenConfirm => None,
        1 if conn.open[index(other(from))] => Some((State::OpenConfirm, Reason::Seen, false)),
        1 => Some((State::OpenSent, Reason::Seen, false)),
        // KEEPALIVE: the peer's is what the router waits for. The router's own one says that it
        // has the peer's OPEN, and is all there is if the peer is never heard.
        4 if !met => Some((State::Established, reason, true)),
        4 if from == Sender::Peer || !peer_spoke => Some((State::Established, reason, false)),
        4 => Some((State::OpenConfirm, reason, false)),
        // UPDATE and ROUTE-REFRESH are of established sessions only.
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
