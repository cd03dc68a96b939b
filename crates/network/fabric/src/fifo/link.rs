//! One direction of a link: a transmitter with an unlimited queue, and a wire.

use base::{Bandwidth, Span};

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoLink {
    /// Rate; zero means unlimited.
    pub rate: Bandwidth,
    /// Propagation delay of every packet.
    pub delay: Span,
}

/// Data that the engine accesses for every packet, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Link {
    /// Time at which the transmitter becomes idle, ns.
    free: u64,
    /// Remainder of the last transmission time's division, in units of 1/rate ns, so that the
    /// long-term rate is exact.
    remainder: u64,
    /// bit/s; 0 means unlimited.
    rate: u64,
    /// Propagation delay in ns.
    pub(super) delay: u64,
    /// Total bytes that have arrived.
    arrived: u64,
    /// Total bytes of control packets and, in the bits from [`ERA`] on, the number of times that
    /// the link has gone down or up, modulo 256.
    control: u64,
    /// Maximum queue since the last call, ns of transmission.
    peak: u64,
    /// Number of this window's arrivals that the link has not processed yet.
    pub(super) next: u32,
    pub(super) end: u32,
}

/// Bit position of the era.
const ERA: u32 = 56;

impl Link {
    pub(super) fn new(link: &FifoLink) -> Self {
        Self {
            free: 0,
            remainder: 0,
            rate: link.rate.bits_per_sec(),
            delay: link.delay.as_nanos(),
            arrived: 0,
            peak: 0,
            control: 0,
            next: 0,
            end: 0,
        }
    }

    /// Accepts a packet at `at`; returns its arrival time at the far end.
    #[inline]
    pub(super) fn take(&mut self, at: u64, bytes: u64) -> u64 {
        self.arrived += bytes;
        if self.rate == 0 {
            return at.saturating_add(self.delay);
        }
        let start = self.free.max(at);
        // 64 bits are sufficient for 2.3 GB.
        let work = bytes * 8 * 1_000_000_000;
        let (nanos, remainder) = match work.checked_add(self.remainder) {
            Some(work) => (work / self.rate, work % self.rate),
            None => wide(work, self.remainder, self.rate),
        };
        self.remainder = remainder;
        self.free = start.saturating_add(nanos);
        self.peak = self.peak.max(start - at);
        self.free.saturating_add(self.delay)
    }

    /// Total bytes that have arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Bytes queued or in transmission at `at`.
    pub(super) fn backlog(&self, at: u64) -> u64 {
        self.bytes_in(self.free.saturating_sub(at))
    }

    /// Maximum queued bytes since the last call.
    pub(super) fn take_peak(&mut self, at: u64) -> u64 {
        let peak = std::mem::replace(&mut self.peak, self.free.saturating_sub(at));
        self.bytes_in(peak)
    }

    fn bytes_in(&self, nanos: u64) -> u64 {
        let bits = u128::from(nanos) * u128::from(self.rate) / 1_000_000_000;
        u64::try_from(bits / 8).unwrap_or(u64::MAX)
    }

    /// Changes the properties. Queued packets keep their departure times, so the new rate
    /// applies to later arrivals.
    pub(super) fn configure(&mut self, link: &FifoLink) {
        self.rate = link.rate.bits_per_sec();
        self.remainder = 0;
        self.delay = link.delay.as_nanos();
    }

    /// Goes down or up; packets on it are lost.
    pub(super) fn set_up(&mut self, at: u64, up: bool) {
        if self.is_up() != up {
            self.control = self.control.wrapping_add(1 << ERA);
        }
        if !up {
            self.free = self.free.min(at);
        }
    }

    /// Number of times that it has gone down or up, modulo 256: a packet arrives in the era in
    /// which it was sent, or not at all.
    pub(super) fn era(&self) -> u8 {
        (self.control >> ERA) as u8
    }

    pub(super) fn is_up(&self) -> bool {
        self.era().is_multiple_of(2)
    }

    /// Counts a control packet among the arrivals.
    pub(super) fn count_control(&mut self, bytes: u64) {
        self.control += bytes;
    }

    /// Total bytes of control packets.
    pub(super) fn control(&self) -> u64 {
        self.control & ((1 << ERA) - 1)
    }
}

/// Close to 2⁶⁴ bit/s.
#[cold]
fn wide(work: u64, remainder: u64, rate: u64) -> (u64, u64) {
    let work = u128::from(work) + u128::from(remainder);
    let rate = u128::from(rate);
    ((work / rate) as u64, (work % rate) as u64)
}

