//! Snapshots: all routes at one instant as `TABLE_DUMP_V2`, written while routes change.

use std::collections::BTreeMap;

use base::Time;
use bgp::Prefix;
use bgp::mrt::{self, write};
use bgp::nlri::{self, Nlri};

use super::Rib;
use super::peer::Peer;
use super::routes::Routes;
use super::table::{Key, Table};
use crate::{MirrorId, PeeringId};

/// A snapshot that is being written. Before a route changes that is not written yet, its old state
/// is saved here. Freed prefix numbers are not reused before the end.
#[derive(Debug)]
pub(super) struct Snapshot {
    time: Time,
    collector: u32,
    view: Vec<u8>,
    /// The peerings at the instant, in the order of their numbers: the peers of the file.
    peers: Vec<PeeringId>,
    tables: usize,
    kept: BTreeMap<(usize, u32, PeeringId), Option<u32>>,
    /// Routes of peerings that lost all of them, by table and peering.
    cleared: BTreeMap<(usize, PeeringId), Routes>,
    pub(super) unused: Vec<(usize, u32)>,
    table: usize,
    order: Option<Order>,
    written: Vec<u32>,
    sequence: u32,
    begun: bool,
    scratch: Vec<u8>,
}

/// The prefixes of a table in the order of addresses: in buckets by the first 16 bits, each sorted
/// before it is written.
#[derive(Debug)]
struct Order {
    numbers: Vec<u32>,
    ends: Vec<u32>,
    bucket: usize,
    next: usize,
    done: Vec<u64>,
    /// Peers with routes in a group of 256 prefixes, determined when its first prefix is written.
    present: Vec<Option<Box<[u16]>>>,
}

const BUCKETS: usize = 1 << 16;
const PAGE: usize = 256;

fn bucket(key: Key<'_>) -> usize {
    match key {
        Key::Prefix(Nlri { prefix: Prefix::V4(bits, _), .. }) => (bits >> 16) as usize,
        Key::Prefix(Nlri { prefix: Prefix::V6(bits, _), .. }) => (bits >> 112) as usize,
        Key::Other(..) => 0,
    }
}

impl Order {
    fn new(table: &Table) -> Self {
        let mut ends = vec![0_u32; BUCKETS];
        let mut limit = 0;
        for (number, key) in table.iter() {
            ends[bucket(key)] += 1;
            limit = number as usize + 1;
        }
        let mut total = 0;
        for end in &mut ends {
            // Set to the start of the bucket; counting then moves it to the end.
            total += std::mem::replace(end, total);
        }
        let mut numbers = vec![0; total as usize];
        for (number, key) in table.iter() {
            let end = &mut ends[bucket(key)];
            numbers[*end as usize] = number;
            *end += 1;
        }
        let done = vec![0; limit.div_ceil(64)];
        let mut present = Vec::new();
        present.resize_with(limit.div_ceil(PAGE), || None);
        let mut order = Self { numbers, ends, bucket: 0, next: 0, done, present };
        order.sort(table, 0);
        order
    }

    fn sort(&mut self, table: &Table, start: usize) {
        if table.has_prefixes() {
            let end = self.ends[self.bucket] as usize;
            self.numbers[start..end].sort_unstable_by_key(|number| match table.key(*number) {
                Some(Key::Prefix(nlri)) => Some((nlri.prefix, nlri.path_id)),
                _ => None,
            });
        }
    }

    fn peek(&mut self, table: &Table) -> Option<u32> {
        let bucket = self.bucket;
        while self.next < self.numbers.len() && self.next >= self.ends[self.bucket] as usize {
            self.bucket += 1;
        }
        if self.bucket != bucket {
            self.sort(table, self.next);
        }
        self.numbers.get(self.next).copied()
    }

    fn take(&mut self, number: u32) {
        self.next += 1;
        self.done[number as usize / 64] |= 1 << (number % 64);
    }

    fn is_done(&self, number: u32) -> bool {
        self.done.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    peer: u16,
    path_id: Option<u32>,
    announcement: u32,
}

impl Snapshot {
    fn new(rib: &Rib, time: Time, collector: u32, view: &[u8]) -> Self {
        Self {
            time,
            collector,
            view: view.to_vec(),
            // Maximum number of peers in a peer index table.
            peers: rib.peers().map(|peer| peer.peering.id).take(usize::from(u16::MAX)).collect(),
            tables: rib.tables.len(),
            kept: BTreeMap::new(),
            cleared: BTreeMap::new(),
            unused: Vec::new(),
            table: 0,
            order: None,
            written: Vec::new(),
            sequence: 0,
            begun: false,
            scratch: Vec::new(),
        }
    }

    fn is_written(&self, table: usize, number: u32) -> bool {
        table < self.table
            || table >= self.tables
            || table == self.table && self.order.as_ref().is_some_and(|order| order.is_done(number))
    }

