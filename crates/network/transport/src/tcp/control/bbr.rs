//! BBR, version 1 (ACM Queue 14(5); draft-cardwell-iccrg-bbr-congestion-control-00).
//!
//! ```text
//! Startup → Drain → ProbeBw (gains 1.25, 0.75, 1, 1, 1, 1, 1, 1)
//!    └────────┴────────┴──⇄ ProbeRtt, when the shortest round trip is 10 s old
//! ```

use base::{Bandwidth, Bytes, RandomStream, Span, Time};

use super::model::{Aggregation, MAX_VALUE, Rounds, WindowedMax, bandwidth, delivery_rate, volume};
use super::{AckSample, Cause, CongestionControl, RateSample, Sent, Setup};

/// 2/ln 2: doubles the rate every round.
const HIGH_GAIN: f64 = 2.885;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const PROBE_GAIN: f64 = 2.0;
/// `RTpropFilterLen`.
const MIN_RTT_WINDOW: Span = Span::from_secs(10);
const PROBE_RTT_LENGTH: Span = Span::from_millis(200);
/// `BBRMinPipeCwnd`, in segments.
const MIN_PIPE: f64 = 4.0;
//= deviation: paced one per cent below the estimate, as Linux has done since 4.20, so that the
//= queue that the maximum of noisy samples leaves behind drains.
const MARGIN: f64 = 0.99;
/// Maximum time for which extra acknowledged data counts, as in Linux.
const AGGREGATION_LIMIT: Span = Span::from_millis(100);

/// The state of a BBR sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Doubles the rate every round.
    Startup,
    /// Drains the queue that Startup built.
    Drain,
    /// Cycles around the estimated bandwidth.
    ProbeBw,
    /// Sends very little, to measure the path without a queue.
    ProbeRtt,
}

/// A model of bandwidth and round-trip time, and a sender paced by it.
#[derive(Clone, Debug)]
pub struct Bbr {
    phase: Phase,
    mss: f64,
    initial: f64,
    cwnd: f64,
    prior_cwnd: f64,
    pacing_rate: f64,
    pacing_gain: f64,
    cwnd_gain: f64,
    max_bw: WindowedMax<10>,
    rounds: Rounds,
    delivered: u64,
    /// Samples of segments sent before this many bytes were delivered are limited by `ProbeRtt`.
    limited_until: u64,
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    min_rtt_expired: bool,
    probe_rtt_until: Option<Time>,
    probe_rtt_round_done: bool,
    full_bw: f64,
    full_bw_count: u8,
    full: bool,
    cycle: usize,
    cycle_at: Time,
    recovering: bool,
    conserving: bool,
    idle_restart: bool,
    aggregation: Aggregation,
    random: RandomStream,
}

impl Bbr {
    /// The controller of a new connection.
    pub fn new(setup: &Setup) -> Self {
        let mss = f64::from(setup.mss.max(1));
        let initial = mss * f64::from(setup.initial_window.max(1));
        Self {
            phase: Phase::Startup,
            mss,
            initial,
            cwnd: initial,
            prior_cwnd: 0.0,
            // Without an RTT sample, 1 ms is assumed.
            pacing_rate: HIGH_GAIN * initial * 1e3,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            max_bw: WindowedMax::new(),
            rounds: Rounds::default(),
            delivered: 0,
            limited_until: 0,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            min_rtt_expired: false,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            full_bw: 0.0,
            full_bw_count: 0,
            full: false,
            cycle: 0,
            cycle_at: Time::ZERO,
            recovering: false,
            conserving: false,
            idle_restart: false,
            aggregation: Aggregation::new(),
            random: RandomStream::new(setup.seed, "bbr"),
        }
    }

    /// The state of the sender.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Estimated bottleneck bandwidth (`BtlBw`) and propagation time (`RTprop`).
    pub fn model(&self) -> (Bandwidth, Option<Span>) {
        (bandwidth(self.max_bw.get()), self.min_rtt)
    }

    fn quantum(&self) -> f64 {
        match self.pacing_rate * 8.0 {
            rate if rate < 1.2e6 => self.mss,
            rate if rate < 24e6 => 2.0 * self.mss,
            _ => (self.pacing_rate * 1e-3).min(65_536.0),
        }
    }

