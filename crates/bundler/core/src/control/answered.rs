//! Whether the rate limited a bundle.

use std::collections::VecDeque;

use base::Time;

use super::{Observation, bits};

/// Number of rates in about five seconds.
const MAX_RATES: usize = 512;

/// The latest rates of a controller.
///
/// Most packets of a short burst are delayed although the site sends very little per round trip.
/// Its send rate is then not that of the path.
#[derive(Clone, Debug, Default)]
pub(super) struct Answered(VecDeque<(Time, f64)>);

impl Answered {
    pub(super) fn push(&mut self, now: Time, rate: f64) {
        if self.0.len() == MAX_RATES {
            self.0.pop_front();
        }
        self.0.push_back((now, rate));
    }

    /// Whether the observed rates are those of the path, not those of the site's traffic: the site
    /// sent at least `share` of its allowed rate.
    pub(super) fn limited(&mut self, seen: &Observation, share: f64) -> bool {
        // The newest epochs were sent up to two round trips ago, possibly at the previous rate.
        let lately = seen.rtt.as_nanos().saturating_mul(2).saturating_add(20_000_000);
        while self.0.len() > 1
            && self.0.get(1).is_some_and(|next| seen.now.since(next.0).as_nanos() > lately)
        {
            self.0.pop_front();
        }
        let least = self.0.iter().map(|answer| answer.1).fold(f64::INFINITY, f64::min);
        seen.limited && (self.0.is_empty() || bits(seen.send_rate) >= share * least)
    }
}
