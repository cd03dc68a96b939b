//! Traffic classes by DSCP: deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) and strict
//! priority. Each class has its own queue limit.

use base::{Bytes, Time};

use crate::backlog::{Backlog, Load, class_of};
use crate::{DropReason, Queue, Queued, Verdicts};

#[derive(Debug)]
struct Classes(Vec<Backlog>);

impl Classes {
    fn new(count: usize) -> Self {
        Self((0..count.max(1)).map(|_| Backlog::default()).collect())
    }

    fn class(&mut self, entry: &Queued) -> &mut Backlog {
        let class = class_of(entry.dscp, self.0.len());
        &mut self.0[class]
    }

    fn enqueue(&mut self, entry: Queued, load: &mut Load, verdicts: &mut Verdicts) {
        let class = self.class(&entry);
        let own = Load { packets: class.entries.len(), bytes: class.bytes, ..*load };
        if own.is_full(entry.size) {
            return verdicts.drop(entry, DropReason::QueueFull);
        }
        class.push(entry, load);
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.0.iter_mut().flat_map(Backlog::drain).collect()
    }
}

/// Strict priority: a class sends only while all classes before it are empty.
#[derive(Debug)]
pub(crate) struct Priority(Classes);

impl Priority {
    pub(crate) fn new(bands: u32) -> Self {
        Self(Classes::new(bands as usize))
    }
}

impl Queue for Priority {
    fn enqueue(&mut self, _: Time, entry: Queued, load: &mut Load, verdicts: &mut Verdicts) {
        self.0.enqueue(entry, load, verdicts);
    }

    fn dequeue(&mut self, _: Time, load: &mut Load, _: &mut Verdicts) -> Option<Queued> {
        self.0.0.iter_mut().find_map(|class| class.pop(load))
    }

    fn push(&mut self, entry: Queued, load: &mut Load) {
        self.0.class(&entry).push(entry, load);
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.0.drain()
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
    pub(crate) fn new(quanta: &[Bytes]) -> Self {
        let quanta = if quanta.is_empty() { &[Bytes::ZERO] } else { quanta };
        Self {
            classes: Classes::new(quanta.len()),
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
    fn enqueue(&mut self, _: Time, entry: Queued, load: &mut Load, verdicts: &mut Verdicts) {
        self.classes.enqueue(entry, load, verdicts);
    }

    fn dequeue(&mut self, _: Time, load: &mut Load, _: &mut Verdicts) -> Option<Queued> {
        if load.packets == 0 {
            return None;
        }
        loop {
            let backlog = &mut self.classes.0[self.turn];
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
                return backlog.pop(load);
            }
            self.next_turn();
        }
    }

    fn push(&mut self, entry: Queued, load: &mut Load) {
        self.classes.class(&entry).push(entry, load);
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.classes.drain()
    }
}
