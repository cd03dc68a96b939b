//! Snapshots of all routes: files at aligned times, and streams for whoever asks, while
//! collecting goes on.

use std::sync::mpsc::{SyncSender, TrySendError};

use base::{Span, Time};

use super::sinks::Sinks;
use crate::archive::Snapshot;
use crate::{Board, Result};

/// Bytes of a snapshot that are written between packets.
const BUDGET: usize = 256 << 10;

/// Where a snapshot goes.
enum Target {
    File(Snapshot),
    /// Each reader, and whether it has the present piece.
    Readers(Vec<(SyncSender<Vec<u8>>, bool)>),
}

/// When the next snapshot is due, and the one that is being written: one at a time.
pub(super) struct Tables {
    interval: Span,
    view: String,
    next: Option<Time>,
    open: Option<Target>,
    /// The piece that is being handed over, and whether it is the last.
    piece: Vec<u8>,
    is_last: bool,
}

impl Tables {
    /// Each `interval`, counted from 1970; never if that is zero. `view` is the collector's name.
    pub(super) fn new(interval: Span, view: &str) -> Self {
        let view = view.to_owned();
        Self { interval, view, next: None, open: None, piece: Vec::new(), is_last: false }
    }

    /// Writes some more of a snapshot, or begins the one that is due or asked for.
    ///
    /// # Errors
    /// If the disk does not take it; the next one is tried again.
    pub(super) fn tend(&mut self, now: Time, sinks: &mut Sinks, board: &Board) -> Result<()> {
        if now == Time::ZERO {
            return Ok(());
        }
        if self.open.is_none() && !self.begin_file(now, sinks)? {
            self.begin_readers(now, sinks, board);
        }
        self.write(sinks)
    }

    /// Begins the file that is due; false if none is.
    fn begin_file(&mut self, now: Time, sinks: &mut Sinks) -> Result<bool> {
        if self.interval == Span::ZERO {
            return Ok(false);
        }
        let next = *self.next.get_or_insert(self.before(now) + self.interval);
        if now < next {
            return Ok(false);
        }
        // A jump over several intervals has one snapshot, named by the last of them.
        let time = self.before(now);
        self.next = Some(time + self.interval);
        let (Some(writer), Some(rib)) = (&sinks.writer, &mut sinks.rib) else { return Ok(false) };
        let snapshot = writer.archive().snapshot(time)?;
        // Packets come many at a time: the routes are those of now, and the records say so.
        rib.begin_snapshot(now, 0, self.view.as_bytes());
        self.open = Some(Target::File(snapshot));
        Ok(true)
    }

    fn begin_readers(&mut self, now: Time, sinks: &mut Sinks, board: &Board) {
        let Some(rib) = &mut sinks.rib else { return };
        let readers = board.take_tables();
        if readers.is_empty() {
            return;
        }
        rib.begin_snapshot(now, 0, self.view.as_bytes());
        self.open = Some(Target::Readers(readers.into_iter().map(|to| (to, true)).collect()));
    }

    fn before(&self, time: Time) -> Time {
        let interval = self.interval.as_nanos();
        Time::from_nanos(time.as_nanos() / interval * interval)
    }

    fn write(&mut self, sinks: &mut Sinks) -> Result<()> {
        let Some(rib) = &mut sinks.rib else { return Ok(()) };
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
            Target::Readers(mut readers) => {
                if readers.iter().all(|(_, has_piece)| *has_piece) && !self.is_last {
                    self.piece.clear();
                    self.is_last = rib.write_snapshot(BUDGET, &mut self.piece);
                    for (_, has_piece) in &mut readers {
                        *has_piece = false;
                    }
                }
                readers.retain_mut(|(to, has_piece)| {
                    if *has_piece {
                        return true;
                    }
                    let sent = to.try_send(self.piece.clone());
                    *has_piece = sent.is_ok();
                    !matches!(sent, Err(TrySendError::Disconnected(_)))
                });
                if readers.is_empty() {
                    rib.cancel_snapshot();
                    self.is_last = false;
                } else if self.is_last && readers.iter().all(|(_, has_piece)| *has_piece) {
                    self.is_last = false;
                } else {
                    self.open = Some(Target::Readers(readers));
                }
            }
        }
        Ok(())
    }

    /// Completes the file that is being written; readers are left with what they have.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub(super) fn finish(&mut self, sinks: &mut Sinks) -> Result<()> {
        while matches!(self.open, Some(Target::File(_))) {
            self.write(sinks)?;
        }
        self.open = None;
        Ok(())
    }
}
