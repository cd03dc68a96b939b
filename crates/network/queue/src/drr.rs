//! Traffic classes by DSCP: deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) and strict
//! priority. Each class has its own queue limit.

use base::{Bytes, Time};

use crate::backlog::{Backlog, class_of, full};
use crate::{DropReason, Queue, QueueLimit, Queued, Verdicts};

#[derive(Debug)]
struct Classes {
    limit: QueueLimit,
    backlogs: Vec<Backlog>,
}

impl Classes {
    fn new(count: usize, limit: QueueLimit) -> Self {
        Self { limit, backlogs: (0..count.max(1)).map(|_| Backlog::new()).collect() }
    }

    fn enqueue(&mut self, entry: Queued, verdicts: &mut Verdicts) {
        let class = class_of(entry.dscp, self.backlogs.len());
        let backlog = &mut self.backlogs[class];
        if full(self.limit, backlog.len(), backlog.bytes, entry.size) {
            return verdicts.drop(entry, DropReason::QueueFull);
        }
        backlog.push(entry);
    }

    fn packets(&self) -> usize {
        self.backlogs.iter().map(Backlog::len).sum()
    }

    fn bytes(&self) -> u64 {
        self.backlogs.iter().map(|backlog| backlog.bytes).sum()
    }

    fn drain(&mut self) -> Vec<Queued> {
        let mut entries: Vec<_> = self.backlogs.iter_mut().flat_map(Backlog::drain).collect();
        entries.sort_by_key(|entry| entry.since);
        entries
    }

    fn restore(&mut self, entries: Vec<Queued>) {
        for entry in entries {
            let class = class_of(entry.dscp, self.backlogs.len());
            self.backlogs[class].push(entry);
        }
    }
}

/// Strict priority: a class sends only while all classes before it are empty.
#[derive(Debug)]
pub(crate) struct Priority(Classes);

impl Priority {
    pub(crate) fn new(bands: u32, limit: QueueLimit) -> Self {
        Self(Classes::new(bands as usize, limit))
    }
}

impl Queue for Priority {
    fn enqueue(&mut self, _now: Time, entry: Queued, verdicts: &mut Verdicts) {
        self.0.enqueue(entry, verdicts);
    }

    fn dequeue(&mut self, _now: Time, _verdicts: &mut Verdicts) -> Option<Queued> {
        self.0.backlogs.iter_mut().find_map(Backlog::pop)
    }

    fn packets(&self) -> usize {
        self.0.packets()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.0.drain()
    }

    fn set_limit(&mut self, limit: QueueLimit) {
        self.0.limit = limit;
    }

    fn restore(&mut self, entries: Vec<Queued>) {
        self.0.restore(entries);
    }
}

/// Deficit round robin: in each round a class may send its quantum and its saved deficit.
#[derive(Debug)]
pub(crate) struct Drr {
    classes: Classes,
    quanta: Vec<u64>,
    deficits: Vec<u64>,
    turn: usize,
    /// Whether the class at `turn` has received its quantum in this round.
    served: bool,
}

impl Drr {
    pub(crate) fn new(quanta: &[Bytes], limit: QueueLimit) -> Self {
        let quanta = if quanta.is_empty() { &[Bytes::ZERO] } else { quanta };
        Self {
            classes: Classes::new(quanta.len(), limit),
            quanta: quanta.iter().map(|quantum| quantum.count().max(1)).collect(),
            deficits: vec![0; quanta.len()],
            turn: 0,
            served: false,
        }
    }

    fn next_turn(&mut self) {
        self.turn = (self.turn + 1) % self.quanta.len();
        self.served = false;
    }
}

impl Queue for Drr {
    fn enqueue(&mut self, _now: Time, entry: Queued, verdicts: &mut Verdicts) {
        self.classes.enqueue(entry, verdicts);
    }

    fn dequeue(&mut self, _now: Time, _verdicts: &mut Verdicts) -> Option<Queued> {
        if self.classes.packets() == 0 {
            return None;
        }
        loop {
            let backlog = &mut self.classes.backlogs[self.turn];
            let Some(size) = backlog.entries.front().map(|entry| u64::from(entry.size)) else {
                self.deficits[self.turn] = 0;
                self.next_turn();
                continue;
            };
            if !self.served {
                self.deficits[self.turn] += self.quanta[self.turn];
                self.served = true;
            }
            if size <= self.deficits[self.turn] {
                self.deficits[self.turn] -= size;
                return backlog.pop();
            }
            self.next_turn();
        }
    }

    fn packets(&self) -> usize {
        self.classes.packets()
    }

    fn bytes(&self) -> u64 {
        self.classes.bytes()
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.classes.drain()
    }

    fn set_limit(&mut self, limit: QueueLimit) {
        self.classes.limit = limit;
    }

    fn restore(&mut self, entries: Vec<Queued>) {
        self.classes.restore(entries);
    }
}
