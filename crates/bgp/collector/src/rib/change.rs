//! Effects of UPDATEs and of ends of sessions on routes.

use base::Time;
use bgp::attribute::{MpReach, MpUnreach, RawAttribute, code};
use bgp::message::{HEADER, MAX, MAX_EXTENDED, encode};
use bgp::nlri::{self, Prefixes, Routes};
use bgp::route_refresh::RouteRefresh;
use bgp::update::Update;
use bgp::verdict::{Action, Verdict, judge};
use bgp::{Error, Family, MessageType, Negotiated};

use super::Rib;
use super::announcements::Announcement;
use super::attributes::NewSet;
use super::peer::{Peer, Stale};
use super::table::{Key, Table};
use crate::{PeeringId, Reason};

struct Parts<'a> {
    reach: Option<MpReach<'a>>,
    unreach: Option<MpUnreach<'a>>,
}

impl<'a> Parts<'a> {
    fn new(update: &Update<'a>, negotiated: Negotiated) -> Self {
        let mut parts = Self { reach: None, unreach: None };
        for raw in update.attributes().map_while(std::result::Result::ok) {
            match raw.code {
                code::MP_REACH_NLRI if parts.reach.is_none() => {
                    parts.reach = MpReach::parse(raw.value, &negotiated, 0).ok();
                }
                code::MP_UNREACH_NLRI if parts.unreach.is_none() => {
                    parts.unreach = MpUnreach::parse(raw.value, &negotiated, 0).ok();
                }
                _ => {}
            }
        }
        parts
    }
}

#[derive(Clone, Copy)]
struct Field<'a> {
    family: Family,
    add_path: bool,
    bytes: &'a [u8],
}

impl<'a> Field<'a> {
    fn of(family: Family, bytes: &'a [u8], negotiated: Negotiated) -> Self {
        Self { family, add_path: negotiated.add_path.contains(family), bytes }
    }

    const fn prefixes(&self) -> Prefixes<'a> {
        Prefixes::new(self.bytes, self.family.afi, self.add_path)
    }

    const fn routes(&self) -> Routes<'a> {
        Routes::new(self.bytes, self.family, self.add_path)
    }
}

/// Offsets of the attributes that a router discards (RFC 7606).
fn discarded(update: &Update<'_>, verdict: &Verdict) -> Vec<usize> {
    let problems =
        verdict.problems.iter().filter(|problem| problem.action == Action::AttributeDiscard);
    let mut found = Vec::new();
    for problem in problems {
        let (Error::Short { at, .. } | Error::Value { at, .. }) = problem.error else { continue };
        let place = |raw: &RawAttribute<'_>| raw.at..=raw.value_at() + raw.value.len();
        let mut attributes = update.attributes().map_while(std::result::Result::ok);
        let culprit =
            attributes.find(|raw| Some(raw.code) == problem.attribute && place(raw).contains(&at));
        found.extend(culprit.map(|raw| raw.at - update.attributes_at()));
    }
    found
}

impl Rib {
    fn table_of(&mut self, family: Family, add_path: bool) -> usize {
        let same = |table: &Table| table.family == family && table.add_path == add_path;
        self.tables.iter().position(same).unwrap_or_else(|| {
            self.tables.push(Table::new(family, add_path));
            self.tables.len() - 1
        })
    }

    pub(super) fn update(&mut self, peer: &mut Peer, time: Time, body: &[u8]) {
        self.counts.updates += 1;
        let negotiated = peer.peering.from_peer;
        let verdict = judge(body, &negotiated);
        let Ok(update) = Update::parse(body) else {
            self.counts.ignored += 1;
            return;
        };
        if let Some(family) = update.end_of_rib() {
            self.end_of_rib(peer, family);
            return;
        }
        if verdict.action > Action::TreatAsWithdraw {
            self.counts.ignored += 1;
            return;
        }
        let Parts { reach, unreach } = Parts::new(&update, negotiated);
        let plain = |bytes| Field::of(Family::IPV4_UNICAST, bytes, negotiated);
        self.withdraw(peer, plain(update.withdrawn));
        if let Some(unreach) = unreach {
            self.withdraw(peer, Field::of(unreach.family, unreach.nlri, negotiated));
        }
        let discarded = discarded(&update, &verdict);
        let mut given = NewSet {
            attributes: update.attributes,
            four_octet_as: negotiated.four_octet_as,
            reach: None,
            nlri: None,
            discarded: &discarded,
        };
        let reachable = reach.map(|reach| Field::of(reach.family, reach.nlri, negotiated));
        // Routes of a table that its writer originated have peer 0.0.0.0, and often this next hop.
        let is_own = peer.peering.peer.is_unspecified();
        if verdict.action == Action::TreatAsWithdraw && !is_own {
            self.counts.treated_as_withdraw += 1;
            self.withdraw(peer, plain(update.announced));
            if let Some(field) = reachable {
                self.withdraw(peer, field);
            }
            return;
        }
        self.announce(peer, time, plain(update.announced), &given);
        if let Some(field) = reachable {
            given.reach = reach;
            self.announce(peer, time, field, &given);
        }
    }

