//! Plots, tables and claims on errors that several figures have.

use super::course::{Course, Moment, Spread, bottleneck};
use crate::{Axis, Evidence, Line, Plot, Style, Table};

/// How much less accurate than BFYZ SLBN may be at any time, in points.
const BESIDE: f64 = 2.0;
/// By how much bottlenecks may be over their capacity in the mean, in %.
const OVER: f64 = 5.0;

/// Which errors a plot shows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Where {
    Sources,
    Bottlenecks,
}

impl Where {
    fn of(self, moment: &Moment) -> Option<Spread> {
        match self {
            Self::Sources => moment.source,
            Self::Bottlenecks => moment.bottleneck,
        }
    }
}

/// Errors over time as the paper draws them: for each protocol the mean, and a band from the 10th
/// to the 90th percentile. `within` cuts the axis.
pub(super) fn plot(
    title: impl Into<String>,
    courses: &[&Course],
    whose: Where,
    within: Option<(f64, f64)>,
    times: (f64, f64),
) -> Plot {
    let what = match whose {
        Where::Sources => "error at sources in %",
        Where::Bottlenecks => "error at bottlenecks in %",
    };
    let y = within.map_or(Axis::linear(what), |(from, to)| Axis::linear(what).from(from).to(to));
    let x = Axis::linear("time in s").from(times.0).to(times.1);
    let mut plot = Plot::new(title, x, y);
    "Lines are means, bands reach from the 10th to the 90th percentile.".clone_into(&mut plot.note);
    for course in courses {
        let samples = course.between(times.0, times.1);
        let samples: Vec<(f64, Option<Spread>)> =
            samples.map(|moment| (moment.at, whose.of(moment))).collect();
        let value =
            |spread: &Option<Spread>, pick: fn(Spread) -> f64| spread.map_or(f64::NAN, pick);
        let points = samples.iter().map(|(at, s)| (*at, value(s, |s| s.mean))).collect();
        let ends = samples.iter().map(|(_, s)| (value(s, |s| s.low), value(s, |s| s.high)));
        plot.lines.push(Line::new(&course.label, points).spread(ends.collect()));
    }
    let exact = Line::new("exact", vec![(times.0, 0.0), (times.1, 0.0)]);
    plot.line(exact.style(Style::Reference))
}

/// Any value over time, a line for each run.
pub(super) fn over_time(
    title: &str,
    y: Axis,
    courses: &[&Course],
    value: fn(&Moment) -> f64,
) -> Plot {
    let mut plot = Plot::new(title, Axis::linear("time in s"), y);
    for course in courses {
        let points = course.moments.iter().map(|moment| (moment.at, value(moment))).collect();
        plot.lines.push(Line::new(&course.label, points));
    }
    plot
}

/// A spread as `8.5 (-11.0, 30.0)`.
pub(super) fn cell(spread: Option<Spread>) -> String {
    spread.map_or("–".to_owned(), |s| format!("{:.1} ({:.1}, {:.1})", s.mean, s.low, s.high))
}

/// Errors at chosen moments, a row for each and each run.
pub(super) fn table(courses: &[&Course], times: &[f64]) -> Table {
    let heads = [
        "time",
        "protocol",
        "sessions",
        "sources",
        "mean amount",
        "bottlenecks",
        "over 5 %",
        "largest queue",
    ];
    let title = "Errors in %: mean (10th, 90th percentile); the share of bottlenecks more than 5 % \
                 over; the largest queue since the last sample, in packets";
    let mut table = Table::new(title, &heads);
    for time in times {
        for course in courses {
            let Some(moment) = course.at(*time) else { continue };
            let percent =
                |value: Option<f64>| value.map_or("–".to_owned(), |v| format!("{v:.2}"));
            table.row([
                format!("{} ms", (moment.at * 1e3).round()),
                course.label.clone(),
                moment.sessions.to_string(),
                cell(moment.source),
                percent(moment.source.map(|spread| spread.amount)),
                cell(moment.bottleneck),
                percent(moment.over),
                moment.queue.to_string(),
            ]);
        }
    }
    table
}

