//! Errors of parsing and encoding.

/// A malformed field and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input ends before the field does.
    #[error("{field} at byte {at}: {have} bytes left, {need} needed")]
    Short {
        /// Name of the field.
        field: &'static str,
        /// Offset of the field from the start of the parsed bytes.
        at: usize,
        /// Number of required bytes.
        need: usize,
        /// Number of available bytes.
        have: usize,
    },
    /// A field has an invalid value.
    #[error("{field} at byte {at}: {value} is {wrong}")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Offset of the field.
        at: usize,
        /// Value of the field.
        value: u64,
        /// Reason why the value is invalid.
        wrong: &'static str,
    },
    /// A mandatory field is missing.
    #[error("{field} is missing; the input ends at byte {at}")]
    Missing {
        /// Name of the field.
        field: &'static str,
        /// Offset at which the search ended.
        at: usize,
    },
    /// A field that may occur once is repeated.
    #[error("duplicate {field} at byte {at}")]
    Twice {
        /// Name of the field.
        field: &'static str,
        /// Offset of the duplicate.
        at: usize,
    },
    /// A value exceeds its length field.
    #[error("{field} takes {size} bytes; the maximum is {limit}")]
    Long {
        /// Name of the field.
        field: &'static str,
        /// Number of required bytes.
        size: usize,
        /// Maximum that the length field can express.
        limit: usize,
    },
}

impl Error {
    /// Offset of the error; `None` for an error of encoding.
    pub const fn at(&self) -> Option<usize> {
        match *self {
            Self::Short { at, .. }
            | Self::Value { at, .. }
            | Self::Missing { at, .. }
            | Self::Twice { at, .. } => Some(at),
            Self::Long { .. } => None,
        }
    }

    /// The same error with its offset increased by `by`, for an input within a larger one.
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