/// One direction of a link that carries a fluid and packets: rates arrive, and the queue grows by
/// their excess over the transmitter's rate, exact to 10⁻⁶ bit between changes. Data that the
/// engine accesses for every change, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Pool {
    /// The sum of the arriving rates, bit/s. If a link after a queue becomes faster or fails, the
    /// end of a rate can arrive before its start: the sum is negative in between.
    inflow: i64,
    /// bit/s; 0 means unlimited.
    rate: u64,
    /// Propagation delay in ns.
    pub(super) delay: u64,
    /// Time up to which the queue is known, ns.
    known: u64,
    /// The queue, in 2^10 × 10⁻⁹ bit.
    work: u64,
    /// Maximum queue since the last call, in the same unit.
    peak: u64,
    /// Total arrivals except control packets, in 2^20 × 10⁻⁹ bit.
    arrived: u64,
    /// Total bytes of control packets.
    pub(super) control: u64,
}

/// 10⁻⁹ bit in a byte.
const BYTE: u64 = 8_000_000_000;

/// Whole bytes in `count` times 2^`scale` × 10⁻⁹ bit.
fn bytes(count: u64, scale: u32) -> u64 {
    // Divide both sides by 8: then nearly all values fit 64 bits, where the
    // division becomes a multiplication.
    let scale = scale - 3;
    if count.leading_zeros() >= scale {
        (count << scale) / (BYTE >> 3)
    } else {
        ((u128::from(count) << scale) / u128::from(BYTE >> 3)) as u64
    }
}

impl Pool {
    pub(super) fn new(link: &FifoLink) -> Self {
        Self {
            inflow: 0,
            rate: link.rate.bits_per_sec(),
            delay: link.delay.as_nanos(),
            known: 0,
            work: 0,
            peak: 0,
            arrived: 0,
            control: 0,
        }
    }

    /// Advances the queue to `at`.
    pub(super) fn run(&mut self, at: u64) {
        let span = u128::from(at.saturating_sub(self.known));
        self.known = self.known.max(at);
        let inflow = self.inflow.max(0) as u64;
        let come = (span * u128::from(inflow)) >> 20;
        self.arrived = self.arrived.saturating_add(u64::try_from(come).unwrap_or(u64::MAX));
        if self.rate == 0 {
            self.work = 0;
        } else if inflow >= self.rate {
            let more = (span * u128::from(inflow - self.rate)) >> 10;
            self.work = self.work.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
            self.peak = self.peak.max(self.work);
        } else if self.work > 0 {
            let less = (span * u128::from(self.rate - inflow)) >> 10;
            self.work = self.work.saturating_sub(u64::try_from(less).unwrap_or(u64::MAX));
        }
    }

    /// Changes the arriving rate by `delta` bit/s.
    pub(super) fn change(&mut self, delta: i64) {
        self.inflow = self.inflow.wrapping_add(delta);
    }

    /// Adds a control packet.
    pub(super) fn add(&mut self, bytes: u64) {
        self.control += bytes;
        self.work = self.work.saturating_add((bytes * BYTE) >> 10);
        self.peak = self.peak.max(self.work);
    }

    /// Queueing and transmission delay of present arrivals, ns.
    pub(super) fn wait(&self) -> u64 {
        match (self.work, self.rate) {
            (0, _) | (_, 0) => 0,
            (work, rate) if work >> 54 == 0 => (work << 10) / rate,
            (work, rate) => {
                let nanos = (u128::from(work) << 10) / u128::from(rate);
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        }
    }

    pub(super) fn arrived(&self) -> u64 {
        // Rounded up, as the truncated part is a fraction of a bit.
        self.control + bytes(self.arrived, 20) + u64::from(self.arrived > 0)
    }

    pub(super) fn backlog(&self) -> u64 {
        bytes(self.work, 10)
    }

    pub(super) fn take_peak(&mut self) -> u64 {
        bytes(std::mem::replace(&mut self.peak, self.work), 10)
    }

    /// Changes the properties; the queue is served at the new rate.
    pub(super) fn configure(&mut self, at: u64, link: &FifoLink) {
        self.run(at);
        self.rate = link.rate.bits_per_sec();
        self.delay = link.delay.as_nanos();
    }

    /// Drops the queue.
    pub(super) fn cut(&mut self, at: u64) {
        self.run(at);
        self.work = 0;
    }
}
