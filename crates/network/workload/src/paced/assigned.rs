//! Datagrams at the rate that rate control assigns.

use base::{Bandwidth, Bytes, Span, Time};

/// Spaces datagrams so that they use the assigned rate, headers included. A change of the rate
/// takes effect immediately, also for the spacing after the last datagram.
#[derive(Debug)]
pub(super) struct Assigned {
    packet: u64,
    headers: u64,
    /// Whether the first datagram has been sent.
    started: bool,
    rate: Option<Bandwidth>,
    /// Remaining transmission of sent datagrams at `settled`, in 10⁻⁹ bit.
    debt: u128,
    settled: Time,
}

impl Assigned {
    pub(super) fn new(now: Time, packet: Bytes, headers: u32) -> Self {
        let (packet, headers) = (packet.count().max(1), u64::from(headers));
        Self { packet, headers, started: false, rate: None, debt: 0, settled: now }
    }

    /// Due time and payload of the next datagram; [`Time::MAX`] without a rate. The previous
    /// datagram must have been sent at its due time.
    pub(super) fn next(&mut self) -> (Time, u32) {
        if self.started {
            (self.settled, self.debt) = (self.due(), self.size());
        }
        self.started = true;
        (self.due(), self.packet as u32)
    }

    /// Changes the rate; returns the due time of the next datagram.
    pub(super) fn set_rate(&mut self, now: Time, rate: Option<Bandwidth>) -> Time {
        let paid = u128::from(self.rate.map_or(0, Bandwidth::bits_per_sec))
            * u128::from(now.since(self.settled).as_nanos());
        self.debt = self.debt.saturating_sub(paid);
        self.settled = now;
        self.rate = rate;
        self.due()
    }

    fn size(&self) -> u128 {
        u128::from(self.packet + self.headers) * 8_000_000_000
    }

    fn due(&self) -> Time {
        let Some(rate) = self.rate.filter(|rate| rate.is_positive()) else { return Time::MAX };
        let nanos = self.debt.div_ceil(u128::from(rate.bits_per_sec()));
        self.settled + Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    fn mbits(rate: u64) -> Bandwidth {
        Bandwidth::from_mbits_per_sec(rate)
    }

    #[test]
    fn spaces_datagrams_by_rate_and_wire_size() {
        let mut source = Assigned::new(at(0), Bytes::new(900), 100);
        assert_eq!(source.next(), (Time::MAX, 900));
        assert_eq!(source.set_rate(at(500), Some(mbits(8))), at(500));
        // 1,000 B at 8 Mbit/s.
        assert_eq!(source.next(), (at(1_500), 900));
        // Half of it is transmitted, and the other half takes half as long.
        assert_eq!(source.set_rate(at(1_000), Some(mbits(16))), at(1_250));
        assert_eq!(source.next(), (at(1_750), 900));
        assert_eq!(source.set_rate(at(1_500), None), Time::MAX);
        assert_eq!(source.set_rate(at(9_000), Some(mbits(16))), at(9_250));
    }
}
