//! Sums the counters of several shards into those of one network.

use std::collections::BTreeMap;

use base::{Span, Time};
use bundler::sendbox::{Status, Transition};
use fabric::{LinkStats, QueueLevel, Share};
use lab::plan::Plan;

use crate::Batch;
use crate::observation::{Counters, LinkRow};

/// Maximum number of sampling times that wait for slower shards, if the times of a shard are wrong.
const MAX_PENDING_GROUPS: usize = 1 << 16;

#[derive(Debug)]
pub(super) struct Sums {
    interval: Span,
    bundles: usize,
    /// The newest counters of each shard, by position.
    newest: Vec<Vec<LinkStats>>,
    /// Sums over all shards, as of the last returned batch.
    total: Vec<LinkStats>,
    groups: BTreeMap<Time, Group>,
    /// The last counters of each shard, at the end of its run instead of at a sampling time.
    tails: BTreeMap<Time, Group>,
}

/// The changes up to one time.
#[derive(Debug, Default)]
struct Group {
    /// Increase of the counters, and queue lengths.
    links: BTreeMap<u32, (LinkStats, QueueLevel)>,
    shares: Vec<(usize, Share)>,
    bundles: BTreeMap<u32, Status>,
    changes: Vec<(u32, Transition)>,
}

/// Removes the first entry of a map if it is due or the map has more than `max` entries.
pub(super) fn take_due<K: Ord, V>(
    map: &mut BTreeMap<K, V>,
    max: usize,
    is_due: impl Fn(&K) -> bool,
) -> Option<(K, V)> {
    let is_full = map.len() > max;
    let entry = map.first_entry()?;
    (is_full || is_due(entry.key())).then(|| entry.remove_entry())
}

impl Sums {
    pub(super) fn new(plan: &Plan, shards: usize) -> Self {
        let positions = plan.links.len() * 2;
        Self {
            interval: plan.interval,
            bundles: plan.bundles.len(),
            newest: vec![vec![LinkStats::default(); positions]; shards],
            total: vec![LinkStats::default(); positions],
            groups: BTreeMap::new(),
            tails: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, source: usize, counters: Counters) {
        // All shards sample at the same times, and once more at the end of their run.
        let is_sampling_time =
            counters.at.as_nanos().is_multiple_of(self.interval.as_nanos().max(1))
                || (self.tails.len() >= self.newest.len()
                    && !self.tails.contains_key(&counters.at));
        let groups = if is_sampling_time { &mut self.groups } else { &mut self.tails };
        let group = groups.entry(counters.at).or_default();
        for row in &counters.links {
            let Some(last) = self.newest[source].get_mut(row.position as usize) else { continue };
            group.add(row, last);
        }
        group.shares.extend(counters.shares.into_iter().map(|row| (source, row.into())));
        let bundles = counters.bundles.iter();
        group.bundles.extend(bundles.filter_map(|row| Some((row.bundle, row.status()?))));
        let changes = counters.changes.iter();
        group.changes.extend(changes.filter_map(|row| Some((row.bundle, row.transition()?))));
    }

    /// Takes the counters before `until` in time order. All shards have reached `until`.
    pub(super) fn take_until(&mut self, until: Time) -> Vec<Batch> {
        let mut batches = Vec::new();
        while let Some((at, mut group)) =
            take_due(&mut self.groups, MAX_PENDING_GROUPS, |at| *at < until)
        {
            while let Some(tail) = self.tails.first_entry().filter(|tail| *tail.key() <= at) {
                group.add_earlier(tail.remove());
            }
            batches.push(self.batch(at, group));
        }
        batches
    }

    /// Takes the remaining counters. The last counters of all shards, at slightly different times,
    /// become one batch.
    pub(super) fn take_rest(&mut self) -> Vec<Batch> {
        let mut batches = self.take_until(Time::MAX);
        let tails = std::mem::take(&mut self.tails);
        let mut last: Option<(Time, Group)> = None;
        for (at, tail) in tails {
            let (_, mut group) = last.take().unwrap_or_default();
            group.add_earlier(tail);
            last = Some((at, group));
        }
        batches.extend(last.map(|(at, group)| self.batch(at, group)));
        batches
    }

    fn batch(&mut self, at: Time, group: Group) -> Batch {
        let mut shares = group.shares;
        shares.sort_by_key(|(source, _)| *source);
        let links = group.links.into_iter().map(|(position, (increase, level))| {
            let total = &mut self.total[position as usize];
            *total = combine(total, &increase, u64::saturating_add);
            (position, total.clone(), level)
        });
        let statuses = (0..self.bundles as u32).map(|at| group.bundles.get(&at).cloned());
        Batch {
            at,
            links: links.collect(),
            shares: shares.into_iter().map(|(_, share)| share).collect(),
            bundles: statuses.collect(),
            bundle_changes: group.changes,
        }
    }
}

impl Group {
    /// Adds a row of a shard whose previous counters are `last`.
    fn add(&mut self, row: &LinkRow, last: &mut LinkStats) {
        // A counter that decreases is invalid: its previous value is used.
        let now = combine(&row.stats(), last, u64::max);
        let increase = combine(&now, last, u64::saturating_sub);
        *last = now;
        let (stats, level) = self.links.entry(row.position).or_default();
        *stats = combine(stats, &increase, u64::saturating_add);
        *level = add_levels(level, &row.level());
    }

    fn add_earlier(&mut self, earlier: Self) {
        for (position, (increase, queue)) in earlier.links {
            let (stats, level) = self.links.entry(position).or_default();
            *stats = combine(stats, &increase, u64::saturating_add);
            *level = add_levels(level, &queue);
        }
        for (source, share) in earlier.shares {
            let key = |share: &Share| (share.from, share.to, share.flow, share.since);
            if !self.shares.iter().any(|(_, known)| key(known) == key(&share)) {
                self.shares.push((source, share));
            }
        }
        for (bundle, status) in earlier.bundles {
            self.bundles.entry(bundle).or_insert(status);
        }
        self.changes.splice(..0, earlier.changes);
    }
}

/// The sum of two queue lengths. The sum of the peaks is an upper bound.
fn add_levels(a: &QueueLevel, b: &QueueLevel) -> QueueLevel {
    QueueLevel {
        packets: a.packets.saturating_add(b.packets),
        bytes: a.bytes.saturating_add(b.bytes),
        peak_packets: a.peak_packets.saturating_add(b.peak_packets),
        peak_bytes: a.peak_bytes.saturating_add(b.peak_bytes),
        peak_delay: a.peak_delay.max(b.peak_delay),
    }
}

fn combine(a: &LinkStats, b: &LinkStats, by: impl Fn(u64, u64) -> u64) -> LinkStats {
    LinkStats {
        offered_packets: by(a.offered_packets, b.offered_packets),
        offered_bytes: by(a.offered_bytes, b.offered_bytes),
        sent_packets: by(a.sent_packets, b.sent_packets),
        sent_bytes: by(a.sent_bytes, b.sent_bytes),
        delivered_packets: by(a.delivered_packets, b.delivered_packets),
        delivered_bytes: by(a.delivered_bytes, b.delivered_bytes),
        drops: std::array::from_fn(|at| by(a.drops[at], b.drops[at])),
        marked: by(a.marked, b.marked),
        duplicated: by(a.duplicated, b.duplicated),
        corrupted: by(a.corrupted, b.corrupted),
        reordered: by(a.reordered, b.reordered),
    }
}
