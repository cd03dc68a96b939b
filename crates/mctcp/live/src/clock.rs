//! The wall clock in the time type of the session.

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
