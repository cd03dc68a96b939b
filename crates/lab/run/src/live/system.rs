//! The systems of a lab in frames: rate control, collapsed paths, Bundler and multipath flows, each
//! as plots of numbered series.

use std::collections::BTreeMap;

use base::{Bandwidth, LinkId, NodeId, Span};
use lab::plan::{Flow, Model, Plan, Role, Traffic};
use serde::{Deserialize, Serialize};

use crate::sample::bundle::BundleSample;
use crate::sample::control::{ControlSample, Errors};
use crate::{FlowSample, ShareSample, SubflowSample};

/// Maximum number of systems in frames; further bundles and flows are omitted.
const MAX_SYSTEMS: usize = 32;

/// Maximum number of series of a plot.
const MAX_SERIES: usize = 8;

/// A system that the lab runs. Its series have consecutive numbers, in the order of systems, plots
/// and series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HelloSystem {
    /// Name of the bundle or the flow; for others, of the protocol or model.
    pub name: String,
    /// `rate control`, `shares`, `bundler`, `mctcp` or `mptcp`.
    pub kind: String,
    pub plots: Vec<HelloPlot>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HelloPlot {
    pub title: String,
    pub unit: Unit,
    /// Whether the sum of the series has a meaning.
    pub stacked: bool,
    pub series: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "B")]
    Bytes,
    /// A fraction.
    #[serde(rename = "1")]
    Share,
    #[serde(rename = "count")]
    Count,
}

/// A value of a series in a sampling interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Point {
    /// Bytes of the interval, which become a rate.
    Bytes(u64),
    /// A value that is averaged.
    Mean(f64),
    /// A value of which the maximum is shown.
    Max(f64),
}

pub(super) type Points = Vec<(u32, Point)>;

/// The systems of a plan, and the numbers of their series.
#[derive(Clone, Debug, Default)]
pub(super) struct Systems {
    pub(super) hello: Vec<HelloSystem>,
    series: u32,
    /// The first series of rate control.
    control: Option<u32>,
    /// The first series of the shares.
    shares: Option<u32>,
    /// The shown pairs of nodes, at most one less than a plot has series.
    pairs: Vec<(NodeId, NodeId)>,
    /// System and first series of each bundle, by position in the plan.
    bundles: Vec<(u32, u32)>,
    flows: BTreeMap<u32, Multipath>,
}

#[derive(Clone, Debug)]
struct Multipath {
    system: u32,
    first: u32,
    paths: Vec<LinkId>,
    /// States of the subflows, by number.
    subflows: BTreeMap<u32, &'static str>,
}

fn plot(title: &str, unit: Unit, series: &[&str]) -> HelloPlot {
    let series = series.iter().map(|name| (*name).to_owned()).collect();
    HelloPlot { title: title.to_owned(), unit, stacked: false, series }
}

fn stacked(title: &str, series: &[String]) -> HelloPlot {
    let (title, series) = (title.to_owned(), series.to_vec());
    HelloPlot { title, unit: Unit::BitsPerSecond, stacked: true, series }
}

