//! One direction of a TCP connection: its data and its rate.

use base::{Span, Time};
use sharing::{FlowKey, LinkKey};

use super::route::Route;

/// Minimum RTT in seconds, so that windows and weights stay finite on paths without delay.
pub(super) const MIN_RTT: f64 = 1e-6;

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
    /// The network's `epoch` when its window was last updated.
    pub(super) epoch: u32,
    pub(super) round_number: u32,
    pub(super) route: Route,
    /// Base RTT, and one-way latency: propagation, and the transmission of a full segment at every
    /// link except the slowest. Seconds.
    pub(super) rtt: f64,
    pub(super) latency: f64,
    /// The lowest capacity on the path, bit/s.
    pub(super) narrowest: f64,
    pub(super) loss: f64,
    /// Its key in the solver while it sends.
    pub(super) key: Option<FlowKey>,
    /// Delay of its first packet in the queues of other streams, in seconds. Its own queue adds no
    /// delay: data counts as sent when it has passed the slowest link.
    pub(super) wait: f64,
    /// Wire bits per RTT.
    pub(super) window: f64,
    pub(super) cap: f64,
    pub(super) weight: f64,
    /// Wire bits left to send, now and at the beginning of the round.
    pub(super) left: f64,
    pub(super) burst: f64,
    pub(super) round: Time,
    pub(super) rate: f64,
    pub(super) since: Time,
    /// Wire bits sent, and payload bytes reported as arrived.
    pub(super) sent: f64,
    pub(super) credited: f64,
    /// Payload bytes given to the stream.
    pub(super) parameters: f64,
    /// Seconds by which losses delay the arrival of the current data.
    pub(super) late: f64,
    /// Whether the window grows by a segment per round, after a loss in slow start.
    pub(super) recovers: bool,
    /// Wire bits of a segment, the current loss rate of segments, and the number of lost segments.
    pub(super) segment: f64,
    pub(super) drops: f64,
    pub(super) lost: f64,
    /// The other direction of the connection; the stream itself if there is none.
    pub(super) twin: u32,
    /// Payload bytes to send once the handshake is over.
    pub(super) first: f64,
    /// Number of random numbers drawn.
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
            rtt: MIN_RTT,
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
            parameters: 0.0,
            late: 0.0,
            lost: 0.0,
            recovers: false,
            segment: 1.0,
            drops: 0.0,
            twin: 0,
            first: 0.0,
            draws: 0,
        }
    }

    pub(super) fn routed(&self, nowhere: LinkKey) -> bool {
        self.route.links.first() != Some(&nowhere)
    }

    /// Updates the sent data to `now`.
    pub(super) fn settle(&mut self, now: Time) {
        let bits = (self.rate * now.since(self.since).as_secs_f64()).min(self.left);
        self.since = now;
        if self.key.is_some() {
            self.sent += bits;
            self.left -= bits;
            self.lost += bits / self.segment * self.drops;
        }
    }

    /// Whether the window limits the rate.
    pub(super) fn at_cap(&self) -> bool {
        self.rate >= self.cap * (1.0 - 1e-6)
    }

    /// A random number in [0, 1), the same in each run.
    pub(super) fn draw(&mut self) -> f64 {
        self.draws += 1;
        f64::from(crate::net::mix(self.hash, self.draws)) / 4_294_967_296.0
    }

    /// The time at which the stream has sent everything. In a round that can carry the rest, it is
    /// the time at which the slowest link has transmitted the burst.
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

pub(super) fn span(seconds: f64) -> Span {
    Span::from_nanos((seconds * 1e9).ceil().clamp(0.0, 1e18) as u64)
}
