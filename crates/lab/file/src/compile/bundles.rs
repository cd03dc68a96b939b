//! `[[bundle]]`, and the gateways at both ends.

use base::{Bandwidth, NodeId};
use bundler::constants::InvalidConstant;
use fabric::{Discipline, QueueConfig, QueueLimit};

use super::Compiler;
use super::queue::Surroundings;
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::fields::{
    BUNDLE, CONSTANT_CONTROL, CONTROL_KINDS, FEEDBACK, Field, LAB, LINK, MIRROR, Words,
};
use crate::plan::{
    Bundle, BundleConstants, BundleControl, Feedback, MirrorTarget, Model, Role, Routing,
};
use crate::routes::Routes;
use crate::tree::{At, Table, Value};

const MAX_BUNDLES: usize = 4096;
/// The sendbox computes its own queue limit.
const DEFAULT_LIMIT: QueueLimit = QueueLimit::UNLIMITED;
/// Enough flow queues that few flows share a queue.
const FLOWS: u32 = 65_536;

impl Compiler<'_> {
    /// Reads the bundles and sorts them by name.
    pub(super) fn read_bundles(&mut self) {
        let mut found: Vec<(Bundle, At)> = Vec::new();
        for (at, table) in self.entries("bundle") {
            let Some(bundle) = self.bundle(table) else { continue };
            let same = |(other, _): &&(Bundle, At)| {
                other.name == bundle.name || (other.from, other.to) == (bundle.from, bundle.to)
            };
            if let Some((other, first)) = found.iter().find(same) {
                let message = if (other.from, other.to) == (bundle.from, bundle.to) {
                    "these two gateways already have a bundle".to_owned()
                } else {
                    format!("there is a bundle `{}` already", bundle.name)
                };
                self.sink.report(Code::Duplicate, &at, message).also(first, "the first");
                continue;
            }
            if self.room(found.len(), MAX_BUNDLES, "bundles", &at) {
                found.push((bundle, at));
            }
        }
        found.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        (self.plan.bundles, self.places.bundles) = found.into_iter().unzip();
    }

    fn bundle(&mut self, table: &Table) -> Option<Bundle> {
        let from = table.get(BUNDLE.from).and_then(|value| self.gateway(value, Role::SendBox));
        let to = table.get(BUNDLE.to).and_then(|value| self.gateway(value, Role::ReceiveBox));
        let given = table.get(BUNDLE.name).and_then(|v| self.label(v.text()?, &v.at, "bundle"));
        let scheduler = self.scheduler(&table.read(BUNDLE.scheduler));
        let control = self.bundle_control(&table.read(BUNDLE.control));
        let (floor, ceiling) = self.bounds(table, control);
        let (from, to) = (from?, to?);
        let name = |node: NodeId| self.plan.nodes[node.index()].name.as_str();
        let name = given.unwrap_or_else(|| format!("{}-{}", name(from), name(to)));
        let feedback = table.read(BUNDLE.feedback);
        Some(Bundle {
            name,
            from,
            to,
            scheduler: scheduler?,
            control: control?,
            marking: table.read(BUNDLE.marking),
            mode: table.read(BUNDLE.mode),
            floor,
            ceiling,
            weight: table.read(BUNDLE.weight),
            elasticity: table.read(BUNDLE.elasticity),
            multipath: table.read(BUNDLE.multipath),
            constants: self.bundle_constants(table),
            feedback: Feedback {
                loss: feedback.read(FEEDBACK.loss),
                jitter: feedback.read(FEEDBACK.jitter),
            },
        })
    }

    fn gateway(&mut self, value: &Value, role: Role) -> Option<NodeId> {
        let text = value.text()?;
        let node = self.node(text, &value.at)?;
        if self.plan.nodes[node.index()].kind == role {
            return Some(node);
        }
        let kind = role.word();
        let boxes = self.plan.nodes.iter().filter(|node| node.kind == role);
        let help = suggest(text, boxes.map(|node| node.name.as_str()), &format!("{kind}es"));
        let help = if help.starts_with("there are no") {
            format!("set `kind = \"{kind}\"` in `[node.{text}]`, or add one")
        } else {
            help
        };
        let declared = self.places.nodes[node.index()].clone();
        self.sink
            .report(Code::Restricted, &value.at, format!("`{text}` is not a {kind}"))
            .also(&declared, "it is declared here")
            .help(help);
        None
    }

    /// The gateway that an event refers to.
    pub(super) fn any_gateway(&mut self, value: &Value) -> Option<NodeId> {
        let text = value.text()?;
        let node = self.node(text, &value.at)?;
        if self.plan.nodes[node.index()].kind.is_box() {
            return Some(node);
        }
        let boxes = self.plan.nodes.iter().filter(|node| node.kind.is_box());
        let help = suggest(text, boxes.map(|node| node.name.as_str()), "boxes");
        self.sink
            .report(Code::Restricted, &value.at, format!("`{text}` is not a sendbox or receivebox"))
            .help(format!("{help}; other nodes go `down` and `up`"));
        None
    }

    fn scheduler(&mut self, value: &Value) -> Option<QueueConfig> {
        let mtus = self.plan.links.iter().flat_map(|link| link.directions.iter().map(|d| d.mtu));
        let mtu = mtus.max().unwrap_or_else(|| LINK.mtu.default());
        let around = Surroundings {
            full_size: mtu.saturating_add(self.plan.overhead),
            bdp: None,
            limit: DEFAULT_LIMIT,
            flows: FLOWS,
            key: BUNDLE.scheduler,
            place: "a bundle",
        };
        let queue = around.queue(Some(value), self.sink);
        if matches!(queue.discipline, Discipline::Policer { .. }) {
            self.sink
                .report(Code::Conflict, &value.at, "a policer has no queue")
                .help("a sendbox must queue packets: use another kind");
            return None;
        }
        Some(queue)
    }

    fn bundle_constants(&mut self, table: &Table) -> BundleConstants {
        let changes = table.read(BUNDLE.constants).unwrap_or_default();
        changes.parse().unwrap_or_else(|error: InvalidConstant| {
            let at = table.get(BUNDLE.constants.field).map_or(0..0, |value| value.at.clone());
            self.sink.report(Code::OutOfRange, &at, error.to_string());
            BundleConstants::default()
        })
    }

    fn bundle_control(&mut self, value: &Value) -> Option<BundleControl> {
        let name = value.text().or_else(|| value.table()?.text(CONTROL_KINDS.key))?;
        Some(match name {
            "copa" => BundleControl::Copa,
            "basic-delay" => BundleControl::BasicDelay,
            "bbr" => BundleControl::Bbr,
            "constant" if value.text().is_some() => {
                self.sink
                    .report(Code::MissingKey, &value.at, "constant control needs a rate")
                    .help("write `{ kind = \"constant\", rate = \"90 Mbit/s\" }`");
                return None;
            }
            "constant" => BundleControl::Constant(value.table()?.read(CONSTANT_CONTROL.rate)?),
            // A word in a table has been checked with the table's other keys.
            _ if value.table().is_some() => return None,
            _ => {
                let known = CONTROL_KINDS.kinds.iter().map(|kind| kind.0);
                self.sink
                    .report(Code::UnknownWord, &value.at, format!("`control` cannot be `{name}`"))
                    .help(suggest(name, known, "laws"));
                return None;
            }
        })
    }

    /// Floor and ceiling, in order, with a constant rate between them.
    fn bounds(
        &mut self,
        table: &Table,
        control: Option<BundleControl>,
    ) -> (Bandwidth, Option<Bandwidth>) {
        let ceiling = table.read(BUNDLE.ceiling);
        let usual = BUNDLE.floor.default();
        let usual = ceiling.map_or(usual, |ceiling| ceiling.min(usual));
        let floor = table.given(BUNDLE.floor).unwrap_or(usual);
        let at = |key: &Field| table.get(key).map_or(0..0, |value| value.at.clone());
        if let Some(ceiling) = ceiling.filter(|ceiling| floor > *ceiling) {
            self.sink
                .report(
                    Code::Conflict,
                    &at(BUNDLE.floor.field),
                    format!("the floor is above {ceiling}"),
                )
                .also(&at(BUNDLE.ceiling.field), "the ceiling")
                .help("the floor must be below the ceiling");
            return (floor, Some(ceiling));
        }
        if let Some(BundleControl::Constant(rate)) = control {
            let above = ceiling.is_some_and(|ceiling| rate > ceiling);
            if rate < floor || above {
                let (key, bound) = if above { ("ceiling", ceiling) } else { ("floor", None) };
                let bound = bound.unwrap_or(floor);
                let side = if above { "above" } else { "below" };
                let message = format!("{rate} is {side} the {key}, {bound}");
                let diagnostic =
                    self.sink.report(Code::Conflict, &at(BUNDLE.control.field), message);
                if let Some(value) = table.get(key) {
                    diagnostic.also(&value.at, format!("the {key}"));
                }
                diagnostic.help(format!("remove the {key}, or move it"));
            }
        }
        (floor, ceiling)
    }

    /// Rejects features that bundles do not support, and warns about settings without effect.
    pub(super) fn check_bundles(&mut self) {
        self.reject_traffic_on_gateways();
        let Some(first) = self.places.bundles.first().cloned() else {
            self.warn_about_idle_boxes();
            return;
        };
        self.refuse_simple_models(&first);
        if self.sink.has_errors() {
            return;
        }
        self.check_paths();
        self.warn_about_idle_boxes();
    }

    /// A gateway only forwards, apart from the messages between gateways.
    fn reject_traffic_on_gateways(&mut self) {
        let plan = &self.plan;
        let places = &self.places;
        let programs = plan.programs.iter().zip(&places.programs);
        let programs = programs.map(|(program, at)| (program.node, at, "runs no programs"));
        let flows = plan.flows.iter().zip(&places.flows).flat_map(|(flow, at)| {
            [(flow.from, at, "sends nothing"), (flow.to, at, "receives nothing")]
        });
        let work: Vec<(NodeId, At, &str)> = programs
            .chain(flows)
            .filter(|(node, ..)| plan.nodes[node.index()].kind.is_box())
            .map(|(node, at, what)| (node, at.clone(), what))
            .collect();
        for (node, at, what) in work {
            self.refuse_on_box(node, &at, what);
        }
        let mirrors = self.entries("mirror");
        let copies: Vec<NodeId> = self
            .plan
            .mirrors
            .iter()
            .filter_map(|mirror| match mirror.to {
                MirrorTarget::Node(node) => Some(node),
                MirrorTarget::File => None,
            })
            .filter(|node| self.plan.nodes[node.index()].kind.is_box())
            .collect();
        for node in copies {
            let name = &self.plan.nodes[node.index()].name;
            let to = mirrors.iter().filter_map(|(_, table)| table.get(MIRROR.to));
            let at = to.filter(|value| value.text() == Some(name)).map(|value| value.at.clone());
            let at = at.into_iter().next().unwrap_or(0..0);
            self.refuse_on_box(node, &at, "takes no copies");
        }
    }

    fn refuse_on_box(&mut self, node: NodeId, at: &At, what: &str) {
        let node = &self.plan.nodes[node.index()];
        let message = format!("`{}` is a {} and {what}", node.name, node.kind.word());
        self.sink.report(Code::Restricted, at, message).help("take a host behind it");
    }

    fn refuse_simple_models(&mut self, first: &At) {
        let (Field { key, .. }, message, help) = match (self.plan.model, self.plan.routing) {
            (Model::Collapsed(_), _) => (
                LAB.model.field,
                "the collapsed model does not support sendboxes and receiveboxes",
                "paths become single pipes there; bundles need `model = \"hop\"`",
            ),
            (Model::Fluid, _) => (
                LAB.model.field,
                "the fluid model has no packets, so it does not support sendboxes and receiveboxes",
                "bundles need `model = \"hop\"`",
            ),
            (Model::Hop, Routing::None) => (
                LAB.routing.field,
                "sendboxes and receiveboxes select packets by the lab's routes",
                "bundles need `routing` by delay, hops or metric",
            ),
            (Model::Hop, _) => {
                self.refuse_rate_control(first);
                return;
            }
        };
        let diagnostic = self.sink.report(Code::Conflict, first, message);
        if let Some(value) = self.input.root.table("lab").and_then(|lab| lab.get(*key)) {
            diagnostic.also(&value.at, format!("the {key}"));
        }
        diagnostic.help(help);
    }

    fn refuse_rate_control(&mut self, first: &At) {
        if !self.plan.is_rate_controlled() {
            return;
        }
        let message = "a lab has bundles, or explicit rate control, not both";
        let diagnostic = self.sink.report(Code::Conflict, first, message);
        let section = self.input.root.entry("control").map(|entry| entry.key_at.clone());
        let first = self.places.populations.first().or(self.places.protocol.as_ref()).cloned();
        if let Some(at) = section.or(first) {
            diagnostic.also(&at, "rate control");
        }
        diagnostic.help("remove one of the two");
    }

    /// Checks that gateways can reach each other and that some traffic uses the path.
    fn check_paths(&mut self) {
        let up = vec![true; self.plan.links.len()];
        let routes = Routes::compute(&self.plan, &up);
        let pairs = self.sender_receiver_pairs();
        for index in 0..self.plan.bundles.len() {
            let (from, to) = (self.plan.bundles[index].from, self.plan.bundles[index].to);
            let [a, b] = [from, to].map(|node| self.plan.nodes[node.index()].name.clone());
            let at = self.places.bundles[index].clone();
            let way = |from: NodeId, to: NodeId| {
                let mut ifaces = self.plan.nodes[to.index()].ifaces.iter();
                ifaces.any(|iface| routes.path(from, *iface, |_, ways| ways[0]).is_some())
            };
            if !way(from, to) || !way(to, from) {
                self.sink
                    .report(
                        Code::Unreachable,
                        &at,
                        format!("no route from `{a}` to `{b}` and back"),
                    )
                    .help("link them over routers; hosts do not forward");
                continue;
            }
            let crossed = pairs.as_ref().is_none_or(|pairs| {
                pairs.iter().any(|(source, sink)| {
                    let dest = self.plan.nodes[sink.index()].ifaces.first();
                    dest.is_some_and(|dest| {
                        let before = reached(&self.plan, &routes, *source, *dest, None);
                        let beside = reached(&self.plan, &routes, from, *dest, Some(to));
                        before.contains(&from) && !beside.contains(sink)
                    })
                })
            });
            if !crossed {
                let message = format!("no traffic passes `{a}` and then always `{b}`");
                self.sink.report(Code::NoEffect, &at, message).help(
                    "a bundle takes packets that pass its sendbox and, on every shortest path \
                     from there, its receivebox; is one of the boxes beside the path?",
                );
            }
        }
    }

    /// Pairs of sender and receiver; `None` if unknown, because programs can send to any node and
    /// changes of links change the paths.
    fn sender_receiver_pairs(&self) -> Option<Vec<(NodeId, NodeId)>> {
        use crate::plan::Action;
        let moves = |action: &Action| {
            matches!(
                action,
                Action::Set { .. }
                    | Action::LinkDown(_)
                    | Action::LinkUp(_)
                    | Action::NodeDown(_)
                    | Action::NodeUp(_)
            )
        };
        let still = self.plan.events.iter().all(|event| !moves(&event.action));
        let known = still && self.plan.links.iter().all(|link| link.up);
        if !known || !self.plan.programs.is_empty() {
            return None;
        }
        let ways = self.plan.flows.iter().flat_map(|f| [(f.from, f.to), (f.to, f.from)]);
        let mut pairs: Vec<_> = ways.collect();
        pairs.sort_unstable();
        pairs.dedup();
        Some(pairs)
    }

    fn warn_about_idle_boxes(&mut self) {
        if self.sink.has_errors() {
            return;
        }
        let busy = |at: NodeId| self.plan.bundles.iter().any(|b| b.from == at || b.to == at);
        let nodes = self.plan.nodes.iter().enumerate().filter(|(_, node)| node.kind.is_box());
        let idle: Vec<usize> =
            nodes.map(|(index, _)| index).filter(|index| !busy(NodeId::at(*index))).collect();
        for index in idle {
            let (name, at) =
                (self.plan.nodes[index].name.clone(), self.places.nodes[index].clone());
            self.sink
                .report(Code::NoEffect, &at, format!("`{name}` belongs to no bundle"))
                .help("it forwards as a router does; add a `[[bundle]]`");
        }
    }
}

/// The nodes on any shortest path from `from` to interface `to`, except those
/// reached only through `without`.
fn reached(
    plan: &crate::plan::Plan,
    routes: &Routes,
    from: NodeId,
    to: base::IfaceId,
    without: Option<NodeId>,
) -> Vec<NodeId> {
    let mut seen = vec![from];
    let mut next = 0;
    while let Some(node) = seen.get(next).copied() {
        next += 1;
        for iface in routes.next(node, to) {
            let iface = &plan.ifaces[iface.index()];
            let peer = plan.links[iface.link.index()].ends[1 - iface.sends.index()];
            if Some(peer) != without && !seen.contains(&peer) {
                seen.push(peer);
            }
        }
    }
    seen
}
