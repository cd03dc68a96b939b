//! The clock and the random numbers of the kernel.

use std::io::Read as _;

use base::Time;

use crate::{Error, Result};

/// The monotonic clock.
pub(crate) fn now() -> Time {
    Time::from_nanos(sys::clock::monotonic())
}

pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Error::file("read", "/dev/urandom"))?;
    Ok(bytes)
}
