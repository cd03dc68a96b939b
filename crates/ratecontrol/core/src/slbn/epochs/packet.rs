//! Control packets.

use base::Time;

/// A session's state in its packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Time at which the source sent it; unique within a session.
    pub(super) sent: Time,
    /// bw″: the rate of the cycle before the last.
    pub(super) older: u64,
    /// bw′: the rate of the last cycle, which is in the sums of links that do not
    /// limit the session.
    pub(super) last: u64,
    /// bw: the rate of this cycle so far.
    pub(super) rate: u64,
    /// B: one bit for each hop that limits the session.
    pub(super) limits: u64,
    /// Three bits for each hop, one in each word: 0 is nothing, otherwise an epoch's number plus 1.
    pub(super) stamps: [u64; 3],
    /// b: the hop that limited the session last, or [`Packet::SOURCE`].
    pub(super) limit: u8,
    pub(super) leaves: bool,
}

impl Packet {
    /// Value of [`Packet::limit`]: the session's own demand.
    pub(super) const SOURCE: u8 = u8::MAX;
    /// Stamps are numbers below this.
    pub(super) const NUMBERS: u8 = 7;

    /// The packet of a session that no link has counted.
    pub(super) fn joining(demand: u64) -> Self {
        Self {
            sent: Time::default(),
            older: 0,
            last: 0,
            rate: demand,
            limits: 0,
            stamps: [0; 3],
            limit: Self::SOURCE,
            leaves: false,
        }
    }

    /// Whether the hop limits the session.
    pub(super) fn is_limited_at(&self, hop: u8) -> bool {
        self.limits >> hop & 1 == 1
    }

    pub(super) fn set_limited_at(&mut self, hop: u8, limited: bool) {
        self.limits = self.limits & !(1 << hop) | u64::from(limited) << hop;
    }

    /// Number of the epoch whose count at this hop contains the session.
    pub(super) fn stamp(&self, hop: u8) -> Option<u8> {
        let [low, middle, high] = self.stamps.map(|word| (word >> hop & 1) as u8);
        (low | middle << 1 | high << 2).checked_sub(1)
    }

    pub(super) fn set_stamp(&mut self, hop: u8, stamp: Option<u8>) {
        let code = stamp.map_or(0, |number| number % Self::NUMBERS + 1);
        for (bit, word) in self.stamps.iter_mut().enumerate() {
            *word = *word & !(1 << hop) | u64::from(code >> bit & 1) << hop;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::MAX_HOPS;
    use super::*;

    #[test]
    fn hops_keep_their_bits_apart() {
        let mut packet = Packet::joining(1);
        for hop in 0..MAX_HOPS {
            assert_eq!((packet.stamp(hop), packet.is_limited_at(hop)), (None, false));
            packet.set_stamp(hop, Some(hop % 7));
            packet.set_limited_at(hop, hop % 3 == 0);
        }
        packet.set_stamp(13, None);
        packet.set_limited_at(9, false);
        for hop in 0..MAX_HOPS {
            assert_eq!(packet.stamp(hop), (hop != 13).then_some(hop % 7));
            assert_eq!(packet.is_limited_at(hop), hop % 3 == 0 && hop != 9);
        }
    }
}
