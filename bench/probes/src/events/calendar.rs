//! A calendar queue (R. Brown, "Calendar queues: a fast O(1) priority queue implementation for the
//! simulation event set problem", 1988): sorted days of equal width; the array of a year's days is
//! halved and doubled with the number of events.

use super::Queue;

pub(crate) struct Calendar {
    /// In descending order, so that the earliest event is removed from the end.
    days: Vec<Vec<(u64, u32)>>,
    width: u64,
    /// Start of the day that is searched next.
    present: u64,
    len: usize,
}

impl Default for Calendar {
    fn default() -> Self {
        Self { days: vec![Vec::new(); 2], width: 1, present: 0, len: 0 }
    }
}

impl Calendar {
    fn day(&self, at: u64) -> usize {
        (at / self.width) as usize & (self.days.len() - 1)
    }

    fn put(&mut self, at: u64, event: u32) {
        let day = self.day(at);
        let events = &mut self.days[day];
        let place = events.partition_point(|other| other.0 > at);
        events.insert(place, (at, event));
    }

    /// Rebuilds the queue with `count` days, each as wide as the current distance of three events.
    fn resize(&mut self, count: usize) {
        let mut events: Vec<(u64, u32)> = Vec::with_capacity(self.len);
        for day in &mut self.days {
            events.extend(day.drain(..).rev());
        }
        events.sort_by_key(|event| event.0);
        let sample = &events[..events.len().min(1000)];
        if let (Some(first), Some(last)) = (sample.first(), sample.last()) {
            self.width = (3 * (last.0 - first.0) / sample.len() as u64).max(1);
            self.present = first.0 / self.width * self.width;
        }
        self.days = vec![Vec::new(); count];
        for (at, event) in events.into_iter().rev() {
            let day = self.day(at);
            self.days[day].push((at, event));
        }
    }
}

impl Queue for Calendar {
    fn add(&mut self, at: u64, event: u32) {
        self.put(at, event);
        self.present = self.present.min(at / self.width * self.width);
        self.len += 1;
        if self.len > 2 * self.days.len() {
            self.resize(2 * self.days.len());
        }
    }

    fn take(&mut self) -> Option<(u64, u32)> {
        if self.len == 0 {
            return None;
        }
        self.len -= 1;
        for _ in 0..self.days.len() {
            let day = self.day(self.present);
            if let Some(&(at, event)) = self.days[day].last()
                && at - self.present < self.width
            {
                self.days[day].pop();
                if self.len < self.days.len() / 2 && self.days.len() > 2 {
                    self.resize(self.days.len() / 2);
                }
                return Some((at, event));
            }
            self.present += self.width;
        }
        // There is no event within a year.
        let day = self
            .days
            .iter_mut()
            .filter(|day| !day.is_empty())
            .min_by_key(|day| day.last().map(|event| event.0))?;
        let (at, event) = day.pop()?;
        self.present = at / self.width * self.width;
        Some((at, event))
    }
}
