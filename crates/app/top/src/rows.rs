//! Rows of the tables of links, flows and programs, sorted and filtered.

use std::cmp::Ordering;

use report::format;
use run::live::{DirectionRow, Hello, LinkValues, ProgramState};

use crate::history::{Rates, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Links,
    Flows,
    Programs,
}

impl Tab {
    pub(crate) const ALL: [Self; 3] = [Self::Links, Self::Flows, Self::Programs];

    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    pub(crate) const fn title(self) -> &'static str {
        ["Links", "Flows", "Programs"][self.index()]
    }

    pub(crate) const fn columns(self) -> &'static [Column] {
        [LINKS, FLOWS, PROGRAMS][self.index()]
    }
}

pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Number of characters; 0: the rest of the line, shared by columns with 0.
    pub(crate) width: u16,
    pub(crate) is_right: bool,
    /// Minimum width of the terminal at which the column is shown.
    pub(crate) from: u16,
}

const fn text(title: &'static str, width: u16, from: u16) -> Column {
    Column { title, width, is_right: false, from }
}

const fn number(title: &'static str, width: u16, from: u16) -> Column {
    Column { title, width, is_right: true, from }
}

/// The title of columns whose cells are drawn from a series.
pub(crate) const TREND: &str = "TREND";

const LINKS: &[Column] = &[
    text("LINK", 0, 0),
    text("STATE", 6, 0),
    text("LOAD", 12, 0),
    number("RATE →", 11, 0),
    number("← RATE", 11, 0),
    number("QUEUE", 7, 70),
    number("DROPS/s", 7, 76),
    number("QUEUEING", 8, 96),
    number("LIMIT", 15, 112),
    text(TREND, 0, 120),
];

const FLOWS: &[Column] = &[
    text("FLOW", 0, 0),
    text("FROM", 10, 0),
    text("TO", 10, 0),
    text("KIND", 14, 76),
    number("GOODPUT", 11, 0),
    number("RTT", 8, 0),
    number("LOST/s", 7, 66),
    text(TREND, 0, 110),
];

const PROGRAMS: &[Column] = &[
    text("PROGRAM", 0, 0),
    text("NODE", 12, 0),
    text("STATE", 9, 0),
    number("EXIT", 4, 0),
    text("LAST LOG LINE", 0, 70),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Warn,
    Bad,
    /// Not in use.
    Dim,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String, Tone),
    /// A value, and its text.
    Number(f64, String),
    /// A share of the limit; NaN without a limit.
    Load(f64),
    Trend,
}

impl Cell {
    fn text(text: &str) -> Self {
        Self::Text(format::visible(text), Tone::Plain)
    }

    fn dim(text: &str) -> Self {
        Self::Text(format::visible(text), Tone::Dim)
    }

    fn node(hello: &Hello, at: u32) -> Self {
        Self::Text(node(hello, at), Tone::Plain)
    }

    fn number(value: impl Into<Option<f64>>, text: impl Fn(f64) -> String) -> Self {
        match value.into() {
            Some(value) => Self::Number(value, text(value)),
            None => Self::Number(f64::NAN, "–".to_owned()),
        }
    }

    const fn value(&self) -> Option<f64> {
        match self {
            Self::Number(value, _) | Self::Load(value) => Some(*value),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// Position in the hello.
    pub(crate) index: u32,
    pub(crate) cells: Vec<Cell>,
}

/// The order of a table: by a column, or that of the lab file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sort {
    pub(crate) column: Option<usize>,
    pub(crate) is_reversed: bool,
}

/// `12.3`, without a unit: the title of the column has it.
fn per_second(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format::large(value) }
}

pub(crate) fn node(hello: &Hello, node: u32) -> String {
    let node = hello.nodes.get(node as usize);
    format::visible(node.map_or("?", |node| node.name.as_str()))
}

/// The direction of a link: `a → b`.
pub(crate) fn direction(hello: &Hello, link: u32, side: usize) -> String {
    let [a, b] = hello.links[link as usize].ends.map(|end| node(hello, end));
    if side == 0 { format!("{a} → {b}") } else { format!("{b} → {a}") }
}

/// The share of its limit that a direction sends; NaN without a limit.
pub(crate) fn load(values: &LinkValues, side: usize, sent_bps: f64) -> f64 {
    values.rate_bps[side].filter(|limit| *limit > 0.0).map_or(f64::NAN, |limit| sent_bps / limit)
}

/// A value of both directions: once if they are equal.
pub(crate) fn of_both(texts: [String; 2]) -> String {
    let [a, b] = texts;
    if a == b { a } else { format!("{a} / {b}") }
}

pub(crate) fn limit(rate: Option<f64>) -> String {
    rate.map_or_else(|| "unlimited".to_owned(), format::rate)
}

/// The limits of a link in one cell: `10 / 5 Mbit/s` for limits with the same unit.
fn limits(values: &LinkValues) -> String {
    let both = of_both(values.rate_bps.map(limit));
    let Some((a, b)) = both.split_once(" / ") else { return both };
    match (a.split_once(' '), b.split_once(' ')) {
        (Some((a, unit)), Some((b, same))) if unit == same => format!("{a} / {b} {unit}"),
        _ => both,
    }
}

