//! BBR, version 3 (draft-ietf-ccwg-bbr).
//!
//! ```text
//! Startup → Drain → Down → Cruise → Refill → Up ┐
//!    └────────┴──────↑└───────┴────────┴────────┘
//!                    └─⇄ ProbeRtt, when no short round trip was seen for 5 s
//! ```
//!
//! The model of the path has a bandwidth and a volume for the long term, which probing determines,
//! and for the short term, which losses reduce until the next probe.

mod model;
mod probe;

use base::{Bandwidth, Bytes, RandomStream, Span, Time};

use super::model::{Aggregation, MAX_VALUE, Rounds, WindowedMax, bandwidth, delivery_rate, volume};
use super::{AckSample, Cause, CongestionControl, LostSegment, RateSample, Sent, Setup};

/// `StartupPacingGain`: 4 ln 2.
const STARTUP_GAIN: f64 = 2.77;
const DRAIN_GAIN: f64 = 0.5;
const CWND_GAIN: f64 = 2.0;
const UP_CWND_GAIN: f64 = 2.25;
const PROBE_RTT_CWND_GAIN: f64 = 0.5;
/// Maximum loss rate per round trip.
const LOSS_THRESHOLD: f64 = 0.02;
/// Minimum remainder of the short-term model after a round trip with losses.
const BETA: f64 = 0.7;
/// Share of the volume that is left to other flows.
const HEADROOM: f64 = 0.15;
/// Number of acknowledgements with losses in a round that ends Startup.
const STARTUP_LOSSES: u32 = 6;
const MIN_RTT_WINDOW: Span = Span::from_secs(10);
/// `ProbeRTTInterval` and `ProbeRTTDuration`.
const PROBE_RTT_INTERVAL: Span = Span::from_secs(5);
const PROBE_RTT_LENGTH: Span = Span::from_millis(200);
/// `MinPipeCwnd`, in segments.
const MIN_PIPE: f64 = 4.0;
/// Pacing at 1 % below the estimate (`PacingMarginPercent`).
const MARGIN: f64 = 0.99;
const NONE: f64 = f64::INFINITY;

/// The state of a BBRv3 sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Doubles the rate every round.
    Startup,
    /// Drains the queue that Startup built.
    Drain,
    /// `ProbeBW_DOWN`: leaves capacity to others.
    Down,
    /// `ProbeBW_CRUISE`: sends at the estimated rate.
    Cruise,
    /// `ProbeBW_REFILL`: fills the pipe before probing.
    Refill,
    /// `ProbeBW_UP`: probes for more bandwidth.
    Up,
    /// Half a bandwidth-delay product in flight, to measure the path without a queue.
    ProbeRtt,
}

impl Phase {
    const fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    const fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => STARTUP_GAIN,
            Self::Drain => DRAIN_GAIN,
            Self::Down => 0.9,
            Self::Up => 1.25,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
        }
    }

    const fn cwnd_gain(self) -> f64 {
        match self {
            Self::Up => UP_CWND_GAIN,
            Self::ProbeRtt => PROBE_RTT_CWND_GAIN,
            _ => CWND_GAIN,
        }
    }
}

/// The phase of acknowledgements relative to the last probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    /// Acknowledgements of the probe have not arrived yet.
    ProbeStarting,
    ProbeFeedback,
    /// The probe is over, but its last acknowledgements have not arrived.
    ProbeStopping,
}

/// Volumes in bytes and rates in bytes a second, infinite without a bound.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    bw_short: f64,
    inflight_short: f64,
    inflight_long: f64,
}

/// The state of a bandwidth probe.
#[derive(Clone, Debug)]
struct Probe {
    acks: AckPhase,
    /// Whether losses of segments sent now bound the long-term volume.
    sampling: bool,
    /// Start of the cycle and its waiting time.
    since: Time,
    wait: Span,
    rounds_since: u64,
    /// Delivered bytes for each segment by which the long-term volume grows, and the
    /// bytes counted so far.
    acked_per_step: f64,
    acked: f64,
    up_rounds: u32,
    /// Whether the last probe lost too much, and whether this one ended early for that reason.
    too_high: bool,
    precautionary: bool,
}

/// Bandwidth, volume and losses of the last round.
#[derive(Clone, Debug, Default)]
struct Latest {
    bw: f64,
    inflight: f64,
    /// A round for the purpose of losses.
    next_round: u64,
    round_start: bool,
    lossy: bool,
    loss_events: u32,
}

