//! `[[at]]`: timed events.

use std::collections::BTreeMap;
use std::fmt::Debug;

use base::{Direction, LinkId};
use fabric::LinkConfig;

use super::Compiler;
use super::properties::of_direction;
use crate::code::Code;
use crate::fields::{AT, Field};
use crate::plan::{Action, BoxAction, Event, Plan};
use crate::resolved::direction_fields;
use crate::tree::{At, Table};
use crate::validate::list_words;
use base::Time;

const MAX_EVENTS: usize = 100_000;
const TARGETS: &[&Field] = &keys!(AT: link, node, program, flow, r#box);
const ACTIONS: &[&Field] = &keys!(AT: set, down, up, stop, kill, start, action);

/// A compiled action, except that the resulting properties of a link are not known yet.
#[derive(Debug)]
enum Draft<'t> {
    Done(Action),
    Set(LinkId, &'t Table),
}

/// The properties of a link before the first event.
type Current<'c> = dyn Fn(&Plan, LinkId) -> [LinkConfig; 2] + 'c;

impl<'a> Compiler<'a> {
    pub(super) fn read_events(&mut self) {
        let mut drafts = Vec::new();
        for (at, table) in self.entries("at") {
            let time = table.get(AT.time).and_then(|value| self.moment(value));
            let found = self.event(table, &at);
            let Some(time) = time else { continue };
            drafts.extend(found.into_iter().map(|draft| (time, draft)));
            if drafts.len() > MAX_EVENTS {
                self.sink
                    .report(Code::Limit, &at, format!("more than {MAX_EVENTS} events"))
                    .help("each node, flow or program of a pattern counts");
                return;
            }
        }
        // Equal times keep the file's order.
        drafts.sort_by_key(|(time, _)| *time);
        self.add_events(drafts, &|plan, link| plan.links[link.index()].directions.clone());
    }

    /// Compiles the events of a running lab, whose links have the properties `current`.
    pub(super) fn read_live_events(&mut self, time: Time, current: &Current<'_>) {
        let mut drafts = Vec::new();
        for (at, table) in self.entries("at") {
            drafts.extend(self.event(table, &at).into_iter().map(|draft| (time, draft)));
        }
        self.add_events(drafts, current);
    }

    fn add_events(&mut self, drafts: Vec<(Time, Draft<'a>)>, current: &Current<'_>) {
        let mut configs = BTreeMap::new();
        for (at, draft) in drafts {
            match draft {
                Draft::Done(action) => {
                    let text = describe(&self.plan, &action);
                    self.plan.events.push(Event { at, action, text });
                }
                Draft::Set(link, table) => {
                    let config = configs.entry(link).or_insert_with(|| current(&self.plan, link));
                    self.set(at, link, table, config);
                }
            }
        }
    }

    fn event(&mut self, table: &'a Table, at: &At) -> Vec<Draft<'a>> {
        let entries = |keys: &[&'static Field]| -> Vec<&'static str> {
            keys.iter().filter(|key| table.get(**key).is_some()).map(|field| field.key).collect()
        };
        let (targets, actions) = (entries(TARGETS), entries(ACTIONS));
        let ([target], [action]) = (targets.as_slice(), actions.as_slice()) else {
            let (missing, known, found) = if targets.len() == 1 {
                ("this event has no action", ACTIONS, actions)
            } else {
                ("this event has no target", TARGETS, targets)
            };
            let message = if found.is_empty() {
                missing.to_owned()
            } else {
                format!("this event has {} at once", list_words(found.iter().copied()))
            };
            self.sink.report(Code::Conflict, at, message).help(format!(
                "exactly one of {}",
                list_words(known.iter().map(|field| field.key))
            ));
            return Vec::new();
        };
        let allowed: &[&str] = match *target {
            "link" => &["set", "down", "up"],
            "node" => &["down", "up"],
            "program" => &["stop", "kill", "start"],
            "box" => &["action"],
            _ => &["stop", "start"],
        };
        let action_at = table.entry(action).map_or_else(|| at.clone(), |e| e.key_at.clone());
        if !allowed.contains(action) {
            self.sink
                .report(Code::Conflict, &action_at, format!("a {target} has no `{action}`"))
                .help(format!("one of {}", list_words(allowed.iter().copied())));
            return Vec::new();
        }
        if table.flag(action) == Some(false) {
            self.sink
                .report(Code::Conflict, &action_at, format!("`{action} = false` has no effect"))
                .help("remove it, or use the opposite action");
            return Vec::new();
        }
        self.drafts(table, target, action)
    }

    fn drafts(&mut self, table: &'a Table, target: &str, action: &str) -> Vec<Draft<'a>> {
        let Some(value) = table.get(target) else { return Vec::new() };
        let done = |action| vec![Draft::Done(action)];
        match target {
            "link" => match (self.link(value), action) {
                (None, _) => Vec::new(),
                (Some(link), "down") => done(Action::LinkDown(link)),
                (Some(link), "up") => done(Action::LinkUp(link)),
                (Some(link), _) => {
                    table.read(AT.set).map(|set| Draft::Set(link, set)).into_iter().collect()
                }
            },
            "node" => {
                let act = if action == "down" { Action::NodeDown } else { Action::NodeUp };
                self.node_group(value).into_iter().map(|node| Draft::Done(act(node))).collect()
            }
            "program" => {
                let act = match action {
                    "stop" => Action::Stop,
                    "kill" => Action::Kill,
                    _ => Action::Start,
                };
                self.program_group(value).into_iter().map(|id| Draft::Done(act(id))).collect()
            }
            "box" => {
                let act = table.read(AT.action);
                let node = self.any_gateway(value);
                node.zip(act)
                    .map(|(id, act)| Draft::Done(Action::Box(id, act)))
                    .into_iter()
                    .collect()
            }
            _ => {
                let act = if action == "start" { Action::FlowStart } else { Action::FlowStop };
                self.flow_group(value).into_iter().map(|id| Draft::Done(act(id))).collect()
            }
        }
    }

    fn set(&mut self, at: Time, link: LinkId, table: &'a Table, configs: &mut [LinkConfig; 2]) {
        for direction in Direction::BOTH {
            let before = &mut configs[direction.index()];
            let mut config = before.clone();
            let queue = self.properties(&mut config, &of_direction(table, direction));
            if queue.is_some() {
                config.queue = self.queue(queue, &config);
            }
            if config == *before {
                continue;
            }
            let name = &self.plan.links[link.index()].name;
            let changes = changes(before, &config);
            let text = format!("link {name} {}: {changes}", direction.as_str());
            *before = config.clone();
            let action = Action::Set { link, direction, config: Box::new(config) };
            self.places.changes.insert(self.plan.events.len(), table);
            self.plan.events.push(Event { at, action, text });
        }
    }
}

/// The differences, such as `delay 100 ms, loss 1 %`.
fn changes(before: &LinkConfig, after: &LinkConfig) -> String {
    let before = direction_fields(before);
    let changed = direction_fields(after).into_iter().filter(|field| !before.contains(field));
    let texts: Vec<String> = changed
        .map(|(key, value)| {
            let short = if value.len() > 200 { "changed".to_owned() } else { value };
            format!("{key} {}", short.replace('"', ""))
        })
        .collect();
    texts.join(", ")
}

fn describe(plan: &Plan, action: &Action) -> String {
    let link = |id: &LinkId| plan.links[id.index()].name.as_str();
    let node = |id: &base::NodeId| plan.nodes[id.index()].name.as_str();
    let program = |id: &base::ProgramId| plan.programs[id.index()].name.as_str();
    let flow = |id: &base::FlowId| plan.flows[id.index()].name.as_str();
    match action {
        Action::Set { link: id, .. } => format!("link {} changes", link(id)),
        Action::LinkDown(id) => format!("link {} goes down", link(id)),
        Action::LinkUp(id) => format!("link {} comes up", link(id)),
        Action::Stop(id) => format!("program {} is stopped", program(id)),
        Action::Kill(id) => format!("program {} is killed", program(id)),
        Action::Start(id) => format!("program {} starts", program(id)),
        Action::NodeDown(id) => format!("node {} goes down", node(id)),
        Action::NodeUp(id) => format!("node {} comes up", node(id)),
        Action::FlowStart(id) => format!("flow {} starts", flow(id)),
        Action::FlowStop(id) => format!("flow {} stops", flow(id)),
        Action::Box(id, BoxAction::Stop) => format!("box {} stops", node(id)),
        Action::Box(id, BoxAction::Start) => format!("box {} starts", node(id)),
        Action::Box(id, BoxAction::Restart) => format!("box {} restarts", node(id)),
    }
}
