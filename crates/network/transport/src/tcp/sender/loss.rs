//! Time-based loss detection: RACK-TLP (RFC 8985).

use base::{Bytes, Span, Time};

use super::Sender;
use super::recovery::Phase;
use super::scoreboard::{Record, State};
use crate::tcp::control::{CongestionControl, LostSegment};
use crate::tcp::packed::packed;

/// Number of selectively acknowledged segments that reveals a loss without waiting for reordering.
const DUP_THRESH: u32 = 3;
/// Number of recoveries for which a widened reordering window persists.
const PERSISTENCE: u8 = 16;

/// RACK's variables (RFC 8985 §5.2).
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// Transmission time and end of the most recently sent segment that has arrived.
    sent: Time,
    end: u64,
    /// Its round trip.
    rtt: Span,
    /// Highest sequence number that has arrived.
    fack: u64,
    /// All segments in flight before this sequence number have been retransmitted.
    cursor: u64,
    /// The window widens once per round trip.
    round_end: u64,
    /// Quarters of the minimum round-trip time to wait for reordered segments.
    quarters: u8,
    persistence: u8,
    reordering_seen: bool,
}

packed!(Rack { sent, rtt, end, fack, cursor, round_end, quarters, persistence, reordering_seen });

impl Default for Rack {
    fn default() -> Self {
        Self {
            sent: Time::ZERO,
            end: 0,
            rtt: Span::ZERO,
            fack: 0,
            cursor: 0,
            round_end: 0,
            quarters: 1,
            persistence: 0,
            reordering_seen: false,
        }
    }
}

impl Rack {
    /// Handles the arrival of a segment of `record`, which ends at `end` (§6.2 steps 1 to 3).
    pub(super) fn on_delivered(&mut self, now: Time, record: &Record, end: u64, min_rtt: Span) {
        let rtt = now.since(record.sent);
        if record.is_repeated() {
            if rtt < min_rtt {
                return;
            }
        } else if end < self.fack {
            self.reordering_seen = true;
        }
        self.fack = self.fack.max(end);
        self.rtt = rtt;
        if (record.sent, end) > (self.sent, self.end) {
            (self.sent, self.end) = (record.sent, end);
        }
    }

    /// Round-trip time of the newest delivered segment; `None` before the first.
    pub(super) fn newest_rtt(&self) -> Option<Span> {
        Some(self.rtt).filter(|rtt| rtt.is_positive())
    }

    /// Widens the window after a duplicate, which shows that it was too small (§6.2 step 4).
    pub(super) fn widen(&mut self, una: u64, next: u64) {
        if una >= self.round_end {
            self.round_end = next;
            self.quarters = self.quarters.saturating_add(1);
            self.persistence = PERSISTENCE;
        }
    }

    /// Records a spurious retransmission: the original was late. Linux counts that as reordering
    /// too; RFC 8985 counts only segments that arrive without a retransmission.
    pub(super) fn see_reordering(&mut self) {
        self.reordering_seen = true;
    }

    pub(super) fn end_episode(&mut self) {
        self.persistence = self.persistence.saturating_sub(1);
        if self.persistence == 0 {
            self.quarters = 1;
        }
    }

    pub(super) fn restart(&mut self, first: u64) {
        self.cursor = first;
    }

    /// The reordering window.
    fn window(&self, recovering: bool, sacked: u32, min_rtt: Span, srtt: Span) -> Span {
        if !self.reordering_seen && (recovering || sacked >= DUP_THRESH) {
            return Span::ZERO;
        }
        let wait = min_rtt.as_nanos().saturating_mul(u64::from(self.quarters)) / 4;
        Span::from_nanos(wait).min(srtt)
    }

    fn outruns(&self, sent: Time, end: u64) -> bool {
        (sent, end) < (self.sent, self.end)
    }
}

impl Sender {
    /// Marks segments as lost that were sent long enough before one that has arrived (§6.2 step 5),
    /// and arms the reordering timer. Returns the payload newly deemed lost.
    pub(super) fn detect_losses(&mut self, now: Time) -> u64 {
        self.reorder_at = Time::MAX;
        let first = self.board.first();
        self.rack.cursor = self.rack.cursor.max(first);
        if self.board.losses.is_none() {
            let front = self.board.get(first);
            if front.is_none_or(|front| !self.rack.outruns(front.sent, self.board.end_of(front))) {
                return 0;
            }
        }
        let recovering = !matches!(self.phase, Phase::Open | Phase::Marked);
        let srtt = self.rtt.srtt().unwrap_or(Span::ZERO);
        let min_rtt = self.rtt.min().unwrap_or(Span::ZERO);
        let window = self.rack.window(recovering, self.board.sacked_count(), min_rtt, srtt);
        let timeout = self.rack.rtt + window;
        self.detect_first_losses(now, timeout) + self.detect_repeated_losses(now, timeout)
    }

