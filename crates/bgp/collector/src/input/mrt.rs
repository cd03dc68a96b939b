//! Reads archive records as events.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use base::Time;
use bgp::mrt::{
    Body, Damage, Form, MessageRecord, Old, Peer, PeerIndexTable, Reader, Record, Rib, Session,
    StateChange, Step, announcement, kind,
};
use bgp::negotiated::Families;
use bgp::{Asn, Family, HEADER, MARKER, Message, MessageType, Negotiated};

use super::{Counts, learn, peering};
use crate::{Event, Gap, GapCause, MirrorId, Peering, PeeringId, Reason, Sender, Sink, State};

/// Maximum number of peerings with the same neighbour address. Records of further ones are not
/// attributed, so that the time per record does not grow with the number of records.
const MAX_PEERINGS_OF_ADDRESS: usize = 4_096;
/// Maximum number of sessions whose peerings are found without a search.
const MAX_KNOWN_SESSIONS: usize = 1 << 16;

/// Reads archives. Several files may follow each other, with the same peerings.
///
/// The subtype of a record states the encoding of its message, which is therefore certain. Peerings
/// differ in the peer's address or AS, in the interface index, which is the mirror, or in the
/// router's address, where records contain these. A table contains only address, AS and BGP
/// identifier. Several peers that are equal in these differ in the mirror, if it is stated
/// ([`Input::set_table_interfaces`]). Otherwise they are matched, in the order of the table, to the
/// peerings of the updates in the order of first sight. Routes of tables become UPDATEs with one
/// prefix each ([`announcement`]), at the time of their record; no router sent these messages.
/// State changes show which sessions ended.
#[derive(Debug)]
pub struct Input {
    mirror: MirrorId,
    reader: Reader,
    first: u32,
    peerings: Vec<Peering>,
    by_peer: HashMap<IpAddr, Vec<usize>>,
    /// Peerings by the session of records, so that not every record requires a search.
    by_session: HashMap<Session, usize>,
    #[cfg(test)]
    searched: std::cell::Cell<u64>,
    /// The last record's session, which is usually that of the next record.
    last: Option<(Session, usize)>,
    /// Peerings by index in the last peer index table.
    table: Vec<Option<usize>>,
    /// Interface indices of the peers of the next peer index table, if known.
    table_interfaces: Vec<u16>,
    scratch: Vec<u8>,
    /// Why the session of a peering ends, from the NOTIFICATION before its change of state.
    notifications: HashMap<usize, Reason>,
    counts: Counts,
}

impl Input {
    /// `mirror` is that of records without an interface index; an index is added to its number.
    /// Peerings are numbered from `first` on.
    pub fn new(mirror: MirrorId, first: PeeringId) -> Self {
        Self {
            mirror,
            reader: Reader::new(),
            first: first.0,
            peerings: Vec::new(),
            by_peer: HashMap::new(),
            by_session: HashMap::new(),
            #[cfg(test)]
            searched: std::cell::Cell::default(),
            last: None,
            table: Vec::new(),
            table_interfaces: Vec::new(),
            scratch: Vec::new(),
            notifications: HashMap::new(),
            counts: Counts::default(),
        }
    }

    /// Reads all whole records in `bytes`. Returns the number of bytes read, and the number of
    /// bytes required from there on to continue; 0 if `end` states that the file ends. Another
    /// file may follow.
    pub fn read(&mut self, bytes: &[u8], end: bool, sink: &mut impl Sink) -> (usize, usize) {
        let mut at = 0;
        loop {
            match self.reader.next(&bytes[at..], end) {
                Step::Record(record) => {
                    at += record.bytes.len();
                    self.record(&record, sink);
                }
                Step::Damaged(Damage { skipped, .. }) => {
                    at += skipped;
                    self.counts.damaged += skipped as u64;
                }
                Step::Need(need) => return (at, need),
                Step::End => {
                    self.reader = Reader::new();
                    return (at, 0);
                }
            }
        }
    }

    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// All peerings, in the order of their numbers.
    pub fn peerings(&self) -> &[Peering] {
        &self.peerings
    }

