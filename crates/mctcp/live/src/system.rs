//! The wall clock, and random bytes, of the operating system.

use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use base::Time;

fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

/// Time since the first call.
pub(crate) fn now() -> Time {
    let origin = origin();
    Time::from_nanos(u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
}

/// The same instant for tokio's timers.
pub(crate) fn instant(at: Time) -> tokio::time::Instant {
    (origin() + Duration::from_nanos(at.as_nanos())).into()
}

/// 32 unpredictable bytes.
///
/// # Panics
/// If the system provides none, because no key would be secure.
pub(crate) fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    let filled = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut seed));
    filled.expect("/dev/urandom can be read");
    seed
}
