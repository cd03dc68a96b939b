//! Converts captures, archives and BMP to each other, and to text.
//!
//! Conversion is streaming. Archive records that become records or lines are copied unchanged; all
//! other conversions go through events. The output appears under its name only when it is complete.

mod form;
mod output;
mod source;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Result;
use crate::input::Input;
use crate::pipeline;
use form::Form;
pub use form::Target;
use output::Output;
pub use source::Summary;

/// Converts `from` (`-` is standard input) of any format to `target` in `into` (`-` is standard
/// output), compressed as its name states, until the end or until `stop` is set. The summary
/// reports damage of the input; its whole parts are converted.
pub fn convert(
    from: &Path,
    into: &Path,
    target: Target,
    settings: pipeline::Settings,
    stop: &AtomicBool,
) -> Result<Summary> {
    let mut input = Input::open(from, false)?;
    let format = input.await_format(stop)?;
    if !stop.load(Ordering::Relaxed) {
        source::check(from, format)?;
    }
    let form = Form::new(target, Output::create(into)?);
    let (form, mut summary) = source::read(input, format, settings, form, stop)?;
    (summary.gaps, summary.guessed) = (form.gaps, form.guessed);
    if summary.stopped {
        return Ok(summary);
    }
    summary.written = form.finish()?;
    Ok(summary)
}
