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
