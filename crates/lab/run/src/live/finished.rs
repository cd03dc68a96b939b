//! The frames of a finished run, from its run folder.

mod system;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::{Direction, FlowId, LinkId, Span, Time};
use lab::plan::Plan;
use serde::Deserialize;

use super::hello::link_numbers;
use super::{End, Frame, FrameBuilder, Hello, MachineState, ProgramState, Source};
use crate::record::{Clock, ProgramEnd, ProgramSummary};
use crate::table::{Column, Reader, Table, Value};
use crate::{DropReason, Error, FlowSample, Level, LinkSample, RunFolder, RunRecord, Schedule};

/// Maximum number of frames of a finished run.
pub const MAX_FRAMES: u64 = 2000;

/// Maximum number of rows of links and flows in all frames; limits their memory to about 150 MB.
const MAX_ROWS: u64 = 2_000_000;

/// Minimum number of frames, even if they exceed [`MAX_ROWS`].
const MIN_FRAMES: u64 = 20;

/// Rows of a table that are read at a time.
const BATCH_ROWS: usize = 1 << 14;

/// Maximum number of bytes of the log that are read.
const MAX_LOG_BYTES: u64 = 16 << 20;

/// Maximum number of nodes, of links, of flows, and of other items of the lab.
const MAX_ITEMS: usize = 1_000_000;

/// A run that has ended, as messages to a watcher.
#[derive(Clone, Debug)]
pub struct FinishedRun {
    pub hello: Hello,
    pub frames: Vec<Frame>,
    pub end: End,
}

/// A line of `log.jsonl`.
#[derive(Deserialize)]
struct LoggedLine {
    time_ns: u64,
    level: Level,
    #[serde(default)]
    source: String,
    text: String,
}

impl FinishedRun {
    /// Reads the samples of a run and aggregates them to at most [`MAX_FRAMES`] frames.
    ///
    /// # Errors
    /// If the run has not ended, or a file of the folder cannot be read.
    pub fn read(folder: &RunFolder) -> Result<Self, Error> {
        let record = folder.read_record()?;
        let mut end =
            End::of(&record).ok_or_else(|| Error::Running { path: folder.path().to_owned() })?;
        let report = folder.file("report.html");
        end.report = report.is_file().then(|| report.display().to_string());
        let plan = Arc::new(plan(folder)?);
        let ended = Time::from_nanos((record.elapsed_s.max(0.0) * 1e9) as u64);
        let span = span(&plan, ended);
        let mut builder = FrameBuilder::new(&plan, span);
        read_links(folder, &plan, &mut builder)?;
        read_flows(folder, &plan, &mut builder)?;
        system::read(folder, &plan, &mut builder)?;
        enter_changes(folder, &plan, &record, &mut builder);
        enter_programs(&plan, &record, &mut builder);
        enter_log(folder, &mut builder)?;
        let mut frames = builder.finish(ended);
        if let Some(last) = frames.last_mut() {
            last.machine = machine(&record);
        }
        let numbers = link_numbers(&plan, &record);
        for frame in &mut frames {
            renumber(frame, &numbers);
        }
        let mut hello = Hello::of(&plan, &record, folder.path(), Source::Finished);
        hello.duration_s = Some(record.elapsed_s);
        hello.interval_s = span.as_secs_f64();
        Ok(Self { hello, frames, end })
    }
}

fn plan(folder: &RunFolder) -> Result<Plan, Error> {
    let path = folder.file(RunFolder::RESOLVED_LAB);
    let text = folder.read_start(RunFolder::RESOLVED_LAB, u64::MAX)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let overrides = lab::Overrides {
        trust_programs: true,
        max_items: Some(MAX_ITEMS),
        ..lab::Overrides::default()
    };
    let compiled = lab::parse_with(RunFolder::RESOLVED_LAB, &text, folder.path(), &overrides);
    let mut plans = match compiled {
        Ok(lab) => lab.plans,
        Err(why) => return Err(Error::Lab { path, why: why.to_string() }),
    };
    let why = format!("it is a sweep of {} runs", plans.len());
    plans.pop().filter(|_| plans.is_empty()).ok_or(Error::Lab { path, why })
}

