//! Trains: consecutive datagrams of equal size, sent by one system call.

use base::Time;

use super::format::{
    CLEAR, MAX_MESSAGE_BYTES, MIN_DATAGRAM_BYTES, Message, RECORD, SEALED, TAG, TRAILER, Trailer,
    VIRTIO,
};
use super::seal::Key;

/// Max datagrams of one send call (`UDP_MAX_SEGMENTS` before Linux 6.9).
const MAX_SEGMENTS: usize = 64;

/// Max bytes of one send call: the max UDP payload over IPv4.
const MAX_TRAIN_BYTES: usize = 65_507;

/// Datagrams that are being filled, or sealed and about to be sent.
#[derive(Debug)]
pub(super) struct Train {
    /// As long as the longest train; the first `length` bytes are in use.
    bytes: Vec<u8>,
    length: usize,
    /// Bytes of the current datagram; 0 if none has been started.
    filled: usize,
    pub(super) messages: u64,
}

/// The state of a message that continues in the next datagram.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Continued {
    /// Bytes in earlier datagrams.
    position: usize,
    /// Bytes in later datagrams.
    left: usize,
    /// Earlier datagrams with a part of it.
    back: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) datagram: usize,
    pub(super) train: usize,
}

impl Sizes {
    pub(super) fn new(datagram: usize) -> Self {
        let datagram = datagram.clamp(MIN_DATAGRAM_BYTES, MAX_TRAIN_BYTES);
        Self { datagram, train: datagram * (MAX_TRAIN_BYTES / datagram).min(MAX_SEGMENTS) }
    }
}

impl Train {
    pub(super) fn new(sizes: Sizes) -> Self {
        Self { bytes: vec![0; sizes.train], length: 0, filled: 0, messages: 0 }
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

    pub(super) fn count(&self, sizes: Sizes) -> usize {
        self.length.div_ceil(sizes.datagram)
    }

    /// Room for content in the current datagram; `None` if none has been started.
    fn room(&self, sizes: Sizes) -> Option<usize> {
        (self.filled != 0).then(|| sizes.datagram - self.filled - SEALED)
    }

    fn fill(&mut self, bytes: usize) {
        self.length += bytes;
        self.filled += bytes;
    }

    /// Ends the current datagram; `full` fills it with zeros up to its full size.
    fn end(&mut self, sizes: Sizes, continued: Continued, full: bool) {
        if let Some(room) = self.room(sizes) {
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

    /// Seals all datagrams with sequence numbers from `first` on.
    pub(super) fn seal(&mut self, sizes: Sizes, key: &Key, first: u64, clear: [u8; 8], now: Time) {
        let datagrams = self.bytes[..self.length].chunks_mut(sizes.datagram);
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
    /// The message with which the current datagram begins.
    first_message: Continued,
}

impl Filler {
    /// Adds a message to the open train. `full` receives full trains and returns an empty one.
    pub(super) fn put(
        &mut self,
        sizes: Sizes,
        message: &Message<'_>,
        mut full: impl FnMut(Option<Train>) -> Train,
    ) {
        let packet = message.headers.len() + message.payload.len();
        debug_assert!(packet <= MAX_MESSAGE_BYTES - RECORD - VIRTIO, "a packet is at most 64 KiB");
        let mut train = self.open.take().unwrap_or_else(|| full(None));
        if train.room(sizes).is_some_and(|room| room < RECORD + VIRTIO) {
            train.end(sizes, self.first_message, true);
        }
        train.messages += 1;
        let head = message.head();
        let total = head.len() + packet;
        // Datagrams with a part of the message so far, and the bytes in them.
        let (mut datagrams, mut position) = (0, 0);
        for mut part in [&head[..], message.headers, message.payload] {
            while !part.is_empty() {
                if train.room(sizes).is_none() {
                    if train.length == sizes.train {
                        train = full(Some(train));
                    }
                    let back = if position == 0 { 0 } else { datagrams };
                    let left = if position == 0 { 0 } else { total - position };
                    self.first_message = Continued { position, left, back };
                    train.fill(CLEAR);
                    datagrams += 1;
                } else if datagrams == 0 {
                    datagrams = 1;
                }
                let room = train.room(sizes).unwrap_or(0).min(part.len());
                let (now, later) = part.split_at(room);
                train.bytes[train.length..train.length + room].copy_from_slice(now);
                train.fill(room);
                position += room;
                part = later;
                if train.room(sizes) == Some(0) {
                    train.end(sizes, self.first_message, false);
                }
            }
        }
        self.open = Some(train);
    }

    /// Ends and returns the open train, unless it is empty.
    pub(super) fn take(&mut self, sizes: Sizes) -> Option<Train> {
        let mut train = self.open.take().filter(|train| !train.is_empty())?;
        train.end(sizes, self.first_message, false);
        Some(train)
    }
}

// The max number of datagrams of one message fits the trailer's eight bits.
const _: () = assert!(MAX_MESSAGE_BYTES / (MIN_DATAGRAM_BYTES - CLEAR - SEALED) + 2 < 256);
// Every datagram has room for the head of a message.
const _: () = assert!(MIN_DATAGRAM_BYTES > CLEAR + RECORD + VIRTIO + TRAILER + TAG);
