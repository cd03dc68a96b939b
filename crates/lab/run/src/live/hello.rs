//! The first message to a watcher: the lab.

use std::collections::BTreeMap;
use std::path::Path;

use base::{Bytes, Direction, IfaceId};
use fabric::{LinkConfig, QueueLimit};
use lab::plan::{Family, Flow, Link, Plan, Routing};
use serde::{Deserialize, Serialize};

use super::SCHEMA;
use super::builder::live_span;
use super::system::{HelloSystem, Systems};
use crate::complete::flow_kind;
use crate::flow::path::bits_per_second;
use crate::record::{Clock, NodeRole};
use crate::{Paths, RunRecord};

/// A lab and its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Always [`SCHEMA`].
    pub schema: String,
    pub lab: String,
    pub seed: u64,
    pub clock: Clock,
    pub source: Source,
    /// The length of a finished run, or the planned length of a running lab; `None` if it has none.
    pub duration_s: Option<f64>,
    /// Length of a frame.
    pub interval_s: f64,
    /// The version of netarium.
    pub version: String,
    pub run: String,
    pub read_only: bool,
    /// The types of requests that the lab accepts.
    pub commands: Vec<String>,
    pub nodes: Vec<HelloNode>,
    pub links: Vec<HelloLink>,
    pub flows: Vec<HelloFlow>,
    pub programs: Vec<HelloProgram>,
    #[serde(default)]
    pub systems: Vec<HelloSystem>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    #[default]
    Live,
    Finished,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HelloNode {
    pub name: String,
    pub role: NodeRole,
    /// Position from the left, 0 to 1.
    pub x: f64,
    /// Position from the top, 0 to 1.
    pub y: f64,
    /// Names of its programs.
    pub programs: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HelloLink {
    pub name: String,
    /// Positions of the nodes; direction 0 leads from the first to the second.
    pub ends: [u32; 2],
    /// Names of the interfaces at these nodes.
    pub ifaces: [String; 2],
    /// The properties at the start.
    #[serde(flatten)]
    pub values: LinkValues,
}

/// The properties of a link that a watcher shows, of direction 0 and direction 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkValues {
    /// Rate in bit/s, the mean of a trace; `None` if unlimited.
    pub rate_bps: [Option<f64>; 2],
    /// Propagation delay in seconds.
    pub delay_s: [f64; 2],
    /// Mean share of lost packets.
    pub loss: [f64; 2],
    /// Maximum wire bytes in the queue; `None` if unlimited. A limit in packets counts packets of
    /// the size of the MTU.
    pub queue_bytes: [Option<u64>; 2],
    pub up: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HelloFlow {
    pub name: String,
    /// Position of the node that opens the connection.
    pub from: u32,
    /// Position of the node that accepts it.
    pub to: u32,
    /// A description such as `TCP cubic`.
    pub kind: String,
    /// Positions of links and their directions at the start. Empty if unknown: with several paths
    /// of equal cost, with several subflows, or if programs compute the routes.
    pub path: Vec<(u32, u32)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HelloProgram {
    pub name: String,
    /// Position of its node.
    pub node: u32,
}

impl LinkValues {
    pub(super) fn of(link: &Link, overhead: Bytes) -> Self {
        let mut values = Self { up: link.up, ..Self::default() };
        for (side, config) in link.directions.iter().enumerate() {
            let (rate, delay, loss, queue) = Self::direction(config, overhead);
            values.rate_bps[side] = rate;
            values.delay_s[side] = delay;
            values.loss[side] = loss;
            values.queue_bytes[side] = queue;
        }
        values
    }

    /// Rate, delay, loss and queue of a direction.
    pub(super) fn direction(
        config: &LinkConfig,
        overhead: Bytes,
    ) -> (Option<f64>, f64, f64, Option<u64>) {
        let rate = bits_per_second(config);
        let packet = config.mtu.count().saturating_add(overhead.count());
        let queue = match config.queue.limit {
            QueueLimit::UNLIMITED => None,
            QueueLimit::Bytes(bytes) => Some(bytes.count()),
            QueueLimit::Packets(packets) => Some(packet.saturating_mul(u64::from(packets))),
        };
        // Packets never queue before an unlimited link.
        (rate, config.delay.as_secs_f64(), config.loss.mean(), rate.and(queue))
    }
}

impl Hello {
    /// The description of a run that is in `folder`.
    pub fn of(plan: &Plan, record: &RunRecord, folder: &Path, source: Source) -> Self {
        // Hosts of generated sessions are not in the topology.
        let positions = record.topology.nodes.iter().enumerate();
        let positions: BTreeMap<&str, u32> =
            positions.map(|(at, node)| (node.name.as_str(), at as u32)).collect();
        let node = |id: base::NodeId| positions.get(plan.nodes[id.index()].name.as_str()).copied();
        let paths = Paths::new(plan).into_first_routes();
        let numbers = link_numbers(plan, record);
        let links =
            plan.links.iter().zip(&numbers).enumerate().filter_map(|(at, (link, shown))| {
                shown.and(Some(HelloLink {
                    name: link.name.clone(),
                    ends: [node(link.ends[0])?, node(link.ends[1])?],
                    ifaces: [0, 1].map(|side| plan.ifaces[at * 2 + side].name.clone()),
                    values: LinkValues::of(link, plan.overhead),
                }))
            });
        let flows = plan.flows.iter().filter_map(|flow| {
            let path = path(plan, &paths, flow).unwrap_or_default();
            let number = |(link, side): (usize, u32)| Some((numbers[link]?, side));
            Some(HelloFlow {
                name: flow.name.clone(),
                from: node(flow.from)?,
                to: node(flow.to)?,
                kind: flow_kind(&flow.traffic, record.clock),
                path: path.into_iter().map(number).collect::<Option<_>>().unwrap_or_default(),
            })
        });
        let programs = plan.programs.iter().filter_map(|program| {
            Some(HelloProgram { name: program.name.clone(), node: node(program.node)? })
        });
        let programs: Vec<HelloProgram> = programs.collect();
        let nodes = record.topology.nodes.iter().enumerate().map(|(at, node)| HelloNode {
            name: node.name.clone(),
            role: node.role,
            x: node.x,
            y: node.y,
            programs: programs
                .iter()
                .filter(|program| program.node == at as u32)
                .map(|program| program.name.clone())
                .collect(),
        });
        Self {
            schema: SCHEMA.to_owned(),
            lab: plan.name.clone(),
            seed: plan.seed,
            clock: record.clock,
            source,
            duration_s: Some(record.planned_s),
            interval_s: live_span(plan.interval).as_secs_f64(),
            version: record.version.clone(),
            run: folder.display().to_string(),
            read_only: false,
            commands: Vec::new(),
            nodes: nodes.collect(),
            links: links.collect(),
            flows: flows.collect(),
            programs,
            systems: Systems::new(plan).hello,
        }
    }
}

/// The position of each link of the plan in the hello; `None` if it is not in the topology.
pub fn link_numbers(plan: &Plan, record: &RunRecord) -> Vec<Option<u32>> {
    let shown = record.topology.links.iter().enumerate();
    let shown: BTreeMap<&str, u32> =
        shown.map(|(at, link)| (link.name.as_str(), at as u32)).collect();
    plan.links.iter().map(|link| shown.get(link.name.as_str()).copied()).collect()
}

/// The links of a flow's path and their directions; `None` if it is unknown.
fn path(plan: &Plan, routes: &lab::routes::Routes, flow: &Flow) -> Option<Vec<(usize, u32)>> {
    if plan.routing == Routing::None || flow.multipath().is_some() {
        return None;
    }
    let has_family = |iface: &&IfaceId| match flow.family {
        Family::V4 => plan.ifaces[iface.index()].v4.is_some(),
        Family::V6 => plan.ifaces[iface.index()].v6.is_some(),
    };
    let ifaces = plan.nodes[flow.to.index()].ifaces.iter().filter(has_family);
    let mut is_unique = true;
    let mut paths = ifaces.filter_map(|to| {
        routes.path(flow.from, *to, |_, several| {
            is_unique = false;
            several[0]
        })
    });
    let path = paths.next()?;
    let link = |iface: IfaceId| {
        let iface = &plan.ifaces[iface.index()];
        (iface.link.index(), u32::from(iface.sends == Direction::BOTH[1]))
    };
    drop(paths);
    is_unique.then(|| path.into_iter().map(link).collect())
}