    /// Sets the interface index of each peer of the next peer index table, which cannot contain it;
    /// 0 if unknown.
    pub fn set_table_interfaces(&mut self, interfaces: Vec<u16>) {
        self.table_interfaces = interfaces;
    }

    pub fn record(&mut self, record: &Record<'_>, sink: &mut impl Sink) {
        self.counts.records += 1;
        let time = record.time;
        match record.parse() {
            Ok(Body::Message(message)) => self.message(time, &message, sink),
            Ok(Body::StateChange(change)) => self.state_change(time, &change, sink),
            Ok(Body::PeerIndexTable(table)) => self.peer_index_table(&table),
            Ok(Body::Rib(rib)) => self.rib(time, &rib, sink),
            Ok(Body::TableDump(dump)) => {
                let (family, nlri) = of_prefix(dump.prefix);
                let Some(at) = self.table_peer(dump.peer, dump.peer_as, None) else { return };
                self.peerings[at].from_peer = reading(dump.four_octet_as);
                let nlri = &nlri[..];
                self.route(time, at, &Route { family, nlri, ..Route::of(dump.attributes) }, sink);
            }
            Ok(Body::Entry(entry)) => {
                let Some(at) = self.at(&entry.session, false) else { return };
                let family = Family { afi: entry.afi, safi: entry.safi };
                self.peerings[at].from_peer = reading(false);
                let (nlri, next_hop) = (entry.nlri, Some(entry.next_hop));
                let route = Route { family, nlri, next_hop, ..Route::of(entry.attributes) };
                self.route(time, at, &route, sink);
            }
            Ok(Body::Old(old)) => self.old(time, &old, sink),
            Ok(_) => self.counts.other += 1,
            Err(_) => self.counts.undecodable += 1,
        }
    }

    #[inline]
    fn message(&mut self, time: Time, record: &MessageRecord<'_>, sink: &mut impl Sink) {
        let Some(at) = self.at(&record.session, record.form.four_octet_as) else { return };
        let Form { local, .. } = record.form;
        let from = if local { Sender::Local } else { Sender::Peer };
        let peering = &mut self.peerings[at];
        match from {
            Sender::Peer => peering.from_peer = record.form.negotiated(),
            Sender::Local => peering.from_local = record.form.negotiated(),
        }
        let Some(message) = record.message() else {
            self.counts.undecodable += 1;
            sink.event(peering, &undecodable(time, from, record.bytes.len()));
            return;
        };
        self.counts.messages += 1;
        learn(peering, from, message);
        match (message.kind(), message.body()) {
            (MessageType::NOTIFICATION, &[code, subcode, ..]) => {
                // The first one ends the session.
                let reason = Reason::Notification(from, code, subcode);
                self.notifications.entry(at).or_insert(reason);
            }
            (MessageType::OPEN, _) => {
                self.notifications.remove(&at);
            }
            _ => {}
        }
        sink.event(peering, &Event::Message { time, from, message });
    }

    fn state_change(&mut self, time: Time, change: &StateChange, sink: &mut impl Sink) {
        let Some(at) = self.at(&change.session, change.four_octet_as) else { return };
        self.state(time, at, change.old, change.new, sink);
    }

    fn state(&mut self, time: Time, at: usize, old: u16, new: u16, sink: &mut impl Sink) {
        let (Some(old), Some(new)) = (state(old), state(new)) else {
            self.counts.undecodable += 1;
            return;
        };
        if old == new {
            self.counts.other += 1;
            return;
        }
        self.counts.states += 1;
        let notification = self.notifications.remove(&at);
        let reason = notification.filter(|_| new < old).unwrap_or(Reason::Seen);
        let peering = &mut self.peerings[at];
        sink.event(peering, &Event::State { time, old, new, reason });
        if old == State::Established {
            peering.session += 1;
        }
    }

