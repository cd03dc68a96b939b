//! Captures, archives, BMP and JSON Lines into each other.
//!
//! Bytes stream through: neither the input nor the output is ever held as a whole. Archive records
//! that become records or lines are taken as they are; all else goes by way of events. A result
//! appears under its name when it is whole, or not at all.

mod form;
mod output;
mod source;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use crate::Result;
use crate::input::Input;
use crate::job::TROUBLES;
use crate::pipeline;
use form::Form;
use output::Output;

/// What is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Archive records (RFC 6396).
    Mrt,
    /// JSON Lines: all of a record or an event, readable, and its bytes.
    Json,
    /// The lines of `bgpdump -m`.
    Bgpdump,
    /// BMP (RFC 7854), as a station is sent it.
    Bmp,
    /// A pcap file with the messages in TCP segments that are in order.
    Pcap,
    /// The same as pcapng.
    Pcapng,
}

impl Target {
    /// What a file of this name is to hold, its compression apart.
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

/// What came of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records, packets or lines that were read.
    pub read: u64,
    /// Bytes that were written, before compression.
    pub written: u64,
    /// Gaps that were found in streams; archives and captures cannot tell them.
    pub gaps: u64,
    /// What is wrong with the input, in words; the first [`TROUBLES`].
    pub troubles: Vec<String>,
    /// All of it.
    pub trouble_count: u64,
    /// It was stopped, and nothing is left of the result.
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

/// Reads `from` (`-` is standard input), whatever it holds, and writes `target` to `into` (`-` is
/// standard output), compressed as its name says, until the end or until `stop` is set. Damage of
/// the input is told in the summary; what is whole is converted.
///
/// # Errors
/// If the input cannot be opened or is nothing of this kind, or the result cannot be written.
pub fn convert(
    from: &Path,
    into: &Path,
    target: Target,
    settings: pipeline::Settings,
    stop: &AtomicBool,
) -> Result<Summary> {
    let mut input = Input::open(from, false)?;
    let format = input.format()?;
    source::check(from, format)?;
    let form = Form::new(target, Output::create(into)?);
    let (form, mut summary) = source::read(input, format, settings, form, stop)?;
    summary.gaps = form.gaps();
    if summary.stopped {
        return Ok(summary);
    }
    summary.written = form.finish()?;
    Ok(summary)
}
