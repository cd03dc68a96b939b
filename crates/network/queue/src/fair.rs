//! Fair queueing, with or without active queue management in each flow, as FQ-CoDel (RFC 8290):
//! hashed flows, new flows first.

use std::collections::VecDeque;

use base::{Bytes, RandomStream, Time};

use crate::aqm::Aqm;
use crate::backlog::Load;
use crate::flows::Flows;
use crate::{DropReason, Queue, Queued, Verdicts};

/// The scheduler of RFC 8290 §4.
#[derive(Debug)]
pub(crate) struct Fair<A: Aqm> {
    parameters: A::Parameters,
    random: RandomStream,
    quantum: i64,
    /// Number of hash buckets.
    buckets: u32,
    flows: Flows<A>,
    fresh: VecDeque<u32>,
    old: VecDeque<u32>,
}

impl<A: Aqm> Fair<A> {
    pub(crate) fn new(
        parameters: A::Parameters,
        random: RandomStream,
        flows: u32,
        quantum: Bytes,
    ) -> Self {
        Self {
            parameters,
            random,
            quantum: quantum.count().max(1) as i64,
            buckets: flows.max(1),
            flows: Flows::new(),
            fresh: VecDeque::new(),
            old: VecDeque::new(),
        }
    }
}

impl<A: Aqm> Queue for Fair<A> {
    fn enqueue(&mut self, now: Time, entry: Queued, load: &mut Load, verdicts: &mut Verdicts) {
        let bucket = entry.flow % self.buckets;
        let flow = self.flows.of(bucket);
        let (parameters, random) = (&self.parameters, &mut self.random);
        let kept = flow.state.arrive(now, parameters, entry, &flow.backlog, random, verdicts);
        let Some(entry) = kept else { return };
        if flow.push(entry, self.quantum, load) {
            self.fresh.push_back(bucket);
        }
        while load.is_over() {
            // §4.1: from the head of the flow with the most bytes.
            let longest = self.flows.longest();
            let Some(entry) = longest.and_then(|(_, flow)| flow.backlog.pop(load)) else { break };
            verdicts.drop(entry, DropReason::QueueFull);
        }
    }

    fn dequeue(&mut self, now: Time, load: &mut Load, verdicts: &mut Verdicts) -> Option<Queued> {
        loop {
            let is_fresh = !self.fresh.is_empty();
            let list = if is_fresh { &mut self.fresh } else { &mut self.old };
            let bucket = *list.front()?;
            let flow = self.flows.of(bucket);
            if flow.credits <= 0 {
                flow.credits += self.quantum;
                list.pop_front();
                self.old.push_back(bucket);
                continue;
            }
            let backlog = &mut flow.backlog;
            let entry = flow.state.dequeue(now, &self.parameters, backlog, load, verdicts);
            if let Some(entry) = entry {
                flow.credits -= i64::from(entry.size);
                return Some(entry);
            }
            // An emptied new flow takes one turn among the old flows; otherwise it could
            // always be served first.
            list.pop_front();
            if is_fresh {
                self.old.push_back(bucket);
            } else {
                self.flows.unlist(bucket);
            }
        }
    }

    fn push(&mut self, entry: Queued, load: &mut Load) {
        let bucket = entry.flow % self.buckets;
        if self.flows.of(bucket).push(entry, self.quantum, load) {
            self.fresh.push_back(bucket);
        }
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.fresh.clear();
        self.old.clear();
        self.flows.drain()
    }
}
