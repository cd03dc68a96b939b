//! Sweeps, with one tree per combination of swept values; and `--set`, which sets a single value.

use std::fmt::Display;
use std::str::FromStr;

use base::{Bandwidth, Bytes, Ratio, Span};

use crate::code::Code;
use crate::diagnostic::{Sink, suggest};
use crate::fields::{FILE, Form};
use crate::tree::{self, At, Data, Table, Value};

const MAX_RUNS: usize = 10_000;

/// A combination: the tree, and the selected values.
pub(crate) type Combination = (Table, Vec<(String, String)>);

struct Axis {
    /// Index at each level of the tree, where values are inserted.
    steps: Vec<usize>,
    path: String,
    values: Vec<Value>,
}

/// All combinations, with the last swept value changing fastest; only the
/// tree itself without sweeps.
pub(crate) fn expand<'a>(
    root: &'a Table,
    sink: &mut Sink,
) -> impl ExactSizeIterator<Item = Combination> + use<'a> {
    let mut axes = Vec::new();
    for (index, entry) in root.entries.iter().enumerate() {
        find(&entry.value, &mut vec![index], &entry.key, &mut axes, sink);
    }
    let product =
        axes.iter().fold(1u128, |runs, axis| runs.saturating_mul(axis.values.len() as u128));
    let mut runs = usize::try_from(product).unwrap_or(usize::MAX);
    if runs > MAX_RUNS {
        let at = axes.last().map_or(0..0, |axis| axis.values[0].at.clone());
        sink.report(Code::Limit, &at, format!("the sweeps make {product} runs"))
            .help(format!("at most {MAX_RUNS}"));
        runs = 0;
    }
    (0..runs).map(move |run| {
        let mut tree = root.clone();
        let mut chosen = Vec::new();
        let mut rest = run;
        for axis in axes.iter().rev() {
            let value = &axis.values[rest % axis.values.len()];
            rest /= axis.values.len();
            put(&mut tree, &axis.steps, value);
            chosen.push((axis.path.clone(), value.inline()));
        }
        chosen.reverse();
        (tree, chosen)
    })
}

fn find(value: &Value, steps: &mut Vec<usize>, path: &str, axes: &mut Vec<Axis>, sink: &mut Sink) {
    match &value.data {
        Data::Table(table) => {
            if let Some(values) = swept(table, &value.at, sink) {
                axes.push(Axis { steps: steps.clone(), path: path.to_owned(), values });
                return;
            }
            for (index, entry) in table.entries.iter().enumerate() {
                steps.push(index);
                find(&entry.value, steps, &format!("{path}.{}", entry.key), axes, sink);
                steps.pop();
            }
        }
        Data::List(list) => {
            for (index, item) in list.iter().enumerate() {
                steps.push(index);
                let label = item.table().and_then(label).unwrap_or_else(|| (index + 1).to_string());
                find(item, steps, &format!("{path}.{label}"), axes, sink);
                steps.pop();
            }
        }
        _ => {}
    }
}

/// The name of an entry of `[[section]]`.
fn label(table: &Table) -> Option<String> {
    if let Some(name) = table.text("name") {
        return Some(name.to_owned());
    }
    let ends = table.get("ends").and_then(Value::list);
    if let Some([a, b]) = ends {
        return Some(format!("{}-{}", a.text()?, b.text()?));
    }
    Some(format!("{}-{}", table.text("from")?, table.text("to")?))
}

/// Whether a table is intended as a sweep, valid or not.
pub(crate) fn is_meant(table: &Table) -> bool {
    let list = table.get("sweep").is_some_and(|value| value.list().is_some());
    list || table.text("range").is_some()
}

