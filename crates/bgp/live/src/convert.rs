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
use crate::job::TROUBLES;
use crate::pipeline;
use form::Form;
use output::Output;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Archive records (RFC 6396).
    Mrt,
    /// JSON Lines: all fields of a record or an event, and its bytes.
    Json,
    /// The lines of `bgpdump -m`.
    Bgpdump,
    /// BMP (RFC 7854), as sent to stations.
    Bmp,
    /// A pcap file with the messages in ordered TCP segments.
    Pcap,
    Pcapng,
}

impl Target {
    /// Format of a file with this name, without its compression.
    pub fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let packed = [".gz", ".bz2", ".zst"].iter().find_map(|suffix| name.strip_suffix(suffix));
        let name = packed.unwrap_or(&name);
        Some(match name.rsplit_once('.').map_or("", |(_, suffix)| suffix) {
            "mrt" => Self::Mrt,
            "json" | "jsonl" | "ndjson" => Self::Json,
            "bgpdump" | "txt" => Self::Bgpdump,
            "bmp" => Self::Bmp,
            "pcap" | "cap" => Self::Pcap,
            "pcapng" => Self::Pcapng,
            _ if ["updates.", "bview.", "rib."].iter().any(|kind| name.starts_with(kind)) => {
                Self::Mrt
            }
            _ => return None,
        })
    }
}

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
