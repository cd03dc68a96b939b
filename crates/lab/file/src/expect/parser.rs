//! Parses the text of an expectation.

use std::ops::Range;

use base::Time;
use base::{Bandwidth, Bytes, Direction, FlowId, LinkId, ProgramId, QuantityError, Ratio, Span};

use super::{Expectation, Measure, Metric, Op, Quantity, Statistic, Subject};
use crate::plan::BundleState;

/// Names that expectations can refer to.
pub(crate) struct Names<'a> {
    pub(crate) flows: Vec<&'a str>,
    pub(crate) links: Vec<&'a str>,
    pub(crate) programs: Vec<&'a str>,
    pub(crate) bundles: Vec<&'a str>,
}

/// The reason why a text is not a valid expectation, and the range of the invalid part.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ParseError {
    /// The text has no comparison.
    NoComparison,
    /// The text does not start with `flow`, `link`, `program`, `bundle`, `run` or `control`.
    Subject(Range<usize>),
    /// No flow, link, program or bundle has this name.
    Name { at: Range<usize>, kind: &'static str, name: String, known: Vec<String> },
    /// `link.NAME` is not followed by `up` or `down`.
    Direction(Range<usize>),
    /// `subflow` is not followed by a number.
    Number(Range<usize>),
    /// The subject has no such measure.
    Measure { at: Range<usize>, word: String, known: Vec<&'static str> },
    /// The measure has no such statistic.
    Statistic { at: Range<usize>, word: String, known: Vec<&'static str> },
    /// The value does not fit the measure.
    Value { at: Range<usize>, error: QuantityError },
    /// The value is neither a number nor `true` or `false`.
    Plain { at: Range<usize>, wanted: &'static str },
    /// The end is not of the form `between "5 s" and "10 s"`.
    Window(Range<usize>),
}

const SERIES: &[(&str, Statistic)] = &[
    ("mean", Statistic::Mean),
    ("min", Statistic::Min),
    ("max", Statistic::Max),
    ("p50", Statistic::P50),
    ("p90", Statistic::P90),
    ("p99", Statistic::P99),
    ("p999", Statistic::P999),
];
const TOTAL: &[(&str, Statistic)] =
    &[("sum", Statistic::Sum), ("mean", Statistic::Mean), ("max", Statistic::Max)];
const SHARE: &[(&str, Statistic)] =
    &[("mean", Statistic::Mean), ("min", Statistic::Min), ("max", Statistic::Max)];
/// Statistics of a measure with one value for the flow, or one for each of its transfers.
const WHOLE_OR_TRANSFERS: &[(&str, Statistic)] = &[
    ("", Statistic::Value),
    ("mean", Statistic::Mean),
    ("min", Statistic::Min),
    ("max", Statistic::Max),
    ("p50", Statistic::P50),
    ("p90", Statistic::P90),
    ("p99", Statistic::P99),
    ("p999", Statistic::P999),
];
const MAX_ONLY: &[(&str, Statistic)] = &[("max", Statistic::Max)];
const SINGLE: &[(&str, Statistic)] = &[];

type Row = (&'static str, Measure, &'static [(&'static str, Statistic)]);

const FLOW: &[Row] = &[
    ("goodput", Measure::Goodput, SERIES),
    ("rtt", Measure::Rtt, SERIES),
    ("delay", Measure::Delay, SERIES),
    ("loss", Measure::Loss, SHARE),
    ("retransmits", Measure::Retransmits, TOTAL),
    ("timeouts", Measure::Timeouts, SINGLE),
    ("completion", Measure::Completion, WHOLE_OR_TRANSFERS),
    ("slowdown", Measure::Slowdown, SERIES),
    ("transfers", Measure::Transfers, SINGLE),
    ("sent", Measure::Sent, TOTAL),
    ("received", Measure::Received, TOTAL),
    ("responses", Measure::Responses, TOTAL),
    ("latency", Measure::Latency, SERIES),
    ("gap", Measure::Gap, MAX_ONLY),
    ("reinjected", Measure::Reinjected, SINGLE),
    ("reorder", Measure::Reorder, MAX_ONLY),
];
const SUBFLOW: &[Row] = &[
    ("goodput", Measure::Goodput, SERIES),
    ("rtt", Measure::Rtt, SERIES),
    ("retransmits", Measure::Retransmits, SINGLE),
    ("sent", Measure::Sent, SINGLE),
    ("received", Measure::Received, SINGLE),
];
const LINK: &[Row] = &[
    ("utilisation", Measure::Utilisation, SERIES),
    ("throughput", Measure::Throughput, SERIES),
    ("drops", Measure::Drops, TOTAL),
    ("marks", Measure::Marks, TOTAL),
    ("queue", Measure::Queue, SERIES),
    ("delay", Measure::Delay, SERIES),
];
const PROGRAM: &[Row] = &[
    ("exit", Measure::Exit, SINGLE),
    ("restarts", Measure::Restarts, SINGLE),
    ("runtime", Measure::Runtime, SINGLE),
];
const RUN: &[Row] = &[
    ("lateness", Measure::Lateness, SERIES),
    ("duration", Measure::Duration, SINGLE),
    ("trusted", Measure::Trusted, SINGLE),
];

const CONTROL: &[Row] = &[
    ("error", Measure::Error, SERIES),
    ("over", Measure::Over, SHARE),
    ("queue", Measure::Queue, SERIES),
    ("convergence", Measure::Convergence, SINGLE),
];

const BUNDLE: &[Row] = &[
    ("rate", Measure::Rate, SERIES),
    ("proposed", Measure::Proposed, SERIES),
    ("send-rate", Measure::SendRate, SERIES),
    ("receive-rate", Measure::ReceiveRate, SERIES),
    ("throughput", Measure::Throughput, SERIES),
    ("capacity", Measure::Capacity, SERIES),
    ("queueing", Measure::Queueing, SERIES),
    ("rtt", Measure::Rtt, SERIES),
    ("min-rtt", Measure::MinRtt, SERIES),
    ("loss", Measure::Loss, SERIES),
    ("out-of-order", Measure::OutOfOrder, SERIES),
    ("backlog", Measure::Backlog, SERIES),
    ("waiting", Measure::Waiting, SERIES),
    ("drops", Measure::Drops, SINGLE),
    ("transitions", Measure::Transitions, SINGLE),
    ("time.learning", Measure::TimeIn(BundleState::Learning), SINGLE),
    ("time.delay", Measure::TimeIn(BundleState::Delay), SINGLE),
    ("time.pass-through", Measure::TimeIn(BundleState::PassThrough), SINGLE),
    ("time.disabled", Measure::TimeIn(BundleState::Disabled), SINGLE),
    ("time.fail-open", Measure::TimeIn(BundleState::FailOpen), SINGLE),
    ("time.stopped", Measure::TimeIn(BundleState::Stopped), SINGLE),
];

/// The kind of a subject, which determines its measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectKind {
    /// A built-in flow.
    Flow,
    /// A path or a subflow of a flow.
    Path,
    /// One direction of a link.
    Link,
    /// A real program.
    Program,
    /// The whole run.
    Run,
    /// All rate-controlled sessions.
    Control,
    /// A bundle of Bundler gateways.
    Bundle,
}

/// All metrics of a kind of subject: the part of the name after the subject (`goodput.mean`), the
/// measure and the statistic.
pub fn metrics(kind: SubjectKind) -> impl Iterator<Item = (String, Measure, Statistic)> {
    let rows = match kind {
        SubjectKind::Flow => FLOW,
        SubjectKind::Path => SUBFLOW,
        SubjectKind::Link => LINK,
        SubjectKind::Program => PROGRAM,
        SubjectKind::Run => RUN,
        SubjectKind::Control => CONTROL,
        SubjectKind::Bundle => BUNDLE,
    };
    let single = &("", Statistic::Value);
    rows.iter().flat_map(move |(word, measure, statistics)| {
        let statistics =
            if statistics.is_empty() { std::slice::from_ref(single) } else { statistics };
        statistics.iter().map(move |(statistic, value)| {
            let dot = if statistic.is_empty() { "" } else { "." };
            (format!("{word}{dot}{statistic}"), *measure, *value)
        })
    })
}

/// All metrics for the reference page: (`flow.NAME`, measure, statistics). The first statistic is
/// the default; it is empty if the measure has a single value.
pub(crate) fn catalogue() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    let subjects = [
        ("flow.NAME", FLOW),
        ("flow.NAME.subflow.NUMBER", SUBFLOW),
        ("flow.NAME.path.LINK", SUBFLOW),
        ("link.NAME.up", LINK),
        ("program.NAME", PROGRAM),
        ("run", RUN),
        ("control", CONTROL),
        ("bundle.NAME", BUNDLE),
    ];
    let words = |stats: &[(&'static str, Statistic)]| stats.iter().map(|s| s.0).collect();
    subjects
        .iter()
        .flat_map(|(subject, rows)| rows.iter().map(move |r| (*subject, r.0, words(r.2))))
        .collect()
}

/// Longest first, so that `>=` is not read as `>`.
const OPS: &[Op] = &[Op::AtLeast, Op::AtMost, Op::Equal, Op::NotEqual, Op::Above, Op::Below];

pub(crate) fn parse(text: &str, names: &Names<'_>) -> Result<Expectation, ParseError> {
    let (at, op) = (0..text.len())
        .filter(|at| text.is_char_boundary(*at))
        .find_map(|at| {
            OPS.iter().find(|op| text[at..].starts_with(op.as_str())).map(|op| (at, *op))
        })
        .ok_or(ParseError::NoComparison)?;
    let subject = text[..at].trim_end();
    let mut metric = metric(subject, names)?;
    let rest_at = at + op.as_str().len();
    let rest = &text[rest_at..];
    let (value, window) = match rest.find(" between ") {
        Some(split) => (&rest[..split], Some(rest_at + split)),
        None => (rest, None),
    };
    let value = self::value(value, rest_at, metric.measure.quantity())?;
    if let Some(at) = window {
        metric.window = Some(self::window(&text[at..], at..text.len())?);
    }
    Ok(Expectation { text: text.to_owned(), metric, op, value })
}

fn metric(text: &str, names: &Names<'_>) -> Result<Metric, ParseError> {
    let end = text.len();
    let (kind, rest) = text.trim_start().split_once('.').unwrap_or((text.trim(), ""));
    let mut at = end - rest.len();
    let rows;
    let subject = match kind {
        "flow" => {
            let flow = FlowId::at(name("flow", &names.flows, rest, &mut at)?);
            let subject = part_of_flow(flow, names, text, &mut at)?;
            rows = if matches!(subject, Subject::Flow(_)) { FLOW } else { SUBFLOW };
            subject
        }
        "program" => {
            rows = PROGRAM;
            Subject::Program(ProgramId::at(name("program", &names.programs, rest, &mut at)?))
        }
        "bundle" => {
            rows = BUNDLE;
            Subject::Bundle(name("bundle", &names.bundles, rest, &mut at)?)
        }
        "link" => {
            rows = LINK;
            let link = LinkId::at(name("link", &names.links, rest, &mut at)?);
            let word = text[at..].split('.').next().unwrap_or_default();
            let direction = Direction::BOTH.into_iter().find(|d| d.as_str() == word);
            let direction = direction.ok_or(ParseError::Direction(at..at + word.len()))?;
            at = (at + word.len() + 1).min(end);
            Subject::Link(link, direction)
        }
        "run" => {
            rows = RUN;
            Subject::Run
        }
        "control" => {
            rows = CONTROL;
            Subject::Control
        }
        _ => return Err(ParseError::Subject(0..kind.len())),
    };
    let (measure, statistic) = measure(text, at, rows)?;
    Ok(Metric { subject, measure, statistic, window: None })
}

/// The subject of a flow: the flow, `subflow.NUMBER` or `path.LINK`.
fn part_of_flow(
    flow: FlowId,
    names: &Names<'_>,
    text: &str,
    at: &mut usize,
) -> Result<Subject, ParseError> {
    let (word, rest) = text[*at..].split_once('.').unwrap_or_default();
    match word {
        "subflow" => {
            let start = *at + word.len() + 1;
            let digits = rest.split('.').next().unwrap_or_default();
            let wrong = || ParseError::Number(start..start + digits.len());
            let number = digits.parse().map_err(|_| wrong())?;
            *at = (start + digits.len() + 1).min(text.len());
            Ok(Subject::Subflow(flow, number))
        }
        "path" => {
            *at += word.len() + 1;
            let link = name("link", &names.links, rest, at)?;
            Ok(Subject::Path(flow, LinkId::at(link)))
        }
        _ => Ok(Subject::Flow(flow)),
    }
}

/// Removes the longest known name from the front of `rest`; names may contain dots.
fn name(
    kind: &'static str,
    known: &[&str],
    rest: &str,
    at: &mut usize,
) -> Result<usize, ParseError> {
    let fits =
        |name: &&str| rest.strip_prefix(*name).is_some_and(|r| r.is_empty() || r.starts_with('.'));
    let found =
        known.iter().enumerate().filter(|(_, name)| fits(name)).max_by_key(|(_, n)| n.len());
    if let Some((index, name)) = found {
        *at += (name.len() + 1).min(rest.len());
        return Ok(index);
    }
    let word = rest.split('.').next().unwrap_or_default();
    Err(ParseError::Name {
        at: *at..*at + word.len(),
        kind,
        name: word.to_owned(),
        known: known.iter().map(|name| (*name).to_owned()).collect(),
    })
}

fn measure(text: &str, at: usize, rows: &[Row]) -> Result<(Measure, Statistic), ParseError> {
    // Some names contain a dot.
    let rest = &text[at..];
    let fits = |row: &&Row| {
        rest.strip_prefix(row.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let Some((word, measure, statistics)) = rows.iter().find(fits) else {
        let word = rest.split('.').next().unwrap_or_default();
        let known = rows.iter().map(|row| row.0).collect();
        return Err(ParseError::Measure { at: at..at + word.len(), word: word.to_owned(), known });
    };
    let at = at + word.len() + 1;
    if rest == *word {
        Ok((*measure, statistics.first().map_or(Statistic::Value, |s| s.1)))
    } else {
        let word = &text[at..];
        match statistics.iter().find(|s| !word.is_empty() && s.0 == word) {
            Some((_, statistic)) => Ok((*measure, *statistic)),
            None => Err(ParseError::Statistic {
                at: at..text.len(),
                word: word.to_owned(),
                known: statistics.iter().map(|s| s.0).filter(|s| !s.is_empty()).collect(),
            }),
        }
    }
}

fn value(text: &str, offset: usize, quantity: Quantity) -> Result<f64, ParseError> {
    let at = offset + (text.len() - text.trim_start().len());
    let text = text.trim();
    let at = at..at + text.len();
    let wrong = |error| ParseError::Value { at: at.clone(), error };
    let plain = |wanted| ParseError::Plain { at: at.clone(), wanted };
    match quantity {
        Quantity::Time => text.parse().map_err(wrong).map(|v: Span| v.as_nanos() as f64),
        Quantity::Rate => text.parse().map_err(wrong).map(|v: Bandwidth| v.bits_per_sec() as f64),
        Quantity::Data => text.parse().map_err(wrong).map(|v: Bytes| v.count() as f64),
        Quantity::Share => match text.parse::<f64>() {
            Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => text.parse().map_err(wrong).map(|v: Ratio| v.as_f64()),
        },
        Quantity::Count => text
            .parse::<f64>()
            .ok()
            .filter(|value| value.is_finite())
            .ok_or_else(|| plain("a number without a unit")),
        Quantity::Truth => match text {
            "true" | "1" => Ok(1.0),
            "false" | "0" => Ok(0.0),
            _ => Err(plain("`true` or `false`")),
        },
    }
}

/// Parses ` between "5 s" and "10 s"`, with optional quotes.
fn window(text: &str, at: Range<usize>) -> Result<(Time, Time), ParseError> {
    let parse = |text: &str| {
        let span: Span = text.trim().trim_matches(['"', '\'']).parse().ok()?;
        Some(Time::ZERO + span)
    };
    text.strip_prefix(" between ")
        .and_then(|rest| rest.split_once(" and "))
        .and_then(|(from, to)| Some((parse(from)?, parse(to)?)))
        .filter(|(from, to)| from < to)
        .ok_or(ParseError::Window(at))
}
