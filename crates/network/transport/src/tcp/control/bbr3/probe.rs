//! The cycle that probes for bandwidth, and `ProbeRtt`.

use base::{Span, Time};

use super::{
    AckPhase, AckSample, Bbr3, HEADROOM, LOSS_THRESHOLD, MIN_PIPE, NONE, PROBE_RTT_CWND_GAIN,
    PROBE_RTT_LENGTH, Phase, RateSample, delivery_rate,
};

/// Maximum rounds between probes, so that Reno gets its share (`IsRenoCoexistenceProbeTime`).
const RENO_ROUNDS: f64 = 63.0;

impl Bbr3 {
    /// `StartProbeBW_DOWN`, with `PickProbeWait`.
    pub(super) fn start_down(&mut self, now: Time) {
        self.latest.lossy = false;
        (self.latest.bw, self.latest.inflight) = (0.0, 0.0);
        self.probe.acked_per_step = NONE;
        self.probe.rounds_since = self.random.below(2);
        let extra = self.random.below(1_000_000_000);
        self.probe.wait = Span::from_nanos(2_000_000_000 + extra);
        self.probe.since = now;
        self.probe.acks = AckPhase::ProbeStopping;
        self.rounds.begin(self.delivered);
        self.phase = Phase::Down;
    }

    /// `StartProbeBW_REFILL`.
    pub(super) fn start_refill(&mut self) {
        self.reset_short_term();
        (self.probe.up_rounds, self.probe.acked) = (0, 0.0);
        self.probe.precautionary = false;
        self.probe.acks = AckPhase::Refilling;
        self.rounds.begin(self.delivered);
        self.phase = Phase::Refill;
    }

    fn start_up(&mut self, rate: &RateSample) {
        self.probe.sampling = true;
        self.probe.acks = AckPhase::ProbeStarting;
        self.rounds.begin(self.delivered);
        self.reset_full_pipe(delivery_rate(rate));
        self.phase = Phase::Up;
        self.raise_slope();
    }

    fn reset_short_term(&mut self) {
        (self.bounds.bw_short, self.bounds.inflight_short) = (NONE, NONE);
    }

    /// The long-term volume grows by one segment in the first round, two in the second, four …
    fn raise_slope(&mut self) {
        let growth = (1u64 << self.probe.up_rounds) as f64;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.acked_per_step = (self.cwnd / growth).max(self.mss);
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_cycle(&mut self, ack: &AckSample, rate: &RateSample) {
        if !self.full || self.adapt_long_term(ack, rate) {
            return;
        }
        let probed = self.phase == Phase::Up && self.is_time_to_go_down(ack, rate);
        match self.phase {
            Phase::Down => {
                if self.is_time_to_probe(ack.now) {
                    self.start_refill();
                } else if self.is_time_to_cruise(ack) {
                    self.phase = Phase::Cruise;
                }
            }
            Phase::Cruise if self.is_time_to_probe(ack.now) => self.start_refill(),
            Phase::Refill if self.rounds.start => self.start_up(rate),
            Phase::Up if probed => {
                self.probe.too_high = false;
                self.start_down(ack.now);
            }
            _ => {}
        }
    }

    /// `AdaptLongTermModel`. Returns whether it changed the state.
    fn adapt_long_term(&mut self, ack: &AckSample, rate: &RateSample) -> bool {
        if self.rounds.start {
            match self.probe.acks {
                AckPhase::ProbeStarting => self.probe.acks = AckPhase::ProbeFeedback,
                AckPhase::ProbeStopping => {
                    self.probe.sampling = false;
                    self.probe.acks = AckPhase::Init;
                    if self.phase.is_probe_bw() && !self.is_app_limited(rate) {
                        self.cycles += 1;
                    }
                    let safe = self.probe.precautionary && !self.probe.too_high;
                    if self.phase.is_probe_bw() && safe {
                        self.start_refill();
                        return true;
                    }
                }
                AckPhase::Init | AckPhase::Refilling | AckPhase::ProbeFeedback => {}
            }
        }
        let flight = rate.sent_in_flight.count() as f64;
        let excessive = rate.lost.count() as f64 > flight * LOSS_THRESHOLD;
        if !excessive && self.bounds.inflight_long < NONE {
            self.bounds.inflight_long = self.bounds.inflight_long.max(flight);
            if self.phase == Phase::Up {
                self.grow_long_term(ack);
            }
        }
        false
    }

    /// `ProbeInflightLongtermUpward`.
    fn grow_long_term(&mut self, ack: &AckSample) {
        if !self.is_cwnd_limited() || self.cwnd < self.bounds.inflight_long {
            return;
        }
        self.probe.acked += ack.delivered.count() as f64;
        let steps = (self.probe.acked / self.probe.acked_per_step).floor();
        if steps >= 1.0 {
            self.probe.acked -= steps * self.probe.acked_per_step;
            self.bounds.inflight_long += steps * self.mss;
        }
        if self.rounds.start {
            self.raise_slope();
        }
    }

    fn is_time_to_probe(&self, now: Time) -> bool {
        let reno = (self.bdp(1.0).min(self.cwnd) / self.mss).min(RENO_ROUNDS);
        now > self.probe.since + self.probe.wait || self.probe.rounds_since as f64 >= reno
    }

    fn is_time_to_cruise(&self, ack: &AckSample) -> bool {
        let in_flight = ack.in_flight.count() as f64;
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(1.0)
    }

    fn is_time_to_go_down(&mut self, ack: &AckSample, rate: &RateSample) -> bool {
        let limit = self.bounds.inflight_long;
        if self.probe.too_high && ack.in_flight.count() as f64 >= limit {
            self.probe.precautionary = true;
            return true;
        }
        if self.is_cwnd_limited() && self.cwnd >= limit {
            // The bound limits the window, so the sample does not show whether the pipe is full.
            self.reset_full_pipe(delivery_rate(rate));
            return false;
        }
        self.full_now
    }

    /// `InflightWithHeadroom`.
    pub(super) fn inflight_with_headroom(&self) -> f64 {
        let limit = self.bounds.inflight_long;
        if limit < NONE {
            (limit - (HEADROOM * limit).max(self.mss)).max(MIN_PIPE * self.mss)
        } else {
            NONE
        }
    }

    pub(super) fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp(PROBE_RTT_CWND_GAIN).max(MIN_PIPE * self.mss)
    }

    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, ack: &AckSample) {
        if self.phase != Phase::ProbeRtt && self.probe_rtt_due && !self.idle_restart {
            self.save_cwnd();
            self.phase = Phase::ProbeRtt;
            self.probe_rtt_until = None;
            self.probe.acks = AckPhase::ProbeStopping;
            self.rounds.begin(self.delivered);
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
            None if in_flight as f64 <= self.probe_rtt_cwnd() => {
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

    pub(super) fn end_probe_rtt(&mut self, now: Time) {
        if self.probe_rtt_until.is_none_or(|until| now <= until) {
            return;
        }
        self.probe_rtt_min_at = now;
        self.restore_cwnd();
        self.reset_short_term();
        if self.full {
            self.start_down(now);
            self.phase = Phase::Cruise;
        } else {
            self.phase = Phase::Startup;
        }
    }
}
