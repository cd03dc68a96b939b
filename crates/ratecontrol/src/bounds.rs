//! What rates, capacities and paths the protocols take.

use base::Bandwidth;

use crate::{Error, Result};

/// The highest capacity and demand, bit/s: 256 of them fit 64 bits. Stands for no limit too.
pub const MOST_RATE: u64 = 1 << 56;

/// A link's capacity, bit/s.
pub(crate) fn capacity(capacity: Bandwidth) -> Result<u64> {
    match capacity.bits_per_sec() {
        bits @ 1..=MOST_RATE => Ok(bits),
        _ => Err(Error::Capacity { capacity }),
    }
}

/// A session's demand, bit/s; what is above [`MOST_RATE`] is as good as no limit.
pub(crate) fn demand(demand: Bandwidth) -> Result<u64> {
    match demand.bits_per_sec() {
        0 => Err(Error::Demand { demand }),
        bits => Ok(bits.min(MOST_RATE)),
    }
}

/// Whether a path has links at all.
pub(crate) fn hops(hops: u8) -> Result<()> {
    if hops == 0 {
        return Err(Error::Path { hops: 0, most: usize::from(u8::MAX) });
    }
    Ok(())
}
