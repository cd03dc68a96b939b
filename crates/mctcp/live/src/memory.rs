//! Memory for the pieces of all streams of this process.

use std::sync::OnceLock;

use mctcp::pool::Pool;

/// Length of the pieces into which written data are split: the default payload of a frame.
pub(crate) const PIECE: usize = 16 << 10;
/// Maximum number of unused buffers: 8 MiB.
const SPARE: usize = 512;

/// The pool of all pieces. Idle sessions hold none.
pub(crate) fn pieces() -> &'static Pool {
    static PIECES: OnceLock<Pool> = OnceLock::new();
    PIECES.get_or_init(|| Pool::new(PIECE, SPARE))
}
