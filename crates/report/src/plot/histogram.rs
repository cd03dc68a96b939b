//! The histogram of lateness: both axes logarithmic, for it is the tail that matters.

use super::{HEIGHT, Lateness, MARGIN, WIDTHS, axis_x, axis_y, escape, titles};
use std::fmt::Write as _;

use crate::format::{count, nanos};

/// Bars in a factor of ten.
const BARS: f64 = 8.0;
/// Anything sooner than 100 ns is drawn in the first bar (log10 of nanoseconds).
const SOONEST: f64 = 2.0;

/// The logarithmic axis of lateness: log10 of nanoseconds.
#[derive(Clone, Copy)]
struct Axis {
    first: f64,
    last: f64,
}

/// The lateness histogram as a figure; nothing without packets.
pub(crate) fn lateness(lateness: &Lateness) -> String {
    let Some(d) = lateness.distribution else { return String::new() };
    let highest = d.max_ns.max(lateness.tolerance_ns).max(1000) as f64;
    let first = (d.min_ns.max(1) as f64).log10().floor().max(SOONEST);
    let axis = Axis { first, last: (highest.log10() + 0.05).max(first + 1.0) };
    let mut bars = vec![0u64; ((axis.last - first) * BARS).ceil() as usize + 1];
    for (low, high, packets) in lateness.histogram.buckets() {
        let position = (f64::midpoint(low as f64, high as f64).max(1.0).log10() - first) * BARS;
        let last = bars.len() - 1;
        bars[(position.max(0.0) as usize).min(last)] += packets;
    }
    let note = format!(
        "How much later than its deadline each packet left. {} packets: half within {}, 99 % \
         within {}, 99.9 % within {}, the latest {}.",
        count(d.count),
        nanos(d.p50_ns),
        nanos(d.p99_ns),
        nanos(d.p999_ns),
        nanos(d.max_ns)
    );
    let mut out = format!(
        "<figure class=\"plot\"><figcaption><h3>Lateness</h3><p>{}</p></figcaption>\
         <ul class=\"legend\">{}{}</ul>",
        escape(&note),
        mark("p999", &format!("p99.9: {}", nanos(d.p999_ns))),
        if lateness.tolerance_ns > 0 {
            mark("limit", &format!("tolerated: {}", nanos(lateness.tolerance_ns)))
        } else {
            String::new()
        }
    );
    for (class, width) in WIDTHS {
        draw(&mut out, class, width, &bars, axis, [d.p999_ns, lateness.tolerance_ns]);
    }
    out + "</figure>"
}

fn mark(class: &str, text: &str) -> String {
    format!(
        "<li><svg width=\"10\" height=\"12\" aria-hidden=\"true\">\
         <path class=\"{class}\" d=\"M5 0V12\"/></svg>{}</li>",
        escape(text)
    )
}

fn draw(out: &mut String, class: &str, width: f64, bars: &[u64], axis: Axis, marks: [u64; 2]) {
    let (x0, x1) = (MARGIN.left, width - MARGIN.right);
    let (y0, y1) = (HEIGHT - MARGIN.bottom, MARGIN.top);
    let most = bars.iter().copied().max().unwrap_or(1).max(10) as f64;
    let decades = most.log10().ceil();
    // A single packet must be seen, so the axis begins below one.
    let y = |log: f64| y0 - (y0 - y1) * (log + 0.3) / (decades + 0.3);
    let x =
        |log: f64| x0 + (x1 - x0) * ((log - axis.first) / (axis.last - axis.first)).clamp(0.0, 1.0);
    let _ = write!(
        out,
        "<svg class=\"{class}\" viewBox=\"0 0 {width} {HEIGHT}\" role=\"img\" \
         aria-label=\"Histogram of lateness\">"
    );
    for decade in 0..=decades as i32 {
        let label = match decade {
            0..3 => 10u64.pow(decade as u32).to_string(),
            3..6 => format!("{}k", 10u64.pow(decade as u32 - 3)),
            6..9 => format!("{}M", 10u64.pow(decade as u32 - 6)),
            _ => format!("1e{decade}"),
        };
        axis_y(out, x0, x1, y(f64::from(decade)), &label);
    }
    for decade in axis.first as u32..=axis.last as u32 {
        axis_x(out, x(f64::from(decade)), y0, &nanos(10u64.saturating_pow(decade)));
    }
    for (index, packets) in bars.iter().enumerate().filter(|(_, packets)| **packets > 0) {
        let left = x(axis.first + index as f64 / BARS);
        let right = x(axis.first + (index + 1) as f64 / BARS);
        let top = y((*packets as f64).log10());
        let low = nanos(10f64.powf(axis.first + index as f64 / BARS) as u64);
        let high = nanos(10f64.powf(axis.first + (index + 1) as f64 / BARS) as u64);
        let low = if index == 0 { "0".to_owned() } else { low };
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
            let at = x((value as f64).log10());
            let _ = write!(out, "<path class=\"{class}\" d=\"M{at:.1} {y0}V{y1}\"/>");
        }
    }
    titles(out, [x0, x1, y0], "packets", "lateness (logarithmic)");
    out.push_str("</svg>");
}
