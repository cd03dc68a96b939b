//! Reads each kind of input into a form.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bgp::mrt::Record;
use collector::input::{bmp, mrt};
use collector::text::json_lines::{self, Line};
use collector::{MirrorId, PeeringId};

use super::Summary;
use super::form::Form;
use crate::input::{Captures, Fill, Format, Input, Item, Progress, RecordStep, records, words};
use crate::pipeline::{self, Pipeline};
use crate::{Error, Result};

/// Interval at which reading from a pipe checks for a stop request.
const WAIT: Duration = Duration::from_millis(50);

/// Packets that determine whether checksums are meaningful.
const LEARN: usize = 256;

pub(super) fn check(path: &Path, format: Format) -> Result<()> {
    if format != Format::Unknown {
        return Ok(());
    }
    let cause = "neither a capture nor MRT, BMP or JSON Lines, by its first bytes".to_owned();
    Err(Error::Content { path: path.to_owned(), cause })
}

pub(super) fn read(
    input: Input,
    format: Format,
    settings: pipeline::Settings,
    mut form: Form,
    stop: &AtomicBool,
) -> Result<(Form, Summary)> {
    let mut summary = Summary::default();
    match format {
        Format::Capture => form = packets(input, settings, form, &mut summary, stop)?,
        Format::Bmp => station(input, &mut form, &mut summary, stop)?,
        Format::Json => lines(input, &mut form, &mut summary, stop)?,
        Format::Mrt => archive(input, &mut form, &mut summary, stop)?,
        Format::Empty | Format::Unknown => {}
    }
    summary.stopped = stop.load(Ordering::Relaxed);
    Ok((form, summary))
}

fn go_on(stop: &AtomicBool) -> ControlFlow<()> {
    if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn packets(
    input: Input,
    settings: pipeline::Settings,
    form: Form,
    summary: &mut Summary,
    stop: &AtomicBool,
) -> Result<Form> {
    let mut captures = Captures::of(vec![input]);
    let mut pipeline = Pipeline::new(pipeline::Settings { learn: LEARN, ..settings }, form);
    let mut dropped = 0;
    while !stop.load(Ordering::Relaxed) && !pipeline.sink_mut().is_over() {
        let step = captures.step(WAIT, &mut |item| match item {
            Item::Frame(frame) => {
                summary.read += 1;
                pipeline.frame(&frame);
            }
            Item::Dropped { packets, .. } => dropped += packets,
            Item::Trouble(error) => summary.trouble(error),
        })?;
        if step == Progress::End {
            break;
        }
    }
    if dropped > 0 {
        summary.trouble(format!("the capture reports {dropped} lost packets"));
    }
    pipeline.finish();
    for what in pipeline.decapsulator().counters().unread() {
        summary.trouble(what);
    }
    Ok(pipeline.into_sink())
}

fn archive(
    mut input: Input,
    form: &mut Form,
    summary: &mut Summary,
    stop: &AtomicBool,
) -> Result<()> {
    let path = input.path().to_owned();
    let mut reader = mrt::Input::new(MirrorId(0), PeeringId(0));
    let as_they_are = form.takes_records();
    records(&mut input, &mut || go_on(stop), &mut |read| {
        match read {
            RecordStep::Record(record) => {
                summary.read += 1;
                if as_they_are {
                    form.record(&record);
                } else {
                    reader.record(&record, form);
                }
            }
            RecordStep::Damage(damage) => {
                summary.trouble(format!("{}: {}", path.display(), words(&damage)));
            }
            RecordStep::Broken(error) => summary.trouble(error),
        }
        if form.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let counts = reader.counts();
    if counts.undecodable > 0 {
        summary.trouble(format!("{} records cannot be read", counts.undecodable));
    }
    Ok(())
}

fn station(
    mut input: Input,
    form: &mut Form,
    summary: &mut Summary,
    stop: &AtomicBool,
) -> Result<()> {
    let mut station = bmp::Input::new(MirrorId(0), PeeringId(0));
    loop {
        let end = input.is_ended();
        let (used, need) = station.read(input.unread(), end, form);
        input.consume(used);
        if end || form.is_over() || go_on(stop).is_break() {
            break;
        }
        fill(&mut input, need, summary)?;
    }
    let counts = station.counts();
    summary.read = counts.records;
    if counts.undecodable + counts.damaged > 0 {
        summary.trouble(format!(
            "{} BMP messages cannot be read, {} bytes belong to no message",
            counts.undecodable, counts.damaged
        ));
    }
    Ok(())
}

/// Reads more; data before damaged compression is used.
fn fill(input: &mut Input, need: usize, summary: &mut Summary) -> Result<Fill> {
    match input.fill(need, WAIT) {
        Err(error @ Error::Damaged { .. }) => {
            summary.trouble(error);
            Ok(Fill::More)
        }
        other => other,
    }
}

fn lines(
    mut input: Input,
    form: &mut Form,
    summary: &mut Summary,
    stop: &AtomicBool,
) -> Result<()> {
    let mut reader = mrt::Input::new(MirrorId(0), PeeringId(0));
    let path = input.path().to_owned();
    // Scanned bytes of the line without an end.
    let mut looked = 0;
    loop {
        let unread = input.unread();
        let found = unread[looked..].iter().position(|byte| *byte == b'\n').map(|at| looked + at);
        let found =
            found.or_else(|| (input.is_ended() && !unread.is_empty()).then_some(unread.len()));
        let Some(length) = found else {
            if input.is_ended() || go_on(stop).is_break() {
                return Ok(());
            }
            looked = unread.len();
            fill(&mut input, looked + 1, summary)?;
            continue;
        };
        let line = unread[..length].trim_ascii();
        if !line.is_empty() {
            summary.read += 1;
            if let Err(error) = tell(line, &mut reader, form) {
                let number = summary.read;
                summary.trouble(format!("{}: object {number}: {error}", path.display()));
            }
        }
        looked = 0;
        let used = (length + 1).min(unread.len());
        input.consume(used);
        if form.is_over() {
            return Ok(());
        }
    }
}

fn tell(
    line: &[u8],
    reader: &mut mrt::Input,
    form: &mut Form,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    match json_lines::parse(std::str::from_utf8(line)?)? {
        Line::Record(bytes) => {
            let record =
                Record::of(&bytes).ok_or("the record's length does not match its length field")?;
            if form.takes_records() {
                form.record(&record);
            } else {
                reader.record(&record, form);
            }
        }
        Line::Event(event) => event.tell(form),
    }
    Ok(())
}
