//! Traffic of links if each session sends a fluid at its assigned rate, without propagation delay.

use base::{Bandwidth, Bytes, Span, Time};

use crate::Measured;

/// bit/s × ns in a byte.
const UNITS_PER_BYTE: u128 = 8_000_000_000;

/// In bit/s × ns, so that only results are rounded.
#[derive(Clone, Copy, Default)]
struct Carried {
    /// Sum of the rates, bit/s.
    load: u128,
    since: Time,
    arrived: u128,
    backlog: u128,
}

pub(super) struct Fluid {
    interval: Span,
    due: Time,
    links: Vec<Carried>,
}

impl Fluid {
    pub(super) fn new(interval: Span, links: usize) -> Self {
        let interval = interval.max(Span::from_nanos(1));
        Self { interval, due: Time::ZERO + interval, links: vec![Carried::default(); links] }
    }

    /// Time of the next measurement.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    pub(super) fn measured(&mut self) {
        self.due += self.interval;
    }

    /// Integrates until `now` with the previous capacity and load.
    pub(super) fn advance_link(&mut self, link: u32, now: Time, capacity: Bandwidth) {
        let link = &mut self.links[link as usize];
        let nanos = u128::from(now.since(link.since).as_nanos());
        let arrived = link.load * nanos;
        let served = u128::from(capacity.bits_per_sec()) * nanos;
        link.arrived += arrived;
        link.backlog = (link.backlog + arrived).saturating_sub(served);
        link.since = now;
    }

    pub(super) fn change_load(&mut self, link: u32, from: Bandwidth, to: Bandwidth) {
        let load = &mut self.links[link as usize].load;
        *load = *load + u128::from(to.bits_per_sec()) - u128::from(from.bits_per_sec());
    }

    pub(super) fn measure(&mut self, link: u32, now: Time, capacity: Bandwidth) -> Measured {
        self.advance_link(link, now, capacity);
        let link = &mut self.links[link as usize];
        let bytes = link.arrived / UNITS_PER_BYTE;
        link.arrived -= bytes * UNITS_PER_BYTE;
        let clamp = |bytes: u128| Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX));
        let backlog = clamp(link.backlog / UNITS_PER_BYTE);
        Measured { interval: self.interval, arrived: clamp(bytes), backlog }
    }
}
