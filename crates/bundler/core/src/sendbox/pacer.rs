//! Paces packets to a rate.

use base::{Bandwidth, Bytes, Span, Time};

/// Burst after an idle time: the packets of this time at the rate, and at least two full packets.
const BURST: Span = Span::from_millis(1);
const FULL_PACKETS: Bytes = Bytes::new(3076);

/// A token bucket stored as a deadline: a packet may leave at the end of the transmission time of
/// the earlier packets at the rate.
#[derive(Debug, Default)]
pub(super) struct Pacer {
    rate: Option<Bandwidth>,
    /// End of that time.
    busy_until: Time,
}

impl Pacer {
    /// `None`: no limit.
    pub(super) fn set_rate(&mut self, now: Time, rate: Option<Bandwidth>) {
        if rate == self.rate {
            return;
        }
        if let (Some(new), Some(old)) = (rate, self.rate)
            && self.busy_until > now
        {
            let remaining = old.bytes_in(self.busy_until.since(now));
            self.busy_until = now + new.time_for(remaining);
        }
        self.rate = rate;
    }

    pub(super) fn rate(&self) -> Option<Bandwidth> {
        self.rate
    }

    /// Time at which the next packet may leave.
    pub(super) fn ready_at(&self) -> Time {
        if self.rate.is_some() { self.busy_until } else { Time::ZERO }
    }

    /// Accounts for a sent packet of `size`.
    pub(super) fn leave(&mut self, now: Time, size: u32) {
        let Some(rate) = self.rate else { return };
        let burst = BURST.max(rate.time_for(FULL_PACKETS));
        let from =
            self.busy_until.max(Time::from_nanos(now.as_nanos().saturating_sub(burst.as_nanos())));
        self.busy_until = from + rate.time_for(Bytes::new(u64::from(size)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_run_rate_and_bounded_bursts() {
        let mut pacer = Pacer::default();
        pacer.set_rate(Time::ZERO, Some(Bandwidth::from_mbits_per_sec(12)));
        let start = Time::ZERO + Span::from_secs(1);
        let mut now = start;
        let mut first_ms = 0;
        for _ in 0..1000 {
            now = now.max(pacer.ready_at());
            pacer.leave(now, 1500);
            first_ms += u32::from(now.since(start) < Span::from_millis(1));
        }
        // One packet per millisecond, except for the burst of two packets.
        let took = now.since(start);
        assert!(took > Span::from_millis(990) && took <= Span::from_millis(999), "{took:?}");
        assert!(first_ms <= 4, "{first_ms}");
    }

    #[test]
    fn a_new_rate_applies_to_the_remaining_time() {
        let mut pacer = Pacer::default();
        let now = Time::ZERO + Span::from_secs(1);
        pacer.set_rate(now, Some(Bandwidth::from_mbits_per_sec(1)));
        pacer.leave(now, 60_000);
        let before = pacer.ready_at().since(now);
        pacer.set_rate(now, Some(Bandwidth::from_mbits_per_sec(10)));
        let after = pacer.ready_at().since(now);
        assert!(after.as_nanos().abs_diff(before.as_nanos() / 10) < 1000, "{before:?} {after:?}");
    }
}
