//! Stochastic fair queueing (`McKenney`, INFOCOM 1990): hashed flows are served round robin; if the
//! queue is full, the longest flow loses its newest packet.

use std::collections::VecDeque;

use base::{Bytes, Span, Time};

use crate::backlog::Load;
use crate::flows::Flows;
use crate::{DropReason, Queue, Queued, Verdicts};

/// Round robin over hashed flows.
#[derive(Debug)]
pub(crate) struct Sfq {
    quantum: i64,
    perturb: Option<Span>,
    perturbed: Time,
    salt: u32,
    /// Number of hash buckets.
    buckets: u32,
    pub(crate) flows: Flows<()>,
    pub(crate) turns: VecDeque<u32>,
}

impl Sfq {
    pub(crate) fn new(flows: u32, quantum: Bytes, perturb: Option<Span>) -> Self {
        Self {
            quantum: quantum.count().max(1) as i64,
            perturb,
            perturbed: Time::ZERO,
            salt: 0,
            buckets: flows.max(1),
            flows: Flows::new(),
            turns: VecDeque::new(),
        }
    }

    fn drop_from_longest(&mut self, load: &mut Load, verdicts: &mut Verdicts) {
        let Some((bucket, flow)) = self.flows.longest() else { return };
        if let Some(entry) = flow.backlog.pop_last(load) {
            verdicts.drop(entry, DropReason::QueueFull);
        }
        if flow.backlog.is_empty() {
            self.flows.unlist(bucket);
            self.turns.retain(|turn| *turn != bucket);
        }
    }

    /// Changes the hash and moves the queued packets: flows that share a queue are separated.
    fn perturb(&mut self, now: Time, load: &mut Load) {
        let Some(period) = self.perturb else { return };
        if now.since(self.perturbed) < period {
            return;
        }
        self.perturbed = now;
        self.salt = self.salt.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        let mut entries = self.drain();
        entries.sort_by_key(|entry| entry.since);
        load.clear();
        for entry in entries {
            self.push(entry, load);
        }
    }
}

impl Queue for Sfq {
    fn enqueue(&mut self, now: Time, entry: Queued, load: &mut Load, verdicts: &mut Verdicts) {
        self.perturb(now, load);
        self.push(entry, load);
        while load.is_over() {
            self.drop_from_longest(load, verdicts);
        }
    }

    fn dequeue(&mut self, _: Time, load: &mut Load, _: &mut Verdicts) -> Option<Queued> {
        loop {
            let bucket = *self.turns.front()?;
            let flow = self.flows.of(bucket);
            if flow.credits <= 0 {
                flow.credits += self.quantum;
                self.turns.rotate_left(1);
                continue;
            }
            let entry = flow.backlog.pop(load)?;
            flow.credits -= i64::from(entry.size);
            if flow.backlog.is_empty() {
                self.turns.pop_front();
                self.flows.unlist(bucket);
            }
            return Some(entry);
        }
    }

    fn push(&mut self, entry: Queued, load: &mut Load) {
        let hash = (entry.flow ^ self.salt).wrapping_mul(0x9e37_79b1) >> 7;
        let bucket = hash % self.buckets;
        if self.flows.of(bucket).push(entry, self.quantum, load) {
            self.turns.push_back(bucket);
        }
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.turns.clear();
        self.flows.drain()
    }
}
