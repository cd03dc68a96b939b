//! Packet buffers: read once, shared by all segments of a super-packet, and recycled.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Span;
use rustix::buffer::spare_capacity;
use std::os::fd::BorrowedFd;
use wire::SuperPacket;

/// Maximum size of a read: virtio and Ethernet headers, and 64 KiB of packet.
const MAX_READ_BYTES: usize = 10 + 14 + 65_536;

/// Maximum size of packets that are copied out of the read buffer, because a copy costs less than
/// the memory of the whole buffer.
const MAX_COPIED_BYTES: usize = 16_384;

/// Maximum number of read buffers kept for reuse.
const MAX_FREE_BUFFERS: usize = 256;

/// Maximum memory of all packets inside the emulation.
const MAX_HELD_BYTES: usize = 2 << 30;

#[derive(Debug, Default)]
struct Shared {
    spare: Mutex<Vec<Vec<u8>>>,
    held: AtomicUsize,
    /// See [`Buffer::waited`]; in nanoseconds.
    waited: AtomicU64,
}

/// Read buffers for reuse, and a count of the bytes in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Arc<Shared>);

/// The bytes of one packet or super-packet, from its IP header on.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    pub(super) layout: SuperPacket,
    /// IP version: 4 or 6.
    pub(super) version: u8,
    /// Upper bound of the time that the packet waited before it was time-stamped.
    pub(super) waited: Span,
    pool: Pool,
}

/// A reference to the bytes; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Body(Arc<Buffer>);

impl Pool {
    fn free_buffers(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a packet. The caller turns the returned vector into a body or gives it back.
    pub(super) fn read(&self, fd: BorrowedFd<'_>) -> rustix::io::Result<Vec<u8>> {
        let mut bytes =
            self.free_buffers().pop().unwrap_or_else(|| Vec::with_capacity(MAX_READ_BYTES));
        match rustix::io::read(fd, spare_capacity(&mut bytes)) {
            Ok(_) => Ok(bytes),
            Err(errno) => {
                self.give_back(bytes);
                Err(errno)
            }
        }
    }

    /// Recycles a read buffer that does not become a body.
    pub(super) fn give_back(&self, mut bytes: Vec<u8>) {
        let mut spare = self.free_buffers();
        if bytes.capacity() >= MAX_READ_BYTES && spare.len() < MAX_FREE_BUFFERS {
            bytes.clear();
            spare.push(bytes);
        }
    }

    /// Sets the time that the packets read from now on have waited.
    pub(super) fn set_waited(&self, waited: Span) {
        self.0.waited.store(waited.as_nanos(), Ordering::Relaxed);
    }

    /// Whether there is memory for another packet.
    pub(super) fn has_room(&self) -> bool {
        self.0.held.load(Ordering::Relaxed) < MAX_HELD_BYTES
    }

    /// Creates a body from a read buffer; the packet begins at `start`.
    pub(super) fn body(
        &self,
        bytes: Vec<u8>,
        start: usize,
        layout: SuperPacket,
        version: u8,
    ) -> Body {
        let (bytes, start) =
            if bytes.len() - start <= MAX_COPIED_BYTES && bytes.capacity() >= MAX_READ_BYTES {
                let copy = bytes[start..].to_vec();
                self.give_back(bytes);
                (copy, 0)
            } else {
                (bytes, start)
            };
        self.0.held.fetch_add(bytes.capacity(), Ordering::Relaxed);
        let waited = Span::from_nanos(self.0.waited.load(Ordering::Relaxed));
        let pool = self.clone();
        Body(Arc::new(Buffer { bytes, start, layout, version, waited, pool }))
    }
}

impl Buffer {
    pub(super) fn packet(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.0.held.fetch_sub(self.bytes.capacity(), Ordering::Relaxed);
        let bytes = std::mem::take(&mut self.bytes);
        self.pool.give_back(bytes);
    }
}

impl Body {
    /// Whether both refer to the same buffer.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Body {
    type Target = Buffer;
    fn deref(&self) -> &Buffer {
        &self.0
    }
}
