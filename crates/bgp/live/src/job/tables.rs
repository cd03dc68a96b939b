//! Snapshots of all routes during collection: files at aligned times, and streams for BMP stations.

use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use base::{Span, Time};

use collector::rib::Rib;

use crate::archive::Snapshot;
use crate::pipeline::DISORDER;
use crate::{Board, Result, Writer};

/// Bytes of a snapshot written between packets.
const BUDGET: usize = 256 << 10;

/// Timeout of a blocked reader while other readers, and files, wait for it.
const MAX_TABLE_TIME: Duration = Duration::from_secs(10);

/// Number of instants in a row without an event from which on only the last one has a file.
const MAX_MISSED: u64 = 32;

enum Target {
    File(Snapshot),
    Readers(Vec<(SyncSender<Vec<u8>>, bool)>),
}

/// Time of the next snapshot, and the one that is being written: at most one.
pub(super) struct Tables {
    interval: Span,
    view: String,
    next: Option<Time>,
    open: Option<Target>,
    /// The current chunk, whether routes end with it, and whether it is the last, empty one.
    piece: Vec<u8>,
    is_whole: bool,
    is_last: bool,
    made: Instant,
}

impl Tables {
    /// A snapshot every `interval`, counted from 1970; none if it is zero. `view` is the
    /// collector's name.
    pub(super) fn new(interval: Span, view: &str) -> Self {
        Self {
            interval,
            view: view.to_owned(),
            next: None,
            open: None,
            piece: Vec::new(),
            is_whole: false,
            is_last: false,
            made: Instant::now(),
        }
    }

    /// Continues a snapshot, or starts one that is due or requested.
    pub(super) fn tend(
        &mut self,
        now: Time,
        rib: &mut Rib,
        writer: Option<&Writer>,
        board: &Board,
    ) -> Result<()> {
        if now == Time::ZERO {
            return Ok(());
        }
        self.reach(now, rib, writer)?;
        if self.open.is_none() {
            self.begin_readers(now, rib, board);
        }
        self.write(rib)
    }

    /// Time of the next file: [`Self::reach`] is due before an event of that time.
    pub(super) fn due(&self) -> Time {
        match self.next {
            _ if self.interval == Span::ZERO => Time::MAX,
            None => Time::ZERO,
            Some(next) => next,
        }
    }

    /// Starts the files of all instants until `now`; all but the last are complete. Routes of
    /// later events are not in them.
    pub(super) fn reach(
        &mut self,
        now: Time,
        rib: &mut Rib,
        writer: Option<&Writer>,
    ) -> Result<()> {
        if self.interval == Span::ZERO {
            return Ok(());
        }
        let next = *self.next.get_or_insert(self.before(now) + self.interval);
        if next.since(now) > self.interval.saturating_add(DISORDER) {
            // The clock was set back.
            self.next = Some(self.before(now) + self.interval);
            return Ok(());
        }
        // A jump over many instants is a clock that was set: there is one file, of the last one.
        let missed = now.since(next).as_nanos() / self.interval.as_nanos();
        let mut time = if missed < MAX_MISSED { next } else { self.before(now) };
        while time <= now {
            self.complete_file(rib)?;
            if self.open.is_some() {
                // The routes are being sent to readers; the file is next.
                return Ok(());
            }
            self.next = Some(time + self.interval);
            self.begin_file(time, rib, writer)?;
            time += self.interval;
        }
        Ok(())
    }

    fn begin_file(&mut self, time: Time, rib: &mut Rib, writer: Option<&Writer>) -> Result<()> {
        let Some(writer) = writer else { return Ok(()) };
        rib.advance(time);
        rib.begin_snapshot(time, 0, self.view.as_bytes());
        let mirrors = rib.snapshot_mirrors().map(|mirror| mirror.0).collect();
        match writer.archive().snapshot(time, mirrors) {
            Ok(snapshot) => self.open = Some(Target::File(snapshot)),
            Err(error) => {
                rib.cancel_snapshot();
                return Err(error);
            }
        }
        Ok(())
    }

