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
}

impl Payload for Bytes {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn split_to(&mut self, at: usize) -> Self {
        Self::split_to(self, at)
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
}
