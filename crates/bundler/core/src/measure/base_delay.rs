//! Delays of a path without queues: the minima of the recent past.

use std::collections::VecDeque;

use base::{Span, Time};

/// Default memory: longer than the time between two moments with empty queues, shorter than the
/// time in which clock drift becomes noticeable.
const WINDOW: Span = Span::from_secs(10);
/// Length of the slices of the window whose minima are stored, which bounds their number.
const SLICE: Span = Span::from_millis(500);

/// Time for which one-way delays by a new clock are estimated.
const GUESS: Span = Span::from_millis(500);

#[derive(Clone, Copy, Debug)]
struct Slice {
    begins: Time,
    rtt: Span,
    /// `None` after a restart of the receiver's clock.
    one_way: Option<i64>,
    /// Minimum of the mean over a round trip.
    mean: Option<i64>,
    /// Whether `one_way` is computed from the round trip.
    is_guessed: bool,
}

/// Windowed minima of the round trip and of the one-way delay.
#[derive(Debug)]
pub(super) struct BaseDelay {
    slices: VecDeque<Slice>,
    window: Span,
    /// End of the time in which one-way delays by a new clock are estimated.
    guess_until: Time,
}

impl Default for BaseDelay {
    fn default() -> Self {
        Self { slices: VecDeque::new(), window: WINDOW, guess_until: Time::ZERO }
    }
}

impl BaseDelay {
    /// A shorter window starts with the minimum of the longer one, which is still valid.
    pub(super) fn remember(&mut self, now: Time, window: Span) {
        let shorter = window < self.window;
        self.window = window;
        if let Some(rtt) = self.min_rtt().filter(|_| shorter) {
            self.slices.push_back(Slice {
                begins: now,
                rtt,
                one_way: self.one_way(),
                mean: self.mean(),
                is_guessed: false,
            });
        }
    }

    /// Resets everything except the window.
    pub(super) fn forget(&mut self) {
        self.slices.clear();
    }

    pub(super) fn observe(&mut self, now: Time, rtt: Span, one_way: i64) {
        // What was the minimum one-way delay by the new clock? The return path takes the same time
        // as before or longer, so the greatest estimate is the best.
        if self.slices.iter().any(|slice| slice.one_way.is_none()) {
            self.guess_until = now + GUESS;
            self.slices.iter_mut().for_each(|slice| slice.is_guessed = true);
        }
        if now < self.guess_until {
            for slice in self.slices.iter_mut().filter(|slice| slice.is_guessed) {
                let beyond = rtt.as_nanos() as i64 - slice.rtt.as_nanos() as i64;
                slice.one_way = slice.one_way.max(Some(one_way.saturating_sub(beyond.max(0))));
            }
        }
        match self.slices.back_mut() {
            Some(slice) if now.since(slice.begins) < SLICE && !slice.is_guessed => {
                slice.rtt = slice.rtt.min(rtt);
                slice.one_way = Some(slice.one_way.map_or(one_way, |least| least.min(one_way)));
            }
            _ => self.slices.push_back(Slice {
                begins: now,
                rtt,
                one_way: Some(one_way),
                mean: None,
                is_guessed: false,
            }),
        }
        while self.slices.len() > 1
            && self.slices.front().is_some_and(|slice| now.since(slice.begins) > self.window)
        {
            self.slices.pop_front();
        }
    }

    /// Adds the mean one-way delay of about a round trip, up to the packet observed last.
    pub(super) fn observe_mean(&mut self, mean: i64) {
        if let Some(slice) = self.slices.back_mut() {
            slice.mean = Some(slice.mean.map_or(mean, |least| least.min(mean)));
        }
    }

    /// The round trip without queues is at most `base`; its part on the forward path is `one_way`
    /// minus the excess of `rtt`.
    pub(super) fn assume(&mut self, now: Time, base: Span, rtt: Span, one_way: i64) {
        let beyond = rtt.saturating_sub(base).as_nanos() as i64;
        self.observe(now, base, one_way.saturating_sub(beyond));
    }

    pub(super) fn forget_one_way(&mut self) {
        self.slices.iter_mut().for_each(|slice| {
            (slice.one_way, slice.mean) = (None, None);
        });
    }

    pub(super) fn min_rtt(&self) -> Option<Span> {
        self.slices.iter().map(|slice| slice.rtt).min()
    }

    /// Mean one-way delay without queues, including jitter: the lower quartile of the minima of the
    /// means per half second, because the overall minimum has little jitter by chance.
    pub(super) fn mean(&self) -> Option<i64> {
        let mut means: Vec<i64> = self.slices.iter().filter_map(|slice| slice.mean).collect();
        means.sort_unstable();
        means.get(means.len() / 4).copied()
    }

    pub(super) fn one_way(&self) -> Option<i64> {
        self.slices.iter().filter_map(|slice| slice.one_way).min()
    }
}
