//! The topology plot: one line per link direction; width shows the rate, colour the utilisation.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use run::RunRecord;
use run::record::{LinkSummary, NodeRole, TopologyLink, TopologyNode};

use crate::format::{self, escape};

/// With more nodes, names are omitted and lines are thinner.
const MAX_NAMED_NODES: usize = 60;
const LABELLED_LINKS: usize = 10;
const WIDTHS: [(&str, f64, f64); 2] = [("wide", 1080.0, 430.0), ("narrow", 350.0, 330.0)];

/// Positions of the nodes in a drawing.
struct Frame {
    width: f64,
    height: f64,
    left: f64,
    top: f64,
    scale_x: f64,
    scale_y: f64,
    origin: (f64, f64),
}

impl Frame {
    fn new(nodes: &[TopologyNode], width: f64, max_height: f64) -> Self {
        let bounds = |pick: fn(&TopologyNode) -> f64| {
            let values = nodes.iter().map(pick).filter(|v| v.is_finite());
            values.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)))
        };
        let (x_low, x_high) = bounds(|n| n.x);
        let (y_low, y_high) = bounds(|n| n.y);
        let (span_x, span_y) = ((x_high - x_low).max(1e-9), (y_high - y_low).max(0.0));
        let margin_x = (width * 0.08).max(34.0);
        let inner = width - 2.0 * margin_x;
        // The height follows the shape of the network.
        let height = (inner * span_y / span_x + 110.0).clamp(150.0, max_height);
        let scale_y = if span_y > 1e-6 { (height - 100.0) / span_y } else { 0.0 };
        Self {
            width,
            height,
            left: margin_x,
            top: if scale_y > 0.0 { 42.0 } else { height / 2.0 - 8.0 },
            scale_x: if nodes.len() > 1 { inner / span_x } else { 0.0 },
            scale_y,
            origin: (x_low, y_low),
        }
    }

    fn at(&self, node: &TopologyNode) -> (f64, f64) {
        let offset = |v: f64, origin: f64| if v.is_finite() { v - origin } else { 0.0 };
        (
            self.left + offset(node.x, self.origin.0) * self.scale_x,
            self.top + offset(node.y, self.origin.1) * self.scale_y,
        )
    }
}

/// The plot with its legend; empty without nodes.
pub(crate) fn render(record: &RunRecord) -> String {
    let topology = &record.topology;
    if topology.nodes.is_empty() {
        return String::new();
    }
    let nodes: BTreeMap<&str, &TopologyNode> =
        topology.nodes.iter().map(|n| (n.name.as_str(), n)).collect();
    let used: BTreeMap<(&str, &str), &LinkSummary> =
        record.links.iter().map(|l| ((l.name.as_str(), l.direction.as_str()), l)).collect();
    let mut out = String::from("<figure class=\"topology\">");
    for (class, width, max_height) in WIDTHS {
        let frame = Frame::new(&topology.nodes, width, max_height);
        let _ = write!(
            out,
            "<svg class=\"{class}\" viewBox=\"0 0 {width} {:.0}\" role=\"img\" \
             aria-label=\"Network of {} nodes and {} links\">",
            frame.height,
            topology.nodes.len(),
            topology.links.len()
        );
        let named = topology.nodes.len() <= if class == "wide" { MAX_NAMED_NODES } else { 24 };
        for link in &topology.links {
            let ends = [nodes.get(link.ends[0].as_str()), nodes.get(link.ends[1].as_str())];
            let [Some(a), Some(b)] = ends else { continue };
            let used = ["up", "down"].map(|d| used.get(&(link.name.as_str(), d)).copied());
            draw_link(&mut out, link, [frame.at(a), frame.at(b)], used, named);
        }
        if topology.links.len() <= LABELLED_LINKS && class == "wide" {
            for link in &topology.links {
                let ends = [nodes.get(link.ends[0].as_str()), nodes.get(link.ends[1].as_str())];
                let [Some(a), Some(b)] = ends else { continue };
                label(&mut out, link, frame.at(a), frame.at(b));
            }
        }
        for node in &topology.nodes {
            draw_node(&mut out, record, node, frame.at(node), named, frame.width);
        }
        out.push_str("</svg>");
    }
    let is_gateway = |n: &TopologyNode| matches!(n.role, NodeRole::SendBox | NodeRole::ReceiveBox);
    if topology.nodes.iter().any(is_gateway) {
        let (nodes, links) = LEGEND.split_at(LEGEND.find("<li>utilisation").unwrap_or(0));
        out.extend([nodes, GATEWAYS, links]);
    } else {
        out.push_str(LEGEND);
    }
    out + "</figure>"
}

