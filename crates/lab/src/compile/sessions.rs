//! Populations of sessions, and the hosts that drawn ones bring.

use std::collections::BTreeMap;

use base::{Bandwidth, Bytes, NodeId, Span, Time};
use fabric::{Discipline, LinkConfig, QueueConfig, QueueLimit, Rate};

use super::Compiler;
use super::links::Draft;
use crate::code::Code;
use crate::plan::{Drawing, Population, Role, Session};
use crate::tree::{At, Table, Value};

mod draw;

use draw::{Drawn, Places};

const MOST_SESSIONS: usize = 2_000_000;
const MOST_PLACES: u64 = 10_000_000;

/// A population that is yet to be drawn.
struct Undrawn<'a> {
    at: At,
    table: &'a Table,
    /// Its position in the plan.
    index: usize,
    name: String,
    rules: Drawing,
}

impl Compiler<'_> {
    pub(super) fn read_sessions(&mut self) {
        let mut drawings = Vec::new();
        for (at, table) in self.entries("sessions") {
            let Some(name) = self.population_name(table) else { continue };
            let index = self.plan.sessions.len();
            // As large as a controlled flow's, which fills the default MTU.
            let full = Bytes::new(1500).saturating_add(self.plan.overhead);
            let packet = table.bytes("packet").unwrap_or(full);
            self.places.populations.push(at.clone());
            let population =
                Population { name: name.clone(), packet, sessions: vec![], drawing: None };
            self.plan.sessions.push(population);
            if let Some(each) = table.entry("each") {
                self.refuse_drawing(table, &each.key_at);
                self.plan.sessions[index].sessions = self.listed(&each.value);
            } else if let Some(rules) = self.rules(table, &at) {
                drawings.push(Undrawn { at, table, index, name, rules });
            }
        }
        // Whose turn it is must not depend on the order of the file.
        drawings.sort_by(|a, b| a.name.cmp(&b.name));
        self.places.drawn_links = self.plan.links.len();
        if self.agree_on_links(&drawings) && self.fit(&drawings) {
            self.draw_sessions(drawings);
        }
    }

    fn population_name(&mut self, table: &Table) -> Option<String> {
        let value = table.get("name")?;
        let name = self.label(value.text()?, &value.at, "population")?;
        if let Some(other) = self.plan.sessions.iter().position(|p| p.name == name) {
            let first = self.places.populations[other].clone();
            self.sink
                .report(Code::Duplicate, &value.at, format!("there are sessions `{name}` already"))
                .also(&first, "the first")
                .help("rename one of them: names key what populations draw");
            return None;
        }
        Some(name)
    }

    fn refuse_drawing(&mut self, table: &Table, each: &At) {
        for entry in &table.entries {
            if !matches!(entry.key.as_str(), "name" | "packet" | "each") {
                let message = format!("`{}` is for sessions that are drawn", entry.key);
                self.sink
                    .report(Code::Conflict, &entry.key_at, message)
                    .also(each, "here they are listed")
                    .help("drop it, or `each`");
            }
        }
    }

    fn listed(&mut self, value: &Value) -> Vec<Session> {
        let list = value.list().unwrap_or_default();
        list.iter().filter_map(|value| self.session(value.table()?, &value.at)).collect()
    }

    fn session(&mut self, table: &Table, at: &At) -> Option<Session> {
        let end = |this: &mut Self, key: &str, what: &str| {
            let value = table.get(key)?;
            let node = this.node(value.text()?, &value.at)?;
            this.no_switch(node, &value.at, what).then_some(node)
        };
        let (from, to) = (end(self, "from", "sends nothing"), end(self, "to", "receives nothing"));
        let (from, to) = (from?, to?);
        if from == to {
            let name = &self.plan.nodes[from.index()].name;
            let message = format!("`{name}` would send to itself");
            self.sink
                .report(Code::Conflict, at, message)
                .help("that would never cross a link; name another node");
            return None;
        }
        let start = self.moment(table, "start").unwrap_or(Time::ZERO);
        let leave = table.span("leave").map(|leave| Time::ZERO + leave);
        if let Some(value) = table.get("leave").filter(|_| leave.is_some_and(|at| at < start)) {
            self.refuse_leave(value, start, table);
        }
        let (size, demand) = (table.bytes("size"), table.bandwidth("demand"));
        Some(Session { from, to, start, leave, size, demand })
    }

    fn refuse_leave(&mut self, value: &Value, start: Time, table: &Table) {
        let message = "a session would leave before it starts";
        let diagnostic = self.sink.report(Code::Schedule, &value.at, message);
        if let Some(value) = table.get("start") {
            diagnostic.also(&value.at, "it starts here");
        }
        diagnostic.help(format!("nobody leaves before {start}, when the last one starts"));
    }

    fn rules(&mut self, table: &Table, at: &At) -> Option<Drawing> {
        for (key, what) in [("count", "how many"), ("routers", "the routers of their hosts")] {
            if table.get(key).is_none() {
                self.sink
                    .report(Code::MissingKey, at, format!("sessions that are drawn need `{key}`"))
                    .help(format!("{what}; or list them: `each = [{{ from = …, to = … }}]`"));
            }
        }
        let whole = |key| table.whole(key).and_then(|count| u32::try_from(count).ok());
        let routers = self.router_group(table.get("routers")?);
        let start = self.moments(table, "start").unwrap_or((Time::ZERO, Time::ZERO));
        let leave = table.get("leave").and_then(|_| self.moments(table, "leave"));
        if let (Some(value), Some((first, _))) = (table.get("leave"), leave)
            && first < start.1
        {
            self.refuse_leave(value, start.1, table);
        }
        let size = match table.get("size") {
            Some(value) => Some(self.sizes(value)?),
            None => None,
        };
        let demand = table.get("demand").and_then(|value| self.demand(value));
        let count = whole("count")?;
        let leave_count = self.leavers(table, count);
        let known = !routers.is_empty();
        known.then_some(Drawing {
            count,
            routers,
            hosts: whole("hosts").unwrap_or(200),
            host_rate: table.bandwidth("host_rate").unwrap_or(Bandwidth::from_mbits_per_sec(100)),
            host_delay: table.span("host_delay").unwrap_or(Span::from_micros(1)),
            start,
            leave,
            leave_count,
            size,
            demand,
        })
    }

    fn leavers(&mut self, table: &Table, count: u32) -> u32 {
        let Some(entry) = table.entry("leave_count") else { return count };
        if table.get("leave").is_none() {
            self.sink
                .report(Code::Conflict, &entry.key_at, "`leave_count` needs `leave`")
                .help("when they leave: `leave = [\"500 ms\", \"700 ms\"]`");
        }
        let leavers = entry.value.whole().and_then(|n| u32::try_from(n).ok()).unwrap_or(count);
        if leavers > count {
            let message = format!("{leavers} of {count} sessions would leave");
            self.sink
                .report(Code::OutOfRange, &entry.value.at, message)
                .help(format!("at most {count}"));
        }
        leavers.min(count)
    }

    /// One moment, or two between which all are.
    fn moments(&mut self, table: &Table, key: &str) -> Option<(Time, Time)> {
        let value = table.get(key)?;
        if value.text().is_some() {
            return self.moment(table, key).map(|moment| (moment, moment));
        }
        let spans: Option<Vec<Span>> =
            value.list()?.iter().map(|value| value.text()?.parse().ok()).collect();
        let [first, last] = spans?[..] else { return None };
        if first > last {
            self.refuse_backwards(value, key);
            return None;
        }
        if last > self.plan.duration {
            let message =
                format!("this is not before the end of the run, at {}", self.plan.duration);
            self.sink
                .report(Code::Schedule, &value.at, message)
                .help("make `duration` in `[lab]` longer, or this sooner");
        }
        Some((Time::ZERO + first, Time::ZERO + last))
    }

    fn demand(&mut self, value: &Value) -> Option<(Bandwidth, Bandwidth)> {
        let rates: Option<Vec<Bandwidth>> =
            value.one_or_more().iter().map(|value| value.text()?.parse().ok()).collect();
        match rates?[..] {
            [rate] => Some((rate, rate)),
            [least, most] if least <= most => Some((least, most)),
            [..] => {
                self.refuse_backwards(value, "demand");
                None
            }
        }
    }

    fn refuse_backwards(&mut self, value: &Value, key: &str) {
        self.sink
            .report(Code::OutOfRange, &value.at, format!("`{key}` goes from more to less"))
            .help("the smaller value comes first");
    }

    /// A host has one link, whichever population it serves.
    fn agree_on_links(&mut self, drawings: &[Undrawn<'_>]) -> bool {
        let mut first: BTreeMap<NodeId, &Undrawn<'_>> = BTreeMap::new();
        let kind = |drawing: &Undrawn<'_>| (drawing.rules.host_rate, drawing.rules.host_delay);
        for drawing in drawings {
            for router in &drawing.rules.routers {
                let known = first.entry(*router).or_insert(drawing);
                if kind(known) == kind(drawing) {
                    continue;
                }
                let name = &self.plan.nodes[router.index()].name;
                let message = format!("hosts on `{name}` would have links of two kinds");
                let link = |d: &Undrawn<'_>| {
                    let keys = ["host_rate", "host_delay"];
                    let own = keys.iter().find_map(|key| d.table.get(key));
                    own.map_or_else(|| d.at.clone(), |value| value.at.clone())
                };
                self.sink
                    .report(Code::Conflict, &link(drawing), message)
                    .also(&link(known), format!("as sessions `{}` want it", known.name))
                    .help("the same `host_rate` and `host_delay` on the same routers");
                return false;
            }
        }
        true
    }

    /// Whether memory is bounded and every source finds a place.
    fn fit(&mut self, drawings: &[Undrawn<'_>]) -> bool {
        let listed: usize = self.plan.sessions.iter().map(|p| p.sessions.len()).sum();
        let (mut sessions, mut places) = (listed, 0);
        let max_sessions = MOST_SESSIONS.min(self.input.max_items);
        let max_places = MOST_PLACES.min(self.input.max_items as u64);
        for drawing in drawings {
            let (rules, at) = (&drawing.rules, &drawing.at);
            sessions += rules.count as usize;
            places += rules.routers.len() as u64 * u64::from(rules.hosts);
            let (message, help) = if sessions > max_sessions {
                let help = format!("a lab has at most {max_sessions} sessions");
                (format!("{sessions} sessions"), help)
            } else if places > max_places {
                let help = format!("at most {max_places}: fewer `hosts`, or fewer `routers`");
                (format!("these are {places} places for hosts"), help)
            } else {
                continue;
            };
            self.sink.report(Code::Limit, at, message).help(help);
            return false;
        }
        true
    }

    fn draw_sessions(&mut self, drawings: Vec<Undrawn<'_>>) {
        let mut places = Places::default();
        for drawing in &drawings {
            places.add(&drawing.rules);
        }
        let mut drawn: Vec<Vec<Drawn>> = Vec::new();
        for drawing in &drawings {
            let rules = &drawing.rules;
            let all = rules.routers.len() as u64 * u64::from(rules.hosts);
            let free = places.free(rules);
            if free < u64::from(rules.count) || all < 2 {
                self.refuse_crowd(drawing, all, free);
                return;
            }
            drawn.push(draw::draw(&drawing.name, rules, self.plan.seed, &mut places));
        }
        // Nobody would look at more than the mistakes.
        if self.sink.has_errors() || !self.add_hosts(&drawings, &mut places) {
            return;
        }
        for (Undrawn { index, rules, .. }, drawn) in drawings.into_iter().zip(drawn) {
            let session = |d: Drawn| {
                let (from, to) = (places.host(d.from)?, places.host(d.to)?);
                let Drawn { start, leave, size, demand, .. } = d;
                Some(Session { from, to, start, leave, size, demand })
            };
            let population = &mut self.plan.sessions[index];
            population.sessions = drawn.into_iter().filter_map(session).collect();
            population.drawing = Some(rules);
        }
    }

    fn refuse_crowd(&mut self, drawing: &Undrawn<'_>, all: u64, free: u64) {
        let rules = &drawing.rules;
        let count = drawing.table.get("count").map_or(&drawing.at, |value| &value.at);
        let message = match free {
            _ if all < 2 => "a session from the only place to itself".to_owned(),
            _ if free < all => {
                format!("{} sources, but other sessions leave {free} of {all} places", rules.count)
            }
            _ => format!("{} sources, but only {all} places", rules.count),
        };
        let routers = rules.routers.len();
        self.sink.report(Code::TooFewPlaces, count, message).help(format!(
            "{routers} router{} × {} `hosts`; each place is the source of one session",
            if routers == 1 { "" } else { "s" },
            rules.hosts
        ));
    }

    /// Makes nodes of the places that are used; `false` when one could not be.
    fn add_hosts(&mut self, drawings: &[Undrawn<'_>], places: &mut Places) -> bool {
        let mut owner: BTreeMap<NodeId, &Undrawn<'_>> = BTreeMap::new();
        for drawing in drawings {
            for router in &drawing.rules.routers {
                owner.entry(*router).or_insert(drawing);
            }
        }
        for ((router, number), slot) in places.used() {
            let drawing = owner[&router];
            let name = format!("{}-p{}", self.plan.nodes[router.index()].name, number + 1);
            let Some(host) = self.add_unplaced_node(&name, Role::Host, &drawing.at) else {
                return false;
            };
            let config = host_link(&drawing.rules);
            let draft = Draft {
                ends: [host, router],
                directions: [config.clone(), config],
                metric: 1,
                up: true,
            };
            if self.add_link(None, draft, &drawing.at).is_none() {
                return false;
            }
            slot.host = Some(host);
        }
        true
    }
}

fn host_link(rules: &Drawing) -> LinkConfig {
    LinkConfig {
        rate: Rate::Constant(rules.host_rate),
        delay: rules.host_delay,
        queue: QueueConfig {
            discipline: Discipline::DropTail,
            limit: QueueLimit::UNLIMITED,
            ecn: false,
        },
        mtu: Bytes::new(1500),
        ..LinkConfig::default()
    }
}
