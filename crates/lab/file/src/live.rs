//! Changes of links and programs of a running lab: pairs of a field, such as `link.core.loss`, and
//! its value, such as `5 %`. They are compiled like the same changes in `[[at]]`.

use std::collections::BTreeMap;
use std::path::Path;

use base::{Direction, LinkId, Time};
use fabric::LinkConfig;

use crate::code::Code;
use crate::compile::{Input, compile_live};
use crate::diagnostic::{Diagnostics, Sink};
use crate::fields::{AT, LINK};
use crate::files::Files;
use crate::plan::{Action, Event, Plan};
use crate::resolved::{self, direction_fields};
use crate::sweep::value_of;
use crate::tree::{At, Data, Entry, Table, Value};
use crate::validate;

/// The name of the source in diagnostics.
pub const SOURCE: &str = "netarium set";

/// Changes of links and programs that have been checked.
#[derive(Debug)]
pub struct LiveChanges {
    /// One event for each change, in the order of the fields.
    pub changes: Vec<LiveChange>,
    /// Warnings; may be empty.
    pub warnings: Diagnostics,
    /// The fields as `[[at]]` events for the end of the lab file.
    pub at_events: String,
}

/// A change of one direction of a link, of its state, or of the state of a program.
#[derive(Debug)]
pub struct LiveChange {
    /// The change as an event of a plan.
    pub event: Event,
    /// The complete changed values of a link, which depend neither on files nor on other values.
    pub fields: Vec<(String, String)>,
}

/// The text to which the positions of diagnostics refer.
pub fn source(fields: &[(String, String)]) -> String {
    let mut text = String::new();
    for (field, value) in fields {
        text.extend([field, "=", value, "\n"]);
    }
    text
}

/// A mark as a comment for the end of the lab file.
pub fn mark_comment(at: Time, mark: &str) -> String {
    format!("\n# {}: mark {}\n", seconds(at), resolved::text(mark))
}

/// A time in seconds, to the nanosecond: on the virtual clock, the event then repeats the run.
fn seconds(time: Time) -> String {
    let (whole, part) = (time.as_nanos() / 1_000_000_000, time.as_nanos() % 1_000_000_000);
    let text = format!("{whole}.{part:09}");
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Compiles changes of a running lab that take effect at `at`. `current` has the properties of a
/// link at this time. Paths of files are relative to `base_dir`. A value that a link already has
/// causes no change.
///
/// # Errors
/// All errors of the fields.
pub fn compile_changes(
    plan: &Plan,
    current: &dyn Fn(LinkId) -> [LinkConfig; 2],
    at: Time,
    fields: &[(String, String)],
    base_dir: &Path,
) -> Result<LiveChanges, Diagnostics> {
    let mut sink = Sink::default();
    let (text, root) = (source(fields), tree(plan, at, fields, &mut sink));
    validate::file(&root, &mut sink);
    let mut events = Vec::new();
    if !sink.has_errors() {
        let input = Input {
            root: &root,
            text: &text,
            default_name: &plan.name,
            sweep: Vec::new(),
            seed_offset: 0,
            max_items: usize::MAX,
        };
        let mut files = Files::new(base_dir, None);
        events = compile_live(&input, &mut files, &mut sink, plan, at, current);
    }
    let is_wrong = sink.has_errors();
    let found = Diagnostics::new(SOURCE, &text, sink.list);
    if is_wrong {
        return Err(found);
    }
    let changes = with_fields(plan, events, current);
    Ok(LiveChanges { changes, warnings: found, at_events: at_events(&root) })
}

/// The events as a tree of `[[at]]` sections: one per link for its properties, one per state of a
/// link or program.
fn tree(plan: &Plan, time: Time, fields: &[(String, String)], sink: &mut Sink) -> Table {
    let mut events: Vec<Table> = Vec::new();
    let mut start = 0;
    for (field, text) in fields {
        let key_at = start..start + field.len();
        let at = key_at.end + 1..key_at.end + 1 + text.len();
        start = at.end + 1;
        let value = Value { at: at.clone(), data: value_of(text) }.moved_to(&at);
        if let Some(name) = field.strip_prefix("program.") {
            let event = event_of(time, AT.program.field.key, name, &key_at);
            events.extend(with_action(event, field, &["stop", "start", "kill"], &value, sink));
            continue;
        }
        let Some((name, path)) = parse(plan, field) else {
            sink.report(Code::BadOverride, &key_at, format!("`{field}` cannot be set"))
                .help("link.NAME.KEY, link.NAME.up.KEY or link.NAME.state of a link; program.NAME");
            continue;
        };
        let event = event_of(time, AT.link.field.key, name, &key_at);
        if path == LINK.state.field.key {
            events.extend(with_action(event, path, &["up", "down"], &value, sink));
            continue;
        }
        let set = AT.set.field.key;
        let has = |event: &Table| event.text(AT.link) == Some(name) && event.get(set).is_some();
        let place = events.iter().position(has).unwrap_or_else(|| {
            events.push(event);
            events.len() - 1
        });
        put(&mut events[place], &format!("{set}.{path}"), &key_at, value);
    }
    let table = |table: Table| {
        let at = table.entries.first().map_or(0..0, |entry| entry.key_at.clone());
        Value { at, data: Data::Table(table) }
    };
    let mut root = Table::default();
    let list = Data::List(events.into_iter().map(table).collect());
    put(&mut root, "at", &(0..0), Value { at: 0..0, data: list });
    root
}

/// The name of the link, and the path of the property below it. Names of links may contain dots.
fn parse<'f>(plan: &Plan, field: &'f str) -> Option<(&'f str, &'f str)> {
    let rest = field.strip_prefix("link.")?;
    let cut = |name: &str| {
        rest.strip_prefix(name)?.strip_prefix('.').map(|path| (&rest[..name.len()], path))
    };
    let known = plan.links.iter().filter_map(|link| cut(&link.name));
    known.max_by_key(|(name, _)| name.len()).or_else(|| rest.split_once('.'))
}

