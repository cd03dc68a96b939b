//! Reads BMP from routers as events.

use std::collections::HashMap;

use base::Time;
use bgp::bmp::{Body, Down, Packet, PeerHeader, PeerUp, Reader, Step, information};
use bgp::mrt::Damage;
use bgp::open::Open;
use bgp::{Message, MessageType, Negotiated};

use super::{Counts, learn, peering};
use crate::{Event, Gap, GapCause, MirrorId, Peering, PeeringId, Reason, Sender, Sink, State};

/// State machine event: the router closes a silent session (RFC 4271 §8.1.3).
const HOLD_TIMER_EXPIRES: u16 = 10;
/// Type, distinguisher and address of the peer, which together identify a peering.
type Key = (u8, u64, [u8; 16]);

#[derive(Clone, Copy, Debug)]
struct Entry {
    peering: Peering,
    is_up: bool,
    seen: Time,
}

/// Reads the stream of one router.
///
/// Only the tables with the routes on the wire produce events: the Adj-RIB-In before the import
/// policy and the Adj-RIB-Out after the export policy (RFC 8671); other tables and mirrored
/// messages are counted. A Peer Up becomes both OPENs and a state change to Established, since BMP
/// reports no states in between. Packets state whether AS numbers have two octets. When the
/// connection ends, sessions that were up get a gap, because their end was not reported.
#[derive(Debug)]
pub struct Input {
    mirror: MirrorId,
    reader: Reader,
    first: u32,
    entries: Vec<Entry>,
    by_key: HashMap<Key, usize>,
    name: String,
    last: Time,
    counts: Counts,
}

impl Input {
    /// Events of this input belong to `mirror`; its peerings are numbered from `first` on.
    pub fn new(mirror: MirrorId, first: PeeringId) -> Self {
        Self {
            mirror,
            reader: Reader::new(),
            first: first.0,
            entries: Vec::new(),
            by_key: HashMap::new(),
            name: String::new(),
            last: Time::ZERO,
            counts: Counts::default(),
        }
    }

    /// Reads all whole packets in `bytes`. Returns the number of bytes read, and the number of
    /// bytes required from there on to continue; 0 if `end` states that the connection ended.
    /// Another connection may follow.
    pub fn read(&mut self, bytes: &[u8], end: bool, sink: &mut impl Sink) -> (usize, usize) {
        let mut at = 0;
        loop {
            match self.reader.next(&bytes[at..], end) {
                Step::Packet(packet) => {
                    at += packet.bytes.len();
                    self.packet(&packet, sink);
                }
                Step::Damaged(Damage { skipped, .. }) => {
                    at += skipped;
                    self.counts.damaged += skipped as u64;
                }
                Step::Need(need) => return (at, need),
                Step::End => {
                    self.ended(sink);
                    return (at, 0);
                }
            }
        }
    }

    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The router's name (`sysName`); empty if it is unknown.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All peerings, in the order of their numbers.
    pub fn peerings(&self) -> impl ExactSizeIterator<Item = &Peering> {
        self.entries.iter().map(|entry| &entry.peering)
    }

    pub fn packet(&mut self, packet: &Packet<'_>, sink: &mut impl Sink) {
        self.counts.records += 1;
        match packet.parse() {
            Ok(Body::RouteMonitoring(peer, update)) => {
                if self.is_on_wire(&peer) {
                    self.update(&peer, update, sink);
                }
            }
            Ok(Body::PeerUp(peer, up)) => {
                if self.is_on_wire(&peer) {
                    self.peer_up(&peer, &up, sink);
                }
            }
            Ok(Body::PeerDown(peer, down)) => {
                if self.is_on_wire(&peer) {
                    self.peer_down(&peer, &down, sink);
                }
            }
            Ok(Body::Statistics(_, statistics)) => {
                self.counts.statistics += statistics.iter().flatten().count() as u64;
            }
            Ok(Body::Initiation(tlvs)) => {
                let name = tlvs.first(information::SYS_NAME).unwrap_or_default();
                self.name = String::from_utf8_lossy(name).into_owned();
            }
            Ok(_) => self.counts.other += 1,
            Err(_) => self.counts.undecodable += 1,
        }
    }

    /// Whether the packet describes a table with the routes on the wire. Peer Up and Peer Down may
    /// omit the policy flag (RFC 7854 §4.2).
    fn is_on_wire(&mut self, peer: &PeerHeader) -> bool {
        let on_wire = !peer.is_loc_rib() && peer.is_adj_rib_out() == peer.is_post_policy();
        self.counts.other += u64::from(!on_wire);
        on_wire
    }

