//! Packet bytes: read once, shared by all segments cut from them, recycled.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use rustix::buffer::spare_capacity;
use std::os::fd::BorrowedFd;
use wire::SuperPacket;

/// The largest read: virtio and Ethernet headers and 64 KiB of packet.
const LARGEST: usize = 10 + 14 + 65_536;

/// Packets up to this size are copied out of the read buffer; it costs less than its memory.
const COPIED: usize = 16_384;

/// Read buffers kept for reuse.
const KEPT: usize = 256;

/// Bytes that all packets inside the emulation may hold together.
const MEMORY: usize = 2 << 30;

#[derive(Debug, Default)]
struct Shared {
    spare: RefCell<Vec<Vec<u8>>>,
    held: Cell<usize>,
}

/// Where buffers come from and go back to.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Rc<Shared>);

/// The bytes of one packet or super-packet, from its IP header on.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    /// How the bytes are laid out.
    pub(super) layout: SuperPacket,
    /// 4 or 6.
    pub(super) version: u8,
    pool: Pool,
}

/// A handle on the bytes; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Body(Rc<Buffer>);

impl Pool {
    /// Reads once. The bytes stay in the returned vector until it becomes a body or is given back.
    pub(super) fn read(&self, fd: BorrowedFd<'_>) -> rustix::io::Result<Vec<u8>> {
        let mut bytes =
            self.0.spare.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(LARGEST));
        match rustix::io::read(fd, spare_capacity(&mut bytes)) {
            Ok(_) => Ok(bytes),
            Err(errno) => {
                self.give_back(bytes);
                Err(errno)
            }
        }
    }

    /// Takes back a read that does not become a body.
    pub(super) fn give_back(&self, mut bytes: Vec<u8>) {
        let mut spare = self.0.spare.borrow_mut();
        if bytes.capacity() >= LARGEST && spare.len() < KEPT {
            bytes.clear();
            spare.push(bytes);
        }
    }

    /// Whether packets may take more memory.
    pub(super) fn has_room(&self) -> bool {
        self.0.held.get() < MEMORY
    }

    /// Makes a body of what was read; the packet begins at `start`.
    pub(super) fn body(
        &self,
        bytes: Vec<u8>,
        start: usize,
        layout: SuperPacket,
        version: u8,
    ) -> Body {
        let (bytes, start) = if bytes.len() - start <= COPIED && bytes.capacity() >= LARGEST {
            let copy = bytes[start..].to_vec();
            self.give_back(bytes);
            (copy, 0)
        } else {
            (bytes, start)
        };
        self.0.held.set(self.0.held.get() + bytes.capacity());
        Body(Rc::new(Buffer { bytes, start, layout, version, pool: self.clone() }))
    }
}

impl Buffer {
    /// The packet.
    pub(super) fn packet(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let held = &self.pool.0.held;
        held.set(held.get() - self.bytes.capacity());
        let bytes = std::mem::take(&mut self.bytes);
        self.pool.give_back(bytes);
    }
}

impl Body {
    /// Whether both are the same bytes in memory.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Body {
    type Target = Buffer;
    fn deref(&self) -> &Buffer {
        &self.0
    }
}
