//! The outstanding segments, in order of sequence numbers.
//!
//! A segment has a permanent number, so that lists of segments stay valid after the removal of
//! acknowledged ones. Every list is ordered such that only its first entry must be examined: work
//! is proportional to the changes by an acknowledgement, not to the window.

use std::collections::VecDeque;

use base::Time;

use crate::tcp::control::SentMark;
use crate::tcp::packed::{Packed, Packer, Unpacker};
use crate::tcp::ranges::Ranges;

/// Scoreboards larger than this are freed when a connection becomes idle.
const SPARE_CAPACITY: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Neither acknowledged nor deemed lost.
    InFlight,
    /// Deemed lost, to be retransmitted.
    Lost,
    Sacked,
}

/// One outstanding segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Time of the last transmission.
    pub(super) sent: Time,
    pub(super) mark: SentMark,
    /// Low half of the sequence number.
    start: u32,
    pub(super) length: u16,
    pub(super) state: State,
    /// Number of transmissions, at most 63.
    pub(super) transmissions: u8,
}

/// A segment's FIN is in the highest bit of its transmissions.
const FIN: u8 = 0x80;

impl Record {
    pub(super) fn new(seq: u64, length: u16, fin: bool, sent: Time, mark: SentMark) -> Self {
        let transmissions = 1 | if fin { FIN } else { 0 };
        Self { sent, mark, start: seq as u32, length, state: State::InFlight, transmissions }
    }

    pub(super) const fn has_fin(&self) -> bool {
        self.transmissions & FIN != 0
    }

    /// Whether it was retransmitted.
    pub(super) const fn is_repeated(&self) -> bool {
        self.transmissions & !FIN > 1
    }

    /// Number of its sequence numbers.
    pub(super) const fn span(&self) -> u64 {
        self.length as u64 + self.has_fin() as u64
    }
}

/// Lists that are needed only after losses.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    /// Selectively acknowledged ranges.
    pub(super) sacked: Ranges,
    /// Records in the state [`State::Sacked`].
    pub(super) sacked_count: u32,
    /// Numbers of lost segments in the order of retransmission; some may have arrived meanwhile.
    pub(super) lost: VecDeque<u64>,
    /// Number of entries at the front of `lost` that were lost again: they are sent first.
    pub(super) again: usize,
    /// Retransmissions in order of time; some may have arrived or been
    /// retransmitted again meanwhile.
    pub(super) repeated: VecDeque<(u64, Time)>,
    /// Highest sequence number deemed lost.
    pub(super) highest: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    records: VecDeque<Record>,
    /// Number of the first record.
    first: u64,
    /// First sequence number not acknowledged (SND.UNA), where the first record starts.
    pub(super) una: u64,
    /// Payload in flight (RFC 6675's pipe).
    pub(super) in_flight: u64,
    pub(super) losses: Option<Box<Losses>>,
}

/// For scoreboards without records.
impl Packed for Scoreboard {
    fn pack(&self, to: &mut Packer) {
        self.first.pack(to);
        self.una.pack(to);
    }

    fn unpack(from: &mut Unpacker<'_>) -> Self {
        let first = Packed::unpack(from);
        Self { first, ..Self::new(Packed::unpack(from)) }
    }
}

