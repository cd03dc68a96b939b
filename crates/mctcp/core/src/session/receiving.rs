//! Reassembly of the received stream, and credit for more data.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::error::{Error, Result};
use crate::frame::MAX_RANGES;
use crate::payload::Payload;

/// Initial width of the credit with autotuning.
const INITIAL_CREDIT_BYTES: u64 = 256 << 10;
/// Maximum number of pieces after gaps, whose map entries the credit does not count.
const MAX_EARLY_PIECES: usize = 16_384;

/// The receiving half of a stream.
#[derive(Debug)]
pub(super) struct Reassembly<P> {
    /// DSN of the next byte in order; FIN counts as one byte.
    next: u64,
    /// Data in order, for the application.
    ready: VecDeque<P>,
    ready_bytes: u64,
    /// Data after a gap, by DSN, without overlaps.
    early: BTreeMap<u64, P>,
    early_bytes: u64,
    /// Length of the stream, after FIN was received.
    length: Option<u64>,
    /// DSN up to which the peer may send, according to the last DACK.
    credit: u64,
    /// Bytes that the application has read.
    read: u64,
    /// Width of the credit, and its maximum.
    window: u64,
    max_window: u64,
    /// Highest received DSN plus one.
    highest_end: u64,
    pub(super) duplicate_bytes: u64,
    /// Maximum of `early_bytes`.
    pub(super) early_peak: u64,
}

