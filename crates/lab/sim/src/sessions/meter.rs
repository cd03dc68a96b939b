//! Sent and received data of a named flow, derived from its assigned rates.

use std::collections::VecDeque;

use base::{Bytes, FlowId, Span, Time};
use lab::plan::{Flow, Traffic};
use run::FlowSample;
use run::{FlowCounters, FlowLifetime, FlowResult, Outcome};

use super::table::HEADERS;

/// The counters of a flow. Data counts as received a propagation delay after it was sent: queueing
/// delay is not included.
#[derive(Debug)]
pub(super) struct Meter {
    id: FlowId,
    name: String,
    traffic: Traffic,
    /// Payload and wire bytes of a datagram.
    payload: u64,
    wire: u64,
    /// Total payload to send.
    total: u64,
    delay: u64,
    /// Start time, wire bits sent until then (in 10⁻⁹ bit), and the rate since then,
    /// bit/s. Never empty.
    rates: VecDeque<(u64, u128, u64)>,
    tally: FlowCounters,
    started: Option<Time>,
    ended: Option<Time>,
    outcome: Outcome,
    completion: Option<Span>,
}

impl Meter {
    /// The meter of a rate-controlled flow.
    pub(super) fn new(id: FlowId, flow: &Flow, overhead: Bytes) -> Self {
        let (payload, total) = match flow.traffic {
            Traffic::Controlled { packet, size, .. } => {
                let payload = packet.count().max(1);
                let datagrams = size.map(|size| size.count().div_ceil(payload));
                (payload, datagrams.map_or(u64::MAX, |n| n.saturating_mul(payload)))
            }
            _ => (1, u64::MAX),
        };
        Self {
            id,
            name: flow.name.clone(),
            traffic: flow.traffic.clone(),
            payload,
            wire: payload + HEADERS + overhead.count(),
            total,
            delay: 0,
            rates: VecDeque::from([(0, 0, 0)]),
            tally: FlowCounters::default(),
            started: None,
            ended: None,
            outcome: Outcome::NotStarted,
            completion: None,
        }
    }

    /// The flow joins over a path with this propagation delay.
    pub(super) fn start(&mut self, now: Time, delay: Span) {
        self.delay = delay.as_nanos();
        self.started.get_or_insert(now);
        self.ended = None;
        self.outcome = Outcome::Stopped;
    }

    /// The flow sends at another rate from `at` on, wire bit/s.
    pub(super) fn set_rate(&mut self, at: Time, rate: u64) {
        let at = at.as_nanos();
        let (since, sent, old) = self.rates.back().copied().unwrap_or_default();
        let sent = sent + u128::from(at.saturating_sub(since)) * u128::from(old);
        self.rates.push_back((at, sent, rate));
    }

    pub(super) fn end(&mut self, now: Time, outcome: Outcome) {
        if self.started.is_some() && self.ended.is_none() {
            self.ended = Some(now);
            self.completion =
                (outcome == Outcome::Completed).then(|| now.since(self.started.unwrap_or(now)));
            self.outcome = outcome;
        }
    }

    /// Payload sent until `at`, in whole datagrams.
    fn sent(&self, at: u64) -> u64 {
        let past = self.rates.iter().rev().find(|(since, ..)| *since <= at);
        let Some((since, sent, rate)) = past else { return 0 };
        let bits = (sent + u128::from(at - since) * u128::from(*rate)) / 1_000_000_000;
        let datagrams = bits / (8 * u128::from(self.wire));
        u64::try_from(datagrams).unwrap_or(u64::MAX).saturating_mul(self.payload).min(self.total)
    }

    fn count(&mut self, now: Time) {
        let now = now.as_nanos();
        let earlier = now.saturating_sub(self.delay);
        let completed = self.outcome == Outcome::Completed;
        self.tally.sent = if completed { self.total } else { self.sent(now) };
        let received = if completed { self.total } else { self.sent(earlier) };
        self.tally.received = received.max(self.tally.received);
        // Of the past entries only the last is needed.
        while self.rates.len() > 1 && self.rates[1].0 <= earlier {
            self.rates.pop_front();
        }
    }

    /// The sample of the interval that ends now; `None` if it has not begun.
    pub(super) fn sample(&mut self, now: Time, last: Time) -> Option<FlowSample> {
        let started = self.started?;
        if self.ended.is_some_and(|ended| ended.as_nanos() + self.delay < last.as_nanos()) {
            return None;
        }
        self.count(now);
        let interval = now.since(last);
        let sample = self.tally.cut(now, interval, self.id, &self.traffic);
        if interval.is_positive() && started <= last && self.ended.is_none() {
            self.tally.record_goodput(&sample);
        }
        Some(sample)
    }

    pub(super) fn into_result(mut self, now: Time) -> FlowResult {
        if self.started.is_some() {
            self.count(now);
        }
        let datagrams = run::Datagrams {
            sent: self.tally.sent / self.payload,
            received: self.tally.received / self.payload,
            ..run::Datagrams::default()
        };
        self.tally.observe_datagrams(datagrams);
        let lifetime = FlowLifetime {
            outcome: self.outcome,
            started: self.started,
            ended: self.ended.or(self.started.map(|_| now)),
            active: self
                .started
                .map_or(Span::from_nanos(0), |started| self.ended.unwrap_or(now).since(started)),
            completion: self.completion,
        };
        self.tally.into_result(self.id, self.name, &self.traffic, lifetime)
    }
}