    fn entry(&mut self, peer: &PeerHeader) -> (&mut Entry, Time) {
        let time = peer.time().unwrap_or(self.last);
        self.last = self.last.max(time);
        let key = (peer.kind, peer.distinguisher, peer.octets);
        let next = self.entries.len();
        let at = *self.by_key.entry(key).or_insert(next);
        if at == next {
            let id = self.first + at as u32;
            let mut peering = peering(self.mirror, id, peer.address(), peer.asn);
            peering.peer_id = peer.id;
            self.entries.push(Entry { peering, is_up: false, seen: time });
        }
        let entry = &mut self.entries[at];
        entry.seen = time;
        (entry, time)
    }

    fn update(&mut self, peer: &PeerHeader, update: &[u8], sink: &mut impl Sink) {
        let from = if peer.is_adj_rib_out() { Sender::Local } else { Sender::Peer };
        let (entry, time) = self.entry(peer);
        let reading = match from {
            Sender::Peer => &mut entry.peering.from_peer,
            Sender::Local => &mut entry.peering.from_local,
        };
        reading.four_octet_as = !peer.is_two_octet_as();
        let Some(message) = Message::split(update) else {
            let (since, skipped) = (time, update.len() as u64);
            let cause = GapCause::Undecodable;
            let gap = Gap { since, until: time, from, cause, missing: 0, skipped };
            sink.event(&entry.peering, &Event::Gap(gap));
            self.counts.undecodable += 1;
            return;
        };
        sink.event(&entry.peering, &Event::Message { time, from, message });
        self.counts.messages += 1;
    }

    fn peer_up(&mut self, peer: &PeerHeader, up: &PeerUp<'_>, sink: &mut impl Sink) {
        let (entry, time) = self.entry(peer);
        let was_up = std::mem::replace(&mut entry.is_up, true);
        let peering = &mut entry.peering;
        if was_up {
            let (old, new, reason) = (State::Established, State::Idle, Reason::Replaced);
            sink.event(peering, &Event::State { time, old, new, reason });
            peering.session += 1;
        }
        peering.local = up.local;
        peering.peer_id = peer.id;
        let opens = [(Sender::Local, up.sent), (Sender::Peer, up.received)];
        let parsed = opens.map(|(_, bytes)| {
            Message::split(bytes).and_then(|message| Open::parse(message.body()).ok())
        });
        peering.certain = false;
        if let [Some(sent), Some(received)] = parsed {
            peering.from_peer = Negotiated::between(&received, &sent);
            peering.from_local = Negotiated::between(&sent, &received);
            peering.certain = true;
        }
        let mut messages = 0;
        for (from, bytes) in opens {
            let Some(message) = Message::split(bytes) else { continue };
            learn(peering, from, message);
            sink.event(peering, &Event::Message { time, from, message });
            messages += 1;
        }
        let (old, new, reason) = (State::Idle, State::Established, Reason::Seen);
        sink.event(peering, &Event::State { time, old, new, reason });
        self.counts.messages += messages;
        self.counts.states += 1 + u64::from(was_up);
    }

    fn peer_down(&mut self, peer: &PeerHeader, down: &Down<'_>, sink: &mut impl Sink) {
        let (entry, time) = self.entry(peer);
        let was_up = std::mem::take(&mut entry.is_up);
        let peering = &mut entry.peering;
        let notification = match down {
            Down::LocalNotification(bytes) => Some((Sender::Local, *bytes)),
            Down::RemoteNotification(bytes) => Some((Sender::Peer, *bytes)),
            _ => None,
        };
        let mut messages = 0;
        let mut reason = match down {
            Down::LocalEvent(HOLD_TIMER_EXPIRES) => Reason::HoldTimeExpired,
            Down::Deconfigured => Reason::Forgotten,
            _ => Reason::Finished,
        };
        if let Some((from, bytes)) = notification
            && let Some(message) = Message::split(bytes)
            && message.kind() == MessageType::NOTIFICATION
        {
            sink.event(peering, &Event::Message { time, from, message });
            messages = 1;
            let (code, subcode) = down.notification().unwrap_or_default();
            reason = Reason::Notification(from, code, subcode);
        }
        let old = if was_up { State::Established } else { State::OpenSent };
        sink.event(peering, &Event::State { time, old, new: State::Idle, reason });
        peering.session += 1;
        self.counts.messages += messages;
        self.counts.states += 1;
    }

    fn ended(&mut self, sink: &mut impl Sink) {
        self.reader = Reader::new();
        for entry in self.entries.iter_mut().filter(|entry| entry.is_up) {
            entry.is_up = false;
            let gap = Gap {
                since: entry.seen,
                until: self.last,
                from: Sender::Peer,
                cause: GapCause::Capture,
                missing: 0,
                skipped: 0,
            };
            sink.event(&entry.peering, &Event::Gap(gap));
        }
    }
}

#[cfg(test)]
mod tests;
