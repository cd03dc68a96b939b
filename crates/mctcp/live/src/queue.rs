//! Frames queued for a socket: many are written at once, without copies of the payload.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};
use mctcp::Frame;

/// Maximum number of slices per write.
const MAX_SLICES: usize = 64;

/// A queued frame: the number of unwritten bytes before the payload, and the unwritten payload.
#[derive(Debug)]
struct Entry {
    header: usize,
    payload: Bytes,
}

/// Data of a subflow that its socket has not accepted yet.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Concatenated headers of all entries, including those that were written.
    headers: Vec<u8>,
    /// Offset of the unwritten part of the first entry's header.
    at: usize,
    entries: VecDeque<Entry>,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Queues bytes before the first frame.
    pub(crate) fn push_raw(&mut self, bytes: &[u8]) {
        self.headers.extend_from_slice(bytes);
        self.entries.push_back(Entry { header: bytes.len(), payload: Bytes::new() });
    }

    /// Queues the next frame of the connection.
    pub(crate) fn push(&mut self, path_seq: u32, frame: Frame<Bytes>) {
        let before = self.headers.len();
        frame.encode_header(path_seq, &mut self.headers);
        let header = self.headers.len() - before;
        match frame {
            Frame::Data { payload, .. } => self.entries.push_back(Entry { header, payload }),
            _ => match self.entries.back_mut() {
                Some(last) if last.payload.is_empty() => last.header += header,
                _ => self.entries.push_back(Entry { header, payload: Bytes::new() }),
            },
        }
    }

    /// Fills `slices` with the next bytes to write; returns their number.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; MAX_SLICES]) -> usize {
        let (mut count, mut at) = (0, self.at);
        for entry in &self.entries {
            if count + 2 > MAX_SLICES {
                break;
            }
            if entry.header > 0 {
                slices[count] = IoSlice::new(&self.headers[at..at + entry.header]);
                at += entry.header;
                count += 1;
            }
            if !entry.payload.is_empty() {
                slices[count] = IoSlice::new(&entry.payload);
                count += 1;
            }
        }
        count
    }

    /// Writes with `write` as long as it accepts bytes. Any other result ends it.
    pub(crate) fn write<E>(
        &mut self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> Result<usize, E>,
    ) -> Result<(), E> {
        while !self.is_empty() {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let count = self.slices(&mut slices);
            let written = write(&slices[..count])?;
            self.advance(written);
        }
        Ok(())
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let Some(entry) = self.entries.front_mut() else { break };
            let header = count.min(entry.header);
            entry.header -= header;
            self.at += header;
            count -= header;
            let payload = count.min(entry.payload.len());
            entry.payload.advance(payload);
            count -= payload;
            if entry.header > 0 || !entry.payload.is_empty() {
                break;
            }
            self.entries.pop_front();
        }
        if self.entries.is_empty() {
            self.headers.clear();
            self.at = 0;
        } else if self.at > 64 << 10 {
            self.headers.drain(..self.at);
            self.at = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use mctcp::frame::Copy;

    use super::*;

    /// Writes the whole queue, at most `max_bytes` bytes at a time.
    fn written(queue: &mut Queue, max_bytes: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let done: Result<(), ()> = queue.write(|slices| {
            let mut left = max_bytes;
            for slice in slices {
                let part = left.min(slice.len());
                out.extend_from_slice(&slice[..part]);
                left -= part;
            }
            Ok(max_bytes - left)
        });
        done.unwrap();
        out
    }

    fn filled() -> Queue {
        let mut queue = Queue::default();
        queue.push_raw(b"start");
        for number in 0..100_u32 {
            queue.push(2 * number, Frame::Ping(u64::from(number)));
            let payload = Bytes::from(vec![number as u8; 37]);
            let data = Frame::Data { dsn: 37 * u64::from(number), payload, copy: Copy::First };
            queue.push(2 * number + 1, data);
        }
        queue
    }

    #[test]
    fn partial_writes_preserve_all_bytes() {
        let whole = written(&mut filled(), usize::MAX);
        assert_eq!(whole.len(), 5 + 100 * (16 + 16 + 37));
        for max_bytes in [1, 7, 16, 36, 1000] {
            let mut queue = filled();
            assert_eq!(written(&mut queue, max_bytes), whole, "{max_bytes} at a time");
            assert!(queue.is_empty());
        }
    }
}
