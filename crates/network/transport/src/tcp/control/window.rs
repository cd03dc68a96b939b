//! Code shared by Reno and CUBIC: the window in bytes, its reduction, undo, and validation.

use base::{Bytes, Span};

use super::{AckSample, Sent, Setup};
use crate::tcp::packed::{packed, packed_choice};

/// Maximum window: the largest possible receive window (RFC 7323).
const MAX_SEGMENTS: u32 = 1 << 30;
/// No threshold yet.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No reduction is active.
    Open,
    /// Fast recovery or the response to a mark: proportional rate reduction.
    Reduction,
    /// After a timeout, until all that was outstanding then is acknowledged.
    Loss,
}

/// Byte counts have 32 bits, since the largest receive window fits into them: this is part of every
/// connection, and idle ones should be small.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) mss: u32,
    pub(super) cwnd: u32,
    ssthresh: u32,
    initial: u32,
    prior_cwnd: u32,
    prior_ssthresh: u32,
    pub(super) phase: Phase,
    /// RFC 9937: flight at the start of the recovery; delivered and sent in it.
    recover_flight: u32,
    delivered: u32,
    sent: u32,
    /// Bytes counted towards the next additive increase.
    counted: u32,
    /// Maximum in flight in this round and in the previous one.
    peak: u32,
    last_peak: u32,
    /// Total delivered bytes at the end of the round: when its last segment is
    /// delivered (BBR's round count).
    round_end: u64,
}

packed_choice!(Phase { Open, Reduction, Loss });
packed!(Window {
    mss,
    cwnd,
    ssthresh,
    initial,
    prior_cwnd,
    prior_ssthresh,
    phase,
    recover_flight,
    delivered,
    sent,
    counted,
    peak,
    last_peak,
    round_end,
});

fn narrow(bytes: Bytes) -> u32 {
    bytes.count().min(u64::from(MAX_SEGMENTS)) as u32
}

impl Window {
    pub(super) fn new(setup: &Setup) -> Self {
        let mss = setup.mss.clamp(1, 1 << 20);
        let initial = mss.saturating_mul(setup.initial_window.max(1)).min(MAX_SEGMENTS);
        Self {
            mss,
            cwnd: initial,
            ssthresh: NONE,
            initial,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            phase: Phase::Open,
            recover_flight: 0,
            delivered: 0,
            sent: 0,
            counted: 0,
            peak: 0,
            last_peak: 0,
            round_end: 0,
        }
    }

    pub(super) fn on_sent(&mut self, sent: &Sent) {
        self.peak = self.peak.max(narrow(sent.in_flight));
        self.sent = self.sent.saturating_add(narrow(sent.length));
    }

    /// Counts rounds: true if a segment that was sent after the round's start is delivered.
    pub(super) fn starts_round(&mut self, ack: &AckSample) -> bool {
        let Some(rate) = &ack.rate else { return false };
        if rate.prior_delivered.count() < self.round_end {
            return false;
        }
        self.round_end = rate.total_delivered.count();
        self.last_peak = self.peak;
        self.peak = narrow(ack.in_flight);
        true
    }

