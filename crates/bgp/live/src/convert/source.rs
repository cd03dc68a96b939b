//! Reads each kind of input into a form.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use collector::input::{bmp, mrt};
use collector::{MirrorId, PeeringId};

use super::form::Form;
use crate::input::{Captures, Fill, Format, Input, Item, Progress, RecordStep, records, words};
use crate::job::TROUBLES;
use crate::pipeline::{self, Pipeline};
use crate::{Error, Result};

/// Interval at which reading from a pipe checks for a stop request.
const WAIT: Duration = Duration::from_millis(50);

/// Packets that determine whether checksums are meaningful.
const LEARN: usize = 256;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub read: u64,
    pub written: u64,
    /// Gaps in streams; archives and captures do not contain them.
    pub gaps: u64,
    /// Sessions whose router's end was guessed.
    pub guessed: u64,
    /// Errors of the input, as text; the first [`TROUBLES`].
    pub troubles: Vec<String>,
    pub trouble_count: u64,
    /// The conversion was stopped, and the output deleted.
    pub stopped: bool,
}

impl Summary {
    fn trouble(&mut self, what: impl std::fmt::Display) {
        self.trouble_count += 1;
        if self.troubles.len() < TROUBLES {
            self.troubles.push(what.to_string());
        }
    }
}

pub(super) fn check(path: &Path, format: Format) -> Result<()> {
    format.refusal().map_or(Ok(()), |cause| Err(Error::Content { path: path.to_owned(), cause }))
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
        Format::Mrt => archive(input, &mut form, &mut summary, stop)?,
        Format::Empty | Format::Json | Format::Foreign(_) | Format::Unknown => {}
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