/// SLBN's errors are no larger than those of a protocol that knows every session.
pub(super) fn as_accurate(evidence: &mut Evidence, slbn: &Course, bfyz: &Course) {
    let Some((at, mine, theirs)) = slbn.worst_beside(bfyz) else { return };
    evidence.claim(
        "mean amount of the errors at sources, SLBN beside BFYZ, at every sample",
        format!("as accurate as BFYZ (here: at most {BESIDE} points more)"),
        format!(
            "at most {:+.2} points, {mine:.2} beside {theirs:.2} % at {at:.2} s",
            mine - theirs
        ),
        mine - theirs <= BESIDE,
    );
}

/// Links are not given away twice.
pub(super) fn not_over(evidence: &mut Evidence, course: &Course, times: (f64, f64), paper: &str) {
    let samples = course.between(times.0, times.1);
    let worst = samples.filter_map(|moment| Some((moment.at, bottleneck(moment)?)));
    let Some((at, most)) = worst.max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
    evidence.claim(
        format!("rates at bottlenecks over their capacity, in the mean ({})", course.label),
        format!("{paper} (here: at most {OVER} %)"),
        format!("at most {most:+.2} %, at {at:.2} s"),
        most <= OVER,
    );
}

/// What each run took.
pub(super) fn cost(courses: &[&Course]) -> Table {
    let heads = [
        "run",
        "sessions",
        "events",
        "time",
        "events/s",
        "oracle",
        "memory",
        "bytes a session",
        "control",
        "numbers a link",
        "bytes a link",
        "bytes a packet",
    ];
    let title = "What it took: time of the simulation and, within it, of the exact rates that it \
                 is measured by; memory of the process; control's share of all bytes; state";
    let mut table = Table::new(title, &heads);
    for Course { label, sum, cost, .. } in courses {
        let memory = cost.peak_memory_bytes;
        table.row([
            label.clone(),
            sum.joined.to_string(),
            format!("{:.1} M", cost.events as f64 / 1e6),
            format!("{:.1} s", cost.wall_s),
            format!("{:.1} M", cost.events_per_s / 1e6),
            format!("{:.1} s", sum.oracle_s),
            memory
                .map_or("–".to_owned(), |b| format!("{:.2} GiB", b as f64 / f64::from(1 << 30))),
            format!("{:.0}", sum.session_bytes),
            format!("{:.2} %", sum.control_share * 100.0),
            format!("{:.1}, at most {}", sum.link_numbers_mean, sum.link_numbers_max),
            format!("{:.0}, at most {}", sum.link_bytes_mean, sum.link_bytes_max),
            sum.packet_bytes.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::course::tests::course;
    use super::*;

    #[test]
    fn claims_read_what_was_measured() {
        let slbn = course("SLBN", &[(5.0, 1.0, 0), (7.0, 4.9, 0)]);
        let bfyz = course("BFYZ", &[(4.0, 1.0, 0), (5.5, 5.1, 0)]);
        let mut evidence = Evidence::default();
        as_accurate(&mut evidence, &slbn, &bfyz);
        not_over(&mut evidence, &slbn, (0.0, 1.0), "never");
        not_over(&mut evidence, &bfyz, (0.0, 1.0), "never");
        not_over(&mut evidence, &bfyz, (0.0, 0.1), "never");
        let holds: Vec<bool> = evidence.claims.iter().map(|claim| claim.holds).collect();
        assert_eq!(holds, [true, true, false, true]);
        assert!(evidence.claims[0].ours.contains("+1.50 points"), "{}", evidence.claims[0].ours);
        as_accurate(&mut evidence, &course("SLBN", &[(9.0, 0.0, 0)]), &bfyz);
        assert!(!evidence.claims[4].holds);
    }

    #[test]
    fn plots_have_bands_and_end_where_they_are_cut() {
        let slbn = course("SLBN", &[(5.0, 1.0, 0), (7.0, 4.9, 0)]);
        let plot = plot("a", &[&slbn], Where::Bottlenecks, None, (0.1, 0.2));
        assert_eq!(plot.lines[0].points, [(0.2, 4.9)]);
        assert!((plot.lines[0].spread[0].1 - 9.9).abs() < 1e-9);
    }
}
