//! The properties of one direction of a link.

use std::iter;
use std::sync::Arc;

use base::{Direction, Ratio, Span, Time};
use fabric::{Jitter, JitterShape, LinkConfig, Loss, Rate, Reorder, Trace};

use super::Compiler;
use super::queue::UNLIMITED;
use crate::code::Code;
use crate::fields::{
    BERNOULLI, DIRECTION, GILBERT_ELLIOTT, JITTER, JITTER_KINDS, JITTER_TABLE, Kind, LAB, LINK,
    LOSS_KINDS, NORMAL_JITTER, OPPORTUNITIES, PARETO_JITTER, REORDER, UNIFORM_JITTER,
};
use crate::tree::{Table, Value};

impl Compiler<'_> {
    /// Applies the tables to `config`, later ones with priority; returns the queue that they
    /// describe, which the caller compiles once rate and delay are known.
    pub(super) fn properties<'t>(
        &mut self,
        config: &mut LinkConfig,
        tables: &[&'t Table],
    ) -> Option<&'t Value> {
        let mut queue = None;
        for table in tables {
            self.apply(config, table);
            queue = table.get(DIRECTION.queue).or(queue);
        }
        queue
    }

    fn apply(&mut self, config: &mut LinkConfig, table: &Table) {
        if let (Some(rate), Some(trace)) =
            (table.entry(DIRECTION.rate), table.entry(DIRECTION.trace))
        {
            self.sink
                .report(Code::Conflict, &trace.key_at, "`trace` and `rate` exclude each other")
                .also(&rate.key_at, "the rate")
                .help("the trace already sets the rate of the link");
        }
        match table.get(DIRECTION.rate).and_then(Value::text) {
            Some(UNLIMITED) => config.rate = Rate::Unlimited,
            Some(text) => {
                config.rate = text.parse().map_or(config.rate.clone(), Rate::Constant);
            }
            None => {}
        }
        if let Some(trace) = table.get(DIRECTION.trace).and_then(|value| self.trace(value)) {
            config.rate = Rate::Trace(trace);
        }
        config.delay = table.given(DIRECTION.delay).unwrap_or(config.delay);
        if let Some(value) = table.get(DIRECTION.jitter) {
            config.jitter = self.jitter(value);
        }
        if let Some(value) = table.get(DIRECTION.loss) {
            config.loss = loss(value);
        }
        if let Some(reorder) = table.read(DIRECTION.reorder) {
            let values = reorder.read(REORDER.probability).zip(reorder.read(REORDER.by));
            config.reorder = values
                .filter(|(probability, _)| probability.is_positive())
                .map(|(probability, by)| Reorder { probability, by });
        }
        config.duplicate = table.given(DIRECTION.duplicate).unwrap_or(config.duplicate);
        config.corrupt = table.given(DIRECTION.corrupt).unwrap_or(config.corrupt);
    }

    fn trace(&mut self, value: &Value) -> Option<Arc<Trace>> {
        if let Some(path) = value.text() {
            return self.files.trace(path, &value.at, self.sink);
        }
        let table = value.table()?;
        let period = table.read(OPPORTUNITIES.period)?;
        let opportunities = table.read(OPPORTUNITIES.opportunities)?;
        let last = opportunities.last().copied();
        if last.is_none_or(|last| last > period) || !opportunities.is_sorted() {
            self.sink
                .report(
                    Code::BadTrace,
                    &table.get(OPPORTUNITIES.opportunities)?.at,
                    "invalid delivery opportunities",
                )
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
                correlation: JITTER.correlation.default(),
                keep_order: JITTER.keep_order.default(),
            });
        }
        let table = value.table()?;
        let shape = match table.text(JITTER_KINDS.key)? {
            "normal" => JitterShape::Normal { deviation: table.read(NORMAL_JITTER.deviation)? },
            "uniform" => JitterShape::Uniform { spread: table.read(UNIFORM_JITTER.spread)? },
            "pareto" => {
                let shape = table.read(PARETO_JITTER.shape);
                let shape_milli = (shape * 1000.0).round() as u32;
                JitterShape::Pareto { mean: table.read(PARETO_JITTER.mean)?, shape_milli }
            }
            _ => JitterShape::Table(self.delays(table.get(JITTER_TABLE.table)?)?),
        };
        let correlation = table.read(JITTER.correlation);
        Some(Jitter { shape, correlation, keep_order: table.read(JITTER.keep_order) })
    }

    fn delays(&mut self, value: &Value) -> Option<Arc<Vec<Span>>> {
        if let Some(path) = value.text() {
            return self.files.delays(path, &value.at, self.sink);
        }
        let mut delays = Vec::<Span>::read(value)?;
        if delays.len() < 2 {
            self.sink.report(Code::BadTrace, &value.at, "a distribution needs at least two delays");
            return None;
        }
        delays.sort_unstable();
        Some(Arc::new(delays))
    }

    /// A time that must lie within the run.
    pub(super) fn moment(&mut self, value: &Value) -> Option<Time> {
        let span = Span::read(value)?;
        let (lab, duration) = (self.lab(), self.plan.duration);
        if span >= duration {
            let message = format!("this time is not before the end of the run, at {duration}");
            let diagnostic = self.sink.report(Code::Schedule, &value.at, message);
            diagnostic.help("increase `duration` in `[lab]`, or use an earlier time");
            if let Some(duration) = lab.get(LAB.duration) {
                diagnostic.also(&duration.at, "the end");
            }
        }
        Some(Time::ZERO + span)
    }
}

/// A direction of a link without any keys.
pub(super) fn plain_link() -> LinkConfig {
    LinkConfig {
        delay: DIRECTION.delay.default(),
        loss: loss(&DIRECTION.loss.default()),
        duplicate: DIRECTION.duplicate.default(),
        corrupt: DIRECTION.corrupt.default(),
        mtu: LINK.mtu.default(),
        ..LinkConfig::default()
    }
}

/// A table of properties, and its entry for this direction.
pub(super) fn of_direction(table: &Table, direction: Direction) -> Vec<&Table> {
    iter::once(table).chain(table.read(LINK.of(direction))).collect()
}

fn loss(value: &Value) -> Loss {
    let bernoulli = |p: Ratio| if p.is_positive() { Loss::Bernoulli(p) } else { Loss::None };
    if let Some(text) = value.text() {
        return text.parse().map_or(Loss::None, bernoulli);
    }
    let Some(table) = value.table() else { return Loss::None };
    if table.text(LOSS_KINDS.key) == Some("bernoulli") {
        return table.read(BERNOULLI.p).map_or(Loss::None, bernoulli);
    }
    match (table.read(GILBERT_ELLIOTT.p), table.read(GILBERT_ELLIOTT.r)) {
        (Some(p), Some(r)) => Loss::GilbertElliott {
            p,
            r,
            loss_good: table.read(GILBERT_ELLIOTT.loss_good),
            loss_bad: table.read(GILBERT_ELLIOTT.loss_bad),
        },
        _ => Loss::None,
    }
}
