//! Session generators, and the hosts of generated sessions.

use std::collections::BTreeMap;

use base::{Bandwidth, NodeId, Span, Time};
use fabric::{Discipline, LinkConfig, QueueConfig, QueueLimit, Rate};

use super::Compiler;
use super::links::Draft;
use super::properties::plain_link;
use crate::code::Code;
use crate::fields::{EACH, Field, Key, Kind, LINK, Name, SESSIONS};
use crate::plan::{Drawing, Population, Role, Session};
use crate::tree::{At, Table, Value};

mod draw;

use draw::{Drawn, Places};

const MAX_SESSIONS: usize = 2_000_000;
const MAX_PLACES: u64 = 10_000_000;

/// A session generator whose sessions have not been generated.
struct Undrawn<'a> {
    at: At,
    table: &'a Table,
    /// Its index in the plan.
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
            // The size of a controlled flow's packets, which fill the default MTU.
            let full = LINK.mtu.default().saturating_add(self.plan.overhead);
            let packet = table.read(SESSIONS.packet).unwrap_or(full);
            self.places.populations.push(at.clone());
            let population =
                Population { name: name.clone(), packet, sessions: vec![], drawing: None };
            self.plan.sessions.push(population);
            if let Some(each) = table.entry(SESSIONS.each) {
                self.refuse_drawing(table, &each.key_at);
                self.plan.sessions[index].sessions = self.listed(&each.value);
            } else if let Some(rules) = self.rules(table, &at) {
                drawings.push(Undrawn { at, table, index, name, rules });
            }
        }
        // The order of generators must not depend on the order of the file.
        drawings.sort_by(|a, b| a.name.cmp(&b.name));
        self.places.drawn_links = self.plan.links.len();
        if self.agree_on_links(&drawings) && self.fit(&drawings) {
            self.draw_sessions(drawings);
        }
    }

    fn population_name(&mut self, table: &Table) -> Option<String> {
        let value = table.get(SESSIONS.name)?;
        let name = self.label(value.text()?, &value.at, "population")?;
        if let Some(other) = self.plan.sessions.iter().position(|p| p.name == name) {
            let first = self.places.populations[other].clone();
            self.sink
                .report(Code::Duplicate, &value.at, format!("there are sessions `{name}` already"))
                .also(&first, "the first")
                .help("rename one of them: the random numbers of a generator depend on its name");
            return None;
        }
        Some(name)
    }

    fn refuse_drawing(&mut self, table: &Table, each: &At) {
        for entry in &table.entries {
            let listed = keys!(SESSIONS: name, packet, each);
            if !listed.iter().any(|field| field.key == entry.key) {
                let message = format!("`{}` is for random sessions", entry.key);
                self.sink
                    .report(Code::Conflict, &entry.key_at, message)
                    .also(each, "here sessions are listed")
                    .help("remove it, or `each`");
            }
        }
    }

    fn listed(&mut self, value: &Value) -> Vec<Session> {
        let list = value.list().unwrap_or_default();
        list.iter().filter_map(|value| self.session(value.table()?, &value.at)).collect()
    }

    fn session(&mut self, table: &Table, at: &At) -> Option<Session> {
        let end = |this: &mut Self, key: Key<Option<String>>, what: &str| {
            let value = table.get(key)?;
            let node = this.node(value.text()?, &value.at)?;
            this.no_switch(node, &value.at, what).then_some(node)
        };
        let (from, to) =
            (end(self, EACH.from, "sends nothing"), end(self, EACH.to, "receives nothing"));
        let (from, to) = (from?, to?);
        if from == to {
            let name = &self.plan.nodes[from.index()].name;
            let message = format!("`{name}` would send to itself");
            self.sink
                .report(Code::Conflict, at, message)
                .help("that would never cross a link; name another node");
            return None;
        }
        let start = self.moment(&table.value(EACH.start)).unwrap_or(Time::ZERO);
        let leave = table.read(EACH.leave).map(|leave| Time::ZERO + leave);
        if let Some(value) = table.get(EACH.leave).filter(|_| leave.is_some_and(|at| at < start)) {
            self.refuse_leave(value, start, table);
        }
        let (size, demand) = (table.read(EACH.size), table.read(EACH.demand));
        Some(Session { from, to, start, leave, size, demand })
    }

    fn refuse_leave(&mut self, value: &Value, start: Time, table: &Table) {
        let message = "a session would leave before it starts";
        let diagnostic = self.sink.report(Code::Schedule, &value.at, message);
        if let Some(value) = table.get(SESSIONS.start) {
            diagnostic.also(&value.at, "it starts here");
        }
        diagnostic.help(format!("no session leaves before {start}, when the last one starts"));
    }

    fn rules(&mut self, table: &Table, at: &At) -> Option<Drawing> {
        let needed = [
            (SESSIONS.count.field, "the number of sessions"),
            (SESSIONS.routers.field, "the routers of their hosts"),
        ];
        for (Field { key, .. }, what) in needed {
            if table.get(*key).is_none() {
                self.sink
                    .report(Code::MissingKey, at, format!("random sessions need `{key}`"))
                    .help(format!("{what}; or list them: `each = [{{ from = …, to = … }}]`"));
            }
        }
        let routers = self.router_group(table.get(SESSIONS.routers)?);
        let start = self.moments(&table.read(SESSIONS.start), SESSIONS.start.name());
        let start = start.unwrap_or((Time::ZERO, Time::ZERO));
        let leave = table.get(SESSIONS.leave);
        let leave = leave.and_then(|value| self.moments(value, SESSIONS.leave.name()));
        if let (Some(value), Some((first, _))) = (table.get(SESSIONS.leave), leave)
            && first < start.1
        {
            self.refuse_leave(value, start.1, table);
        }
        let size = match table.get(SESSIONS.size) {
            Some(value) => Some(self.sizes(value)?),
            None => None,
        };
        let demand = table.get(SESSIONS.demand).and_then(|value| self.demand(value));
        let count = table.read(SESSIONS.count)?;
        let leave_count = self.leavers(table, count);
        let known = !routers.is_empty();
        known.then_some(Drawing {
            count,
            routers,
            hosts: table.read(SESSIONS.hosts),
            host_rate: table.read(SESSIONS.host_rate),
            host_delay: table.read(SESSIONS.host_delay),
            start,
            leave,
            leave_count,
            size,
            demand,
        })
    }

    fn leavers(&mut self, table: &Table, count: u32) -> u32 {
        let Some(entry) = table.entry(SESSIONS.leave_count) else { return count };
        if table.get(SESSIONS.leave).is_none() {
            self.sink
                .report(Code::Conflict, &entry.key_at, "`leave_count` needs `leave`")
                .help("when they leave: `leave = [\"500 ms\", \"700 ms\"]`");
        }
        let leavers = table.read(SESSIONS.leave_count).unwrap_or(count);
        if leavers > count {
            let message = format!("{leavers} of {count} sessions would leave");
            self.sink
                .report(Code::OutOfRange, &entry.value.at, message)
                .help(format!("at most {count}"));
        }
        leavers.min(count)
    }

    /// One time, or the two ends of an interval.
    fn moments(&mut self, value: &Value, key: &str) -> Option<(Time, Time)> {
        if value.text().is_some() {
            return self.moment(value).map(|moment| (moment, moment));
        }
        let (first, last) = <(Span, Span)>::read(value)?;
        if first > last {
            self.refuse_backwards(value, key);
            return None;
        }
        if last > self.plan.duration {
            let message =
                format!("this time is not before the end of the run, at {}", self.plan.duration);
            self.sink
                .report(Code::Schedule, &value.at, message)
                .help("increase `duration` in `[lab]`, or use an earlier time");
        }
        Some((Time::ZERO + first, Time::ZERO + last))
    }

    fn demand(&mut self, value: &Value) -> Option<(Bandwidth, Bandwidth)> {
        if let Some(rate) = Bandwidth::read(value) {
            return Some((rate, rate));
        }
        let (min, max) = <(Bandwidth, Bandwidth)>::read(value)?;
        if min > max {
            self.refuse_backwards(value, SESSIONS.demand.name());
        }
        (min <= max).then_some((min, max))
    }

    fn refuse_backwards(&mut self, value: &Value, key: &str) {
        self.sink
            .report(Code::OutOfRange, &value.at, format!("`{key}` is a decreasing range"))
            .help("write the smaller value first");
    }

    /// A host has one link, even if several generators use it.
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
                let message = format!("the links of hosts at `{name}` have two different settings");
                let link = |d: &Undrawn<'_>| {
                    let own = d.table.get(SESSIONS.host_rate);
                    let own = own.or_else(|| d.table.get(SESSIONS.host_delay));
                    own.map_or_else(|| d.at.clone(), |value| value.at.clone())
                };
                self.sink
                    .report(Code::Conflict, &link(drawing), message)
                    .also(&link(known), format!("set by sessions `{}`", known.name))
                    .help("use the same `host_rate` and `host_delay` on the same routers");
                return false;
            }
        }
        true
    }

    /// Checks that memory is bounded and that there is a place for every source.
    fn fit(&mut self, drawings: &[Undrawn<'_>]) -> bool {
        let listed: usize = self.plan.sessions.iter().map(|p| p.sessions.len()).sum();
        let (mut sessions, mut places) = (listed, 0);
        let max_sessions = MAX_SESSIONS.min(self.input.max_items);
        let max_places = MAX_PLACES.min(self.input.max_items as u64);
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
        // The rest is not needed after an error.
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
        let count = drawing.table.get(SESSIONS.count).map_or(&drawing.at, |value| &value.at);
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

    /// Creates nodes for the used places; `false` if a node could not be created.
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
                metric: LINK.metric.default(),
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
        ..plain_link()
    }
}
