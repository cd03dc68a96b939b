//! Records of an archive file, in order.

use std::ops::ControlFlow;
use std::time::Duration;

use bgp::mrt::{Cause, Damage, Reader, Record, Step};

use super::{Fill, Input};
use crate::{Error, Result};

#[derive(Debug)]
pub enum RecordStep<'a> {
    Record(Record<'a>),
    Damage(Damage),
    /// The compression is damaged, and no records follow.
    Broken(Error),
}

/// Interval at which `pause` is called while a pipe has no data.
const WAIT: Duration = Duration::from_millis(50);

/// Passes the records of `input` to `each` until it breaks. At the end of a window, and while a
/// pipe has no data, `pause` decides whether to continue.
pub fn records(
    input: &mut Input,
    pause: &mut impl FnMut() -> ControlFlow<()>,
    each: &mut impl FnMut(RecordStep<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let mut reader = Reader::new();
    loop {
        let end = input.is_ended();
        let unread = input.unread();
        let mut at = 0;
        let need = loop {
            let (read, used) = match reader.next(&unread[at..], end) {
                Step::Record(record) => (RecordStep::Record(record), record.bytes.len()),
                Step::Damaged(damage) => (RecordStep::Damage(damage), damage.skipped),
                Step::Need(need) => break Some(need),
                Step::End => break None,
            };
            at += used;
            if each(read).is_break() {
                return Ok(());
            }
        };
        input.consume(at);
        let Some(need) = need else { return Ok(()) };
        if pause().is_break() {
            return Ok(());
        }
        match input.fill(need, WAIT) {
            Ok(Fill::More | Fill::End | Fill::Waiting) => {}
            Ok(Fill::Restarted) => reader = Reader::new(),
            Err(error @ Error::Damaged { .. }) => {
                if each(RecordStep::Broken(error)).is_break() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn words(damage: &Damage) -> String {
    let Damage { offset, skipped, cause } = damage;
    match cause {
        Cause::Torn => format!("cut off within the record at byte {offset}"),
        Cause::Framing => format!("{skipped} bytes from byte {offset} on belong to no record"),
    }
}
