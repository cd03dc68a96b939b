//! Frames that wait, with their bytes in one buffer.

use std::ops::Range;

use base::Time;
use collector::{Frame, LinkType};

/// A frame without its bytes and time.
#[derive(Debug)]
struct Held {
    link: LinkType,
    interface: u32,
    length: u32,
    without_checksum: bool,
    place: Range<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Frames {
    held: Vec<Held>,
    times: Vec<Time>,
    bytes: Vec<u8>,
}

impl Frames {
    pub(super) fn push(&mut self, frame: &Frame<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame.data);
        let place = start..self.bytes.len();
        let Frame { time, link, interface, length, without_checksum, .. } = *frame;
        self.held.push(Held { link, interface, length, without_checksum, place });
        self.times.push(time);
    }

    pub(super) fn append(&mut self, frames: &Self) {
        frames.iter().for_each(|frame| self.push(&frame));
    }

    /// The first frame, and the others.
    pub(super) fn split_first(&self) -> (Self, Self) {
        let (mut first, mut rest) = (Self::default(), Self::default());
        for (number, frame) in self.iter().enumerate() {
            if number == 0 { first.push(&frame) } else { rest.push(&frame) }
        }
        (first, rest)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    pub(super) fn times(&self) -> &[Time] {
        &self.times
    }

    /// Gives all frames `time`; returns the number of those that had another one.
    pub(super) fn set_times(&mut self, time: Time) -> u64 {
        let changed = self.times.iter().filter(|own| **own != time).count();
        self.times.fill(time);
        changed as u64
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Frame<'_>> {
        self.held.iter().zip(&self.times).map(|(held, time)| Frame {
            time: *time,
            link: held.link,
            interface: held.interface,
            data: &self.bytes[held.place.clone()],
            length: held.length,
            without_checksum: held.without_checksum,
        })
    }
}
