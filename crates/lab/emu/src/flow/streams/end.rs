//! A socket and its unwritten bytes.

use std::os::fd::{AsFd, OwnedFd};

use sys::socket::{self, Interest};

use super::super::traffic::{CHUNK_BYTES, Scope, closed_error};

/// Received bytes discarded per call.
const DISCARD_BYTES: usize = 1 << 20;

pub(super) struct End {
    pub(super) socket: OwnedFd,
    pub(super) slot: u32,
    pub(super) unwritten: u64,
    /// Whether the event queue waits for the socket to become writable.
    pub(super) wants_room: bool,
}

impl End {
    /// Writes unwritten bytes, at most a chunk; returns the number of bytes.
    pub(super) fn write(&mut self, scope: &Scope<'_>) -> sys::Result<u64> {
        let (mut written, mut budget) = (0, CHUNK_BYTES);
        while self.unwritten > 0 && budget > 0 {
            let length = usize::try_from(self.unwritten).unwrap_or(usize::MAX).min(budget);
            let data = &scope.payload[..length];
            let Some(count) = socket::write(self.socket.as_fd(), data)? else { break };
            self.unwritten -= count as u64;
            written += count as u64;
            budget -= count;
        }
        self.wait_for_room(scope, self.unwritten > 0)?;
        Ok(written)
    }

    /// Sets whether the event queue waits for the socket to become writable.
    pub(super) fn wait_for_room(&mut self, scope: &Scope<'_>, enabled: bool) -> sys::Result<()> {
        if enabled != self.wants_room {
            self.wants_room = enabled;
            let interest = if enabled { Interest::Both } else { Interest::Read };
            scope.modify(&self.socket, self.slot, interest)?;
        }
        Ok(())
    }

    /// Discards received bytes; returns their number.
    pub(super) fn read(&self) -> sys::Result<u64> {
        let mut total = 0;
        while let Some(count) = socket::discard(self.socket.as_fd(), DISCARD_BYTES)? {
            if count == 0 {
                return Err(closed_error());
            }
            total += count as u64;
            if count < DISCARD_BYTES {
                break;
            }
        }
        Ok(total)
    }
}
