//! State of a link, by its number of sessions.

use std::mem::size_of;

use base::{Bandwidth, Span, Time};

use crate::exchange::{Exchange, Wire};
use crate::{Error, Link, RateController, Settings, State, Visitor};

/// A number of sessions that join one link at the same time. As a [`Visitor`], it runs a protocol
/// until each session has its first rate, and then reads the size of the link's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Population(pub u32);

/// Memory that a protocol needs at a link and in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Size of the link's state.
    pub state: State,
    /// Bytes of a packet's fields in memory.
    pub packet: usize,
}

impl Population {
    /// Time by which all must have a rate.
    pub const TIMEOUT: Span = Span::from_secs(5);
    const STEP: Span = Span::from_millis(20);
}

impl Visitor for Population {
    /// `None` if a session had no rate after [`Self::TIMEOUT`].
    type Output = Result<Option<Footprint>, Error>;

    fn visit<R: RateController>(self) -> Self::Output {
        // No higher, because some protocols start with an equal share of the capacity for all
        // sessions, and one percent of that is for control packets.
        let wire = Wire::new(Bandwidth::from_mbits_per_sec(100), Span::from_millis(5));
        let mut network = Exchange::<R>::try_new(&Settings::default(), &[wire])?;
        let demand = Bandwidth::from_mbits_per_sec(200);
        for _ in 0..self.0 {
            network.join(Time::ZERO, &[0], demand)?;
        }
        let mut until = Time::ZERO;
        while until < Time::ZERO + Self::TIMEOUT {
            until += Self::STEP;
            network.run_until(until)?;
            if network.present().all(|session| network.rate(session).is_some()) {
                let state = network.link(0).map(Link::state).unwrap_or_default();
                return Ok(Some(Footprint { state, packet: size_of::<R::Packet>() }));
            }
        }
        Ok(None)
    }
}