    fn announce(&mut self, peer: &mut Peer, time: Time, field: Field<'_>, given: &NewSet<'_>) {
        if field.bytes.is_empty() {
            return;
        }
        let at = self.table_of(field.family, field.add_path);
        if !self.tables[at].has_prefixes() {
            self.announce_others(peer, time, field, given);
            return;
        }
        let id = peer.peering.id;
        let (number, set) = self.announcement(peer, at, time, given, field.bytes.len());
        let of = peer.table(at);
        // All numbers first, then the routes: the memory accesses of look-ups in
        // large tables overlap.
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.clear();
        self.tables[at].intern(field.prefixes(), of.hint, &mut of.block, &mut numbers);
        of.hint = numbers.last().map_or(0, |last| last + 1);
        let mut taken = 0;
        for &prefix in &numbers {
            let old = of.routes.set(prefix, number);
            match old {
                Some(old) if old == number => continue,
                Some(_) => {}
                None => self.tables[at].hold(prefix),
            }
            taken += 1;
            if old.is_some() || self.snapshot.is_some() {
                self.replaced(at, prefix, id, old);
            }
        }
        self.numbers = numbers;
        self.counts.announced += u64::from(taken);
        self.settle(number, set, taken);
        peer.last = number;
    }

    /// An announcement with room for `routes` routes; the last one if it is equal.
    fn announcement(
        &mut self,
        peer: &mut Peer,
        at: usize,
        time: Time,
        given: &NewSet<'_>,
        routes: usize,
    ) -> (u32, u32) {
        let set = self.attributes.intern(given, peer.next_set);
        peer.next_set = set + 1;
        let announcement = Announcement::new(set, time, peer.table(at).generation);
        if self.announcements.may_take(peer.last, announcement, routes) {
            return (peer.last, set);
        }
        self.attributes.hold(set);
        (self.announcements.add(announcement), set)
    }

    fn settle(&mut self, number: u32, set: u32, routes: u16) {
        self.announcements.hold(number, routes);
        if self.announcements.remove_unused(number) {
            self.attributes.release(set);
        }
    }

    fn announce_others(
        &mut self,
        peer: &mut Peer,
        time: Time,
        field: Field<'_>,
        given: &NewSet<'_>,
    ) {
        let at = self.table_of(field.family, field.add_path);
        for route in field.routes().map_while(std::result::Result::ok) {
            let Some((key, whole)) = self.tables[at].intern_other(route.path_id, route.bytes)
            else {
                return;
            };
            let given = NewSet { nlri: (!whole).then_some(route.bytes), ..*given };
            let (number, set) = self.announcement(peer, at, time, &given, 1);
            let old = peer.table(at).routes.set(key, number);
            let new = old != Some(number);
            if old.is_none() {
                self.tables[at].hold(key);
            }
            if new {
                self.replaced(at, key, peer.peering.id, old);
            }
            self.counts.announced += u64::from(new);
            self.settle(number, set, u16::from(new));
            peer.last = number;
        }
    }

    fn withdraw(&mut self, peer: &mut Peer, field: Field<'_>) {
        if field.bytes.is_empty() {
            return;
        }
        let at = self.table_of(field.family, field.add_path);
        if self.tables[at].has_prefixes() {
            for nlri in field.prefixes().map_while(std::result::Result::ok) {
                let hint = peer.table(at).hint;
                if let Some(number) = self.tables[at].find(&nlri, hint) {
                    peer.table(at).hint = number + 1;
                    self.take(peer, at, number);
                }
            }
        } else {
            for route in field.routes().map_while(std::result::Result::ok) {
                if let Some(number) = self.tables[at].find_other(route.path_id, route.bytes) {
                    self.take(peer, at, number);
                }
            }
        }
    }

