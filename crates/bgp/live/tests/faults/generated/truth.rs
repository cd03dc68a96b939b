//! The expected result for an undamaged capture, and a model that applies reported messages.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use collector::rib::{Destination, Query, Rib};
use collector::{Event, GapCause, Peering, Sender, Sink, State};

use super::message::{Key, Meaning};
use crate::mrt::Timed;

/// Serial numbers of the routes of all peers.
pub(crate) type Routes = BTreeMap<(IpAddr, Key), u32>;

/// A gap with its cause, or a message, with the start and end of its time in microseconds.
pub(crate) type Dated = (Option<GapCause>, u64, u64);

#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    pub(crate) messages: BTreeMap<IpAddr, Vec<Timed>>,
    pub(crate) routes: Routes,
    /// How often each session was established, and how often it ended.
    pub(crate) states: BTreeMap<IpAddr, (usize, usize)>,
}

impl Truth {
    pub(super) fn begin(&mut self, peer: IpAddr) {
        self.states.entry(peer).or_default().0 += 1;
    }

    pub(super) fn end(&mut self, peer: IpAddr) {
        self.states.entry(peer).or_default().1 += 1;
    }

    pub(super) fn message(&mut self, peer: IpAddr, micros: u64, bytes: &[u8]) {
        self.messages.entry(peer).or_default().push((micros, bytes.to_vec()));
    }
}

/// Applies the messages that the collector reports; compared with the collector's own table.
pub(crate) struct Model<'a> {
    rib: Rib,
    meaning: &'a BTreeMap<(IpAddr, Vec<u8>), Meaning>,
    pub(crate) routes: Routes,
    /// Routes that the peer has not announced since the start of a route refresh.
    stale: BTreeMap<(IpAddr, (u16, u8)), BTreeSet<Key>>,
    pub(crate) states: BTreeMap<IpAddr, (usize, usize)>,
    /// Number of OPENs of both ends.
    pub(crate) opens: usize,
    /// Events by peer and whether it sent them.
    pub(crate) events: BTreeMap<(IpAddr, bool), Vec<Dated>>,
    /// An end sent an OPEN before the end of its session.
    pub(crate) is_disordered: bool,
    /// Ends that sent an OPEN since the session was idle.
    opened: BTreeSet<(IpAddr, bool)>,
    /// UPDATEs that no peer sent.
    pub(crate) invented: Vec<Vec<u8>>,
    /// Routes of the collector's table and of the model that differ at the end of a session.
    different: Option<(Routes, Routes)>,
}

impl<'a> Model<'a> {
    pub(crate) fn new(meaning: &'a BTreeMap<(IpAddr, Vec<u8>), Meaning>) -> Self {
        Self {
            rib: Rib::new(),
            meaning,
            routes: BTreeMap::new(),
            stale: BTreeMap::new(),
            states: BTreeMap::new(),
            opens: 0,
            events: BTreeMap::new(),
            is_disordered: false,
            opened: BTreeSet::new(),
            invented: Vec::new(),
            different: None,
        }
    }

    fn compare(&mut self) {
        let found = routes(&self.rib);
        if self.different.is_none() && found != self.routes {
            self.different = Some((found, self.routes.clone()));
        }
    }

    /// The first difference of the tables.
    pub(crate) fn difference(&mut self) -> Option<&(Routes, Routes)> {
        self.compare();
        self.different.as_ref()
    }

    fn message(&mut self, peer: IpAddr, bytes: &[u8]) {
        let meaning = self.meaning;
        match meaning.get(&(peer, bytes.to_vec())) {
            Some(Meaning::Changes(changes)) => {
                for (key, serial) in changes {
                    if let Some(stale) = self.stale.get_mut(&(peer, key.family)) {
                        stale.remove(key);
                    }
                    match serial {
                        Some(serial) => self.routes.insert((peer, key.clone()), *serial),
                        None => self.routes.remove(&(peer, key.clone())),
                    };
                }
            }
            Some(Meaning::Begin(family, true)) => {
                let keys = self.routes.keys();
                let of = keys.filter(|(of, key)| *of == peer && key.family == *family);
                let stale = of.map(|(_, key)| key.clone()).collect();
                self.stale.insert((peer, *family), stale);
            }
            Some(Meaning::End(family, true)) => {
                for key in self.stale.remove(&(peer, *family)).unwrap_or_default() {
                    self.routes.remove(&(peer, key));
                }
            }
            None if bytes[18] == 2 => self.invented.push(bytes.to_vec()),
            Some(Meaning::Begin(_, false) | Meaning::End(_, false)) | None => {}
        }
    }
}

impl Sink for Model<'_> {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let peer = peering.peer;
        match event {
            Event::Message { time, from, message } => {
                let is_open = message.bytes()[18] == 1;
                self.opens += usize::from(is_open);
                self.is_disordered |= is_open && !self.opened.insert((peer, *from == Sender::Peer));
                let micros = time.as_nanos() / 1_000;
                self.events
                    .entry((peer, *from == Sender::Peer))
                    .or_default()
                    .push((None, micros, micros));
                if *from == Sender::Peer {
                    self.message(peer, message.bytes());
                }
            }
            Event::State { old, new, .. } => {
                let is_end = *old == State::Established;
                if is_end {
                    self.compare();
                }
                if *new == State::Idle {
                    self.opened.retain(|(of, _)| *of != peer);
                }
                let states = self.states.entry(peer).or_default();
                states.0 += usize::from(*new == State::Established);
                states.1 += usize::from(is_end);
                if is_end {
                    self.routes.retain(|(of, _), _| *of != peer);
                    self.stale.retain(|(of, _), _| *of != peer);
                }
            }
            Event::Gap(gap) if !gap.cause.is_archived() => {
                let (since, until) = (gap.since.as_nanos() / 1_000, gap.until.as_nanos() / 1_000);
                let events = self.events.entry((peer, gap.from == Sender::Peer)).or_default();
                events.push((Some(gap.cause), since, until));
            }
            Event::Gap(_) | Event::Reading(_) => {}
        }
        self.rib.event(peering, event);
    }
}

/// The routes of the collector's table.
fn routes(rib: &Rib) -> Routes {
    let all = rib.query(&Query::default());
    let routes = all.iter().map(|route| {
        let nlri = match &route.destination {
            Destination::Prefix(prefix) => octets(&prefix.to_string()),
            Destination::Other(bytes) => bytes.clone(),
        };
        let family = (route.family.afi.0, route.family.safi.0);
        let key = Key { family, nlri, path_id: route.path_id };
        ((route.peering.peer, key), serial(&route.attributes))
    });
    routes.collect()
}

/// A prefix as in an UPDATE.
fn octets(text: &str) -> Vec<u8> {
    let (address, length) = text.split_once('/').unwrap();
    let length: u8 = length.parse().unwrap();
    let address = match address.parse().unwrap() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    [&[length][..], &address[..usize::from(length).div_ceil(8)]].concat()
}

/// The value of `MULTI_EXIT_DISC`; 0 if it is absent.
fn serial(mut attributes: &[u8]) -> u32 {
    while let [flags, code, rest @ ..] = attributes {
        let (length, rest) = match (flags & 0x10, rest) {
            (0, [length, rest @ ..]) => (usize::from(*length), rest),
            (_, [high, low, rest @ ..]) => (usize::from(*high) << 8 | usize::from(*low), rest),
            _ => return 0,
        };
        if *code == 4 {
            return u32::from_be_bytes(*rest.first_chunk().unwrap());
        }
        attributes = &rest[length..];
    }
    0
}
