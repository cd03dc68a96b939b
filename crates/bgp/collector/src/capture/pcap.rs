//! The format of libpcap, in both byte orders and both time units.

use base::Time;

use super::input::{Found, Interface, LENGTH_LIMIT, LENGTH_MAX, Order, Record};
use crate::{Error, Frame, LinkType};

pub(super) const HEADER: usize = 24;
const RECORD_HEADER: usize = 16;
/// Record header of Kuznetzov's variant, which also has interface index, protocol and packet type.
const MODIFIED_HEADER: usize = 24;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;
/// After damage, a record is accepted if its time differs by at most this many seconds from that of
/// the last good record.
const MAX_TIME_GAP: u64 = 7 * 86_400;

#[derive(Clone, Debug)]
pub(super) struct Pcap {
    magic: [u8; 4],
    order: Order,
    header: usize,
    /// Nanoseconds per unit of the fraction of a second.
    unit: u32,
    link: LinkType,
    pub(super) interface: u32,
    limit: u32,
}

/// Byte order, nanoseconds per unit of the fraction of a second, and length of a record header.
pub(super) fn variant(magic: [u8; 4]) -> Option<(Order, u32, usize)> {
    let of = |number| match number {
        MICROSECONDS => Some((1_000, RECORD_HEADER)),
        NANOSECONDS => Some((1, RECORD_HEADER)),
        MODIFIED => Some((1_000, MODIFIED_HEADER)),
        _ => None,
    };
    let little = of(u32::from_le_bytes(magic)).map(|(unit, header)| (false, unit, header));
    let any =
        little.or_else(|| of(u32::from_be_bytes(magic)).map(|(unit, header)| (true, unit, header)));
    any.map(|(big, unit, header)| (Order { big }, unit, header))
}

impl Pcap {
    pub(super) fn open(bytes: &[u8; HEADER]) -> Result<(Self, Interface), Error> {
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        let Some((order, unit, header)) = variant(magic) else {
            return Err(Error::NoCapture { magic });
        };
        let version = order.u16(bytes, 4);
        if version != 2 {
            return Err(Error::CaptureVersion { format: "pcap", version });
        }
        let snap = order.u32(bytes, 16);
        // The upper half states whether frames end with a frame check sequence (draft §4).
        let link = LinkType(order.u32(bytes, 20) as u16);
        let limit = snap.clamp(LENGTH_MAX, LENGTH_LIMIT);
        let pcap = Self { magic, order, header, unit, link, interface: 0, limit };
        Ok((pcap, Interface { link, name: None, snap, dropped: 0 }))
    }

    pub(super) const fn header(&self) -> usize {
        self.header
    }

    /// The packet at the start of `bytes`; `None` if it is incomplete, empty or implausible.
    #[inline]
    pub(super) fn packet<'a>(
        &self,
        bytes: &'a [u8],
        last: &mut Time,
    ) -> Option<(Frame<'a>, usize)> {
        let Record::Bytes(used) = self.record(bytes) else { return None };
        if used > bytes.len() || used == self.header {
            return None;
        }
        Some((self.frame(bytes, used, last), used))
    }

    #[inline]
    pub(super) fn frame<'a>(&self, bytes: &'a [u8], used: usize, last: &mut Time) -> Frame<'a> {
        let data = &bytes[self.header..used];
        // A timestamp of 0 is missing or wrong: keep the time of the previous packet.
        let time = self.time(bytes);
        if time > Time::ZERO {
            *last = time;
        }
        let length = self.order.u32(bytes, 12).max(data.len() as u32);
        Frame { interface: self.interface, length, ..Frame::whole(*last, self.link, data) }
    }

    #[inline]
    fn time(&self, bytes: &[u8]) -> Time {
        let seconds = u64::from(self.order.u32(bytes, 0));
        let fraction = u64::from(self.order.u32(bytes, 4)) * u64::from(self.unit);
        Time::from_nanos(seconds * 1_000_000_000 + fraction)
    }

    #[inline]
    pub(super) fn record(&self, bytes: &[u8]) -> Record {
        let Some(head) = bytes.first_chunk::<RECORD_HEADER>() else { return Record::Unseen };
        if bytes.len() < self.header {
            return Record::Unseen;
        }
        let captured = self.order.u32(head, 8);
        let fraction = self.order.u32(head, 4);
        // Some writers write fractions of more than a second, others lengths below the captured
        // length. One of the two is tolerated, not both.
        let odd = u64::from(fraction) * u64::from(self.unit) >= 1_000_000_000
            && captured > self.order.u32(head, 12);
        if captured > self.limit || odd || fraction >= 1_000_000_000 {
            return Record::Impossible;
        }
        Record::Bytes(self.header + captured as usize)
    }

    /// Whether another file begins here, as in concatenated files. `packet` never accepts such a
    /// header: read as a record, it has length 0, because the field after the version is 0.
    pub(super) fn begins_again(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(&self.magic)
            && (bytes.len() < 8 || self.order.u32(bytes, 4) == self.version())
            && (bytes.len() < 12 || self.order.u32(bytes, 8) == 0)
    }

    /// Version 2.4, as read by `Order::u32`.
    const fn version(&self) -> u32 {
        if self.order.big { 0x0002_0004 } else { 0x0004_0002 }
    }

    /// Searches for a record that is followed by another one, or by the end.
    pub(super) fn find(&self, bytes: &[u8], from: usize, end: bool, last: Time) -> Found {
        for at in from..bytes.len() {
            let here = &bytes[at..];
            if here.len() < self.header {
                break;
            }
            let Some(length) = self.good(here, last) else { continue };
            let next = here.get(length..).unwrap_or_default();
            if next.len() >= self.header {
                if self.good(next, last).is_some() {
                    return Found::At(at);
                }
            } else if end {
                if here.len() == length {
                    return Found::At(at);
                }
            } else if at > 0 {
                return Found::NotBefore(at);
            } else {
                return Found::Need(length + self.header);
            }
        }
        match bytes.len().saturating_sub(self.header - 1) {
            _ if end => Found::NotBefore(bytes.len()),
            0 => Found::Need(self.header),
            // Skip at least one byte, to get beyond the damage.
            tail if tail <= from => Found::Need(from + self.header),
            tail => Found::NotBefore(tail),
        }
    }

    /// Length of the record at the start of `bytes`; `None` if its header is implausible.
    fn good(&self, bytes: &[u8], last: Time) -> Option<usize> {
        let Record::Bytes(used) = self.record(bytes) else { return None };
        let captured = (used - self.header) as u32;
        let length = self.order.u32(bytes, 12);
        let fraction = u64::from(self.order.u32(bytes, 4)) * u64::from(self.unit);
        let second = last.as_nanos() / 1_000_000_000;
        let near =
            second == 0 || u64::from(self.order.u32(bytes, 0)).abs_diff(second) <= MAX_TIME_GAP;
        let likely = captured >= 1
            && captured <= length
            && length <= LENGTH_LIMIT
            && fraction < 1_000_000_000
            && near;
        likely.then_some(used)
    }
}