    /// Detects losses among segments that were sent once, which are in the order of time.
    fn detect_first_losses(&mut self, now: Time, timeout: Span) -> u64 {
        let mut lost = 0;
        while let Some(record) = self.board.get(self.rack.cursor) {
            if record.state == State::InFlight && !record.is_repeated() {
                if !self.rack.outruns(record.sent, self.board.end_of(record)) {
                    break;
                }
                let due = record.sent + timeout;
                if due > now {
                    self.reorder_at = due;
                    break;
                }
                lost += self.lose(now, self.rack.cursor);
            }
            self.rack.cursor += 1;
        }
        lost
    }

    /// Detects losses among retransmissions, which are in the order of time too.
    fn detect_repeated_losses(&mut self, now: Time, timeout: Span) -> u64 {
        let mut lost = 0;
        while let Some(losses) = &self.board.losses {
            let Some(&(number, sent)) = losses.repeated.front() else { break };
            if let Some(record) = self.board.still_in_flight(number, sent) {
                // New segments may have been sent at the same time, before or after it.
                let end = self.board.end_of(record);
                if sent == self.rack.sent || !self.rack.outruns(sent, end) {
                    break;
                }
                let due = sent + timeout;
                if due > now {
                    self.reorder_at = self.reorder_at.min(due);
                    break;
                }
                lost += self.lose(now, number);
            }
            self.board.losses_mut().repeated.pop_front();
        }
        lost
    }

    /// Deems one segment lost. Returns its payload.
    pub(super) fn lose(&mut self, now: Time, number: u64) -> u64 {
        let Some(record) = self.board.lose(number) else { return 0 };
        let length = Bytes::new(u64::from(record.length));
        let lost = self.rate.on_lost(length, &record.mark);
        self.control.on_lost(&LostSegment {
            now,
            length,
            sent_in_flight: record.mark.in_flight(),
            lost,
            app_limited: record.mark.is_app_limited(),
        });
        length.count()
    }

    /// After a timeout (§6.3): all segments except recently sent ones are lost, and the first
    /// segment in any case.
    pub(super) fn lose_outstanding(&mut self, now: Time) {
        let timeout = self.rack.rtt + self.rtt.min().unwrap_or(Span::ZERO);
        for number in self.board.first()..self.board.end() {
            let first = number == self.board.first();
            let old = self.board.get(number).is_some_and(|record| record.sent + timeout <= now);
            if first || old {
                self.lose(now, number);
            }
        }
        self.board.requeue();
    }

    /// Timeout of the tail loss probe (§7.2). The acknowledgement of a single segment may be
    /// delayed, for which Linux adds the lower bound of the timeout.
    pub(super) fn probe_timeout(&self) -> Option<Span> {
        let mut wait = self.rtt.srtt()? * 2;
        if self.board.len() == 1 {
            wait += self.min_rto;
        }
        Some(wait)
    }

    /// Arms the probe if no other event can reveal losses: in open state, without gaps.
    pub(super) fn arm_probe(&mut self, now: Time) {
        self.probe_at = Time::MAX;
        let open = self.phase == Phase::Open && self.probe_end == 0 && !self.board.is_empty();
        if open && self.board.sacked_count() == 0 {
            self.probe_at = self.probe_timeout().map_or(Time::MAX, |wait| now + wait);
            self.probe_at = self.probe_at.min(self.rto_at);
        }
    }

    /// Handles an acknowledgement while a probe is outstanding (§7.4). Returns whether the
    /// probe repaired a loss.
    pub(super) fn judge_probe(&mut self, ack: u64, duplicate: Option<u64>, idle: bool) -> bool {
        if self.probe_end == 0 || ack < self.probe_end {
            return false;
        }
        if !self.probe_retransmitted || duplicate == Some(self.probe_end) {
            self.probe_end = 0;
        } else if ack > self.probe_end {
            self.probe_end = 0;
            return true;
        } else if idle {
            self.probe_end = 0;
        }
        false
    }
}
