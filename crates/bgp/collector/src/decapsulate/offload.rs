//! TCP checksums, and packets whose checksum does not match their bytes although they are intact.
//!
//! # Method
//!
//! **Partial sums.** A kernel that merges received segments (GRO), or leaves the checksum to the
//! network card, stores the sum of the pseudo-header including the length of the segment
//! (`CHECKSUM_PARTIAL`). On the wire such a segment had another sum, so damage on the wire does not
//! produce this one (except by accident, 1 in 65,536). The segment is accepted, even as the first
//! one of its sender.
//!
//! **Merged segments.** Network cards that merge segments (LRO) may keep the header of the first
//! part, or parts of it. In live captures the kernel marks merged segments
//! (`Frame::without_checksum`). Otherwise these count as merged:
//! 1. A segment longer than the MSS of the receiver's SYN (without a captured SYN: longer than the
//!    MTU of Ethernet permits), unless another segment of the sender above this limit had a correct
//!    sum.
//! 2. A segment of which a first part has the sum, if this part probably was a segment: a BGP
//!    message starts after it, it has the length of the longest segment of its sender or of the
//!    sender's MSS, or the checksum of the IP header is that of a packet of its length. A damaged
//!    segment has such a sum by accident with a probability of the number of these parts in 65,536.
//!
//! A capturing host that merges segments may change other fields of the header as well, and a part
//! may have any length. If the mirror has other merged segments, such a segment is
//! [`Checksum::Doubtful`]: its bytes are used if the receiver acknowledges them and no other copy
//! is captured. A receiver does not acknowledge a damaged segment before its retransmission. But
//! the clone may be damaged alone, so without other merged segments an acknowledgment is not
//! sufficient. A segment that was reassembled from IP fragments never counts as merged.
//!
//! **Other wrong sums.** Either the segment was damaged, or it was captured before the network card
//! had computed the sum. In the second case the field contains zero or the sum of the pseudo-header
//! without a length, or nearly all segments of the sender are wrong. So correct, partial and wrong
//! sums are counted per sender, in a table of limited size. Zero and the sum without a length are
//! accepted only from a sender whose other segments do not have correct sums. Segments without
//! payload do not count: a kernel computes the sums of its resets itself, even if the card computes
//! the others.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use super::ip::Ip;
use super::packet::begins_message;
use crate::{Checksum, MirrorId};

/// Maximum number of known senders; a new one replaces the oldest.
const MAX_SENDERS: usize = 4096;
/// Number of wrong sums without a correct one after which the field is ignored.
const MIN_WRONG_SUMS: u32 = 4;
/// Ratio of wrong to correct sums above which the field is ignored.
const MAX_WRONG_PER_RIGHT: u32 = 8;

/// Maximum bytes of TCP options and payload in a packet of 1,500 bytes, the MTU of Ethernet, over
/// IPv4 and IPv6.
const ETHERNET_BYTES: [u32; 2] = [1_460, 1_440];

#[derive(Clone, Copy, Debug, Default)]
struct Sender {
    right: u32,
    partial: u32,
    wrong: u32,
    /// Maximum MSS of its SYNs; 0 if unknown.
    mss: u16,
    /// Bytes of options and payload of its longest segment with a correct sum.
    longest: u32,
}

/// Properties of a segment that determine the verdict on its checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) mirror: MirrorId,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// The segment has a SYN or payload.
    pub(super) counts: bool,
    /// Bytes of options and payload, which the MSS limits.
    pub(super) length: u32,
    /// MSS option of a SYN; 0 without one.
    pub(super) mss: u16,
    /// Not a merged segment: its packet was reassembled from fragments, or has a damaged header.
    pub(super) is_single: bool,
}

/// A first part of a segment that has the checksum of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FirstPart {
    /// Bytes of options and payload.
    length: u32,
    /// The part ends where a BGP message starts, or the IP header has a checksum for its length.
    is_likely: bool,
}