const LEGEND: &str = "<figcaption><ul class=\"legend\">\
<li><svg width=\"14\" height=\"14\"><circle class=\"host\" cx=\"7\" cy=\"7\" r=\"5.5\"/></svg>\
host</li>\
<li><svg width=\"14\" height=\"14\"><rect class=\"router\" x=\"1.5\" y=\"1.5\" width=\"11\" \
height=\"11\" rx=\"3\"/></svg>router</li>\
<li><svg width=\"14\" height=\"14\"><path class=\"switch\" d=\"M7 .5 13.5 7 7 13.5 .5 7Z\"/></svg>\
switch</li>\
<li>utilisation</li><li><i class=\"u0\"></i>&lt; 20 %</li><li><i class=\"u1\"></i>&lt; 50 %</li>\
<li><i class=\"u2\"></i>&lt; 80 %</li><li><i class=\"u3\"></i>&lt; 95 %</li>\
<li><i class=\"u4\"></i>≥ 95 %</li><li><i class=\"ux\"></i>no rate limit</li>\
<li>line width: rate; one line per direction, drawn on its right</li></ul></figcaption>";

/// Legend entries for Bundler gateways.
const GATEWAYS: &str = "\
<li><svg width=\"14\" height=\"14\"><path class=\"router\" d=\"M7 1.5 12.5 12.5h-11Z\"/></svg>\
sendbox</li>\
<li><svg width=\"14\" height=\"14\"><path class=\"router\" d=\"M7 12.5 12.5 1.5h-11Z\"/></svg>\
receivebox</li>";

fn class_of(used: Option<&LinkSummary>) -> &'static str {
    match used.and_then(|l| l.utilisation) {
        None => "ux",
        Some(share) if share < 0.2 => "u0",
        Some(share) if share < 0.5 => "u1",
        Some(share) if share < 0.8 => "u2",
        Some(share) if share < 0.95 => "u3",
        Some(_) => "u4",
    }
}

/// Line width in pixels, logarithmic from 10 kbit/s to about 30 Gbit/s.
fn width_of(rate: Option<u64>) -> f64 {
    rate.map_or(3.0, |rate| ((rate.max(1) as f64).log10() - 3.0).clamp(1.0, 7.5))
}

fn draw_link(
    out: &mut String,
    link: &TopologyLink,
    [a, b]: [(f64, f64); 2],
    used: [Option<&LinkSummary>; 2],
    both: bool,
) {
    let length = (b.0 - a.0).hypot(b.1 - a.1).max(1e-9);
    // To the right of the direction from a to b; the y axis points down.
    let right = (-(b.1 - a.1) / length, (b.0 - a.0) / length);
    for (index, used) in used.into_iter().enumerate() {
        let width = width_of(link.rate_bit_per_s[index]) * if both { 1.0 } else { 0.4 };
        let side =
            if index == 0 { 1.0 } else { -1.0 } * (width / 2.0 + if both { 0.8 } else { 0. });
        let (dx, dy) = (right.0 * side, right.1 * side);
        let _ = write!(
            out,
            "<path class=\"wire {}\" stroke-width=\"{width:.1}\" \
             d=\"M{:.1} {:.1}L{:.1} {:.1}\"><title>{}</title></path>",
            class_of(used),
            a.0 + dx,
            a.1 + dy,
            b.0 + dx,
            b.1 + dy,
            escape(&tooltip(link, index, used))
        );
    }
}

