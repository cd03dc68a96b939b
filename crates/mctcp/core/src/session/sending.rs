//! Unsent and unacknowledged data.

use std::collections::VecDeque;

use base::Time;

use crate::error::{Error, Result};
use crate::frame::Dack;
use crate::payload::Payload;

/// Subflows as a set of their slots.
pub(super) type Slots = u32;

/// A sent piece of the stream: the payload of a frame, or FIN.
#[derive(Debug)]
pub(super) struct Segment<P> {
    pub(super) dsn: u64,
    /// Length in sequence numbers; FIN takes one.
    pub(super) length: u64,
    /// `None` after the acknowledgement, and for FIN.
    payload: Option<P>,
    pub(super) fin: bool,
    /// Acknowledged out of order.
    acked: bool,
    /// Subflows that carry it.
    pub(super) carriers: Slots,
    /// It must be sent on another subflow.
    pub(super) due: bool,
    /// Time of the first transmission.
    pub(super) sent_at: Time,
    /// Expected arrival time.
    pub(super) expected: Time,
}

/// The sending half of a stream.
#[derive(Debug)]
pub(super) struct Outgoing<P> {
    unsent: VecDeque<P>,
    unsent_bytes: u64,
    /// DSN of the next byte that was never sent.
    next: u64,
    /// Segments that are not acknowledged in order, ascending and without gaps.
    sent: VecDeque<Segment<P>>,
    /// Number of segments to be retransmitted.
    due: usize,
    /// DSN up to which the peer allows data.
    credit: u64,
    acked: u64,
    finished: bool,
    fin_sent: bool,
    /// Maximum of unsent and unacknowledged bytes.
    max_bytes: u64,
}

/// A piece that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acknowledged {
    pub(super) carriers: Slots,
    pub(super) length: u64,
    pub(super) sent_at: Time,
    pub(super) in_time: bool,
}

impl<P: Payload> Outgoing<P> {
    pub(super) fn new(max_bytes: u64, credit: u64) -> Self {
        Self {
            unsent: VecDeque::new(),
            unsent_bytes: 0,
            next: 0,
            sent: VecDeque::new(),
            due: 0,
            credit,
            acked: 0,
            finished: false,
            fin_sent: false,
            max_bytes,
        }
    }

    /// Number of bytes that may be written.
    pub(super) fn room(&self) -> u64 {
        let buffered = self.unsent_bytes + self.outstanding();
        if self.finished { 0 } else { self.max_bytes.saturating_sub(buffered) }
    }

    /// Appends to the stream as far as there is room; returns the rest.
    pub(super) fn write(&mut self, mut payload: P) -> Option<P> {
        let room = self.room();
        if room == 0 {
            return Some(payload);
        }
        let rest = (payload.len() as u64 > room).then(|| {
            let taken = payload.split_to(room as usize);
            std::mem::replace(&mut payload, taken)
        });
        self.unsent_bytes += payload.len() as u64;
        let payload = match self.unsent.back_mut() {
            Some(last) => last.append(payload),
            None => Some(payload),
        };
        self.unsent.extend(payload.filter(|payload| !payload.is_empty()));
        rest
    }

    pub(super) fn finish(&mut self) {
        self.finished = true;
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    pub(super) fn unsent(&self) -> u64 {
        self.unsent_bytes
    }

    /// Whether there are data that were never sent.
    pub(super) fn has_new(&self) -> bool {
        self.unsent_bytes > 0 || self.is_fin_due()
    }

    fn is_fin_due(&self) -> bool {
        self.finished && !self.fin_sent && self.unsent_bytes == 0
    }

    /// Whether everything including FIN was acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.fin_sent && self.sent.is_empty()
    }

    /// Whether all data before FIN were acknowledged.
    pub(super) fn is_delivered(&self) -> bool {
        self.unsent_bytes == 0 && self.sent.iter().all(|segment| segment.fin)
    }

    /// Number of bytes acknowledged in order.
    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// Number of bytes sent for the first time.
    pub(super) fn sent(&self) -> u64 {
        self.next
    }

    pub(super) fn outstanding(&self) -> u64 {
        self.next - self.acked.min(self.next)
    }

    /// Number of bytes that may be sent for the first time.
    pub(super) fn credit_left(&self) -> u64 {
        self.credit.saturating_sub(self.next)
    }

    /// The whole credit, from the next DSN that the peer expects.
    pub(super) fn window(&self) -> u64 {
        self.credit.saturating_sub(self.acked)
    }

    pub(super) fn raise_credit(&mut self, credit: u64) {
        self.credit = self.credit.max(credit);
    }

