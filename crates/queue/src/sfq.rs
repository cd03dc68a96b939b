//! Stochastic fair queueing (`McKenney`, INFOCOM 1990): hashed flows take turns; when the queue is
//! full the longest flow loses its newest packet.

use std::collections::VecDeque;

use base::{Bytes, Span, Time};

use crate::backlog::{Backlog, over};
use crate::{DropReason, Queue, QueueLimit, Queued, Verdicts};

#[derive(Debug)]
struct Flow {
    backlog: Backlog,
    deficit: i64,
}

/// Round robin over hashed flows.
#[derive(Debug)]
pub(crate) struct Sfq {
    limit: QueueLimit,
    quantum: i64,
    perturb: Option<Span>,
    perturbed: Time,
    salt: u32,
    flows: Vec<Flow>,
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
        let flow = || Flow { backlog: Backlog::new(), deficit: 0 };
        Self {
            limit,
            quantum: quantum.count().max(1) as i64,
            perturb,
            perturbed: Time::ZERO,
            salt: 0,
            flows: (0..flows.max(1)).map(|_| flow()).collect(),
            turns: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    fn push(&mut self, entry: Queued) {
        let hash = (entry.flow ^ self.salt).wrapping_mul(0x9e37_79b1) >> 7;
        let index = hash % self.flows.len() as u32;
        self.packets += 1;
        self.bytes += u64::from(entry.size);
        let flow = &mut self.flows[index as usize];
        if flow.backlog.is_empty() {
            flow.deficit = self.quantum;
            self.turns.push_back(index);
        }
        flow.backlog.push(entry);
    }

    fn drop_from_longest(&mut self, verdicts: &mut Verdicts) {
        // Only flows that wait have a turn; there may be many more.
        let longest = |index: &usize| (self.flows[*index].backlog.bytes, *index);
        let turns = self.turns.iter().map(|turn| *turn as usize);
        let Some(index) = turns.max_by_key(longest) else { return };
        let flow = &mut self.flows[index];
        if let Some(entry) = flow.backlog.pop_last() {
            self.packets -= 1;
            self.bytes -= u64::from(entry.size);
            verdicts.drop(entry, DropReason::QueueFull);
        }
        if flow.backlog.is_empty() {
            self.turns.retain(|turn| *turn as usize != index);
        }
    }

    /// A new hash, with what waits moved along, so that two flows do not share a queue for ever.
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
            let index = *self.turns.front()?;
            let flow = &mut self.flows[index as usize];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                self.turns.rotate_left(1);
                continue;
            }
            let entry = flow.backlog.pop()?;
            flow.deficit -= i64::from(entry.size);
            if flow.backlog.is_empty() {
                self.turns.pop_front();
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
        let mut entries: Vec<_> =
            self.flows.iter_mut().flat_map(|flow| flow.backlog.drain()).collect();
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