pub(crate) fn rows(hello: &Hello, state: &State, rates: &Rates, tab: Tab) -> Vec<Row> {
    let of = |count: usize, cells: &dyn Fn(usize) -> Vec<Cell>| {
        (0..count).map(|at| Row { index: at as u32, cells: cells(at) }).collect()
    };
    match tab {
        Tab::Links => of(hello.links.len(), &|at| link(hello, state, rates, at)),
        Tab::Flows => of(hello.flows.len(), &|at| flow(hello, rates, at)),
        Tab::Programs => of(hello.programs.len(), &|at| program(hello, state, at)),
    }
}

fn link(hello: &Hello, state: &State, rates: &Rates, at: usize) -> Vec<Cell> {
    let values = &state.links[at];
    let sides = rates.links.get(&(at as u32)).copied().unwrap_or_default();
    let [up, down] = [0, 1].map(|side| load(values, side, sides[side].sent_bps));
    let max = |value: fn(&DirectionRow) -> f64| value(&sides[0]).max(value(&sides[1]));
    let dropped = (sides[0].dropped_packets + sides[1].dropped_packets) as f64;
    let (word, tone) = if values.up { ("● up", Tone::Good) } else { ("✗ down", Tone::Bad) };
    let limits = values.rate_bps[0].unwrap_or(f64::INFINITY);
    vec![
        Cell::text(&hello.links[at].name),
        Cell::Text(word.to_owned(), tone),
        Cell::Load(up.max(down)),
        Cell::number(sides[0].sent_bps, format::rate),
        Cell::number(sides[1].sent_bps, format::rate),
        Cell::number(max(|side| side.queue_bytes as f64), |bytes| format::bytes(bytes as u64)),
        Cell::number(dropped / rates.seconds.max(1e-9), per_second),
        Cell::number(max(|side| side.queue_delay_s), format::seconds),
        Cell::Number(limits, self::limits(values)),
        Cell::Trend,
    ]
}

fn flow(hello: &Hello, rates: &Rates, at: usize) -> Vec<Cell> {
    let flow = &hello.flows[at];
    let rates = rates.flows.get(&(at as u32));
    vec![
        Cell::text(&flow.name),
        Cell::node(hello, flow.from),
        Cell::node(hello, flow.to),
        Cell::dim(&flow.kind),
        Cell::number(rates.map(|rates| rates.goodput_bps), format::rate),
        Cell::number(rates.and_then(|rates| rates.rtt_s), format::seconds),
        Cell::number(rates.map(|rates| rates.lost_per_s), per_second),
        Cell::Trend,
    ]
}

fn program(hello: &Hello, state: &State, at: usize) -> Vec<Cell> {
    let program = &hello.programs[at];
    let row = state.programs[at];
    let (word, tone) = match row.state {
        ProgramState::Waiting => ("○ waits", Tone::Dim),
        ProgramState::Running => ("● running", Tone::Good),
        ProgramState::Ready => ("✓ ready", Tone::Good),
        ProgramState::Exited => ("✓ exited", Tone::Plain),
        ProgramState::Failed => ("✗ failed", Tone::Bad),
    };
    vec![
        Cell::text(&program.name),
        Cell::node(hello, program.node),
        Cell::Text(word.to_owned(), tone),
        Cell::number(row.exit_code.map(f64::from), |code| code.to_string()),
        Cell::dim(&state.notes[at]),
    ]
}

/// The rows whose texts contain all words of the filter, in order. Unknown numbers are last.
pub(crate) fn arrange(mut rows: Vec<Row>, filter: &str, sort: Sort) -> Vec<Row> {
    let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
    rows.retain(|row| {
        let texts = row.cells.iter().filter_map(|cell| match cell {
            Cell::Text(text, _) => Some(text.to_lowercase()),
            _ => None,
        });
        let line = texts.collect::<Vec<_>>().join("\n");
        words.iter().all(|word| line.contains(word))
    });
    if let Some(column) = sort.column {
        rows.sort_by(|a, b| compare(&a.cells[column], &b.cells[column], sort.is_reversed));
    } else if sort.is_reversed {
        rows.reverse();
    }
    rows
}

/// Texts in ascending order, numbers in descending order.
fn compare(a: &Cell, b: &Cell, is_reversed: bool) -> Ordering {
    let turned = |order: Ordering| if is_reversed { order.reverse() } else { order };
    match (a.value(), b.value()) {
        (Some(a), Some(b)) if a.is_nan() || b.is_nan() => a.is_nan().cmp(&b.is_nan()),
        (Some(a), Some(b)) => turned(b.total_cmp(&a)),
        _ => match (a, b) {
            (Cell::Text(a, _), Cell::Text(b, _)) => turned(compare_natural(a, b)),
            _ => Ordering::Equal,
        },
    }
}

/// Compares texts; digits in them as numbers: `h9` is before `h10`.
fn compare_natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    loop {
        let digits = [a, b].map(|text| text.bytes().take_while(u8::is_ascii_digit).count());
        if digits.iter().all(|count| *count > 0) {
            let [first, second] = [&a[..digits[0]], &b[..digits[1]]];
            let [first, second] = [first, second].map(|text| text.trim_start_matches('0'));
            let order = first.len().cmp(&second.len()).then_with(|| first.cmp(second));
            if order != Ordering::Equal {
                return order;
            }
            (a, b) = (&a[digits[0]..], &b[digits[1]..]);
            continue;
        }
        let (mut rest_a, mut rest_b) = (a.chars(), b.chars());
        let order = rest_a.next().cmp(&rest_b.next());
        if order != Ordering::Equal || a.is_empty() {
            return order;
        }
        (a, b) = (rest_a.as_str(), rest_b.as_str());
    }
}