    /// `BBRInflight`: a multiple of the estimated bandwidth-delay product, and three quanta.
    fn inflight(&self, gain: f64) -> f64 {
        match self.min_rtt {
            Some(rtt) => gain * volume(self.max_bw.get(), rtt) + 3.0 * self.quantum(),
            None => self.initial,
        }
    }

    fn update_bandwidth(&mut self, rate: &RateSample) {
        self.rounds.update(rate);
        if self.rounds.start {
            self.conserving = false;
        }
        let sample = delivery_rate(rate);
        if sample >= self.max_bw.get() || !self.is_app_limited(rate) {
            self.max_bw.update(self.rounds.count, sample);
        }
    }

    fn is_app_limited(&self, rate: &RateSample) -> bool {
        rate.app_limited || rate.prior_delivered.count() < self.limited_until
    }

    fn check_cycle(&mut self, ack: &AckSample) {
        let Some(rtt) = self.min_rtt else { return };
        if self.phase != Phase::ProbeBw {
            return;
        }
        let full_length = ack.now.since(self.cycle_at) > rtt;
        let in_flight = ack.prior_in_flight.count() as f64;
        let next = match CYCLE[self.cycle] {
            gain if gain > 1.0 => {
                full_length && (ack.lost.is_positive() || in_flight >= self.inflight(gain))
            }
            gain if gain < 1.0 => full_length || in_flight <= self.inflight(1.0),
            _ => full_length,
        };
        if next {
            self.advance_cycle(ack.now);
        }
    }