    fn peer_index_table(&mut self, table: &PeerIndexTable<'_>) {
        self.table.clear();
        let interfaces = std::mem::take(&mut self.table_interfaces);
        let mut interfaces = interfaces.into_iter().chain(std::iter::repeat(0));
        let mut unnamed = HashSet::new();
        let mut listed = HashSet::new();
        for peer in table.peers() {
            let Ok(Peer { address, asn, id, .. }) = peer else {
                self.counts.undecodable += 1;
                return;
            };
            let mirror = self.mirror_of(interfaces.next().unwrap_or(0));
            let at = self.table_peer(address, asn, Some(Listed { id, mirror, before: &listed }));
            self.table.push(at);
            let Some(at) = at else { continue };
            listed.insert(at);
            let peering = &mut self.peerings[at];
            peering.peer_id = id;
            if peering.mirror == self.mirror {
                peering.mirror = mirror;
            }
            let is_unnamed = peering.mirror == self.mirror;
            self.counts.ambiguous += u64::from(is_unnamed && !unnamed.insert((address, asn, id)));
        }
    }

    fn mirror_of(&self, interface: u16) -> MirrorId {
        MirrorId(self.mirror.0 + u32::from(interface))
    }

    fn rib(&mut self, time: Time, rib: &Rib<'_>, sink: &mut impl Sink) {
        for entry in rib.entries() {
            let Ok(entry) = entry else {
                self.counts.undecodable += 1;
                return;
            };
            let Some(at) = self.table.get(usize::from(entry.peer)).copied().flatten() else {
                self.counts.unattributed += 1;
                continue;
            };
            let peering = &mut self.peerings[at];
            peering.from_peer = reading(true);
            if entry.path_id.is_some() {
                peering.from_peer.add_path = Families::NONE.with(rib.family);
            }
            let (family, path_id, nlri) = (rib.family, entry.path_id, rib.nlri);
            let route = Route { family, path_id, nlri, ..Route::of(entry.attributes) };
            self.route(time, at, &route, sink);
        }
    }

    fn route(&mut self, time: Time, at: usize, route: &Route<'_>, sink: &mut impl Sink) {
        let Route { family, path_id, nlri, attributes, next_hop } = *route;
        self.scratch.clear();
        let written = announcement(&mut self.scratch, family, path_id, nlri, attributes, next_hop);
        let message = written.ok().and_then(|()| Message::split(&self.scratch));
        let Some(message) = message else {
            self.counts.undecodable += 1;
            return;
        };
        self.counts.routes += 1;
        let from = Sender::Peer;
        sink.event(&self.peerings[at], &Event::Message { time, from, message });
    }

    fn old(&mut self, time: Time, old: &Old<'_>, sink: &mut impl Sink) {
        match *old {
            Old::Message { subtype, peer_as, peer, local_as, local, body } => {
                // Subtype 2 repeats messages that the writer preferred.
                let kind = Old::message_type(subtype).filter(|_| subtype != 2);
                let (Some(kind), Ok(length)) = (kind, u16::try_from(body.len() + HEADER)) else {
                    self.counts.other += 1;
                    return;
                };
                let mut bytes = std::mem::take(&mut self.scratch);
                bytes.clear();
                bytes.extend_from_slice(&MARKER);
                bytes.extend_from_slice(&length.to_be_bytes());
                bytes.push(kind.0);
                bytes.extend_from_slice(body);
                let session = Session::new(peer_as, local_as, peer, local);
                let form = Form::default();
                self.message(time, &MessageRecord { session, form, bytes: &bytes }, sink);
                self.scratch = bytes;
            }
            Old::StateChange { peer_as, peer, old, new } => {
                let Some(at) = self.table_peer(peer, peer_as, None) else { return };
                self.state(time, at, old, new, sink);
            }
            Old::Sync { .. } => self.counts.other += 1,
        }
    }

