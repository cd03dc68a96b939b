//! Queries in steps: a query over a large table must not delay packets.
//!
//! Routes may change between two steps. Each route of the answer existed at the step that found it.

use std::collections::BTreeSet;

use bgp::nlri::Nlri;
use bgp::{Family, Prefix};

use super::Rib;
use super::query::{Destination, Query, Route, Scope};
use super::table::{Key, Table};

/// Prefixes in the order of the answer: family, length (the longest first if requested), prefix,
/// table, path identifier, number.
type Found = (Family, u8, Prefix, usize, Option<u32>, u32);

#[derive(Debug)]
pub struct Search {
    query: Query,
    /// The current table and the next number in it.
    table: usize,
    number: u32,
    found: BTreeSet<Found>,
    routes: Vec<Route>,
}

impl Search {
    pub const fn new(query: Query) -> Self {
        Self { query, table: 0, number: 0, found: BTreeSet::new(), routes: Vec::new() }
    }

    pub fn into_routes(self) -> Vec<Route> {
        self.routes
    }

    /// Examines about `budget` prefixes and routes; returns whether it was the last step.
    pub fn step(&mut self, rib: &Rib, budget: usize) -> bool {
        let mut left = budget.max(1);
        while let Some(table) = rib.tables.get(self.table) {
            let is_over = self.query.family.is_some_and(|family| family != table.family)
                || self.collect(rib, table, &mut left);
            if !is_over {
                return false;
            }
            (self.table, self.number) = (self.table + 1, 0);
        }
        while !self.is_full() {
            if left == 0 {
                return false;
            }
            let Some((family, _, prefix, at, path_id, number)) = self.found.pop_first() else {
                return true;
            };
            // In each family the first prefix with a route is the longest.
            let is_answered = matches!(self.query.scope, Scope::Longest(_))
                && self.routes.last().is_some_and(|route| {
                    route.family == family && route.destination != Destination::Prefix(prefix)
                });
            let same = Key::Prefix(Nlri { path_id, prefix });
            // The number may have been reused for another prefix.
            if !is_answered && rib.tables[at].key(number) == Some(same) {
                self.answer(rib, at, number, &mut left);
            }
        }
        true
    }

    fn is_full(&self) -> bool {
        self.query.limit.is_some_and(|limit| self.routes.len() >= limit)
    }

    /// Collects the matching prefixes of a table; returns false if some are left.
    fn collect(&mut self, rib: &Rib, table: &Table, left: &mut usize) -> bool {
        let (at, scope) = (self.table, self.query.scope);
        let found = |Nlri { prefix, path_id }: Nlri, number| {
            let is_longest = matches!(scope, Scope::Longest(_));
            let length = if is_longest { u8::MAX - prefix.length() } else { 0 };
            (table.family, length, prefix, at, path_id, number)
        };
        if let Some(all) = table.find_within(scope) {
            self.found.extend(all.into_iter().map(|(nlri, number)| found(nlri, number)));
            return true;
        }
        while self.number < table.end() {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            let number = self.number;
            self.number += 1;
            match table.key(number) {
                Some(Key::Prefix(nlri)) if scope.covers(nlri.prefix) => {
                    self.found.insert(found(nlri, number));
                }
                Some(Key::Other(..)) if scope == Scope::All => self.answer(rib, at, number, left),
                _ => {}
            }
        }
        true
    }

    /// Adds the routes to a prefix, of all peers in one step.
    fn answer(&mut self, rib: &Rib, at: usize, number: u32, left: &mut usize) {
        for peer in rib.peers() {
            *left = left.saturating_sub(1);
            if self.query.peer.is_some_and(|wanted| wanted != peer.peering.peer) {
                continue;
            }
            if !self.is_full()
                && let Some(route) = rib.route(peer, at, number)
                && route.fits(&self.query)
            {
                self.routes.push(route);
            }
        }
    }
}
