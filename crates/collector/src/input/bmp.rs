//! What routers say by BMP as events.

use std::collections::HashMap;

use base::Time;
use bgp::bmp::{Body, Down, Packet, PeerHeader, PeerUp, Reader, Step, Tlvs, information};
use bgp::mrt::Damage;
use bgp::open::Open;
use bgp::{Message, MessageType, Negotiated};

use super::{Counts, learn, peering};
use crate::{Event, Gap, GapCause, MirrorId, Peering, PeeringId, Reason, Sender, Sink, State};

/// Event of the state machine by which a router closes a silent session (RFC 4271 §8.1.3).
const HOLD_TIMER_EXPIRES: u16 = 10;
/// Kinds of parts of a Route Mirroring packet (RFC 7854 §4.7).
const MIRRORED_MESSAGE: u16 = 0;
const MIRRORED_INFORMATION: u16 = 1;
/// Information: some messages were not mirrored.
const MESSAGES_LOST: [u8; 2] = [0, 1];

/// Tables of a router (RFC 7854 §2, RFC 8671 §1, RFC 9069 §1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum View {
    /// Routes as the peer sent them.
    PrePolicyIn,
    /// Those of them that the import policy took, as it changed them.
    PostPolicyIn,
    /// Routes before the export policy.
    PrePolicyOut,
    /// Routes as they were sent to the peer.
    PostPolicyOut,
    /// The router's own choice.
    LocRib,
}

impl View {
    /// Of a packet about `peer`.
    pub const fn of(peer: &PeerHeader) -> Self {
        match (peer.is_adj_rib_out(), peer.is_post_policy()) {
            _ if peer.is_loc_rib() => Self::LocRib,
            (false, false) => Self::PrePolicyIn,
            (false, true) => Self::PostPolicyIn,
            (true, false) => Self::PrePolicyOut,
            (true, true) => Self::PostPolicyOut,
        }
    }

    /// Who sends what the table holds.
    const fn sender(self) -> Sender {
        match self {
            Self::PrePolicyOut | Self::PostPolicyOut => Sender::Local,
            _ => Sender::Peer,
        }
    }

    /// What went over the wire: these tables are one peering, all others are one each.
    const fn is_wire(self) -> bool {
        matches!(self, Self::PrePolicyIn | Self::PostPolicyOut)
    }
}

/// What makes a peering: type, distinguisher and address of the peer, and the table if it is not
/// what went over the wire.
type Key = (u8, u64, [u8; 16], Option<View>);

/// A peering and whether its session is up.
#[derive(Clone, Copy, Debug)]
struct Entry {
    peering: Peering,
    is_up: bool,
    seen: Time,
}

/// Reads the stream of one router.
///
/// Routes of the tables that [`Input::views`] name are told, by default those that went over the
/// wire; others are counted. A Peer Up becomes both OPENs and a change of state to Established at
/// once, since a router tells nothing of the states between; packets say for themselves whether
/// AS numbers have two octets. When the connection ends, sessions that were up leave a gap: nobody
/// knows what became of them.
#[derive(Debug)]
pub struct Input {
    /// Tables whose routes are told.
    pub views: Vec<View>,
    /// Mirrored messages are told too; routers that mirror and monitor tell them twice.
    pub mirrored: bool,
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
    /// Events of this input are told to come from `mirror`, and its peerings are numbered from
    /// `first` on.
    pub fn new(mirror: MirrorId, first: PeeringId) -> Self {
        Self {
            views: vec![View::PrePolicyIn, View::PostPolicyOut],
            mirrored: false,
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

    /// Reads as many whole packets as `bytes` hold. Returns how many bytes these took, and how
    /// many there must be from there on to go on; 0 where `end` says that the connection ended,
    /// and another may follow.
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

    /// What was read until now.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The router's name (`sysName`); empty if it did not say.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The peerings that were met, in the order of their numbers.
    pub fn peerings(&self) -> impl ExactSizeIterator<Item = &Peering> {
        self.entries.iter().map(|entry| &entry.peering)
    }

    /// Reads one packet.
    pub fn packet(&mut self, packet: &Packet<'_>, sink: &mut impl Sink) {
        self.counts.records += 1;
        match packet.parse() {
            Ok(Body::RouteMonitoring(peer, update)) => {
                if self.is_wanted(&peer) {
                    self.update(&peer, update, sink);
                }
            }
            Ok(Body::PeerUp(peer, up)) => {
                if self.is_wanted(&peer) {
                    self.peer_up(&peer, &up, sink);
                }
            }
            Ok(Body::PeerDown(peer, down)) => {
                if self.is_wanted(&peer) {
                    self.peer_down(&peer, &down, sink);
                }
            }
            Ok(Body::RouteMirroring(peer, parts)) => self.mirrored(&peer, parts, sink),
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

    fn is_wanted(&mut self, peer: &PeerHeader) -> bool {
        let view = View::of(peer);
        // Peer Up and Down leave the policy flag out, by RFC 7854 §4.2 or by habit.
        let wanted = self.views.contains(&view)
            || view == View::PrePolicyIn && self.views.contains(&View::PostPolicyIn);
        self.counts.other += u64::from(!wanted);
        wanted
    }

    fn entry(&mut self, peer: &PeerHeader) -> (&mut Entry, Time) {
        let time = peer.time().unwrap_or(self.last);
        self.last = self.last.max(time);
        let view = View::of(peer);
        let table = (!view.is_wire()).then_some(view);
        let key = (peer.kind, peer.distinguisher, peer.octets, table);
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
        let from = View::of(peer).sender();
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

    fn mirrored(&mut self, peer: &PeerHeader, parts: Tlvs<'_>, sink: &mut impl Sink) {
        if !self.mirrored {
            self.counts.other += 1;
            return;
        }
        let (entry, time) = self.entry(peer);
        let (entry, from) = (*entry, Sender::Peer);
        for part in parts.iter() {
            let Ok(part) = part else {
                self.counts.undecodable += 1;
                return;
            };
            match (part.kind, Message::split(part.value)) {
                (MIRRORED_MESSAGE, Some(message)) => {
                    self.counts.messages += 1;
                    sink.event(&entry.peering, &Event::Message { time, from, message });
                }
                (MIRRORED_INFORMATION, _) if part.value == MESSAGES_LOST => {
                    let (cause, since) = (GapCause::Capture, time);
                    let gap = Gap { since, until: time, from, cause, missing: 0, skipped: 0 };
                    sink.event(&entry.peering, &Event::Gap(gap));
                }
                _ => self.counts.other += 1,
            }
        }
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
