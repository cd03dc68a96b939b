//! Processing of acknowledgements.

use base::{Bytes, Span, Time};

use super::Sender;
use super::recovery::Phase;
use super::scoreboard::{Record, State};
use crate::tcp::control::{AckSample, Cause, CongestionControl, DeliveryRate, RateSample};
use crate::tcp::segment::{Feedback, Flags, Segment, unwrap};

/// The effects of one acknowledgement.
struct AckEffect {
    now: Time,
    /// Payload in flight before.
    prior_in_flight: u64,
    /// Sequence numbers newly acknowledged cumulatively.
    acked: u64,
    /// Payload newly acknowledged in any way.
    delivered: u64,
    /// Segments newly acknowledged in any way.
    segments: u32,
    /// Packets newly reported as marked.
    marked: u32,
    lost: u64,
    /// Send time of the newest of the segments that were sent once.
    newest: Option<Time>,
    /// A segment deemed lost has arrived although it was never retransmitted.
    found: bool,
    /// Whether a segment was selectively acknowledged.
    sacked: bool,
    /// End of a reported duplicate.
    duplicate: Option<u64>,
    rate: Option<RateSample>,
}

impl AckEffect {
    /// A segment arrived.
    fn add(&mut self, rate: &mut DeliveryRate, record: &Record) {
        let length = Bytes::new(u64::from(record.length));
        rate.on_delivered(self.now, length, record.sent, &record.mark, &mut self.rate);
        self.delivered += length.count();
        self.segments += 1;
        if !record.is_repeated() {
            self.newest = self.newest.max(Some(record.sent));
            self.found |= record.state == State::Lost;
        }
    }

    fn changed(&self) -> bool {
        self.segments > 0 || self.lost > 0
    }
}

impl Sender {
    /// Handles the acknowledgement of a segment of an established connection.
    pub(in crate::tcp) fn on_ack(&mut self, now: Time, segment: &Segment) {
        let una = self.board.una;
        let ack = unwrap(una, segment.ack);
        if ack > self.next {
            return;
        }
        self.edge = self.edge.max(ack + u64::from(segment.window));
        self.max_window = self.max_window.max(segment.window);
        if self.board.is_empty() && segment.sack().is_empty() {
            self.settle(now, false, false);
            return;
        }
        let mut effect = AckEffect {
            now,
            prior_in_flight: self.board.in_flight,
            acked: 0,
            delivered: 0,
            segments: 0,
            marked: 0,
            lost: 0,
            newest: None,
            found: false,
            sacked: false,
            duplicate: None,
            rate: None,
        };
        // Cumulative acknowledgements come first; otherwise data that arrived in order before a gap
        // would count as reordered.
        self.on_cumulative(ack, &mut effect);
        if !segment.sack().is_empty() {
            self.on_sack(ack, segment, &mut effect);
        }
        let rtt = effect.newest.map(|sent| now.since(sent));
        if let Some(rtt) = rtt {
            self.rtt.sample(rtt, self.min_rto);
        }
        effect.marked = self.reported_marks(segment, effect.segments);
        self.react(segment, &mut effect);
        if effect.changed() || effect.marked > 0 {
            self.report(&mut effect, rtt);
        }
        self.settle(now, effect.acked > 0, effect.segments > 0);
    }

    /// Packets that an acknowledgement newly reports as marked. After the loss of
    /// acknowledgements the counter modulo 8 is ambiguous: the largest possible value up to the
    /// number of new segments counts (RFC 9768, appendix A.2.1).
    fn reported_marks(&mut self, segment: &Segment, segments: u32) -> u32 {
        match self.ecn {
            Feedback::Off => 0,
            Feedback::Classic => u32::from(segment.flags.contains(Flags::ECE)),
            Feedback::Accurate | Feedback::L4s => {
                let marks = segment.flags.marks() as u8;
                let least = u32::from(marks.wrapping_sub(self.peer_marks) & 7);
                self.peer_marks = marks;
                if segments < 8 { least } else { segments - (segments - least) % 8 }
            }
        }
    }

    fn on_cumulative(&mut self, ack: u64, effect: &mut AckEffect) {
        let una = self.board.una;
        let min_rtt = self.rtt.min().unwrap_or(Span::ZERO);
        while let Some(record) = self.board.pop_acked(ack) {
            if record.state != State::Sacked {
                effect.add(&mut self.rate, &record);
                self.rack.on_delivered(effect.now, &record, self.board.una, min_rtt);
            }
        }
        effect.acked = self.board.una - una;
        if effect.acked > 0
            && let Some(losses) = &mut self.board.losses
        {
            losses.sacked.forget(self.board.una);
        }
    }

