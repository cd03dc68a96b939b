//! What a link keeps as sessions grow in number, under each protocol: the paper's point.
//!
//! Sessions join one link at once and each gets a first rate; then the link is looked at.

use ratecontrol::population::{Footprint, Population};
use ratecontrol::{Protocol, State};

use crate::{Axis, Error, Evidence, Figure, Line, Plot, Result, Stage, Table};

pub(super) const FIGURE: Figure = Figure {
    id: "state",
    title: "what a link keeps, by the number of its sessions",
    takes: "2 min",
    clocks: &[],
    files: &[],
    make,
};

const SESSIONS: [u32; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
const FEW: [u32; 3] = [100, 1_000, 10_000];
/// The numbers that SLBN keeps.
const THREE: u64 = 3;

/// How the state of a link depends on its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Constant,
    Linear,
}

impl Growth {
    /// What the SLBN paper and those of the others say.
    fn expected(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Bfyz | Protocol::Erica | Protocol::BNeck => Self::Linear,
            _ => Self::Constant,
        }
    }

    /// What was measured; `None` if it is neither.
    fn of(sessions: &[u32], numbers: &[u64]) -> Option<Self> {
        let (fewest, most) = (sessions.first()?, sessions.last()?);
        let (first, last) = (numbers.first()?, numbers.last()?);
        if numbers.iter().all(|other| other == first) {
            return Some(Self::Constant);
        }
        let grown = last.saturating_sub(*first) as f64 / f64::from(most - fewest);
        // A row of numbers for each session, of one size at every step.
        (grown >= 1.0).then_some(Self::Linear)
    }

    const fn word(growth: Option<Self>) -> &'static str {
        match growth {
            Some(Self::Constant) => "constant",
            Some(Self::Linear) => "linear",
            None => "neither constant nor linear",
        }
    }
}

/// A protocol with all numbers of sessions.
struct Measured {
    protocol: Protocol,
    states: Vec<State>,
    packet: usize,
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let sizes: &[u32] = if stage.short() { &FEW } else { &SESSIONS };
    let mut all = Vec::new();
    for protocol in Protocol::ALL {
        let mut of = Measured { protocol, states: Vec::new(), packet: 0 };
        for size in sizes {
            stage.check()?;
            let held = held(protocol, *size)?;
            of.states.push(held.state);
            of.packet = held.packet;
        }
        all.push(of);
    }
    let mut evidence = Evidence { plots: plots(sizes, &all), ..Evidence::default() };
    evidence.tables.push(table(sizes, &all));
    claims(&mut evidence, sizes, &all);
    evidence.note(
        "Numbers are those that a protocol keeps at a link and changes; bytes are their memory \
         here, tables with all that they have allocated included. A packet's bytes are its fields \
         in memory, not on the wire.",
    );
    Ok(evidence)
}

/// What a link holds for so many sessions, once each has a rate.
fn held(protocol: Protocol, sessions: u32) -> Result<Footprint> {
    let timeout = Population::TIMEOUT;
    protocol.run(Population(sessions))?.ok_or_else(|| {
        Error::Refused(format!("{protocol}: some of {sessions} sessions got no rate in {timeout}"))
    })
}

fn plots(sizes: &[u32], all: &[Measured]) -> Vec<Plot> {
    let plot = |title: &str, what: &str, value: fn(&State) -> u64| {
        let mut plot = Plot::new(title, Axis::log("sessions over the link"), Axis::log(what));
        for of in all {
            let points = sizes.iter().zip(&of.states);
            let points = points.map(|(n, state)| (f64::from(*n), value(state) as f64)).collect();
            plot.lines.push(Line::new(of.protocol.name(), points));
        }
        plot
    };
    vec![
        plot("Numbers that a link keeps", "numbers", |state| state.numbers),
        plot("Memory that they take", "bytes", |state| state.bytes),
    ]
}

fn table(sizes: &[u32], all: &[Measured]) -> Table {
    let mut heads = vec!["protocol".to_owned()];
    heads.extend(sizes.iter().map(|size| format!("{size} sessions")));
    heads.push("bytes a packet".to_owned());
    let mut table = Table { title: "Numbers / bytes at a link".to_owned(), heads, rows: vec![] };
    for of in all {
        let mut row = vec![of.protocol.name().to_owned()];
        row.extend(of.states.iter().map(|state| format!("{} / {}", state.numbers, state.bytes)));
        row.push(of.packet.to_string());
        table.row(row);
    }
    table
}

fn claims(evidence: &mut Evidence, sizes: &[u32], all: &[Measured]) {
    for of in all {
        let numbers: Vec<u64> = of.states.iter().map(|state| state.numbers).collect();
        let growth = Growth::of(sizes, &numbers);
        let expected = Growth::expected(of.protocol);
        let three = of.protocol == Protocol::Slbn;
        let paper = match expected {
            Growth::Constant if three => "constant: three numbers",
            Growth::Constant => "constant",
            Growth::Linear => "linear: something for each session",
        };
        let ends = (numbers.first().copied().unwrap_or(0), numbers.last().copied().unwrap_or(0));
        evidence.claim(
            format!("state of a link as sessions grow ({})", of.protocol),
            paper,
            format!("{}: {} to {} numbers", Growth::word(growth), ends.0, ends.1),
            growth == Some(expected) && (!three || ends.1 == THREE),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_from_the_numbers() {
        assert_eq!(Growth::of(&[10, 100], &[3, 3]), Some(Growth::Constant));
        assert_eq!(Growth::of(&[10, 100], &[12, 102]), Some(Growth::Linear));
        assert_eq!(Growth::of(&[10, 100], &[3, 9]), None);
        assert_eq!(Growth::of(&[], &[]), None);
    }

    #[test]
    fn links_hold_what_the_papers_say() {
        let sizes = [10, 300];
        let mut all = Vec::new();
        for protocol in Protocol::ALL {
            let held = sizes.map(|size| held(protocol, size).unwrap());
            let states = held.iter().map(|held| held.state).collect();
            all.push(Measured { protocol, states, packet: held[0].packet });
        }
        let mut evidence = Evidence::default();
        claims(&mut evidence, &sizes, &all);
        let wrong: Vec<_> = evidence.claims.iter().filter(|claim| !claim.holds).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
