//! The pcapng format of Wireshark: blocks of several types, several interfaces and sections.

use base::Time;

use super::input::{Found, INTERFACES_MAX, Input, Interface, LENGTH_LIMIT, Order, Step};
use crate::{Error, Frame, LinkType};

/// Block type of a Section Header Block, which is the same in both byte orders.
pub(super) const SECTION_BYTES: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const NAMES: u32 = 4;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
/// Block type, total length, and total length repeated at the end.
const FRAME: usize = 12;
/// Maximum length of a block that is read as a whole.
const BLOCK_LIMIT: u32 = LENGTH_LIMIT + 65_536;
/// Number of bytes per step of the search for a block after damage.
const WINDOW: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
struct Clock {
    /// Nanoseconds are `ticks * numerator / denominator`.
    numerator: u64,
    denominator: u64,
    offset: i64,
}

impl Clock {
    const MICROSECONDS: Self = Self { numerator: 1_000, denominator: 1, offset: 0 };

    /// Applies `if_tsresol`: a negative power of ten, or of two with the high bit set.
    fn resolution(&mut self, value: u8) {
        let power = u32::from(value & 0x7f);
        (self.numerator, self.denominator) = match value & 0x80 {
            0 if power <= 9 => (10_u64.pow(9 - power), 1),
            0 => (1, 10_u64.checked_pow(power - 9).unwrap_or(u64::MAX)),
            _ => (1_000_000_000, 1_u64.checked_shl(power).unwrap_or(u64::MAX)),
        };
    }

    #[inline]
    fn time(self, ticks: u64) -> Time {
        let nanos = if self.denominator == 1 {
            ticks.saturating_mul(self.numerator)
        } else {
            let nanos = u128::from(ticks) * u128::from(self.numerator);
            u64::try_from(nanos / u128::from(self.denominator)).unwrap_or(u64::MAX)
        };
        Time::from_nanos(nanos.saturating_add_signed(self.offset))
    }
}

#[derive(Clone, Copy, Debug)]
struct Local {
    link: LinkType,
    snap: u32,
    clock: Clock,
    /// Losses in the last statistics block.
    reported: u64,
    /// Number of the interface over all sections of the input.
    number: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Pcapng {
    order: Order,
    local: Vec<Local>,
    /// Losses reported in the last packet: interface and number of packets.
    pending: Option<(u32, u64)>,
}

struct Block<'a> {
    kind: u32,
    body: &'a [u8],
    used: usize,
}

impl Pcapng {
    /// Whether a step is possible without further bytes.
    pub(super) const fn pending(&self) -> bool {
        self.pending.is_some()
    }

    /// The byte order, if a section begins at `bytes`.
    fn section(bytes: &[u8]) -> Option<Order> {
        let magic = bytes.get(8..12)?;
        let little = Order { big: false };
        match (little.u32(magic, 0), little.u32(magic, 0).swap_bytes()) {
            (BYTE_ORDER, _) => Some(little),
            (_, BYTE_ORDER) => Some(Order { big: true }),
            _ => None,
        }
    }

    pub(super) fn find(&self, bytes: &[u8], from: usize, end: bool) -> Found {
        let last = bytes.len().saturating_sub(FRAME - 1).min(WINDOW);
        for at in from..last {
            let here = &bytes[at..];
            let order = if here.starts_with(&SECTION_BYTES) {
                let Some(order) = Self::section(here) else { continue };
                order
            } else {
                self.order
            };
            let (kind, total) = (order.u32(here, 0), order.u32(here, 4));
            let known = kind == SECTION || (INTERFACE..=PACKET).contains(&kind);
            if !known || !sound(total) {
                continue;
            }
            let total = total as usize;
            if here.len() >= total {
                if order.u32(here, total - 4) == total as u32 {
                    return Found::At(at);
                }
            } else if !end {
                return if at > 0 { Found::NotBefore(at) } else { Found::Need(total) };
            }
        }
        match last {
            last if last == WINDOW => Found::NotBefore(last),
            _ if end => Found::NotBefore(bytes.len()),
            last if last > from => Found::NotBefore(last),
            _ => Found::Need(from + FRAME),
        }
    }

