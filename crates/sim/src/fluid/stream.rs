//! One direction of a TCP connection: what it has to send, and how fast it may.

use base::{Span, Time};
use sharing::{FlowKey, LinkKey};

use super::route::Route;
use super::tcp::{FLOOR, Manner};

/// One direction of a connection.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) flow: u32,
    pub(super) tag: u32,
    /// From the flow's first node (0) or to it (1).
    pub(super) side: u8,
    pub(super) alive: bool,
    pub(super) slow_start: bool,
    pub(super) hash: u32,
    pub(super) life: u32,
    /// When its window was last made known, in times that shares were worked out.
    pub(super) epoch: u32,
    pub(super) round_number: u32,
    pub(super) route: Route,
    /// Of the base round-trip time, and of the way there: propagation and the transmission of a
    /// full segment at every link but the slowest. Seconds.
    pub(super) rtt: f64,
    pub(super) latency: f64,
    /// The lowest capacity on the way, bit/s.
    pub(super) narrowest: f64,
    pub(super) loss: f64,
    /// While it sends.
    pub(super) key: Option<FlowKey>,
    /// Seconds that its first packet waits in the queues of others. Its own queue delays
    /// nothing: what is sent is what has passed the slowest link.
    pub(super) wait: f64,
    /// Wire bits a round trip.
    pub(super) window: f64,
    pub(super) cap: f64,
    pub(super) weight: f64,
    /// Wire bits to send, now and at the beginning of the round.
    pub(super) left: f64,
    pub(super) burst: f64,
    pub(super) round: Time,
    pub(super) rate: f64,
    pub(super) since: Time,
    /// Wire bits sent, and payload bytes told to have arrived.
    pub(super) sent: f64,
    pub(super) credited: f64,
    /// Payload bytes given.
    pub(super) given: f64,
    /// Seconds that losses delay the arrival of what is being sent.
    pub(super) late: f64,
    /// Whether the window grows by a segment a round, after a loss in slow start.
    pub(super) recovers: bool,
    /// Wire bits of a segment, the share of segments that is lost now, and how many were.
    pub(super) segment: f64,
    pub(super) drops: f64,
    pub(super) lost: f64,
    /// Random numbers drawn.
    pub(super) draws: u32,
}

impl Stream {
    pub(super) fn vacant() -> Self {
        Self {
            flow: 0,
            tag: 0,
            side: 0,
            alive: false,
            slow_start: false,
            hash: 0,
            life: 0,
            epoch: 0,
            round_number: 0,
            route: Route::default(),
            rtt: FLOOR,
            latency: 0.0,
            narrowest: f64::INFINITY,
            loss: 0.0,
            key: None,
            wait: 0.0,
            window: 0.0,
            cap: 0.0,
            weight: 1.0,
            left: 0.0,
            burst: 0.0,
            round: Time::ZERO,
            rate: 0.0,
            since: Time::ZERO,
            sent: 0.0,
            credited: 0.0,
            given: 0.0,
            late: 0.0,
            lost: 0.0,
            recovers: false,
            segment: 1.0,
            drops: 0.0,
            draws: 0,
        }
    }

    pub(super) fn routed(&self, nowhere: LinkKey) -> bool {
        self.route.links.first() != Some(&nowhere)
    }

    /// Brings what is sent to `now`.
    pub(super) fn settle(&mut self, now: Time) {
        let bits = (self.rate * now.since(self.since).as_secs_f64()).min(self.left);
        self.since = now;
        if self.key.is_some() {
            self.sent += bits;
            self.left -= bits;
            self.lost += bits / self.segment * self.drops;
        }
    }

    /// Whether the window is what limits it.
    pub(super) fn at_cap(&self) -> bool {
        self.rate >= self.cap * (1.0 - 1e-6)
    }

    /// The most that it may send, bit/s.
    pub(super) fn limit(&self, manner: &Manner, rtt: f64) -> f64 {
        let grows = self.slow_start || self.recovers;
        let window = if grows { self.window } else { manner.window_limit() };
        let loss = if self.slow_start { f64::INFINITY } else { manner.loss_limit(rtt, self.loss) };
        (window / rtt).min(loss)
    }

    /// A number of [0, 1), the same in each run.
    pub(super) fn draw(&mut self) -> f64 {
        self.draws += 1;
        f64::from(crate::net::mix(self.hash, self.draws)) / 4_294_967_296.0
    }

    /// When all will have been sent: within a round that can take all, as soon as the slowest
    /// link lets a burst through.
    pub(super) fn finish(&self, now: Time) -> Option<Time> {
        if self.left.is_infinite() || self.rate <= 0.0 || self.key.is_none() {
            return None;
        }
        let even = now + span(self.left / self.rate);
        if self.slow_start && self.at_cap() && self.burst <= self.window * (1.0 + 1e-9) {
            let burst = self.round + span(self.burst / self.narrowest);
            return Some(burst.max(now).min(even));
        }
        Some(even)
    }
}

/// A time in seconds, rounded up.
pub(super) fn span(seconds: f64) -> Span {
    Span::from_nanos((seconds * 1e9).ceil().clamp(0.0, 1e18) as u64)
}
