//! Queues of flows, which share the buckets of a hash.

use std::collections::BTreeMap;

use crate::Queued;
use crate::backlog::{Backlog, Load};

/// The queue of a bucket. `S` is the state of its queue management.
#[derive(Debug, Default)]
pub(crate) struct Flow<S> {
    pub(crate) backlog: Backlog,
    pub(crate) state: S,
    /// Bytes that the flow may still send in this round; at most 0 after its last packet.
    pub(crate) credits: i64,
    /// Whether the scheduler has a turn for it.
    listed: bool,
}

impl<S> Flow<S> {
    /// Adds a packet. Returns whether the flow needs a turn; it then has one quantum.
    pub(crate) fn push(&mut self, entry: Queued, quantum: i64, load: &mut Load) -> bool {
        self.backlog.push(entry, load);
        if self.listed {
            return false;
        }
        (self.listed, self.credits) = (true, quantum);
        true
    }
}

/// Number of empty flows that keep their memory for reuse.
const SPARE_FLOWS: usize = 64;

/// Flows by bucket. Those without packets and state need no memory.
#[derive(Debug)]
pub(crate) struct Flows<S> {
    buckets: BTreeMap<u32, Flow<S>>,
    spare: Vec<Backlog>,
}

impl<S: Default + PartialEq> Flows<S> {
    pub(crate) fn new() -> Self {
        Self { buckets: BTreeMap::new(), spare: Vec::new() }
    }

    pub(crate) fn of(&mut self, bucket: u32) -> &mut Flow<S> {
        self.buckets.entry(bucket).or_insert_with(|| {
            let backlog = self.spare.pop().unwrap_or_default();
            Flow { backlog, ..Flow::default() }
        })
    }

    pub(crate) fn longest(&mut self) -> Option<(u32, &mut Flow<S>)> {
        let longest = |(bucket, flow): &(&u32, &mut Flow<S>)| (flow.backlog.bytes, **bucket);
        let (bucket, flow) = self.buckets.iter_mut().max_by_key(longest)?;
        Some((*bucket, flow))
    }

    /// Ends the turns of an empty flow.
    pub(crate) fn unlist(&mut self, bucket: u32) {
        let flow = self.of(bucket);
        flow.listed = false;
        if flow.state == S::default()
            && let Some(flow) = self.buckets.remove(&bucket)
            && self.spare.len() < SPARE_FLOWS
        {
            self.spare.push(flow.backlog);
        }
    }

    /// Removes all packets and turns.
    pub(crate) fn drain(&mut self) -> Vec<Queued> {
        let drain = |flow: &mut Flow<S>| {
            flow.listed = false;
            flow.backlog.drain()
        };
        let entries = self.buckets.values_mut().flat_map(drain).collect();
        self.buckets.retain(|_, flow| flow.state != S::default());
        entries
    }
}

#[cfg(test)]
mod tests {
    use base::{Bytes, Span, Time};

    use super::*;
    use crate::sfq::Sfq;
    use crate::{Ecn, Queue, QueueLimit, Verdicts};

    #[test]
    fn only_flows_that_wait_need_memory() {
        let mut sfq = Sfq::new(65_536, Bytes::new(1514), Some(Span::from_secs(1)));
        let mut load = Load { limit: QueueLimit::Packets(500), packets: 0, bytes: 0 };
        let mut packets = crate::Slab::default();
        let mut verdicts = Verdicts::default();
        for flow in 0..1_000 {
            let since = Time::ZERO + Span::from_millis(u64::from(flow));
            let slot = packets.put(());
            let entry = Queued { since, slot, size: 1000, flow, dscp: 0, ecn: Ecn::NotCapable };
            sfq.enqueue(since, entry, &mut load, &mut verdicts);
        }
        assert_eq!(load.packets, 500);
        let flows = sfq.flows.buckets.len();
        assert!((400..=500).contains(&flows), "{flows}");
        while sfq.dequeue(Time::ZERO, &mut load, &mut verdicts).is_some() {}
        assert!(sfq.flows.buckets.is_empty() && sfq.turns.is_empty());
        assert_eq!(sfq.flows.spare.len(), SPARE_FLOWS);
    }
}
