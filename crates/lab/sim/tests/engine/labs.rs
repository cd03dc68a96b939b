//! Runs labs from text and collects the results.

use std::path::Path;

use base::{Span, Time};
use fabric::LinkStats;
use lab::plan::{Event, Plan};
use run::FlowResult;
use run::{FlowSample, Transfer};
use sim::{Engine as _, Simulation};

/// The only plan of a lab.
pub(crate) fn plan(text: &str) -> Plan {
    let lab = lab::parse("lab.toml", text, Path::new("."));
    lab.unwrap_or_else(|wrong| panic!("{wrong:?}")).plans.remove(0)
}

/// A completed simulation.
pub(crate) struct Ran {
    pub(crate) results: Vec<FlowResult>,
    pub(crate) samples: Vec<FlowSample>,
    pub(crate) transfers: Vec<Transfer>,
    pub(crate) events: Vec<Event>,
    /// Up and down direction of each link.
    pub(crate) links: Vec<LinkStats>,
    pub(crate) hash: u64,
    pub(crate) processed: u64,
    pub(crate) now: Time,
    /// Whether the simulation had no event left.
    pub(crate) done: bool,
    pub(crate) memory: u64,
    pub(crate) warnings: Vec<String>,
}

/// Runs a plan with the plan's sample interval.
pub(crate) fn run(plan: &Plan) -> Ran {
    stepwise(plan, plan.interval)
}

/// Runs a plan and samples it at this interval.
pub(crate) fn stepwise(plan: &Plan, step: Span) -> Ran {
    let mut simulation = Simulation::try_new(plan).unwrap_or_else(|wrong| panic!("{wrong}"));
    let (mut samples, mut transfers) = (Vec::new(), Vec::new());
    let end = Time::ZERO + plan.duration;
    let mut until = Time::ZERO;
    while until < end && !simulation.is_done() {
        until = (until + step).min(end);
        simulation.advance(until);
        simulation.sample(&mut |sample| samples.push(sample));
        transfers.extend(simulation.transfers());
    }
    let done = simulation.is_done();
    let memory = simulation.memory();
    simulation.stop();
    simulation.sample(&mut |sample| samples.push(sample));
    transfers.extend(simulation.transfers());
    Ran {
        samples,
        warnings: simulation.warnings(plan),
        transfers,
        events: simulation.happened(),
        links: simulation.link_counters(&[]).into_iter().map(|(_, stats, _)| stats).collect(),
        hash: simulation.trace_hash(),
        processed: simulation.events(),
        now: simulation.now(),
        done,
        memory,
        results: simulation.results(),
    }
}
