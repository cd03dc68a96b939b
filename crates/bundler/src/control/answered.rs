//! Whether it was the rate that held a bundle back.

use std::collections::VecDeque;

use base::Time;

use super::{Observation, bits};

/// A site that has sent this share of what it might have was held back by the rate.
const ENOUGH: f64 = 0.8;
/// Rates kept at most: those of some seconds.
const MOST: usize = 512;

/// The rates that a law answered lately.
///
/// Most packets of a short burst wait for their turn, although the site offers next to nothing in a
/// round trip. Its rate then says nothing of the path.
#[derive(Clone, Debug, Default)]
pub(super) struct Answered(VecDeque<(Time, f64)>);

impl Answered {
    pub(super) fn push(&mut self, now: Time, rate: f64) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((now, rate));
    }

    /// Whether the rates observed are those that the path takes, not those that the site offers.
    pub(super) fn limited(&mut self, seen: &Observation) -> bool {
        // The newest epochs were sent up to two round trips ago, and the rate before may have
        // lasted into them.
        let lately = seen.rtt.as_nanos().saturating_mul(2).saturating_add(20_000_000);
        while self.0.len() > 1
            && self.0.get(1).is_some_and(|next| seen.now.since(next.0).as_nanos() > lately)
        {
            self.0.pop_front();
        }
        let least = self.0.iter().map(|answer| answer.1).fold(f64::INFINITY, f64::min);
        seen.limited && (self.0.is_empty() || bits(seen.send_rate) >= ENOUGH * least)
    }
}
