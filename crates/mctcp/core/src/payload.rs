//! Content of the stream: bytes on the wall clock, their number on the virtual clock.

use bytes::Bytes;

/// A piece of the stream that is cheap to clone and to split.
pub trait Payload: Clone + std::fmt::Debug {
    /// Number of bytes.
    fn len(&self) -> usize;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Splits off and returns the first `at` bytes. `at` must not exceed the length.
    #[must_use]
    fn split_to(&mut self, at: usize) -> Self;

    /// Appends `next` if that is cheap; otherwise returns it.
    #[must_use]
    fn append(&mut self, next: Self) -> Option<Self>;
}

/// Maximum length of a piece that is made by appending, which copies both.
const MAX_APPENDED_BYTES: usize = 4 << 10;

impl Payload for Bytes {
    fn len(&self) -> usize {
        Self::len(self)
    }

    fn split_to(&mut self, at: usize) -> Self {
        Self::split_to(self, at)
    }

    fn append(&mut self, next: Self) -> Option<Self> {
        if self.len() + next.len() > MAX_APPENDED_BYTES {
            return Some(next);
        }
        let mut joined = match std::mem::take(self).try_into_mut() {
            Ok(unshared) => unshared,
            Err(shared) => bytes::BytesMut::from(&shared[..]),
        };
        joined.extend_from_slice(&next);
        *self = joined.freeze();
        None
    }
}

/// A payload that stores only the number of bytes.
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
