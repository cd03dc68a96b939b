//! Capture files, from bytes to [`Frame`]s: pcap and pcapng, told apart by their first bytes.
//!
//! # Problem
//!
//! The same bytes come whole (a mapped file), in pieces (a pipe, a file that still grows, the
//! output of a decompressor), cut off at the end, or damaged in the middle. [`Reader::next`] is
//! shown what has not been used yet and answers one [`Step`]; it copies nothing and keeps nothing
//! but what the file said about its interfaces.
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

use base::Time;

use crate::{Error, Frame, LinkType};

/// Longest packet that is believed without the file's header saying so, as libpcap has it.
const LENGTH_MAX: u32 = 262_144;
/// Longest packet that is believed at all.
const LENGTH_LIMIT: u32 = 16 << 20;
/// Interfaces of one input, over all its sections.
const INTERFACES_MAX: usize = 65_536;

/// Where packets were captured, as the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// What frames begin with.
    pub link: LinkType,
    /// Its name, if the file has one.
    pub name: Option<String>,
    /// Longest part of a packet that was kept, in bytes; 0 if there was no limit.
    pub snap: u32,
    /// Packets that the capture itself says it lost here.
    pub dropped: u64,
}

/// What the unread bytes begin with. `used` bytes are to be left out at the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A packet.
    Frame {
        /// The packet.
        frame: Frame<'a>,
        /// Bytes that it took.
        used: usize,
    },
    /// Something without a packet.
    Skip {
        /// Bytes that it took.
        used: usize,
    },
    /// Nothing can be said before `bytes` bytes are there, counted from the first unread one.
    Need {
        /// How many; more than there are.
        bytes: usize,
    },
    /// The capture says that it lost packets since it last said so.
    Dropped {
        /// Where: an index into [`Reader::interfaces`].
        interface: u32,
        /// How many.
        packets: u64,
        /// Bytes that it took to say so.
        used: usize,
    },
    /// Bytes that cannot be a record; what follows is looked for. Said once for each such place.
    Damaged {
        /// Where the damage begins: bytes from the beginning of the input.
        offset: u64,
        /// Bytes that are given up for now: none.
        used: usize,
    },
    /// The input ends in the middle of a record.
    Torn {
        /// Where that record begins: bytes from the beginning of the input.
        offset: u64,
        /// Bytes of it that are there.
        bytes: usize,
    },
    /// The input ends behind a record, or was empty.
    End,
}

/// Order of the bytes of a number.
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

/// Reads one input.
#[derive(Clone, Debug)]
pub struct Reader {
    format: Format,
    interfaces: Vec<Interface>,
    /// Bytes that were used.
    offset: u64,
    /// Time of the last packet.
    last: Time,
    /// Bytes still to be skipped without a look.
    skip: u64,
    /// Where damage began, while the next record is looked for.
    damaged: Option<u64>,
    damages: u64,
    /// Bytes that were given up as damaged.
    lost: u64,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// Before the first byte.
    pub const fn new() -> Self {
        Self {
            format: Format::Unknown,
            interfaces: Vec::new(),
            offset: 0,
            last: Time::ZERO,
            skip: 0,
            damaged: None,
            damages: 0,
            lost: 0,
        }
    }

    /// Interfaces so far; [`Frame::interface`] is an index of them.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Bytes that were used so far.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Damaged places so far, and bytes that were skipped for them.
    pub const fn damage(&self) -> (u64, u64) {
        (self.damages, self.lost)
    }

    /// What `unread` begins with. `end` says that no bytes will follow.
    ///
    /// # Errors
    ///
    /// The input is no capture, or of a version that nobody knows.
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

    /// [`Reader::next`] but for whole packets of pcap.
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

    /// The first bytes.
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
        let (pcap, interface) = pcap::Pcap::open(header, self.interfaces.len() as u32)?;
        self.interfaces.push(interface);
        self.format = Format::Pcap(pcap);
        Ok(Step::Skip { used: pcap::HEADER })
    }

    /// What is not a whole packet of pcap.
    fn pcap<'a>(&mut self, unread: &'a [u8], end: bool) -> Result<Step<'a>, Error> {
        let Format::Pcap(pcap) = &self.format else { return Ok(Step::End) };
        if pcap.begins_again(unread) && self.interfaces.len() < INTERFACES_MAX {
            return self.open(unread);
        }
        Ok(match pcap.record(unread) {
            Record::Unseen => Step::Need { bytes: pcap.header() },
            Record::Impossible => Step::Damaged { offset: self.offset, used: 0 },
            Record::Bytes(used) if used <= unread.len() => {
                let frame = pcap.frame(unread, used, &mut self.last);
                Step::Frame { frame, used }
            }
            // A damaged length may point behind the end: then good records are before it.
            Record::Bytes(_)
                if end && matches!(pcap.find(unread, 1, end, self.last), Found::At(_)) =>
            {
                Step::Damaged { offset: self.offset, used: 0 }
            }
            Record::Bytes(bytes) => Step::Need { bytes },
        })
    }

    /// Looks for the next record behind damage.
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

/// What a header says about the length of its record.
enum Record {
    /// It is not all there.
    Unseen,
    /// This many bytes with the header.
    Bytes(usize),
    /// It cannot be one.
    Impossible,
}

/// What became of the search for a record.
enum Found {
    /// One begins here.
    At(usize),
    /// None begins before here; more than 0.
    NotBefore(usize),
    /// More must be there to know: this many bytes.
    Need(usize),
}
