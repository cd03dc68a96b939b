//! Selection and time of the next transmission.

use base::{Bytes, Time};

use super::Sender;
use super::recovery::Phase;
use super::scoreboard::Record;
use crate::tcp::control::{CongestionControl, Sent, SentMark};
use crate::tcp::segment::{Ect, Flags, Segment};

/// A segment to send, without the fields of the receiving half.
pub(in crate::tcp) struct Outgoing {
    pub(in crate::tcp) segment: Segment,
    pub(in crate::tcp) ect: Ect,
}

impl Sender {
    pub(in crate::tcp) fn poll(&mut self, now: Time) -> Option<Outgoing> {
        if self.window_probe_due {
            self.window_probe_due = false;
            return Some(self.window_probe());
        }
        if self.probe_due {
            self.probe_due = false;
            return self.probe(now);
        }
        self.waits_for_burst = false;
        if self.phase != Phase::Forward
            && let Some(number) = self.board.next_lost()
        {
            return self.poll_lost(now, number);
        }
        self.poll_new(now)
    }

    fn poll_lost(&mut self, now: Time, number: u64) -> Option<Outgoing> {
        let length = u64::from(self.board.get(number)?.length);
        let allowed = self.force || self.fits(length);
        if !allowed || !self.pace(now, length) {
            return None;
        }
        self.force = false;
        self.send_again(now, number)
    }

    fn poll_new(&mut self, now: Time) -> Option<Outgoing> {
        let available = self.unsent();
        let last = self.finish && !self.fin_sent;
        if available == 0 && !last {
            if self.board.in_flight < self.control.cwnd().count() {
                self.rate.mark_app_limited(Bytes::new(self.board.in_flight));
            }
            return None;
        }
        if self.board.is_empty() && self.last_sent < now {
            self.control.on_restart(now, now.since(self.last_sent), self.rtt.rto());
            self.last_sent = now;
        }
        let length = self.sendable(now)?;
        if !self.fits(length) || !self.pace(now, length) {
            return None;
        }
        Some(self.send_new(now, length))
    }

    /// Whether there is unsent data that the peer's window allows.
    pub(super) fn can_send_new(&self) -> bool {
        let available = self.unsent();
        (available > 0 && self.edge > self.next)
            || (available == 0 && self.finish && !self.fin_sent)
    }

    /// Payload of the next new segment, limited by window and Nagle's algorithm; 0 for a FIN only.
    fn sendable(&mut self, now: Time) -> Option<u64> {
        let available = self.unsent();
        let usable = self.edge.saturating_sub(self.next);
        let length = available.min(u64::from(self.mss)).min(usable);
        if length == u64::from(self.mss) || available == 0 {
            return Some(length);
        }
        if length == 0 {
            self.persist(now);
            return None;
        }
        let held = if length < available {
            !self.board.is_empty() && length < u64::from(self.max_window / 2)
        } else {
            !self.nodelay && !self.finish && self.small > self.board.una
        };
        (!held).then_some(length)
    }

    fn fits(&self, length: u64) -> bool {
        let in_flight = self.board.in_flight;
        in_flight == 0 || in_flight + length <= self.control.cwnd().count()
    }

    fn send_new(&mut self, now: Time, length: u64) -> Outgoing {
        let seq = self.next;
        let fin = self.finish && !self.fin_sent && seq + length == self.written;
        let mark = self.mark(now, length);
        let was_empty = self.board.is_empty();
        self.board.push(Record::new(seq, length as u16, fin, now, mark));
        self.next += length + u64::from(fin);
        self.fin_sent |= fin;
        if length < u64::from(self.mss) {
            self.small = self.next;
        }
        if was_empty || self.rto_at == Time::MAX {
            self.rto_at = now + self.rtt.rto();
        }
        self.arm_probe(now);
        let mut outgoing = self.outgoing(now, seq, length, fin);
        if length > 0 {
            outgoing.ect = self.ecn.ect();
        }
        if self.reduced {
            self.reduced = false;
            outgoing.segment.flags = outgoing.segment.flags | Flags::CWR;
        }
        outgoing
    }

    fn send_again(&mut self, now: Time, number: u64) -> Option<Outgoing> {
        let length = u64::from(self.board.get(number)?.length);
        let mark = self.mark(now, length);
        let record = self.board.repeat(number, now, mark)?;
        if self.undo_from > 0 {
            self.undo_count = self.undo_count.saturating_add(1);
        }
        self.counters.retransmits += 1;
        if self.rto_at == Time::MAX {
            self.rto_at = now + self.rtt.rto();
        }
        let seq = self.board.start_of(&record);
        Some(self.outgoing(now, seq, length, record.has_fin()))
    }

    fn mark(&mut self, now: Time, length: u64) -> SentMark {
        self.rate.on_sent(now, Bytes::new(length), Bytes::new(self.board.in_flight))
    }

    fn outgoing(&mut self, now: Time, seq: u64, length: u64, fin: bool) -> Outgoing {
        self.last_sent = now;
        self.counters.sent += 1;
        let in_flight = Bytes::new(self.board.in_flight);
        self.control.on_sent(&Sent { now, length: Bytes::new(length), in_flight });
        let flags = if fin { Flags::FIN } else { Flags::NONE };
        let segment =
            Segment { seq: seq as u32, length: length as u16, flags, ..Segment::default() };
        Outgoing { segment, ect: self.ecn.control_ect() }
    }

    /// New data, or else the last segment again, to elicit an acknowledgement that reveals a lost
    /// tail (RFC 8985 §7.3).
    fn probe(&mut self, now: Time) -> Option<Outgoing> {
        let last = self.board.last_number()?;
        self.counters.probes += 1;
        let length =
            (self.unsent()).min(u64::from(self.mss)).min(self.edge.saturating_sub(self.next));
        self.probe_retransmitted = length == 0;
        let outgoing =
            if length > 0 { Some(self.send_new(now, length)) } else { self.send_again(now, last) };
        self.probe_end = self.next;
        self.probe_at = Time::MAX;
        outgoing
    }

    /// An old sequence number, which the peer answers with its window.
    fn window_probe(&self) -> Outgoing {
        let seq = self.board.una.wrapping_sub(1) as u32;
        Outgoing { segment: Segment { seq, ..Segment::default() }, ect: Ect::Not }
    }
}