impl Systems {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut this = Self::default();
        if let Some(control) = plan.control.as_ref().filter(|_| has_control_samples(plan)) {
            this.control = this.add(control.protocol.name(), "rate control", control_plots());
        }
        if matches!(plan.model, Model::Collapsed(_)) {
            this.add_shares(plan);
        }
        for bundle in &plan.bundles {
            let system = this.hello.len() as u32;
            let Some(first) = this.add(&bundle.name, "bundler", bundle_plots()) else { break };
            this.bundles.push((system, first));
        }
        for (at, flow) in plan.flows.iter().enumerate() {
            this.add_flow(plan, at as u32, flow);
        }
        this
    }

    /// Number of series.
    pub(super) const fn count(&self) -> u32 {
        self.series
    }

    /// Adds a system; returns its first series, or `None` above the limit.
    fn add(&mut self, name: &str, kind: &str, plots: Vec<HelloPlot>) -> Option<u32> {
        if self.hello.len() >= MAX_SYSTEMS {
            return None;
        }
        let first = self.series;
        self.series += plots.iter().map(|plot| plot.series.len() as u32).sum::<u32>();
        let (name, kind) = (name.to_owned(), kind.to_owned());
        self.hello.push(HelloSystem { name, kind, plots });
        Some(first)
    }

    fn add_shares(&mut self, plan: &Plan) {
        let flows = plan.flows.iter().map(|flow| (flow.from, flow.to));
        let back = plan.flows.iter().map(|flow| (flow.to, flow.from));
        let is_host = |node: &NodeId| plan.nodes[node.index()].kind == Role::Host;
        let hosts = || (0..plan.nodes.len()).map(NodeId::at).filter(is_host).take(MAX_SERIES);
        let others = hosts().flat_map(|from| hosts().map(move |to| (from, to)));
        for pair in flows.chain(back).chain(others) {
            if self.pairs.len() + 1 < MAX_SERIES && pair.0 != pair.1 && !self.pairs.contains(&pair)
            {
                self.pairs.push(pair);
            }
        }
        let name = |node: NodeId| plan.nodes[node.index()].name.as_str();
        let names = self.pairs.iter().map(|(from, to)| format!("{} → {}", name(*from), name(*to)));
        let names: Vec<String> = names.chain(["others".to_owned()]).collect();
        let plots = vec![stacked("Share of the path", &names), stacked("Sent", &names)];
        self.shares = self.add("collapsed paths", "shares", plots);
    }

    fn add_flow(&mut self, plan: &Plan, at: u32, flow: &Flow) {
        let Some(multipath) = flow.multipath() else { return };
        let paths = multipath.paths.iter().take(MAX_SERIES);
        let paths: Vec<LinkId> = paths.map(|path| plan.path_link(path)).collect();
        let names: Vec<String> =
            paths.iter().map(|link| plan.links[link.index()].name.clone()).collect();
        let mut rtt = stacked("RTT by path", &names);
        (rtt.unit, rtt.stacked) = (Unit::Seconds, false);
        let plots = vec![
            stacked("Received by path", &names),
            rtt,
            plot("Reinjected", Unit::BitsPerSecond, &["on another path"]),
            plot("Received out of order", Unit::Bytes, &["maximum"]),
        ];
        let system = self.hello.len() as u32;
        let Some(first) = self.add(&flow.name, multipath.kind.name(), plots) else { return };
        let subflows = BTreeMap::new();
        self.flows.insert(at, Multipath { system, first, paths, subflows });
    }

    pub(super) fn control(&self, sample: &ControlSample) -> Points {
        let Some(first) = self.control else { return Vec::new() };
        let error = |pick: fn(Errors) -> f64| sample.source.map(|errors| Point::Mean(pick(errors)));
        let mut points = Numbered::from(first);
        points.push(error(|errors| errors.p10));
        points.push(error(|errors| errors.mean));
        points.push(error(|errors| errors.p90));
        points.push(Some(Point::Bytes(sample.control_bytes.count())));
        points.push(Some(Point::Bytes(sample.data_bytes.count())));
        points.push(Some(Point::Mean(sample.sessions as f64)));
        points.push(Some(Point::Mean(sample.assigned as f64)));
        points.push(sample.over.map(Point::Mean));
        points.push(Some(Point::Max(sample.queue_max_bytes.count() as f64)));
        points.points
    }

    /// The sums over the flows of each pair of nodes; `samples` are of one time.
    pub(super) fn shares(&self, samples: &[ShareSample]) -> Points {
        let Some(first) = self.shares else { return Vec::new() };
        let count = self.pairs.len() + 1;
        let (mut shares, mut sent) = (vec![0.0; count], vec![0; count]);
        for sample in samples {
            let pair = (sample.from, sample.to);
            let at = self.pairs.iter().position(|known| *known == pair).unwrap_or(count - 1);
            // An unlimited share has no number.
            shares[at] += sample.share.unwrap_or_default() as f64;
            sent[at] += sample.sent_bytes;
        }
        let mut points = Numbered::from(first);
        for share in shares {
            points.push(Some(Point::Mean(share)));
        }
        for bytes in sent {
            points.push(Some(Point::Bytes(bytes)));
        }
        points.points
    }

    /// The system of a bundle, and its points.
    pub(super) fn bundle(&self, sample: &BundleSample) -> Option<(u32, Points)> {
        let (system, first) = *self.bundles.get(sample.bundle as usize)?;
        let time = |span: Option<Span>| span.map(|span| Point::Mean(span.as_secs_f64()));
        let rate =
            |rate: Option<Bandwidth>| rate.map(|rate| Point::Mean(rate.bits_per_sec() as f64));
        let mut points = Numbered::from(first);
        points.push(time(Some(sample.waiting)));
        points.push(time(sample.queueing));
        for value in [sample.rate, sample.send_rate, sample.receive_rate, sample.capacity] {
            points.push(rate(value));
        }
        points.push(Some(Point::Max(sample.backlog.count() as f64)));
        points.push(sample.loss.map(|loss| Point::Mean(loss.as_f64())));
        Some((system, points.points))
    }

    /// The points of a flow over several paths that do not come with its subflows.
    pub(super) fn flow(&self, sample: &FlowSample) -> Points {
        let Some(flow) = self.flows.get(&(sample.flow.index() as u32)) else { return Vec::new() };
        let mut points = Numbered::from(flow.first + 2 * flow.paths.len() as u32);
        points.push(sample.reinjected_bytes.map(Point::Bytes));
        points.push(sample.reorder_bytes.map(|bytes| Point::Max(bytes as f64)));
        points.points
    }

    /// The system of a subflow, its points, and the state of all subflows.
    pub(super) fn subflow(&mut self, sample: &SubflowSample) -> Option<(u32, Points, String)> {
        let flow = self.flows.get_mut(&(sample.flow.index() as u32))?;
        flow.subflows.insert(sample.subflow, sample.state);
        let open = flow.subflows.values().filter(|state| **state != "closed").count();
        let active = flow.subflows.values().filter(|state| **state == "active").count();
        let mut points = Vec::new();
        if let Some(path) = flow.paths.iter().position(|link| *link == sample.path) {
            let (path, paths) = (flow.first + path as u32, flow.paths.len() as u32);
            points.push((path, Point::Bytes(sample.received_bytes)));
            let rtt = sample.rtt.map(|rtt| Point::Mean(rtt.as_secs_f64()));
            points.extend(rtt.map(|rtt| (path + paths, rtt)));
        }
        Some((flow.system, points, format!("{active} of {open} subflows active")))
    }
}

