//! Records of an archive file, one after the other.

use std::ops::ControlFlow;
use std::time::Duration;

use bgp::mrt::{Cause, Damage, Reader, Record, Step};

use super::{Fill, Input};
use crate::{Error, Result};

/// What an archive file holds next.
#[derive(Debug)]
pub enum Piece<'a> {
    /// A whole record.
    Record(Record<'a>),
    /// Bytes that belong to no record.
    Damage(Damage),
    /// Its compression is damaged: what came out before is followed by nothing.
    Broken(Error),
}

/// How long a pipe is waited for until `each` is asked again.
const WAIT: Duration = Duration::from_millis(50);

/// Hands the records of `input` to `each` until it breaks off. At the end of a window, and while a
/// pipe has nothing, `pause` is asked whether to go on.
///
/// # Errors
/// If the input cannot be read.
pub fn records(
    input: &mut Input,
    pause: &mut impl FnMut() -> ControlFlow<()>,
    each: &mut impl FnMut(Piece<'_>) -> ControlFlow<()>,
) -> Result<()> {
    let mut reader = Reader::new();
    loop {
        let end = input.is_ended();
        let unread = input.unread();
        let mut at = 0;
        let need = loop {
            let (read, used) = match reader.next(&unread[at..], end) {
                Step::Record(record) => (Piece::Record(record), record.bytes.len()),
                Step::Damaged(damage) => (Piece::Damage(damage), damage.skipped),
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
                if each(Piece::Broken(error)).is_break() {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// What is wrong, in words.
pub(crate) fn words(damage: &Damage) -> String {
    let Damage { offset, skipped, cause } = damage;
    match cause {
        Cause::Torn => format!("cut off within the record at byte {offset}"),
        Cause::Framing => format!("{skipped} bytes from byte {offset} on belong to no record"),
    }
}
