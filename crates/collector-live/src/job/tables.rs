//! Snapshots of all routes, at aligned times, while collecting goes on.

use base::{Span, Time};

use super::sinks::Sinks;
use crate::Result;
use crate::archive::Snapshot;

/// Bytes of a snapshot that are written between packets.
const BUDGET: usize = 256 << 10;

/// When the next snapshot is due, and the one that is being written.
pub(super) struct Tables {
    interval: Span,
    view: String,
    next: Option<Time>,
    open: Option<Snapshot>,
    records: Vec<u8>,
}

impl Tables {
    /// Each `interval`, counted from 1970; never if that is zero. `view` is the collector's name.
    pub(super) fn new(interval: Span, view: &str) -> Self {
        Self { interval, view: view.to_owned(), next: None, open: None, records: Vec::new() }
    }

    /// Writes some more of a snapshot, or begins the one that is due.
    ///
    /// # Errors
    /// If the disk does not take it; the next one is tried again.
    pub(super) fn tend(&mut self, now: Time, sinks: &mut Sinks) -> Result<()> {
        if self.interval == Span::ZERO || now == Time::ZERO {
            return Ok(());
        }
        if self.open.is_some() {
            return self.write(sinks);
        }
        let Some(next) = self.next else {
            self.next = Some(self.after(now));
            return Ok(());
        };
        if now < next {
            return Ok(());
        }
        self.next = Some(self.after(now));
        let (Some(writer), Some(rib)) = (&sinks.writer, &mut sinks.rib) else { return Ok(()) };
        // A jump over several intervals has one snapshot, named by the last of them.
        let time = self.before(now);
        if rib.begin_snapshot(time, 0, self.view.as_bytes()) {
            match writer.archive().snapshot(time) {
                Ok(snapshot) => self.open = Some(snapshot),
                Err(error) => {
                    rib.cancel_snapshot();
                    return Err(error);
                }
            }
        }
        self.write(sinks)
    }

    fn before(&self, time: Time) -> Time {
        let interval = self.interval.as_nanos();
        Time::from_nanos(time.as_nanos() / interval * interval)
    }

    fn after(&self, time: Time) -> Time {
        self.before(time) + self.interval
    }

    fn write(&mut self, sinks: &mut Sinks) -> Result<()> {
        let Some(rib) = &mut sinks.rib else { return Ok(()) };
        let Some(mut snapshot) = self.open.take() else { return Ok(()) };
        self.records.clear();
        let is_last = rib.write_snapshot(BUDGET, &mut self.records);
        let written = snapshot.append(&self.records);
        match written {
            Ok(()) if is_last => snapshot.finish(),
            Ok(()) => {
                self.open = Some(snapshot);
                Ok(())
            }
            Err(error) => {
                rib.cancel_snapshot();
                Err(error)
            }
        }
    }

    /// Completes the snapshot that is being written.
    ///
    /// # Errors
    /// If the disk does not take it.
    pub(super) fn finish(&mut self, sinks: &mut Sinks) -> Result<()> {
        while self.open.is_some() {
            self.write(sinks)?;
        }
        Ok(())
    }
}
