//! Figure 5: how accurate the boxes' estimates of round trip and rate are.

use base::Direction;

use super::boxes::{Moment, course, queue};
use super::{bundler, runs, slowdowns};
use crate::paper::lab_file;
use crate::{Axis, Clock, Evidence, Figure, Line, Plot, Result, Run, Stage, Table, cdf, quantile};

pub(super) const FIGURE: Figure = Figure {
    id: "accuracy",
    title: "figure 5: estimates of round trip and rate on 90 traces",
    takes: "3 min",
    clocks: &[Clock::Virtual],
    files: &[lab_file!("bundler/requests.toml")],
    make,
};

const RATES: [f64; 3] = [24.0, 48.0, 96.0];
const ROUND_TRIPS: [f64; 3] = [20.0, 50.0, 100.0];
/// 80 % of the paper's estimates are so near.
const RTT_MS: f64 = 1.2;
const RATE_MBITS: f64 = 4.0;
/// When the first of a run's samples is taken, in seconds.
const SETTLED: f64 = 5.0;

/// Differences of estimates from the truth.
#[derive(Default)]
struct Errors {
    /// In ms.
    rtt: Vec<f64>,
    /// In Mbit/s.
    rate: Vec<f64>,
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let seconds = stage.size(30.0, 10.0);
    let mut cases = Vec::new();
    let grid: Vec<(f64, f64)> =
        RATES.iter().flat_map(|rate| ROUND_TRIPS.iter().map(move |rtt| (*rate, *rtt))).collect();
    for (rate, rtt) in &grid {
        cases.push(
            bundler()
                .called(&format!("{rate}-{rtt}"))
                .set("link.bottleneck.rate", format!("{rate} Mbit/s"))
                .set("link.bottleneck.delay", format!("{} ms", rtt / 2.0))
                .set("lab.duration", format!("{seconds} s"))
                .set("lab.interval", "5 ms"),
        );
    }
    let seeds = stage.size(10, 3);
    let all = runs(stage, slowdowns::LAB, &cases, seeds)?;
    let mut errors = Errors::default();
    let heads =
        ["rate, round trip", "round trip: 10 %", "50 %", "90 %", "rate: 10 %", "50 %", "90 %"];
    let mut table = Table::new("Estimate less truth, in ms and Mbit/s", &heads);
    for ((rate, rtt), runs) in grid.iter().zip(&all) {
        let mut own = Errors::default();
        for run in runs {
            measure(run, *rate, *rtt, &mut own)?;
        }
        row(&mut table, format!("{rate} Mbit/s, {rtt} ms"), &own);
        errors.rtt.append(&mut own.rtt);
        errors.rate.append(&mut own.rate);
    }
    row(&mut table, "all".to_owned(), &errors);
    table.row(["paper, all", "−1.20", "", "0.65", "−2.00", "", "3.60"]);
    let mut evidence = Evidence::default();
    claims(&mut evidence, &errors, cases.len() as u64 * seeds);
    for (title, values, unit) in [
        ("Error of the round trip", &errors.rtt, "estimate less truth in ms"),
        ("Error of the rate", &errors.rate, "estimate less truth in Mbit/s"),
    ] {
        let points = cdf(values);
        let step = (points.len() / 400).max(1);
        let points = points.into_iter().step_by(step).collect();
        let y = Axis::linear("% of estimates").from(0.0).to(100.0);
        let plot = Plot::new(title, Axis::linear(unit).from(-10.0).to(10.0), y);
        evidence.plots.push(plot.line(Line::new("here", points)));
    }
    evidence.tables.push(table);
    evidence.note(
        "The truth of a round trip is the propagation delay and the time that the bottleneck \
         needed for what waited there when the acknowledged packet came; of a rate, what the \
         bottleneck sent in the round trip before. Samples are taken each 5 ms, whatever the \
         boxes did in between; the queue is known each 5 ms as well.",
    );
    Ok(evidence)
}

/// Compares each sample of the bundle with what the bottleneck says.
fn measure(run: &Run, rate: f64, rtt: f64, errors: &mut Errors) -> Result<()> {
    let waits = queue(run, "bottleneck", rate)?;
    let sent = run.link_rate("bottleneck", Direction::Up, 0.005)?;
    for moment in course(run, "site")? {
        if moment.at < SETTLED || !moment.rtt_ms.is_finite() {
            continue;
        }
        // Propagation is all at the bottleneck: a packet waits there as soon as it is sent.
        let then = moment.at - moment.rtt_ms / 1e3;
        let Some(wait) = at(&waits, then) else { continue };
        errors.rtt.push(moment.rtt_ms - rtt - wait);
        if moment.receive_rate.is_finite()
            && let Some(truth) = rate_before(&sent, &moment, rtt)
        {
            errors.rate.push(moment.receive_rate - truth);
        }
    }
    Ok(())
}

/// Between the two samples around a time.
fn at(points: &[(f64, f64)], time: f64) -> Option<f64> {
    let next = points.partition_point(|(at, _)| *at < time);
    let (after, before) = (points.get(next)?, points.get(next.checked_sub(1)?)?);
    let share = (time - before.0) / (after.0 - before.0);
    Some(before.1 + (after.1 - before.1) * share)
}

/// What the bottleneck sent in the round trip that the receivebox saw when its acknowledgement
/// left, in Mbit/s.
fn rate_before(sent: &[(f64, f64)], moment: &Moment, rtt: f64) -> Option<f64> {
    // The way to the receivebox and back.
    let until = moment.at - rtt / 1e3;
    let from = until - moment.rtt_ms / 1e3;
    let last = sent.partition_point(|(middle, _)| *middle <= until);
    let first = sent.partition_point(|(middle, _)| *middle <= from);
    let within = sent.get(first..last).filter(|within| !within.is_empty())?;
    Some(within.iter().map(|(_, rate)| rate / 1e6).sum::<f64>() / within.len() as f64)
}

fn row(table: &mut Table, label: String, errors: &Errors) {
    let mut cells = vec![label];
    for values in [&errors.rtt, &errors.rate] {
        let of = |share| format!("{:.2}", quantile(values, share).unwrap_or(f64::NAN));
        cells.extend([0.1, 0.5, 0.9].map(of));
    }
    table.row(cells);
}

fn claims(evidence: &mut Evidence, errors: &Errors, traces: u64) {
    for (what, values, near, unit) in
        [("round trip", &errors.rtt, RTT_MS, "ms"), ("rate", &errors.rate, RATE_MBITS, "Mbit/s")]
    {
        let amounts: Vec<f64> = values.iter().map(|value| value.abs()).collect();
        let ours = quantile(&amounts, 0.8).unwrap_or(f64::INFINITY);
        evidence.claim(
            format!("80 % of the estimates of {what}, {traces} traces"),
            format!("within {near} {unit}"),
            format!("within {ours:.2} {unit}, of {} estimates", amounts.len()),
            ours <= near,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_is_interpolated() {
        let points = [(1.0, 10.0), (2.0, 20.0)];
        assert_eq!(at(&points, 1.5), Some(15.0));
        assert_eq!((at(&points, 0.5), at(&points, 2.5)), (None, None));
    }

    #[test]
    fn rates_are_those_of_the_round_trip_before() {
        let moment = Moment {
            rtt_ms: 1000.0,
            receive_rate: 5.0,
            ..super::super::boxes::tests::moment(3.0, "delay")
        };
        let sent = [(0.5, 1e6), (1.5, 2e6), (2.5, 9e6)];
        assert_eq!(rate_before(&sent, &moment, 1000.0), Some(2.0));
    }
}
