//! Readers of capture files, from bytes to [`Frame`](crate::Frame)s: pcap and pcapng, recognised by
//! their first bytes.
//!
//! # Problem
//!
//! The input may be a mapped file, a pipe or a growing file, and may be truncated or damaged. The
//! caller passes the unread bytes to [`Reader::next`], which returns one [`Step`]. The reader
//! copies no packets and stores only the interfaces that the file describes.
//!
//! # Sources
//!
//! draft-ietf-opsawg-pcap (pcap, with its nanosecond variant and Kuznetzov's modified header) and
//! draft-ietf-opsawg-pcapng.

mod input;
mod pcap;
mod pcapng;
#[cfg(test)]
mod tests;
pub mod write;

use crate::Error;
use input::{Found, Input, Record};
pub use input::{Interface, Step};

#[derive(Clone, Debug, Default)]
enum Format {
    #[default]
    Unknown,
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
}

#[derive(Clone, Debug, Default)]
pub struct Reader {
    format: Format,
    input: Input,
    /// Offset of the damage while the reader searches for the next record.
    damaged: Option<u64>,
    damages: u64,
    lost: u64,
}

impl Reader {
    pub fn new() -> Self {
        Self::default()
    }

    /// Interfaces read so far; [`Frame::interface`](crate::Frame::interface) is an index into them.
    pub fn interfaces(&self) -> &[Interface] {
        &self.input.interfaces
    }

    pub const fn offset(&self) -> u64 {
        self.input.offset
    }

    /// Number of damaged places, and number of bytes skipped there.
    pub const fn damage(&self) -> (u64, u64) {
        (self.damages, self.lost)
    }

    /// Reads the start of `unread`. With `end`, no more bytes follow.
    ///
    /// # Errors
    ///
    /// The input is not a capture, or has an unknown version.
    #[inline]
    pub fn next<'a>(&mut self, unread: &'a [u8], end: bool) -> Result<Step<'a>, Error> {
        let step = match &mut self.format {
            Format::Pcap(pcap) if self.input.skip == 0 && self.damaged.is_none() => {
                match pcap.packet(unread, &mut self.input.last) {
                    Some((frame, used)) => Step::Frame { frame, used },
                    None => self.other(unread, end)?,
                }
            }
            _ => self.other(unread, end)?,
        };
        match step {
            Step::Frame { used, .. } | Step::Skip { used } | Step::Dropped { used, .. } => {
                self.input.offset += used as u64;
            }
            _ => {}
        }
        Ok(step)
    }

    /// Handles everything except complete pcap packets.
    fn other<'a>(&mut self, unread: &'a [u8], end: bool) -> Result<Step<'a>, Error> {
        if self.input.skip > 0 && !unread.is_empty() {
            let used = usize::try_from(self.input.skip).unwrap_or(usize::MAX).min(unread.len());
            self.input.skip -= used as u64;
            return Ok(Step::Skip { used });
        }
        let pending = matches!(&self.format, Format::Pcapng(pcapng) if pcapng.pending());
        if unread.is_empty() && end && !pending {
            return Ok(match self.input.skip {
                0 => Step::End,
                _ => Step::Torn { offset: self.input.offset, bytes: 0 },
            });
        }
        let step = if self.damaged.is_some() {
            self.look(unread, end)
        } else {
            match &mut self.format {
                Format::Unknown => self.open(unread)?,
                Format::Pcap(_) => self.pcap(unread, end)?,
                Format::Pcapng(pcapng) => pcapng.step(&mut self.input, unread, end)?,
            }
        };
        Ok(match step {
            Step::Need { .. } if end => {
                Step::Torn { offset: self.input.offset, bytes: unread.len() }
            }
            Step::Damaged { .. } => {
                self.damaged = Some(self.input.offset);
                self.damages += 1;
                step
            }
            step => step,
        })
    }

    fn open<'a>(&mut self, unread: &'a [u8]) -> Result<Step<'a>, Error> {
        let Some(magic) = unread.first_chunk::<4>() else { return Ok(Step::Need { bytes: 4 }) };
        if *magic == pcapng::SECTION_BYTES {
            let mut pcapng = pcapng::Pcapng::default();
            let step = pcapng.step(&mut self.input, unread, false);
            self.format = Format::Pcapng(pcapng);
            return step;
        }
        let Some(header) = unread.first_chunk::<{ pcap::HEADER }>() else {
            return match pcap::variant(*magic) {
                Some(_) => Ok(Step::Need { bytes: pcap::HEADER }),
                None => Err(Error::NoCapture { magic: *magic }),
            };
        };
        let (mut pcap, interface) = pcap::Pcap::open(header)?;
        match self.input.number_of(interface, 0) {
            Some(number) => pcap.interface = number,
            None => return Ok(Step::Damaged { offset: self.input.offset, used: 0 }),
        }
        self.format = Format::Pcap(pcap);
        Ok(Step::Skip { used: pcap::HEADER })
    }

    fn pcap<'a>(&mut self, unread: &'a [u8], end: bool) -> Result<Step<'a>, Error> {
        let Format::Pcap(pcap) = &self.format else { return Ok(Step::End) };
        if pcap.begins_again(unread) {
            return self.open(unread);
        }
        Ok(match pcap.record(unread) {
            Record::Unseen => Step::Need { bytes: pcap.header() },
            Record::Impossible => Step::Damaged { offset: self.input.offset, used: 0 },
            Record::Bytes(used) if used <= unread.len() => {
                let frame = pcap.frame(unread, used, &mut self.input.last);
                Step::Frame { frame, used }
            }
            // A damaged length may extend beyond the end of the file: search for records before it.
            Record::Bytes(_)
                if end && matches!(pcap.find(unread, 1, end, self.input.last), Found::At(_)) =>
            {
                Step::Damaged { offset: self.input.offset, used: 0 }
            }
            Record::Bytes(bytes) => Step::Need { bytes },
        })
    }

    fn look<'a>(&mut self, unread: &'a [u8], end: bool) -> Step<'a> {
        let from = usize::from(self.damaged == Some(self.input.offset));
        let found = match &self.format {
            Format::Unknown => return Step::End,
            Format::Pcap(pcap) => pcap.find(unread, from, end, self.input.last),
            Format::Pcapng(pcapng) => pcapng.find(unread, from, end),
        };
        let used = match found {
            Found::At(at) => {
                self.damaged = None;
                at
            }
            Found::NotBefore(at) => at,
            Found::Need(bytes) => return Step::Need { bytes },
        };
        self.lost += used as u64;
        Step::Skip { used }
    }
}