/// A model of bandwidth, volume and round-trip time, and a sender paced by it.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    phase: Phase,
    mss: f64,
    initial: f64,
    cwnd: f64,
    prior_cwnd: f64,
    pacing_rate: f64,
    bw: f64,
    max_bw: WindowedMax<2>,
    /// Number of ProbeBW cycles, by which `max_bw` expires samples.
    cycles: u64,
    rounds: Rounds,
    delivered: u64,
    limited_until: u64,
    /// Maximum in flight in this round and in the previous one.
    peak: [f64; 2],
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    probe_rtt_min: Span,
    probe_rtt_min_at: Time,
    probe_rtt_due: bool,
    probe_rtt_until: Option<Time>,
    probe_rtt_round_done: bool,
    full_bw: f64,
    full_bw_count: u8,
    full_now: bool,
    full: bool,
    drain_round: u64,
    bounds: Bounds,
    undo_bounds: Bounds,
    undo_phase: Option<Phase>,
    probe: Probe,
    latest: Latest,
    recovering: bool,
    idle_restart: bool,
    aggregation: Aggregation,
    random: RandomStream,
}

impl Bbr3 {
    /// The controller of a new connection.
    pub fn new(setup: &Setup) -> Self {
        let mss = f64::from(setup.mss.max(1));
        let initial = mss * f64::from(setup.initial_window.max(1));
        let bounds = Bounds { bw_short: NONE, inflight_short: NONE, inflight_long: NONE };
        Self {
            phase: Phase::Startup,
            mss,
            initial,
            cwnd: initial,
            prior_cwnd: 0.0,
            // Without an RTT sample, 1 ms is assumed.
            pacing_rate: STARTUP_GAIN * initial * 1e3,
            bw: 0.0,
            max_bw: WindowedMax::new(),
            cycles: 0,
            rounds: Rounds::default(),
            delivered: 0,
            limited_until: 0,
            peak: [0.0; 2],
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probe_rtt_min: Span::MAX,
            probe_rtt_min_at: Time::ZERO,
            probe_rtt_due: false,
            probe_rtt_until: None,
            probe_rtt_round_done: false,
            full_bw: 0.0,
            full_bw_count: 0,
            full_now: false,
            full: false,
            drain_round: 0,
            bounds,
            undo_bounds: bounds,
            undo_phase: None,
            probe: Probe {
                acks: AckPhase::Init,
                sampling: false,
                since: Time::ZERO,
                wait: Span::ZERO,
                rounds_since: 0,
                acked_per_step: NONE,
                acked: 0.0,
                up_rounds: 0,
                too_high: false,
                precautionary: false,
            },
            latest: Latest::default(),
            recovering: false,
            idle_restart: false,
            aggregation: Aggregation::new(),
            random: RandomStream::new(setup.seed, "bbr3"),
        }
    }

    /// The state of the sender.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Estimated bottleneck bandwidth (`max_bw`) and propagation time (`min_rtt`).
    pub fn model(&self) -> (Bandwidth, Option<Span>) {
        (bandwidth(self.max_bw.get()), self.min_rtt)
    }

    fn quantum(&self) -> f64 {
        (self.pacing_rate * 1e-3).min(65_536.0).max(2.0 * self.mss)
    }

    /// `BDPMultiple`.
    fn bdp(&self, gain: f64) -> f64 {
        self.min_rtt.map_or(self.initial, |rtt| gain * volume(self.bw, rtt))
    }

    /// `QuantizationBudget`.
    fn quantized(&self, inflight: f64) -> f64 {
        let probing = if self.phase == Phase::Up { 2.0 * self.mss } else { 0.0 };
        inflight.max(3.0 * self.quantum()).max(MIN_PIPE * self.mss) + probing
    }

    fn inflight(&self, gain: f64) -> f64 {
        self.quantized(self.bdp(gain))
    }

    fn is_app_limited(&self, rate: &RateSample) -> bool {
        rate.app_limited || rate.prior_delivered.count() < self.limited_until
    }

    /// Whether the window was the limit within the last round.
    fn is_cwnd_limited(&self) -> bool {
        self.peak[0].max(self.peak[1]) + self.mss > self.cwnd
    }

