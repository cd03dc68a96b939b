//! Scores how well the bytes of an UPDATE fit each possible encoding: AS numbers of two or four
//! octets, prefixes with or without path identifiers.
//!
//! An encoding is *impossible* if lengths do not add up, and *odd* by some points if they do but
//! the content is unusual: AS 0, an unassigned AS number, several default routes in one field, path
//! identifiers above 2^24. The real encoding of a well-formed message is always possible.

use bgp::{Afi, Family, Safi};

/// Points of an impossible encoding.
pub(super) const IMPOSSIBLE: i32 = 10;

/// `AS_PATH` and its companions (RFC 4271 §5.1, RFC 4760, RFC 6793).
mod code {
    pub(super) const AS_PATH: u8 = 2;
    pub(super) const AGGREGATOR: u8 = 7;
    pub(super) const MP_REACH: u8 = 14;
    pub(super) const MP_UNREACH: u8 = 15;
    pub(super) const AS4_PATH: u8 = 17;
    pub(super) const AS4_AGGREGATOR: u8 = 18;
}

/// Points against the answers "no" and "yes" of one question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Points {
    pub(super) no: i32,
    pub(super) yes: i32,
}

impl Points {
    fn add(&mut self, no: i32, yes: i32) {
        self.no = (self.no + no).min(IMPOSSIBLE);
        self.yes = (self.yes + yes).min(IMPOSSIBLE);
    }

    /// Direction and weight of the evidence: positive is "yes". `IMPOSSIBLE` in either direction
    /// is a proof.
    pub(super) fn weight(self) -> i32 {
        match (self.no >= IMPOSSIBLE, self.yes >= IMPOSSIBLE) {
            (true, true) => 0,
            (true, false) => IMPOSSIBLE,
            (false, true) => -IMPOSSIBLE,
            (false, false) => (self.no - self.yes).clamp(1 - IMPOSSIBLE, IMPOSSIBLE - 1),
        }
    }

    pub(super) fn allows(self, yes: bool) -> bool {
        (if yes { self.yes } else { self.no }) < IMPOSSIBLE
    }
}

/// Evidence of one UPDATE on its encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    /// Evidence for four-octet AS numbers; `None` if no AS number shows it.
    pub(super) four_octet: Option<Points>,
    /// Evidence for path identifiers, by family with prefixes.
    add_path: [Option<(Family, Points)>; 3],
}

impl Evidence {
    pub(super) fn add_path(&self) -> impl Iterator<Item = (Family, Points)> {
        self.add_path.into_iter().flatten()
    }

    fn width(&mut self, two: i32, four: i32) {
        self.four_octet.get_or_insert_default().add(two, four);
    }

    fn prefixes(&mut self, family: Family, bytes: &[u8]) {
        if bytes.is_empty() || item(family, bytes) == Item::Foreign {
            return;
        }
        let (no, yes) = (nlri(family, bytes, false), nlri(family, bytes, true));
        for place in &mut self.add_path {
            let (known, points) = place.get_or_insert((family, Points::default()));
            if *known == family {
                points.add(no, yes);
                return;
            }
        }
    }
}

/// Offsets of the parts of an UPDATE's body: withdrawn routes, attributes, NLRI.
pub(super) fn parts(body: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (withdrawn, rest) = split16(body)?;
    let (attributes, announced) = split16(rest)?;
    Some((withdrawn, attributes, announced))
}

/// Evidence of an UPDATE's body. `None` if it cannot be framed under any encoding.
pub(super) fn score_update(body: &[u8]) -> Option<Evidence> {
    let (withdrawn, mut attributes, announced) = parts(body)?;
    let mut evidence = Evidence::default();
    evidence.prefixes(Family::IPV4_UNICAST, withdrawn);
    while !attributes.is_empty() {
        let (&[flags, code], rest) = attributes.split_first_chunk()?;
        let (value, rest) = if flags & 0x10 == 0 {
            let (&length, rest) = rest.split_first()?;
            rest.split_at_checked(usize::from(length))?
        } else {
            split16(rest)?
        };
        attributes = rest;
        attribute(&mut evidence, code, value);
    }
    evidence.prefixes(Family::IPV4_UNICAST, announced);
    Some(evidence)
}