/// MSS option among the options of a TCP header (RFC 9293 §3.7.1); 0 without one.
pub(super) fn mss(mut options: &[u8]) -> u16 {
    loop {
        options = match options {
            [2, 4, high, low, ..] => return u16::from_be_bytes([*high, *low]),
            [1, rest @ ..] => rest,
            [kind, length, ..] if *kind > 1 && *length > 1 => {
                options.get(usize::from(*length)..).unwrap_or_default()
            }
            _ => return 0,
        };
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Senders {
    /// Hashed with a random key. Otherwise an attacker could choose addresses of the same slot and
    /// evict a sender with a few packets, after which its damaged segments would be accepted.
    table: HashMap<(MirrorId, IpAddr), Sender>,
    /// Keys of `table`, oldest first, for eviction.
    order: VecDeque<(MirrorId, IpAddr)>,
    /// Mirrors with merged segments; true if one above the MSS has the sum of no first part, so
    /// that the capturing host changes headers.
    merges: HashMap<MirrorId, bool>,
    any: bool,
    /// Wrong sums are ignored until one is correct.
    lenient: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    Right,
    Wrong,
    /// That of the pseudo-header with the length of the segment (`CHECKSUM_PARTIAL`).
    Pseudo,
    /// Zero, or that of the pseudo-header without a length: the network card may complete it.
    Partial,
    /// The segment was truncated: its sum cannot be computed.
    Unknown,
}

/// Sum of the pseudo-header without a length.
#[inline]
fn pseudo_header(ip: &Ip<'_>) -> u64 {
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
    addresses + u64::from(ip.protocol)
}

/// The first parts of a segment with a header of `header` bytes that have its checksum. With a
/// damaged IP header, only that of the length for which the header is correct.
#[cold]
pub(super) fn first_parts(ip: &Ip<'_>, header: usize) -> Vec<FirstPart> {
    let bytes = ip.payload.bytes;
    let start = pseudo_header(ip) + header as u64;
    let mut sum = wire::checksum::add(start, &bytes[..header]);
    let mut parts = Vec::new();
    for (at, byte) in bytes.iter().enumerate().skip(header) {
        let rest = &bytes[at..];
        // `sum` includes the length of the part before `rest`.
        if at > header && wire::checksum::fold(sum) == 0xffff {
            let is_packet = ip.first_part == Some(at);
            if !ip.damaged || is_packet {
                let is_likely = is_packet || begins_message(rest);
                parts.push(FirstPart { length: at as u32 - 20, is_likely });
            }
        }
        sum += 1 + (u64::from(*byte) << if at % 2 == 0 { 8 } else { 0 });
    }
    parts
}

#[inline]
pub(super) fn sum(ip: &Ip<'_>) -> Sum {
    let (bytes, pseudo) = (ip.payload.bytes, pseudo_header(ip));
    let whole = wire::checksum::fold(wire::checksum::add(pseudo + bytes.len() as u64, bytes));
    if whole == 0xffff {
        return Sum::Right;
    }
    let stored = bytes.get(16..18).map_or(0, |sum| u16::from_be_bytes([sum[0], sum[1]]));
    let with_length = wire::checksum::fold(pseudo + bytes.len() as u64);
    if stored == with_length {
        Sum::Pseudo
    } else if stored == 0 || stored == wire::checksum::fold(pseudo) {
        Sum::Partial
    } else {
        Sum::Wrong
    }
}

impl Senders {
    pub(super) fn lenient(&mut self) {
        self.lenient = !self.any;
    }

    /// Verdict on a checksum, given the earlier segments of its sender.
    #[inline]
    pub(super) fn judge(&mut self, sum: Sum, facts: &Facts, parts: &[FirstPart]) -> Checksum {
        let verdict = self.verdict(sum, facts, parts);
        if facts.mss > 0 && matches!(verdict, Checksum::Right | Checksum::Unknown) {
            let sender = self.sender(facts.mirror, facts.source);
            sender.mss = sender.mss.max(facts.mss);
        }
        verdict
    }

    #[inline]
    fn verdict(&mut self, sum: Sum, facts: &Facts, parts: &[FirstPart]) -> Checksum {
        let (lenient, counts) = (self.lenient, facts.counts);
        if sum == Sum::Unknown || sum != Sum::Right && self.is_merged(sum, facts, parts) {
            return Checksum::Unknown;
        }
        let sender = self.sender(facts.mirror, facts.source);
        let offloads = match sum {
            Sum::Right => {
                sender.right = sender.right.saturating_add(u32::from(counts));
                if !facts.is_single {
                    sender.longest = sender.longest.max(facts.length);
                }
                self.any = true;
                self.lenient = false;
                return Checksum::Right;
            }
            Sum::Pseudo | Sum::Partial => {
                sender.partial = sender.partial.saturating_add(u32::from(counts));
                sender.right == 0 || sender.partial / MAX_WRONG_PER_RIGHT > sender.right
            }
            Sum::Wrong | Sum::Unknown => {
                sender.wrong = sender.wrong.saturating_add(u32::from(counts));
                let none = sender.right == 0 && (lenient || sender.wrong >= MIN_WRONG_SUMS);
                none || sender.wrong / MAX_WRONG_PER_RIGHT > sender.right
            }
        };
        match sum {
            _ if offloads => Checksum::Unknown,
            Sum::Wrong if self.may_be_merged(facts, parts) => Checksum::Doubtful,
            _ => Checksum::Wrong,
        }
    }

    /// Whether a segment with a wrong sum was merged from several, or was captured before the
    /// network card computed its sum.
    #[cold]
    fn is_merged(&mut self, sum: Sum, facts: &Facts, parts: &[FirstPart]) -> bool {
        if facts.is_single {
            return false;
        }
        let known = |address| self.table.get(&(facts.mirror, address)).copied().unwrap_or_default();
        let (sender, receiver) = (known(facts.source), known(facts.destination));
        let limit = match receiver.mss {
            0 => ETHERNET_BYTES[usize::from(facts.source.is_ipv6())],
            mss => u32::from(mss),
        };
        let is_long = facts.length > limit && sender.longest <= limit;
        let lengths = [sender.longest, u32::from(sender.mss)];
        let is_likely = parts.iter().any(|part| part.is_likely || lengths.contains(&part.length));
        if sum == Sum::Wrong && (is_likely || is_long && parts.is_empty()) {
            *self.merges.entry(facts.mirror).or_default() |= !is_likely;
        }
        is_long || is_likely || sum == Sum::Pseudo
    }

    /// Whether a segment with a wrong sum may be merged, because others of its mirror are.
    #[cold]
    fn may_be_merged(&self, facts: &Facts, parts: &[FirstPart]) -> bool {
        let changes_headers = self.merges.get(&facts.mirror);
        !facts.is_single && changes_headers.is_some_and(|changes| *changes || !parts.is_empty())
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

    fn judge(senders: &mut Senders, address: u32, sum: Sum) -> Checksum {
        let source = IpAddr::V4(address.into());
        senders.judge(
            sum,
            &Facts {
                mirror: MirrorId(1),
                source,
                destination: source,
                counts: true,
                length: 100,
                mss: 0,
                is_single: false,
            },
            &[],
        )
    }

    fn right(senders: &mut Senders, address: u32) {
        assert_eq!(judge(senders, address, Sum::Right), Checksum::Right);
    }

    fn partial(senders: &mut Senders, address: u32) -> Checksum {
        judge(senders, address, Sum::Partial)
    }

    #[test]
    fn finds_mss_among_options() {
        assert_eq!(mss(&[1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 5, 0xb4]), 1_460);
        for damaged in [&[] as &[u8], &[0, 2, 4, 5, 0xb4], &[2, 4, 5], &[3, 0, 2, 4, 1, 1], &[8]] {
            assert_eq!(mss(damaged), 0, "{damaged:?}");
        }
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
