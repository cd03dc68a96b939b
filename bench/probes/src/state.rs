//! The state of a link for a rate control protocol, by the number of its sessions.

use ratecontrol::population::{Footprint, Population};
use ratecontrol::{Protocol, State};

use crate::Outcome;

/// Prints the state of a link with `sessions` sessions of `protocol`.
pub(crate) fn of_link(protocol: &str, sessions: &str) -> Outcome {
    let protocol: Protocol =
        protocol.parse().map_err(|()| format!("unknown protocol `{protocol}`"))?;
    let held = protocol.run(Population(sessions.parse()?))?;
    let Footprint { state: State { numbers, bytes }, .. } =
        held.ok_or("some session got no rate")?;
    crate::print(&format!(
        "{{\"protocol\": \"{protocol}\", \"numbers\": {numbers}, \"bytes\": {bytes}}}"
    ));
    Ok(())
}