    fn concerns(&self, table: usize, peering: PeeringId) -> bool {
        self.peers.binary_search(&peering).is_ok() && !self.cleared.contains_key(&(table, peering))
    }

    /// Saves `old` before a route changes; returns true if the snapshot needs it and took over its
    /// use of the announcement.
    pub(super) fn keep(
        &mut self,
        table: usize,
        number: u32,
        peering: PeeringId,
        old: Option<u32>,
    ) -> bool {
        if self.is_written(table, number) || !self.concerns(table, peering) {
            return false;
        }
        let mut new = false;
        self.kept.entry((table, number, peering)).or_insert_with(|| {
            new = true;
            old
        });
        new
    }

    /// A peering lost all its `routes` in a table: returns them unless the snapshot needs them.
    pub(super) fn keep_all(
        &mut self,
        table: usize,
        peering: PeeringId,
        routes: Routes,
    ) -> Option<Routes> {
        let over = table < self.table || table >= self.tables;
        if over || !self.concerns(table, peering) {
            return Some(routes);
        }
        self.cleared.insert((table, peering), routes);
        None
    }

    pub(super) fn memory(&self) -> usize {
        let cleared: usize = self.cleared.values().map(Routes::memory).sum();
        let order = self.order.as_ref().map_or(0, |order| {
            let present = order.present.iter().flatten().map(|peers| peers.len() * 2 + 16);
            (order.numbers.capacity() + order.ends.capacity()) * size_of::<u32>()
                + order.done.capacity() * size_of::<u64>()
                + order.present.capacity() * size_of::<Option<Box<[u16]>>>()
                + present.sum::<usize>()
        });
        // Nodes of a B-tree are two thirds full on average.
        self.kept.len() * 36 + cleared + order + self.unused.capacity() * 16
    }

    fn routes<'a>(&'a self, rib: &'a Rib, peer: PeeringId) -> Option<&'a Routes> {
        if let Some(routes) = self.cleared.get(&(self.table, peer)) {
            return Some(routes);
        }
        let peer = rib.peers.get(peer.index())?.as_deref()?;
        Some(&peer.tables.get(self.table)?.routes)
    }

    /// The routes to prefix `number` at the instant, by peer.
    fn entries(&mut self, rib: &Rib, order: &mut Order, number: u32, to: &mut Vec<Entry>) {
        let path_id = match rib.tables[self.table].key(number) {
            Some(Key::Prefix(Nlri { path_id, .. }) | Key::Other(path_id, _)) => path_id,
            None => None,
        };
        let first = to.len();
        let mut push = |peer: usize, announcement| {
            to.push(Entry { peer: peer as u16, path_id, announcement });
        };
        let all = (self.table, number, PeeringId(0))..=(self.table, number, PeeringId(u32::MAX));
        let mut known = Vec::new();
        for ((.., peering), old) in self.kept.range(all) {
            let Ok(peer) = self.peers.binary_search(peering) else { continue };
            known.push(*peering);
            if let Some(old) = *old {
                push(peer, old);
                self.written.push(old);
            }
        }
        let page = order.present[number as usize / PAGE].get_or_insert_with(|| {
            let with = self.peers.iter().enumerate().filter(|(_, peer)| {
                self.routes(rib, **peer).is_some_and(|routes| routes.has_page(number))
            });
            with.map(|(at, _)| at as u16).collect()
        });
        for &peer in &*page {
            let peering = self.peers[usize::from(peer)];
            if known.contains(&peering) {
                continue;
            }
            if let Some(now) = self.routes(rib, peering).and_then(|routes| routes.get(number)) {
                push(peer.into(), now);
            }
        }
        for peering in known {
            self.kept.remove(&(self.table, number, peering));
        }
        to[first..].sort_unstable_by_key(|entry| entry.peer);
    }

    fn peers<'a>(&'a self, rib: &'a Rib) -> impl Iterator<Item = &'a Peer> {
        self.peers.iter().filter_map(|id| rib.peers[id.index()].as_deref())
    }

    fn begin(&mut self, rib: &Rib, out: &mut Vec<u8>) {
        let peers: Vec<mrt::Peer> = self
            .peers(rib)
            .map(|peer| mrt::Peer {
                address: peer.peering.peer,
                asn: peer.peering.peer_as,
                id: peer.peering.peer_id,
                four_octet_as: true,
            })
            .collect();
        self.view.truncate(usize::from(u16::MAX));
        write::peer_index_table(out, self.time, self.collector, &self.view, &peers)
            .expect("view and peers were cut to what fits");
        self.begun = true;
    }