/// The length of a frame: a number of sampling intervals.
fn span(plan: &Plan, ended: Time) -> Span {
    let interval = plan.interval.as_nanos().max(1);
    let series = FrameBuilder::new(plan, plan.interval).series();
    let rows = (plan.links.len() + plan.flows.len()).max(1) as u64 + u64::from(series);
    let frames = (MAX_ROWS / rows).clamp(MIN_FRAMES, MAX_FRAMES);
    let samples = ended.as_nanos().div_ceil(interval);
    Span::from_nanos(interval.saturating_mul(samples.div_ceil(frames).max(1)))
}

/// Calls `enter` with the values of each row of a table, in the order of `names`; `Null` for a
/// missing column. Without the table it does nothing.
fn for_each_row(
    path: &Path,
    names: &[&str],
    mut enter: impl FnMut(&[Value<'_>]),
) -> Result<(), Error> {
    // A symbolic link is not followed: opening it fails.
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let mut reader = Reader::open(path)?;
    let mut table = Table::new(reader.columns().to_vec());
    while reader.read_into(&mut table, BATCH_ROWS)? > 0 {
        enter_batch(&table, names, &mut enter);
        table.clear();
    }
    Ok(())
}

fn enter_batch(table: &Table, names: &[&str], enter: &mut impl FnMut(&[Value<'_>])) {
    let column = |name: &&str| table.columns().iter().find(|column| column.name == **name);
    let mut columns: Vec<_> = names.iter().map(|name| column(name).map(Column::values)).collect();
    for _ in 0..table.rows() {
        let next = |column: &mut Option<_>| column.as_mut().and_then(Iterator::next);
        let row: Vec<Value<'_>> =
            columns.iter_mut().map(|column| next(column).unwrap_or(Value::Null)).collect();
        enter(&row);
    }
}

fn number(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn position(names: &BTreeMap<&str, usize>, value: &Value<'_>) -> Option<usize> {
    match value {
        Value::Text(text) => names.get(text.as_ref()).copied(),
        _ => None,
    }
}

fn names<'a>(all: impl Iterator<Item = &'a String>) -> BTreeMap<&'a str, usize> {
    all.enumerate().map(|(at, name)| (name.as_str(), at)).collect()
}

fn read_links(folder: &RunFolder, plan: &Plan, builder: &mut FrameBuilder) -> Result<(), Error> {
    let positions = names(plan.links.iter().map(|link| &link.name));
    let fixed = ["time_ns", "interval_ns", "link", "direction", "sent_bytes", "queue_max_bytes"];
    let drops = DropReason::ALL.map(DropReason::column);
    let wanted = [&fixed[..], &["queue_delay_max_ns"], &drops].concat();
    for_each_row(&folder.table("links"), &wanted, |row| {
        let Some(link) = position(&positions, &row[2]) else { return };
        let direction = match &row[3] {
            Value::Text(text) if text.as_ref() == "down" => Direction::Down,
            _ => Direction::Up,
        };
        let value = |at: usize| number(&row[at]).unwrap_or_default();
        let (at, interval) = (Time::from_nanos(value(0)), Span::from_nanos(value(1)));
        let mut sample = LinkSample::empty(at, interval, LinkId::at(link), direction);
        sample.sent_bytes = value(4);
        sample.queue_max_bytes = value(5);
        sample.queue_delay_max = number(&row[6]).map(Span::from_nanos);
        sample.drops = std::array::from_fn(|reason| value(7 + reason));
        builder.link(&sample);
    })
}

fn read_flows(folder: &RunFolder, plan: &Plan, builder: &mut FrameBuilder) -> Result<(), Error> {
    let positions = names(plan.flows.iter().map(|flow| &flow.name));
    let wanted = [
        "time_ns",
        "interval_ns",
        "flow",
        "received_bytes",
        "rtt_ns",
        "retransmits",
        "lost",
        "reinjected_bytes",
        "reorder_bytes",
    ];
    for_each_row(&folder.table("flows"), &wanted, |row| {
        let Some(flow) = position(&positions, &row[2]) else { return };
        let value = |at: usize| number(&row[at]).unwrap_or_default();
        let (at, interval) = (Time::from_nanos(value(0)), Span::from_nanos(value(1)));
        let mut sample = FlowSample::empty(at, interval, FlowId::at(flow));
        sample.received_bytes = value(3);
        sample.rtt = number(&row[4]).map(Span::from_nanos);
        sample.retransmits = number(&row[5]);
        sample.lost = number(&row[6]);
        sample.reinjected_bytes = number(&row[7]);
        sample.reorder_bytes = number(&row[8]);
        builder.flow(&sample);
    })
}

/// Enters the events that took place, with the changes of links that they caused.
fn enter_changes(
    folder: &RunFolder,
    plan: &Arc<Plan>,
    record: &RunRecord,
    builder: &mut FrameBuilder,
) {
    let mut schedule = Schedule::new(Arc::clone(plan));
    for event in &record.events {
        let at = time(event.at_s);
        for change in schedule.changes(at) {
            builder.change(&change);
        }
        if !event.set.is_empty() {
            // The lab accepted these values when the run took place.
            let changes = schedule.set(at, &event.set, folder.path());
            for change in changes.map(|(changes, _)| changes).unwrap_or_default() {
                builder.change(&change);
            }
        }
        builder.event(at, &event.text);
    }
}

fn time(seconds: f64) -> Time {
    Time::from_nanos((seconds.max(0.0) * 1e9).round() as u64)
}

fn enter_programs(plan: &Plan, record: &RunRecord, builder: &mut FrameBuilder) {
    let positions = names(plan.programs.iter().map(|program| &program.name));
    for summary in &record.programs {
        let Some(program) = positions.get(summary.name.as_str()).map(|at| *at as u32) else {
            continue;
        };
        if let Some(started) = summary.started_s {
            builder.program(time(started), program, ProgramState::Running, None);
        }
        if let Some(ready) = summary.ready_s {
            builder.program(time(ready), program, ProgramState::Ready, None);
        }
        if let Some(ended) = summary.ended_s {
            let (state, code) = end_state(summary);
            builder.program(time(ended), program, state, code);
        }
    }
}

fn end_state(summary: &ProgramSummary) -> (ProgramState, Option<i32>) {
    let state = if summary.as_expected { ProgramState::Exited } else { ProgramState::Failed };
    let code = match summary.end {
        Some(ProgramEnd::Exit(code)) => Some(code),
        _ => None,
    };
    (state, code)
}

fn enter_log(folder: &RunFolder, builder: &mut FrameBuilder) -> Result<(), Error> {
    let log = folder.read_start("log.jsonl", MAX_LOG_BYTES)?.unwrap_or_default();
    for line in log.split(|byte| *byte == b'\n') {
        // The last line of a killed run may be incomplete.
        let Ok(line) = serde_json::from_slice::<LoggedLine>(line) else { continue };
        builder.log(Time::from_nanos(line.time_ns), line.level, &line.source, &line.text);
    }
    Ok(())
}

/// The lateness of the whole run; `None` on the virtual clock.
fn machine(record: &RunRecord) -> Option<MachineState> {
    let late = record.lateness.distribution.as_ref().filter(|_| record.clock == Clock::Wall)?;
    Some(MachineState {
        late_p50_s: late.p50_ns as f64 / 1e9,
        late_p99_s: late.p99_ns as f64 / 1e9,
        late_max_s: late.max_ns as f64 / 1e9,
        trusted: record.verdict.as_ref().is_some_and(|verdict| verdict.trusted),
        ..MachineState::default()
    })
}

/// Replaces positions of links in the plan by those in the hello; removes links that the hello
/// does not contain.
pub fn renumber(frame: &mut Frame, numbers: &[Option<u32>]) {
    let renumber_link = |link: &mut u32| match numbers.get(*link as usize).copied().flatten() {
        Some(number) => {
            *link = number;
            true
        }
        None => false,
    };
    frame.links.retain_mut(|row| renumber_link(&mut row.link));
    frame.changes.retain_mut(|change| renumber_link(&mut change.link));
}