impl Scoreboard {
    pub(super) fn new(una: u64) -> Self {
        Self { records: VecDeque::new(), first: 0, una, in_flight: 0, losses: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) const fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn end(&self) -> u64 {
        self.first + self.records.len() as u64
    }

    pub(super) fn push(&mut self, record: Record) {
        self.in_flight += u64::from(record.length);
        if self.records.capacity() == 0 {
            // Many connections never have more than one outstanding segment.
            self.records.reserve_exact(1);
        }
        self.records.push_back(record);
    }

    pub(super) fn get(&self, number: u64) -> Option<&Record> {
        self.records.get(number.checked_sub(self.first)? as usize)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Record> {
        self.records.get_mut(number.checked_sub(self.first)? as usize)
    }

    pub(super) fn last_number(&self) -> Option<u64> {
        self.end().checked_sub(1).filter(|_| !self.is_empty())
    }

    /// Sequence number at which a record starts.
    pub(super) fn start_of(&self, record: &Record) -> u64 {
        self.una + u64::from(record.start.wrapping_sub(self.una as u32))
    }

    pub(super) fn end_of(&self, record: &Record) -> u64 {
        self.start_of(record) + record.span()
    }

    /// Removes the first record if `ack` covers all of it.
    pub(super) fn pop_acked(&mut self, ack: u64) -> Option<Record> {
        let record = *self.records.front()?;
        let end = self.una + record.span();
        if end > ack {
            return None;
        }
        self.records.pop_front();
        self.first += 1;
        self.una = end;
        match record.state {
            State::InFlight => self.in_flight -= u64::from(record.length),
            State::Lost => {}
            State::Sacked => self.losses_mut().sacked_count -= 1,
        }
        Some(record)
    }

    /// Number of the first record that starts at or after `seq`.
    pub(super) fn number_at(&self, seq: u64, mss: u32) -> u64 {
        let guess = (seq.saturating_sub(self.una) as u32 / mss.max(1)) as usize;
        let fits = self.records.get(guess).is_some_and(|record| self.start_of(record) == seq);
        let index = if fits {
            guess
        } else {
            self.records.partition_point(|record| self.start_of(record) < seq)
        };
        self.first + index as u64
    }

    pub(super) fn losses_mut(&mut self) -> &mut Losses {
        self.losses.get_or_insert_default()
    }

    pub(super) fn sacked_count(&self) -> u32 {
        self.losses.as_ref().map_or(0, |losses| losses.sacked_count)
    }

    /// The record of a transmission, unless the segment has arrived or was retransmitted since.
    pub(super) fn still_in_flight(&self, number: u64, sent: Time) -> Option<&Record> {
        self.get(number).filter(|record| record.state == State::InFlight && record.sent == sent)
    }

    /// Deems a record in flight lost. Returns it.
    pub(super) fn lose(&mut self, number: u64) -> Option<Record> {
        let record = self.get_mut(number).filter(|record| record.state == State::InFlight)?;
        record.state = State::Lost;
        let record = *record;
        let end = self.end_of(&record);
        self.in_flight -= u64::from(record.length);
        let losses = self.losses_mut();
        losses.highest = losses.highest.max(end);
        if record.is_repeated() {
            losses.lost.insert(losses.again, number);
            losses.again += 1;
        } else {
            losses.lost.push_back(number);
        }
        Some(record)
    }

    /// The next lost segment to retransmit.
    pub(super) fn next_lost(&mut self) -> Option<u64> {
        let first = self.first;
        let losses = self.losses.as_mut()?;
        while let Some(&number) = losses.lost.front() {
            let record = number.checked_sub(first).and_then(|i| self.records.get(i as usize));
            if record.is_some_and(|record| record.state == State::Lost) {
                return Some(number);
            }
            losses.lost.pop_front();
            losses.again = losses.again.saturating_sub(1);
        }
        None
    }

    /// Records the retransmission of a segment that is lost or (as a probe) still in flight.
    /// Returns its record.
    pub(super) fn repeat(&mut self, number: u64, sent: Time, mark: SentMark) -> Option<Record> {
        let record = self.get_mut(number)?;
        let was_lost = record.state == State::Lost;
        record.state = State::InFlight;
        record.sent = sent;
        record.mark = mark;
        record.transmissions =
            (record.transmissions & FIN) | (record.transmissions & !FIN).saturating_add(1).min(63);
        let record = *record;
        if was_lost {
            self.in_flight += u64::from(record.length);
        }
        let losses = self.losses_mut();
        if losses.lost.front() == Some(&number) {
            losses.lost.pop_front();
            losses.again = losses.again.saturating_sub(1);
        }
        losses.repeated.push_back((number, sent));
        Some(record)
    }

    /// Lost segments that were sent only once count as in flight again.
    pub(super) fn find_again(&mut self) {
        let Some(losses) = &mut self.losses else { return };
        let (first, records, in_flight) = (self.first, &mut self.records, &mut self.in_flight);
        losses.lost.retain(|&number| {
            let index = number.checked_sub(first).map(|index| index as usize);
            let Some(record) = index.and_then(|index| records.get_mut(index)) else { return false };
            if record.state == State::Lost && !record.is_repeated() {
                record.state = State::InFlight;
                *in_flight += u64::from(record.length);
            }
            record.state == State::Lost
        });
        losses.again = losses.lost.len();
    }

    /// Queues all lost segments for retransmission from the start.
    pub(super) fn requeue(&mut self) {
        let (first, records) = (self.first, &self.records);
        if let Some(losses) = &mut self.losses {
            let numbered = (first..).zip(records);
            let lost = numbered.filter(|(_, record)| record.state == State::Lost);
            losses.lost.clear();
            losses.lost.extend(lost.map(|(number, _)| number));
            losses.again = 0;
        }
    }

    /// Marks the segments within `[start, end)` as selectively acknowledged. Passes each that was
    /// in flight or lost, with its end, to `deliver`.
    pub(super) fn sack(
        &mut self,
        start: u64,
        end: u64,
        mss: u32,
        mut deliver: impl FnMut(&Record, u64),
    ) {
        while let Some((from, to)) = self.losses_mut().sacked.gap(start, end) {
            let mut number = self.number_at(from, mss);
            let mut count = 0;
            while let Some(record) = self.get(number).copied() {
                let record_end = self.end_of(&record);
                if record_end > to {
                    break;
                }
                if record.state == State::InFlight {
                    self.in_flight -= u64::from(record.length);
                }
                if let Some(record) = self.get_mut(number) {
                    record.state = State::Sacked;
                }
                deliver(&record, record_end);
                count += 1;
                number += 1;
            }
            let losses = self.losses_mut();
            losses.sacked_count += count;
            losses.sacked.insert(from, to);
        }
    }

    /// Frees the lists of losses. No loss may be outstanding.
    pub(super) fn forget_losses(&mut self) {
        self.losses = None;
    }

    /// Frees what an idle connection does not need.
    pub(super) fn shrink(&mut self) {
        if self.records.is_empty() && self.records.capacity() > SPARE_CAPACITY {
            self.records.shrink_to(0);
        }
    }
}

#[cfg(test)]
impl Scoreboard {
    pub(super) fn heap_bytes(&self) -> usize {
        assert!(self.losses.is_none());
        self.records.capacity() * size_of::<Record>()
    }

    /// Asserts that counters and lists agree with the records, which reach up to `next`.
    pub(super) fn check(&self, next: u64) {
        let (mut seq, mut in_flight, mut sacked) = (self.una, 0, 0);
        for (number, record) in (self.first..).zip(&self.records) {
            assert_eq!(self.start_of(record), seq);
            seq = self.end_of(record);
            let listed = self.losses.as_ref().is_some_and(|l| l.lost.contains(&number));
            match record.state {
                State::InFlight => in_flight += u64::from(record.length),
                State::Lost => assert!(listed, "a lost segment that is never sent again"),
                State::Sacked => {
                    sacked += 1;
                    let known = self.losses.as_ref().map(|l| &l.sacked);
                    assert!(known.is_some_and(|s| s.covers(self.start_of(record), seq)));
                }
            }
        }
        assert_eq!((seq, in_flight, sacked), (next, self.in_flight, self.sacked_count()));
    }
}
