//! Reno: additive increase, multiplicative decrease (RFC 5681).

use base::{Bytes, Span, Time};

use super::hystart::{HyStart, Verdict};
use super::window::{Phase, Window, delivered};
use super::{AckSample, Cause, CongestionControl, Sent, Setup};
use crate::tcp::packed::packed;

/// Slow start, then one segment per round trip; halves the window on congestion.
#[derive(Clone, Debug)]
pub struct Reno {
    window: Window,
    hystart: Option<HyStart>,
    abe: bool,
}

packed!(Reno { window, hystart, abe });

impl Reno {
    /// The controller of a new connection.
    pub fn new(setup: &Setup) -> Self {
        let hystart = setup.hystart.then(HyStart::new);
        Self { window: Window::new(setup), hystart, abe: setup.abe }
    }

    /// Slow start; returns the bytes left for congestion avoidance.
    fn slow_start(&mut self, ack: &AckSample, round: bool) -> u32 {
        let bytes = delivered(ack);
        let window = &mut self.window;
        match &mut self.hystart {
            Some(hystart) if window.is_first_slow_start() => {
                match hystart.on_ack(round, ack.rtt, bytes, window.mss) {
                    Verdict::Grow(bytes) => window.slow_start(bytes),
                    Verdict::Leave => {
                        window.end_slow_start();
                        bytes
                    }
                }
            }
            _ => window.slow_start(bytes),
        }
    }
}

impl CongestionControl for Reno {
    fn on_sent(&mut self, sent: &Sent) {
        self.window.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let round = self.window.starts_round(ack);
        if self.window.phase == Phase::Reduction {
            self.window.reduce_rate(ack);
        } else if ack.acked.is_positive() && self.window.is_limit() {
            let bytes = if self.window.in_slow_start() {
                self.slow_start(ack, round)
            } else {
                delivered(ack)
            };
            if bytes > 0 && !self.window.in_slow_start() {
                self.window.increase(bytes, self.window.cwnd);
            }
        }
    }

    fn enter_recovery(&mut self, _now: Time, cause: Cause, in_flight: Bytes) {
        let cwnd = self.window.cwnd;
        let milder = self.abe && cause == Cause::Mark;
        let target = if milder { cwnd / 5 * 4 } else { cwnd / 2 };
        self.window.reduce(target, in_flight);
    }

    fn exit_recovery(&mut self, _now: Time) {
        self.window.end_recovery();
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: Bytes) {
        self.window.time_out(self.window.cwnd / 2);
    }

    fn undo(&mut self, _now: Time) {
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
}
