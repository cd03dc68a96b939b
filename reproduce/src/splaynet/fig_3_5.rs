//! Figure 3.5: the worked example of RTT-aware max-min sharing, by the solver and by packets.

use base::{Bytes, Direction, Span};
use sharing::{Demand, Problem, tcp};

use super::PAYLOAD;
use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, Job, Line, Model, Plot, Result, Run, Stage, Style, Table,
    moments,
};

pub(super) const FIGURE: Figure = Figure {
    id: "3.5",
    title: "the worked example: shares of three flows by max-min with round-trip times",
    takes: "1 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("splaynet/worked-example.toml")],
    make,
};

const LAB: &str = "splaynet/worked-example.toml";
/// Capacities in Mbit/s: 0–1, 1–2, 1–3, 1–4, 4–5.
const LINKS: [f64; 5] = [2.0, 4.0, 4.0, 4.0, 4.0];

/// When the lab's flows start, and its end.
const STARTS_S: [f64; 4] = [0.0, 15.0, 30.0, 60.0];

/// A flow of the example: its name, the links that it crosses, its round trip in milliseconds.
struct Example(&'static str, &'static [u32], u64);

const FLOWS: [Example; 3] =
    [Example("A", &[0, 1], 100), Example("B", &[2, 3, 4], 300), Example("C", &[0, 3, 4], 300)];

/// A state of the example: the flows that are there, the paper's shares in Mbit/s, and from when
/// to when the lab is in it (long enough after its begin for TCP to have settled).
struct State {
    flows: &'static [usize],
    paper: [f64; 3],
    settled_s: (f64, f64),
}

const STATES: [State; 3] = [
    State { flows: &[0], paper: [2.0, 0.0, 0.0], settled_s: (5.0, 15.0) },
    State { flows: &[0, 1], paper: [2.0, 4.0, 0.0], settled_s: (20.0, 30.0) },
    State { flows: &[0, 1, 2], paper: [1.5, 3.5, 0.5], settled_s: (40.0, 60.0) },
];

/// Shares in Mbit/s, in the order of `flows`.
fn shares(flows: &[usize], window: Option<Bytes>) -> Vec<f64> {
    let demand = |index: &usize| {
        let Example(_, path, milliseconds) = FLOWS[*index];
        let round_trip = Span::from_millis(milliseconds);
        let cap = window.map_or(f64::INFINITY, |window| tcp::window_cap(window, round_trip));
        Demand { path: path.to_vec(), weight: tcp::weight(round_trip), cap }
    };
    let capacities = LINKS.iter().map(|mbit| mbit * 1e6).collect();
    let problem = Problem { capacities, flows: flows.iter().map(demand).collect() };
    problem.solve().into_iter().map(|rate| rate / 1e6).collect()
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    solved(&mut evidence);
    let job = |(clock, model)| Job::new(LAB, "shares", clock).model(model);
    let jobs: Vec<Job> = stage.settings().into_iter().map(job).collect();
    for run in stage.run_together(&jobs)? {
        measured(&mut evidence, &run)?;
    }
    evidence.note(
        "The paper contradicts itself: with its own default window of 64 KB, B could not pass \
         1.748 Mbit/s, yet the figure gives it 3.5. The figure is made without a window.",
    );
    if stage.models().contains(&Model::Hop) {
        evidence.note(
            "In the hop model nothing sets the shares: they are what CUBIC makes of drop-tail \
             queues, and stand beside the others without a claim.",
        );
    }
    Ok(evidence)
}

/// What the solver says of each state.
fn solved(evidence: &mut Evidence) {
    let heads = ["flows", "window", "A", "B", "C"];
    let mut table = Table::new("Shares by the solver in Mbit/s", &heads);
    for state in &STATES {
        let names: Vec<&str> = state.flows.iter().map(|index| FLOWS[*index].0).collect();
        let names = names.join(" + ");
        for window in [None, Some(Bytes::new(64 << 10))] {
            let found = shares(state.flows, window);
            let cell = |index: usize| {
                let place = state.flows.iter().position(|flow| *flow == index);
                place.map_or("–".to_owned(), |place| format!("{:.4}", found[place]))
            };
            let limit = window.map_or("off", |_| "64 KiB").to_owned();
            table.row([names.clone(), limit, cell(0), cell(1), cell(2)]);
            if window.is_some() {
                continue;
            }
            let paper: Vec<f64> = state.flows.iter().map(|flow| state.paper[*flow]).collect();
            let exact = found.iter().zip(&paper).all(|(a, b)| (a - b).abs() <= b * 1e-9);
            evidence.claim(
                format!("{names}: shares by the solver"),
                format!("{} Mbit/s", listed(&paper)),
                format!("{} Mbit/s", listed(&found)),
                exact,
            );
        }
    }
    evidence.tables.push(table);
}

