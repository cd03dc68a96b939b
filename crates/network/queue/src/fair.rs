//! Fair queueing with active queue management in each flow, as FQ-CoDel (RFC 8290): hashed flows,
//! new flows first.

use std::collections::VecDeque;

use base::{Bytes, RandomStream, Time};

use crate::aqm::Aqm;
use crate::backlog::{Backlog, over};
use crate::{DropReason, Queue, QueueLimit, Queued, Verdicts};

#[derive(Debug)]
struct Flow<A> {
    backlog: Backlog,
    state: A,
    /// Bytes that the flow may still send in this round (RFC 8290 §4.2); negative
    /// after the last packet.
    credits: i64,
    /// Whether it is in one of the two lists.
    listed: bool,
}

/// The scheduler of RFC 8290 §4.
#[derive(Debug)]
pub(crate) struct Fair<A: Aqm> {
    parameters: A::Parameters,
    limit: QueueLimit,
    random: RandomStream,
    quantum: i64,
    flows: Vec<Flow<A>>,
    fresh: VecDeque<u32>,
    old: VecDeque<u32>,
    packets: usize,
    bytes: u64,
}

impl<A: Aqm> Fair<A> {
    pub(crate) fn new(
        parameters: A::Parameters,
        (limit, random): (QueueLimit, RandomStream),
        flows: u32,
        quantum: Bytes,
    ) -> Self {
        let flow =
            || Flow { backlog: Backlog::new(), state: A::default(), credits: 0, listed: false };
        Self {
            parameters,
            limit,
            random,
            quantum: quantum.count().max(1) as i64,
            flows: (0..flows.max(1)).map(|_| flow()).collect(),
            fresh: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// Above the limit, drops from the head of the flow with the most bytes (§4.1).
    fn drop_from_fattest(&mut self, verdicts: &mut Verdicts) {
        // Only listed flows have packets; there may be many more flows.
        let fattest = |index: &usize| (self.flows[*index].backlog.bytes, *index);
        let listed = self.fresh.iter().chain(&self.old).map(|index| *index as usize);
        let fattest = listed.max_by_key(fattest);
        if let Some(entry) = fattest.and_then(|index| self.flows[index].backlog.pop()) {
            self.packets -= 1;
            self.bytes -= u64::from(entry.size);
            verdicts.drop(entry, DropReason::QueueFull);
        }
    }

    fn index(&self, entry: &Queued) -> u32 {
        entry.flow % self.flows.len() as u32
    }

    fn push(&mut self, entry: Queued) {
        let index = self.index(&entry);
        self.packets += 1;
        self.bytes += u64::from(entry.size);
        let flow = &mut self.flows[index as usize];
        flow.backlog.push(entry);
        if !flow.listed {
            flow.listed = true;
            flow.credits = self.quantum;
            self.fresh.push_back(index);
        }
    }
}

impl<A: Aqm> Queue for Fair<A> {
    fn enqueue(&mut self, now: Time, entry: Queued, verdicts: &mut Verdicts) {
        let index = self.index(&entry) as usize;
        let Flow { state, backlog, .. } = &mut self.flows[index];
        let random = &mut self.random;
        let kept = state.arrive(now, &self.parameters, entry, backlog, random, verdicts);
        let Some(entry) = kept else { return };
        self.push(entry);
        while over(self.limit, self.packets, self.bytes) {
            self.drop_from_fattest(verdicts);
        }
    }

    fn dequeue(&mut self, now: Time, verdicts: &mut Verdicts) -> Option<Queued> {
        loop {
            let from_fresh = !self.fresh.is_empty();
            let index = if from_fresh { self.fresh.front() } else { self.old.front() }.copied()?;
            let flow = &mut self.flows[index as usize];
            if flow.credits <= 0 {
                flow.credits += self.quantum;
                if from_fresh {
                    self.fresh.pop_front()
                } else {
                    self.old.pop_front()
                };
                self.old.push_back(index);
                continue;
            }
            let (packets, bytes) = (flow.backlog.len(), flow.backlog.bytes);
            let entry = flow.state.dequeue(now, &self.parameters, &mut flow.backlog, verdicts);
            self.packets -= packets - flow.backlog.len();
            self.bytes -= bytes - flow.backlog.bytes;
            if let Some(entry) = entry {
                flow.credits -= i64::from(entry.size);
                return Some(entry);
            }
            // An emptied new flow takes one turn among the old flows; otherwise it could
            // always be served first.
            if from_fresh {
                self.fresh.pop_front();
                self.old.push_back(index);
            } else {
                self.old.pop_front();
                flow.listed = false;
            }
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
        self.fresh.clear();
        self.old.clear();
        let mut entries: Vec<_> = self
            .flows
            .iter_mut()
            .flat_map(|flow| {
                flow.listed = false;
                flow.backlog.drain()
            })
            .collect();
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
