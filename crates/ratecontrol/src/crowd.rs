//! What a link keeps, by the number of its sessions.

use std::mem::size_of;

use base::{Bandwidth, Span, Time};

use crate::exchange::{Exchange, Wire};
use crate::{Error, Link, RateController, Settings, State, Visitor};

/// So many sessions that join one link at once. Visiting a protocol waits until each has a first
/// rate, and then looks at the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd(pub u32);

/// A link under a protocol, and its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// What the link keeps.
    pub state: State,
    /// Bytes of a packet's fields in memory.
    pub packet: usize,
}

impl Crowd {
    /// All have a rate by then.
    pub const PATIENCE: Span = Span::from_secs(5);
    const STEP: Span = Span::from_millis(20);
}

impl Visitor for Crowd {
    /// `None` if some session had no rate after [`Self::PATIENCE`].
    type Output = Result<Option<Held>, Error>;

    fn visit<R: RateController>(self) -> Self::Output {
        // No more, as some protocols begin with a share of the capacity for everybody, and a
        // percent of that is for control packets.
        let wire = Wire::new(Bandwidth::from_mbits_per_sec(100), Span::from_millis(5));
        let mut network = Exchange::<R>::try_new(&Settings::default(), &[wire])?;
        let demand = Bandwidth::from_mbits_per_sec(200);
        for _ in 0..self.0 {
            network.join(Time::ZERO, &[0], demand)?;
        }
        let mut until = Time::ZERO;
        while until < Time::ZERO + Self::PATIENCE {
            until += Self::STEP;
            network.run_until(until)?;
            if network.present().all(|session| network.rate(session).is_some()) {
                let state = network.link(0).map(Link::state).unwrap_or_default();
                return Ok(Some(Held { state, packet: size_of::<R::Packet>() }));
            }
        }
        Ok(None)
    }
}