/// The values of a sweep. An invalid sweep is reported and has no values.
fn swept(table: &Table, at: &At, sink: &mut Sink) -> Option<Vec<Value>> {
    let values = match (table.get("sweep"), table.get("range")) {
        (Some(Value { data: Data::List(list), .. }), None) if table.entries.len() == 1 => {
            if list.is_empty() { Err("a sweep needs values".to_owned()) } else { Ok(list.clone()) }
        }
        (None, Some(Value { data: Data::Text(range), .. })) => steps_of(table, range, at),
        (Some(Value { data: Data::List(_), .. }), _) => {
            Err("a sweep has no other keys than `sweep`".to_owned())
        }
        _ => return None,
    };
    match values {
        Ok(values) => Some(values),
        Err(message) => {
            sink.report(Code::BadSweep, at, message).help(
                "`{ sweep = [\"1 ms\", \"10 ms\"] }` or `{ range = \"1 ms..1 s\", log = 7 }`",
            );
            None
        }
    }
}

fn steps_of(table: &Table, range: &str, at: &At) -> Result<Vec<Value>, String> {
    let (from, to) = range.split_once("..").ok_or("a range is written `FROM..TO`")?;
    let (from, to) = (from.trim(), to.trim());
    let (count, log) = match (table.get("steps"), table.get("log")) {
        (Some(steps), None) => (steps.whole(), false),
        (None, Some(log)) => (log.whole(), true),
        _ => return Err("a range needs either `steps` or `log`, the number of values".to_owned()),
    };
    if table.entries.len() != 2 {
        return Err("a range has no other keys than `range`, and `steps` or `log`".to_owned());
    }
    let count = count
        .and_then(|count| usize::try_from(count).ok())
        .filter(|count| (2..=MAX_RUNS).contains(count))
        .ok_or_else(|| {
            let given = table.get("steps").or_else(|| table.get("log"));
            let given = given.map(Value::plain).unwrap_or_default();
            format!("{given} values: a range has between 2 and {MAX_RUNS}")
        })?;
    let steps = |from: u64, to: u64| spread(from, to, count, log);
    let texts = quantities::<Span>(from, to, Span::as_nanos, Span::from_nanos, &steps)
        .or_else(|| {
            let bits = Bandwidth::bits_per_sec;
            quantities::<Bandwidth>(from, to, bits, Bandwidth::from_bits_per_sec, &steps)
        })
        .or_else(|| quantities::<Bytes>(from, to, Bytes::count, Bytes::new, &steps))
        .or_else(|| {
            let parts = Ratio::parts_per_billion;
            quantities::<Ratio>(from, to, parts, Ratio::from_parts_per_billion, &steps)
        });
    let data: Vec<Data> = match (texts, from.parse::<u64>(), to.parse::<u64>()) {
        (Some(texts), ..) => texts?.into_iter().map(Data::Text).collect(),
        (None, Ok(from), Ok(to)) if i64::try_from(to).is_ok() => {
            steps(from, to)?.into_iter().map(|step| Data::Whole(step as i64)).collect()
        }
        _ => return Err(format!("`{from}` and `{to}` are not two values of one kind")),
    };
    Ok(data.into_iter().map(|data| Value { at: at.clone(), data }).collect())
}

type Spread<'a> = &'a dyn Fn(u64, u64) -> Result<Vec<u64>, String>;

fn quantities<T: FromStr + Display>(
    from: &str,
    to: &str,
    number: fn(T) -> u64,
    quantity: fn(u64) -> T,
    steps: Spread<'_>,
) -> Option<Result<Vec<String>, String>> {
    let (from, to) = (from.parse().ok().map(number)?, to.parse().ok().map(number)?);
    let texts = |steps: Vec<u64>| steps.into_iter().map(|s| quantity(s).to_string()).collect();
    Some(steps(from, to).map(texts))
}

/// `count` values from `from` to `to`, both included.
fn spread(from: u64, to: u64, count: usize, log: bool) -> Result<Vec<u64>, String> {
    if from >= to {
        return Err("a range must increase: the start must be less than the end".to_owned());
    }
    if log && from == 0 {
        return Err("a logarithmic range cannot begin at zero".to_owned());
    }
    let last = count - 1;
    let value = |step: usize| match step {
        0 => from,
        _ if step == last => to,
        _ if log => {
            let share = step as f64 / last as f64;
            (from as f64 * (to as f64 / from as f64).powf(share)).round() as u64
        }
        _ => from + (u128::from(to - from) * step as u128 / last as u128) as u64,
    };
    Ok((0..count).map(value).collect())
}