    /// The peering of a peer whose records do not contain the router.
    fn table_peer(
        &mut self,
        address: IpAddr,
        asn: Asn,
        listed: Option<Listed<'_>>,
    ) -> Option<usize> {
        let same = self
            .peerings_of(address)
            .filter(|at| same_as(self.peerings[*at].peer_as, asn))
            .filter(|at| listed.is_none_or(|listed| !listed.before.contains(at)))
            .filter(|at| {
                let mirror = self.peerings[*at].mirror;
                listed.is_none_or(|listed| self.is_same_mirror(mirror, listed.mirror))
            })
            .max_by_key(|at| {
                let peering = &self.peerings[*at];
                let same_mirror = listed.is_some_and(|listed| listed.mirror == peering.mirror);
                let same_id = listed.is_some_and(|listed| listed.id == peering.peer_id);
                (peering.peer_as == asn, same_mirror, same_id, Reverse(*at))
            });
        let at = same.or_else(|| self.insert(address, asn))?;
        refine(&mut self.peerings[at].peer_as, asn);
        Some(at)
    }

    #[inline]
    fn at(&mut self, session: &Session, four_octet_as: bool) -> Option<usize> {
        match self.last {
            Some((last, at)) if last == *session => Some(at),
            _ => self.find(session, four_octet_as),
        }
    }

    #[cold]
    fn find(&mut self, session: &Session, four_octet_as: bool) -> Option<usize> {
        if session.peer.is_unspecified() {
            // BIRD and Zebra omit the address once the connection is closed.
            let mut same = (0..self.peerings.len())
                .filter(|at| same_as(self.peerings[*at].peer_as, session.peer_as));
            let only =
                same.next().filter(|_| session.peer_as != Asn::ZERO && same.next().is_none());
            self.counts.unattributed += u64::from(only.is_none());
            return only;
        }
        let at = match self.by_session.get(session) {
            Some(at) => *at,
            None => self.search(session)?,
        };
        let mirror = self.mirror_of(session.interface);
        let peering = &mut self.peerings[at];
        if peering.mirror == self.mirror {
            peering.mirror = mirror;
        }
        if !session.local.is_unspecified() {
            peering.local = session.local;
        }
        refine(&mut peering.peer_as, session.peer_as);
        if four_octet_as || !is_known(peering.local_as) {
            refine(&mut peering.local_as, session.local_as);
        }
        self.last = Some((*session, at));
        Some(at)
    }

    /// Finds the peering of a new session.
    fn search(&mut self, session: &Session) -> Option<usize> {
        let mirror = self.mirror_of(session.interface);
        let same = self
            .peerings_of(session.peer)
            .filter(|at| {
                let peering = &self.peerings[*at];
                let local = peering.local == session.local
                    || peering.local.is_unspecified()
                    || session.local.is_unspecified();
                let mirror = self.is_same_mirror(peering.mirror, mirror);
                local && mirror && same_as(peering.peer_as, session.peer_as)
            })
            .max_by_key(|at| {
                let peering = &self.peerings[*at];
                let same = (peering.peer_as == session.peer_as, peering.local == session.local);
                (peering.mirror == mirror, same, Reverse(*at))
            });
        let at = same.or_else(|| self.insert(session.peer, session.peer_as))?;
        if self.by_session.len() == MAX_KNOWN_SESSIONS {
            self.by_session.clear();
        }
        self.by_session.insert(*session, at);
        Some(at)
    }

    fn peerings_of(&self, address: IpAddr) -> impl Iterator<Item = usize> {
        let known = self.by_peer.get(&address).map_or(&[][..], |known| known);
        #[cfg(test)]
        self.searched.update(|searched| searched + known.len() as u64);
        known.iter().copied()
    }

    /// Whether two mirrors are equal, or one of them is unknown.
    fn is_same_mirror(&self, one: MirrorId, other: MirrorId) -> bool {
        one == other || one == self.mirror || other == self.mirror
    }

