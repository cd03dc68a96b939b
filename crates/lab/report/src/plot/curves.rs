//! Curves over a logarithmic axis: completion times of transfers, and slowdown by size.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::axes::{Axis, Unit};
use crate::figure::{Figure, LINES, Line};
use crate::series::CompletedTransfer;

/// Maximum number of points of a distribution.
const MAX_POINTS: usize = 200;

/// Size classes per factor of ten.
const CLASSES_PER_DECADE: f64 = 4.0;

/// The distribution of completion times; empty without transfers. `flows` determines the styles.
pub(crate) fn completion(transfers: &[CompletedTransfer], flows: &[String]) -> String {
    let mut by_flow: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for transfer in transfers {
        by_flow.entry(&transfer.flow).or_default().push(transfer.seconds);
    }
    if !transfers.iter().any(|transfer| transfer.seconds > 0.0) {
        return String::new();
    }
    let mut by_flow: Vec<_> = by_flow.into_iter().collect();
    by_flow.sort_by_key(|(_, times)| std::cmp::Reverse(times.len()));
    let omitted = by_flow.len().saturating_sub(LINES);
    let curve = |(name, mut times): (&str, Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        let last = times.len() - 1;
        let steps = MAX_POINTS.min(times.len());
        let point = |step: usize| {
            let rank = if steps > 1 { step * last / (steps - 1) } else { last };
            (times[rank], (rank + 1) as f64 * 100.0 / times.len() as f64)
        };
        let colour = flows.iter().position(|flow| flow == name).unwrap_or(0);
        Line { colour: Some(colour), ..Line::new(name, (0..steps).map(point).collect()) }
    };
    let lines = by_flow.into_iter().take(LINES).map(curve).collect();
    let mut note = format!("Cumulative share of {} transfers", transfers.len());
    if omitted > 0 {
        let _ = write!(note, "; {omitted} flows with fewer transfers are not shown");
    }
    let x = Axis { unit: Unit::Seconds, ..Axis::log("completion time (logarithmic)") };
    let title = "Completion of transfers".to_owned();
    Figure { title, note, x, y: Axis::linear("%").from(0.0).to(100.0), lines }.html()
}

/// Slowdown by transfer size; empty if it is unknown or all transfers are of one size class.
pub(crate) fn slowdown(transfers: &[CompletedTransfer]) -> String {
    let mut classes: BTreeMap<i64, Vec<(f64, f64)>> = BTreeMap::new();
    for transfer in transfers {
        if let Some(slowdown) = transfer.slowdown.filter(|_| transfer.bytes > 0.0) {
            let class = (transfer.bytes.log10() * CLASSES_PER_DECADE).floor() as i64;
            classes.entry(class).or_default().push((slowdown, transfer.bytes));
        }
    }
    if classes.len() < 2 {
        return String::new();
    }
    let quantiles = [("median", 0.5), ("p99", 0.99), ("mean", f64::NAN)];
    let mut lines = quantiles.map(|(name, _)| Line::new(name, Vec::new()));
    for values in classes.values_mut() {
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let count = values.len() as f64;
        let size = 10f64.powf(values.iter().map(|(_, bytes)| bytes.log10()).sum::<f64>() / count);
        for (line, (_, quantile)) in lines.iter_mut().zip(quantiles) {
            let value = if quantile.is_nan() {
                values.iter().map(|(slowdown, _)| slowdown).sum::<f64>() / count
            } else {
                values[((count - 1.0) * quantile).round() as usize].0
            };
            line.points.push((size, value));
        }
    }
    let points = lines.iter().flat_map(|line| &line.points);
    let min = points.map(|point| point.1).fold(1.0, f64::min);
    Figure {
        title: "Slowdown by size".to_owned(),
        note: "Completion time divided by that on an empty network; 1 is optimal".to_owned(),
        x: Axis { unit: Unit::Bytes, ..Axis::log("size (logarithmic)") },
        y: Axis::log("slowdown (logarithmic)").from(min),
        lines: lines.to_vec(),
    }
    .html()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer(bytes: f64, seconds: f64, slowdown: f64) -> CompletedTransfer {
        CompletedTransfer { flow: "a".to_owned(), bytes, seconds, slowdown: Some(slowdown) }
    }

    #[test]
    fn figures_without_data_are_empty() {
        assert_eq!(completion(&[], &[]), "");
        let one = [transfer(1e3, 0.1, 2.0), transfer(1e3, 0.2, 3.0)];
        assert_eq!(slowdown(&one), "", "one size class has no plot");
        assert!(completion(&one, &["a".to_owned()]).contains("share of 2 transfers"));
        let two = [transfer(1e3, 0.1, 2.0), transfer(1e6, 0.2, 3.0)];
        assert!(slowdown(&two).contains("Slowdown by size"));
    }
}
