//! Memory for pieces of all streams of the process.

use std::sync::OnceLock;

use mctcp::pool::Pool;

/// Length of the pieces that what is written is cut into: a frame's payload by default.
pub(crate) const PIECE: usize = 16 << 10;
/// Buffers that are kept while nobody uses them: 8 MiB.
const SPARE: usize = 512;

/// Where pieces come from and go back to. Sessions that are idle keep nothing.
pub(crate) fn pieces() -> &'static Pool {
    static PIECES: OnceLock<Pool> = OnceLock::new();
    PIECES.get_or_init(|| Pool::new(PIECE, SPARE))
}
