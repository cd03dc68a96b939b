//! Reno: additive increase, multiplicative decrease (RFC 5681).

use base::{Bytes, Span, Time};

use super::window::{Phase, Window, delivered};
use super::{AckSample, Cause, CongestionControl, Sent, Setup};

/// Slow start, then one segment a round trip; half the window upon congestion.
#[derive(Clone, Debug)]
pub struct Reno {
    window: Window,
}

impl Reno {
    /// For a new connection.
    pub fn new(setup: &Setup) -> Self {
        Self { window: Window::new(setup) }
    }
}

impl CongestionControl for Reno {
    fn on_sent(&mut self, sent: &Sent) {
        self.window.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let window = &mut self.window;
        window.starts_round(ack);
        if window.phase == Phase::Reduction {
            window.reduce_rate(ack);
        } else if ack.acked.is_positive() && window.is_limit() {
            let mut bytes = delivered(ack);
            if window.in_slow_start() {
                bytes = window.slow_start(bytes);
            }
            if bytes > 0 {
                window.increase(bytes, window.cwnd);
            }
        }
    }

    fn enter_recovery(&mut self, _now: Time, _cause: Cause, in_flight: Bytes) {
        self.window.reduce(self.window.cwnd / 2, in_flight);
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
