//! Use of the assigned rate by a flow, and the resulting demand.
//!
//! ```text
//!              waits ≥ min_wait (at once)
//!   ┌──────────────────────────────────────────┐
//!   ▼                                          │
//! no limit ── `calm` windows below `low` ──→ demand = most used · (1 + headroom)
//!              of the rate, none pressed       ▲ │ again, when it uses still less
//!                                              └─┘
//! ```
//!
//! The demand falls slowly, because a lower one only frees rate for other sessions, and rises at
//! once, because packets of the flow are queued. A flow that uses its whole demand uses 1 / (1 +
//! headroom) of its rate, which is above `low`, so it keeps its demand. A demand therefore changes
//! at most twice in `calm` windows.

use base::{Bandwidth, Time};

use super::policy::Policy;

/// Use of the rate by a flow.
#[derive(Debug)]
pub(super) struct Usage {
    /// Start of the current window; `None` while nothing is sent and nothing is to be evaluated.
    window: Option<Time>,
    /// Bytes sent in the window.
    sent: u64,
    /// Whether a packet was queued for too long in the window.
    pressed: bool,
    /// Number of consecutive windows with low use, and the maximum use in one of them, in bit/s.
    calm: u32,
    most: u64,
    /// The current demand.
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

    /// Processes an arriving packet.
    pub(super) fn stir(&mut self, now: Time) {
        self.window.get_or_insert(now);
    }

    /// Counts a sent packet.
    pub(super) fn count(&mut self, bytes: u32) {
        self.sent += u64::from(bytes);
    }

    /// Packets are queued for too long. Returns the new demand, if it changes.
    pub(super) fn press(&mut self) -> Option<Bandwidth> {
        self.pressed = true;
        (self.calm, self.most) = (0, 0);
        if self.demand == Bandwidth::MAX {
            return None;
        }
        self.demand = Bandwidth::MAX;
        Some(self.demand)
    }

    /// End of the current window.
    pub(super) fn next(&self, policy: &Policy) -> Option<Time> {
        self.window.map(|began| began + policy.window)
    }

    /// Evaluates the window that ends now. `rate` is that for data. Returns the new demand,
    /// if it changes.
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
        // The rate may not have followed a lower demand yet.
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
            // The demand cannot fall further. An idle flow only waits for its timeout.
            self.window = sent.then_some(now);
            return None;
        }
        self.demand = asked;
        Some(asked)
    }
}
