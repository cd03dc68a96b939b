//! Events of the collector: messages, states and gaps, by peering.

use std::net::IpAddr;

use base::Time;
use bgp::{Asn, Message, Negotiated};

use crate::MirrorId;

/// Number of a peering, in the order of first sight; it is the same for all sessions of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeeringId(pub u32);

impl PeeringId {
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A router and its neighbour, with the parameters of their current session. The archive has the
/// router's view: the neighbour is the peer, the router is local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peering {
    pub id: PeeringId,
    pub mirror: MirrorId,
    pub peer: IpAddr,
    /// The neighbour's AS; [`Asn::ZERO`] if unknown.
    pub peer_as: Asn,
    /// The neighbour's BGP identifier; 0 if unknown.
    pub peer_id: u32,
    pub local: IpAddr,
    /// The router's AS, from its OPEN or from configuration; [`Asn::ZERO`] if neither.
    pub local_as: Asn,
    /// The router's BGP identifier; 0 if unknown.
    pub local_id: u32,
    pub from_peer: Negotiated,
    pub from_local: Negotiated,
    /// Both OPENs were captured: `from_peer` and `from_local` are certain. Otherwise
    /// they are inferred.
    pub certain: bool,
    pub session: u32,
}

impl Peering {
    /// A peering between two addresses, with all other parameters unknown.
    pub fn new(id: PeeringId, mirror: MirrorId, peer: IpAddr, local: IpAddr) -> Self {
        Self {
            id,
            mirror,
            peer,
            peer_as: Asn::ZERO,
            peer_id: 0,
            local,
            local_as: Asn::ZERO,
            local_id: 0,
            from_peer: Negotiated::default(),
            from_local: Negotiated::default(),
            certain: false,
            session: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    Peer,
    Local,
}

/// States of the finite state machine (RFC 4271 §8.2.2), numbered as in MRT (RFC 6396 §4.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are the RFC's")]
pub enum State {
    Idle = 1,
    Connect = 2,
    Active = 3,
    OpenSent = 4,
    OpenConfirm = 5,
    Established = 6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    Seen,
    /// An UPDATE or KEEPALIVE in the middle of a stream shows an established session.
    Inferred,
    /// A NOTIFICATION: sender, code and subcode.
    Notification(Sender, u8, u8),
    /// The connection lost a collision (RFC 4271 §6.8).
    Collision,
    Finished,
    Reset,
    HoldTimeExpired,
    /// A new connection replaced this one, whose end was not captured.
    Replaced,
    Forgotten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GapCause {
    /// The router acknowledged the bytes: the mirror or the capture lost the clones.
    Mirror,
    Unknown,
    /// The capture or the sequence numbers of a tunnel report lost packets. No bytes of a stream
    /// are known to be missing yet.
    Capture,
    Start,
    /// Undecodable messages, whose bytes are archived.
    Undecodable,
    /// A few messages from the middle of a stream, without a certain message boundary;
    /// they are archived.
    Unconfirmed,
    /// The router's end was guessed, and other evidence contradicted the guess, or none confirmed
    /// it; the messages are archived.
    Guessed,
    /// The capture cut packets off after a number of bytes.
    Cut,
    /// The capture ended within a message.
    End,
}

impl GapCause {
    /// Bytes are missing in the archive that the capture should have contained.
    pub const fn is_loss(self) -> bool {
        matches!(self, Self::Mirror | Self::Unknown | Self::Capture | Self::Cut)
    }

    pub const fn is_archived(self) -> bool {
        matches!(self, Self::Undecodable | Self::Unconfirmed | Self::Guessed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub since: Time,
    pub until: Time,
    pub from: Sender,
    pub cause: GapCause,
    /// Missing bytes of the stream (or packets of a capture).
    pub missing: u64,
    /// Captured bytes outside of whole messages, or the bytes of messages that are archived in
    /// spite of the gap.
    pub skipped: u64,
}

#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    Message {
        time: Time,
        from: Sender,
        message: Message<'a>,
    },
    State {
        time: Time,
        old: State,
        new: State,
        reason: Reason,
    },
    Gap(Gap),
    /// The encoding of the session's messages was inferred, or an inferred encoding was refuted and
    /// replaced; `peering` has the new one. Only if an OPEN was not captured.
    Reading(Reading),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Confidence {
    /// No evidence before the timeout: the most common encoding was assumed.
    Assumed,
    /// The bytes also fit other encodings, but less plausibly; or an earlier session
    /// had this encoding.
    Likely,
    Proved,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub time: Time,
    pub confidence: Confidence,
    /// Number of UPDATEs of this session that were delivered under the replaced encoding; 0 for
    /// the first inference.
    pub otherwise: u64,
}

/// Receives events: the archive, the routes, the live feed, the integrity account. Events of
/// a peering are in the order of time; `peering` has the encoding of a message at the time
/// of the call.
pub trait Sink {
    fn event(&mut self, peering: &Peering, event: &Event<'_>);

    /// The collector removed `peering` to save memory. Its number is not used again and its session
    /// has ended, so sinks can free its state.
    fn forget_peering(&mut self, peering: &Peering) {
        let _ = peering;
    }

    /// Removes the events of `peering`, whose router's end was guessed wrong: they are repeated for
    /// a peering with exchanged ends.
    fn reverse_peering(&mut self, peering: &Peering) {
        self.forget_peering(peering);
    }
}

impl<A: Sink, B: Sink> Sink for (A, B) {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        self.0.event(peering, event);
        self.1.event(peering, event);
    }

    fn forget_peering(&mut self, peering: &Peering) {
        self.0.forget_peering(peering);
        self.1.forget_peering(peering);
    }
}

impl<S: Sink> Sink for &mut S {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        (**self).event(peering, event);
    }

    fn forget_peering(&mut self, peering: &Peering) {
        (**self).forget_peering(peering);
    }
}

impl<S: Sink> Sink for Option<S> {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        if let Some(sink) = self {
            sink.event(peering, event);
        }
    }

    fn forget_peering(&mut self, peering: &Peering) {
        if let Some(sink) = self {
            sink.forget_peering(peering);
        }
    }
}