fn event_of(time: Time, target: &str, name: &str, at: &At) -> Table {
    let mut event = Table::default();
    let text = |text: String| Value { at: at.clone(), data: Data::Text(text) };
    put(&mut event, AT.time.field.key, at, text(seconds(time)));
    put(&mut event, target, at, text(name.to_owned()));
    event
}

/// The event with the action that the value names.
fn with_action(
    mut event: Table,
    field: &str,
    actions: &[&str],
    value: &Value,
    sink: &mut Sink,
) -> Option<Table> {
    match value.text() {
        Some(word) if actions.contains(&word) => {
            event.put(word, Value { at: value.at.clone(), data: Data::Flag(true) });
            Some(event)
        }
        _ => {
            let problem = format!("`{field}` cannot be `{}`", value.plain());
            let words = validate::list_words(actions.iter().copied());
            // Never the closest word only: `restart` is close to `start`.
            sink.report(Code::UnknownWord, &value.at, problem).help(format!("it takes: {words}"));
            None
        }
    }
}

/// The events of a tree in the syntax of the file.
fn at_events(root: &Table) -> String {
    let mut text = String::new();
    for (_, event) in root.entries_of("at") {
        text.push_str("\n[[at]]\n");
        for Entry { key, value, .. } in &event.entries {
            text.extend([key, " = ", &value.quoted(), "\n"]);
        }
    }
    text
}

/// Sets the value at a path of keys; tables on the path are created.
fn put(table: &mut Table, path: &str, key_at: &At, value: Value) {
    let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
    let Some(rest) = rest else {
        table.entries.retain(|entry| entry.key != key);
        table.entries.push(Entry { key: key.to_owned(), key_at: key_at.clone(), value });
        return;
    };
    if table.get(key).and_then(Value::table).is_none() {
        let inner = Value { at: key_at.clone(), data: Data::Table(Table::default()) };
        put(table, key, key_at, inner);
    }
    let entry = table.entries.iter_mut().find(|entry| entry.key == key);
    if let Some(Data::Table(inner)) = entry.map(|entry| &mut entry.value.data) {
        put(inner, rest, key_at, value);
    }
}

fn with_fields(
    plan: &Plan,
    events: Vec<Event>,
    current: &dyn Fn(LinkId) -> [LinkConfig; 2],
) -> Vec<LiveChange> {
    let mut now: BTreeMap<LinkId, [LinkConfig; 2]> = BTreeMap::new();
    let name = |link: LinkId| &plan.links[link.index()].name;
    let state = |link, state: &str| vec![(format!("link.{}.state", name(link)), state.to_owned())];
    let mut fields = |action: &Action| match action {
        Action::LinkDown(link) => state(*link, "down"),
        Action::LinkUp(link) => state(*link, "up"),
        Action::Set { link, direction, config } => {
            let both = now.entry(*link).or_insert_with(|| current(*link));
            let before = &mut both[direction.index()];
            let changed = changed_fields(before, config);
            before.clone_from(config);
            let field = |key| format!("link.{}.{}.{key}", name(*link), direction_key(*direction));
            changed.into_iter().map(|(key, value)| (field(key), value)).collect()
        }
        _ => Vec::new(),
    };
    events.into_iter().map(|event| LiveChange { fields: fields(&event.action), event }).collect()
}

fn changed_fields(before: &LinkConfig, after: &LinkConfig) -> Vec<(&'static str, String)> {
    let before = direction_fields(before);
    direction_fields(after).into_iter().filter(|field| !before.contains(field)).collect()
}

