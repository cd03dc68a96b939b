//! Stochastic fair queueing (`McKenney`, INFOCOM 1990): hashed flows are served round robin; if the
//! queue is full, the longest flow loses its newest packet.

use std::collections::{BTreeMap, VecDeque};

use base::{Bytes, Span, Time};

use crate::backlog::{Backlog, over};
use crate::{DropReason, Queue, QueueLimit, Queued, Verdicts};

#[derive(Debug)]
struct Flow {
    backlog: Backlog,
    deficit: i64,
}

/// Number of empty flows that keep their memory for reuse.
const SPARE_FLOWS: usize = 64;

/// Round robin over hashed flows.
#[derive(Debug)]
pub(crate) struct Sfq {
    limit: QueueLimit,
    quantum: i64,
    perturb: Option<Span>,
    perturbed: Time,
    salt: u32,
    /// Number of hash buckets.
    buckets: u32,
    /// Flows with queued packets, by bucket.
    flows: BTreeMap<u32, Flow>,
    spare: Vec<Backlog>,
    turns: VecDeque<u32>,
    packets: usize,
    bytes: u64,
}

impl Sfq {
    pub(crate) fn new(
        limit: QueueLimit,
        flows: u32,
        quantum: Bytes,
        perturb: Option<Span>,
    ) -> Self {
        Self {
            limit,
            quantum: quantum.count().max(1) as i64,
            perturb,
            perturbed: Time::ZERO,
            salt: 0,
            buckets: flows.max(1),
            flows: BTreeMap::new(),
            spare: Vec::new(),
            turns: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    fn push(&mut self, entry: Queued) {
        let hash = (entry.flow ^ self.salt).wrapping_mul(0x9e37_79b1) >> 7;
        let bucket = hash % self.buckets;
        self.packets += 1;
        self.bytes += u64::from(entry.size);
        let flow = self.flows.entry(bucket).or_insert_with(|| {
            self.turns.push_back(bucket);
            let backlog = self.spare.pop().unwrap_or(Backlog::new());
            Flow { backlog, deficit: self.quantum }
        });
        flow.backlog.push(entry);
    }

    fn forget(&mut self, bucket: u32) {
        if let Some(flow) = self.flows.remove(&bucket)
            && self.spare.len() < SPARE_FLOWS
        {
            self.spare.push(flow.backlog);
        }
    }

    fn drop_from_longest(&mut self, verdicts: &mut Verdicts) {
        let longest = |(bucket, flow): &(&u32, &mut Flow)| (flow.backlog.bytes, **bucket);
        let Some((&bucket, flow)) = self.flows.iter_mut().max_by_key(longest) else { return };
        if let Some(entry) = flow.backlog.pop_last() {
            self.packets -= 1;
            self.bytes -= u64::from(entry.size);
            verdicts.drop(entry, DropReason::QueueFull);
        }
        if flow.backlog.is_empty() {
            self.forget(bucket);
            self.turns.retain(|turn| *turn != bucket);
        }
    }

    /// Changes the hash and moves the queued packets: flows that share a queue are separated.
    fn perturb(&mut self, now: Time) {
        let Some(period) = self.perturb else { return };
        if now.since(self.perturbed) < period {
            return;
        }
        self.perturbed = now;
        self.salt = self.salt.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        let entries = self.drain();
        self.restore(entries);
    }
}

impl Queue for Sfq {
    fn enqueue(&mut self, now: Time, entry: Queued, verdicts: &mut Verdicts) {
        self.perturb(now);
        self.push(entry);
        while over(self.limit, self.packets, self.bytes) {
            self.drop_from_longest(verdicts);
        }
    }

    fn dequeue(&mut self, _now: Time, _verdicts: &mut Verdicts) -> Option<Queued> {
        loop {
            let bucket = *self.turns.front()?;
            let flow = self.flows.get_mut(&bucket)?;
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                self.turns.rotate_left(1);
                continue;
            }
            let entry = flow.backlog.pop()?;
            flow.deficit -= i64::from(entry.size);
            if flow.backlog.is_empty() {
                self.turns.pop_front();
                self.forget(bucket);
            }
            self.packets -= 1;
            self.bytes -= u64::from(entry.size);
            return Some(entry);
        }
    }

    fn packets(&self) -> usize {
        self.packets
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn drain(&mut self) -> Vec<Queued> {
        (self.packets, self.bytes) = (0, 0);
        self.turns.clear();
        let flows = std::mem::take(&mut self.flows);
        let mut entries: Vec<_> =
            flows.into_values().flat_map(|mut flow| flow.backlog.drain()).collect();
        entries.sort_by_key(|entry| entry.since);
        entries
    }

    fn set_limit(&mut self, limit: QueueLimit) {
        self.limit = limit;
    }

    fn restore(&mut self, entries: Vec<Queued>) {
        for entry in entries {
            self.push(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ecn;

    #[test]
    fn only_flows_that_wait_need_memory() {
        let mut sfq =
            Sfq::new(QueueLimit::Packets(500), 65_536, Bytes::new(1514), Some(Span::from_secs(1)));
        let mut packets = crate::Slab::default();
        let mut verdicts = Verdicts::default();
        for flow in 0..1_000 {
            let since = Time::ZERO + Span::from_millis(u64::from(flow));
            let slot = packets.put(());
            let entry = Queued { since, slot, size: 1000, flow, dscp: 0, ecn: Ecn::NotCapable };
            sfq.enqueue(since, entry, &mut verdicts);
        }
        assert_eq!(sfq.packets(), 500);
        assert!((400..=500).contains(&sfq.flows.len()), "{}", sfq.flows.len());
        while sfq.dequeue(Time::ZERO, &mut verdicts).is_some() {}
        assert!(sfq.flows.is_empty() && sfq.turns.is_empty());
        assert_eq!(sfq.spare.len(), SPARE_FLOWS);
    }
}
