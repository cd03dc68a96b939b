//! The histogram of lateness, with logarithmic axes to show the tail.

use std::fmt::Write as _;

use run::record::Lateness;

use crate::axes::{Area, Frame, Log, mark_entry};
use crate::format::{count, nanos};

/// Bars per factor of ten.
const BARS_PER_DECADE: f64 = 8.0;
/// Smaller values are in the first bar: log10 of 100 ns.
const MIN_LOG_NANOS: f64 = 2.0;

/// The lateness histogram as an HTML figure; empty without packets.
pub(crate) fn lateness(lateness: &Lateness) -> String {
    let Some(d) = lateness.distribution else { return String::new() };
    let highest = d.max_ns.max(lateness.tolerance_ns).max(1000) as f64;
    let first = (d.min_ns.max(1) as f64).log10().floor().max(MIN_LOG_NANOS);
    let axis = Log { first, last: (highest.log10() + 0.05).max(first + 1.0) };
    let mut bars = vec![0u64; ((axis.last - first) * BARS_PER_DECADE).ceil() as usize + 1];
    for (low, high, packets) in lateness.histogram.buckets() {
        let position =
            (f64::midpoint(low as f64, high as f64).max(1.0).log10() - first) * BARS_PER_DECADE;
        let last = bars.len() - 1;
        bars[(position.max(0.0) as usize).min(last)] += packets;
    }
    let note = format!(
        "Lateness of {} packets behind their deadlines: p50 {}, p99 {}, p99.9 {}, max {}.",
        count(d.count),
        nanos(d.p50_ns),
        nanos(d.p99_ns),
        nanos(d.p999_ns),
        nanos(d.max_ns)
    );
    let mut legend = mark_entry("p999", &format!("p99.9: {}", nanos(d.p999_ns)));
    if lateness.tolerance_ns > 0 {
        legend += &mark_entry("limit", &format!("tolerance: {}", nanos(lateness.tolerance_ns)));
    }
    let (title, label) = ("Lateness", "Histogram of lateness");
    Frame { title, note: &note, legend, label, data: "" }
        .html(|out, width| draw(out, width, &bars, axis, [d.p999_ns, lateness.tolerance_ns]))
}

fn draw(out: &mut String, width: f64, bars: &[u64], axis: Log, marks: [u64; 2]) {
    let area = Area::of(width);
    let max = bars.iter().copied().max().unwrap_or(1).max(10) as f64;
    let decades = max.log10().ceil();
    // The axis begins below 1, so that a single packet is visible.
    let height = |log: f64| (log + 0.3) / (decades + 0.3);
    let edge = |index: usize| 10f64.powf(axis.first + index as f64 / BARS_PER_DECADE);
    let x = |value: f64| area.x(axis.position(value));
    let packets = (0..=decades as u32).map(|decade| {
        let label = match decade {
            0..3 => 10u64.pow(decade).to_string(),
            3..6 => format!("{}k", 10u64.pow(decade - 3)),
            6..9 => format!("{}M", 10u64.pow(decade - 6)),
            _ => format!("1e{decade}"),
        };
        (height(decade.into()), label)
    });
    let times = (axis.first as u32..=axis.last as u32).map(|decade| {
        let time = 10u64.saturating_pow(decade);
        (axis.position(time as f64), nanos(time))
    });
    area.axes(out, times, packets, ["lateness (logarithmic)", "packets"]);
    let (y0, y1) = (area.y0, area.y1);
    for (index, packets) in bars.iter().enumerate().filter(|(_, packets)| **packets > 0) {
        let (left, right) = (x(edge(index)), x(edge(index + 1)));
        let top = area.y(height((*packets as f64).log10()));
        let low = if index == 0 { "0".to_owned() } else { nanos(edge(index) as u64) };
        let high = nanos(edge(index + 1) as u64);
        let _ = write!(
            out,
            "<rect class=\"bar\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
             <title>{low} to {high}: {} packets</title></rect>",
            left + 0.5,
            (right - left - 1.0).max(0.5),
            (y0 - top).max(0.0),
            count(*packets)
        );
    }
    for (class, value) in ["p999", "limit"].into_iter().zip(marks) {
        if value > 0 {
            let at = x(value as f64);
            let _ = write!(out, "<path class=\"{class}\" d=\"M{at:.1} {y0}V{y1}\"/>");
        }
    }
}
