//! Readers of capture files, from bytes to [`Frame`]s: pcap and pcapng, recognised by
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

mod pcap;
mod pcapng;
#[cfg(test)]
mod tests;
pub mod write;

use std::collections::BTreeMap;

use base::Time;

use crate::{Error, Frame, LinkType};

/// Maximum packet length without a limit in the file's header, as in libpcap.
const LENGTH_MAX: u32 = 262_144;
/// Maximum packet length in any file.
const LENGTH_LIMIT: u32 = 16 << 20;
/// Maximum number of interfaces of one input, over all sections.
const INTERFACES_MAX: usize = 65_536;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub link: LinkType,
    pub name: Option<String>,
    /// Snap length in bytes; 0 for no limit.
    pub snap: u32,
    pub dropped: u64,
}

/// Numbers of interfaces over all sections of an input: an interface of a later section has the
/// number of the one with its name, or without a name of the one with its position and link type.
#[derive(Clone, Debug, Default)]
struct Numbers {
    named: BTreeMap<String, u32>,
    unnamed: BTreeMap<(u32, u16), u32>,
}

impl Numbers {
    const fn new() -> Self {
        Self { named: BTreeMap::new(), unnamed: BTreeMap::new() }
    }

    /// Number of the interface at position `at` of its section, which may be new; `None` if there
    /// are too many.
    fn of(&mut self, all: &mut Vec<Interface>, interface: Interface, at: u32) -> Option<u32> {
        let place = (at, interface.link.0);
        let known = match &interface.name {
            Some(name) => self.named.get(name),
            None => self.unnamed.get(&place),
        };
        if let Some(known) = known {
            return Some(*known);
        }
        if all.len() == INTERFACES_MAX {
            return None;
        }
        let number = all.len() as u32;
        match &interface.name {
            Some(name) => self.named.insert(name.clone(), number),
            None => self.unnamed.insert(place, number),
        };
        all.push(interface);
        Some(number)
    }
}

/// Result of one step. The caller skips `used` bytes before the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    Frame {
        frame: Frame<'a>,
        used: usize,
    },
    Skip {
        used: usize,
    },
    /// At least `bytes` bytes are required, counted from the first unread byte.
    Need {
        bytes: usize,
    },
    /// The capture reports packets that were lost since its last report.
    Dropped {
        interface: u32,
        packets: u64,
        used: usize,
    },
    /// The reader skips damaged bytes and searches for the next record. Reported once per place.
    Damaged {
        offset: u64,
        used: usize,
    },
    Torn {
        offset: u64,
        bytes: usize,
    },
    End,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    big: bool,
}

impl Order {
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        if self.big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    #[inline]
    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

#[derive(Clone, Debug)]
enum Format {
    Unknown,
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
}

#[derive(Clone, Debug)]
pub struct Reader {
    format: Format,
    interfaces: Vec<Interface>,
    numbers: Numbers,
    offset: u64,
    last: Time,
    skip: u64,
    /// Offset of the damage while the reader searches for the next record.
    damaged: Option<u64>,
    damages: u64,
    lost: u64,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    pub const fn new() -> Self {
        Self {
            format: Format::Unknown,
            interfaces: Vec::new(),
            numbers: Numbers::new(),
            offset: 0,
            last: Time::ZERO,
            skip: 0,
            damaged: None,
            damages: 0,
            lost: 0,
        }
    }

    /// Interfaces read so far; [`Frame::interface`] is an index into them.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    pub const fn offset(&self) -> u64 {
        self.offset
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
            Format::Pcap(pcap) if self.skip == 0 && self.damaged.is_none() => {
                match pcap.packet(unread, &mut self.last) {
                    Some((frame, used)) => Step::Frame { frame, used },
                    None => self.other(unread, end)?,
                }
            }
            _ => self.other(unread, end)?,
        };
        match step {
            Step::Frame { used, .. } | Step::Skip { used } | Step::Dropped { used, .. } => {
                self.offset += used as u64;
            }
            _ => {}
        }
        Ok(step)
    }

    /// Handles everything except complete pcap packets.
    fn other<'a>(&mut self, unread: &'a [u8], end: bool) -> Result<Step<'a>, Error> {
        if self.skip > 0 && !unread.is_empty() {
            let used = usize::try_from(self.skip).unwrap_or(usize::MAX).min(unread.len());
            self.skip -= used as u64;
            return Ok(Step::Skip { used });
        }
        let pending = matches!(&self.format, Format::Pcapng(pcapng) if pcapng.pending());
        if unread.is_empty() && end && !pending {
            return Ok(match self.skip {
                0 => Step::End,
                _ => Step::Torn { offset: self.offset, bytes: 0 },
            });
        }
        let step = if self.damaged.is_some() {
            self.look(unread, end)
        } else {
            match self.format {
                Format::Unknown => self.open(unread)?,
                Format::Pcap(_) => self.pcap(unread, end)?,
                Format::Pcapng(_) => self.pcapng(unread, end)?,
            }
        };
        Ok(match step {
            Step::Need { .. } if end => Step::Torn { offset: self.offset, bytes: unread.len() },
            Step::Damaged { .. } => {
                self.damaged = Some(self.offset);
                self.damages += 1;
                step
            }
            step => step,
        })
    }

    fn open<'a>(&mut self, unread: &'a [u8]) -> Result<Step<'a>, Error> {
        let Some(magic) = unread.first_chunk::<4>() else { return Ok(Step::Need { bytes: 4 }) };
        if *magic == pcapng::SECTION_BYTES {
            self.format = Format::Pcapng(pcapng::Pcapng::new());
            return self.pcapng(unread, false);
        }
        let Some(header) = unread.first_chunk::<{ pcap::HEADER }>() else {
            return match pcap::variant(*magic) {
                Some(_) => Ok(Step::Need { bytes: pcap::HEADER }),
                None => Err(Error::NoCapture { magic: *magic }),
            };
        };
        let (mut pcap, interface) = pcap::Pcap::open(header)?;
        match self.numbers.of(&mut self.interfaces, interface, 0) {
            Some(number) => pcap.interface = number,
            None => return Ok(Step::Damaged { offset: self.offset, used: 0 }),
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
            Record::Impossible => Step::Damaged { offset: self.offset, used: 0 },
            Record::Bytes(used) if used <= unread.len() => {
                let frame = pcap.frame(unread, used, &mut self.last);
                Step::Frame { frame, used }
            }
            // A damaged length may extend beyond the end of the file: search for records before it.
            Record::Bytes(_)
                if end && matches!(pcap.find(unread, 1, end, self.last), Found::At(_)) =>
            {
                Step::Damaged { offset: self.offset, used: 0 }
            }
            Record::Bytes(bytes) => Step::Need { bytes },
        })
    }

    fn look<'a>(&mut self, unread: &'a [u8], end: bool) -> Step<'a> {
        let from = usize::from(self.damaged == Some(self.offset));
        let found = match &self.format {
            Format::Unknown => return Step::End,
            Format::Pcap(pcap) => pcap.find(unread, from, end, self.last),
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

enum Record {
    Unseen,
    Bytes(usize),
    Impossible,
}

enum Found {
    At(usize),
    /// No record begins before this offset, which is above 0.
    NotBefore(usize),
    /// This many bytes are required for a decision.
    Need(usize),
}