    /// Whether the window, not the application or the receiver, was the limit recently (RFC 7661;
    /// in slow start it may grow to twice the used window, as in Linux).
    pub(super) fn is_limit(&self) -> bool {
        let peak = self.peak.max(self.last_peak);
        if self.in_slow_start() {
            self.cwnd < peak.saturating_mul(2)
        } else {
            peak + self.mss > self.cwnd
        }
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether there has not been a threshold yet.
    pub(super) fn is_first_slow_start(&self) -> bool {
        self.ssthresh == NONE
    }

    /// Leaves slow start for good.
    pub(super) fn end_slow_start(&mut self) {
        self.ssthresh = self.cwnd;
    }

    /// Sets the window to a controller's result.
    pub(super) fn set(&mut self, cwnd: f64) {
        self.cwnd = cwnd.clamp(f64::from(self.mss), f64::from(MAX_SEGMENTS)) as u32;
    }

    /// Grows exponentially by the delivered bytes (RFC 5681 with RFC 3465's byte counting, without
    /// a limit, as in Linux, so that delayed acknowledgements do not slow it down). Returns the
    /// bytes left beyond the threshold.
    pub(super) fn slow_start(&mut self, delivered: u32) -> u32 {
        let room = self.ssthresh.min(MAX_SEGMENTS).saturating_sub(self.cwnd);
        let used = delivered.min(room);
        self.cwnd += used;
        delivered - used
    }

    /// Adds one segment for every `per` bytes delivered (RFC 3465, section 2.1).
    pub(super) fn increase(&mut self, delivered: u32, per: u32) {
        let per = per.max(1);
        self.counted = self.counted.saturating_add(delivered);
        if self.counted >= per {
            let segments = self.counted / per;
            self.counted %= per;
            self.cwnd =
                self.cwnd.saturating_add(segments.saturating_mul(self.mss)).min(MAX_SEGMENTS);
        }
    }

    /// Begins a reduction to `target` unless one is active. Returns whether it began.
    pub(super) fn reduce(&mut self, target: u32, in_flight: Bytes) -> bool {
        if self.phase != Phase::Open {
            return false;
        }
        self.remember();
        self.phase = Phase::Reduction;
        self.ssthresh = target.max(2 * self.mss);
        self.recover_flight = narrow(in_flight).max(1);
        (self.delivered, self.sent, self.counted) = (0, 0, 0);
        true
    }

    /// Lowers the target of the current reduction.
    pub(super) fn lower(&mut self, target: u32) {
        self.ssthresh = self.ssthresh.min(target.max(2 * self.mss));
    }

    /// The response to a timeout (RFC 5681, equation 4), once per window of data: a threshold set
    /// by an active recovery or an earlier timeout stays. Returns whether the window was reduced.
    pub(super) fn time_out(&mut self, target: u32) -> bool {
        let first = self.phase == Phase::Open;
        if first {
            self.remember();
            self.ssthresh = target.max(2 * self.mss);
        }
        self.phase = Phase::Loss;
        self.cwnd = self.mss;
        self.counted = 0;
        first
    }

    fn remember(&mut self) {
        self.prior_cwnd = self.cwnd;
        self.prior_ssthresh = self.ssthresh;
    }

    /// Proportional rate reduction (RFC 9937): sends in proportion to the delivered data, so that
    /// the window reaches the threshold when the whole flight has been replaced.
    pub(super) fn reduce_rate(&mut self, ack: &AckSample) {
        let newly = narrow(ack.delivered);
        self.delivered = self.delivered.saturating_add(newly);
        let pipe = narrow(ack.in_flight);
        let mut send = if pipe > self.ssthresh {
            let share = u64::from(self.delivered) * u64::from(self.ssthresh);
            let share = share.div_ceil(u64::from(self.recover_flight));
            (share.min(u64::from(MAX_SEGMENTS)) as u32).saturating_sub(self.sent)
        } else {
            let mut send = self.delivered.saturating_sub(self.sent).max(newly);
            if ack.acked.is_positive() && !ack.lost.is_positive() {
                send = send.saturating_add(self.mss);
            }
            send.min(self.ssthresh - pipe)
        };
        if self.sent == 0 {
            send = send.max(self.mss);
        }
        self.cwnd = pipe.saturating_add(send).clamp(self.mss, MAX_SEGMENTS);
    }

    /// Ends a reduction at its target; a window that restarted after a timeout continues to grow.
    pub(super) fn end_recovery(&mut self) {
        if self.phase == Phase::Reduction {
            self.cwnd = self.ssthresh;
        }
        self.phase = Phase::Open;
    }

    /// Undoes the last reduction.
    pub(super) fn undo(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.ssthresh = self.ssthresh.max(self.prior_ssthresh);
        self.phase = Phase::Open;
    }

    /// Window validation after idle times (RFC 2861, as in Linux): halved for each retransmission
    /// timeout, but not below the initial window.
    pub(super) fn decay(&mut self, idle: Span, rto: Span) {
        let periods = idle.as_nanos() / rto.as_nanos().max(1);
        if periods == 0 {
            return;
        }
        if self.phase == Phase::Open {
            self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        }
        let floor = self.initial.min(self.cwnd);
        self.cwnd = (self.cwnd >> periods.min(31)).max(floor);
        self.counted = 0;
        (self.peak, self.last_peak) = (0, 0);
    }

    pub(super) fn cwnd(&self) -> Bytes {
        Bytes::new(u64::from(self.cwnd))
    }

    pub(super) fn ssthresh(&self) -> Bytes {
        if self.ssthresh == NONE { Bytes::MAX } else { Bytes::new(u64::from(self.ssthresh)) }
    }
}

/// The delivered bytes of an acknowledgement, as controllers count them.
pub(super) fn delivered(ack: &AckSample) -> u32 {
    narrow(ack.delivered)
}
