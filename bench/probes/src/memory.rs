//! Resident memory of idle simulated objects.

use std::path::Path;

use base::{Span, Time};
use lab::plan::Plan;
use sim::{Engine as _, Simulation};

use crate::{Outcome, print};

/// Sends one request, and then none for a long time: an idle established connection.
const FLOW: &str = r#"
[lab]
duration = "1000 s"
[node.a]
[node.b]
[[link]]
ends = ["a", "b"]
rate = "100 Gbit/s"
delay = "1 ms"
[[flow]]
from = "a"
to = "b"
request = "64 B"
response = "64 B"
interval = "900 s"
"#;

/// A datagram of 1000 B per microsecond, with a delay of 10 s.
const PACKETS: &str = r#"
[lab]
duration = "1000 s"
[node.a]
[node.b]
[[link]]
ends = ["a", "b"]
rate = "100 Gbit/s"
delay = "10 s"
[[flow]]
from = "a"
to = "b"
transport = "udp"
rate = "8 Gbit/s"
packet = "1000 B"
"#;

/// Prints the memory per object, for `count` `flows` (established and idle) or `packets` (in
/// flight).
pub(crate) fn each(what: &str, count: &str) -> Outcome {
    let count: usize = count.parse()?;
    let bytes = match what {
        "flows" => flows(count)?,
        "packets" => packets(count)?,
        _ => return Err(format!("no {what}; there are flows and packets").into()),
    };
    let each = bytes as f64 / count as f64;
    print(&format!("{{\"count\":{count},\"bytes_each\":{each:.1}}}"));
    Ok(())
}

pub(crate) type Measured = Result<u64, Box<dyn std::error::Error>>;

/// Memory of a simulation of this many flows in addition to the plan, including its copy
/// of the plan.
fn flows(count: usize) -> Measured {
    let mut plan = plan(FLOW)?;
    let settled = Time::ZERO + Span::from_secs(100);
    // Allocate what is independent of the number of flows before the measurement.
    Simulation::try_new(&plan)?.advance(settled);
    let model = plan.flows.remove(0);
    for number in 0..count {
        let mut flow = model.clone();
        flow.name = format!("f{number}");
        flow.start = Time::from_nanos(number as u64 * 1000);
        plan.flows.push(flow);
    }
    let before = resident()?;
    let mut simulation = Simulation::try_new(&plan)?;
    simulation.advance(settled);
    let after = resident()?;
    if simulation.packet_hops() < 5 * count as u64 {
        return Err("not all flows are established".into());
    }
    Ok(after.saturating_sub(before))
}

fn packets(count: usize) -> Measured {
    let plan = plan(PACKETS)?;
    let mut simulation = Simulation::try_new(&plan)?;
    let warm = Span::from_millis(1);
    simulation.advance(Time::ZERO + warm);
    let before = resident()?;
    simulation.advance(Time::ZERO + warm + Span::from_micros(count as u64));
    let after = resident()?;
    Ok(after.saturating_sub(before))
}

fn plan(text: &str) -> Result<Plan, Box<dyn std::error::Error>> {
    let mut lab = lab::parse("memory", text, Path::new("."))?;
    lab.plans.pop().ok_or_else(|| "no plan".into())
}

/// Resident memory of this process in bytes.
pub(crate) fn resident() -> Measured {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmRSS")?;
    Ok(kilobytes.parse::<u64>()? * 1024)
}
