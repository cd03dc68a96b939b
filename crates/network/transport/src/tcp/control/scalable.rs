//! Scalable congestion control: DCTCP (RFC 8257) and Prague
//! (draft-briscoe-iccrg-prague-congestion-control).
//!
//! Both reduce the window by half of α, the average share of marked packets, instead of by a
//! constant. Prague also grows during a reduction, only by unmarked bytes; it is paced, and below
//! round-trip times of 25 ms it grows and reduces as if the round-trip time were 25 ms.
//! Losses halve the window, as with Reno.

use base::{Bandwidth, Bytes, Span, Time};

use super::window::{Phase, Window, delivered};
use super::{AckSample, Cause, CongestionControl, LostSegment, Sent, Setup};
use crate::tcp::packed::packed;

/// g: weight of a round trip in α (RFC 8257 §3.3); 1/16 as in Linux.
const WEIGHT: f64 = 1.0 / 16.0;
/// Round-trip time as which Prague treats shorter ones (section 2.4.4, `RTT_virt`).
const VIRTUAL_RTT: Span = Span::from_millis(25);
/// Prague's bursts last at most this long (the draft on packet pacing).
const BURST: Span = Span::from_micros(250);

/// A window that follows the share of marked packets.
#[derive(Clone, Debug)]
pub struct Scalable {
    window: Window,
    /// Prague; otherwise DCTCP.
    prague: bool,
    /// Average share of marked packets; 1 at the start, so that the first mark halves the window.
    alpha: f64,
    /// Packets since the last update of α.
    marked: u32,
    packets: u32,
    updated: Time,
    /// Time of Prague's last response to marks.
    reduced: Time,
    /// Whether a response to marks is in progress: a loss then reduces further.
    responds: bool,
    srtt: Span,
}

packed!(Scalable { window, prague, alpha, marked, packets, updated, reduced, responds, srtt });

impl Scalable {
    /// DCTCP for a new connection.
    pub fn dctcp(setup: &Setup) -> Self {
        Self {
            window: Window::new(setup),
            prague: false,
            alpha: 1.0,
            marked: 0,
            packets: 0,
            updated: Time::ZERO,
            reduced: Time::ZERO,
            responds: false,
            srtt: Span::ZERO,
        }
    }

    /// Prague for a new connection.
    pub fn prague(setup: &Setup) -> Self {
        Self { prague: true, ..Self::dctcp(setup) }
    }

    /// The time that the controller treats as a round trip.
    fn round_trip(&self) -> Span {
        if self.prague { self.srtt.max(VIRTUAL_RTT) } else { Span::ZERO }
    }

    /// Bytes per additional segment: the window, and with Prague more for short round trips, since
    /// the rate of a flow with round-trip time R grows by 1/R².
    fn bytes_per_segment(&self) -> u32 {
        let ratio = self.round_trip().as_secs_f64() / self.srtt.as_secs_f64().max(1e-6);
        let scale = if self.prague { ratio * ratio } else { 1.0 };
        (f64::from(self.window.cwnd) * scale) as u32
    }

    fn update_alpha(&mut self, now: Time, round: bool) {
        if !round || self.packets == 0 || now.since(self.updated) < self.round_trip() {
            return;
        }
        let share = f64::from(self.marked) / f64::from(self.packets);
        self.alpha += WEIGHT * (share.min(1.0) - self.alpha);
        (self.marked, self.packets, self.updated) = (0, 0, now);
    }

    fn reduced_window(&self) -> f64 {
        f64::from(self.window.cwnd) * (1.0 - self.alpha / 2.0)
    }

    /// Prague's response to marks, once per round trip.
    fn respond(&mut self, now: Time) {
        if now.since(self.reduced) >= self.round_trip() {
            self.window.set(self.reduced_window().max(2.0 * f64::from(self.window.mss)));
            self.window.end_slow_start();
            self.reduced = now;
        }
    }
}

impl CongestionControl for Scalable {
    fn on_handshake(&mut self, _now: Time, rtt: Span) {
        self.srtt = rtt;
    }

    fn on_sent(&mut self, sent: &Sent) {
        self.window.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.srtt = ack.srtt.unwrap_or(self.srtt);
        self.marked += ack.marked;
        self.packets += ack.segments;
        let round = self.window.starts_round(ack);
        self.update_alpha(ack.now, round);
        if self.window.phase == Phase::Reduction {
            return self.window.reduce_rate(ack);
        }
        if self.prague && ack.marked > 0 && self.window.phase == Phase::Open {
            self.respond(ack.now);
        }
        if !ack.acked.is_positive() || !self.window.is_limit() {
            return;
        }
        let mut bytes = delivered(ack);
        if self.prague {
            let marked = ack.marked.min(ack.segments);
            let unmarked = u64::from(ack.segments - marked) * u64::from(bytes);
            bytes = (unmarked / u64::from(ack.segments.max(1))) as u32;
        }
        if self.window.in_slow_start() {
            bytes = self.window.slow_start(bytes);
        }
        if bytes > 0 && !self.window.in_slow_start() {
            self.window.increase(bytes, self.bytes_per_segment());
        }
    }

    fn on_lost(&mut self, lost: &LostSegment) {
        if self.responds {
            self.responds = false;
            let half = self.window.cwnd / 2;
            if !self.window.reduce(half, lost.sent_in_flight) {
                self.window.lower(half);
            }
        }
    }

    fn enter_recovery(&mut self, _now: Time, cause: Cause, in_flight: Bytes) {
        match cause {
            Cause::Loss => _ = self.window.reduce(self.window.cwnd / 2, in_flight),
            Cause::Mark => {
                self.responds = true;
                if !self.prague {
                    self.window.reduce(self.reduced_window() as u32, in_flight);
                }
            }
        }
    }

    fn exit_recovery(&mut self, _now: Time) {
        self.responds = false;
        self.window.end_recovery();
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: Bytes) {
        self.responds = false;
        self.window.time_out(self.window.cwnd / 2);
    }

    fn undo(&mut self, _now: Time) {
        self.responds = false;
        self.window.undo();
    }

    fn on_restart(&mut self, _now: Time, idle: Span, rto: Span) {
        self.window.decay(idle, rto);
    }

    fn cwnd(&self) -> Bytes {
        self.window.cwnd()
    }

    fn ssthresh(&self) -> Bytes {
        self.window.ssthresh()
    }

    /// A window per round-trip time, and twice that in slow start.
    fn pacing_rate(&self) -> Option<Bandwidth> {
        if !self.prague || self.srtt == Span::ZERO {
            return None;
        }
        let gain = if self.window.in_slow_start() { 2.0 } else { 1.0 };
        let rate = gain * f64::from(self.window.cwnd) * 8.0 / self.srtt.as_secs_f64();
        Some(Bandwidth::from_bits_per_sec((rate as u64).max(8)))
    }

    fn send_quantum(&self) -> Bytes {
        if self.prague {
            let rate = self.pacing_rate().unwrap_or(Bandwidth::ZERO);
            rate.bytes_in(BURST).max(Bytes::new(u64::from(self.window.mss)))
        } else {
            Bytes::MAX
        }
    }
}