    /// Removes route `number` of `peer`.
    fn take(&mut self, peer: &mut Peer, at: usize, number: u32) {
        let Some(old) = peer.table(at).routes.clear(number) else { return };
        self.counts.withdrawn += 1;
        self.replaced(at, number, peer.peering.id, Some(old));
        self.free(at, number);
    }

    fn replaced(&mut self, at: usize, number: u32, peering: PeeringId, old: Option<u32>) {
        if let Some(snapshot) = &mut self.snapshot
            && snapshot.keep(at, number, peering, old)
        {
            return;
        }
        if let Some(old) = old {
            self.release(old);
        }
    }

    pub(super) fn release(&mut self, announcement: u32) {
        if let Some(set) = self.announcements.release(announcement) {
            self.attributes.release(set);
        }
    }

    fn free(&mut self, at: usize, number: u32) {
        if self.tables[at].release(number) {
            match &mut self.snapshot {
                Some(snapshot) => snapshot.unused.push((at, number)),
                None => self.tables[at].remove_unused(number),
            }
        }
    }

    pub(super) fn clear(&mut self, peer: &mut Peer, at: usize) {
        let of = peer.table(at);
        of.stale = None;
        self.tables[at].give_back(&mut of.block);
        let routes = std::mem::take(&mut of.routes);
        routes.visit(|number, _| self.free(at, number));
        self.counts.withdrawn += routes.len() as u64;
        let unwanted = match &mut self.snapshot {
            Some(snapshot) => snapshot.keep_all(at, peer.peering.id, routes),
            None => Some(routes),
        };
        if let Some(routes) = unwanted {
            routes.visit(|_, announcement| self.release(announcement));
        }
    }

    fn clear_stale(&mut self, peer: &mut Peer, at: usize) {
        if peer.table(at).stale.take().is_none() {
            return;
        }
        for (number, _) in self.other_generation(peer, at) {
            self.take(peer, at, number);
        }
    }

    /// The routes of the generation that is not the current one, with their announcements.
    fn other_generation(&self, peer: &mut Peer, at: usize) -> Vec<(u32, u32)> {
        let of = peer.table(at);
        let mut routes = Vec::new();
        of.routes.visit(|number, announcement| {
            if self.announcements.get(announcement).generation != of.generation {
                routes.push((number, announcement));
            }
        });
        routes
    }

    fn end_of_rib(&mut self, peer: &mut Peer, family: Family) {
        peer.end_of_rib(family);
        for at in 0..self.tables.len() {
            if self.tables[at].family == family && peer.table(at).expires().is_some() {
                self.clear_stale(peer, at);
            }
        }
    }

    /// A marker of an enhanced route refresh (RFC 7313 §4): routes that are not announced between
    /// the first and the last marker are removed.
    pub(super) fn refresh(&mut self, peer: &mut Peer, body: &[u8]) {
        let Ok(RouteRefresh { family, subtype, filters: [] }) = RouteRefresh::parse(body) else {
            return;
        };
        if !peer.demarcates(family) {
            return;
        }
        for at in 0..self.tables.len() {
            if self.tables[at].family != family {
                continue;
            }
            match (subtype, peer.table(at).stale) {
                (RouteRefresh::BEGIN, None) => {}
                // All routes are stale again.
                (RouteRefresh::BEGIN, Some(Stale::Refresh)) => self.join_generations(peer, at),
                (RouteRefresh::END, Some(Stale::Refresh)) => {
                    if self.reports_removals {
                        let routes = self.other_generation(peer, at);
                        self.report_removals(at, &routes);
                    }
                    self.clear_stale(peer, at);
                    continue;
                }
                _ => continue,
            }
            let of = peer.table(at);
            of.generation = !of.generation;
            of.stale = Some(Stale::Refresh);
        }
    }

