//! Two runs of a lab, number by number.

use std::collections::BTreeMap;
use std::fmt;

use base::Distribution;
use record::RunRecord;
use record::run::{Clock, RunOutcome};

use crate::format;

/// What changed between two runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// Numbers that both runs have.
    pub changes: Vec<Change>,
    /// What only the first run has.
    pub only_first: Vec<String>,
    /// What only the second run has.
    pub only_second: Vec<String>,
    /// Why the numbers may not compare: other seeds, plans, clocks or verdicts.
    pub notes: Vec<String>,
    /// What stands above the numbers of the first and of the second run.
    heads: [String; 2],
}

/// One number in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Which, as an expectation names it: `flow.a-b.goodput.mean`.
    pub metric: String,
    /// In the first run, in the metric's base unit (bit/s, s, or a count).
    pub first: f64,
    /// In the second run.
    pub second: f64,
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Rate,
    Seconds,
    Count,
    Share,
    Data,
    Times,
}

impl Change {
    /// The change relative to the first run; infinite where that was zero and this is not.
    pub fn relative(&self) -> f64 {
        if self.first.total_cmp(&self.second).is_eq() {
            0.0
        } else if self.first == 0.0 {
            f64::INFINITY.copysign(self.second)
        } else {
            (self.second - self.first) / self.first.abs()
        }
    }

    fn text(&self, value: f64) -> String {
        match self.unit {
            Unit::Rate => format::rate(value),
            Unit::Seconds => format::seconds(value),
            Unit::Count => format::count(value as u64),
            Unit::Share => format::share(value),
            Unit::Data => format::bytes(value as u64),
            Unit::Times => format::times(value),
        }
    }
}

