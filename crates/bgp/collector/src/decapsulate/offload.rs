//! TCP checksums, and senders whose hardware computes them after the tap.
//!
//! # Method
//!
//! A wrong sum means that the segment was damaged, or that the tap is before the network card that
//! computes the sum. The second case shows in two ways: the field holds the sum of the
//! pseudo-header or zero, or nearly all segments of the sender are wrong. So correct, partial and
//! wrong sums are counted per sender, in a table of fixed size.
//!
//! One damaged segment in 20,000 has a partial sum by accident, and a forger can choose it. So a
//! partial sum is accepted only from a sender whose other segments do not have correct sums.
//! Segments without payload do not count: a kernel computes the sums of its resets itself, even if
//! the card computes the others.

use std::net::IpAddr;

use super::ip::Ip;
use crate::{Checksum, MirrorId};

const SENDERS: usize = 4096;
/// Number of slots in which a sender may be stored.
const PROBES: usize = 4;
/// Number of wrong sums without a correct one after which the field is ignored.
const MIN_WRONG_SUMS: u32 = 4;
/// Ratio of wrong to correct sums above which the field is ignored.
const MAX_WRONG_PER_RIGHT: u32 = 8;

#[derive(Clone, Copy, Debug)]
struct Sender {
    address: IpAddr,
    mirror: MirrorId,
    right: u32,
    partial: u32,
    wrong: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Senders {
    table: Vec<Option<Sender>>,
    turn: usize,
    any: bool,
    /// Wrong sums are ignored until one is correct.
    lenient: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    Right,
    Wrong,
    /// Zero, or the checksum of the pseudo-header: the network card may complete it.
    Partial,
    /// The segment was truncated: its sum cannot be computed.
    Unknown,
}

#[inline]
pub(super) fn sum(ip: &Ip<'_>) -> Sum {
    let bytes = ip.payload.bytes;
    let addresses = match (ip.source, ip.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let sum = u64::from(source.to_bits()) + u64::from(destination.to_bits());
            u64::from(wire::checksum::fold(sum))
        }
        (source, destination) => {
            [source, destination].iter().fold(0, |sum, address| match address {
                IpAddr::V4(address) => wire::checksum::add(sum, &address.octets()),
                IpAddr::V6(address) => wire::checksum::add(sum, &address.octets()),
            })
        }
    };
    let pseudo = addresses + u64::from(ip.protocol);
    let whole = wire::checksum::fold(wire::checksum::add(pseudo + bytes.len() as u64, bytes));
    if whole == 0xffff {
        return Sum::Right;
    }
    let stored = bytes.get(16..18).map_or(0, |sum| u16::from_be_bytes([sum[0], sum[1]]));
    let with_length = wire::checksum::fold(pseudo + bytes.len() as u64);
    if stored == 0 || stored == with_length || stored == wire::checksum::fold(pseudo) {
        Sum::Partial
    } else {
        Sum::Wrong
    }
}

impl Senders {
    pub(super) fn lenient(&mut self) {
        self.lenient = !self.any;
    }

    /// Verdict on a checksum, given the earlier segments of `address`. `counts`: the segment has a
    /// SYN or payload.
    #[inline]
    pub(super) fn judge(
        &mut self,
        mirror: MirrorId,
        address: IpAddr,
        sum: Sum,
        counts: bool,
    ) -> Checksum {
        let lenient = self.lenient;
        if sum == Sum::Unknown {
            return Checksum::Unknown;
        }
        let sender = self.sender(mirror, address);
        let offloads = match sum {
            Sum::Right => {
                sender.right = sender.right.saturating_add(u32::from(counts));
                self.any = true;
                self.lenient = false;
                return Checksum::Right;
            }
            Sum::Partial => {
                sender.partial = sender.partial.saturating_add(u32::from(counts));
                sender.right == 0 || sender.partial / MAX_WRONG_PER_RIGHT > sender.right
            }
            Sum::Wrong | Sum::Unknown => {
                sender.wrong = sender.wrong.saturating_add(u32::from(counts));
                let none = sender.right == 0 && (lenient || sender.wrong >= MIN_WRONG_SUMS);
                none || sender.wrong / MAX_WRONG_PER_RIGHT > sender.right
            }
        };
        if offloads { Checksum::Unknown } else { Checksum::Wrong }
    }

    #[inline]
    fn sender(&mut self, mirror: MirrorId, address: IpAddr) -> &mut Sender {
        if self.table.is_empty() {
            self.table.resize(SENDERS, None);
        }
        let bits = match address {
            IpAddr::V4(address) => u64::from(address.to_bits()),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                bits as u64 ^ ((bits >> 64) as u64).rotate_left(24)
            }
        };
        let hash = (bits ^ u64::from(mirror.0) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = (hash >> 48) as usize;
        let place = |probe: usize| (first + probe) % SENDERS;
        let mut found = None;
        for at in (0..PROBES).map(place) {
            match &self.table[at] {
                Some(sender) if sender.address == address && sender.mirror == mirror => {
                    found = Some(at);
                    break;
                }
                Some(_) => {}
                None => {
                    found = Some(at);
                    break;
                }
            }
        }
        let at = found.unwrap_or_else(|| {
            self.turn = (self.turn + 1) % PROBES;
            let at = place(self.turn);
            self.table[at] = None;
            at
        });
        self.table[at].get_or_insert(Sender { address, mirror, right: 0, partial: 0, wrong: 0 })
    }
}
