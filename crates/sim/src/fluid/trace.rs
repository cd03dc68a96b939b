//! What happened, as a hash.

use base::Time;

/// Kinds of what is noted.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A flow began.
    Start,
    /// A flow ended or was stopped.
    End,
    /// A stream was given so many bytes of payload.
    Given,
    /// A stream sends so many bit/s.
    Rate,
    /// All that a stream was given, in bytes, has arrived.
    Arrived,
    /// Datagrams are sent at so many bit/s.
    Datagrams,
    /// A queue became full or empty: its bits.
    Queue,
}

/// A hash over all that was noted, in order. Flows and links are counted in canonical order, so
/// that it is the same however the lab file orders them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trace(u64);

impl Default for Trace {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Trace {
    /// Notes what happened to which flow or link.
    pub(super) fn note(&mut self, now: Time, what: What, number: u32, value: f64) {
        let subject = u64::from(number) << 8 | what as u64;
        for part in [now.as_nanos(), subject, value.to_bits()] {
            let product = (self.0 ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // The high bits, where a float's are, come down.
            self.0 = product ^ (product >> 32);
        }
    }

    /// The hash so far.
    pub(super) fn hash(self) -> u64 {
        self.0
    }
}
