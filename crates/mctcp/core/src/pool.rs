//! Buffers that are reused: pieces of a stream have about the same length, and tens of thousands
//! are allocated and freed per second, by several threads.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// A pool of unused buffers of one length.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    length: usize,
    max_unused: usize,
    free: Mutex<Vec<Box<[u8]>>>,
}

/// Memory for one piece: fill it, then [freeze](Self::freeze) it.
#[derive(Debug)]
pub struct Buffer {
    bytes: Box<[u8]>,
    length: usize,
    /// Pool to which the memory returns.
    pool: Option<Pool>,
}

impl Pool {
    /// A pool of buffers of `length` bytes that keeps at most `max_unused` unused ones.
    pub fn new(length: usize, max_unused: usize) -> Self {
        Self(Arc::new(Shared { length, max_unused, free: Mutex::new(Vec::new()) }))
    }

    /// A buffer of `length` bytes with arbitrary content. It is allocated separately if it would
    /// waste more than an eighth of a pool's buffer.
    pub fn take(&self, length: usize) -> Buffer {
        if length > self.0.length || length < self.0.length / 8 * 7 {
            return Buffer { bytes: vec![0; length].into(), length, pool: None };
        }
        let unused = self.0.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bytes = unused.unwrap_or_else(|| vec![0; self.0.length].into());
        Buffer { bytes, length, pool: Some(self.clone()) }
    }
}

impl Buffer {
    /// Length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The whole buffer.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }

    /// Converts the buffer to a piece of a stream; its memory returns to the pool after
    /// the last use.
    pub fn freeze(mut self) -> Bytes {
        if self.pool.is_some() {
            Bytes::from_owner(self)
        } else {
            std::mem::take(&mut self.bytes).into()
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(pool) = &self.pool else { return };
        let mut free = pool.0.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < pool.0.max_unused {
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_freed_buffers_up_to_a_limit() {
        let pool = Pool::new(1000, 2);
        let pieces: Vec<Bytes> = (0..5).map(|_| pool.take(1000).freeze()).collect();
        let mut part = pieces[0].slice(1..3);
        drop(pieces);
        assert_eq!(pool.0.free.lock().unwrap().len(), 2, "one is still in use");
        part.clear();
        drop(part);
        assert_eq!(pool.0.free.lock().unwrap().len(), 2);
        let _taken = pool.take(900);
        assert_eq!(pool.0.free.lock().unwrap().len(), 1);
    }

    #[test]
    fn allocates_small_and_large_pieces_separately() {
        let pool = Pool::new(1000, 2);
        assert_eq!(pool.take(10).bytes.len(), 10);
        assert_eq!(pool.take(2000).bytes_mut().len(), 2000);
        assert_eq!(pool.take(900).freeze().len(), 900);
    }
}
