//! Peers of an archive and their messages.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use base::Time;
use bgp::mrt::{Body, PeerIndexTable, Record};
use bgp::nlri::{Nlri, Route};
use bgp::update::{Visitor, walk};
use bgp::{Family, Message, MessageType};
use collector::input::mrt;
use collector::{Event, MirrorId, Peering, PeeringId, Sender, Sink, State};

use super::files::{ArchiveFolder, Found};
use crate::Result;
use crate::archive::Kind;
use crate::input::{Input, RecordStep, records, words};
use crate::job::mirrors;

#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) peering: Peering,
    pub(super) times: Option<(Time, Time)>,
    /// State of the session, and its time; `None` if unknown.
    pub(super) state: Option<(State, Time)>,
    pub(super) sessions: u64,
    pub(super) messages: [u64; 5],
    pub(super) local_messages: u64,
    pub(super) announced: u64,
    pub(super) withdrawn: u64,
    pub(super) families: BTreeSet<Family>,
    /// Routes in the latest table, if it contains the peer.
    pub(super) routes: Option<u64>,
}

impl Seen {
    fn new(peering: Peering) -> Self {
        Self {
            peering,
            times: None,
            state: None,
            sessions: 0,
            messages: [0; 5],
            local_messages: 0,
            announced: 0,
            withdrawn: 0,
            families: BTreeSet::new(),
            routes: None,
        }
    }

    fn at(&mut self, time: Time) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
    }

    fn message(&mut self, from: Sender, message: Message<'_>) {
        if from == Sender::Local {
            self.local_messages += 1;
            return;
        }
        let kind = usize::from(message.kind().0);
        if let Some(count) = kind.checked_sub(1).and_then(|at| self.messages.get_mut(at)) {
            *count += 1;
        }
        if message.kind() == MessageType::UPDATE {
            let negotiated = self.peering.from_peer;
            walk(message.body(), &negotiated, self);
        }
    }
}

impl Visitor for Seen {
    fn withdrawn(&mut self, _: Family, _: Nlri) {
        self.withdrawn += 1;
    }

    fn withdrawn_route(&mut self, _: Family, _: Route<'_>) {
        self.withdrawn += 1;
    }

    fn announced(&mut self, family: Family, _: Nlri) {
        self.announced += 1;
        self.families.insert(family);
    }

    fn announced_route(&mut self, family: Family, _: Route<'_>) {
        self.announced += 1;
        self.families.insert(family);
    }
}

#[derive(Debug, Default)]
pub(super) struct Census {
    peers: Vec<Option<Seen>>,
    others: Vec<Seen>,
    pub(super) troubles: Vec<String>,
    pub(super) table: Option<Time>,
    /// Names of the listed mirrors by number.
    mirrors: BTreeMap<u32, String>,
}

impl Sink for Census {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let at = peering.id.index();
        if at >= self.peers.len() {
            self.peers.resize_with(at + 1, || None);
        }
        let seen = self.peers[at].get_or_insert_with(|| Seen::new(*peering));
        seen.peering = *peering;
        match *event {
            Event::Message { time, from, message } => {
                seen.at(time);
                seen.message(from, message);
            }
            Event::State { time, old, new, .. } => {
                seen.at(time);
                seen.state = Some((new, time));
                let up = new == State::Established && old != State::Established;
                seen.sessions += u64::from(up);
            }
            Event::Gap(_) | Event::Reading(_) => {}
        }
    }
}

impl Census {
    /// Reads all updates of an archive, and its latest table.
    pub(super) fn take(shelf: &ArchiveFolder) -> Result<Self> {
        let mut census = Self::default();
        if shelf.listed {
            census.mirrors = mirrors::read(&shelf.folder)?;
        }
        let mut reader = mrt::Input::new(MirrorId::NONE, PeeringId(0));
        for file in shelf.readable(Kind::Updates) {
            let mut troubles = Vec::new();
            each(file, &mut troubles, &mut |record| reader.record(record, &mut census))?;
            census.troubles.append(&mut troubles);
        }
        if let Some(file) = shelf.readable(Kind::Routes).next_back() {
            let mut routes = Tally::default();
            let mut troubles = Vec::new();
            each(file, &mut troubles, &mut |record| routes.record(record))?;
            census.troubles.append(&mut troubles);
            census.table = file.start.or(routes.time);
            routes.tell(&mut census);
        }
        Ok(census)
    }

