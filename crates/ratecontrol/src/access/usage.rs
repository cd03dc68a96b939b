//! What a flow makes of its rate, and what it should ask for.
//!
//! ```text
//!              waits ≥ patience (at once)
//!   ┌──────────────────────────────────────────┐
//!   ▼                                          │
//! no limit ── `calm` windows below `low` ──→ demand = most used · (1 + headroom)
//!              of the rate, none pressed       ▲ │ again, when it uses still less
//!                                              └─┘
//! ```
//!
//! Down slowly and up at once: asking for less frees what others may want, but a flow that presses
//! has packets waiting. A flow that uses what it asked for uses 1 / (1 + headroom) of its rate,
//! which is above `low`: it keeps its demand. So demands change at most twice in `calm` windows.

use base::{Bandwidth, Time};

use super::Policy;

/// A flow's use of its rate.
#[derive(Debug)]
pub(super) struct Usage {
    /// When the present window began; `None` while nothing is sent and nothing to be judged.
    window: Option<Time>,
    /// Bytes sent in it.
    sent: u64,
    /// Whether a packet had to wait for long in it.
    pressed: bool,
    /// Windows below the rate, one after another, and the most used in one of them, in bit/s.
    calm: u32,
    most: u64,
    /// What it asks for.
    demand: Bandwidth,
}

impl Usage {
    pub(super) fn new(now: Time) -> Self {
        Self {
            window: Some(now),
            sent: 0,
            pressed: false,
            calm: 0,
            most: 0,
            demand: Bandwidth::MAX,
        }
    }

    /// A packet has come.
    pub(super) fn stir(&mut self, now: Time) {
        self.window.get_or_insert(now);
    }

    /// A packet has left.
    pub(super) fn count(&mut self, bytes: u32) {
        self.sent += u64::from(bytes);
    }

    /// Packets wait for too long. What to ask for, if that changes.
    pub(super) fn press(&mut self) -> Option<Bandwidth> {
        self.pressed = true;
        (self.calm, self.most) = (0, 0);
        if self.demand == Bandwidth::MAX {
            return None;
        }
        self.demand = Bandwidth::MAX;
        Some(self.demand)
    }

    /// When the present window ends.
    pub(super) fn next(&self, policy: &Policy) -> Option<Time> {
        self.window.map(|began| began + policy.window)
    }

    /// The window ends now. `rate` is what data may use. What to ask for, if that changes.
    pub(super) fn judge(
        &mut self,
        now: Time,
        policy: &Policy,
        rate: Option<Bandwidth>,
    ) -> Option<Bandwidth> {
        let lasted = now.since(self.window?).as_nanos().max(1);
        let bits = u128::from(self.sent) * 8_000_000_000 / u128::from(lasted);
        let used = u64::try_from(bits).unwrap_or(u64::MAX);
        let (sent, pressed) = (self.sent > 0, self.pressed);
        (self.sent, self.pressed, self.window) = (0, false, Some(now));
        // A rate that has not followed the demand yet is no measure.
        let rate = rate?.min(self.demand);
        if pressed || used >= policy.low.of(rate.bits_per_sec()) {
            (self.calm, self.most) = (0, 0);
            return None;
        }
        (self.calm, self.most) = (self.calm + 1, self.most.max(used));
        if self.calm < policy.calm {
            return None;
        }
        let asked = self.most.saturating_add(policy.headroom.of(self.most));
        let asked = Bandwidth::from_bits_per_sec(asked).max(policy.floor);
        (self.calm, self.most) = (0, 0);
        if asked >= self.demand {
            // There is nothing to give back. A silent flow is only waited for.
            self.window = sent.then_some(now);
            return None;
        }
        self.demand = asked;
        Some(asked)
    }
}
