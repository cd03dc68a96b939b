//! Measures how late this host wakes a thread like the data path.

use base::{Histogram, Span, Time};
use run::effect::{HostDelays, HostEffects};
use run::stalls::Stalls;
use sys::{Error, clock, sched};

use crate::datapath::{MIN_STALL, REALTIME_PRIORITY};

/// Time between deadlines: about the time between packets at 30 Mbit/s.
const DEADLINE_INTERVAL: Span = Span::from_micros(300);

/// The effects to expect of this host, from deadlines over `duration`. A packet is affected by two
/// wake-ups: when it is read, and when it leaves.
///
/// # Errors
/// If no thread can be started.
pub fn measure(duration: Span) -> sys::Result<HostEffects> {
    let thread = std::thread::Builder::new()
        .name("timer".to_owned())
        .spawn(move || wake_ups(duration))
        .map_err(|cause| Error::Call { call: "clone", cause })?;
    let host = thread.join().unwrap_or_default();
    Ok(HostEffects::new(vec![host], duration))
}

fn wake_ups(duration: Span) -> HostDelays {
    // Both need privileges that a run may lack, too.
    let _ = sched::set_timer_slack(1);
    let _ = sched::set_fifo(REALTIME_PRIORITY);
    let (mut lateness, mut stalls) = (Histogram::new(), Stalls::default());
    let end = clock::monotonic() + duration.as_nanos();
    let mut deadline = clock::monotonic();
    while deadline < end {
        deadline = clock::monotonic() + DEADLINE_INTERVAL.as_nanos();
        std::thread::sleep(DEADLINE_INTERVAL.to_std());
        let late = clock::monotonic().saturating_sub(deadline);
        lateness.record(late);
        if late >= MIN_STALL.as_nanos() {
            stalls.record(Time::from_nanos(deadline), Time::from_nanos(deadline + late));
        }
    }
    HostDelays { ingress: lateness.clone(), lateness, stalls, ..HostDelays::default() }
}

#[cfg(test)]
mod tests {
    use run::effect::Crossings;

    use super::*;

    #[test]
    fn measures_for_the_duration() {
        let effects = measure(Span::from_millis(50)).unwrap();
        assert!(effects.added_delay(0.001, Crossings::by_kernel(1)) > 0.0);
        assert!(effects.text().starts_with("delays up to "), "{}", effects.text());
    }
}
