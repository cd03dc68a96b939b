//! Exports events as BMP: to a station, the collector appears as a router that reports
//! its own sessions.

mod open;

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use base::Time;
use bgp::bmp::{Down, PeerHeader, PeerUp, Tlv, Tlvs, information, peer_flags, peer_type, write};
use bgp::{Asn, Message, MessageType};

use crate::{Event, Gap, GapCause, Peering, PeeringId, Reason, Sender, Sink, State};

/// Types of statistics, from the experimental range of the registry, because no registered
/// type describes them.
pub mod statistic {
    /// Gaps (32-bit counter).
    pub const GAPS: u16 = 65531;
    /// Missing bytes of streams (64-bit gauge).
    pub const MISSING: u16 = 65532;
    /// Captured bytes that belong to no whole message (64-bit gauge).
    pub const SKIPPED: u16 = 65533;
}

/// State machine events in Peer Down (RFC 4271 §8.1.3, §8.1.5).
const HOLD_TIMER_EXPIRES: u16 = 10;
const OPEN_COLLISION_DUMP: u16 = 23;
/// TLV of a Termination: the reason (RFC 7854 §4.5), and its value for an administrative close.
const TERMINATION_REASON: u16 = 1;
const ADMINISTRATIVELY_CLOSED: [u8; 2] = [0, 0];
/// Strings in Peer Up that mark a reconstructed OPEN.
const NOT_CAPTURED: [&str; 2] = [
    "received OPEN was not captured: inferred from messages",
    "sent OPEN was not captured: inferred from messages",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub name: String,
    pub description: String,
    /// Also export the messages of the router, as post-policy Adj-RIB-Out (RFC 8671).
    pub local_messages: bool,
    /// Bytes retained for slow stations; temporarily up to twice as many.
    pub limit: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "netarium".to_owned(),
            description: "netarium passive route collector".to_owned(),
            local_messages: false,
            limit: 16 << 20,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(u64);

/// The station is too slow: its next unread bytes were discarded. Its connection must end; a new
/// connection starts with the sessions that are up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    pub missing: u64,
}

#[derive(Debug, Default)]
struct Peer {
    peering: Option<Peering>,
    up: Option<Time>,
    /// Captured OPENs of the peer and of the router.
    opens: [Option<Vec<u8>>; 2],
    notification: Option<(Sender, Vec<u8>)>,
    /// Distinguishes peers with equal addresses at different routers; 0 for the first.
    distinguisher: u64,
    gaps: u32,
    missing: u64,
    skipped: u64,
}

/// One stream for all stations: the sessions that are up, and the latest packets.
///
/// A new station receives an individual [`Exporter::greeting`], then the shared stream from that
/// position on ([`Exporter::unread`]). UPDATEs are sent as captured, with a flag where their AS
/// numbers have two octets. Peer Up contains the captured OPENs; a missing one is reconstructed
/// from the known parameters (AS, identifier, encoding of messages), which a string in the packet
/// states. TCP ports are 0: unknown. A peer with the same address as an earlier one of another
/// router is a local instance with a distinguisher.
#[derive(Debug)]
pub struct Exporter {
    settings: Settings,
    peers: Vec<Peer>,
    addresses: HashSet<IpAddr>,
    bytes: Vec<u8>,
    /// Stream position of the first byte in `bytes`.
    start: u64,
}

impl Exporter {
    pub fn new(settings: Settings) -> Self {
        Self { settings, peers: Vec::new(), addresses: HashSet::new(), bytes: Vec::new(), start: 0 }
    }

    /// Appends the first packets for a station: Initiation, and a Peer Up for each session that is
    /// up. To add their tables, call [`Exporter::table`] before the next event.
    pub fn greeting(&self, out: &mut Vec<u8>) -> bgp::Result<Cursor> {
        self.initiation(out)?;
        for peer in &self.peers {
            if let (Some(peering), Some(time)) = (&peer.peering, peer.up) {
                peer.write_up(out, peering, time);
            }
        }
        Ok(Cursor(self.end()))
    }

    /// As [`Self::greeting`] for a station that receives the whole stream: only the Initiation.
    /// `None` if the start of the stream is discarded.
    pub fn beginning(&self, out: &mut Vec<u8>) -> Option<Cursor> {
        if self.start > 0 {
            return None;
        }
        self.initiation(out).ok().map(|()| Cursor(0))
    }

    fn initiation(&self, out: &mut Vec<u8>) -> bgp::Result<()> {
        let name = Tlv { kind: information::SYS_NAME, value: self.settings.name.as_bytes() };
        let value = self.settings.description.as_bytes();
        write::initiation(out, &[Tlv { kind: information::SYS_DESCR, value }, name])
    }

