//! The delays that a path has without queues: the least of the recent past.

use std::collections::VecDeque;

use base::{Span, Time};

/// The recent past, unless told otherwise: longer than queues stay without a moment of rest,
/// shorter than clocks take to drift apart by what matters.
const WINDOW: Span = Span::from_secs(10);
/// Minima are kept by slices of the window, which bounds their number.
const SLICE: Span = Span::from_millis(500);

/// One-way delays by a new clock are guessed for so long.
const GUESS: Span = Span::from_millis(500);

#[derive(Clone, Copy, Debug)]
struct Slice {
    begins: Time,
    rtt: Span,
    /// `None`: the receiver's clock has started anew.
    one_way: Option<i64>,
    /// The least mean of a round trip.
    mean: Option<i64>,
    /// Whether `one_way` is computed from the round trip.
    is_guessed: bool,
}

/// Windowed minima of the round trip and of the one-way delay.
#[derive(Debug)]
pub(super) struct BaseDelay {
    slices: VecDeque<Slice>,
    window: Span,
    /// Until then one-way delays by a new clock are guessed.
    guess_until: Time,
}

impl Default for BaseDelay {
    fn default() -> Self {
        Self { slices: VecDeque::new(), window: WINDOW, guess_until: Time::ZERO }
    }
}

impl BaseDelay {
    /// A shorter window begins with what the longer one had: it was not forgotten, only not seen
    /// for a while.
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

    /// Forgets all but how long to remember.
    pub(super) fn forget(&mut self) {
        self.slices.clear();
    }

    pub(super) fn observe(&mut self, now: Time, rtt: Span, one_way: i64) {
        // By a new clock, what was the least one-way delay before? The way back takes what it took,
        // or longer: the greatest estimate is the best.
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

    /// The mean one-way delay of about a round trip, up to the packet observed last.
    pub(super) fn observe_mean(&mut self, mean: i64) {
        if let Some(slice) = self.slices.back_mut() {
            slice.mean = Some(slice.mean.map_or(mean, |least| least.min(mean)));
        }
    }

    /// The round trip without queues is `base` at most, of which that on the way there is what is
    /// less than `rtt` in `one_way`.
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

    /// The mean one-way delay without queues, jitter included: the lower quartile of the least
    /// means of each half second, as the least of all has little jitter by chance.
    pub(super) fn mean(&self) -> Option<i64> {
        let mut means: Vec<i64> = self.slices.iter().filter_map(|slice| slice.mean).collect();
        means.sort_unstable();
        means.get(means.len() / 4).copied()
    }

    pub(super) fn one_way(&self) -> Option<i64> {
        self.slices.iter().filter_map(|slice| slice.one_way).min()
    }
}
