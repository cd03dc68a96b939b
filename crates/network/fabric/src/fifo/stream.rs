//! A session's data at its source: the remaining amount, and the time of the next packet.

/// No packet is planned.
pub(super) const NEVER: u64 = u64::MAX;

/// Sends packets of one size, or a fluid, at a variable rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// bit/s.
    pub(super) rate: u64,
    /// Time of the next packet, or of the end of a fluid; [`NEVER`] if nothing is planned.
    pub(super) next: u64,
    /// While it runs, the remainder of the last spacing's division, in units of 1/rate ns. While it
    /// pauses, the remaining spacing before the next packet, in 10⁻⁹ bit.
    rest: u64,
    /// Remaining amount: packets, or bits of a fluid. [`u64::MAX`] without an end.
    pub(super) left: u64,
    /// Index of its first link in the list of all paths.
    pub(super) place: u32,
    /// The entry after it in that list.
    pub(super) second: u32,
}

/// An amount without an end.
pub(super) const ENDLESS: u64 = u64::MAX;

impl Stream {
    pub(super) const fn new(place: u32, second: u32) -> Self {
        Self { rate: 0, next: NEVER, rest: 0, left: ENDLESS, place, second }
    }

    /// Sends packets of `bits` at `rate` from `now` on; returns whether
    /// [`Stream::next`] has changed.
    pub(super) fn pace(&mut self, now: u64, rate: u64) -> bool {
        if rate == self.rate || self.left == 0 {
            return false;
        }
        if self.rate > 0 {
            // The remaining spacing before the next packet is less than its size.
            let deficit = u128::from(self.next.saturating_sub(now)) * u128::from(self.rate);
            self.rest = u64::try_from(deficit).unwrap_or(u64::MAX);
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

    /// A packet of `bits` has left at [`Stream::next`]; plans the next one. Returns whether
    /// it was the last.
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
        // 1 ns is the minimum spacing.
        self.next += ((work / rate) as u64).max(1);
        self.rest = (work % rate) as u64;
        false
    }

    /// Remaining bits of a fluid at `now`; the stored amount is as of `since`.
    pub(super) fn left_at(&self, now: u64, since: u64) -> u64 {
        let sent = u128::from(now.saturating_sub(since)) * u128::from(self.rate);
        self.left.saturating_sub((sent / 1_000_000_000) as u64)
    }

    /// Sends a fluid at `rate` from `now` on; returns the change of the rate.
    pub(super) fn flow(&mut self, now: u64, rate: u64, since: &mut u64) -> i64 {
        if self.left == 0 {
            return 0;
        }
        if self.left != ENDLESS {
            let span = u128::from(now.saturating_sub(*since));
            let sent = span * u128::from(self.rate) + u128::from(self.rest);
            // It ends by its timer, not here: one bit remains.
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
            // The end is later than any run, so it is not planned.
            now.saturating_add(nanos)
        };
        delta
    }
}
