//! Datagrams at the rate that rate control assigns.

use base::{Bandwidth, Bytes, Span, Time};

/// Spaces datagrams so that they take what data may use, headers included. A change of the rate
/// counts at once, for what the last datagram still owes too.
#[derive(Debug)]
pub(super) struct Assigned {
    packet: u64,
    /// Payload that is left to send.
    remaining: u64,
    headers: u64,
    /// Payload of the datagram that waits; 0 before the first and after the last.
    waiting: u64,
    rate: Option<Bandwidth>,
    /// What sent datagrams still owe, in 10⁻⁹ bit, as of `settled`.
    debt: u128,
    settled: Time,
}

impl Assigned {
    /// A source that has no rate yet.
    pub(super) fn new(now: Time, packet: Bytes, size: Option<Bytes>, headers: u32) -> Self {
        Self {
            packet: packet.count().max(1),
            remaining: size.map_or(u64::MAX, Bytes::count),
            headers: u64::from(headers),
            waiting: 0,
            rate: None,
            debt: 0,
            settled: now,
        }
    }

    /// The next datagram: when it is due, and its payload; [`Time::MAX`] while there is no rate.
    /// The one before it has been sent, at the moment at which it was due.
    pub(super) fn next(&mut self) -> Option<(Time, u32)> {
        if self.waiting > 0 {
            (self.settled, self.debt) = (self.due(), self.owed());
        }
        self.waiting = self.remaining.min(self.packet);
        if self.waiting == 0 {
            return None;
        }
        if self.remaining < u64::MAX {
            self.remaining -= self.waiting;
        }
        Some((self.due(), self.waiting as u32))
    }

    /// Another rate from now on; when the datagram that waits is due now.
    pub(super) fn set_rate(&mut self, now: Time, rate: Option<Bandwidth>) -> Time {
        let paid = u128::from(self.rate.map_or(0, Bandwidth::bits_per_sec))
            * u128::from(now.since(self.settled).as_nanos());
        self.debt = self.debt.saturating_sub(paid);
        self.settled = now;
        self.rate = rate;
        self.due()
    }

    fn owed(&self) -> u128 {
        u128::from(self.waiting + self.headers) * 8_000_000_000
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
    fn datagrams_take_what_they_weigh() {
        let mut source = Assigned::new(at(0), Bytes::new(900), Some(Bytes::new(2_000)), 100);
        assert_eq!(source.next(), Some((Time::MAX, 900)));
        assert_eq!(source.set_rate(at(500), Some(mbits(8))), at(500));
        // 1,000 B at 8 Mbit/s.
        assert_eq!(source.next(), Some((at(1_500), 900)));
        // Half of it is paid, and the other half takes half as long.
        assert_eq!(source.set_rate(at(1_000), Some(mbits(16))), at(1_250));
        assert_eq!(source.next(), Some((at(1_750), 200)));
        assert_eq!(source.set_rate(at(1_500), None), Time::MAX);
        assert_eq!(source.set_rate(at(9_000), Some(mbits(16))), at(9_250));
        assert_eq!(source.next(), None);
    }
}
