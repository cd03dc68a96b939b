//! `measure`: values for figures of papers that no lab reports, as JSON.

mod timers;

use lab::plan::BundleConstants;
use ratecontrol::Protocol;
use ratecontrol::population::Population;
use run::Exit;
use serde_json::{Value, json};

use crate::args::measure::{LinkState, Measure, Measurement};
use crate::terminal::Terminal;
use crate::{Failure, Verdict, cluster};

pub(crate) fn measure(args: &Measure, terminal: &Terminal) -> Verdict {
    let mut found = match &args.measurement {
        Measurement::Protocols => json!({ "protocols": Protocol::NAMES }),
        Measurement::LinkState(args) => link_state(args)?,
        Measurement::Agreement(args) => cluster::measure_agreement(args, terminal)?,
        Measurement::Timers(args) => timers::measure(args)?,
        Measurement::BundleConstants => bundle_constants(),
    };
    found["schema"] = "netarium.measure/1".into();
    terminal.object(&found)?;
    Ok(Exit::Ok)
}

fn link_state(args: &LinkState) -> Result<Value, Failure> {
    let protocol: Protocol = args.protocol.parse().map_err(|()| {
        Failure::usage(format!("unknown protocol `{}`", args.protocol))
            .help(format!("protocols: {}", Protocol::NAMES.join(", ")))
    })?;
    let held = protocol.run(Population(args.sessions)).map_err(Failure::machine)?;
    let held = held.ok_or_else(|| {
        let (timeout, sessions) = (Population::TIMEOUT, args.sessions);
        Failure::machine(format!(
            "{protocol}: some of {sessions} sessions got no rate in {timeout}"
        ))
    })?;
    Ok(json!({
        "protocol": protocol.name(),
        "sessions": args.sessions,
        "numbers": held.state.numbers,
        "bytes": held.state.bytes,
        "packet_bytes": held.packet,
    }))
}

fn bundle_constants() -> Value {
    let constants: Vec<Value> = BundleConstants::LIST
        .iter()
        .map(|of| {
            json!({
                "name": of.name, "doc": of.doc.trim(), "value": of.value, "unit": of.unit,
                "range": of.range, "source": of.source,
            })
        })
        .collect();
    json!({ "constants": constants })
}
