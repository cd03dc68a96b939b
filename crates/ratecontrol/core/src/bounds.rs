//! Valid rates, capacities and paths.

use base::Bandwidth;

use crate::{Error, Result};

/// Maximum capacity and demand in bit/s: the sum of 256 of them fits in 64 bits. Also
/// means no limit.
pub const MAX_RATE: u64 = 1 << 56;

/// Checks a link's capacity; returns it in bit/s.
pub(crate) fn capacity(capacity: Bandwidth) -> Result<u64> {
    match capacity.bits_per_sec() {
        bits @ 1..=MAX_RATE => Ok(bits),
        _ => Err(Error::Capacity { capacity }),
    }
}

/// Checks a session's demand; returns it in bit/s. A demand above [`MAX_RATE`] means no limit.
pub(crate) fn demand(demand: Bandwidth) -> Result<u64> {
    match demand.bits_per_sec() {
        0 => Err(Error::Demand { demand }),
        bits => Ok(bits.min(MAX_RATE)),
    }
}

/// Checks that a path has links.
pub(crate) fn hops(hops: u8) -> Result<()> {
    if hops == 0 {
        return Err(Error::Path { hops: 0, most: usize::from(u8::MAX) });
    }
    Ok(())
}
