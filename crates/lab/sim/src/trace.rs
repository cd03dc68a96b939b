//! A hash over the events of a run, for engines without packets.

use base::{Time, fnv};

/// Events of flows and links in the fluid engine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FlowEvent {
    /// A flow began.
    Start,
    /// A flow ended or was stopped.
    End,
    /// A stream got this many bytes of payload to send.
    Given,
    /// A stream's rate changed, bit/s.
    Rate,
    /// All payload given to a stream has arrived.
    Arrived,
    /// The rate of a datagram flow changed, bit/s.
    Datagrams,
    /// A queue became full or empty; its bits.
    Queue,
}

/// Events of rate-controlled sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SessionEvent {
    /// A session joined with a demand.
    Join,
    Leave,
    /// It was assigned a rate.
    Rate,
    /// All data sent by the session has arrived.
    Delivered,
}

/// A hash over all events in order. Flows, sessions and links have canonical numbers, so that the
/// hash does not depend on the order of the lab file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trace(u64);

impl Default for Trace {
    fn default() -> Self {
        Self(fnv::START)
    }
}

impl Trace {
    /// Adds an event of kind `event` of a flow, session or link.
    pub(crate) fn note(&mut self, now: Time, event: u8, number: u32, value: u64) {
        let subject = u64::from(number) << 8 | u64::from(event);
        for part in [now.as_nanos(), subject, value] {
            let product = (self.0 ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // A float has its significant bits at the top: mix them into the low bits.
            self.0 = product ^ (product >> 32);
        }
    }

    pub(crate) const fn hash(self) -> u64 {
        self.0
    }
}