    fn on_sack(&mut self, ack: u64, segment: &Segment, effect: &mut AckEffect) {
        let una = self.board.una;
        let near = |&(start, end): &(u32, u32)| (unwrap(ack, start), unwrap(ack, end));
        let mut blocks = segment.sack();
        if let Some((first, rest)) = blocks.split_first() {
            let first = near(first);
            let within = rest.first().map(near).is_some_and(|b| b.0 <= first.0 && first.1 <= b.1);
            if first.1 <= ack || within {
                effect.duplicate = Some(first.1);
                blocks = rest;
            }
        }
        let min_rtt = self.rtt.min().unwrap_or(Span::ZERO);
        let (rate, rack, before) = (&mut self.rate, &mut self.rack, effect.segments);
        for (start, end) in blocks.iter().map(near) {
            if end > una && end <= self.next && start < end {
                self.board.sack(start.max(una), end, self.mss, |record, end| {
                    effect.add(rate, record);
                    rack.on_delivered(effect.now, record, end, min_rtt);
                });
            }
        }
        effect.sacked = effect.segments > before;
    }

    /// Detects losses, and begins or ends reductions.
    fn react(&mut self, segment: &Segment, effect: &mut AckEffect) {
        let now = effect.now;
        effect.lost = self.detect_losses(now);
        if effect.lost > 0 {
            self.recover(now, effect.prior_in_flight);
        }
        if self.ecn.is_accurate() && self.phase == Phase::Marked {
            // As in Linux, the acknowledgement that ends a response to marks may begin another.
            self.leave(now, effect.prior_in_flight);
        }
        if effect.marked > 0 {
            self.on_echo(now, effect.prior_in_flight);
        }
        if self.phase.follows_timeout() {
            self.doubt(now, effect.found, effect.acked > 0, effect.sacked);
        }
        if let Some(end) = effect.duplicate {
            self.on_duplicate(now, end);
        }
        self.leave(now, effect.prior_in_flight);
        let idle = effect.segments == 0 && segment.length == 0;
        if self.judge_probe(self.board.una, effect.duplicate, idle) && self.phase == Phase::Open {
            self.control.enter_recovery(now, Cause::Loss, Bytes::new(effect.prior_in_flight));
            self.control.exit_recovery(now);
            self.reduced = self.ecn == Feedback::Classic;
            self.counters.recoveries += 1;
        }
    }

    /// Handles the report of a duplicate.
    fn on_duplicate(&mut self, now: Time, end: u64) {
        self.counters.duplicates += 1;
        if u64::from(self.counters.duplicates) > self.counters.retransmits {
            // Caused by the network: more duplicates than retransmissions.
            return;
        }
        if self.probe_end != end {
            self.rack.widen(self.board.una, self.next);
        }
        let covered = self.undo_from > 0 && end > self.undo_from && end <= self.phase_end;
        if covered && self.undo_count > 0 {
            self.rack.see_reordering();
            self.undo_count -= 1;
            if self.undo_count == 0 {
                self.undo(now);
            }
        }
    }

    /// Notifies the congestion controller.
    fn report(&mut self, effect: &mut AckEffect, rtt: Option<Span>) {
        let min_rtt = self.rtt.min().unwrap_or(Span::ZERO);
        self.rate.finish(min_rtt, &mut effect.rate);
        self.control.on_ack(&AckSample {
            now: effect.now,
            acked: Bytes::new(effect.acked),
            delivered: Bytes::new(effect.delivered),
            lost: Bytes::new(effect.lost),
            rtt,
            srtt: self.rtt.srtt(),
            prior_in_flight: Bytes::new(effect.prior_in_flight),
            in_flight: Bytes::new(self.board.in_flight),
            segments: effect.segments,
            marked: effect.marked,
            rate: effect.rate,
        });
        self.update_pacing_rate();
    }

    /// Handles losses detected by the reordering timer, without an acknowledgement.
    pub(super) fn report_losses(&mut self, now: Time, prior_in_flight: u64, lost: u64) {
        self.control.on_ack(&AckSample {
            now,
            acked: Bytes::ZERO,
            delivered: Bytes::ZERO,
            lost: Bytes::new(lost),
            rtt: None,
            srtt: self.rtt.srtt(),
            prior_in_flight: Bytes::new(prior_in_flight),
            in_flight: Bytes::new(self.board.in_flight),
            segments: 0,
            marked: 0,
            rate: None,
        });
    }

    /// Sets the timers after an acknowledgement.
    fn settle(&mut self, now: Time, advanced: bool, arrived: bool) {
        if self.board.is_empty() {
            if self.edge > self.next || self.unsent() == 0 {
                self.rto_at = Time::MAX;
                self.rtt.backoff = 0;
            } else if advanced {
                self.rto_at = Time::MAX;
            }
            self.probe_at = Time::MAX;
            self.reorder_at = Time::MAX;
            self.board.forget_losses();
            self.rest();
        } else if arrived {
            if advanced {
                self.rtt.backoff = 0;
            }
            self.rto_at = now + self.rtt.rto();
            self.arm_probe(now);
        }
    }
}
