//! TCP checksums, and senders whose hardware computes them after the tap.
//!
//! # Method
//!
//! A wrong sum means that the segment was damaged, or that the tap is before the network card that
//! computes the sum. The second case shows in two ways: the field holds the sum of the
//! pseudo-header or zero, or nearly all segments of the sender are wrong. So correct, partial and
//! wrong sums are counted per sender, in a table of limited size.
//!
//! One damaged segment in 20,000 has a partial sum by accident, and a forger can choose it. So a
//! partial sum is accepted only from a sender whose other segments do not have correct sums.
//! Segments without payload do not count: a kernel computes the sums of its resets itself, even if
//! the card computes the others.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::ip::Ip;
use crate::{Checksum, MirrorId};

/// Maximum number of known senders; a new one replaces the oldest.
const MAX_SENDERS: usize = 4096;
/// Number of wrong sums without a correct one after which the field is ignored.
const MIN_WRONG_SUMS: u32 = 4;
/// Ratio of wrong to correct sums above which the field is ignored.
const MAX_WRONG_PER_RIGHT: u32 = 8;

#[derive(Clone, Copy, Debug, Default)]
struct Sender {
    right: u32,
    partial: u32,
    wrong: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Senders {
    /// A keyed hash: an attacker who could choose addresses of one slot would replace a sender by
    /// a few packets, and its damaged segments would then be accepted.
    table: HashMap<(MirrorId, IpAddr), Sender>,
    /// Oldest first.
    order: VecDeque<(MirrorId, IpAddr)>,
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
        let key = (mirror, address);
        if !self.table.contains_key(&key) {
            if self.order.len() == MAX_SENDERS {
                self.order.pop_front().map(|oldest| self.table.remove(&oldest));
            }
            self.order.push_back(key);
        }
        self.table.entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(senders: &mut Senders, address: u32) {
        let verdict = senders.judge(MirrorId(1), IpAddr::V4(address.into()), Sum::Right, true);
        assert_eq!(verdict, Checksum::Right);
    }

    fn partial(senders: &mut Senders, address: u32) -> Checksum {
        senders.judge(MirrorId(1), IpAddr::V4(address.into()), Sum::Partial, true)
    }

    /// A sender with correct sums stays known, whatever addresses the others have.
    #[test]
    fn other_senders_do_not_replace_one_below_the_limit() {
        let mut senders = Senders::default();
        let all = 10..10 + MAX_SENDERS as u32;
        all.clone().for_each(|address| right(&mut senders, address));
        for address in all {
            assert_eq!(partial(&mut senders, address), Checksum::Wrong, "{address}");
        }
    }

    #[test]
    fn table_is_limited() {
        let mut senders = Senders::default();
        (0..3 * MAX_SENDERS as u32).for_each(|address| right(&mut senders, address));
        assert_eq!((senders.table.len(), senders.order.len()), (MAX_SENDERS, MAX_SENDERS));
        assert_eq!(partial(&mut senders, 3 * MAX_SENDERS as u32 - 1), Checksum::Wrong);
        assert_eq!(partial(&mut senders, 0), Checksum::Unknown, "it was replaced");
    }
}
