//! TCP checksums, and senders that leave them to hardware behind the tap.
//!
//! # Method
//!
//! A sum that is wrong says that the segment was damaged, or that its sender was tapped before its
//! network card filled the sum in. The second shows in two ways: the field holds the sum of the
//! pseudo-header alone, or nothing; or nearly all that this sender sends is wrong. So right,
//! partial and wrong sums are counted by sender, in a table of fixed size.
//!
//! One damaged segment in 20,000 has a partial sum by accident, and a forger can choose it. So a
//! partial sum is accepted only from a sender whose other segments do not have right sums. Segments
//! without payload do not count: a kernel computes the sums of its resets itself, also where the
//! card does it for all else.

use std::net::IpAddr;

use super::ip::Ip;
use crate::{Checksum, MirrorId};

/// Senders that are remembered.
const SENDERS: usize = 4096;
/// Places that one may be at.
const PROBES: usize = 4;
/// Wrong sums of a sender without a right one that make the field meaningless.
const ENOUGH: u32 = 4;
/// Wrong sums for each right one that make it so too.
const MOST: u32 = 8;

#[derive(Clone, Copy, Debug)]
struct Sender {
    address: IpAddr,
    mirror: MirrorId,
    right: u32,
    partial: u32,
    wrong: u32,
}

/// What is known of senders.
#[derive(Clone, Debug, Default)]
pub(super) struct Senders {
    table: Vec<Option<Sender>>,
    /// Where one is put that finds no free place.
    turn: usize,
    /// Any sum was right.
    any: bool,
    /// Wrong sums say nothing as long as none is right.
    lenient: bool,
}

/// What the field of a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    Right,
    Wrong,
    /// Nothing, or only the pseudo-header: the card may fill it in.
    Partial,
    /// The segment was cut short: its sum cannot be computed.
    Unknown,
}

/// Looks at the sum of a whole segment.
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
    /// Takes wrong sums for offload until one is right.
    pub(super) fn lenient(&mut self) {
        self.lenient = !self.any;
    }

    /// What a sum says, after all that `address` sent so far. `counts`: the segment has a SYN or
    /// payload.
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
                sender.right == 0 || sender.partial / MOST > sender.right
            }
            Sum::Wrong | Sum::Unknown => {
                sender.wrong = sender.wrong.saturating_add(u32::from(counts));
                let none = sender.right == 0 && (lenient || sender.wrong >= ENOUGH);
                none || sender.wrong / MOST > sender.right
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