fn attribute(evidence: &mut Evidence, code: u8, value: &[u8]) {
    match code {
        code::AS_PATH if !value.is_empty() => {
            evidence.width(as_path(value, 2), as_path(value, 4));
        }
        code::AGGREGATOR if value.len() == 6 => evidence.width(0, IMPOSSIBLE),
        code::AGGREGATOR if value.len() == 8 => evidence.width(IMPOSSIBLE, 0),
        // Attributes that a speaker with four-octet AS numbers never sends to another one (RFC 6793
        // §4.1).
        code::AS4_PATH | code::AS4_AGGREGATOR => evidence.width(0, 4),
        code::MP_REACH => {
            let Some((&[a, b, safi, hop], rest)) = value.split_first_chunk() else { return };
            // The octet after the next hop counts SNPAs, which RFC 4760 removed.
            if let Some((&0, bytes)) = rest.get(usize::from(hop)..).and_then(<[u8]>::split_first) {
                evidence.prefixes(family(a, b, safi), bytes);
            }
        }
        code::MP_UNREACH => {
            if let Some((&[a, b, safi], bytes)) = value.split_first_chunk() {
                evidence.prefixes(family(a, b, safi), bytes);
            }
        }
        _ => {}
    }
}

const fn family(a: u8, b: u8, safi: u8) -> Family {
    Family { afi: Afi(u16::from_be_bytes([a, b])), safi: Safi(safi) }
}

/// A length of two octets, and that many bytes.
fn split16(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

/// Points against an `AS_PATH` with numbers of `width` octets.
fn as_path(mut bytes: &[u8], width: usize) -> i32 {
    let mut odd = 0;
    while let Some((&[kind, count], rest)) = bytes.split_first_chunk() {
        let Some((numbers, rest)) = rest.split_at_checked(usize::from(count) * width) else {
            return IMPOSSIBLE;
        };
        if !(1..=4).contains(&kind) {
            return IMPOSSIBLE;
        }
        odd += if count == 0 { 4 } else { 0 };
        for number in numbers.chunks_exact(width) {
            let number = number.iter().fold(0, |high, low| high << 8 | u32::from(*low));
            // No registry has assigned numbers above 2^20 yet; private numbers are those
            // of RFC 6996.
            let strange = number == 0 || (1 << 20..4_200_000_000).contains(&number);
            odd += if strange { 3 } else { 0 };
        }
        bytes = rest;
    }
    if bytes.is_empty() { odd.min(IMPOSSIBLE - 1) } else { IMPOSSIBLE }
}

/// First item of an NLRI field, without its path identifier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Item {
    Whole(usize),
    Broken,
    Foreign,
}

fn item(family: Family, bytes: &[u8]) -> Item {
    let first = usize::from(bytes.first().copied().unwrap_or(0));
    let second = usize::from(bytes.get(1).copied().unwrap_or(0));
    let bits = |range: std::ops::RangeInclusive<usize>| {
        if range.contains(&first) { Some(1 + first.div_ceil(8)) } else { None }
    };
    let size = match (family.afi, family.safi) {
        (Afi::IPV4, Safi::UNICAST | Safi::MULTICAST) => bits(0..=32),
        (Afi::IPV6, Safi::UNICAST | Safi::MULTICAST) => bits(0..=128),
        (Afi::IPV4 | Afi::IPV6, Safi::LABELLED) => bits(24..=255),
        (Afi::IPV4 | Afi::IPV6, Safi::MPLS_VPN | Safi::MCAST_MPLS_VPN) => bits(88..=255),
        (Afi::IPV4, Safi::ROUTE_TARGET) => bits(0..=96),
        (Afi::IPV4 | Afi::IPV6, Safi::SR_POLICY) if first == 96 || first == 192 => bits(0..=192),
        (Afi::IPV4 | Afi::IPV6, Safi::SR_POLICY) => None,
        (Afi::L2VPN, Safi::EVPN) | (Afi::IPV4 | Afi::IPV6, Safi::MCAST_VPN) => {
            (1..=16).contains(&first).then_some(2 + second)
        }
        (Afi::IPV4 | Afi::IPV6, Safi::FLOWSPEC | Safi::FLOWSPEC_VPN) if first < 0xf0 => {
            Some(1 + first)
        }
        (Afi::IPV4 | Afi::IPV6, Safi::FLOWSPEC | Safi::FLOWSPEC_VPN) => {
            Some(2 + (first << 8 & 0xf00 | second))
        }
        (Afi::L2VPN, Safi::VPLS) => Some(2 + (first << 8 | second)),
        (Afi::BGP_LS, Safi::BGP_LS | Safi::BGP_LS_VPN) => {
            bytes.get(2..4).map(|length| 4 + usize::from(length[0]) * 256 + usize::from(length[1]))
        }
        _ => return Item::Foreign,
    };
    match size {
        Some(size) if size <= bytes.len() => Item::Whole(size),
        _ => Item::Broken,
    }
}

