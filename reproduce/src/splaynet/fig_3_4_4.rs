//! Section 3.4.4: 150 nodes on an Internet-like topology, flows that come and go.

mod moments;
mod oracle;

use base::Span;
use lab::Overrides;
use lab::plan::Plan;
use run::sample::shares;
use run::{RunFolder, ShareSample};

use crate::paper::lab_file;
use crate::{
    Axis, Clock, Error, Evidence, Figure, Job, Line, Model, Plot, Result, Run, Stage, Style, Table,
    quantile,
};
use moments::{Achieved, Moment, achieved, changes, life, moments};

pub(super) const FIGURE: Figure = Figure {
    id: "3.4.4",
    title: "150 nodes on an Internet-like topology: shares after each change, notice delay",
    takes: "1 min",
    clocks: &[Clock::Wall, Clock::Virtual],
    files: &[lab_file!("splaynet/large.toml"), lab_file!("splaynet/large-short.toml")],
    make,
};

/// So long after a change all shares have to be the new ones.
const SETTLED: Span = Span::from_millis(100);
/// By how much they may be off.
const TOLERANCE: f64 = 0.01;
/// The paper's mean notice delay, ms.
const PAPER_NOTICE_MS: f64 = 7.36;

/// A run with its lab and what its flows had.
struct Observed<'a> {
    run: &'a Run,
    plan: Plan,
    samples: Vec<ShareSample>,
}

fn make(stage: &mut Stage<'_>) -> Result<Evidence> {
    let lab = stage.size("splaynet/large.toml", "splaynet/large-short.toml");
    let models = stage.models();
    let mut jobs = Vec::new();
    for clock in stage.clocks() {
        for model in &models {
            let job = Job::new(lab, "large", clock).model(*model);
            match model {
                // Flows ask for all they can get from their start: what each should get then
                // follows from the lab file alone.
                Model::Collapsed => jobs.push(job.set("lab.window", "off")),
                // It has no shares: it is here for its rates, and one clock will do.
                Model::Hop if clock == Clock::Virtual => jobs.push(job),
                Model::Hop => {}
            }
        }
    }
    let runs = stage.run(&jobs)?;
    let mut evidence = Evidence::default();
    let collapsed = runs.iter().filter(|run| run.model == Some(Model::Collapsed));
    let observed = collapsed.map(observe).collect::<Result<Vec<_>>>()?;
    let mut errors = Plot::new(
        "Largest error of a share, at samples at least 100 ms after the last change",
        Axis::linear("time in s"),
        Axis::log("relative error in %"),
    );
    for observed in &observed {
        notices(&mut evidence, observed);
        judge(&mut evidence, observed, &mut errors)?;
    }
    if let Some(first) = observed.first() {
        let at = |seconds: f64| (seconds, TOLERANCE * 100.0);
        let limit = Line::new("1 %", vec![at(0.0), at(first.run.record.elapsed_s)]);
        errors.lines.push(limit.style(Style::Reference));
        evidence.plots.push(errors);
        evidence.plots.push(population(&first.plan));
        achievements(&mut evidence, &observed, &runs)?;
    }
    Ok(evidence)
}

fn observe(run: &Run) -> Result<Observed<'_>> {
    let path = run.folder.file(RunFolder::RESOLVED_LAB);
    let lab = lab::load(&path, &Overrides::default());
    let missing = |what: &str| Error::Missing {
        run: run.folder.path().display().to_string(),
        what: what.to_owned(),
    };
    let plan = lab.ok().and_then(|lab| lab.plans.into_iter().next());
    let plan = plan.ok_or_else(|| missing("lab that can be read"))?;
    let file = run.folder.file(shares::FILE);
    if !file.is_file() {
        return Err(missing("table shares"));
    }
    let names: Vec<String> = plan.nodes.iter().map(|node| node.name.clone()).collect();
    let samples = shares::read(&file, &names)?;
    Ok(Observed { run, plan, samples })
}

/// How long it took from the packet that started or ended a flow to all shares in force.
fn notices(evidence: &mut Evidence, observed: &Observed<'_>) {
    let Some(delay) = &observed.run.record.notice_delay else { return };
    let ms = |ns: f64| ns / 1e6;
    let machines = match observed.run.record.cluster.as_ref().map(|c| c.members.len()) {
        None | Some(1) => "one machine".to_owned(),
        Some(count) => format!("{count} machines"),
    };
    let text = format!(
        "mean {:.3} ms, p99 {:.3} ms, max {:.3} ms over {} changes, {machines}",
        ms(delay.mean_ns),
        ms(delay.p99_ns as f64),
        ms(delay.max_ns as f64),
        delay.count
    );
    evidence.claim(
        format!(
            "from a packet that changes the flows to all shares in force ({})",
            label(observed)
        ),
        format!("mean {PAPER_NOTICE_MS} ms, 150 nodes on 60 machines"),
        text,
        ms(delay.mean_ns) <= PAPER_NOTICE_MS,
    );
}