fn listed(mbit: &[f64]) -> String {
    // Digits beyond those that a share is exact to say nothing.
    let cells = mbit.iter().map(|rate| format!("{}", (rate * 1e8).round() / 1e8));
    cells.collect::<Vec<_>>().join(", ")
}

/// What a flow sends over the wire, in Mbit/s: A and B have a link of their own, and C is what
/// else crosses the link that it shares with B.
fn wire(run: &Run, step_s: f64) -> Result<[Vec<(f64, f64)>; 3]> {
    let rate = |link, direction| run.link_rate(link, direction, step_s);
    let (a, b) = (rate("n1-n2", Direction::Up)?, rate("n1-n3", Direction::Down)?);
    let both = rate("n1-n4", Direction::Up)?;
    let c = both.iter().zip(&b).map(|((at, both), (_, b))| (*at, both - b)).collect();
    Ok([a, b, c].map(|rates: Vec<_>| rates.iter().map(|(at, r)| (*at, r / 1e6)).collect()))
}

/// What three TCP flows got.
fn measured(evidence: &mut Evidence, run: &Run) -> Result<()> {
    let mut plot = Plot::new(
        format!("Rates of the three flows on the wire ({})", run.label()),
        Axis::linear("time in s"),
        Axis::linear("rate in Mbit/s").from(0.0).to(5.0),
    );
    let rates = wire(run, 0.5)?;
    for (Example(name, ..), rate) in FLOWS.iter().zip(&rates) {
        plot.lines.push(Line::new(*name, rate.clone()));
    }
    for (index, Example(name, ..)) in FLOWS.iter().enumerate() {
        let mut points = Vec::new();
        for (state, span) in STATES.iter().zip(STARTS_S.windows(2)) {
            points.extend([(span[0], state.paper[index]), (span[1], state.paper[index])]);
        }
        plot.lines.push(Line::new(format!("{name}'s share"), points).style(Style::Reference));
    }
    evidence.plots.push(plot);
    for state in STATES.iter().filter(|_| run.model == Some(Model::Collapsed)) {
        let (from, to) = state.settled_s;
        for index in state.flows {
            let within = rates[*index].iter().filter(|(at, _)| (from..to).contains(at));
            let rate = moments(&within.map(|(_, rate)| *rate).collect::<Vec<_>>()).mean;
            let share = state.paper[*index];
            evidence.claim(
                format!("{} on the wire, {from} to {to} s ({})", FLOWS[*index].0, run.label()),
                format!("{share} Mbit/s"),
                format!("{rate:.3} Mbit/s"),
                (0.98..=1.02).contains(&(rate / share)),
            );
        }
    }
    goodputs(evidence, run)
}

/// The mean goodput of each flow since all three have settled.
fn goodputs(evidence: &mut Evidence, run: &Run) -> Result<()> {
    let heads = ["flow", "goodput", "of the share's payload"];
    let mut table = Table::new(format!("Goodput from 40 to 60 s ({})", run.label()), &heads);
    let last = &STATES[STATES.len() - 1];
    let (from, to) = last.settled_s;
    for (Example(name, ..), share) in FLOWS.iter().zip(last.paper) {
        let rate = run.flow_rate(name, 1.0)?;
        let within = rate.iter().filter(|(at, _)| (from..to).contains(at));
        let mbit = moments(&within.map(|(_, rate)| rate / 1e6).collect::<Vec<_>>()).mean;
        let ratio = mbit / (share * PAYLOAD) * 100.0;
        table.row([(*name).to_owned(), format!("{mbit:.3} Mbit/s"), format!("{ratio:.1} %")]);
    }
    evidence.tables.push(table);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_of_the_paper_contradicts_its_figure() {
        let found = shares(&[0, 1, 2], Some(Bytes::new(64 << 10)));
        assert!((found[1] - 1.747_627).abs() < 1e-6, "{found:?}");
        assert!((found[0] - 1.5).abs() < 1e-9 && (found[2] - 0.5).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn the_example_is_exact() {
        let mut evidence = Evidence::default();
        solved(&mut evidence);
        assert_eq!(evidence.claims.len(), STATES.len());
        assert!(evidence.claims.iter().all(|claim| claim.holds), "{:?}", evidence.claims);
    }
}