impl<P: Payload> Reassembly<P> {
    pub(super) fn new(max_window: u64, autotune: bool) -> Self {
        let window = if autotune { INITIAL_CREDIT_BYTES.min(max_window) } else { max_window };
        Self {
            next: 0,
            ready: VecDeque::new(),
            ready_bytes: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            length: None,
            credit: window,
            read: 0,
            window,
            max_window,
            highest_end: 0,
            duplicate_bytes: 0,
            early_peak: 0,
        }
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// A counter that grows by at least the number of new bytes with each arrival.
    pub(super) fn arrival_counter(&self) -> u64 {
        self.next + self.highest_end
    }

    /// Number of buffered bytes.
    pub(super) fn buffered(&self) -> u64 {
        self.ready_bytes + self.early_bytes
    }

    /// Number of bytes stored after a gap.
    pub(super) fn early_bytes(&self) -> u64 {
        self.early_bytes
    }

    pub(super) fn is_readable(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether the whole stream was received.
    pub(super) fn is_complete(&self) -> bool {
        self.length.is_some_and(|length| self.next > length)
    }

    /// Whether the whole stream has been read.
    pub(super) fn is_read(&self) -> bool {
        self.is_complete() && self.ready.is_empty()
    }

    /// Processes a received piece.
    ///
    /// # Errors
    /// If it exceeds the credit or the end of the stream.
    pub(super) fn on_data(&mut self, dsn: u64, mut payload: P) -> Result<()> {
        let length = payload.len() as u64;
        let beyond = Error::Credit { end: dsn.saturating_add(length), credit: self.credit };
        let end = dsn.checked_add(length).filter(|end| *end <= self.credit).ok_or(beyond)?;
        if self.length.is_some_and(|length| end > length) {
            return Err(Error::Unexpected { what: "DATA beyond FIN" });
        }
        self.highest_end = self.highest_end.max(end);
        let mut start = dsn;
        if start < self.next {
            let known = (self.next - start).min(length);
            self.duplicate_bytes += known;
            let _ = payload.split_to(known as usize);
            start += known;
        }
        if payload.is_empty() {
            return Ok(());
        }
        if self.early.len() >= MAX_EARLY_PIECES {
            return Err(Error::Fragments { pieces: MAX_EARLY_PIECES });
        }
        if start == self.next && self.early.is_empty() {
            self.take(payload);
        } else {
            self.store_early(start, payload);
            self.drain_early();
        }
        self.finish();
        Ok(())
    }

    fn take(&mut self, payload: P) {
        self.next += payload.len() as u64;
        self.ready_bytes += payload.len() as u64;
        // Each piece requires memory in addition to its bytes.
        let payload = match self.ready.back_mut() {
            Some(last) => last.append(payload),
            None => Some(payload),
        };
        self.ready.extend(payload);
    }

    /// Stores the new parts of a piece.
    fn store_early(&mut self, mut start: u64, mut payload: P) {
        if let Some((before, piece)) = self.early.range(..=start).next_back() {
            let until = before + piece.len() as u64;
            if until > start {
                let known = (until - start).min(payload.len() as u64);
                self.duplicate_bytes += known;
                let _ = payload.split_to(known as usize);
                start += known;
            }
        }
        while !payload.is_empty() {
            let end = start + payload.len() as u64;
            let after = self.early.range(start..end).next();
            let Some((at, known)) = after.map(|(at, piece)| (*at, piece.len() as u64)) else {
                self.insert(start, payload);
                return;
            };
            if at > start {
                let piece = payload.split_to((at - start) as usize);
                self.insert(start, piece);
            }
            let known = known.min(end - at);
            self.duplicate_bytes += known;
            let _ = payload.split_to(known as usize);
            start = at + known;
        }
    }

    fn insert(&mut self, start: u64, payload: P) {
        self.early_bytes += payload.len() as u64;
        self.early_peak = self.early_peak.max(self.early_bytes);
        let before = self.early.range_mut(..start).next_back();
        let adjacent = before.filter(|(at, piece)| **at + piece.len() as u64 == start);
        let payload = match adjacent {
            Some((_, piece)) => piece.append(payload),
            None => Some(payload),
        };
        if let Some(payload) = payload {
            self.early.insert(start, payload);
        }
    }

    /// Moves pieces that are now in order.
    fn drain_early(&mut self) {
        while let Some(first) = self.early.first_entry()
            && *first.key() == self.next
        {
            let payload = first.remove();
            self.early_bytes -= payload.len() as u64;
            self.take(payload);
        }
    }

    /// # Errors
    /// If it differs from an earlier FIN, data beyond it were received, or it exceeds the credit.
    pub(super) fn on_fin(&mut self, length: u64) -> Result<()> {
        if length > self.credit {
            return Err(Error::Credit { end: length, credit: self.credit });
        }
        if self.length.is_some_and(|known| known != length) || self.highest_end > length {
            return Err(Error::Unexpected { what: "FIN with another stream length" });
        }
        self.length = Some(length);
        self.finish();
        Ok(())
    }

    /// Counts FIN as received in order when all earlier data were received.
    fn finish(&mut self) {
        if self.length == Some(self.next) {
            self.next += 1;
        }
    }

    pub(super) fn read(&mut self) -> Option<P> {
        let payload = self.ready.pop_front()?;
        self.ready_bytes -= payload.len() as u64;
        self.read += payload.len() as u64;
        Some(payload)
    }

    /// The peer requests a credit of this width. It is granted if the application
    /// reads fast enough.
    pub(super) fn on_wish(&mut self, width: u64) {
        if self.ready_bytes < self.window / 2 {
            self.window = self.window.max(width.min(self.max_window));
        }
    }

    /// Whether the credit has grown so much that the peer should be informed at once.
    pub(super) fn is_credit_update_due(&self) -> bool {
        self.read + self.window >= self.credit + self.window / 4
    }

    /// The credit for the next DACK.
    pub(super) fn grant(&mut self) -> u64 {
        self.credit = self.credit.max(self.read + self.window);
        self.credit
    }

    /// Received ranges after the gap, merged and ascending.
    pub(super) fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (start, payload) in &self.early {
            let end = start + payload.len() as u64;
            let full = ranges.len() == MAX_RANGES;
            match ranges.last_mut() {
                Some(last) if last.end == *start => last.end = end,
                _ if full => break,
                _ => ranges.push(*start..end),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counted;
    use bytes::Bytes;

    fn reassembly() -> Reassembly<Bytes> {
        Reassembly::new(64 << 10, false)
    }

    fn text(reassembly: &mut Reassembly<Bytes>) -> String {
        let mut all = Vec::new();
        while let Some(piece) = reassembly.read() {
            all.extend_from_slice(&piece);
        }
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn delivers_overlapping_pieces_once() {
        let mut reassembly = reassembly();
        for (dsn, piece) in [(6, "ghij"), (2, "cd"), (8, "ijkl"), (1, "bcdefgh"), (0, "ab")] {
            reassembly.on_data(dsn, Bytes::from_static(piece.as_bytes())).unwrap();
        }
        assert_eq!(text(&mut reassembly), "abcdefghijkl");
        assert_eq!((reassembly.next(), reassembly.buffered()), (12, 0));
        assert_eq!(reassembly.duplicate_bytes, 2 + 4 + 1);
    }

    #[test]
    fn appends_small_pieces() {
        let mut reassembly = reassembly();
        for dsn in 0..20_000 {
            reassembly.on_data(dsn, Bytes::from_static(b"x")).unwrap();
        }
        assert_eq!(reassembly.buffered(), 20_000);
        assert!(reassembly.ready.len() < 10, "{}", reassembly.ready.len());
        assert_eq!(text(&mut reassembly).len(), 20_000);
    }

    #[test]
    fn reports_ranges_of_data_after_gaps() {
        let mut reassembly = reassembly();
        for dsn in [10, 20, 15] {
            reassembly.on_data(dsn, Bytes::from_static(b"xxxxx")).unwrap();
        }
        reassembly.on_data(100, Bytes::from_static(b"x")).unwrap();
        assert_eq!(reassembly.ranges(), [10..25, 100..101]);
        assert_eq!((reassembly.early_bytes(), reassembly.early_peak), (16, 16));
    }

    #[test]
    fn rejects_data_beyond_the_credit() {
        let mut reassembly: Reassembly<Counted> = Reassembly::new(100, false);
        assert!(matches!(reassembly.on_data(60, Counted(41)), Err(Error::Credit { .. })));
        assert!(matches!(reassembly.on_data(u64::MAX, Counted(2)), Err(Error::Credit { .. })));
        assert!(reassembly.on_data(60, Counted(40)).is_ok());
        assert!(reassembly.on_data(0, Counted(60)).is_ok());
        assert!(reassembly.on_data(100, Counted(1)).is_err());
        assert!(reassembly.read().is_some());
        assert!(reassembly.is_credit_update_due());
        assert_eq!(reassembly.grant(), 200);
        assert!(reassembly.on_data(100, Counted(1)).is_ok());
    }

    #[test]
    fn is_complete_after_all_data_before_fin() {
        let mut reassembly = reassembly();
        reassembly.on_fin(4).unwrap();
        assert!(reassembly.on_fin(5).is_err());
        assert!(reassembly.on_data(2, Bytes::from_static(b"xyz")).is_err());
        reassembly.on_data(2, Bytes::from_static(b"cd")).unwrap();
        assert!(!reassembly.is_complete());
        reassembly.on_data(0, Bytes::from_static(b"ab")).unwrap();
        assert!(reassembly.is_complete() && !reassembly.is_read());
        assert_eq!(reassembly.next(), 5);
        assert_eq!(text(&mut reassembly), "abcd");
        assert!(reassembly.is_read());
    }

    #[test]
    fn widens_the_credit_while_the_application_reads() {
        let mut reassembly: Reassembly<Counted> = Reassembly::new(4 << 20, true);
        reassembly.on_wish(1 << 20);
        assert_eq!(reassembly.grant(), 1 << 20);
        reassembly.on_wish(100);
        reassembly.on_data(0, Counted(512 << 10)).unwrap();
        reassembly.on_wish(2 << 20);
        assert_eq!(reassembly.grant(), 1 << 20, "the application is behind");
        while reassembly.read().is_some() {}
        reassembly.on_wish(u64::MAX);
        assert!(reassembly.is_credit_update_due());
        assert_eq!(reassembly.grant(), (4 << 20) + (512 << 10));
    }
}
