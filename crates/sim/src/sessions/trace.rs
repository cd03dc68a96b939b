//! What happened, as a hash.

use base::Time;

/// Kinds of what is noted.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A session joined with a demand.
    Join,
    /// It left.
    Leave,
    /// It was assigned a rate.
    Rate,
    /// All that it sent has arrived.
    Delivered,
}

/// A hash over all that was noted, in order. Sessions are counted in canonical order, so that it
/// is the same however the lab file orders them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trace(u64);

impl Default for Trace {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Trace {
    /// Notes what happened to which session.
    pub(super) fn note(&mut self, now: Time, what: What, session: u32, value: u64) {
        let subject = u64::from(session) << 8 | what as u64;
        for part in [now.as_nanos(), subject, value] {
            let product = (self.0 ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.0 = product ^ (product >> 32);
        }
    }

    /// The hash so far.
    pub(super) const fn hash(self) -> u64 {
        self.0
    }
}
