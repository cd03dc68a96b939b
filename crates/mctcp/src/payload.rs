//! What the stream carries: bytes on the wall clock, their number on the virtual one.

use bytes::Bytes;

/// A piece of the stream that is cheap to share and to cut.
pub trait Payload: Clone + std::fmt::Debug {
    /// Bytes of it.
    fn len(&self) -> usize;

    /// Whether it has none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cuts the first `at` bytes off and gives them. `at` is at most its length.
    #[must_use]
    fn split_to(&mut self, at: usize) -> Self;

    /// Joins what follows to it where that is cheap, or gives it back.
    #[must_use]
    fn append(&mut self, next: Self) -> Option<Self>;
}

/// Pieces up to this length are worth joining.
const SMALL: usize = 4 << 10;

impl Payload for Bytes {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn split_to(&mut self, at: usize) -> Self {
        Self::split_to(self, at)
    }

    fn append(&mut self, next: Self) -> Option<Self> {
        if self.len() + next.len() > SMALL {
            return Some(next);
        }
        let mut joined = match std::mem::take(self).try_into_mut() {
            Ok(own) => own,
            Err(shared) => bytes::BytesMut::from(&shared[..]),
        };
        joined.extend_from_slice(&next);
        *self = joined.freeze();
        None
    }
}

/// Payload of which only the number of bytes is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted(pub usize);

impl Payload for Counted {
    fn len(&self) -> usize {
        self.0
    }

    fn split_to(&mut self, at: usize) -> Self {
        self.0 -= at;
        Self(at)
    }

    fn append(&mut self, next: Self) -> Option<Self> {
        self.0 += next.0;
        None
    }
}