    pub(super) fn mirror_name(&self, peering: &Peering) -> Option<&str> {
        self.mirrors.get(&peering.mirror.0).map(String::as_str)
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&Seen) -> bool) {
        self.peers.retain(|seen| seen.as_ref().is_some_and(&keep));
        self.others.retain(keep);
    }

    pub(super) fn peers(&self) -> impl Iterator<Item = &Seen> {
        self.peers.iter().flatten().chain(&self.others)
    }
}

/// Passes the records of a file to `tell`.
pub(super) fn each(
    file: &Found,
    troubles: &mut Vec<String>,
    tell: &mut impl FnMut(&Record<'_>),
) -> Result<()> {
    each_until(file, troubles, &mut |record| {
        tell(record);
        ControlFlow::Continue(())
    })
}

/// Passes the records of a file to `tell`, until it returns `Break`.
pub(super) fn each_until(
    file: &Found,
    troubles: &mut Vec<String>,
    tell: &mut impl FnMut(&Record<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let mut input = Input::open(&file.path, false)?;
    records(&mut input, &mut || ControlFlow::Continue(()), &mut |piece| {
        match piece {
            RecordStep::Record(record) => return tell(&record),
            RecordStep::Damage(damage) => {
                troubles.push(format!("{}: {}", file.name, words(&damage)));
            }
            RecordStep::Broken(error) => troubles.push(error.to_string()),
        }
        ControlFlow::Continue(())
    })
}

pub(super) fn first(file: &Found) -> Result<Option<Time>> {
    let mut input = Input::open(&file.path, false)?;
    let mut time = None;
    records(&mut input, &mut || ControlFlow::Continue(()), &mut |piece| {
        if let RecordStep::Record(record) = piece {
            time = Some(record.time);
        }
        if time.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(time)
}

#[derive(Default)]
struct Tally {
    time: Option<Time>,
    routes: Vec<(bgp::mrt::Peer, u64)>,
}

impl Tally {
    fn record(&mut self, record: &Record<'_>) {
        self.time = self.time.or(Some(record.time));
        match record.parse() {
            Ok(Body::PeerIndexTable(table)) => self.peers(&table),
            Ok(Body::Rib(rib)) => {
                for entry in rib.entries().flatten() {
                    if let Some((_, count)) = self.routes.get_mut(usize::from(entry.peer)) {
                        *count += 1;
                    }
                }
            }
            Ok(Body::TableDump(dump)) => {
                let is =
                    |peer: &bgp::mrt::Peer| (peer.address, peer.asn) == (dump.peer, dump.peer_as);
                if let Some((_, count)) = self.routes.iter_mut().find(|(peer, _)| is(peer)) {
                    *count += 1;
                } else {
                    let (address, asn) = (dump.peer, dump.peer_as);
                    let four_octet_as = dump.four_octet_as;
                    let peer = bgp::mrt::Peer { address, asn, id: 0, four_octet_as };
                    self.routes.push((peer, 1));
                }
            }
            _ => {}
        }
    }

    fn peers(&mut self, table: &PeerIndexTable<'_>) {
        self.routes = table.peers().flatten().map(|peer| (peer, 0)).collect();
    }

    fn tell(self, census: &mut Census) {
        for (peer, count) in self.routes {
            // Peers with the same address and AS are assigned to one entry each.
            let same = |seen: &&mut Seen| {
                (seen.peering.peer, seen.peering.peer_as) == (peer.address, peer.asn)
                    && seen.routes.is_none()
            };
            let known = census.peers.iter_mut().flatten().chain(&mut census.others);
            // The first of the best matches.
            if let Some(seen) = known
                .filter(same)
                .max_by_key(|seen| (peer.id == seen.peering.peer_id, Reverse(seen.peering.id)))
            {
                seen.routes = Some(count);
                continue;
            }
            let mut peering = unknown_peering(peer.address);
            (peering.peer_as, peering.peer_id) = (peer.asn, peer.id);
            let mut seen = Seen::new(peering);
            seen.routes = Some(count);
            census.others.push(seen);
        }
    }
}

fn unknown_peering(peer: std::net::IpAddr) -> Peering {
    let local = match peer {
        std::net::IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        std::net::IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    Peering::new(PeeringId(u32::MAX), MirrorId::NONE, peer, local)
}
