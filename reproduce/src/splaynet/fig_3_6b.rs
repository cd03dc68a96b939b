//! Figure 3.6b: round trips of remote procedure calls.

use crate::paper::lab_file;
use crate::{
    Axis, Clock, Evidence, Figure, Job, Line, Model, Plot, Result, Run, Stage, Table, cdf, quantile,
};

pub(super) const FIGURE: Figure = Figure {
    id: "3.6b",
    title: "round trips of remote procedure calls over links of 10 to 100 ms",
    takes: "1 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("splaynet/rpc.toml")],
    make,
};

/// Delays of each of the two links, in milliseconds.
const DELAYS_MS: [u32; 5] = [10, 25, 50, 75, 100];

/// The round trips of one run, and what they should be.
struct Calls {
    run: Run,
    round_trip_ms: f64,
    measured_ms: Vec<f64>,
}

impl Calls {
    fn deviations_us(&self) -> impl Iterator<Item = f64> + '_ {
        self.measured_ms.iter().map(|ms| (ms - self.round_trip_ms) * 1e3)
    }

    fn deviations_percent(&self) -> impl Iterator<Item = f64> + '_ {
        self.measured_ms.iter().map(|ms| (ms / self.round_trip_ms - 1.0) * 100.0)
    }
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let count = stage.size(100, 10).to_string();
    let settings = stage.settings();
    let mut jobs = Vec::new();
    for (clock, model) in &settings {
        for delay in DELAYS_MS {
            let text = format!("{delay} ms");
            let job = Job::new("splaynet/rpc.toml", format!("rpc-{delay}ms"), *clock);
            let job = job.model(*model).set("flow.call.count", count.as_str());
            jobs.push(job.set("link.near.delay", text.as_str()).set("link.far.delay", text));
        }
    }
    // They send a packet now and then: the machine hardly notices them all.
    let runs = stage.run_together(&jobs)?;
    let delays = settings.iter().flat_map(|_| DELAYS_MS);
    let calls: Result<Vec<Calls>> = runs.into_iter().zip(delays).map(calls).collect();
    Ok(evidence(&settings, &calls?))
}

fn calls((run, delay_ms): (Run, u32)) -> Result<Calls> {
    let measured_ms = run.round_trips("call")?.into_iter().map(|s| s * 1e3).collect();
    Ok(Calls { run, round_trip_ms: 4.0 * f64::from(delay_ms), measured_ms })
}

fn evidence(settings: &[(Clock, Model)], calls: &[Calls]) -> Evidence {
    let mut evidence = Evidence::default();
    let share = || Axis::linear("% of calls").from(0.0).to(100.0);
    let mut pooled = Plot::new(
        "Deviation from the round trip",
        Axis::linear("measured less the paths' delays, in µs"),
        share(),
    );
    "All five round trips together, as far as the 5 ms that the paper allows"
        .clone_into(&mut pooled.note);
    let largest = calls.iter().flat_map(Calls::deviations_us).fold(0.0, f64::max);
    pooled.x.to = (largest > 5000.0).then_some(5000.0);
    let heads = ["run", "round trip", "calls", "p50 µs", "p99 µs", "max µs", "max %"];
    let mut table = Table::new("Deviation from the round trip", &heads);
    let mut relative = Vec::new();
    for (clock, model) in settings {
        let label = crate::run::label(*clock, Some(*model));
        let of = |calls: &&Calls| calls.run.clock == *clock && calls.run.model == Some(*model);
        let of: Vec<&Calls> = calls.iter().filter(of).collect();
        let all: Vec<f64> = of.iter().flat_map(|calls| calls.deviations_us()).collect();
        pooled.lines.push(Line::new(label.clone(), cdf(&all)));
        for calls in &of {
            table.row(row(&label, calls));
        }
        claims(&mut evidence, &label, &of);
        if all.iter().all(|us| us.abs() < 1.0) {
            // Upright lines at zero show nothing more.
            continue;
        }
        let mut plot = Plot::new(
            format!("Deviation by round trip ({label})"),
            Axis::linear("deviation in %"),
            share(),
        );
        for calls in &of {
            let percent: Vec<f64> = calls.deviations_percent().collect();
            plot.lines.push(Line::new(format!("{} ms", calls.round_trip_ms), cdf(&percent)));
        }
        relative.push(plot);
    }
    evidence.plots.push(pooled);
    evidence.plots.append(&mut relative);
    evidence.tables.push(table);
    evidence.note(
        "On the wall clock a call also takes what two kernels and the programs at both ends take; \
         on the virtual clock those take no time.",
    );
    evidence
}

fn row(label: &str, calls: &Calls) -> Vec<String> {
    let us: Vec<f64> = calls.deviations_us().collect();
    let percent = calls.deviations_percent().fold(0.0, |most: f64, p| most.max(p.abs()));
    let at = |share| quantile(&us, share).map_or("–".to_owned(), |us| format!("{us:.1}"));
    vec![
        label.to_owned(),
        format!("{} ms", calls.round_trip_ms),
        us.len().to_string(),
        at(0.5),
        at(0.99),
        at(1.0),
        format!("{percent:.4}"),
    ]
}

fn claims(evidence: &mut Evidence, label: &str, of: &[&Calls]) {
    let most = |values: &mut dyn Iterator<Item = f64>| {
        // Nothing measured bears out nothing.
        values.map(f64::abs).max_by(f64::total_cmp).unwrap_or(f64::INFINITY)
    };
    let us: Vec<f64> = of.iter().flat_map(|calls| calls.deviations_us()).collect();
    let percent = most(&mut of.iter().flat_map(|calls| calls.deviations_percent()));
    let largest = most(&mut us.iter().copied());
    let at = |share| quantile(&us, share).unwrap_or(f64::NAN);
    evidence.claim(
        format!("off the round trip, as a share of it ({label})"),
        "never more than 10 %",
        format!("{percent:.3} % at most"),
        percent <= 10.0,
    );
    evidence.claim(
        format!("off the round trip ({label})"),
        "never more than 5 ms",
        format!("p50 {:.0} µs, p99 {:.0} µs, {largest:.0} µs at most", at(0.5), at(0.99)),
        largest <= 5000.0,
    );
    let long = of.iter().filter(|calls| calls.round_trip_ms >= 200.0);
    let long = most(&mut long.flat_map(|calls| calls.deviations_percent()));
    evidence.claim(
        format!("off round trips of 200 ms and above ({label})"),
        "within 2 %",
        format!("{long:.3} % at most"),
        long <= 2.0,
    );
}
