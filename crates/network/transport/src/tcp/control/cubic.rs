//! CUBIC (RFC 9438) with HyStart++ (RFC 9406).

use base::{Bytes, Span, Time};

use super::hystart::{HyStart, Verdict};
use super::window::{Phase, Window, delivered};
use super::{AckSample, Cause, CongestionControl, Sent, Setup};
use crate::tcp::packed::packed;

/// C, in segments per cubic second.
const C: f64 = 0.4;
/// Remaining part of the window after a loss.
const BETA: f64 = 0.7;
/// The same in thousandths, and after a mark with alternative backoff (RFC 8511, section 3.1).
const REDUCED: u32 = 700;
const REDUCED_ABE: u32 = 850;
/// Additive increase of an AIMD controller with this decrease that shares equally
/// with Reno (equation 4).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The cubic function since the last congestion. Windows are in segments.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Curve {
    /// Start of the epoch; `None` before congestion avoidance.
    epoch: Option<Time>,
    /// Window of the plateau.
    w_max: f64,
    /// Seconds from the start of the epoch to the plateau.
    k: f64,
    /// The window that Reno would have.
    w_est: f64,
}

/// A window that grows with the cube of the time since the last congestion, at least as Reno's.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: Window,
    hystart: HyStart,
    curve: Curve,
    /// The state before the last reduction.
    prior: Curve,
    /// The window when it was last reduced, in segments.
    cwnd_prior: f64,
    /// Fraction of a byte by which the window should have grown.
    fraction: f64,
    /// Time of the last acknowledgement in congestion avoidance.
    last: Time,
    abe: bool,
}

packed!(Curve { epoch, w_max, k, w_est });
packed!(Cubic { window, hystart, curve, prior, cwnd_prior, fraction, last, abe });

impl Curve {
    /// `W_cubic` at `t` seconds after the epoch (equation 1).
    fn at(&self, t: f64) -> f64 {
        let x = t - self.k;
        C * x * x * x + self.w_max
    }

    /// Starts an epoch with the window `cwnd` (section 4.2): the plateau is the window before the
    /// reduction, or `cwnd` if there was no reduction or its window has been exceeded.
    fn begin(&mut self, now: Time, cwnd: f64) {
        self.epoch = Some(now);
        self.w_est = cwnd;
        if cwnd < self.w_max {
            self.k = ((self.w_max - cwnd) / C).cbrt();
        } else {
            (self.k, self.w_max) = (0.0, cwnd);
        }
    }
}

impl Cubic {
    /// The controller of a new connection.
    pub fn new(setup: &Setup) -> Self {
        let curve = Curve { epoch: None, w_max: 0.0, k: 0.0, w_est: 0.0 };
        Self {
            window: Window::new(setup),
            hystart: HyStart::new(),
            curve,
            prior: curve,
            cwnd_prior: 0.0,
            fraction: 0.0,
            last: Time::ZERO,
            abe: setup.abe,
        }
    }

    fn segments(&self) -> f64 {
        f64::from(self.window.cwnd) / f64::from(self.window.mss)
    }

    /// Slow start; returns the bytes left for congestion avoidance.
    fn slow_start(&mut self, ack: &AckSample, round: bool) -> u32 {
        let bytes = delivered(ack);
        if !self.window.is_first_slow_start() {
            return self.window.slow_start(bytes);
        }
        match self.hystart.on_ack(round, ack.rtt, bytes, self.window.mss) {
            Verdict::Grow(bytes) => self.window.slow_start(bytes),
            Verdict::Leave => {
                self.window.end_slow_start();
                bytes
            }
        }
    }

    /// Congestion avoidance (sections 4.2 to 4.5).
    fn avoid(&mut self, ack: &AckSample, bytes: u32) {
        let cwnd = self.segments();
        let epoch = self.curve.epoch.unwrap_or(ack.now);
        if self.curve.epoch.is_none() {
            self.curve.begin(epoch, cwnd);
        }
        let acked = f64::from(bytes) / f64::from(self.window.mss);
        let alpha = if self.curve.w_est < self.cwnd_prior { ALPHA } else { 1.0 };
        self.curve.w_est += alpha * acked / cwnd;
        let t = ack.now.since(epoch).as_secs_f64();
        let grown = if self.curve.at(t) < self.curve.w_est {
            self.curve.w_est.max(cwnd)
        } else {
            let rtt = ack.srtt.unwrap_or(Span::ZERO).as_secs_f64();
            let target = self.curve.at(t + rtt).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) * acked / cwnd
        };
        let exact = grown * f64::from(self.window.mss) + self.fraction;
        self.window.set(exact);
        self.fraction = (exact - f64::from(self.window.cwnd)).clamp(0.0, 1.0);
    }

    /// Saves the window at a congestion and computes the plateau (sections 4.6 and 4.7).
    fn congestion(&mut self) {
        let cwnd = self.segments();
        self.prior = self.curve;
        self.cwnd_prior = cwnd;
        let converging = cwnd < self.curve.w_max;
        self.curve.w_max = if converging { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.curve.epoch = None;
        self.fraction = 0.0;
    }

    /// This part of the window, in thousandths.
    fn reduced(&self, beta: u32) -> u32 {
        (u64::from(self.window.cwnd) * u64::from(beta) / 1000) as u32
    }
}

impl CongestionControl for Cubic {
    fn on_sent(&mut self, sent: &Sent) {
        self.window.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let round = self.window.starts_round(ack);
        if self.window.phase == Phase::Reduction {
            self.window.reduce_rate(ack);
        } else if ack.acked.is_positive() {
            if self.window.is_limit() {
                let bytes = if self.window.in_slow_start() {
                    self.slow_start(ack, round)
                } else {
                    delivered(ack)
                };
                if bytes > 0 && !self.window.in_slow_start() {
                    self.avoid(ack, bytes);
                }
            } else if let Some(epoch) = &mut self.curve.epoch {
                // Time in which the window was not used does not count for
                // its growth (section 5.8).
                *epoch += ack.now.since(self.last);
            }
        }
        self.last = ack.now;
    }

    fn enter_recovery(&mut self, _now: Time, cause: Cause, in_flight: Bytes) {
        let beta = if self.abe && cause == Cause::Mark { REDUCED_ABE } else { REDUCED };
        if self.window.phase == Phase::Open {
            self.congestion();
            self.window.reduce(self.reduced(beta), in_flight);
        }
    }

    fn exit_recovery(&mut self, _now: Time) {
        self.window.end_recovery();
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: Bytes) {
        if self.window.phase == Phase::Open {
            self.congestion();
        }
        self.window.time_out(self.reduced(REDUCED));
        // The plateau of the next epoch is at the end of slow start (section 4.8).
        (self.curve.epoch, self.curve.w_max) = (None, 0.0);
    }

    fn undo(&mut self, _now: Time) {
        self.window.undo();
        self.curve = self.prior;
        self.fraction = 0.0;
    }

    fn on_restart(&mut self, now: Time, idle: Span, rto: Span) {
        self.window.decay(idle, rto);
        if let Some(epoch) = &mut self.curve.epoch {
            *epoch += now.since(self.last);
        }
        self.last = now;
    }

    fn cwnd(&self) -> Bytes {
        self.window.cwnd()
    }

    fn ssthresh(&self) -> Bytes {
        self.window.ssthresh()
    }
}
