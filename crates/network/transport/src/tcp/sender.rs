//! The sending half: outstanding segments, acknowledgements, and the next transmission.
//!
//! `loss` and `recovery` depend on this module: they are parts of the same state machine, each
//! with its own state.

mod acknowledgement;
mod loss;
mod pacing;
mod recovery;
mod scoreboard;
mod timers;
mod transmission;

use base::{Bytes, Span, Time};

use super::control::{CongestionControl, Control, Controller, DeliveryRate, Setup};
use super::packed::packed;
use super::rtt::RttEstimator;
use super::segment::{FIRST_MARKS, Feedback};
use super::{Config, Statistics};
use loss::Rack;
use recovery::Phase;
use scoreboard::Scoreboard;

/// Maximum payload of an application: far from the end of the sequence space.
const UNLIMITED: u64 = u64::MAX / 2;

#[derive(Clone, Debug)]
pub(super) struct Sender {
    control: Controller,
    board: Scoreboard,
    /// First sequence number, that of the SYN.
    iss: u64,
    /// Next sequence number never sent (SND.NXT).
    next: u64,
    /// Sequence number after the last written byte.
    written: u64,
    /// End of the peer's receive window.
    edge: u64,
    /// Largest window that the peer has offered.
    max_window: u32,
    mss: u32,
    /// End of the last segment that was not full (Minshall's variant of Nagle's algorithm).
    small: u64,
    rate: DeliveryRate,
    pub(super) rtt: RttEstimator,
    min_rto: Span,
    rack: Rack,
    /// End of the tail loss probe; 0 without one.
    probe_end: u64,
    phase: Phase,
    /// Sequence number at which the phase ends.
    phase_end: u64,
    /// Start of the last reduction while it may be undone, else 0.
    undo_from: u64,
    /// Retransmissions since then that were not reported as duplicates.
    undo_count: u32,
    rto_at: Time,
    probe_at: Time,
    reorder_at: Time,
    /// Only pacing prevents the next transmission.
    waits_for_burst: bool,
    /// Time of the next burst.
    pace_next: Time,
    /// Remaining bytes of this burst.
    burst: u32,
    last_sent: Time,
    finish: bool,
    fin_sent: bool,
    nodelay: bool,
    /// Paced although the congestion controller has no pacing rate.
    paced: bool,
    /// Rate of that pacing in bit/s; 0 before the first sample.
    pacing_rate: u64,
    /// Negotiated feedback of marks.
    pub(super) ecn: Feedback,
    /// Last counter of marked packets of the peer, modulo 8 (RFC 9768).
    peer_marks: u8,
    /// The window was reduced; the next new segment reports this (CWR).
    reduced: bool,
    /// Send the first lost segment regardless of the window.
    force: bool,
    probe_due: bool,
    probe_retransmitted: bool,
    window_probe_due: bool,
    counters: Counters,
}

packed!(Sender {
    iss,
    next,
    written,
    edge,
    small,
    board,
    probe_end,
    phase_end,
    undo_from,
    rack,
    last_sent,
    rate,
    control,
    max_window,
    mss,
    rtt,
    min_rto,
    phase,
    undo_count,
    rto_at,
    probe_at,
    reorder_at,
    waits_for_burst,
    pace_next,
    burst,
    finish,
    fin_sent,
    nodelay,
    paced,
    pacing_rate,
    ecn,
    peer_marks,
    reduced,
    force,
    probe_due,
    probe_retransmitted,
    window_probe_due,
    counters,
});
packed!(Counters { sent, retransmits, timeouts, recoveries, probes, undone, duplicates, echoes });
packed!(Settings {
    seed,
    mss,
    initial_window,
    min_rto,
    initial_rto,
    control,
    nodelay,
    paced,
    hystart,
    abe,
});

/// Counters of the sending half.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    sent: u64,
    retransmits: u64,
    timeouts: u32,
    recoveries: u32,
    probes: u32,
    undone: u32,
    duplicates: u32,
    echoes: u32,
}

/// Parameters of a sender.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    seed: u64,
    mss: u32,
    initial_window: u32,
    /// Lower bound of the timeout in µs.
    min_rto: u32,
    initial_rto: u32,
    control: Control,
    nodelay: bool,
    paced: bool,
    hystart: bool,
    abe: bool,
}

impl Settings {
    pub(super) fn new(config: &Config) -> Self {
        let micros = |span: Span| (span.as_nanos() / 1_000).min(u64::from(u32::MAX)) as u32;
        Self {
            seed: config.seed,
            mss: config.mss.clamp(1, u32::from(u16::MAX)),
            initial_window: config.initial_window,
            min_rto: micros(config.min_rto),
            initial_rto: micros(config.initial_rto),
            control: config.control,
            nodelay: config.nodelay,
            paced: config.paced,
            hystart: config.hystart,
            abe: config.abe,
        }
    }

    pub(super) fn initial_rto(&self) -> Span {
        Span::from_micros(u64::from(self.initial_rto))
    }

    /// Initial congestion window in bytes.
    pub(super) fn initial_window(&self) -> u64 {
        u64::from(self.mss) * u64::from(self.initial_window)
    }
}