/// Whether rate control is sampled: all traffic is controlled, and there are no access routers.
fn has_control_samples(plan: &Plan) -> bool {
    let is_controlled = |flow: &Flow| matches!(flow.traffic, Traffic::Controlled { .. });
    let has_access = plan.control.as_ref().is_some_and(|control| !control.access.is_empty());
    plan.is_rate_controlled() && !has_access && plan.flows.iter().all(is_controlled)
}

/// Points of consecutive series.
struct Numbered {
    next: u32,
    points: Points,
}

impl Numbered {
    const fn from(first: u32) -> Self {
        Self { next: first, points: Vec::new() }
    }

    /// Adds the point of the next series; `None` if it has no value.
    fn push(&mut self, point: Option<Point>) {
        self.points.extend(point.map(|point| (self.next, point)));
        self.next += 1;
    }
}

fn control_plots() -> Vec<HelloPlot> {
    let errors = ["p10", "mean", "p90"];
    vec![
        plot("Error of assigned rates against max-min rates", Unit::Share, &errors),
        plot("Packets on all links", Unit::BitsPerSecond, &["control", "data"]),
        plot("Sessions", Unit::Count, &["present", "with a rate"]),
        plot("Bottleneck links above capacity", Unit::Share, &["by more than 5 %"]),
        plot("Longest queue", Unit::Bytes, &["maximum"]),
    ]
}

fn bundle_plots() -> Vec<HelloPlot> {
    vec![
        plot("Queueing delay", Unit::Seconds, &["at the sendbox", "in the network"]),
        plot("Rate", Unit::BitsPerSecond, &["pacing", "sent", "received", "capacity"]),
        plot("Queue at the sendbox", Unit::Bytes, &["maximum"]),
        plot("Loss", Unit::Share, &["of one RTT"]),
    ]
}
