//! Datagrams of one size in a row, which one system call sends.

use base::Time;

use super::seal::Key;
use super::{CLEAR, LARGEST, Message, RECORD, SEALED, TAG, TRAILER, Trailer, VIRTIO};

/// Datagrams that the kernel cuts one send into at most (`UDP_MAX_SEGMENTS` before Linux 6.9).
const MOST_SEGMENTS: usize = 64;

/// Bytes of one send at most: the largest UDP payload over IPv4.
const MOST_BYTES: usize = 65_507;

/// Datagrams that are filled, or sealed and about to be sent.
#[derive(Debug)]
pub(super) struct Train {
    /// As long as the longest train; only `length` of it is filled.
    bytes: Vec<u8>,
    length: usize,
    /// Bytes of the datagram that is being filled; 0: it has to be begun.
    filled: usize,
    pub(super) messages: u64,
}

/// A message that goes on in the next datagram.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Continued {
    /// Bytes of it that have been put into datagrams.
    position: usize,
    /// Bytes of it that have not.
    left: usize,
    /// Datagrams since the one that it begins in, that one included.
    back: usize,
}

/// The measures of trains for datagrams of some size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gauge {
    /// Bytes of a full datagram.
    pub(super) datagram: usize,
    /// Bytes of a train at most.
    pub(super) most: usize,
}

impl Gauge {
    pub(super) fn new(datagram: usize) -> Self {
        let datagram = datagram.clamp(super::LEAST_DATAGRAM, MOST_BYTES);
        Self { datagram, most: datagram * (MOST_BYTES / datagram).min(MOST_SEGMENTS) }
    }
}

impl Train {
    pub(super) fn new(gauge: Gauge) -> Self {
        Self { bytes: vec![0; gauge.most], length: 0, filled: 0, messages: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(super) fn clear(&mut self) {
        (self.length, self.filled, self.messages) = (0, 0, 0);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Datagrams in it.
    pub(super) fn count(&self, gauge: Gauge) -> usize {
        self.length.div_ceil(gauge.datagram)
    }

    /// Room for content in the datagram that is being filled; `None`: it has to be begun.
    fn room(&self, gauge: Gauge) -> Option<usize> {
        (self.filled != 0).then(|| gauge.datagram - self.filled - SEALED)
    }

    fn fill(&mut self, bytes: usize) {
        self.length += bytes;
        self.filled += bytes;
    }

    /// Ends the datagram that is being filled, with zeros up to its full size if `full`.
    fn end(&mut self, gauge: Gauge, continued: Continued, full: bool) {
        if let Some(room) = self.room(gauge) {
            if full {
                self.bytes[self.length..self.length + room].fill(0);
                self.length += room;
            }
            let trailer = Trailer {
                sent: Time::ZERO,
                position: continued.position,
                left: continued.left,
                back: continued.back,
            };
            let place = &mut self.bytes[self.length..self.length + TRAILER];
            place.copy_from_slice(&trailer.encode());
            self.length += SEALED;
            self.filled = 0;
        }
    }

    /// Seals all datagrams under the numbers from `first` on.
    pub(super) fn seal(&mut self, gauge: Gauge, key: &Key, first: u64, clear: [u8; 8], now: Time) {
        let datagrams = self.bytes[..self.length].chunks_mut(gauge.datagram);
        for (number, datagram) in (first..).zip(datagrams) {
            datagram[..8].copy_from_slice(&number.to_be_bytes());
            datagram[8..CLEAR].copy_from_slice(&clear);
            let trailer = datagram.len() - SEALED;
            Trailer::stamp(&mut datagram[trailer..trailer + TRAILER], now);
            key.seal(datagram);
        }
    }
}

/// Fills the trains to one peer.
#[derive(Debug, Default)]
pub(super) struct Filler {
    pub(super) open: Option<Train>,
    /// Of the message that the datagram being filled has begun with.
    begun: Continued,
}

impl Filler {
    /// Puts a message into the open train; those that become full are handed to `full`, which
    /// answers with an empty one.
    pub(super) fn put(
        &mut self,
        gauge: Gauge,
        message: &Message<'_>,
        mut full: impl FnMut(Option<Train>) -> Train,
    ) {
        let packet = message.headers.len() + message.payload.len();
        debug_assert!(packet <= LARGEST - RECORD - VIRTIO, "a packet is at most 64 KiB");
        let mut train = self.open.take().unwrap_or_else(|| full(None));
        if train.room(gauge).is_some_and(|room| room < RECORD + VIRTIO) {
            train.end(gauge, self.begun, true);
        }
        train.messages += 1;
        let head = message.head();
        let total = head.len() + packet;
        // Datagrams so far that hold a part of it, and what of it is in none yet.
        let (mut datagrams, mut position) = (0, 0);
        for mut part in [&head[..], message.headers, message.payload] {
            while !part.is_empty() {
                if train.room(gauge).is_none() {
                    if train.length == gauge.most {
                        train = full(Some(train));
                    }
                    let back = if position == 0 { 0 } else { datagrams };
                    let left = if position == 0 { 0 } else { total - position };
                    self.begun = Continued { position, left, back };
                    train.fill(CLEAR);
                    datagrams += 1;
                } else if datagrams == 0 {
                    datagrams = 1;
                }
                let room = train.room(gauge).unwrap_or(0).min(part.len());
                let (now, later) = part.split_at(room);
                train.bytes[train.length..train.length + room].copy_from_slice(now);
                train.fill(room);
                position += room;
                part = later;
                if train.room(gauge) == Some(0) {
                    train.end(gauge, self.begun, false);
                }
            }
        }
        self.open = Some(train);
    }

    /// The open train, ended, if there is anything in it.
    pub(super) fn take(&mut self, gauge: Gauge) -> Option<Train> {
        let mut train = self.open.take().filter(|train| !train.is_empty())?;
        train.end(gauge, self.begun, false);
        Some(train)
    }
}

/// The most datagrams that one message can be spread over fit the trailer's eight bits.
const _: () = assert!(LARGEST / (super::LEAST_DATAGRAM - CLEAR - SEALED) + 2 < 256);
/// Every datagram has room for the head of a message.
const _: () = assert!(super::LEAST_DATAGRAM > CLEAR + RECORD + VIRTIO + TRAILER + TAG);
