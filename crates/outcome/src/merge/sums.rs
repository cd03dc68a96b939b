//! Counters of several machines become those of one network.

use std::collections::BTreeMap;

use base::{Span, Time};
use bundler::sendbox::{Status, Transition};
use fabric::{LinkStats, QueueLevel, Share};
use lab::plan::Plan;

use super::take_due;
use crate::Batch;
use crate::observation::{Counters, LinkRow};

/// Moments that may wait for slower pieces, at most. Beyond them a piece whose times make no sense
/// is not waited for.
const MOST_GROUPS: usize = 1 << 16;

/// Sums by time.
#[derive(Debug)]
pub(super) struct Sums {
    interval: Span,
    bundles: usize,
    /// The newest counters of each piece, by position.
    seen: Vec<Vec<LinkStats>>,
    /// Those of all pieces together, as far as they were given out.
    whole: Vec<LinkStats>,
    groups: BTreeMap<Time, Group>,
    /// From the last counters of pieces, which come whenever each of them has ended.
    tails: BTreeMap<Time, Group>,
}

/// What happened up to one moment.
#[derive(Debug, Default)]
struct Group {
    /// By how much counters have grown, and what waited.
    links: BTreeMap<u32, (LinkStats, QueueLevel)>,
    shares: Vec<(usize, Share)>,
    bundles: BTreeMap<u32, Status>,
    changes: Vec<(u32, Transition)>,
}

impl Sums {
    pub(super) fn new(plan: &Plan, pieces: usize) -> Self {
        let positions = plan.links.len() * 2;
        Self {
            interval: plan.interval,
            bundles: plan.bundles.len(),
            seen: vec![vec![LinkStats::default(); positions]; pieces],
            whole: vec![LinkStats::default(); positions],
            groups: BTreeMap::new(),
            tails: BTreeMap::new(),
        }
    }

    /// Adds a piece's counters.
    pub(super) fn add(&mut self, source: usize, counters: Counters) {
        // All pieces look at the same times, and once more when each of them ends.
        let regular = counters.at.as_nanos().is_multiple_of(self.interval.as_nanos().max(1))
            || (self.tails.len() >= self.seen.len() && !self.tails.contains_key(&counters.at));
        let groups = if regular { &mut self.groups } else { &mut self.tails };
        let group = groups.entry(counters.at).or_default();
        for row in &counters.links {
            let Some(last) = self.seen[source].get_mut(row.position as usize) else { continue };
            group.add(row, last);
        }
        group.shares.extend(counters.shares.into_iter().map(|row| (source, row.into())));
        let bundles = counters.bundles.iter();
        group.bundles.extend(bundles.filter_map(|row| Some((row.bundle, row.status()?))));
        let changes = counters.changes.iter();
        group.changes.extend(changes.filter_map(|row| Some((row.bundle, row.transition()?))));
    }

    /// Counters up to before `until`, in the order of their times: all pieces have come so far.
    pub(super) fn until(&mut self, until: Time) -> Vec<Batch> {
        let mut batches = Vec::new();
        while let Some((at, mut group)) = take_due(&mut self.groups, MOST_GROUPS, |at| *at < until)
        {
            while let Some(tail) = self.tails.first_entry().filter(|tail| *tail.key() <= at) {
                group.grow(tail.remove());
            }
            batches.push(self.batch(at, group));
        }
        batches
    }

    /// All that is left. What pieces counted at their ends, at slightly different times, is one.
    pub(super) fn rest(&mut self) -> Vec<Batch> {
        let mut batches = self.until(Time::MAX);
        let tails = std::mem::take(&mut self.tails);
        let mut last: Option<(Time, Group)> = None;
        for (at, tail) in tails {
            let (_, mut group) = last.take().unwrap_or_default();
            group.grow(tail);
            last = Some((at, group));
        }
        batches.extend(last.map(|(at, group)| self.batch(at, group)));
        batches
    }

    fn batch(&mut self, at: Time, group: Group) -> Batch {
        let mut shares = group.shares;
        shares.sort_by_key(|(source, _)| *source);
        let links = group.links.into_iter().map(|(position, (grown, level))| {
            let whole = &mut self.whole[position as usize];
            *whole = combine(whole, &grown, u64::saturating_add);
            (position, whole.clone(), level)
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
    /// Adds a row of a piece whose counters were at `last` before.
    fn add(&mut self, row: &LinkRow, last: &mut LinkStats) {
        // Counters never go back; those that do are wrong, and count as they were.
        let now = combine(&row.stats(), last, u64::max);
        let grown = combine(&now, last, u64::saturating_sub);
        *last = now;
        let (stats, level) = self.links.entry(row.position).or_default();
        *stats = combine(stats, &grown, u64::saturating_add);
        *level = both(level, &row.level());
    }

    /// Adds what was counted before.
    fn grow(&mut self, earlier: Self) {
        for (position, (grown, queue)) in earlier.links {
            let (stats, level) = self.links.entry(position).or_default();
            *stats = combine(stats, &grown, u64::saturating_add);
            *level = both(level, &queue);
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

/// Queues of several machines as one: what waits adds up, and so, at most, do the peaks.
fn both(a: &QueueLevel, b: &QueueLevel) -> QueueLevel {
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