fn put(tree: &mut Table, steps: &[usize], value: &Value) {
    let Some((first, rest)) = steps.split_first() else { return };
    let mut place = &mut tree.entries[*first].value;
    for step in rest {
        place = match &mut place.data {
            Data::Table(table) => &mut table.entries[*step].value,
            Data::List(list) => &mut list[*step],
            _ => return,
        };
    }
    *place = value.clone();
}

/// Sets the value of one `--set`.
pub(crate) fn set(root: &mut Table, path: &str, text: &str, sink: &mut Sink) {
    let (section, rest) = path.split_once('.').unwrap_or((path, ""));
    let nowhere = 0..0;
    let Some(top) = FILE.iter().find(|top| top.key == section) else {
        sink.report(Code::BadOverride, &nowhere, format!("--set {path}: no section `{section}`"))
            .help(suggest(section, FILE.iter().map(|top| top.key), "sections"));
        return;
    };
    let data = value_of(text);
    if let Form::One(_) = top.form
        && root.get(section).is_none()
    {
        let data = Data::Table(Table::default());
        root.put(section, Value { at: 0..0, data });
    }
    let Some(entry) = root.entries.iter_mut().find(|entry| entry.key == section) else {
        let help = absent(root, section);
        sink.report(Code::BadOverride, &nowhere, format!("--set {path}: the lab has no {section}"))
            .help(help);
        return;
    };
    let at = entry.key_at.clone();
    let value = Value { at: at.clone(), data }.moved_to(&at);
    if let Err((word, known)) = set_below(&mut entry.value, rest, value) {
        sink.report(Code::BadOverride, &at, format!("--set {path}: unknown name `{word}`"))
            .help(suggest(&word, known.iter().map(String::as_str), "there is"));
    }
}

/// A value from the command line: TOML, or a text without quotes.
pub(crate) fn value_of(text: &str) -> Data {
    tree::read(&format!("value = {text}"))
        .ok()
        .and_then(|table| table.get("value").map(|value| value.data.clone()))
        .filter(|data| !matches!(data, Data::Moment))
        .unwrap_or_else(|| Data::Text(text.to_owned()))
}

/// A help text with the lab's names if a section has no such entry.
fn absent(root: &Table, section: &str) -> String {
    if matches!(section, "link" | "node") && root.get("generate").is_some() {
        return format!(
            "generated {section}s are set in the generator, for example `generate.1.core.delay`"
        );
    }
    let has: Vec<String> = root.entries.iter().map(|entry| format!("`{}`", entry.key)).collect();
    format!("it has: {}", has.join(", "))
}

fn set_below(place: &mut Value, path: &str, value: Value) -> Result<(), (String, Vec<String>)> {
    let first = || path.split('.').next().unwrap_or_default().to_owned();
    let strip = |label: &str| -> Option<String> {
        path.strip_prefix(label)?.strip_prefix('.').map(ToOwned::to_owned)
    };
    match &mut place.data {
        _ if path.is_empty() => Err((String::new(), Vec::new())),
        Data::List(list) => {
            let labels: Vec<String> = list
                .iter()
                .enumerate()
                .map(|(i, v)| v.table().and_then(label).unwrap_or_else(|| (i + 1).to_string()))
                .collect();
            let found = labels.iter().enumerate().filter_map(|(i, label)| Some((i, strip(label)?)));
            match found.min_by_key(|(_, rest)| rest.len()) {
                Some((index, rest)) => set_below(&mut list[index], &rest, value),
                None => Err((first(), labels)),
            }
        }
        Data::Table(table) => match path.split_once('.') {
            None => {
                table.put(path, value);
                Ok(())
            }
            Some((key, rest)) => match table.entries.iter_mut().find(|e| e.key == key) {
                Some(entry) => set_below(&mut entry.value, rest, value),
                None => Err((first(), table.entries.iter().map(|e| e.key.clone()).collect())),
            },
        },
        _ => Err((first(), Vec::new())),
    }
}
