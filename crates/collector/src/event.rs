//! What the collector says about BGP: messages, states, gaps, by peering.

use std::net::IpAddr;

use base::Time;
use bgp::{Asn, Message, Negotiated};

use crate::MirrorId;

/// A peering: number in the order of first sight. It stays the same over all sessions of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeeringId(pub u32);

impl PeeringId {
    /// As an index into a table of peerings.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A router and its neighbour, and what is known of their present session. The archive takes the
/// router's view: the neighbour is the peer, the router is local.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peering {
    /// Which one it is.
    pub id: PeeringId,
    /// The stream of clones that shows it.
    pub mirror: MirrorId,
    /// The neighbour's address.
    pub peer: IpAddr,
    /// The neighbour's AS; [`Asn::ZERO`] while it is not known.
    pub peer_as: Asn,
    /// The neighbour's BGP identifier; 0 while it is not known.
    pub peer_id: u32,
    /// The router's address.
    pub local: IpAddr,
    /// The router's AS, from its OPEN or from configuration; [`Asn::ZERO`] if neither.
    pub local_as: Asn,
    /// The router's BGP identifier; 0 while it is not known.
    pub local_id: u32,
    /// How messages from the peer are to be read.
    pub from_peer: Negotiated,
    /// How messages from the router are to be read.
    pub from_local: Negotiated,
    /// Both OPENs were seen: `from_peer` and `from_local` are facts. Otherwise they are inferred.
    pub certain: bool,
    /// How many sessions there were before this one.
    pub session: u32,
}

impl Peering {
    /// Of two addresses, of which nothing else is known.
    pub(crate) fn new(id: PeeringId, mirror: MirrorId, peer: IpAddr, local: IpAddr) -> Self {
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

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The neighbour.
    Peer,
    /// The router.
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

/// Why a state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Messages that were seen say so.
    Seen,
    /// An UPDATE or KEEPALIVE in mid-stream says that the session is established.
    Inferred,
    /// A NOTIFICATION, with its code and subcode, and who sent it.
    Notification(Sender, u8, u8),
    /// One of two connections of the pair lost (RFC 4271 §6.8).
    Collision,
    /// The connection was closed without NOTIFICATION.
    Finished,
    /// The connection was reset.
    Reset,
    /// Nothing was heard for the hold time.
    HoldTimeExpired,
    /// A new connection took its place, and the end of the old one was not seen.
    Replaced,
    /// The collector forgot it, for want of memory.
    Forgotten,
}

/// What made a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GapCause {
    /// The router acknowledged the bytes: the mirror or the capture lost the clones.
    Mirror,
    /// Nobody knows whether the router had the bytes.
    Unknown,
    /// The capture itself says that it dropped packets, or a tunnel's sequence numbers do. No
    /// bytes of a stream are known to be missing yet.
    Capture,
    /// The capture began in the middle of the session.
    Start,
    /// Whole messages came that cannot be read: their bytes are archived all the same.
    Undecodable,
    /// The capture shows a few messages from the middle of a stream, and no certain message
    /// boundary: they are archived all the same.
    Unconfirmed,
    /// Which end is the router was guessed, since neither end sent an UPDATE: its messages are
    /// archived all the same.
    Guessed,
}

impl GapCause {
    /// Bytes were not archived that the capture ought to have shown.
    pub const fn is_loss(self) -> bool {
        matches!(self, Self::Mirror | Self::Unknown | Self::Capture)
    }

    /// Messages are archived in spite of it.
    pub const fn is_archived(self) -> bool {
        matches!(self, Self::Undecodable | Self::Unconfirmed | Self::Guessed)
    }
}

/// Something that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Last time at which all was well.
    pub since: Time,
    /// First time at which all was well again.
    pub until: Time,
    /// Whose bytes they are.
    pub from: Sender,
    /// Why.
    pub cause: GapCause,
    /// Bytes of the stream (or packets of a capture) that were never seen.
    pub missing: u64,
    /// Bytes that were seen and belong to no whole message; where messages are archived all the
    /// same, theirs.
    pub skipped: u64,
}

/// One thing that happened at a peering.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A message went over the wire.
    Message {
        /// When its last byte did.
        time: Time,
        /// Who sent it.
        from: Sender,
        /// All of it.
        message: Message<'a>,
    },
    /// The session is in another state.
    State {
        /// When.
        time: Time,
        /// What it was.
        old: State,
        /// What it is.
        new: State,
        /// Why.
        reason: Reason,
    },
    /// Something is missing.
    Gap(Gap),
    /// How the session's messages are to be read was inferred, or what had been inferred was
    /// refuted and is now otherwise: `peering` says how. Only where an OPEN was not seen.
    Reading(Reading),
}

/// How sure an inference is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Confidence {
    /// The bytes said nothing in time: what nearly all speakers do was taken.
    Assumed,
    /// The bytes fit other readings too, but less plausibly; or an earlier session was so.
    Likely,
    /// The bytes fit no other reading.
    Proved,
}

/// That an inference was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When.
    pub time: Time,
    /// How sure its weakest part is.
    pub confidence: Confidence,
    /// UPDATEs of this session that went on under another reading: 0 for the first inference.
    pub otherwise: u64,
}

/// Who wants to know: the archive, the routes, the live feed, the account of integrity. Calls come
/// in the order of time at each peering; a message is read by `peering` as it is at that call.
pub trait Sink {
    /// Something happened at `peering`.
    fn event(&mut self, peering: &Peering, event: &Event<'_>);

    /// The collector has forgotten `peering`, for want of memory: nobody is told of that number
    /// again, and whoever keeps something of it can let it go. Its session had ended before.
    fn forget_peering(&mut self, peering: &Peering) {
        let _ = peering;
    }

    /// Which end of `peering` is the router was guessed wrong: it is forgotten, and its events come
    /// again for a peering with the ends exchanged.
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
