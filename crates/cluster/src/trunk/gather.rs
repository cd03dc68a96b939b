//! Messages of which the parts come apart.

use super::{LARGEST, RECORD};

/// Messages of one peer that may be incomplete at a time; the oldest makes room.
const MOST: usize = 16;

/// Messages that wait for parts.
#[derive(Debug, Default)]
pub(super) struct Gatherer {
    waiting: Vec<Incomplete>,
}

#[derive(Debug)]
struct Incomplete {
    /// Number of the datagram that it begins in; at most one goes on from each.
    key: u64,
    total: usize,
    have: usize,
    head: [u8; RECORD],
    /// What follows the head, as far as it has come.
    frame: Vec<u8>,
}

/// A part of a message; the first has all of its head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    /// Number of the datagram that the message begins in.
    pub(super) key: u64,
    /// Where in the message.
    pub(super) position: usize,
    /// The length of the message.
    pub(super) total: usize,
    pub(super) bytes: &'a [u8],
}

/// Head and frame of a message.
pub(super) type Gathered = ([u8; RECORD], Vec<u8>);

impl Gatherer {
    /// Adds a part, each part once; `spare` gives memory for a message. The whole message, head
    /// and frame, if this was what it lacked.
    ///
    /// # Errors
    /// If it is no part of such a message.
    pub(super) fn add(
        &mut self,
        part: Part<'_>,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Result<Option<Gathered>, ()> {
        let Part { key, position, total, bytes } = part;
        let end = position.checked_add(bytes.len()).ok_or(())?;
        if total > LARGEST || end > total || (1..RECORD).contains(&position) {
            return Err(());
        }
        let at = match self.waiting.iter().position(|one| one.key == key) {
            Some(at) if self.waiting[at].total == total => at,
            Some(_) => return Err(()),
            None => self.begin(key, total, spare()),
        };
        let one = &mut self.waiting[at];
        one.have += bytes.len();
        if position == 0 {
            let (head, bytes) = bytes.split_first_chunk().ok_or(())?;
            one.head = *head;
            place(&mut one.frame, 0, bytes);
        } else {
            place(&mut one.frame, position - RECORD, bytes);
        }
        if one.have < total {
            return Ok(None);
        }
        let one = self.waiting.swap_remove(at);
        Ok(Some((one.head, one.frame)))
    }

    fn begin(&mut self, key: u64, total: usize, mut frame: Vec<u8>) -> usize {
        if self.waiting.len() == MOST {
            let oldest = (0..MOST).min_by_key(|at| self.waiting[*at].key).unwrap_or(0);
            self.waiting.swap_remove(oldest);
        }
        frame.reserve(total);
        self.waiting.push(Incomplete { key, total, have: 0, head: [0; RECORD], frame });
        self.waiting.len() - 1
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

/// Puts bytes where they belong; what should come before them may be missing still.
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
