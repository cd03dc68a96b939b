//! What is to be sent and what is not acknowledged.

use std::collections::VecDeque;

use base::Time;

use crate::error::{Error, Result};
use crate::frame::Dack;
use crate::payload::Payload;

/// Subflows as a set of their slots.
pub(super) type Slots = u32;

/// A piece of the stream that has been sent: a frame's payload, or the FIN.
#[derive(Debug)]
pub(super) struct Segment<P> {
    pub(super) dsn: u64,
    /// In numbers of the sequence; the FIN takes one.
    pub(super) length: u64,
    /// None once it is acknowledged, and for the FIN.
    payload: Option<P>,
    pub(super) fin: bool,
    /// Acknowledged out of order.
    acked: bool,
    /// The subflows that carry it.
    pub(super) carriers: Slots,
    /// To be sent on another subflow.
    pub(super) due: bool,
    /// When it is expected to arrive.
    pub(super) expected: Time,
}

/// The sending half of a stream.
#[derive(Debug)]
pub(super) struct Outgoing<P> {
    unsent: VecDeque<P>,
    unsent_bytes: u64,
    /// DSN of the next byte to send for the first time.
    next: u64,
    /// Sent and not acknowledged in order, ascending and without gaps.
    sent: VecDeque<Segment<P>>,
    /// Segments that are to be sent again.
    due: usize,
    /// DSN up to which the peer may be sent to.
    credit: u64,
    acked: u64,
    finished: bool,
    fin_sent: bool,
    limit: u64,
}

/// Unacknowledged numbers of the sequence that a subflow no longer carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relieved {
    pub(super) carriers: Slots,
    pub(super) length: u64,
    pub(super) in_time: bool,
}

impl<P: Payload> Outgoing<P> {
    pub(super) fn new(limit: u64, credit: u64) -> Self {
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
            limit,
        }
    }

    /// Bytes that may be written.
    pub(super) fn room(&self) -> u64 {
        let kept = self.unsent_bytes + (self.next - self.acked.min(self.next));
        if self.finished { 0 } else { self.limit.saturating_sub(kept) }
    }

    /// Adds to the stream as far as there is room, and gives back the rest.
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

    /// Whether there is anything that has never been sent.
    pub(super) fn has_new(&self) -> bool {
        self.unsent_bytes > 0 || self.owes_fin()
    }

    fn owes_fin(&self) -> bool {
        self.finished && !self.fin_sent && self.unsent_bytes == 0
    }

    /// Whether everything, the end included, was acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.fin_sent && self.sent.is_empty()
    }

    /// Whether everything but the end was acknowledged.
    pub(super) fn is_delivered(&self) -> bool {
        self.unsent_bytes == 0 && self.sent.iter().all(|segment| segment.fin)
    }

    /// Bytes acknowledged in order.
    pub(super) fn acked(&self) -> u64 {
        self.acked
    }

    /// Bytes sent for the first time.
    pub(super) fn sent(&self) -> u64 {
        self.next
    }

    pub(super) fn outstanding(&self) -> u64 {
        self.next - self.acked.min(self.next)
    }

    /// How much more may be sent for the first time.
    pub(super) fn credit_left(&self) -> u64 {
        self.credit.saturating_sub(self.next)
    }

    /// The whole of the credit, from what the peer expects next.
    pub(super) fn window(&self) -> u64 {
        self.credit.saturating_sub(self.acked)
    }

    pub(super) fn raise_credit(&mut self, credit: u64) {
        self.credit = self.credit.max(credit);
    }

    /// Cuts the next piece of at most `most` bytes, carried by one subflow; `None` if nothing may
    /// be sent. The FIN needs no credit: it adds nothing to the peer's buffer.
    pub(super) fn take(&mut self, most: u64, slot: Slots, expected: Time) -> Option<Piece<P>> {
        let most = most.min(self.credit_left());
        let dsn = self.next;
        let (payload, length, fin) = if self.unsent_bytes > 0 {
            let front = self.unsent.front_mut().filter(|_| most > 0)?;
            let payload = if front.len() as u64 <= most {
                self.unsent.pop_front()?
            } else {
                front.split_to(most as usize)
            };
            let length = payload.len() as u64;
            self.unsent_bytes -= length;
            self.next += length;
            (Some(payload), length, false)
        } else if self.owes_fin() {
            self.fin_sent = true;
            (None, 1, true)
        } else {
            return None;
        };
        let kept = payload.clone();
        self.sent.push_back(Segment {
            dsn,
            length,
            payload: kept,
            fin,
            acked: false,
            carriers: slot,
            due: false,
            expected,
        });
        Some(Piece { dsn, payload, length })
    }

    /// The oldest segment that is to be sent again.
    pub(super) fn first_due(&self) -> Option<&Segment<P>> {
        if self.due == 0 {
            return None;
        }
        self.sent.iter().find(|segment| segment.due)
    }

    /// Segments that nobody has acknowledged, the oldest first.
    pub(super) fn unacked(&self) -> impl Iterator<Item = &Segment<P>> {
        self.sent.iter().filter(|segment| !segment.acked)
    }

    /// Sends a segment again, on one more subflow.
    pub(super) fn repeat(&mut self, dsn: u64, slot: Slots, expected: Time) -> Option<Piece<P>> {
        let at = self.sent.binary_search_by_key(&dsn, |segment| segment.dsn).ok()?;
        let segment = &mut self.sent[at];
        if std::mem::take(&mut segment.due) {
            self.due -= 1;
        }
        segment.carriers |= slot;
        segment.expected = segment.expected.min(expected);
        Some(Piece { dsn, payload: segment.payload.clone(), length: segment.length })
    }

    /// The subflows that carry a segment.
    pub(super) fn carriers(&self, dsn: u64) -> Option<Slots> {
        let at = self.sent.binary_search_by_key(&dsn, |segment| segment.dsn).ok()?;
        Some(self.sent[at].carriers)
    }

    /// Marks what only subflows of `gone` carry as to be sent again.
    pub(super) fn redo(&mut self, gone: Slots) {
        for segment in &mut self.sent {
            if !segment.acked && !segment.due && segment.carriers & !gone == 0 {
                segment.due = true;
                self.due += 1;
            }
        }
    }

    /// A slot is to be used by another subflow.
    pub(super) fn clear(&mut self, slot: Slots) {
        for segment in &mut self.sent {
            segment.carriers &= !slot;
        }
    }

    /// The peer tells what has arrived; `relieved` hears of each segment.
    ///
    /// # Errors
    /// When it acknowledges what was never sent.
    pub(super) fn on_dack(
        &mut self,
        now: Time,
        dack: &Dack,
        mut relieved: impl FnMut(Relieved),
    ) -> Result<()> {
        let end = self.next + u64::from(self.fin_sent);
        if dack.next > end || dack.ranges.iter().any(|range| range.end > end) {
            return Err(Error::Unexpected { what: "DACK of what was never sent" });
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
            relieved(Relieved {
                carriers: segment.carriers,
                length: segment.length,
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

    /// Everything that was written and not acknowledged, in order; for whoever goes on without
    /// the session.
    pub(super) fn reclaim(&mut self) -> Vec<P> {
        let sent = self.sent.drain(..).filter_map(|segment| segment.payload);
        sent.chain(self.unsent.drain(..)).collect()
    }
}

/// A piece of the stream on its way; without payload it is the FIN.
#[derive(Debug)]
pub(super) struct Piece<P> {
    pub(super) dsn: u64,
    pub(super) payload: Option<P>,
    pub(super) length: u64,
}
