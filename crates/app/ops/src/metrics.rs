//! Metrics in text format.

use std::fmt;

use base::{Metric, MetricValue};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug)]
struct Metrics(Vec<Metric>);

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for family in self.0.chunk_by(|a, b| a.name == b.name) {
            let Metric { name, help, value, .. } = &family[0];
            let kind = match value {
                MetricValue::Gauge(value) => ConstGauge::new(*value).metric_type(),
                MetricValue::Counter(value) => ConstCounter::new(*value).metric_type(),
            };
            let mut descriptor = encoder.encode_descriptor(name, help, None, kind)?;
            if family[0].labels.is_empty() {
                encode_value(&family[0], descriptor)?;
                continue;
            }
            for metric in family {
                encode_value(metric, descriptor.encode_family(&metric.labels)?)?;
            }
        }
        Ok(())
    }
}

fn encode_value(metric: &Metric, encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
    match metric.value {
        MetricValue::Gauge(value) => ConstGauge::new(value).encode(encoder),
        MetricValue::Counter(value) => ConstCounter::new(value).encode(encoder),
    }
}

/// Metrics in the text format of `OpenMetrics`, all names beginning with `prefix`.
pub fn text(prefix: &str, mut metrics: Vec<Metric>) -> String {
    // The format requires that the lines of a family are consecutive.
    metrics.sort_by_key(|metric| metric.name);
    let mut registry = Registry::with_prefix(prefix);
    registry.register_collector(Box::new(Metrics(metrics)));
    let mut text = String::new();
    let written = prometheus_client::encoding::text::encode(&mut text, &registry);
    debug_assert!(written.is_ok(), "writing to a string does not fail");
    text
}