/// The shares beside the oracle's.
fn judge(evidence: &mut Evidence, observed: &Observed<'_>, plot: &mut Plot) -> Result<()> {
    let found = moments(&observed.plan, &observed.samples, SETTLED).ok_or_else(|| {
        Error::Refused("the oracle cannot tell the shares of this lab".to_owned())
    })?;
    let label = label(observed);
    let live: usize = found.iter().map(|moment| moment.live).sum();
    let missing: usize = found.iter().map(|moment| moment.missing).sum();
    let draining: usize = found.iter().map(|moment| moment.draining).sum();
    let strange: usize = found.iter().map(|moment| moment.strange).sum();
    evidence.claim(
        format!("the flows that are live by the lab file have shares, and no others ({label})"),
        "every node knows all flows",
        format!("{missing} of {live} missing, {strange} too many, in {} samples", found.len()),
        live > 0 && missing == 0 && strange == 0,
    );
    if draining > 0 {
        evidence.note(format!(
            "{draining} shares of {label} belong to flows that had ended but whose last packets \
             were still in their queue: a flow counts until its FIN or RST has left."
        ));
    }
    let errors: Vec<f64> = found.iter().flat_map(|m| m.errors.iter().copied()).collect();
    let worst = errors.iter().copied().fold(0.0, f64::max);
    let tail = quantile(&errors, 0.99).unwrap_or(f64::INFINITY);
    evidence.claim(
        format!("shares 100 ms and more after a change, beside a solution from scratch ({label})"),
        "not printed; wanted: within 1 %",
        format!("max {} off, p99 {}, {} shares", percent(worst), percent(tail), errors.len()),
        !errors.is_empty() && worst <= TOLERANCE,
    );
    let demands: Vec<f64> = found.iter().flat_map(|m| m.demands.iter().copied()).collect();
    if let (Some(low), Some(mid), Some(high)) =
        (quantile(&demands, 0.01), quantile(&demands, 0.5), quantile(&demands, 0.99))
    {
        evidence.note(format!(
            "Flows of datagrams count with what they sent in the larger of two periods of 50 ms: \
             {mid:.2} times their true rate in the median, {low:.2} to {high:.2} times in 98 % \
             of the samples ({label}). The oracle takes the measured rates."
        ));
    }
    plot.lines.push(Line::new(label, found.iter().map(error_point).collect()).style(Style::Dots));
    Ok(())
}

/// Errors below a bit/s in a Mbit/s are rounding.
fn error_point(moment: &Moment) -> (f64, f64) {
    (moment.at, moment.worst().max(1e-8) * 100.0)
}

/// How many flows are live, and how many changes there were.
fn population(plan: &Plan) -> Plot {
    let mut live = Vec::new();
    for change in changes(plan) {
        let alive = plan.flows.iter().filter(|flow| {
            let (start, end) = life(flow, plan);
            start <= change && change < end
        });
        live.push((change.as_secs_f64(), alive.count() as f64));
    }
    let (x, y) = (Axis::linear("time in s"), Axis::linear("flows").from(0.0));
    let mut plot = Plot::new("Live flows", x, y);
    plot.lines.push(Line::new("TCP and UDP, one way", live).style(Style::Steps));
    plot
}

/// What TCP achieves beside its shares, in both models.
fn achievements(evidence: &mut Evidence, observed: &[Observed<'_>], runs: &[Run]) -> Result<()> {
    let heads = ["run", "flow seconds", "p10", "median", "p90", "all together"];
    let mut table =
        Table::new("TCP goodput as a part of what the flow's share has room for", &heads);
    let mut plot = Plot::new(
        "TCP goodput in whole seconds, as a part of the share's room",
        Axis::linear("goodput / (share × payload of a full segment)").from(0.0).to(2.0),
        Axis::linear("flow seconds in %"),
    );
    for run in runs {
        let own = observed.iter().find(|of| std::ptr::eq(of.run, run));
        let Some(shares) = own.or(observed.first()) else { continue };
        let mut rates = run.flow_rates(1.0)?;
        let flows = shares.plan.flows.iter();
        let goodput: Vec<_> =
            flows.map(|flow| rates.remove(&flow.name).unwrap_or_default()).collect();
        let found = achieved(&shares.plan, &shares.samples, &goodput);
        let sum = |of: fn(&Achieved) -> f64| found.iter().map(of).sum::<f64>();
        let together = sum(|of| of.goodput) / sum(|of| of.room);
        let parts: Vec<f64> = found.iter().map(|of| of.goodput / of.room).collect();
        let at = |q| quantile(&parts, q).unwrap_or(f64::NAN);
        let numbers = [at(0.1), at(0.5), at(0.9), together].map(|part| format!("{part:.3}"));
        table.row([run.label(), parts.len().to_string()].into_iter().chain(numbers));
        if run.model == Some(Model::Collapsed) {
            // What arrives in a second has left when shares were others, and larger while flows
            // become more: together they may pass what the second's shares have room for.
            evidence.claim(
                format!("TCP goodput beside the shares, from 1 s after a start ({})", run.label()),
                "flows get their share",
                format!(
                    "{:.1} % of what the shares have room for, median flow and second {:.1} %",
                    together * 100.0,
                    at(0.5) * 100.0
                ),
                (0.9..=1.08).contains(&together) && (0.9..=1.05).contains(&at(0.5)),
            );
        }
        plot.lines.push(Line::new(run.label(), crate::cdf(&parts)));
    }
    if runs.iter().any(|run| run.model == Some(Model::Hop)) {
        evidence.note(
            "The packet model is set beside the shares of the collapsed one. There, CUBIC's flows \
             find their rates at drop-tail queues: flows over several crowded links, or with long \
             round trips, get less than the model says, others more.",
        );
    }
    evidence.plots.push(plot);
    evidence.tables.push(table);
    Ok(())
}

fn label(observed: &Observed<'_>) -> String {
    observed.run.label()
}

fn percent(part: f64) -> String {
    match part * 100.0 {
        small if small < 0.001 => "less than 0.001 %".to_owned(),
        some => format!("{some:.3} %"),
    }
}
