//! Writes events to an archive.

use base::Time;
use collector::archive::{Recorder, Settings};
use collector::{Event, Peering, Sender, Sink};

use crate::Archive;
use crate::archive::Status;

const CHUNK: usize = 1 << 20;

pub struct Writer {
    archive: Archive,
    recorder: Recorder,
    local_messages: bool,
    handed: u64,
}

impl Writer {
    pub fn new(archive: Archive, settings: Settings) -> Self {
        let local_messages = settings.local_messages;
        Self { archive, recorder: Recorder::new(settings), local_messages, handed: 0 }
    }

    /// Writes the records to the kernel; in live operation, after each batch of packets.
    pub fn flush(&mut self) {
        let records = self.recorder.records() - self.handed;
        self.handed += records;
        self.archive.take(self.recorder.buffer(), records);
    }

    /// Advances the time of the capture to `now`: see [`Archive::advance`].
    pub fn advance(&mut self, now: Time) {
        if self.archive.is_over(now) {
            self.turn(now, false);
        }
    }

    #[cold]
    fn turn(&mut self, time: Time, is_record: bool) {
        self.flush();
        self.archive.turn_with(self.recorder.buffer(), time, is_record);
    }

    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    pub fn archive_mut(&mut self) -> &mut Archive {
        &mut self.archive
    }

    /// Writes all records and finishes all files.
    pub fn close(mut self) -> crate::Result<Status> {
        self.flush();
        let mut rest = std::mem::take(self.recorder.buffer());
        self.archive.close_with(&mut rest)
    }
}

impl Sink for Writer {
    #[inline]
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let time = match *event {
            Event::Message { from: Sender::Local, .. } if !self.local_messages => return,
            Event::Message { time, .. } | Event::State { time, .. } => time,
            _ => return,
        };
        if !self.archive.covers(time) {
            self.turn(time, true);
        }
        self.recorder.event(peering, event);
        if self.recorder.bytes().len() >= CHUNK {
            self.flush();
        }
    }

    fn forget_peering(&mut self, peering: &Peering) {
        self.recorder.forget_peering(peering);
    }
}