    /// The sessions that are up: those of [`Self::greeting`].
    pub fn up_sessions(&self) -> HashSet<PeeringId> {
        let up = self.peers.iter().filter(|peer| peer.up.is_some());
        up.filter_map(|peer| peer.peering.as_ref()).map(|peering| peering.id).collect()
    }

    /// Number of unread bytes.
    pub fn backlog(&self, cursor: Cursor) -> u64 {
        self.end().saturating_sub(cursor.0)
    }

    /// Maximum backlog at which no byte is discarded.
    pub const fn max_backlog(&self) -> u64 {
        self.settings.limit as u64
    }

    /// Appends one UPDATE of a peering's table, with four-octet AS numbers, and with path
    /// identifiers if the session has them. The caller must also pass End-of-RIB markers. Does
    /// nothing for sessions that are not up.
    pub fn table(&self, out: &mut Vec<u8>, id: PeeringId, time: Time, update: &[u8]) {
        let Some(peer) = self.peers.get(id.index()) else { return };
        let (Some(peering), Some(_)) = (&peer.peering, peer.up) else { return };
        let mut header = peer.header(peering, time, Sender::Peer);
        header.flags &= !peer_flags::TWO_OCTET_AS;
        write::route_monitoring(out, &header, update);
    }

    /// The sessions of a table dump's `peers` that are up. Several peers with equal addresses and
    /// AS correspond in their order.
    pub fn sessions(&self, peers: &[Peering]) -> Vec<Option<PeeringId>> {
        let mut known: HashMap<(IpAddr, Asn), VecDeque<Option<PeeringId>>> = HashMap::new();
        for peer in &self.peers {
            if let Some(peering) = &peer.peering {
                let same = known.entry((peering.peer, peering.peer_as)).or_default();
                same.push_back(peer.up.map(|_| peering.id));
            }
        }
        let session = |peer: &Peering| known.get_mut(&(peer.peer, peer.peer_as))?.pop_front()?;
        peers.iter().map(session).collect()
    }

    /// Unread bytes of a station. The caller sends some and passes their number to
    /// [`Cursor::advance`].
    pub fn unread(&self, cursor: Cursor) -> Result<&[u8], Overrun> {
        match cursor.0.checked_sub(self.start) {
            Some(read) => Ok(self.bytes.get(read as usize..).unwrap_or_default()),
            None => Err(Overrun { missing: self.start - cursor.0 }),
        }
    }

    /// Appends the last packet of a connection that is closed intentionally. Call it
    /// only between packets.
    pub fn termination(out: &mut Vec<u8>) -> bgp::Result<()> {
        let value = &ADMINISTRATIVELY_CLOSED;
        write::termination(out, &[Tlv { kind: TERMINATION_REASON, value }])
    }

    /// Reports the gaps of each session that is up. Call it periodically.
    pub fn statistics(&mut self, time: Time) -> bgp::Result<()> {
        for peer in &self.peers {
            let (Some(peering), Some(_)) = (&peer.peering, peer.up) else { continue };
            let header = peer.header(peering, time, Sender::Peer);
            let all = [
                Tlv { kind: statistic::GAPS, value: &peer.gaps.to_be_bytes() },
                Tlv { kind: statistic::MISSING, value: &peer.missing.to_be_bytes() },
                Tlv { kind: statistic::SKIPPED, value: &peer.skipped.to_be_bytes() },
            ];
            write::statistics(&mut self.bytes, &header, &all)?;
        }
        self.forget();
        Ok(())
    }

    /// Position of the next packet in the stream.
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn forget(&mut self) {
        if self.bytes.len() > self.settings.limit.saturating_mul(2) {
            let old = self.bytes.len() - self.settings.limit;
            self.bytes.drain(..old);
            self.start += old as u64;
        }
    }

    /// Index of a peering, whose parameters are updated.
    fn peer(&mut self, peering: &Peering) -> usize {
        let at = peering.id.index();
        if at >= self.peers.len() {
            self.peers.resize_with(at + 1, Peer::default);
        }
        if self.peers[at].peering.is_none() && !self.addresses.insert(peering.peer) {
            self.peers[at].distinguisher = u64::from(peering.id.0) + 1;
        }
        self.peers[at].peering = Some(*peering);
        at
    }

    fn up(&mut self, at: usize, time: Time) {
        let peer = &mut self.peers[at];
        if peer.up.is_none()
            && let Some(peering) = peer.peering
        {
            peer.up = Some(time);
            peer.write_up(&mut self.bytes, &peering, time);
        }
    }