impl Diff {
    /// The changes larger than a share (0.05 is 5 %) of the first run's value.
    pub fn beyond(&self, tolerance: f64) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |c| c.relative().abs() > tolerance)
    }
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.changes.iter().map(|c| c.metric.chars().count()).max().unwrap_or(0);
        let [first, second] = &self.heads;
        writeln!(f, "{:width$}  {first:>14}  {second:>14}  {:>12}", "", "change")?;
        for change in &self.changes {
            let relative = change.relative();
            let relative = if relative.abs() < 0.000_5 {
                "0 %".to_owned()
            } else if relative.is_finite() {
                format!("{:+.1} %", relative * 100.0)
            } else {
                "from nothing".to_owned()
            };
            let (first, second) = (change.text(change.first), change.text(change.second));
            writeln!(f, "{:width$}  {first:>14}  {second:>14}  {relative:>12}", change.metric)?;
        }
        for (which, names) in [("first", &self.only_first), ("second", &self.only_second)] {
            for name in names {
                writeln!(f, "{name}: in the {which} run only")?;
            }
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

type Metrics = BTreeMap<String, (f64, Unit)>;

fn quantiles(out: &mut Metrics, name: &str, distribution: Option<&Distribution>) {
    let Some(d) = distribution else { return };
    for (quantile, ns) in [("p50", d.p50_ns), ("p99", d.p99_ns)] {
        out.insert(format!("{name}.{quantile}"), (ns as f64 / 1e9, Unit::Seconds));
    }
}

fn metrics(record: &RunRecord) -> Metrics {
    let mut out = Metrics::new();
    for flow in &record.flows {
        let name = |metric: &str| format!("flow.{}.{metric}", flow.name);
        out.insert(name("goodput.mean"), (flow.goodput_bit_per_s, Unit::Rate));
        if let Some(s) = flow.completion_s {
            out.insert(name("completion"), (s, Unit::Seconds));
        }
        let counts = [
            ("retransmits.sum", flow.retransmits),
            ("timeouts", flow.timeouts),
            ("transfers", flow.transfers_completed),
            ("loss.sum", flow.lost_datagrams),
            ("responses.sum", flow.responses),
        ];
        for (metric, value) in counts {
            out.extend(value.map(|v| (name(metric), (v as f64, Unit::Count))));
        }
        quantiles(&mut out, &name("rtt"), flow.rtt.as_ref());
        quantiles(&mut out, &name("delay"), flow.delay.as_ref());
        quantiles(&mut out, &name("latency"), flow.latency.as_ref());
        quantiles(&mut out, &name("completion"), flow.completion.as_ref());
        if let Some(slowdown) = flow.slowdown {
            let values = [("mean", slowdown.mean), ("p50", slowdown.p50), ("p99", slowdown.p99)];
            for (statistic, value) in values {
                out.insert(name(&format!("slowdown.{statistic}")), (value, Unit::Times));
            }
        }
    }
    for link in record.links.iter().filter(|l| l.sent_packets + l.dropped() > 0) {
        let name = |metric: &str| format!("link.{}.{}.{metric}", link.name, link.direction);
        out.insert(name("throughput.mean"), (link.throughput_bit_per_s, Unit::Rate));
        out.insert(name("drops.sum"), (link.dropped() as f64, Unit::Count));
        out.insert(name("marks.sum"), (link.marks as f64, Unit::Count));
        out.insert(name("queue.max"), (link.queue_max_bytes as f64, Unit::Data));
        if let Some(share) = link.utilisation {
            out.insert(name("utilisation.mean"), (share, Unit::Share));
        }
        quantiles(&mut out, &name("delay"), link.queue_delay.as_ref());
    }
    for bundle in &record.bundles {
        let name = |metric: &str| format!("bundle.{}.{metric}", bundle.name);
        out.insert(name("throughput.mean"), (bundle.throughput_bit_per_s, Unit::Rate));
        out.extend(bundle.rate_bit_per_s.map(|rate| (name("rate.mean"), (rate, Unit::Rate))));
        let queueing = bundle.queueing_mean_ns.map(|ns| (ns / 1e9, Unit::Seconds));
        out.extend(queueing.map(|value| (name("queueing.mean"), value)));
        out.insert(name("waiting.mean"), (bundle.waiting_mean_ns / 1e9, Unit::Seconds));
        out.insert(name("backlog.mean"), (bundle.backlog_mean_bytes, Unit::Data));
        out.insert(name("drops"), (bundle.dropped_packets as f64, Unit::Count));
        out.insert(name("transitions"), (bundle.transitions.len() as f64, Unit::Count));
        let times = bundle.time.iter();
        out.extend(
            times.map(|(state, share)| (name(&format!("time.{state}")), (*share, Unit::Share))),
        );
    }
    if let Some(d) = record.lateness.distribution {
        out.insert("run.lateness.p999".to_owned(), (d.p999_ns as f64 / 1e9, Unit::Seconds));
    }
    out.insert("run.duration".to_owned(), (record.elapsed_s, Unit::Seconds));
    out
}

pub(crate) fn compare(a: &RunRecord, b: &RunRecord) -> Diff {
    let (mut first, mut second) = (metrics(a), metrics(b));
    let mut diff = Diff { heads: ["first", "second"].map(str::to_owned), ..Diff::default() };
    if a.clock != b.clock {
        let clock = |record: &RunRecord| match record.clock {
            Clock::Wall => "wall clock".to_owned(),
            Clock::Virtual => "virtual clock".to_owned(),
        };
        diff.heads = [a, b].map(clock);
        // Only a machine is late.
        for metrics in [&mut first, &mut second] {
            metrics.retain(|metric, _| !metric.starts_with("run.lateness"));
        }
    }
    for (metric, (value, unit)) in &first {
        match second.get(metric) {
            Some((other, _)) => diff.changes.push(Change {
                metric: metric.clone(),
                first: *value,
                second: *other,
                unit: *unit,
            }),
            None => diff.only_first.push(metric.clone()),
        }
    }
    diff.only_second = second.into_keys().filter(|m| !first.contains_key(m)).collect();
    if a.plan_hash != b.plan_hash {
        diff.notes.push("the labs differ (plan hashes are not equal)".to_owned());
    }
    if a.seed != b.seed {
        diff.notes.push(format!("the seeds differ: {} and {}", a.seed, b.seed));
    }
    for (which, record) in [("first", a), ("second", b)] {
        let outcome = record.conclusion().map(|conclusion| conclusion.outcome);
        if outcome != Some(RunOutcome::Passed) {
            let word = outcome.map_or("still running", RunOutcome::as_str);
            diff.notes.push(format!("outcome of the {which} run: {word}"));
        }
    }
    diff
}
