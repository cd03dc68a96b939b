//! Additional delay of flows with longer paths.
//!
//! Routers distribute flows over parallel links, whose delays differ by some milliseconds (3 to 8
//! in the paper's figure 14). A flow stays on its path, so its own minimum delay shows which part
//! of its delay is not a queue.

use base::Time;

use crate::constants::{FlowPaths as Constants, span};

/// Number of hash values by which flows are distinguished.
const PLACES: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Place {
    since: Time,
    packets: u32,
    began: Time,
    /// Minimum one-way delays of this and the previous half window, in ns.
    now: i64,
    before: i64,
}

const NEW: Place =
    Place { since: Time::ZERO, packets: 0, began: Time::ZERO, now: i64::MAX, before: i64::MAX };

/// Minimum one-way delays by flow.
#[derive(Debug)]
pub(super) struct FlowBase {
    constants: Constants,
    places: Box<[Place; PLACES]>,
    /// Mean additional delay of packets of known flows, in ns.
    mean: f64,
}

impl Default for FlowBase {
    fn default() -> Self {
        Self::new(&Constants::default())
    }
}

impl FlowBase {
    pub(super) fn new(constants: &Constants) -> Self {
        Self { constants: *constants, places: Box::new([NEW; PLACES]), mean: 0.0 }
    }

    /// Adds the one-way delay of a flow's packet; `least` is the minimum of all flows. Returns the
    /// part of the difference that is due to the flow's longer path, in ns.
    pub(super) fn observe(&mut self, now: Time, flow: u32, one_way: i64, least: i64) -> i64 {
        let Constants { memory, min_packets, min_age, min_difference, max_difference } =
            self.constants;
        let memory = span(memory);
        let nanos = |seconds: f64| (seconds * 1e9) as i64;
        let place = &mut self.places[flow as usize % PLACES];
        if place.packets == 0 {
            *place = Place { since: now, began: now, ..NEW };
        } else if now.since(place.began) > memory {
            let rested = now.since(place.began) > memory + memory;
            place.before = if rested { i64::MAX } else { place.now };
            (place.began, place.now) = (now, i64::MAX);
        }
        place.packets = place.packets.saturating_add(1);
        place.now = place.now.min(one_way);
        if f64::from(place.packets) < min_packets || now.since(place.since) < span(min_age) {
            return self.mean as i64;
        }
        let own = place.now.min(place.before).saturating_sub(least).clamp(0, nanos(max_difference));
        let own = if own < nanos(min_difference) { 0 } else { own };
        self.mean += 0.02 * (own as f64 - self.mean);
        own
    }

    /// Discards all delays, which are no longer comparable.
    pub(super) fn forget(&mut self) {
        *self = Self::new(&self.constants);
    }
}

#[cfg(test)]
mod tests {
    use base::Span;

    use super::*;

    #[test]
    fn longer_path_of_a_flow_is_not_a_queue() {
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
    fn queue_of_all_flows_is_not_a_longer_path() {
        let mut base = FlowBase::default();
        for n in 0..1000_u64 {
            let now = Time::ZERO + Span::from_millis(10 * n);
            let least = 50_000_000 + n as i64;
            assert_eq!(base.observe(now, (n % 20) as u32, least, least), 0);
        }
    }
}
