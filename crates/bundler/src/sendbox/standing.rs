//! A queue that stays though the bundle gives way: whose is it?
//!
//! The bundle's own queue drains when less is sent than the path takes. One that does not is either
//! none, because the path has become longer, or that of others who take whatever is left. Sending
//! more for a moment tells the two apart: a longer path carries it, and its delay stays.

use base::{Bandwidth, Span, Time};

use crate::control::Observation;
use crate::measure::Rates;

/// Less than this share of the capacity should have drained the queue.
const LIGHT: f64 = 0.9;
/// A queue that drains or grows under the bundle's own rate shows as a difference between what is
/// sent and what arrives of more than this share.
const STEADY: f64 = 0.15;
/// A queue has drained when it is this many times the target, ...
const SHORT: f64 = 1.5;
/// ... and is about to if it has lost this share.
const PROGRESS: f64 = 0.5;
/// A single trial may meet a burst: it takes two within this time.
const REMEMBER: Span = Span::from_secs(6);
/// Only a bundle that has given way to this share of what it sent can tell: one that keeps its rate
/// may well keep its own queue.
const GIVEN_WAY: f64 = 0.75;
/// It may take so many round trips, ...
const ROUND_TRIPS: u64 = 5;
/// ... or so many if it is shorter than [`LONG`] times the target.
const MORE_ROUND_TRIPS: u64 = 10;
/// Less than this many times the target may be chance, or ways of different length: it is never
/// taken for others' queue.
const LONG: f64 = 3.0;
/// ... and so many times as long as the queue itself: at half the rate, twice.
const QUEUES: f64 = 2.5;
/// A trial sends more by this share of the capacity.
const MORE: f64 = 0.25;
/// A path that carries what is sent delivers at least this share of it, ...
const CARRIED: f64 = 0.95;
/// ... and keeps its delay to this share of a target.
const SAME: f64 = 1.0;

/// What a trial has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// The delay is the path's own.
    LongerPath,
    /// The queue is others'.
    OthersQueue,
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    rate: Bandwidth,
    until: Time,
    queueing: f64,
}

/// Watches a queue that should drain.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Since when, how long it was then, in seconds, and the most that was sent since, in bit/s.
    since: Option<(Time, f64, f64)>,
    trial: Option<Trial>,
    /// When a trial last spoke for others' queue.
    suspected: Option<Time>,
}

impl Standing {
    /// The rate that is being tried.
    pub(super) fn rate(&self) -> Option<Bandwidth> {
        self.trial.map(|trial| trial.rate)
    }

    /// One tick. `target` is the queueing that is aimed at, in seconds, `most` what the path has
    /// carried at best; `rates` are those over `window`.
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
            let carried = receive as f64 >= CARRIED * send as f64;
            let same = seen.queueing.as_secs_f64() <= trial.queueing + SAME * target;
            if carried && same {
                return Some(Finding::LongerPath);
            }
            if trial.queueing <= LONG * target {
                return None;
            }
            let again = self.suspected.is_some_and(|at| seen.now.since(at) < REMEMBER);
            self.suspected = Some(seen.now);
            return again.then_some(Finding::OthersQueue);
        }
        let queue = seen.queueing.as_secs_f64();
        let light = seen.send_rate.bits_per_sec() as f64 <= LIGHT * most;
        let (sent, received) =
            (seen.send_rate.bits_per_sec() as f64, seen.receive_rate.bits_per_sec() as f64);
        let steady = (sent - received).abs() <= STEADY * sent;
        if !light || !steady || queue <= SHORT * target {
            self.since = None;
            return None;
        }
        let (since, queueing, before) = *self.since.get_or_insert((seen.now, queue, sent));
        if queue <= PROGRESS * queueing {
            self.since = Some((seen.now, queue, sent));
            return None;
        }
        self.since = Some((since, queueing, before.max(sent)));
        let patience = Span::from_nanos((QUEUES * queueing * 1e9) as u64);
        let round_trips = if queue > LONG * target { ROUND_TRIPS } else { MORE_ROUND_TRIPS };
        let patience = Span::from_nanos(window.as_nanos() * round_trips) + patience;
        if seen.now.since(since) < patience || sent > GIVEN_WAY * before {
            return None;
        }
        let rate = seen.send_rate.bits_per_sec() as f64 + MORE * most;
        self.trial = Some(Trial {
            rate: Bandwidth::from_bits_per_sec(rate as u64),
            // What was sent in one window of it has been acknowledged by then.
            until: seen.now + seen.rtt + window,
            queueing: queue,
        });
        None
    }
}
