//! Settings common to all protocols.

use base::{Bandwidth, Bytes, Ratio, Span};

use crate::{Error, Result};

/// Settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Share of a session's rate for its control packets (SLBN §II: about 1 %).
    pub share: Ratio,
    /// Size of a control packet on the wire.
    pub packet: Bytes,
    /// Maximum random pause before each cycle, as a share of the last cycle's duration. Without it,
    /// sessions with equal round trips can synchronise and oscillate.
    pub pause: Ratio,
    /// Seed of the pauses.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            share: Ratio::from_parts_per_billion(10_000_000),
            packet: Bytes::new(64),
            pause: Ratio::from_parts_per_billion(100_000_000),
            seed: 1,
        }
    }
}

impl Settings {
    /// Checks whether protocols can use the settings.
    pub fn check(&self) -> Result<()> {
        let parts = self.share.parts_per_billion();
        if parts == 0 || parts > 500_000_000 {
            return Err(Error::Share { share: self.share });
        }
        if !(1..=9_000).contains(&self.packet.count()) {
            return Err(Error::PacketSize { size: self.packet });
        }
        Ok(())
    }

    /// Pacing of a source's control packets.
    pub fn pace(&self) -> Pace {
        let parts = |ratio: Ratio| ratio.parts_per_billion().min(u32::MAX.into()) as u32;
        Pace {
            share: parts(self.share),
            packet: self.packet.count().min(u32::MAX.into()) as u32,
            pause: parts(self.pause),
            seed: (self.seed ^ self.seed >> 32) as u32,
        }
    }

    /// Part of `rate` that a session has left for data.
    pub fn data_rate(&self, rate: Bandwidth) -> Bandwidth {
        let control = self.share.of(rate.bits_per_sec());
        Bandwidth::from_bits_per_sec(rate.bits_per_sec() - control)
    }
}

/// Spaces a source's control packets so that they take their share of its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    // Small, because every source has one. Shares are in 10⁻⁹.
    share: u32,
    packet: u32,
    pause: u32,
    seed: u32,
}

impl Pace {
    /// Minimum time between two control packets at an assigned rate; one hour if the rate is too
    /// low to compute it. Never zero, so that time advances even if links have no delay and
    /// rates no limit.
    pub fn gap(&self, rate: Bandwidth) -> Span {
        const MAX_NANOS: u64 = 3_600_000_000_000;
        let share = Ratio::from_parts_per_billion(self.share.into());
        let budget = share.of(rate.bits_per_sec()).max(1);
        let nanos = u64::from(self.packet) * 8 * 1_000_000_000 / budget;
        Span::from_nanos(nanos.clamp(1, MAX_NANOS))
    }

    /// Pause of a session before cycle number `cycle`, after a cycle of duration `last`.
    pub fn pause(&self, session: u32, cycle: u64, last: Span) -> Span {
        let most = Ratio::from_parts_per_billion(self.pause.into()).of(last.as_nanos());
        // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a separate stream for each session.
        let key = u64::from(session).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut x = u64::from(self.seed) ^ key ^ (cycle << 32);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        Span::from_nanos(((u128::from(x) * u128::from(most)) >> 64) as u64)
    }
}