/// Points against an NLRI field with or without path identifiers.
fn nlri(family: Family, mut bytes: &[u8], add_path: bool) -> i32 {
    let plain = matches!(family.safi, Safi::UNICAST | Safi::MULTICAST);
    let (mut odd, mut defaults) = (0, 0);
    while !bytes.is_empty() {
        if add_path {
            let Some((id, rest)) = bytes.split_first_chunk::<4>() else { return IMPOSSIBLE };
            odd += if id[0] == 0 { 0 } else { 2 };
            bytes = rest;
        }
        let (false, Item::Whole(size)) = (bytes.is_empty(), item(family, bytes)) else {
            return IMPOSSIBLE;
        };
        if plain {
            defaults += i32::from(bytes[0] == 0);
            odd += unusual_prefix_points(family.afi, bytes[0], &bytes[1..size]);
        }
        bytes = &bytes[size..];
    }
    // A speaker sends a prefix once, unless there are several paths.
    odd += if defaults > 1 && !add_path { 6 } else { 0 };
    odd.min(IMPOSSIBLE - 1)
}

/// Points against a prefix of `bits` bits: too short to be routed, bits after its length, or
/// an unassigned address.
fn unusual_prefix_points(afi: Afi, bits: u8, address: &[u8]) -> i32 {
    let (Some(&first), Some(&last)) = (address.first(), address.last()) else { return 0 };
    let spare = (8 - bits % 8) % 8;
    let unassigned = if afi == Afi::IPV4 { first == 0 || first >= 240 } else { first == 0 };
    2 * i32::from(bits < 8) + i32::from(last & ((1 << spare) - 1) != 0) + i32::from(unassigned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(path: &[u8], nlri: &[u8]) -> Vec<u8> {
        let length = path.len() as u8;
        let mut body = vec![0, 0, 0, length + 3, 0x40, 2, length];
        body.extend_from_slice(path);
        body.extend_from_slice(nlri);
        body
    }

    fn weights(path: &[u8], nlri: &[u8]) -> (Option<i32>, Option<i32>) {
        let evidence = score_update(&update(path, nlri)).unwrap();
        let add_path = evidence.add_path().next().map(|(_, points)| points.weight());
        (evidence.four_octet.map(Points::weight), add_path)
    }

    #[test]
    fn distinguishes_encodings() {
        type Row<'a> = (&'a [u8], &'a [u8], Option<i32>, Option<i32>);
        let one = [24, 10, 0, 1];
        let two = [24, 10, 0, 1, 24, 10, 0, 2];
        let with_id = [0, 0, 0, 1, 24, 10, 0, 1];
        let table: [Row<'_>; 8] = [
            // Path, NLRI; four octets?, path identifiers?
            (&[2, 2, 0xfd, 0xe9, 0xfd, 0xea], &one, Some(-10), Some(-10)),
            (&[2, 1, 0, 0, 0xfd, 0xe9], &one, Some(10), Some(-10)),
            (&[], &one, None, Some(-10)),
            // Two prefixes of 24 bits resemble one with an odd identifier.
            (&[2, 1, 0xfd, 0xe9], &two, Some(-10), Some(-2)),
            (&[2, 1, 0xfd, 0xe9], &with_id, Some(-10), Some(9)),
            // An undefined segment type.
            (&[9, 1, 0xfd, 0xe9], &one, Some(0), Some(-10)),
            // A sequence of two and a set of one have the length of two four-octet numbers,
            // which are unassigned.
            (&[2, 2, 0x0c, 0xb9, 0x0c, 0xb8, 1, 1, 0, 9], &[], Some(-6), None),
            (&[2, 2, 0, 0, 0x0c, 0xb8, 0, 0, 0, 9], &[], Some(10), None),
        ];
        for (path, nlri, width, add_path) in table {
            assert_eq!(weights(path, nlri), (width, add_path), "{path:?} {nlri:?}");
        }
    }

    #[test]
    fn never_panics_on_bytes() {
        let mut random = 1_u64;
        for round in 0..20_000 {
            let bytes: Vec<u8> = (0..round % 60)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (random >> 58) as u8
                })
                .collect();
            let _ = score_update(&bytes);
        }
    }
}
