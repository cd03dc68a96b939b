//! Measured values of a running process.

/// A measured value with name and labels, for monitoring.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Name without the prefix of the process, in snake case, with the unit at the end.
    pub name: &'static str,
    /// Text of the `# HELP` line in the Prometheus format.
    pub help: &'static str,
    /// Labels and their values.
    pub labels: Vec<(&'static str, String)>,
    /// The value in the metric's unit.
    pub value: MetricValue,
}

/// The value of a [`Metric`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricValue {
    /// A value that can increase and decrease.
    Gauge(f64),
    /// A value that only increases.
    Counter(u64),
}

impl Metric {
    /// A gauge without labels.
    pub const fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self { name, help, labels: Vec::new(), value: MetricValue::Gauge(value) }
    }

    /// A counter without labels.
    pub const fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self { name, help, labels: Vec::new(), value: MetricValue::Counter(value) }
    }

    /// The same value with an additional label.
    #[must_use]
    pub fn label(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((name, value.into()));
        self
    }
}
