//! The properties of one direction of a link.

use std::sync::Arc;

use base::{Ratio, Span, Time};
use fabric::{Jitter, JitterShape, LinkConfig, Loss, Rate, Reorder, Trace};

use super::Compiler;
use crate::code::Code;
use crate::tree::{Table, Value};

impl Compiler<'_> {
    /// Changes `config` as the tables say, later ones before earlier ones; gives the queue that
    /// they ask for, for when rate and delay are settled.
    pub(super) fn properties<'t>(
        &mut self,
        config: &mut LinkConfig,
        tables: &[&'t Table],
    ) -> Option<&'t Value> {
        let mut queue = None;
        for table in tables {
            self.apply(config, table);
            queue = table.get("queue").or(queue);
        }
        queue
    }

    fn apply(&mut self, config: &mut LinkConfig, table: &Table) {
        if let (Some(rate), Some(trace)) = (table.entry("rate"), table.entry("trace")) {
            self.sink
                .report(Code::Conflict, &trace.key_at, "`trace` and `rate` exclude each other")
                .also(&rate.key_at, "the rate")
                .help("a trace says itself how fast the link is");
        }
        if let Some(rate) = table.bandwidth("rate") {
            config.rate = Rate::Constant(rate);
        }
        if let Some(trace) = table.get("trace").and_then(|value| self.trace(value)) {
            config.rate = Rate::Trace(trace);
        }
        if let Some(delay) = table.span("delay") {
            config.delay = delay;
        }
        if let Some(value) = table.get("jitter") {
            config.jitter = self.jitter(value);
        }
        if let Some(value) = table.get("loss") {
            config.loss = loss(value);
        }
        if let Some(reorder) = table.table("reorder") {
            let values = reorder.ratio("probability").zip(reorder.span("by"));
            config.reorder = values
                .filter(|(probability, _)| probability.is_positive())
                .map(|(probability, by)| Reorder { probability, by });
        }
        config.duplicate = table.ratio("duplicate").unwrap_or(config.duplicate);
        config.corrupt = table.ratio("corrupt").unwrap_or(config.corrupt);
    }

    fn trace(&mut self, value: &Value) -> Option<Arc<Trace>> {
        if let Some(path) = value.text() {
            return self.files.trace(path, &value.at, self.sink);
        }
        let table = value.table()?;
        let period = table.span("period")?;
        let moments = table.get("opportunities")?;
        let opportunities: Option<Vec<Span>> =
            moments.list()?.iter().map(|moment| moment.text()?.parse().ok()).collect();
        let opportunities = opportunities?;
        let last = opportunities.last().copied();
        if last.is_none_or(|last| last > period) || !opportunities.is_sorted() {
            self.sink
                .report(Code::BadTrace, &moments.at, "these are no opportunities")
                .help("at least one, not decreasing, the last not after `period`");
            return None;
        }
        Some(Arc::new(Trace { opportunities, period }))
    }

    fn jitter(&mut self, value: &Value) -> Option<Jitter> {
        if let Some(text) = value.text() {
            let deviation: Span = text.parse().ok()?;
            return deviation.is_positive().then_some(Jitter {
                shape: JitterShape::Normal { deviation },
                correlation: Ratio::ZERO,
            });
        }
        let table = value.table()?;
        let shape = match table.text("distribution")? {
            "normal" => JitterShape::Normal { deviation: table.span("deviation")? },
            "uniform" => JitterShape::Uniform { spread: table.span("spread")? },
            "pareto" => {
                let shape = table.number("shape").unwrap_or(2.5);
                let shape_milli = (shape * 1000.0).round() as u32;
                JitterShape::Pareto { mean: table.span("mean")?, shape_milli }
            }
            _ => JitterShape::Table(self.delays(table.get("table")?)?),
        };
        Some(Jitter { shape, correlation: table.ratio("correlation").unwrap_or(Ratio::ZERO) })
    }

    fn delays(&mut self, value: &Value) -> Option<Arc<Vec<Span>>> {
        if let Some(path) = value.text() {
            return self.files.delays(path, &value.at, self.sink);
        }
        let delays: Option<Vec<Span>> =
            value.list()?.iter().map(|delay| delay.text()?.parse().ok()).collect();
        let mut delays = delays?;
        if delays.len() < 2 {
            self.sink.report(Code::BadTrace, &value.at, "a distribution needs at least two delays");
            return None;
        }
        delays.sort_unstable();
        Some(Arc::new(delays))
    }

    /// A moment that must lie within the run.
    pub(super) fn moment(&mut self, table: &Table, key: &str) -> Option<Time> {
        let value = table.get(key)?;
        let span: Span = value.text()?.parse().ok()?;
        let duration = self.plan.duration;
        if span >= duration {
            let message = format!("this is not before the end of the run, at {duration}");
            let diagnostic = self.sink.report(Code::Schedule, &value.at, message);
            diagnostic.help("make `duration` in `[lab]` longer, or this sooner");
            let lab = self.input.root.table("lab");
            if let Some(duration) = lab.and_then(|lab| lab.get("duration")) {
                diagnostic.also(&duration.at, "the end");
            }
        }
        Some(Time::ZERO + span)
    }
}

fn loss(value: &Value) -> Loss {
    let bernoulli = |p: Ratio| if p.is_positive() { Loss::Bernoulli(p) } else { Loss::None };
    if let Some(text) = value.text() {
        return text.parse().map_or(Loss::None, bernoulli);
    }
    let Some(table) = value.table() else { return Loss::None };
    match (table.ratio("p"), table.ratio("r")) {
        (Some(p), Some(r)) => Loss::GilbertElliott {
            p,
            r,
            loss_good: table.ratio("loss_good").unwrap_or(Ratio::ZERO),
            loss_bad: table.ratio("loss_bad").unwrap_or(Ratio::ONE),
        },
        (Some(p), None) if table.text("model") == Some("bernoulli") => bernoulli(p),
        _ => Loss::None,
    }
}