    fn advance_cycle(&mut self, now: Time) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_at = now;
        self.pacing_gain = CYCLE[self.cycle];
    }

    fn check_full_pipe(&mut self, rate: &RateSample) {
        if self.full || !self.rounds.start || self.is_app_limited(rate) {
            return;
        }
        if self.max_bw.get() >= self.full_bw * 1.25 {
            (self.full_bw, self.full_bw_count) = (self.max_bw.get(), 0);
            return;
        }
        self.full_bw_count += 1;
        self.full = self.full_bw_count >= 3;
    }

    fn check_drain(&mut self, ack: &AckSample) {
        if self.phase == Phase::Startup && self.full {
            self.phase = Phase::Drain;
            (self.pacing_gain, self.cwnd_gain) = (1.0 / HIGH_GAIN, HIGH_GAIN);
        }
        if self.phase == Phase::Drain && ack.in_flight.count() as f64 <= self.inflight(1.0) {
            self.enter_probe_bw(ack.now);
        }
    }

    fn enter_startup(&mut self) {
        self.phase = Phase::Startup;
        (self.pacing_gain, self.cwnd_gain) = (HIGH_GAIN, HIGH_GAIN);
    }

    /// Starts the cycle at a random phase, except the draining one.
    fn enter_probe_bw(&mut self, now: Time) {
        self.phase = Phase::ProbeBw;
        self.cwnd_gain = PROBE_GAIN;
        self.cycle = CYCLE.len() - 1 - self.random.below(CYCLE.len() as u64 - 1) as usize;
        self.advance_cycle(now);
    }

    fn update_min_rtt(&mut self, ack: &AckSample) {
        let stale = ack.now > self.min_rtt_at + MIN_RTT_WINDOW;
        self.min_rtt_expired = stale && self.min_rtt.is_some();
        if let Some(rtt) = ack.rtt
            && (self.min_rtt_expired || self.min_rtt.is_none_or(|min| rtt <= min))
        {
            (self.min_rtt, self.min_rtt_at) = (Some(rtt), ack.now);
        }
    }

    fn check_probe_rtt(&mut self, ack: &AckSample) {
        if self.phase != Phase::ProbeRtt && self.min_rtt_expired && !self.idle_restart {
            self.save_cwnd();
            self.phase = Phase::ProbeRtt;
            (self.pacing_gain, self.cwnd_gain) = (1.0, 1.0);
            self.probe_rtt_until = None;
        }
        if self.phase == Phase::ProbeRtt {
            self.probe_rtt(ack);
        }
        self.idle_restart = false;
    }

    fn probe_rtt(&mut self, ack: &AckSample) {
        let in_flight = ack.in_flight.count();
        self.limited_until = (self.delivered + in_flight).max(1);
        match self.probe_rtt_until {
            None if in_flight as f64 <= MIN_PIPE * self.mss => {
                self.probe_rtt_until = Some(ack.now + PROBE_RTT_LENGTH);
                self.probe_rtt_round_done = false;
                self.rounds.begin(self.delivered);
            }
            None => {}
            Some(_) => {
                self.probe_rtt_round_done |= self.rounds.start;
                if self.probe_rtt_round_done {
                    self.end_probe_rtt(ack.now);
                }
            }
        }
    }

    fn end_probe_rtt(&mut self, now: Time) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt_at = now;
        self.restore_cwnd();
        if self.full {
            self.enter_probe_bw(now);
        } else {
            self.enter_startup();
        }
    }

    fn save_cwnd(&mut self) {
        let kept = self.recovering || self.phase == Phase::ProbeRtt;
        self.prior_cwnd = if kept { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn pace(&mut self, gain: f64) {
        let rate = gain * self.max_bw.get() * MARGIN;
        if rate > 0.0 && (self.full || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    fn set_cwnd(&mut self, ack: &AckSample) {
        let delivered = ack.delivered.count() as f64;
        if ack.lost.is_positive() {
            self.cwnd = (self.cwnd - ack.lost.count() as f64).max(self.mss);
        }
        if self.conserving {
            self.cwnd = self.cwnd.max(ack.in_flight.count() as f64 + delivered);
        } else {
            let mut target = self.inflight(self.cwnd_gain);
            if self.full {
                let most = volume(self.max_bw.get(), AGGREGATION_LIMIT);
                target += self.aggregation.extra().min(most);
                self.cwnd = (self.cwnd + delivered).min(target);
            } else if self.cwnd < target || (self.delivered as f64) < self.initial {
                self.cwnd += delivered;
            }
            self.cwnd = self.cwnd.max(MIN_PIPE * self.mss);
        }
        if self.phase == Phase::ProbeRtt {
            self.cwnd = self.cwnd.min(MIN_PIPE * self.mss);
        }
        self.cwnd = self.cwnd.clamp(self.mss, MAX_VALUE);
    }
}

impl CongestionControl for Bbr {
    fn on_sent(&mut self, _sent: &Sent) {}

    fn on_handshake(&mut self, now: Time, rtt: Span) {
        (self.min_rtt, self.min_rtt_at) = (Some(rtt), now);
        self.pacing_rate = HIGH_GAIN * self.initial / rtt.as_secs_f64().max(1e-6);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(rate) = &ack.rate {
            self.delivered = rate.total_delivered.count();
            self.update_bandwidth(rate);
            let (bw, newly) = (self.max_bw.get(), ack.delivered.count() as f64);
            self.aggregation.update(ack.now, newly, bw, self.cwnd, (&self.rounds, self.full));
            self.check_cycle(ack);
            self.check_full_pipe(rate);
            self.check_drain(ack);
        }
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack);
        self.pace(self.pacing_gain);
        self.set_cwnd(ack);
    }

    /// Sends the delivered amount for a round, then follows the model again. BBR ignores marks.
    fn enter_recovery(&mut self, _now: Time, cause: Cause, in_flight: Bytes) {
        if cause == Cause::Loss && !self.recovering {
            self.save_cwnd();
            self.recovering = true;
            self.conserving = true;
            self.rounds.begin(self.delivered);
            self.cwnd = (in_flight.count() as f64).min(self.cwnd).max(self.mss);
        }
    }

    fn exit_recovery(&mut self, _now: Time) {
        if self.recovering {
            (self.recovering, self.conserving) = (false, false);
            self.restore_cwnd();
        }
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: Bytes) {
        self.save_cwnd();
        (self.recovering, self.conserving) = (true, false);
        self.full_bw = 0.0;
        self.cwnd = self.mss;
    }

    fn undo(&mut self, now: Time) {
        (self.full_bw, self.full_bw_count) = (0.0, 0);
        self.exit_recovery(now);
    }

    fn on_restart(&mut self, now: Time, _idle: Span, _rto: Span) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        match self.phase {
            Phase::ProbeBw => self.pace(1.0),
            Phase::ProbeRtt => self.end_probe_rtt(now),
            Phase::Startup | Phase::Drain => {}
        }
    }

    fn cwnd(&self) -> Bytes {
        Bytes::new(self.cwnd as u64)
    }

    fn ssthresh(&self) -> Bytes {
        Bytes::MAX
    }

    fn pacing_rate(&self) -> Option<Bandwidth> {
        Some(bandwidth(self.pacing_rate))
    }

    fn send_quantum(&self) -> Bytes {
        Bytes::new(self.quantum() as u64)
    }
}
