//! How much longer the ways of some flows are.
//!
//! Routers spread flows over parallel links, whose lengths differ by some milliseconds (3 to 8 in
//! the paper's figure 14). A flow keeps its way, so that its own least delay tells what of
//! its delay is no queue.

use base::{Span, Time};

/// Flows are told apart by so many values of their hash.
const PLACES: usize = 256;
/// Least delays are remembered for one to two times as long.
const HALF_WINDOW: Span = Span::from_secs(10);
/// A least delay counts after so many packets ...
const ENOUGH: u32 = 10;
/// ... over so long a time, in which queues come and go.
const LONG_ENOUGH: Span = Span::from_secs(1);
/// Less is chance.
const LEAST: i64 = 1_000_000;
/// More is a queue.
const MOST: i64 = 10_000_000;

#[derive(Clone, Copy, Debug)]
struct Place {
    since: Time,
    packets: u32,
    began: Time,
    /// The least one-way delays of this and the last half window, in ns.
    now: i64,
    before: i64,
}

const NEW: Place =
    Place { since: Time::ZERO, packets: 0, began: Time::ZERO, now: i64::MAX, before: i64::MAX };

/// Least one-way delays by flow.
#[derive(Debug)]
pub(super) struct FlowBase {
    places: Box<[Place; PLACES]>,
    /// What packets of known flows were due on average, in ns.
    mean: f64,
}

impl Default for FlowBase {
    fn default() -> Self {
        Self { places: Box::new([NEW; PLACES]), mean: 0.0 }
    }
}

impl FlowBase {
    /// A packet of a flow took `one_way`, where `least` is the least of any. Gives how much of the
    /// difference is the flow's longer way, in ns.
    pub(super) fn observe(&mut self, now: Time, flow: u32, one_way: i64, least: i64) -> i64 {
        let place = &mut self.places[flow as usize % PLACES];
        if place.packets == 0 {
            *place = Place { since: now, began: now, ..NEW };
        } else if now.since(place.began) > HALF_WINDOW {
            let rested = now.since(place.began) > HALF_WINDOW + HALF_WINDOW;
            place.before = if rested { i64::MAX } else { place.now };
            (place.began, place.now) = (now, i64::MAX);
        }
        place.packets = place.packets.saturating_add(1);
        place.now = place.now.min(one_way);
        if place.packets < ENOUGH || now.since(place.since) < LONG_ENOUGH {
            return self.mean as i64;
        }
        let own = place.now.min(place.before).saturating_sub(least).clamp(0, MOST);
        let own = if own < LEAST { 0 } else { own };
        self.mean += 0.02 * (own as f64 - self.mean);
        own
    }

    /// Delays mean something else from now on.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_way_is_no_queue() {
        let mut base = FlowBase::default();
        let (mut short, mut long, mut fresh) = (0, 0, 0);
        for n in 0..1000_u64 {
            let now = Time::ZERO + Span::from_millis(10 * n);
            // A queue of 0 to 9 ms, and 4 ms more for every second flow.
            let queue = (n / 20 * 7 % 10) as i64 * 1_000_000;
            let flow = (n % 20) as u32;
            let way = i64::from(flow % 2) * 4_000_000;
            let found = base.observe(now, flow, 50_000_000 + queue + way, 50_000_000);
            if flow.is_multiple_of(2) {
                short = found;
            } else {
                long = found;
            }
            fresh = base.observe(now, 30 + (n % 200) as u32, 50_000_000, 50_000_000);
        }
        assert!(short == 0, "{short}");
        assert!((3_000_000..=5_000_000).contains(&long), "{long}");
        assert!((1_000_000..=3_000_000).contains(&fresh), "{fresh}");
    }

    #[test]
    fn a_queue_of_all_is_nobodys_way() {
        let mut base = FlowBase::default();
        for n in 0..1000_u64 {
            let now = Time::ZERO + Span::from_millis(10 * n);
            let least = 50_000_000 + n as i64;
            assert_eq!(base.observe(now, (n % 20) as u32, least, least), 0);
        }
    }
}