    fn down(&mut self, at: usize, time: Time, reason: Reason) {
        let peer = &mut self.peers[at];
        if peer.up.take().is_some()
            && let Some(peering) = &peer.peering
        {
            let header = peer.header(peering, time, Sender::Peer);
            write::peer_down(&mut self.bytes, &header, &peer.reason(reason));
        }
        peer.opens = [None, None];
        peer.notification = None;
    }

    #[inline]
    fn message(&mut self, at: usize, time: Time, from: Sender, message: Message<'_>) {
        match message.kind() {
            MessageType::UPDATE => {
                if from == Sender::Local && !self.settings.local_messages {
                    return;
                }
                self.up(at, time);
                let peer = &self.peers[at];
                let Some(peering) = &peer.peering else { return };
                let header = peer.header(peering, time, from);
                write::route_monitoring(&mut self.bytes, &header, message.bytes());
            }
            MessageType::OPEN => {
                self.peers[at].opens[which(from)] = Some(message.bytes().to_vec());
            }
            MessageType::NOTIFICATION => {
                self.peers[at].notification = Some((from, message.bytes().to_vec()));
            }
            _ => {}
        }
    }
}

impl Sink for Exporter {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let at = self.peer(peering);
        match *event {
            Event::Message { time, from, message } => self.message(at, time, from, message),
            Event::State { time, new: State::Established, .. } => self.up(at, time),
            Event::State { time, old, new, reason } => {
                if old == State::Established || new == State::Idle {
                    self.down(at, time, reason);
                }
            }
            Event::Gap(Gap { cause, missing, skipped, .. })
                if !matches!(cause, GapCause::Guessed | GapCause::Unconfirmed) =>
            {
                let peer = &mut self.peers[at];
                peer.gaps = peer.gaps.saturating_add(1);
                peer.missing += missing;
                peer.skipped += skipped;
            }
            Event::Gap(_) | Event::Reading(_) => {}
        }
        self.forget();
    }
}

impl Cursor {
    /// The start of the stream.
    pub const START: Self = Self(0);

    pub const fn advance(&mut self, sent: usize) {
        self.0 += sent as u64;
    }
}

const fn which(from: Sender) -> usize {
    match from {
        Sender::Peer => 0,
        Sender::Local => 1,
    }
}

impl Peer {
    #[inline]
    fn header(&self, peering: &Peering, time: Time, from: Sender) -> PeerHeader {
        let mut header = PeerHeader::global(time, peering.peer, peering.peer_as, peering.peer_id);
        if self.distinguisher != 0 {
            header.kind = peer_type::LOCAL;
            header.distinguisher = self.distinguisher;
        }
        let reading = match from {
            Sender::Peer => peering.from_peer,
            Sender::Local => {
                header.flags |= peer_flags::ADJ_RIB_OUT | peer_flags::POST_POLICY;
                peering.from_local
            }
        };
        if !reading.four_octet_as {
            header.flags |= peer_flags::TWO_OCTET_AS;
        }
        header
    }

    fn write_up(&self, out: &mut Vec<u8>, peering: &Peering, time: Time) {
        let mut said = Vec::new();
        let opens = [Sender::Peer, Sender::Local].map(|from| {
            let captured = self.opens[which(from)].clone();
            captured.unwrap_or_else(|| {
                let text = NOT_CAPTURED[which(from)];
                said.extend(information::STRING.to_be_bytes());
                said.extend((text.len() as u16).to_be_bytes());
                said.extend_from_slice(text.as_bytes());
                open::inferred(peering, from, self.opens[which(from) ^ 1].as_deref())
            })
        });
        let up = PeerUp {
            local: peering.local,
            local_port: 0,
            remote_port: 0,
            sent: &opens[1],
            received: &opens[0],
            information: Tlvs::new(&said),
        };
        let header = self.header(peering, time, Sender::Peer);
        write::peer_up(out, &header, &up);
    }

    fn reason(&self, reason: Reason) -> Down<'_> {
        match (reason, &self.notification) {
            (Reason::Notification(Sender::Local, ..), Some((Sender::Local, bytes))) => {
                Down::LocalNotification(bytes)
            }
            (Reason::Notification(Sender::Peer, ..), Some((Sender::Peer, bytes))) => {
                Down::RemoteNotification(bytes)
            }
            (Reason::HoldTimeExpired, _) => Down::LocalEvent(HOLD_TIMER_EXPIRES),
            (Reason::Collision, _) => Down::LocalEvent(OPEN_COLLISION_DUMP),
            (Reason::Forgotten, _) => Down::Deconfigured,
            (Reason::Notification(Sender::Local, ..) | Reason::Replaced, _) => Down::LocalEvent(0),
            _ => Down::RemoteClosed,
        }
    }
}

#[cfg(test)]
mod tests;