    /// Takes the next piece of at most `max` bytes, sent at `now` on one subflow; `None` if none
    /// may be sent. FIN needs no credit: it adds nothing to the peer's buffer.
    pub(super) fn take(
        &mut self,
        now: Time,
        max: u64,
        slot: Slots,
        expected: Time,
    ) -> Option<Chunk<P>> {
        let max = max.min(self.credit_left());
        let dsn = self.next;
        let (payload, length, fin) = if self.unsent_bytes > 0 {
            let front = self.unsent.front_mut().filter(|_| max > 0)?;
            let payload = if front.len() as u64 <= max {
                self.unsent.pop_front()?
            } else {
                front.split_to(max as usize)
            };
            let length = payload.len() as u64;
            self.unsent_bytes -= length;
            self.next += length;
            (Some(payload), length, false)
        } else if self.is_fin_due() {
            self.fin_sent = true;
            (None, 1, true)
        } else {
            return None;
        };
        self.sent.push_back(Segment {
            dsn,
            length,
            payload: payload.clone(),
            fin,
            acked: false,
            carriers: slot,
            due: false,
            sent_at: now,
            expected,
        });
        Some(Chunk { dsn, payload, length })
    }

    /// The oldest segment to be retransmitted.
    pub(super) fn first_due(&self) -> Option<&Segment<P>> {
        if self.due == 0 {
            return None;
        }
        self.sent.iter().find(|segment| segment.due)
    }

    /// Unacknowledged segments, the oldest first.
    pub(super) fn unacked(&self) -> impl Iterator<Item = &Segment<P>> {
        self.sent.iter().filter(|segment| !segment.acked)
    }

    /// Retransmits a segment on another subflow.
    pub(super) fn retransmit(&mut self, dsn: u64, slot: Slots, expected: Time) -> Option<Chunk<P>> {
        let at = self.sent.binary_search_by_key(&dsn, |segment| segment.dsn).ok()?;
        let segment = &mut self.sent[at];
        if std::mem::take(&mut segment.due) {
            self.due -= 1;
        }
        segment.carriers |= slot;
        segment.expected = segment.expected.min(expected);
        Some(Chunk { dsn, payload: segment.payload.clone(), length: segment.length })
    }

    /// The segment with this DSN.
    pub(super) fn segment(&self, dsn: u64) -> Option<&Segment<P>> {
        let at = self.sent.binary_search_by_key(&dsn, |segment| segment.dsn).ok()?;
        Some(&self.sent[at])
    }

    /// Marks segments that only subflows in `gone` carry for retransmission.
    pub(super) fn mark_due(&mut self, gone: Slots) {
        for segment in &mut self.sent {
            if !segment.acked && !segment.due && segment.carriers & !gone == 0 {
                segment.due = true;
                self.due += 1;
            }
        }
    }

    /// Clears a slot before another subflow uses it.
    pub(super) fn clear(&mut self, slot: Slots) {
        for segment in &mut self.sent {
            segment.carriers &= !slot;
        }
    }

    /// Processes an acknowledgement; calls `acked` for each acknowledged segment.
    ///
    /// # Errors
    /// If it acknowledges data that were never sent.
    pub(super) fn on_dack(
        &mut self,
        now: Time,
        dack: &Dack,
        mut acked: impl FnMut(Acknowledged),
    ) -> Result<()> {
        let end = self.next + u64::from(self.fin_sent);
        if dack.next > end || dack.ranges.iter().any(|range| range.end > end) {
            return Err(Error::Unexpected { what: "DACK of data that was not sent" });
        }
        let mut acknowledge = |segment: &mut Segment<P>, due: &mut usize| {
            if segment.acked {
                return;
            }
            segment.acked = true;
            segment.payload = None;
            if std::mem::take(&mut segment.due) {
                *due -= 1;
            }
            acked(Acknowledged {
                carriers: segment.carriers,
                length: segment.length,
                sent_at: segment.sent_at,
                in_time: now <= segment.expected,
            });
        };
        while let Some(segment) = self.sent.front_mut()
            && segment.dsn + segment.length <= dack.next
        {
            acknowledge(segment, &mut self.due);
            self.sent.pop_front();
        }
        for range in &dack.ranges {
            let from = self.sent.partition_point(|segment| segment.dsn < range.start);
            for segment in self.sent.range_mut(from..) {
                if segment.dsn + segment.length > range.end {
                    break;
                }
                acknowledge(segment, &mut self.due);
            }
        }
        self.acked = self.acked.max(dack.next);
        self.raise_credit(dack.credit);
        Ok(())
    }

    /// All unacknowledged data, in order.
    pub(super) fn reclaim(&mut self) -> Vec<P> {
        let sent = self.sent.drain(..).filter_map(|segment| segment.payload);
        sent.chain(self.unsent.drain(..)).collect()
    }
}

/// A piece of the stream to be sent; without payload it is FIN.
#[derive(Debug)]
pub(super) struct Chunk<P> {
    pub(super) dsn: u64,
    pub(super) payload: Option<P>,
    pub(super) length: u64,
}
