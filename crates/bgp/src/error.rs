//! Why bytes are not what they should be.

/// What is wrong with bytes from a wire or a file, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes end before the field does.
    #[error("{field} at byte {at}: {have} bytes left, {need} needed")]
    Short {
        /// The field.
        field: &'static str,
        /// Where it begins, from the start of what was parsed.
        at: usize,
        /// Bytes that it needs.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// A field has a value that it may not have.
    #[error("{field} at byte {at}: {value} is {wrong}")]
    Value {
        /// The field.
        field: &'static str,
        /// Where it is.
        at: usize,
        /// What it says.
        value: u64,
        /// What is wrong with that, and what would be right.
        wrong: &'static str,
    },
    /// Something that must be there is not.
    #[error("{field} is missing; all there is ends at byte {at}")]
    Missing {
        /// What it is.
        field: &'static str,
        /// Where it was looked for last.
        at: usize,
    },
    /// Something that may be there once is there again.
    #[error("{field} at byte {at}: it was there before")]
    Twice {
        /// What it is.
        field: &'static str,
        /// Where it is again.
        at: usize,
    },
    /// Something does not fit into its length field.
    #[error("{field} takes {size} bytes, {limit} fit")]
    Long {
        /// The field.
        field: &'static str,
        /// Bytes that it would take.
        size: usize,
        /// Bytes that its length field can tell.
        limit: usize,
    },
}

impl Error {
    /// Where it went wrong; `None` for what was to be written.
    pub const fn at(&self) -> Option<usize> {
        match *self {
            Self::Short { at, .. }
            | Self::Value { at, .. }
            | Self::Missing { at, .. }
            | Self::Twice { at, .. } => Some(at),
            Self::Long { .. } => None,
        }
    }

    /// The same of bytes that begin at byte `by` of something larger.
    #[must_use]
    pub fn behind(mut self, by: usize) -> Self {
        match &mut self {
            Self::Short { at, .. }
            | Self::Value { at, .. }
            | Self::Missing { at, .. }
            | Self::Twice { at, .. } => *at += by,
            Self::Long { .. } => {}
        }
        self
    }
}