    fn save_cwnd(&mut self) {
        let kept = self.recovering || self.phase == Phase::ProbeRtt;
        self.prior_cwnd = if kept { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn pace(&mut self, gain: f64) {
        let rate = gain * self.bw * MARGIN;
        if rate > 0.0 && (self.full || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    fn set_cwnd(&mut self, ack: &AckSample) {
        let newly = ack.delivered.count() as f64;
        let extra = self.aggregation.extra();
        let most = self.quantized(self.bdp(self.phase.cwnd_gain()) + extra);
        if self.full {
            self.cwnd = (self.cwnd + newly).min(most);
        } else if self.cwnd < most || (self.delivered as f64) < self.initial {
            self.cwnd += newly;
        }
        let floor = MIN_PIPE * self.mss;
        self.cwnd = self.cwnd.max(floor);
        if self.phase == Phase::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let cap = match self.phase {
            Phase::Down | Phase::Refill | Phase::Up => self.bounds.inflight_long,
            Phase::Cruise | Phase::ProbeRtt => self.inflight_with_headroom(),
            Phase::Startup | Phase::Drain => NONE,
        };
        self.cwnd = self.cwnd.min(cap.min(self.bounds.inflight_short).max(floor));
        self.cwnd = self.cwnd.clamp(self.mss, MAX_VALUE);
    }
}

impl CongestionControl for Bbr3 {
    fn on_sent(&mut self, sent: &Sent) {
        self.peak[0] = self.peak[0].max(sent.in_flight.count() as f64);
    }

    fn on_handshake(&mut self, now: Time, rtt: Span) {
        (self.min_rtt, self.min_rtt_at) = (Some(rtt), now);
        (self.probe_rtt_min, self.probe_rtt_min_at) = (rtt, now);
        self.pacing_rate = STARTUP_GAIN * self.initial / rtt.as_secs_f64().max(1e-6);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let Some(rate) = &ack.rate else { return };
        self.update_latest(rate);
        self.update_congestion(rate);
        let newly = ack.delivered.count() as f64;
        self.aggregation.update(ack.now, newly, self.bw, self.cwnd, (&self.rounds, self.full));
        self.check_full_pipe(rate);
        self.check_startup(ack, rate);
        self.check_drain(ack);
        self.update_cycle(ack, rate);
        self.update_min_rtt(ack);
        self.check_probe_rtt(ack);
        if self.latest.round_start {
            self.latest.bw = delivery_rate(rate);
            self.latest.inflight = rate.delivered.count() as f64;
        }
        self.bw = self.max_bw.get().min(self.bounds.bw_short);
        self.pace(self.phase.pacing_gain());
        self.set_cwnd(ack);
    }

    fn on_lost(&mut self, lost: &LostSegment) {
        self.note_loss();
        if !self.probe.sampling {
            return;
        }
        let (flight, total) = (lost.sent_in_flight.count() as f64, lost.lost.count() as f64);
        if total > flight * LOSS_THRESHOLD {
            let size = lost.length.count() as f64;
            let (before, lost_before) = (flight - size, total - size);
            let prefix = (LOSS_THRESHOLD * before - lost_before) / (1.0 - LOSS_THRESHOLD);
            self.too_high(lost.now, before + prefix, lost.app_limited);
        }
    }

    /// BBR ignores marks (the draft leaves them to experiments).
    fn enter_recovery(&mut self, _now: Time, cause: Cause, _in_flight: Bytes) {
        if cause == Cause::Loss && !self.recovering {
            self.save_cwnd();
            self.recovering = true;
        }
    }

    fn exit_recovery(&mut self, _now: Time) {
        if self.recovering {
            self.recovering = false;
            self.restore_cwnd();
        }
    }

    fn on_timeout(&mut self, _now: Time, _in_flight: Bytes) {
        self.note_loss();
        self.save_cwnd();
        self.recovering = true;
        self.cwnd = self.mss;
    }

    fn undo(&mut self, _now: Time) {
        self.restore_cwnd();
        self.recovering = false;
        self.latest.lossy = false;
        self.reset_full_pipe(0.0);
        self.bounds = Bounds {
            bw_short: self.bounds.bw_short.max(self.undo_bounds.bw_short),
            inflight_short: self.bounds.inflight_short.max(self.undo_bounds.inflight_short),
            inflight_long: self.bounds.inflight_long.max(self.undo_bounds.inflight_long),
        };
        match self.undo_phase.take() {
            Some(Phase::Startup) if self.phase != Phase::Startup => {
                self.full = false;
                if self.phase != Phase::ProbeRtt {
                    self.phase = Phase::Startup;
                }
            }
            Some(Phase::Up) if !matches!(self.phase, Phase::Up | Phase::ProbeRtt) => {
                self.start_refill();
            }
            _ => {}
        }
    }

    fn on_restart(&mut self, now: Time, _idle: Span, _rto: Span) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.phase.is_probe_bw() {
            self.pace(1.0);
        } else if self.phase == Phase::ProbeRtt {
            self.end_probe_rtt(now);
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
