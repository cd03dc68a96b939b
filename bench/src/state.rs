//! What a link keeps for a rate control protocol, by the number of its sessions.

use base::{Bandwidth, Span, Time};
use ratecontrol::exchange::{Exchange, Wire};
use ratecontrol::{Link, Protocol, RateController, Settings, State, Visitor};

use crate::Outcome;

/// So many sessions over one link.
struct Crowd(u32);

impl Visitor for Crowd {
    type Output = ratecontrol::Result<State>;

    fn visit<R: RateController>(self) -> Self::Output {
        let wire = Wire::new(Bandwidth::from_mbits_per_sec(10_000), Span::from_millis(5));
        let mut network = Exchange::<R>::try_new(&Settings::default(), &[wire])?;
        for _ in 0..self.0 {
            network.join(Time::ZERO, &[0], Bandwidth::from_mbits_per_sec(20_000))?;
        }
        // A round trip takes 10 ms; all have passed the link in both directions.
        network.run_until(Time::ZERO + Span::from_millis(15))?;
        Ok(network.link(0).map(Link::state).unwrap_or_default())
    }
}

/// Prints the state of a link that `sessions` sessions of `protocol` cross.
pub(crate) fn of_link(protocol: &str, sessions: &str) -> Outcome {
    let protocol: Protocol = protocol.parse().map_err(|()| format!("no protocol {protocol}"))?;
    let state = protocol.run(Crowd(sessions.parse()?))?;
    let State { numbers, bytes } = state;
    crate::print(&format!(
        "{{\"protocol\": \"{protocol}\", \"numbers\": {numbers}, \"bytes\": {bytes}}}"
    ));
    Ok(())
}
