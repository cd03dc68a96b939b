//! Reassembly of messages whose parts arrive in several datagrams.

use super::format::{MAX_MESSAGE_BYTES, RECORD};

/// Max incomplete messages of one peer; a further one replaces the oldest.
const MAX_INCOMPLETE: usize = 16;

/// The incomplete messages of one peer.
#[derive(Debug, Default)]
pub(super) struct Reassembler {
    incomplete: Vec<Incomplete>,
}

#[derive(Debug)]
struct Incomplete {
    /// Number of the datagram in which it begins; at most one message continues beyond a datagram.
    key: u64,
    total: usize,
    received: usize,
    head: [u8; RECORD],
    /// The received parts after the head.
    frame: Vec<u8>,
}

/// A part of a message; the first one contains the whole head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    /// Number of the datagram in which the message begins.
    pub(super) key: u64,
    /// Offset in the message.
    pub(super) position: usize,
    pub(super) total: usize,
    pub(super) bytes: &'a [u8],
}

/// Head and frame of a message.
pub(super) type Reassembled = ([u8; RECORD], Vec<u8>);

impl Reassembler {
    /// Adds a part; the caller must not add a part twice. `spare` supplies a buffer for a message.
    /// Returns the message when it is complete.
    ///
    /// # Errors
    /// If the part does not fit its message.
    pub(super) fn add(
        &mut self,
        part: Part<'_>,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Result<Option<Reassembled>, ()> {
        let Part { key, position, total, bytes } = part;
        let end = position.checked_add(bytes.len()).ok_or(())?;
        if total > MAX_MESSAGE_BYTES || end > total || (1..RECORD).contains(&position) {
            return Err(());
        }
        let at = match self.incomplete.iter().position(|one| one.key == key) {
            Some(at) if self.incomplete[at].total == total => at,
            Some(_) => return Err(()),
            None => self.start(key, total, spare()),
        };
        let one = &mut self.incomplete[at];
        one.received += bytes.len();
        if position == 0 {
            let (head, bytes) = bytes.split_first_chunk().ok_or(())?;
            one.head = *head;
            place(&mut one.frame, 0, bytes);
        } else {
            place(&mut one.frame, position - RECORD, bytes);
        }
        if one.received < total {
            return Ok(None);
        }
        let one = self.incomplete.swap_remove(at);
        Ok(Some((one.head, one.frame)))
    }

    fn start(&mut self, key: u64, total: usize, mut frame: Vec<u8>) -> usize {
        if self.incomplete.len() == MAX_INCOMPLETE {
            let oldest = (0..MAX_INCOMPLETE).min_by_key(|at| self.incomplete[*at].key).unwrap_or(0);
            self.incomplete.swap_remove(oldest);
        }
        frame.reserve(total);
        self.incomplete.push(Incomplete { key, total, received: 0, head: [0; RECORD], frame });
        self.incomplete.len() - 1
    }

    pub(super) fn clear(&mut self) {
        self.incomplete.clear();
    }
}

/// Copies bytes to their offset. Earlier bytes may still be missing.
fn place(frame: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if at < frame.len() {
        let end = frame.len().max(at + bytes.len());
        frame.resize(end, 0);
        frame[at..at + bytes.len()].copy_from_slice(bytes);
    } else {
        frame.resize(at, 0);
        frame.extend_from_slice(bytes);
    }
}
