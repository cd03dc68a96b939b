//! A ladder queue (W. T. Tang et al., "Ladder queue: an O(1) priority queue structure for
//! large-scale discrete event simulation", 2005): an unsorted top, rungs of decreasing bucket
//! width, a sorted bottom.

use super::Queue;

/// Buckets with more events than this are split into another rung.
const THRESHOLD: usize = 50;

struct Rung {
    start: u64,
    width: u64,
    /// Index of the next bucket.
    present: usize,
    buckets: Vec<Vec<(u64, u32)>>,
}

impl Rung {
    /// Distributes events over buckets whose width is the mean distance of events.
    fn new(start: u64, end: u64, mut events: Vec<(u64, u32)>, spare: &mut Spare) -> Self {
        let width = ((end - start) / events.len() as u64).max(1);
        let count = ((end - start) / width + 1) as usize;
        let buckets = (0..count).map(|_| spare.pop().unwrap_or_default()).collect();
        let mut rung = Self { start, width, present: 0, buckets };
        for (at, event) in events.drain(..) {
            rung.buckets[((at - start) / width) as usize].push((at, event));
        }
        spare.push(events);
        rung
    }

    fn present_start(&self) -> u64 {
        self.start + self.present as u64 * self.width
    }
}

type Spare = Vec<Vec<(u64, u32)>>;

#[derive(Default)]
pub(crate) struct Ladder {
    top: Vec<(u64, u32)>,
    top_start: u64,
    rungs: Vec<Rung>,
    /// In descending order of time.
    bottom: Vec<(u64, u32)>,
    spare: Spare,
}

impl Ladder {
    fn refill(&mut self) -> Option<()> {
        loop {
            let Some(rung) = self.rungs.last_mut() else {
                let least = self.top.iter().map(|event| event.0).min()?;
                let most = self.top.iter().map(|event| event.0).max()?;
                let events = std::mem::replace(&mut self.top, self.spare.pop().unwrap_or_default());
                self.top_start = most + 1;
                self.rungs.push(Rung::new(least, most, events, &mut self.spare));
                continue;
            };
            while rung.buckets.get(rung.present).is_some_and(Vec::is_empty) {
                rung.present += 1;
            }
            if rung.present == rung.buckets.len() {
                self.spare.extend(self.rungs.pop().into_iter().flat_map(|rung| rung.buckets));
                continue;
            }
            let start = rung.present_start();
            let end = start + rung.width - 1;
            let mut events = std::mem::take(&mut rung.buckets[rung.present]);
            rung.present += 1;
            if events.len() > THRESHOLD && start < end {
                let rung = Rung::new(start, end, events, &mut self.spare);
                self.rungs.push(rung);
                continue;
            }
            events.reverse();
            events.sort_by_key(|event| std::cmp::Reverse(event.0));
            let empty = std::mem::replace(&mut self.bottom, events);
            self.spare.push(empty);
            return Some(());
        }
    }
}

impl Queue for Ladder {
    fn add(&mut self, at: u64, event: u32) {
        if at >= self.top_start {
            self.top.push((at, event));
            return;
        }
        for rung in &mut self.rungs {
            if at >= rung.present_start() {
                let place = ((at - rung.start) / rung.width) as usize;
                if let Some(bucket) = rung.buckets.get_mut(place) {
                    bucket.push((at, event));
                    return;
                }
            }
        }
        let place = self.bottom.partition_point(|other| other.0 > at);
        self.bottom.insert(place, (at, event));
    }

    fn take(&mut self) -> Option<(u64, u32)> {
        if self.bottom.is_empty() {
            self.refill()?;
        }
        self.bottom.pop()
    }
}