impl Sender {
    pub(super) fn new(settings: &Settings, iss: u32) -> Self {
        let iss = (1 << 32) + u64::from(iss);
        let setup = Setup {
            mss: settings.mss,
            initial_window: settings.initial_window,
            seed: settings.seed,
            hystart: settings.hystart,
            abe: settings.abe,
        };
        Self {
            control: Controller::new(settings.control, &setup),
            board: Scoreboard::new(iss + 1),
            iss,
            next: iss + 1,
            written: iss + 1,
            edge: 0,
            max_window: 0,
            mss: settings.mss,
            small: 0,
            rate: DeliveryRate::default(),
            rtt: RttEstimator::new(settings.initial_rto()),
            min_rto: Span::from_micros(u64::from(settings.min_rto)),
            rack: Rack::default(),
            probe_end: 0,
            phase: Phase::Open,
            phase_end: 0,
            undo_from: 0,
            undo_count: 0,
            rto_at: Time::MAX,
            probe_at: Time::MAX,
            reorder_at: Time::MAX,
            waits_for_burst: false,
            pace_next: Time::ZERO,
            burst: 0,
            last_sent: Time::MAX,
            finish: false,
            fin_sent: false,
            nodelay: settings.nodelay,
            paced: settings.paced,
            pacing_rate: 0,
            ecn: Feedback::Off,
            peer_marks: FIRST_MARKS as u8,
            reduced: false,
            force: false,
            probe_due: false,
            probe_retransmitted: false,
            window_probe_due: false,
            counters: Counters::default(),
        }
    }

    /// Next sequence number never sent.
    pub(super) fn next_seq(&self) -> u32 {
        self.next as u32
    }

    /// Adds payload to be sent.
    pub(super) fn write(&mut self, bytes: u64) {
        if !self.finish {
            self.written = self.written.saturating_add(bytes).min(UNLIMITED);
        }
    }

    pub(super) fn write_unlimited(&mut self) {
        if !self.finish {
            self.written = UNLIMITED;
        }
    }

    /// No more data will be written: a FIN follows. An infinite stream ends with the
    /// data sent so far.
    pub(super) fn finish(&mut self) {
        if self.written == UNLIMITED {
            self.written = self.next;
        }
        self.finish = true;
    }

    /// Handles the peer's SYN: its window, and the round-trip time if only one SYN was sent.
    pub(super) fn establish(&mut self, now: Time, window: u32, rtt: Option<Span>) {
        self.edge = self.next + u64::from(window);
        self.max_window = window;
        match rtt {
            Some(rtt) => {
                self.rtt.sample(rtt, self.min_rto);
                self.control.on_handshake(now, rtt);
            }
            None => self.rtt.fall_back(),
        }
        self.rtt.backoff = 0;
        self.rto_at = Time::MAX;
        self.update_pacing_rate();
    }

    /// Payload written and never sent.
    pub(super) fn unsent(&self) -> u64 {
        self.written.saturating_sub(self.next)
    }

    pub(super) fn acked(&self) -> u64 {
        self.board.una - (self.iss + 1) - u64::from(self.fin_acked())
    }

    /// Payload written and not acknowledged, without the FIN.
    pub(super) fn unacked(&self) -> u64 {
        self.written - (self.iss + 1) - self.acked()
    }

    pub(super) fn cwnd(&self) -> Bytes {
        self.control.cwnd()
    }

    /// Statistics of the sending half.
    pub(super) fn statistics(&self) -> Statistics {
        let counters = &self.counters;
        Statistics {
            rtt: self.rack.newest_rtt(),
            srtt: self.rtt.srtt(),
            rtt_deviation: self.rtt.deviation(),
            min_rtt: self.rtt.min(),
            cwnd: self.control.cwnd(),
            ssthresh: self.control.ssthresh(),
            in_flight: Bytes::new(self.board.in_flight),
            not_sent: Bytes::new(self.unsent()),
            acked: Bytes::new(self.acked()),
            delivery_rate: self.rate.newest(),
            sent: counters.sent,
            retransmits: counters.retransmits,
            timeouts: u64::from(counters.timeouts),
            recoveries: u64::from(counters.recoveries),
            undone: u64::from(counters.undone),
            probes: u64::from(counters.probes),
            spurious: u64::from(counters.duplicates),
            echoes: u64::from(counters.echoes),
            ..Statistics::default()
        }
    }

    pub(super) fn fin_acked(&self) -> bool {
        self.fin_sent && self.board.una == self.next
    }

    /// Whether it is idle, so that it can be packed.
    pub(super) fn is_at_rest(&self) -> bool {
        self.board.is_empty()
            && self.board.losses.is_none()
            && !self.window_probe_due
            && !self.probe_due
            && !self.can_send_new()
            && self.unsent() == 0
            && self.next_wake().is_none()
            && self.control.is_packable()
    }

    /// Frees the memory of an unused scoreboard.
    fn rest(&mut self) {
        if self.unsent() == 0 {
            self.board.shrink();
        }
    }
}

#[cfg(test)]
impl Sender {
    pub(super) fn heap_bytes(&self) -> usize {
        self.board.heap_bytes()
    }

    pub(super) fn check(&self) {
        self.board.check(self.next);
        assert!(self.next <= self.edge + 1 || self.edge == 0, "beyond the peer's window");
    }
}