fn direction_key(direction: Direction) -> &'static str {
    LINK.of(direction).field.key
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabric::{Loss, Rate};

    const LAB: &str = "[node.a]\n[node.b]\n[[link]]\nname = \"core.1\"\nends = [\"a\", \"b\"]\n\
                       rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\nqueue = \"2 bdp\"\n\
                       [[program]]\nnode = \"a\"\nname = \"a.web\"\nrun = \"true\"\n";

    fn plan() -> Plan {
        crate::parse("lab.toml", LAB, Path::new("")).unwrap().plans.remove(0)
    }

    fn set(plan: &Plan, fields: &[(&str, &str)]) -> Result<LiveChanges, Diagnostics> {
        let own = |(field, value): &(&str, &str)| ((*field).to_owned(), (*value).to_owned());
        let fields: Vec<_> = fields.iter().map(own).collect();
        let current = |link: LinkId| plan.links[link.index()].directions.clone();
        compile_changes(plan, &current, Time::from_nanos(7), &fields, Path::new(""))
    }

    #[test]
    fn compiles_several_fields_of_a_link_together() {
        let plan = plan();
        let fields = [("link.core.1.up.rate", "20 Mbit/s"), ("link.core.1.up.queue", "1 bdp")];
        let found = set(&plan, &[fields[0], fields[1], ("link.core.1.state", "down")]).unwrap();
        let [one, two] = &found.changes[..] else { panic!("{found:?}") };
        let Action::Set { direction, config, .. } = &one.event.action else { panic!("{one:?}") };
        assert_eq!((*direction, one.event.at), (Direction::Up, Time::from_nanos(7)));
        assert_eq!(config.rate, Rate::Constant("20 Mbit/s".parse().unwrap()));
        assert_eq!(two.event.action, Action::LinkDown(LinkId(0)));
        // The recorded fields alone make the same change.
        let again: Vec<_> = one.fields.iter().map(|(f, v)| (f.as_str(), v.as_str())).collect();
        assert_eq!(set(&plan, &again).unwrap().changes[0].event, one.event);
        assert!(one.fields.iter().all(|(field, _)| field.starts_with("link.core.1.up.")));
    }

    #[test]
    fn changes_both_directions_and_ignores_equal_values() {
        let plan = plan();
        let found = set(&plan, &[("link.core.1.loss", "5 %")]).unwrap();
        assert_eq!(found.changes.len(), 2);
        for change in &found.changes {
            let Action::Set { config, .. } = &change.event.action else { panic!("{change:?}") };
            assert_eq!(config.loss, Loss::Bernoulli("5 %".parse().unwrap()));
        }
        assert!(set(&plan, &[("link.core.1.delay", "10 ms")]).unwrap().changes.is_empty());
    }

    #[test]
    fn writes_changes_as_events_of_the_lab_file() {
        let fields = [
            ("link.core.1.delay", "100 ms"),
            ("link.core.1.up.rate", "1 Mbit/s"),
            ("link.core.1.loss", "{ model = \"gilbert-elliott\", p = \"2 %\", r = \"40 %\" }"),
            ("link.core.1.state", "down"),
            ("program.a.web", "stop"),
        ];
        let text = set(&plan(), &fields).unwrap().at_events;
        let expected = "\n[[at]]\ntime = \"0.000000007 s\"\nlink = \"core.1\"\nset = { \
                        delay = \"100 ms\", up = { rate = \"1 Mbit/s\" }, loss = { \
                        model = \"gilbert-elliott\", p = \"2 %\", r = \"40 %\" } }\n\n[[at]]\n\
                        time = \"0.000000007 s\"\nlink = \"core.1\"\ndown = true\n\n[[at]]\n\
                        time = \"0.000000007 s\"\nprogram = \"a.web\"\nstop = true\n";
        assert_eq!(text, expected);
        let mark = mark_comment(Time::from_nanos(5_250_000_000), "healed\n\"now\"");
        assert_eq!(mark, "\n# 5.25 s: mark \"healed\\n\\\"now\\\"\"\n");
        // The saved events make the same changes.
        let lab = format!("{LAB}{text}{mark}");
        let saved = crate::parse("lab.toml", &lab, Path::new("")).unwrap().plans.remove(0);
        let live = set(&plan(), &fields).unwrap().changes;
        assert!(saved.events.iter().eq(live.iter().map(|change| &change.event)), "{saved:?}");
    }

    #[test]
    fn reports_wrong_fields_at_their_positions() {
        let plan = plan();
        for (field, value, code, line) in [
            ("link.core.1.los", "5 %", Code::UnknownKey, 2),
            ("link.core.1.loss", "0.05", Code::Quantity, 2),
            ("link.edge.loss", "5 %", Code::UnknownName, 2),
            ("link.core.1.state", "off", Code::UnknownWord, 2),
            ("node.a", "down", Code::BadOverride, 2),
            ("program.web", "stop", Code::UnknownName, 2),
            ("program.a.web", "restart", Code::UnknownWord, 2),
            ("link.core.1.mtu", "900 B", Code::UnknownKey, 2),
        ] {
            let error = set(&plan, &[("link.core.1.delay", "5 ms"), (field, value)]).unwrap_err();
            let [found] = error.list() else { panic!("{error:?}") };
            assert_eq!((found.code, found.position.0), (code, line), "{found:?}");
            if value == "restart" {
                assert_eq!(found.help.as_deref(), Some("it takes: `stop`, `start`, `kill`"));
            }
        }
    }
}
