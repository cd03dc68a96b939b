//! Losses that do not depend on the rate.

use base::Time;

use crate::constants::{Copa as Constants, span};

/// The minimum loss share at send rates up to the capacity: losses that full queues do not cause.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RandomLoss {
    since: Option<Time>,
    newest: Option<f64>,
    before: Option<f64>,
}

impl RandomLoss {
    /// Adds a loss share that was measured at a send rate up to the capacity.
    pub(super) fn observe(&mut self, now: Time, loss: f64) {
        self.newest = Some(self.newest.map_or(loss, |least| least.min(loss)));
        self.since.get_or_insert(now);
    }

    /// The share of random losses.
    pub(super) fn share(&mut self, now: Time, constants: &Constants) -> f64 {
        if self.since.is_some_and(|since| now.since(since) > span(constants.loss_memory)) {
            (self.since, self.before, self.newest) = (Some(now), self.newest, None);
        }
        let least = [self.newest, self.before]
            .into_iter()
            .flatten()
            .fold(constants.max_random_loss, f64::min);
        if self.newest.is_none() && self.before.is_none() { 0.0 } else { least }
    }
}

#[cfg(test)]
mod tests {
    use base::Span;

    use super::*;

    #[test]
    fn keeps_the_least_loss_and_forgets_it() {
        let at = |s: u64| Time::ZERO + Span::from_secs(s);
        let constants = Constants::default();
        let mut random = RandomLoss::default();
        let share = |random: &mut RandomLoss, s| random.share(at(s), &constants);
        assert!(share(&mut random, 1) < 1e-9);
        random.observe(at(1), 0.04);
        random.observe(at(2), 0.03);
        random.observe(at(3), 0.5);
        assert!((share(&mut random, 4) - 0.03).abs() < 1e-9);
        // The sample is valid for half a window, and is forgotten after a whole one.
        assert!((share(&mut random, 8) - 0.03).abs() < 1e-9);
        assert!(share(&mut random, 20) < 1e-9);
        random.observe(at(21), 0.5);
        assert!((share(&mut random, 21) - constants.max_random_loss).abs() < 1e-9);
    }
}