    /// Moves the routes of the other generation to the current one.
    fn join_generations(&mut self, peer: &mut Peer, at: usize) {
        let id = peer.peering.id;
        let mut last = None;
        for (number, old) in self.other_generation(peer, at) {
            let of = peer.table(at);
            let copy = self.announcements.get(old).of_generation(of.generation);
            let new = match last {
                Some((known, new)) if known == old && self.announcements.may_take(new, copy, 1) => {
                    new
                }
                _ => {
                    self.attributes.hold(copy.attributes);
                    self.announcements.add(copy)
                }
            };
            last = Some((old, new));
            self.announcements.hold(new, 1);
            of.routes.set(number, new);
            self.replaced(at, number, id, Some(old));
        }
    }

    /// Appends withdrawals of routes of table `at` to [`Rib::take_removals`].
    fn report_removals(&mut self, at: usize, routes: &[(u32, u32)]) {
        /// Lengths of both fields, and the head of `MP_UNREACH_NLRI`.
        const FIXED: usize = HEADER + 4 + 7;
        let Self { tables, announcements, attributes, removals, .. } = self;
        let table = &tables[at];
        let mut field = Vec::new();
        let mut send = |field: &mut Vec<u8>| {
            if !field.is_empty() {
                let body = withdrawal(table.family, field);
                removals.extend(encode(MessageType::UPDATE, &body, MAX_EXTENDED).ok());
                field.clear();
            }
        };
        let mut one = Vec::new();
        for &(number, announcement) in routes {
            one.clear();
            match table.key(number) {
                Some(Key::Prefix(nlri)) => nlri::encode(&nlri, &mut one),
                Some(Key::Other(path_id, key)) => {
                    let set = announcements.get(announcement).attributes;
                    one.extend(path_id.into_iter().flat_map(u32::to_be_bytes));
                    one.extend_from_slice(attributes.get(set).nlri.unwrap_or(key));
                }
                None => continue,
            }
            if FIXED + field.len() + one.len() > MAX {
                send(&mut field);
            }
            field.extend_from_slice(&one);
        }
        send(&mut field);
    }

    /// Ends the session: routes are removed, or become stale for the negotiated time.
    pub(super) fn lost(&mut self, peer: &mut Peer, time: Time, why: Reason) {
        for at in 0..peer.tables.len() {
            let Some(until) = peer.stale_until(self.tables[at].family, time, why) else {
                self.clear(peer, at);
                continue;
            };
            // Routes that are already stale are not retained again (RFC 4724 §4.2).
            self.clear_stale(peer, at);
            let of = peer.table(at);
            of.generation = !of.generation;
            of.stale = Some(Stale::Restart(until));
            self.expect(until);
        }
    }

    pub(super) fn restarted(&mut self, peer: &mut Peer, time: Time) {
        for at in 0..peer.tables.len() {
            if peer.table(at).stale.is_none() {
                continue;
            }
            match peer.stale_again(self.tables[at].family, time) {
                Some(until) => {
                    peer.table(at).stale = Some(Stale::Restart(until));
                    self.expect(until);
                }
                None => self.clear_stale(peer, at),
            }
        }
    }

    fn expect(&mut self, until: Time) {
        self.deadline = Some(self.deadline.map_or(until, |deadline| deadline.min(until)));
    }

    pub(super) fn expire(&mut self, now: Time) {
        self.deadline = None;
        for at in 0..self.peers.len() {
            let Some(mut peer) = self.peers[at].take() else { continue };
            for table in 0..peer.tables.len() {
                match peer.table(table).expires() {
                    Some(until) if until <= now => self.clear_stale(&mut peer, table),
                    Some(until) => self.expect(until),
                    None => {}
                }
            }
            self.peers[at] = Some(peer);
        }
    }
}

/// The body of an UPDATE that withdraws the routes in `nlri`.
fn withdrawal(family: Family, nlri: &[u8]) -> Vec<u8> {
    let length = |length: usize| (length as u16).to_be_bytes();
    if family == Family::IPV4_UNICAST {
        return [&length(nlri.len())[..], nlri, &[0, 0]].concat();
    }
    let value = nlri.len() + 3;
    let mut body = vec![0, 0];
    body.extend(length(value + 4));
    body.extend([0x90, bgp::attribute::code::MP_UNREACH_NLRI]);
    body.extend(length(value));
    body.extend(family.afi.0.to_be_bytes());
    body.push(family.safi.0);
    body.extend_from_slice(nlri);
    body
}
