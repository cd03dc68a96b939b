//! Losses that do not depend on the rate.

use base::{Span, Time};

/// A loss share counts for one to two times as long.
const HALF_WINDOW: Span = Span::from_secs(5);
/// More than this is never taken for random.
const MAX: f64 = 0.06;

/// The least share of losses while no more was sent than the path is known to deliver: what a full
/// path loses comes on top.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RandomLoss {
    since: Option<Time>,
    newest: Option<f64>,
    before: Option<f64>,
}

impl RandomLoss {
    /// The share `loss` did not arrive of what was sent at no more than the proven capacity.
    pub(super) fn observe(&mut self, now: Time, loss: f64) {
        self.newest = Some(self.newest.map_or(loss, |least| least.min(loss)));
        self.since.get_or_insert(now);
    }

    /// The share of random losses.
    pub(super) fn share(&mut self, now: Time) -> f64 {
        if self.since.is_some_and(|since| now.since(since) > HALF_WINDOW) {
            (self.since, self.before, self.newest) = (Some(now), self.newest, None);
        }
        let least = [self.newest, self.before].into_iter().flatten().fold(MAX, f64::min);
        if self.newest.is_none() && self.before.is_none() { 0.0 } else { least }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_least_loss_and_forgets_it() {
        let at = |s: u64| Time::ZERO + Span::from_secs(s);
        let mut random = RandomLoss::default();
        assert!(random.share(at(1)) < 1e-9);
        random.observe(at(1), 0.04);
        random.observe(at(2), 0.03);
        random.observe(at(3), 0.5);
        assert!((random.share(at(4)) - 0.03).abs() < 1e-9);
        // Half a window later it is still known, a whole one later it is not.
        assert!((random.share(at(8)) - 0.03).abs() < 1e-9);
        assert!(random.share(at(20)) < 1e-9);
        random.observe(at(21), 0.5);
        assert!((random.share(at(21)) - MAX).abs() < 1e-9);
    }
}