    /// Writes the next prefix; returns false if there is none.
    fn write(&mut self, rib: &Rib, out: &mut Vec<u8>) -> bool {
        let Some(table) = rib.tables[..self.tables].get(self.table) else { return false };
        let mut order = self.order.take().unwrap_or_else(|| Order::new(table));
        let Some(number) = order.peek(table) else {
            self.table += 1;
            return true;
        };
        let mut entries = Vec::new();
        self.entries(rib, &mut order, number, &mut entries);
        order.take(number);
        if let Some(Key::Prefix(nlri)) = table.key(number) {
            // All paths to a prefix are in one record.
            while let Some(next) = order.peek(table).filter(|_| table.add_path) {
                let same = matches!(
                    table.key(next),
                    Some(Key::Prefix(other)) if other.prefix == nlri.prefix
                );
                if !same {
                    break;
                }
                self.entries(rib, &mut order, next, &mut entries);
                order.take(next);
            }
            let mut name = Vec::new();
            nlri::encode(&Nlri { path_id: None, ..nlri }, &mut name);
            self.record(rib, table, &name, &entries, out);
        } else if let Some(Key::Other(_, key)) = table.key(number) {
            self.others(rib, table, key, &entries, out);
        }
        self.order = Some(order);
        true
    }

    /// Writes an opaque route: one record per announced encoding.
    fn others(
        &mut self,
        rib: &Rib,
        table: &Table,
        key: &[u8],
        entries: &[Entry],
        out: &mut Vec<u8>,
    ) {
        let form = |entry: &Entry| {
            let set = rib.announcements.get(entry.announcement).attributes;
            rib.attributes.get(set).nlri.unwrap_or(key)
        };
        let mut sorted = entries.to_vec();
        sorted.sort_by_key(form);
        for same in sorted.chunk_by(|one, other| form(one) == form(other)) {
            self.record(rib, table, form(&same[0]), same, out);
        }
    }

    fn record(
        &mut self,
        rib: &Rib,
        table: &Table,
        name: &[u8],
        entries: &[Entry],
        out: &mut Vec<u8>,
    ) {
        for part in entries.chunks(usize::from(u16::MAX)) {
            let mut record =
                write::Rib::open(out, self.time, self.sequence, table.family, table.add_path, name);
            self.sequence += 1;
            for entry in part {
                let announcement = rib.announcements.get(entry.announcement);
                self.scratch.clear();
                rib.attributes.get(announcement.attributes).write(&mut self.scratch);
                let entry = mrt::RibEntry {
                    peer: entry.peer,
                    originated: (announcement.time().as_nanos() / 1_000_000_000) as u32,
                    path_id: entry.path_id,
                    attributes: &self.scratch,
                };
                // Paths of more than 65,535 octets in four-octet AS numbers cannot be encoded.
                let _ = record.entry(out, &entry);
            }
            record.close(out);
        }
    }
}

impl Rib {
    /// Begins a snapshot of the current routes. `time`, the BGP identifier of the collector and the
    /// name of the view are written to the file. Returns false if another snapshot is in progress.
    pub fn begin_snapshot(&mut self, time: Time, collector: u32, view: &[u8]) -> bool {
        if self.snapshot.is_some() {
            return false;
        }
        self.snapshot = Some(Box::new(Snapshot::new(self, time, collector, view)));
        true
    }

    /// Appends about `budget` bytes of the snapshot: whole records of `TABLE_DUMP_V2` (RFC 6396
    /// §4.3, RFC 8050 §4), by family and address. Returns true after the last one.
    ///
    /// Routes may change between two calls: the file contains those at the start of the snapshot.
    pub fn write_snapshot(&mut self, budget: usize, out: &mut Vec<u8>) -> bool {
        let Some(mut snapshot) = self.snapshot.take() else { return true };
        let end = out.len().saturating_add(budget);
        if !snapshot.begun {
            snapshot.begin(self, out);
        }
        let mut more = true;
        while more && out.len() < end {
            more = snapshot.write(self, out);
        }
        for announcement in std::mem::take(&mut snapshot.written) {
            self.release(announcement);
        }
        if more {
            self.snapshot = Some(snapshot);
            return false;
        }
        self.end_snapshot(*snapshot);
        true
    }

    /// The mirrors of the peers of the current snapshot, in the order of the file.
    pub fn snapshot_mirrors(&self) -> impl Iterator<Item = MirrorId> {
        let snapshot = self.snapshot.iter();
        snapshot.flat_map(|snapshot| snapshot.peers(self)).map(|peer| peer.peering.mirror)
    }

    pub fn cancel_snapshot(&mut self) {
        if let Some(snapshot) = self.snapshot.take() {
            self.end_snapshot(*snapshot);
        }
    }

    fn end_snapshot(&mut self, snapshot: Snapshot) {
        for announcement in snapshot.kept.into_values().flatten() {
            self.release(announcement);
        }
        for routes in snapshot.cleared.into_values() {
            routes.visit(|_, announcement| self.release(announcement));
        }
        for (table, number) in snapshot.unused {
            self.tables[table].remove_unused(number);
        }
    }
}
