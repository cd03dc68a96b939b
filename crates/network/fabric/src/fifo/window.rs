//! Data packets in flight, by the time window in which they arrive.

use std::collections::VecDeque;

/// A data packet that arrives for a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Nanoseconds since the start of its window.
    pub(super) offset: u32,
    /// The directed link at which it arrives.
    pub(super) link: u32,
    pub(super) packet: Packet,
}

/// A data packet on its path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Packet {
    /// Index in the list of all paths of the link at which it arrives.
    pub(super) place: u32,
    /// Whether it is its session's last.
    pub(super) last: bool,
    /// The number of times that its last link had gone down when it was sent.
    pub(super) era: u8,
}

/// Future windows, from the one after the present, of 2^`bits` ns each.
#[derive(Debug, Default)]
pub(super) struct Windows {
    bits: u32,
    /// The present window.
    index: u64,
    /// The windows after it, in order.
    ahead: VecDeque<Vec<Arrival>>,
    /// Empty vectors, kept for their memory.
    spare: Vec<Vec<Arrival>>,
    scratch: Vec<Arrival>,
    len: usize,
}

/// Maximum number of vectors kept for later windows.
const SPARE: usize = 16;

/// Maximum number of windows after the present one.
const WINDOW_RANGE: u64 = 1 << 16;

impl Windows {
    pub(super) fn new(bits: u32) -> Self {
        Self { bits, ..Self::default() }
    }

    /// The time at which the present window ends.
    pub(super) fn end(&self) -> u64 {
        (self.index + 1).saturating_mul(1 << self.bits)
    }

    pub(super) fn start(&self) -> u64 {
        self.index << self.bits
    }

    /// Whether a time is after the present window and within the stored ones.
    #[inline]
    pub(super) fn hold(&self, at: u64) -> bool {
        (at >> self.bits).wrapping_sub(self.index + 1) < WINDOW_RANGE
    }

    /// Adds an arrival at a time that the windows [hold](Self::hold).
    #[inline]
    pub(super) fn push(&mut self, at: u64, link: u32, packet: Packet) {
        let ahead = ((at >> self.bits) - self.index - 1) as usize;
        let offset = (at & ((1 << self.bits) - 1)) as u32;
        self.len += 1;
        if let Some(window) = self.ahead.get_mut(ahead) {
            window.push(Arrival { offset, link, packet });
            return;
        }
        while self.ahead.len() <= ahead {
            self.ahead.push_back(self.spare.pop().unwrap_or_default());
        }
        self.ahead[ahead].push(Arrival { offset, link, packet });
    }

    /// Advances to the next window that holds an arrival or ends after `other` (the time of another
    /// event), whichever is earlier, and moves its arrivals to `into`, sorted by link, then time,
    /// then order of insertion.
    pub(super) fn turn(&mut self, other: u64, into: &mut Vec<Arrival>) {
        let most = (other >> self.bits).max(self.index + 1);
        loop {
            self.index += 1;
            let Some(mut window) = self.ahead.pop_front() else {
                // Nothing is in flight.
                self.index = most;
                into.clear();
                return;
            };
            if !window.is_empty() || self.index == most {
                self.len -= window.len();
                std::mem::swap(into, &mut window);
                self.keep(window);
                sort(into, &mut self.scratch, self.bits);
                return;
            }
            self.keep(window);
        }
    }

    fn keep(&mut self, mut window: Vec<Arrival>) {
        if self.spare.len() < SPARE {
            window.clear();
            self.spare.push(window);
        }
    }

    /// Whether nothing is in flight beyond the present window.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Memory of arrivals in bytes.
    pub(super) fn memory(&self) -> usize {
        let vectors = self.ahead.iter().chain(&self.spare).chain([&self.scratch]);
        vectors.map(Vec::capacity).sum::<usize>() * size_of::<Arrival>()
    }
}

/// Bits sorted in one pass: the counters fit the first-level cache.
const DIGIT: u32 = 11;

/// Sorts by link and time, stably.
fn sort(arrivals: &mut Vec<Arrival>, scratch: &mut Vec<Arrival>, bits: u32) {
    if arrivals.len() < 256 {
        arrivals.sort_by_key(|arrival| (arrival.link, arrival.offset));
        return;
    }
    let most = arrivals.iter().map(|arrival| arrival.link).max().unwrap_or(0);
    scratch.resize(arrivals.len(), Arrival::default());
    let passes = |bits: u32| (0..bits.div_ceil(DIGIT)).map(|pass| pass * DIGIT);
    for shift in passes(bits) {
        scatter(arrivals, scratch, |arrival| arrival.offset >> shift);
        std::mem::swap(arrivals, scratch);
    }
    for shift in passes(u32::BITS - most.leading_zeros()) {
        scatter(arrivals, scratch, |arrival| arrival.link >> shift);
        std::mem::swap(arrivals, scratch);
    }
}

/// One pass of a least-significant-digit radix sort.
#[inline]
fn scatter(from: &[Arrival], to: &mut [Arrival], digit: impl Fn(&Arrival) -> u32) {
    const MASK: u32 = (1 << DIGIT) - 1;
    let mut places = [0u32; 1 << DIGIT];
    for arrival in from {
        places[(digit(arrival) & MASK) as usize] += 1;
    }
    let mut next = 0;
    for place in &mut places {
        next += std::mem::replace(place, next);
    }
    for arrival in from {
        let place = &mut places[(digit(arrival) & MASK) as usize];
        to[*place as usize] = *arrival;
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arrivals_come_by_link_and_time_and_none_is_lost(
            times in prop::collection::vec((1024u64..1 << 16, 0u32..5000), 0..2000),
        ) {
            let mut windows = Windows::new(10);
            for (place, (at, link)) in times.iter().enumerate() {
                let packet = Packet { place: place as u32, ..Packet::default() };
                windows.push(*at, *link, packet);
            }
            let (mut seen, mut batch) = (0, Vec::new());
            while !windows.is_empty() {
                windows.turn(u64::MAX, &mut batch);
                prop_assert!(!batch.is_empty());
                let order = |a: &Arrival| (a.link, a.offset, a.packet.place);
                prop_assert!(batch.is_sorted_by_key(order));
                for arrival in &batch {
                    let (at, link) = times[arrival.packet.place as usize];
                    prop_assert_eq!(windows.start() + u64::from(arrival.offset), at);
                    prop_assert_eq!(arrival.link, link);
                }
                seen += batch.len();
            }
            prop_assert_eq!(seen, times.len());
        }
    }
}
