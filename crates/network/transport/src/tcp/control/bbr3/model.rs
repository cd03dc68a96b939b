//! Updates of the path model from acknowledgements and losses.

use base::Time;

use super::{
    AckSample, BETA, Bbr3, LOSS_THRESHOLD, MIN_RTT_WINDOW, NONE, PROBE_RTT_INTERVAL, Phase,
    RateSample, STARTUP_LOSSES, delivery_rate,
};

impl Bbr3 {
    /// `UpdateLatestDeliverySignals`.
    pub(super) fn update_latest(&mut self, rate: &RateSample) {
        self.delivered = rate.total_delivered.count();
        self.latest.bw = self.latest.bw.max(delivery_rate(rate));
        self.latest.inflight = self.latest.inflight.max(rate.delivered.count() as f64);
        self.latest.round_start = rate.prior_delivered.count() >= self.latest.next_round;
        if self.latest.round_start {
            self.latest.next_round = self.delivered;
        }
    }

    /// `UpdateCongestionSignals`: the bandwidth, and once per round the response to losses.
    pub(super) fn update_congestion(&mut self, rate: &RateSample) {
        self.rounds.update(rate);
        if self.rounds.start {
            self.probe.rounds_since += 1;
            self.peak = [0.0, self.peak[0]];
        }
        let sample = delivery_rate(rate);
        if sample > 0.0 && (sample >= self.max_bw.get() || !self.is_app_limited(rate)) {
            self.max_bw.update(self.cycles, sample);
        }
        if !self.latest.round_start {
            return;
        }
        let probing = matches!(self.phase, Phase::Startup | Phase::Refill | Phase::Up);
        if self.latest.lossy && !probing {
            let bounds = &mut self.bounds;
            let bw = if bounds.bw_short < NONE { bounds.bw_short } else { self.max_bw.get() };
            bounds.bw_short = self.latest.bw.max(BETA * bw);
            let volume =
                if bounds.inflight_short < NONE { bounds.inflight_short } else { self.cwnd };
            bounds.inflight_short = self.latest.inflight.max(BETA * volume);
        }
        self.latest.lossy = false;
    }

    pub(super) fn reset_full_pipe(&mut self, bw: f64) {
        (self.full_bw, self.full_bw_count, self.full_now) = (bw, 0, false);
    }

    /// `CheckFullBWReached`: three rounds in which the delivery rate grew by less than a quarter.
    pub(super) fn check_full_pipe(&mut self, rate: &RateSample) {
        if self.full_now || !self.rounds.start || self.is_app_limited(rate) {
            return;
        }
        let sample = delivery_rate(rate);
        if sample >= self.full_bw * 1.25 {
            self.reset_full_pipe(sample);
            return;
        }
        self.full_bw_count += 1;
        self.full_now = self.full_bw_count >= 3;
        self.full |= self.full_now;
    }

    /// `CheckStartupDone`.
    //= deviation: acknowledgements that tell of losses are counted, as Linux does, not
    //= discontiguous ranges, which a congestion control does not see.
    pub(super) fn check_startup(&mut self, ack: &AckSample, rate: &RateSample) {
        if self.phase != Phase::Startup {
            return;
        }
        self.latest.loss_events += u32::from(ack.lost.is_positive());
        if self.latest.round_start {
            let events = std::mem::take(&mut self.latest.loss_events);
            let flight = rate.sent_in_flight.count() as f64;
            let excessive = rate.lost.count() as f64 > flight * LOSS_THRESHOLD;
            if self.recovering && events >= STARTUP_LOSSES && excessive {
                self.undo_phase = Some(Phase::Startup);
                self.full = true;
                self.bounds.inflight_long = self.bdp(1.0).max(self.latest.inflight);
            }
        }
        if self.full {
            self.phase = Phase::Drain;
            self.drain_round = self.rounds.count;
        }
    }

    /// `CheckDrainDone`.
    pub(super) fn check_drain(&mut self, ack: &AckSample) {
        if self.phase != Phase::Drain {
            return;
        }
        let drained = ack.in_flight.count() as f64 <= self.inflight(1.0);
        if drained || self.rounds.count > self.drain_round + 3 {
            self.start_down(ack.now);
        }
    }

    /// The first loss in a round: saves the state to restore if the loss was spurious.
    pub(super) fn note_loss(&mut self) {
        if !self.latest.lossy {
            self.latest.next_round = self.delivered;
            self.save_cwnd();
            self.undo_phase = None;
            self.undo_bounds = self.bounds;
        }
        self.latest.lossy = true;
    }

    /// `HandleInflightTooHigh`: a probe had `inflight` bytes in flight, and lost too much.
    pub(super) fn too_high(&mut self, now: Time, inflight: f64, app_limited: bool) {
        self.probe.too_high = true;
        self.probe.sampling = false;
        if !app_limited {
            let target = self.bdp(1.0).min(self.cwnd);
            self.bounds.inflight_long = inflight.max(target * BETA);
        }
        if self.phase == Phase::Up {
            self.undo_phase = Some(Phase::Up);
            self.start_down(now);
        }
    }

    /// Two filters: the shorter one schedules `ProbeRtt`, the longer one keeps samples for longer.
    pub(super) fn update_min_rtt(&mut self, ack: &AckSample) {
        let known = self.min_rtt.is_some();
        let due = known && ack.now > self.probe_rtt_min_at + PROBE_RTT_INTERVAL;
        self.probe_rtt_due = due;
        if let Some(rtt) = ack.rtt
            && (rtt < self.probe_rtt_min || due)
        {
            (self.probe_rtt_min, self.probe_rtt_min_at) = (rtt, ack.now);
        }
        let expired = ack.now > self.min_rtt_at + MIN_RTT_WINDOW;
        let shorter = self.min_rtt.is_none_or(|min| self.probe_rtt_min < min);
        if ack.rtt.is_some() && (shorter || expired) {
            self.min_rtt = Some(self.probe_rtt_min);
            self.min_rtt_at = self.probe_rtt_min_at;
        }
    }
}
