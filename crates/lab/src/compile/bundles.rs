//! `[[bundle]]`, and the boxes at both ends.

use base::{Bandwidth, Bytes, NodeId, Ratio, Span};
use fabric::{Discipline, QueueConfig, QueueLimit};

use super::Compiler;
use super::queue::Surroundings;
use crate::code::Code;
use crate::diagnostic::suggest;
use crate::fields::CONTROL_KINDS;
use crate::plan::{
    BoxAction, Bundle, BundleControl, Feedback, Marking, MirrorTarget, Mode, Model, Role, Routing,
};
use crate::routes::Routes;
use crate::tree::{At, Table, Value};

const MOST_BUNDLES: usize = 4096;
/// The sendbox finds its own.
const USUAL_LIMIT: QueueLimit = QueueLimit::UNLIMITED;
/// So that hardly any two share a queue.
const FLOWS: u32 = 65_536;
/// As the paper has it.
const USUAL_FLOOR: Bandwidth = Bandwidth::from_mbits_per_sec(1);

impl Compiler<'_> {
    /// Bundles, in the order of their names.
    pub(super) fn read_bundles(&mut self) {
        let mut found: Vec<(Bundle, At)> = Vec::new();
        for (at, table) in self.entries("bundle") {
            let Some(bundle) = self.bundle(table) else { continue };
            let same = |(other, _): &&(Bundle, At)| {
                other.name == bundle.name || (other.from, other.to) == (bundle.from, bundle.to)
            };
            if let Some((other, first)) = found.iter().find(same) {
                let message = if (other.from, other.to) == (bundle.from, bundle.to) {
                    "these two boxes have a bundle already".to_owned()
                } else {
                    format!("there is a bundle `{}` already", bundle.name)
                };
                self.sink.report(Code::Duplicate, &at, message).also(first, "the first");
                continue;
            }
            if self.room(found.len(), MOST_BUNDLES, "bundles", &at) {
                found.push((bundle, at));
            }
        }
        found.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        (self.plan.bundles, self.places.bundles) = found.into_iter().unzip();
    }

    fn bundle(&mut self, table: &Table) -> Option<Bundle> {
        let from = table.get("from").and_then(|value| self.box_of(value, Role::SendBox));
        let to = table.get("to").and_then(|value| self.box_of(value, Role::ReceiveBox));
        let given = table.get("name").and_then(|v| self.label(v.text()?, &v.at, "bundle"));
        let scheduler = self.scheduler(table.get("scheduler"));
        let control = match table.get("control") {
            Some(value) => self.bundle_control(value),
            None => Some(BundleControl::Copa),
        };
        let (floor, ceiling) = self.bounds(table, control);
        let (from, to) = (from?, to?);
        let name = |node: NodeId| self.plan.nodes[node.index()].name.as_str();
        let name = given.unwrap_or_else(|| format!("{}-{}", name(from), name(to)));
        let empty = Table::default();
        let feedback = table.table("feedback").unwrap_or(&empty);
        Some(Bundle {
            name,
            from,
            to,
            scheduler: scheduler?,
            control: control?,
            marking: match table.text("marking") {
                Some("encapsulation") => Marking::Encapsulation,
                _ => Marking::Header,
            },
            mode: match table.text("mode") {
                Some("observe") => Mode::Observe,
                Some("dry-run") => Mode::DryRun,
                _ => Mode::Enforce,
            },
            floor,
            ceiling,
            weight: table.whole("weight").unwrap_or(1) as u32,
            elasticity: table.flag("elasticity").unwrap_or(true),
            multipath: table.flag("multipath").unwrap_or(true),
            feedback: Feedback {
                loss: feedback.ratio("loss").unwrap_or(Ratio::ZERO),
                jitter: feedback.span("jitter").unwrap_or(Span::ZERO),
            },
        })
    }

    /// The box of this kind that a text names.
    fn box_of(&mut self, value: &Value, role: Role) -> Option<NodeId> {
        let text = value.text()?;
        let node = self.node(text, &value.at)?;
        if self.plan.nodes[node.index()].kind == role {
            return Some(node);
        }
        let kind = kind(role);
        let boxes = self.plan.nodes.iter().filter(|node| node.kind == role);
        let help = suggest(text, boxes.map(|node| node.name.as_str()), &format!("{kind}es"));
        let help = if help.starts_with("there are no") {
            format!("say `kind = \"{kind}\"` in `[node.{text}]`, or add one")
        } else {
            help
        };
        let declared = self.places.nodes[node.index()].clone();
        self.sink
            .report(Code::Restricted, &value.at, format!("`{text}` is no {kind}"))
            .also(&declared, "it is declared here")
            .help(help);
        None
    }

    /// The box that an event is about.
    pub(super) fn any_box(&mut self, value: &Value) -> Option<NodeId> {
        let text = value.text()?;
        let node = self.node(text, &value.at)?;
        if self.plan.nodes[node.index()].kind.is_box() {
            return Some(node);
        }
        let boxes = self.plan.nodes.iter().filter(|node| node.kind.is_box());
        let help = suggest(text, boxes.map(|node| node.name.as_str()), "boxes");
        self.sink
            .report(Code::Restricted, &value.at, format!("`{text}` is no box"))
            .help(format!("{help}; other nodes go `down` and `up`"));
        None
    }

    fn scheduler(&mut self, value: Option<&Value>) -> Option<QueueConfig> {
        let mtus = self.plan.links.iter().flat_map(|link| link.directions.iter().map(|d| d.mtu));
        let mtu = mtus.max().unwrap_or(Bytes::new(1500));
        let quantum = mtu.saturating_add(self.plan.overhead);
        let around = Surroundings {
            full_size: quantum,
            bdp: None,
            limit: USUAL_LIMIT,
            flows: FLOWS,
            usual: Discipline::Sfq { flows: FLOWS, quantum, perturb: None },
            key: "scheduler",
            place: "a bundle",
        };
        let Some(value) = value else { return Some(around.queue()) };
        let queue = self.queue_in(value, &around);
        if matches!(queue.discipline, Discipline::Policer { .. }) {
            self.sink
                .report(Code::Conflict, &value.at, "a policer lets nothing wait")
                .help("a sendbox is there to let packets wait: take any other kind");
            return None;
        }
        Some(queue)
    }

    fn bundle_control(&mut self, value: &Value) -> Option<BundleControl> {
        let name = value.text().or_else(|| value.table()?.text("kind"))?;
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
            "constant" => BundleControl::Constant(value.table()?.bandwidth("rate")?),
            // In a table the word was checked with its other keys.
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
        let ceiling = table.bandwidth("ceiling");
        let usual = ceiling.map_or(USUAL_FLOOR, |ceiling| ceiling.min(USUAL_FLOOR));
        let floor = table.bandwidth("floor").unwrap_or(usual);
        let at = |key: &str| table.get(key).map_or(0..0, |value| value.at.clone());
        if let Some(ceiling) = ceiling.filter(|ceiling| floor > *ceiling) {
            self.sink
                .report(Code::Conflict, &at("floor"), format!("the floor is above {ceiling}"))
                .also(&at("ceiling"), "the ceiling")
                .help("the rate moves between both: the floor comes first");
            return (floor, Some(ceiling));
        }
        if let Some(BundleControl::Constant(rate)) = control {
            let above = ceiling.is_some_and(|ceiling| rate > ceiling);
            if rate < floor || above {
                let (key, bound) = if above { ("ceiling", ceiling) } else { ("floor", None) };
                let bound = bound.unwrap_or(floor);
                let side = if above { "above" } else { "below" };
                let message = format!("{rate} is {side} the {key}, {bound}");
                let diagnostic = self.sink.report(Code::Conflict, &at("control"), message);
                if let Some(value) = table.get(key) {
                    diagnostic.also(&value.at, format!("the {key}"));
                }
                diagnostic.help(format!("leave the {key} out, or move it"));
            }
        }
        (floor, ceiling)
    }

    /// What bundles and boxes cannot be beside, and what nothing comes of.
    pub(super) fn check_bundles(&mut self) {
        self.refuse_work_on_boxes();
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

    /// A box forwards; it begins and ends nothing but its own messages.
    fn refuse_work_on_boxes(&mut self) {
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
            let to = mirrors.iter().filter_map(|(_, table)| table.get("to"));
            let at = to.filter(|value| value.text() == Some(name)).map(|value| value.at.clone());
            let at = at.into_iter().next().unwrap_or(0..0);
            self.refuse_on_box(node, &at, "takes no copies");
        }
    }

    fn refuse_on_box(&mut self, node: NodeId, at: &At, what: &str) {
        let node = &self.plan.nodes[node.index()];
        let message = format!("`{}` is a {} and {what}", node.name, kind(node.kind));
        self.sink.report(Code::Restricted, at, message).help("take a host behind it");
    }

    fn refuse_simple_models(&mut self, first: &At) {
        let lab = self.input.root.table("lab");
        let (key, message, help) = match (self.plan.model, self.plan.routing) {
            (Model::Collapsed(_), _) => (
                "model",
                "the collapsed model has no boxes on its paths",
                "paths become single pipes there; bundles need `model = \"hop\"`",
            ),
            (Model::Fluid, _) => (
                "model",
                "the fluid model has no packets that boxes could hold back",
                "bundles need `model = \"hop\"`",
            ),
            (Model::Hop, Routing::None) => (
                "routing",
                "boxes know by the lab's routes which packets are theirs",
                "bundles need `routing` by delay, hops or metric",
            ),
            (Model::Hop, _) => {
                self.refuse_rate_control(first);
                return;
            }
        };
        let diagnostic = self.sink.report(Code::Conflict, first, message);
        if let Some(value) = lab.and_then(|lab| lab.get(key)) {
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
        diagnostic.help("drop one of the two");
    }

    /// There is a way from box to box, and traffic that takes it.
    fn check_paths(&mut self) {
        let up = vec![true; self.plan.links.len()];
        let routes = Routes::compute(&self.plan, &up);
        let pairs = self.talkers();
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
                    .report(Code::Unreachable, &at, format!("no way from `{a}` to `{b}` and back"))
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

    /// Nodes that send to each other, directed; `None` where that is not known: programs talk to
    /// whom they like, and links that change move the paths.
    fn talkers(&self) -> Option<Vec<(NodeId, NodeId)>> {
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

/// What becomes of a box's process.
pub(super) fn box_action(value: &Value) -> Option<BoxAction> {
    Some(match value.text()? {
        "stop" => BoxAction::Stop,
        "start" => BoxAction::Start,
        "restart" => BoxAction::Restart,
        _ => return None,
    })
}

/// What a lab file calls a box.
const fn kind(role: Role) -> &'static str {
    match role {
        Role::SendBox => "sendbox",
        _ => "receivebox",
    }
}

/// The nodes on any shortest path from `from` towards interface `to`, but for what is only
/// reached over `without`.
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