    fn options<'a>(&self, mut bytes: &'a [u8]) -> impl Iterator<Item = (u16, &'a [u8])> {
        let order = self.order;
        std::iter::from_fn(move || {
            if bytes.len() < 4 {
                return None;
            }
            let (code, length) = (order.u16(bytes, 0), usize::from(order.u16(bytes, 2)));
            let value = bytes.get(4..4 + length)?;
            bytes = bytes.get(4 + length.next_multiple_of(4)..).unwrap_or_default();
            (code != 0).then_some((code, value))
        })
    }

    fn u64(&self, bytes: &[u8]) -> Option<u64> {
        let bytes = *bytes.first_chunk::<8>()?;
        Some(if self.order.big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    fn interface(&self, body: &[u8]) -> Option<(Local, Interface)> {
        if body.len() < 8 {
            return None;
        }
        let (link, snap) = (LinkType(self.order.u16(body, 0)), self.order.u32(body, 4));
        let mut local = Local { link, snap, clock: Clock::MICROSECONDS, reported: 0, number: 0 };
        let mut name = None;
        for (code, value) in self.options(&body[8..]) {
            match (code, value) {
                (2, value) if value.len() <= 256 => {
                    let text = String::from_utf8_lossy(value);
                    name = Some(text.trim_end_matches('\0').to_owned());
                }
                (9, &[value, ..]) => local.clock.resolution(value),
                (14, value) => {
                    let seconds = self.u64(value).unwrap_or_default() as i64;
                    local.clock.offset = seconds.saturating_mul(1_000_000_000);
                }
                _ => {}
            }
        }
        Some((local, Interface { link, name, snap, dropped: 0 }))
    }

    /// A packet with its interface number in the section; `None` if the block is inconsistent.
    fn packet<'a>(&mut self, kind: u32, body: &'a [u8], last: Time) -> Option<Frame<'a>> {
        let order = self.order;
        if kind == SIMPLE_PACKET {
            let local = self.local.first()?;
            let length = order.u32(body.get(..4)?, 0);
            let limit = if local.snap == 0 { u32::MAX } else { local.snap };
            let captured = length.min(limit) as usize;
            let data = body.get(4..4 + captured)?;
            let whole = Frame::whole(last, local.link, data);
            return Some(Frame { interface: local.number, length, ..whole });
        }
        let head = body.get(..20)?;
        let interface = match kind {
            PACKET => order.u32(head, 0),
            _ => u32::from(order.u16(head, 0)),
        };
        let local = self.local.get(interface as usize)?;
        let ticks = u64::from(order.u32(head, 4)) << 32 | u64::from(order.u32(head, 8));
        let captured = order.u32(head, 12) as usize;
        let data = body.get(20..captured.checked_add(20)?)?;
        let length = order.u32(head, 16).max(data.len() as u32);
        let number = local.number;
        // No time stamp, or a wrong one.
        let time = if ticks == 0 { last } else { local.clock.time(ticks) };
        let frame = Frame { interface: number, length, ..Frame::whole(time, local.link, data) };
        let options = body.get(20 + captured.next_multiple_of(4)..).unwrap_or_default();
        let mut lost = match (kind, order.u16(head, 2)) {
            (OLD_PACKET, count) if count != u16::MAX => u64::from(count),
            _ => 0,
        };
        if !options.is_empty() {
            let count = self.options(options).find(|(code, _)| *code == 4 && kind == PACKET);
            lost += count.and_then(|(_, value)| self.u64(value)).unwrap_or_default();
        }
        if lost > 0 {
            self.pending = Some((number, lost));
        }
        Some(frame)
    }

    /// Losses since the last statistics of the interface.
    fn statistics(&mut self, body: &[u8]) -> Option<(u32, u64)> {
        let interface = self.order.u32(body.get(..12)?, 0);
        // isb_ifdrop and isb_osdrop: drops of the interface and of the operating system.
        let counts = self.options(&body[12..]).filter(|(code, _)| matches!(code, 5 | 7));
        let total = counts.filter_map(|(_, value)| self.u64(value)).fold(0, u64::saturating_add);
        let local = self.local.get_mut(interface as usize)?;
        let more = total.saturating_sub(local.reported);
        local.reported = local.reported.max(total);
        (more > 0).then_some((local.number, more))
    }
    /// Reads the block at the start of `unread`.
    pub(super) fn step<'a>(
        &mut self,
        input: &mut Input,
        unread: &'a [u8],
        end: bool,
    ) -> Result<Step<'a>, Error> {
        if let Some((interface, packets)) = self.pending.take() {
            input.dropped(interface, packets);
            return Ok(Step::Dropped { interface, packets, used: 0 });
        }
        if unread.len() < FRAME {
            return Ok(Step::Need { bytes: FRAME });
        }
        let damaged = Step::Damaged { offset: input.offset, used: 0 };
        if unread.starts_with(&SECTION_BYTES) {
            match Self::section(unread) {
                Some(order) => self.order = order,
                None => return Ok(damaged),
            }
        }
        let order = self.order;
        let (kind, total) = (order.u32(unread, 0), order.u32(unread, 4));
        let read = kind == SECTION || (INTERFACE..=PACKET).contains(&kind) && kind != NAMES;
        if !read && total >= FRAME as u32 && total.is_multiple_of(4) {
            input.skip = u64::from(total);
            let used = unread.len().min(total as usize);
            input.skip -= used as u64;
            return Ok(Step::Skip { used });
        }
        if !sound(total) {
            return Ok(damaged);
        }
        let used = total as usize;
        if unread.len() < used {
            // A damaged length may extend beyond the end of the file: search for blocks before it.
            let other = end && matches!(self.find(unread, 1, end), Found::At(_));
            return Ok(if other { damaged } else { Step::Need { bytes: used } });
        }
        if order.u32(unread, used - 4) != total {
            return Ok(damaged);
        }
        self.block(input, &Block { kind, body: &unread[8..used - 4], used })
    }

    fn block<'a>(&mut self, input: &mut Input, block: &Block<'a>) -> Result<Step<'a>, Error> {
        let (used, body) = (block.used, block.body);
        let damaged = Step::Damaged { offset: input.offset, used: 0 };
        match block.kind {
            SECTION => {
                if body.len() < 16 {
                    return Ok(damaged);
                }
                let version = self.order.u16(body, 4);
                if version != 1 {
                    return Err(Error::CaptureVersion { format: "pcapng", version });
                }
                self.local.clear();
            }
            INTERFACE => match self.interface(body) {
                Some((mut local, interface)) if self.local.len() < INTERFACES_MAX => {
                    let at = self.local.len() as u32;
                    let Some(number) = input.number_of(interface, at) else {
                        return Ok(damaged);
                    };
                    local.number = number;
                    self.local.push(local);
                }
                _ => return Ok(damaged),
            },
            STATISTICS => {
                if let Some((interface, packets)) = self.statistics(body) {
                    input.dropped(interface, packets);
                    return Ok(Step::Dropped { interface, packets, used });
                }
            }
            kind => {
                let Some(frame) = self.packet(kind, body, input.last) else { return Ok(damaged) };
                input.last = frame.time;
                return Ok(Step::Frame { frame, used });
            }
        }
        Ok(Step::Skip { used })
    }
}

/// Whether `total` is a valid length of a block that is read as a whole.
const fn sound(total: u32) -> bool {
    total >= FRAME as u32 && total.is_multiple_of(4) && total <= BLOCK_LIMIT
}