fn tooltip(link: &TopologyLink, index: usize, used: Option<&LinkSummary>) -> String {
    let (from, to) = (&link.ends[index], &link.ends[1 - index]);
    let mut text = format!("{}: {from} → {to}\n{}", link.name, link.text[index]);
    if let Some(used) = used {
        let _ = write!(text, "\nmean {}", format::rate(used.throughput_bit_per_s));
        if let Some(share) = used.utilisation {
            let _ = write!(text, " ({})", format::share(share));
        }
        for (reason, packets) in used.causes() {
            let _ = write!(text, "\ndropped, {reason}: {}", format::count(packets));
        }
        if used.expired() > 0 {
            let _ = write!(text, "\nTTL expired: {}", format::count(used.expired()));
        }
    }
    text
}

fn label(out: &mut String, link: &TopologyLink, a: (f64, f64), b: (f64, f64)) {
    let rate = match link.rate_bit_per_s {
        [Some(up), Some(down)] if up == down => format::rate(up as f64),
        [Some(up), Some(down)] => {
            format!("{} / {}", format::rate(up as f64), format::rate(down as f64))
        }
        _ => String::new(),
    };
    let delay = format::nanos(link.delay_ns[0]);
    let text = if rate.is_empty() { delay } else { format!("{rate} · {delay}") };
    // Above the line, at a distance that keeps the text off it.
    let length = (b.0 - a.0).hypot(b.1 - a.1).max(1e-9);
    let slope = ((b.1 - a.1) / length, (b.0 - a.0) / length);
    let upwards = if slope.1 >= 0.0 { (slope.0, -slope.1) } else { (-slope.0, slope.1) };
    let width = text.chars().count() as f64 * 6.2;
    let distance = 12.0 + upwards.0.abs() * width / 2.0;
    let x = f64::midpoint(a.0, b.0) + upwards.0 * distance;
    let y = f64::midpoint(a.1, b.1) + upwards.1 * distance + 3.0;
    let _ = write!(
        out,
        "<text class=\"mid wirelabel\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
        escape(&text)
    );
}

fn draw_node(
    out: &mut String,
    record: &RunRecord,
    node: &TopologyNode,
    (x, y): (f64, f64),
    named: bool,
    width: f64,
) {
    let mut text = node.name.clone();
    for address in &node.addresses {
        let _ = write!(text, "\n{address}");
    }
    for program in record.programs.iter().filter(|p| p.node == node.name) {
        let _ = write!(text, "\nruns {}", program.command);
    }
    let r = if named { 9.0 } else { 3.0 };
    let shape = match node.role {
        NodeRole::Host => format!("<circle class=\"host\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\"/>"),
        NodeRole::Router => format!(
            "<rect class=\"router\" x=\"{:.1}\" y=\"{:.1}\" width=\"{}\" height=\"{}\" \
             rx=\"{:.1}\"/>",
            x - r,
            y - r,
            2.0 * r,
            2.0 * r,
            r / 2.5
        ),
        // Upwards: sendbox; downwards: receivebox.
        NodeRole::SendBox | NodeRole::ReceiveBox => {
            let up = if node.role == NodeRole::SendBox { r } else { -r };
            format!(
                "<path class=\"router\" d=\"M{x:.1} {:.1}l{r} {:.1}h{:.1}Z\"/>",
                y - up,
                2.0 * up,
                -2.0 * r
            )
        }
        NodeRole::Switch => format!(
            "<path class=\"switch\" d=\"M{x:.1} {:.1}l{r} {r} -{r} {r} -{r} -{r}Z\"/>",
            y - r
        ),
    };
    let _ = write!(out, "<g>{shape}<title>{}</title>", escape(&text));
    if named {
        let (class, x) = match x {
            x if x < 30.0 => ("", 2.0),
            x if x > width - 30.0 => ("end", width - 2.0),
            x => ("mid", x),
        };
        let y = y + r + 15.0;
        let name = escape(&node.name);
        let _ = write!(out, "<text class=\"{class} name\" x=\"{x:.1}\" y=\"{y:.1}\">{name}</text>");
    }
    out.push_str("</g>");
}
