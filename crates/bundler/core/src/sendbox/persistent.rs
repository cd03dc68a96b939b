//! Determines the cause of a queueing delay that persists although the bundle sends less.
//!
//! A queue that the bundle has caused drains when the bundle sends less than the path's capacity.
//! Otherwise either the path has become longer, or other traffic causes the queue. A trial at a
//! higher rate distinguishes the two: on a longer path the delay stays the same.

use base::{Bandwidth, Span, Time};

use crate::constants::{Persistent as Constants, span};
use crate::control::Observation;
use crate::measure::Rates;

/// Result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The delay is that of the path.
    LongerPath,
    /// The queue belongs to other traffic.
    OtherTraffic,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    rate: Bandwidth,
    until: Time,
    queueing: f64,
}

/// Detects a queue that should drain but does not.
#[derive(Debug)]
pub(super) struct PersistentQueue {
    constants: Constants,
    /// Start, queue at the start in seconds, and the maximum send rate since, in bit/s.
    since: Option<(Time, f64, f64)>,
    trial: Option<Trial>,
    /// Time of the last trial that found other traffic.
    suspected: Option<Time>,
}

impl PersistentQueue {
    pub(super) fn new(constants: &Constants) -> Self {
        Self { constants: *constants, since: None, trial: None, suspected: None }
    }

    /// The rate of the current trial.
    pub(super) fn rate(&self) -> Option<Bandwidth> {
        self.trial.map(|trial| trial.rate)
    }

    /// Processes one tick. `target` is the target queueing delay in seconds, `most` the maximum
    /// capacity, `rates` are those over `window`.
    pub(super) fn watch(
        &mut self,
        seen: &Observation,
        target: f64,
        (most, window): (Bandwidth, Span),
        rates: &Rates,
    ) -> Option<Finding> {
        let most = most.bits_per_sec() as f64;
        if let Some(trial) = self.trial {
            if seen.now < trial.until {
                return None;
            }
            (self.since, self.trial) = (None, None);
            let (send, receive) = (rates.send.bits_per_sec(), rates.receive.bits_per_sec());
            let carried = receive as f64 >= self.constants.carried * send as f64;
            let same = seen.queueing.as_secs_f64() <= trial.queueing + target;
            if carried && same {
                return Some(Finding::LongerPath);
            }
            if trial.queueing <= self.constants.long_queue * target {
                return None;
            }
            let again = self
                .suspected
                .is_some_and(|at| seen.now.since(at) < span(self.constants.agreement));
            self.suspected = Some(seen.now);
            return again.then_some(Finding::OtherTraffic);
        }
        let queue = seen.queueing.as_secs_f64();
        let light = seen.send_rate.bits_per_sec() as f64 <= self.constants.light * most;
        let (sent, received) =
            (seen.send_rate.bits_per_sec() as f64, seen.receive_rate.bits_per_sec() as f64);
        let steady = (sent - received).abs() <= self.constants.steady * sent;
        if !light || !steady || queue <= self.constants.drained * target {
            self.since = None;
            return None;
        }
        let (since, queueing, before) = *self.since.get_or_insert((seen.now, queue, sent));
        if queue <= self.constants.progress * queueing {
            self.since = Some((seen.now, queue, sent));
            return None;
        }
        self.since = Some((since, queueing, before.max(sent)));
        let is_long = queue > self.constants.long_queue * target;
        let Constants { round_trips, round_trips_short, queues, .. } = self.constants;
        let round_trips = if is_long { round_trips } else { round_trips_short };
        let timeout = span(round_trips * window.as_secs_f64() + queues * queueing);
        if seen.now.since(since) < timeout || sent > self.constants.given_way * before {
            return None;
        }
        let rate = seen.send_rate.bits_per_sec() as f64 + self.constants.increase * most;
        self.trial = Some(Trial {
            rate: Bandwidth::from_bits_per_sec(rate as u64),
            // By then the packets of one window of the trial have been acknowledged.
            until: seen.now + seen.rtt + window,
            queueing: queue,
        });
        None
    }
}
