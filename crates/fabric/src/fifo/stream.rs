//! A session's data at its source: what it has to send, and when the next packet leaves.

/// No packet is planned.
pub(super) const NEVER: u64 = u64::MAX;

/// Sends packets of one size, or a fluid, at a rate that changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Bit/s.
    pub(super) rate: u64,
    /// When the next packet leaves, or a fluid has been sent; [`NEVER`] while nothing is planned.
    pub(super) next: u64,
    /// While it runs, what division left over of the last spacing, in units of 1/rate ns. While it
    /// pauses, what was to be waited for at the next packet, in 10⁻⁹ bit.
    rest: u64,
    /// What is left to be sent: packets, or bits of a fluid. [`u64::MAX`] for no end.
    pub(super) left: u64,
    /// Where the list of all paths has its first link.
    pub(super) place: u32,
    /// What that list has behind it.
    pub(super) second: u32,
}

/// For ever.
pub(super) const ENDLESS: u64 = u64::MAX;

impl Stream {
    pub(super) const fn new(place: u32, second: u32) -> Self {
        Self { rate: 0, next: NEVER, rest: 0, left: ENDLESS, place, second }
    }

    /// Sends packets of `bits` at `rate` from `now` on; tells whether [`Stream::next`] is another.
    pub(super) fn pace(&mut self, now: u64, rate: u64) -> bool {
        if rate == self.rate || self.left == 0 {
            return false;
        }
        if self.rate > 0 {
            // What the packet in hand still has to wait for is less than its size.
            let owed = u128::from(self.next.saturating_sub(now)) * u128::from(self.rate);
            self.rest = u64::try_from(owed).unwrap_or(u64::MAX);
        }
        self.rate = rate;
        if rate == 0 {
            self.next = NEVER;
            return false;
        }
        self.next = now + self.rest.div_ceil(rate);
        self.rest = 0;
        true
    }

    /// A packet of `bits` has left at [`Stream::next`]; plans the one after it. Tells whether it
    /// was the last.
    pub(super) fn sent(&mut self, bits: u64) -> bool {
        if self.left != ENDLESS {
            self.left -= 1;
            if self.left == 0 {
                self.next = NEVER;
                return true;
            }
        }
        let work = u128::from(bits) * 1_000_000_000 + u128::from(self.rest);
        let rate = u128::from(self.rate.max(1));
        // Time has no shorter steps.
        self.next += ((work / rate) as u64).max(1);
        self.rest = (work % rate) as u64;
        false
    }

    /// Bits of a fluid that are left at `now`, where they were last counted at `since`.
    pub(super) fn left_at(&self, now: u64, since: u64) -> u64 {
        let sent = u128::from(now.saturating_sub(since)) * u128::from(self.rate);
        self.left.saturating_sub((sent / 1_000_000_000) as u64)
    }

    /// Flows at `rate` from `now` on; tells by how much the rate has changed.
    pub(super) fn flow(&mut self, now: u64, rate: u64, since: &mut u64) -> i64 {
        if self.left == 0 {
            return 0;
        }
        if self.left != ENDLESS {
            let span = u128::from(now.saturating_sub(*since));
            let sent = span * u128::from(self.rate) + u128::from(self.rest);
            // It ends by its timer, not here: one bit stays.
            self.left = self.left.saturating_sub((sent / 1_000_000_000) as u64).max(1);
            self.rest = (sent % 1_000_000_000) as u64;
        }
        *since = now;
        let delta = rate.wrapping_sub(self.rate) as i64;
        self.rate = rate;
        self.next = if rate == 0 || self.left == ENDLESS {
            NEVER
        } else {
            let work = u128::from(self.left) * 1_000_000_000 - u128::from(self.rest);
            let nanos = u64::try_from(work.div_ceil(u128::from(rate))).unwrap_or(NEVER);
            // Beyond all runs it need not be planned.
            now.saturating_add(nanos)
        };
        delta
    }
}
