//! Tolerances of a comparison.

use std::str::FromStr;

use base::{Bandwidth, Bytes, Ratio, Span};

use super::{ChoiceError, Unit, is_match};

/// A tolerated difference of some metrics: `5 %`, `flow.*.goodput.mean=-5 %`, `*.delay.p99=2 ms`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tolerance {
    text: String,
    /// A name or pattern; `None` for all metrics.
    metric: Option<String>,
    pub limit: Limit,
    direction: Direction,
}

/// The largest tolerated difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Of the first mean.
    Share(f64),
    /// In the unit of the metric.
    Absolute(f64, Unit),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Both,
    /// Only an increase is a change.
    Increase,
    /// Only a decrease is a change.
    Decrease,
}

/// The text is not a tolerance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a share such as '5 %', a value such as '2 ms', or METRIC= and one of them; with a \
     sign (-5 %, +2 ms), only a decrease or an increase is a change"
)]
pub struct ToleranceError;

impl FromStr for Tolerance {
    type Err = ToleranceError;

    fn from_str(text: &str) -> Result<Self, ToleranceError> {
        let (metric, limit) = match text.split_once('=') {
            Some((metric, _)) if metric.trim().is_empty() => return Err(ToleranceError),
            Some((metric, limit)) => (Some(metric.trim().to_owned()), limit),
            None => (None, text),
        };
        let limit = limit.trim();
        let (direction, number) = match limit.split_at_checked(1) {
            Some(("-", rest)) => (Direction::Decrease, rest.trim_start()),
            Some(("+", rest)) => (Direction::Increase, rest.trim_start()),
            _ => (Direction::Both, limit),
        };
        let value = Limit::read(number).ok_or(ToleranceError)?;
        Ok(Self { text: limit.to_owned(), metric, limit: value, direction })
    }
}

impl Limit {
    fn read(text: &str) -> Option<Self> {
        if let Ok(share) = text.parse::<Ratio>() {
            return Some(Self::Share(share.as_f64()));
        }
        if let Ok(span) = text.parse::<Span>() {
            return Some(Self::Absolute(span.as_secs_f64(), Unit::Seconds));
        }
        if let Ok(rate) = text.parse::<Bandwidth>() {
            return Some(Self::Absolute(rate.bits_per_sec() as f64, Unit::Rate));
        }
        if let Ok(bytes) = text.parse::<Bytes>() {
            return Some(Self::Absolute(bytes.count() as f64, Unit::Data));
        }
        let count = text.parse::<f64>().ok().filter(|count| count.is_finite() && *count >= 0.0)?;
        Some(Self::Absolute(count, Unit::Count))
    }
}

impl Tolerance {
    /// The largest tolerated difference from a mean.
    pub(super) fn margin(&self, mean: f64) -> f64 {
        match self.limit {
            Limit::Share(share) => share * mean.abs(),
            Limit::Absolute(value, _) => value,
        }
    }

    /// Whether a difference in this direction can be a change.
    pub(super) fn counts(&self, difference: f64) -> bool {
        match self.direction {
            Direction::Both => true,
            Direction::Increase => difference > 0.0,
            Direction::Decrease => difference < 0.0,
        }
    }
}

pub(super) fn find<'a>(
    tolerances: &'a [Tolerance],
    metric: &str,
    unit: Unit,
) -> Result<Option<&'a Tolerance>, ChoiceError> {
    let named = |t: &&Tolerance| t.metric.as_ref().is_some_and(|pattern| is_match(pattern, metric));
    let of_all = || tolerances.iter().rfind(|tolerance| tolerance.metric.is_none());
    let Some(found) = tolerances.iter().rfind(named).or_else(of_all) else { return Ok(None) };
    match found.limit {
        Limit::Absolute(_, expected) if expected != unit => Err(ChoiceError::Unit {
            tolerance: found.text.clone(),
            metric: metric.to_owned(),
            unit,
        }),
        _ => Ok(Some(found)),
    }
}