    fn begin_readers(&mut self, now: Time, rib: &mut Rib, board: &Board) {
        let readers = board.take_tables();
        if readers.is_empty() {
            return;
        }
        rib.begin_snapshot(now, 0, self.view.as_bytes());
        (self.is_whole, self.is_last) = (false, false);
        self.open = Some(Target::Readers(readers.into_iter().map(|to| (to, true)).collect()));
    }

    fn before(&self, time: Time) -> Time {
        let interval = self.interval.as_nanos();
        Time::from_nanos(time.as_nanos() / interval * interval)
    }

    fn write(&mut self, rib: &mut Rib) -> Result<()> {
        let Some(target) = self.open.take() else { return Ok(()) };
        match target {
            Target::File(mut snapshot) => {
                self.piece.clear();
                let is_last = rib.write_snapshot(BUDGET, &mut self.piece);
                if let Err(error) = snapshot.append(&self.piece) {
                    rib.cancel_snapshot();
                    return Err(error);
                }
                if is_last {
                    return snapshot.finish();
                }
                self.open = Some(Target::File(snapshot));
            }
            Target::Readers(readers) => self.hand_over(rib, readers),
        }
        Ok(())
    }

    /// Sends the current chunk to the remaining readers, or creates the next one.
    fn hand_over(&mut self, rib: &mut Rib, mut readers: Vec<(SyncSender<Vec<u8>>, bool)>) {
        if readers.iter().all(|(_, has_piece)| *has_piece) {
            self.piece.clear();
            self.made = Instant::now();
            self.is_last = self.is_whole;
            if !self.is_whole {
                self.is_whole = rib.write_snapshot(BUDGET, &mut self.piece);
            }
            let is_nothing = self.piece.is_empty() && !self.is_last;
            for (_, has_piece) in &mut readers {
                *has_piece = is_nothing;
            }
        }
        let is_late = self.made.elapsed() >= MAX_TABLE_TIME;
        readers.retain_mut(|(to, has_piece)| {
            if *has_piece {
                return true;
            }
            let sent = to.try_send(self.piece.clone());
            *has_piece = sent.is_ok();
            match sent {
                Ok(()) => true,
                Err(TrySendError::Full(_)) => !is_late,
                Err(TrySendError::Disconnected(_)) => false,
            }
        });
        let is_over = self.is_last && readers.iter().all(|(_, has_piece)| *has_piece);
        if readers.is_empty() && !self.is_whole {
            rib.cancel_snapshot();
        } else if !readers.is_empty() && !is_over {
            self.open = Some(Target::Readers(readers));
        }
    }

    fn complete_file(&mut self, rib: &mut Rib) -> Result<()> {
        while matches!(self.open, Some(Target::File(_))) {
            self.write(rib)?;
        }
        Ok(())
    }

    /// Completes the file that is being written; readers keep their chunks.
    pub(super) fn finish(&mut self, rib: &mut Rib) -> Result<()> {
        self.complete_file(rib)?;
        self.open = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn drops_blocked_reader_and_serves_others() {
        let mut tables = Tables::new(Span::ZERO, "");
        let mut rib = Rib::new();
        rib.begin_snapshot(Time::from_nanos(1), 0, b"");
        let (stuck, never_read) = sync_channel(0);
        let (to, pieces) = sync_channel(4);
        tables.hand_over(&mut rib, vec![(stuck, true), (to, true)]);
        let hand_over = |tables: &mut Tables, rib: &mut Rib| {
            if let Some(Target::Readers(readers)) = tables.open.take() {
                tables.hand_over(rib, readers);
            }
        };
        hand_over(&mut tables, &mut rib);
        assert_eq!(pieces.try_iter().count(), 1, "the others wait for it");
        tables.made = Instant::now().checked_sub(MAX_TABLE_TIME).unwrap();
        for _ in 0..3 {
            hand_over(&mut tables, &mut rib);
        }
        assert!(never_read.try_recv().is_err() && tables.open.is_none());
        assert_eq!(pieces.try_iter().map(|piece| piece.len()).collect::<Vec<_>>(), [0]);
    }
}