    /// Adds a peering, unless the limit per address is reached.
    fn insert(&mut self, address: IpAddr, asn: Asn) -> Option<usize> {
        let at = self.peerings.len();
        let same = self.by_peer.entry(address).or_default();
        if same.len() == MAX_PEERINGS_OF_ADDRESS {
            self.counts.unattributed += 1;
            return None;
        }
        same.push(at);
        let mut peering = peering(self.mirror, self.first + at as u32, address, asn);
        peering.certain = true;
        self.peerings.push(peering);
        Some(at)
    }
}

/// Other parameters of a peer in a peer index table than its address and AS.
#[derive(Clone, Copy)]
struct Listed<'a> {
    id: u32,
    mirror: MirrorId,
    before: &'a HashSet<usize>,
}

struct Route<'a> {
    family: Family,
    path_id: Option<u32>,
    nlri: &'a [u8],
    attributes: &'a [u8],
    next_hop: Option<&'a [u8]>,
}

impl<'a> Route<'a> {
    const fn of(attributes: &'a [u8]) -> Self {
        let family = Family::IPV4_UNICAST;
        Self { family, path_id: None, nlri: &[0], attributes, next_hop: None }
    }
}

/// Encoding of a table record.
const fn reading(four_octet_as: bool) -> Negotiated {
    Negotiated { four_octet_as, extended_message: true, add_path: Families::NONE }
}

/// Compares AS numbers. A record with two-octet AS numbers contains [`Asn::TRANS`], or sometimes 0,
/// for larger ones.
fn same_as(known: Asn, stated: Asn) -> bool {
    known == stated
        || !is_known(known)
        || !is_known(stated)
        || known == Asn::TRANS && stated.0 > 0xffff
        || stated == Asn::TRANS && known.0 > 0xffff
}

fn is_known(asn: Asn) -> bool {
    asn != Asn::ZERO
}

fn refine(known: &mut Asn, stated: Asn) {
    if !is_known(*known) || *known == Asn::TRANS && stated.0 > 0xffff {
        *known = stated;
    }
}

/// Quagga's states Clearing (7) and Deleted (8) are Idle in the RFC.
const fn state(number: u16) -> Option<State> {
    Some(match number {
        1 | 7 | 8 => State::Idle,
        2 => State::Connect,
        3 => State::Active,
        4 => State::OpenSent,
        5 => State::OpenConfirm,
        6 => State::Established,
        _ => return None,
    })
}

fn undecodable(time: Time, from: Sender, length: usize) -> Event<'static> {
    let cause = GapCause::Undecodable;
    let skipped = length as u64;
    Event::Gap(Gap { since: time, until: time, from, cause, missing: 0, skipped })
}

fn of_prefix(prefix: bgp::Prefix) -> (Family, Vec<u8>) {
    let mut nlri = vec![prefix.length()];
    let octets = usize::from(prefix.length()).div_ceil(8);
    match prefix.address() {
        IpAddr::V4(address) => {
            nlri.extend_from_slice(&address.octets()[..octets]);
            (Family::IPV4_UNICAST, nlri)
        }
        IpAddr::V6(address) => {
            nlri.extend_from_slice(&address.octets()[..octets]);
            (Family::IPV6_UNICAST, nlri)
        }
    }
}

/// Whether bytes start like an archive: with a record header of a type that contains BGP.
pub fn is_archive(bytes: &[u8]) -> bool {
    let Some(&[_, _, _, _, high, low, 0, subtype, ..]) = bytes.first_chunk::<12>() else {
        return false;
    };
    let kinds = [
        kind::BGP,
        kind::BGP4PLUS,
        kind::TABLE_DUMP,
        kind::TABLE_DUMP_V2,
        kind::BGP4MP,
        kind::BGP4MP_ET,
    ];
    subtype <= 12 && kinds.contains(&u16::from_be_bytes([high, low]))
}

#[cfg(test)]
mod tests;
