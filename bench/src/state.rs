//! What a link keeps for a rate control protocol, by the number of its sessions.

use ratecontrol::crowd::{Crowd, Held};
use ratecontrol::{Protocol, State};

use crate::Outcome;

/// Prints the state of a link that `sessions` sessions of `protocol` cross.
pub(crate) fn of_link(protocol: &str, sessions: &str) -> Outcome {
    let protocol: Protocol = protocol.parse().map_err(|()| format!("no protocol {protocol}"))?;
    let held = protocol.run(Crowd(sessions.parse()?))?;
    let Held { state: State { numbers, bytes }, .. } = held.ok_or("some session got no rate")?;
    crate::print(&format!(
        "{{\"protocol\": \"{protocol}\", \"numbers\": {numbers}, \"bytes\": {bytes}}}"
    ));
    Ok(())
}
