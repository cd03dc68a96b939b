//! Reasons why a lab cannot be placed.

use base::{Bandwidth, NodeId};
use lab::plan::Plan;
use thiserror::Error;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", self.text())]
pub struct Refusal {
    pub problems: Vec<Problem>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The reason, with the numbers.
    pub what: String,
    /// The remedy; may be empty.
    pub help: String,
}

impl Problem {
    pub(super) fn new(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { what: what.into(), help: help.into() }
    }
}

impl Refusal {
    fn text(&self) -> String {
        let lines = self.problems.iter().map(|problem| match problem.help.as_str() {
            "" => problem.what.clone(),
            help => format!("{}\n  help: {help}", problem.what),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Max number of listed names; the others are counted.
const MAX_NAMES: usize = 4;

pub fn names(plan: &Plan, nodes: &[NodeId]) -> String {
    let name = |node: &NodeId| format!("`{}`", plan.nodes[node.index()].name);
    let named: Vec<String> = nodes.iter().take(MAX_NAMES).map(name).collect();
    match nodes.len().saturating_sub(MAX_NAMES) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// A rate with three digits.
pub fn rate(bits: f64) -> String {
    let units = [("Tbit/s", 1e12), ("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)];
    units.iter().find(|(_, unit)| bits >= *unit).map_or_else(
        || Bandwidth::from_bits_per_sec(bits as u64).to_string(),
        |(name, unit)| {
            let value = bits / unit;
            let digits = if value >= 100.0 { 0 } else { usize::from(value < 10.0) + 1 };
            format!("{value:.digits$} {name}")
        },
    )
}
