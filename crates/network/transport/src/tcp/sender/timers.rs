//! Deadlines of the sending half.

use base::{Bytes, Time};

use super::Sender;
use super::recovery::Phase;
use crate::tcp::control::CongestionControl;

/// Consecutive timeouts after which a connection is aborted (Linux: `tcp_retries2`).
const MAX_TIMEOUTS: u8 = 15;

impl Sender {
    pub(in crate::tcp) fn next_wake(&self) -> Option<Time> {
        let burst_at = if self.waits_for_burst { self.pace_next } else { Time::MAX };
        let at = self.rto_at.min(self.probe_at).min(self.reorder_at).min(burst_at);
        (at < Time::MAX).then_some(at)
    }

    /// Handles expired deadlines. Returns false if the connection was aborted.
    pub(in crate::tcp) fn on_wake(&mut self, now: Time) -> bool {
        if self.pace_next <= now {
            self.waits_for_burst = false;
        }
        if self.reorder_at <= now {
            let prior = self.board.in_flight;
            let lost = self.detect_losses(now);
            if lost > 0 {
                self.recover(now, prior);
                self.report_losses(now, prior, lost);
            }
        }
        if self.probe_at <= now {
            self.probe_at = Time::MAX;
            self.probe_due = true;
            self.rto_at = now + self.rtt.rto();
        } else if self.rto_at <= now {
            if self.rtt.backoff >= MAX_TIMEOUTS {
                return false;
            }
            self.rtt.back_off();
            self.rto_at = now + self.rtt.rto();
            if self.board.is_empty() {
                self.window_probe_due = true;
            } else {
                self.time_out(now);
            }
        }
        true
    }

    /// The retransmission timer has expired (RFC 6298 §5, RFC 8985 §6.3).
    fn time_out(&mut self, now: Time) {
        self.counters.timeouts += 1;
        let prior = self.board.in_flight;
        self.lose_outstanding(now);
        self.control.on_timeout(now, Bytes::new(prior));
        let doubtful = matches!(self.phase, Phase::Open | Phase::Marked | Phase::Doubt);
        self.begin(if doubtful { Phase::Doubt } else { Phase::Loss });
        self.allow_undo();
        self.force = true;
        self.probe_at = Time::MAX;
        self.reorder_at = Time::MAX;
        self.probe_due = false;
        self.probe_end = 0;
    }

    /// Arms the timer of zero-window probes while the peer's window is closed, if nothing is
    /// outstanding whose acknowledgement could report its opening (RFC 9293 §3.8.6.1).
    pub(super) fn persist(&mut self, now: Time) {
        if self.board.is_empty() && self.rto_at == Time::MAX {
            self.rto_at = now + self.rtt.rto();
        }
    }

    /// Stops all timers.
    pub(in crate::tcp) fn stop(&mut self) {
        self.rto_at = Time::MAX;
        self.probe_at = Time::MAX;
        self.reorder_at = Time::MAX;
        self.waits_for_burst = false;
    }
}
