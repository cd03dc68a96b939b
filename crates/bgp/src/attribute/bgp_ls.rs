//! What a link-state route says of its node, link or prefix (RFC 9552 §5.3; segment routing: RFC
//! 9085, 9086; `SRv6`: RFC 9514; metrics: RFC 8571).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::Result;
use crate::cursor::Cursor;
use crate::fields::{Hex, write_list};
use crate::nlri::bgp_ls::{Tlv, Tlvs};

/// The value of attribute 29: TLVs that fill it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BgpLs<'a>(Tlvs<'a>);

impl<'a> BgpLs<'a> {
    /// Wrong if TLVs do not fill the value (RFC 9552 §8.2.2).
    pub fn parse(value: &'a [u8]) -> Result<Self> {
        Tlvs::parse(value).map(Self)
    }

    /// What is said, in order.
    pub fn properties(self) -> impl Iterator<Item = Property<'a>> {
        self.0.iter().map(Property)
    }

    /// The value as it is sent.
    pub const fn bytes(self) -> &'a [u8] {
        self.0.bytes()
    }
}

/// One TLV; its value is typed on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Property<'a>(pub Tlv<'a>);

/// What a TLV says.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PropertyValue<'a> {
    /// A number, or flags: one to eight octets.
    Number(u64),
    /// Numbers of so many octets each, high octet first.
    Numbers(usize, &'a [u8]),
    /// Kinds, and for each how many SIDs (RFC 8814).
    Depths(&'a [[u8; 2]]),
    /// A bandwidth in bytes a second.
    Bandwidth(f32),
    /// Eight bandwidths in bytes a second, by priority.
    Bandwidths(&'a [[u8; 4]]),
    /// An address.
    Address(IpAddr),
    /// A name.
    Text(&'a [u8]),
    /// Flags, weight (or algorithm), whose it is if it says so, and a SID: a label of three octets
    /// or an index of four.
    Sid {
        /// Flags.
        flags: u8,
        /// Weight of an adjacency, algorithm of a prefix.
        weight: u8,
        /// Router id of a neighbor on a LAN.
        neighbor: &'a [u8],
        /// Label or index.
        sid: u32,
    },
    /// Flags, and ranges of labels: size and first.
    Blocks(u8, Blocks<'a>),
    /// SID and what it does: End.X SIDs of `SRv6`.
    EndX {
        /// What the endpoint does, as IANA numbers it.
        behaviour: u16,
        /// Flags, algorithm, weight.
        flags: [u8; 3],
        /// Router id of a neighbor on a LAN.
        neighbor: &'a [u8],
        /// The segment identifier.
        sid: Ipv6Addr,
        /// More TLVs.
        more: Tlvs<'a>,
    },
    /// Flags, algorithm and metric of an `SRv6` locator, and more TLVs.
    Locator(u8, u8, u32, Tlvs<'a>),
    /// Not known, or not what it should be.
    Opaque(&'a [u8]),
}

/// Ranges of labels: each a size of three octets and a SID TLV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Blocks<'a>(&'a [u8]);

impl Blocks<'_> {
    /// Size and first label (or index) of each.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut cursor = Cursor::new(self.0, 0);
        std::iter::from_fn(move || read_block(&mut cursor).ok())
    }
}

fn read_block(cursor: &mut Cursor<'_>) -> Result<(u32, u32)> {
    let size = cursor.u24("size of a label range")?;
    let sid = Tlv::read(cursor)?.value;
    match read_sid(sid) {
        Some(sid) => Ok((size, sid)),
        None => Err(cursor.wrong("label range", sid.len() as u64, "neither label nor index")),
    }
}

fn read_sid(bytes: &[u8]) -> Option<u32> {
    match *bytes {
        [a, b, c] => Some(u32::from_be_bytes([0, a, b, c])),
        [a, b, c, d] => Some(u32::from_be_bytes([a, b, c, d])),
        _ => None,
    }
}

/// How the value of a TLV is read.
#[derive(Clone, Copy)]
enum Shape {
    Number,
    Numbers(usize),
    Pairs,
    Bandwidth,
    Bandwidths,
    Address,
    Text,
    /// Octets of a neighbor's router id before the SID; `None`: 4 or 6, as the length tells.
    Sid(Option<usize>),
    Blocks,
    EndX(usize),
    Locator,
    Opaque,
}

/// Type, name and shape.
const KNOWN: [(u16, &str, Shape); 65] = [
    (263, "mt", Shape::Numbers(2)),
    (266, "node-msd", Shape::Pairs),
    (267, "link-msd", Shape::Pairs),
    (1024, "node-flags", Shape::Number),
    (1025, "opaque-node", Shape::Opaque),
    (1026, "node-name", Shape::Text),
    (1027, "isis-area", Shape::Opaque),
    (1028, "router-id", Shape::Address),
    (1029, "router-id6", Shape::Address),
    (1030, "remote-router-id", Shape::Address),
    (1031, "remote-router-id6", Shape::Address),
    (1032, "s-bfd", Shape::Numbers(4)),
    (1034, "sr-capabilities", Shape::Blocks),
    (1035, "sr-algorithms", Shape::Numbers(1)),
    (1036, "sr-local-block", Shape::Blocks),
    (1037, "srms-preference", Shape::Number),
    (1038, "srv6-capabilities", Shape::Number),
    (1039, "flex-algorithm", Shape::Opaque),
    (1044, "flex-algorithm-metric", Shape::Opaque),
    (1088, "admin-group", Shape::Number),
    (1089, "max-bandwidth", Shape::Bandwidth),
    (1090, "reservable-bandwidth", Shape::Bandwidth),
    (1091, "unreserved-bandwidth", Shape::Bandwidths),
    (1092, "te-metric", Shape::Number),
    (1093, "protection", Shape::Number),
    (1094, "mpls-protocols", Shape::Number),
    (1095, "igp-metric", Shape::Number),
    (1096, "srlg", Shape::Numbers(4)),
    (1097, "opaque-link", Shape::Opaque),
    (1098, "link-name", Shape::Text),
    (1099, "adjacency-sid", Shape::Sid(Some(0))),
    (1100, "lan-adjacency-sid", Shape::Sid(None)),
    (1101, "peer-node-sid", Shape::Sid(Some(0))),
    (1102, "peer-adjacency-sid", Shape::Sid(Some(0))),
    (1103, "peer-set-sid", Shape::Sid(Some(0))),
    (1106, "srv6-end-x", Shape::EndX(0)),
    (1107, "srv6-lan-end-x", Shape::EndX(6)),
    (1108, "srv6-lan-end-x", Shape::EndX(4)),
    (1114, "delay", Shape::Number),
    (1115, "min-max-delay", Shape::Numbers(4)),
    (1116, "delay-variation", Shape::Number),
    (1117, "loss", Shape::Number),
    (1118, "residual-bandwidth", Shape::Bandwidth),
    (1119, "available-bandwidth", Shape::Bandwidth),
    (1120, "utilized-bandwidth", Shape::Bandwidth),
    (1122, "application-specific", Shape::Opaque),
    (1152, "igp-flags", Shape::Number),
    (1153, "tags", Shape::Numbers(4)),
    (1154, "extended-tags", Shape::Numbers(8)),
    (1155, "prefix-metric", Shape::Number),
    (1156, "ospf-forwarding", Shape::Address),
    (1157, "opaque-prefix", Shape::Opaque),
    (1158, "prefix-sid", Shape::Sid(Some(0))),
    (1159, "range", Shape::Opaque),
    (1161, "sid", Shape::Number),
    (1162, "srv6-locator", Shape::Locator),
    (1170, "prefix-flags", Shape::Opaque),
    (1171, "source-router", Shape::Address),
    (1172, "l2-bundle-member", Shape::Opaque),
    (1173, "extended-admin-group", Shape::Numbers(4)),
    (1174, "source-ospf-router", Shape::Address),
    (1180, "asla-unreserved", Shape::Opaque),
    (1250, "srv6-behaviour", Shape::Number),
    (1251, "srv6-peer-node-sid", Shape::Opaque),
    (1252, "srv6-sid-structure", Shape::Numbers(1)),
];

impl<'a> Property<'a> {
    fn known(self) -> Option<&'static (u16, &'static str, Shape)> {
        let at = KNOWN.binary_search_by_key(&self.0.kind, |known| known.0).ok()?;
        KNOWN.get(at)
    }

    /// What operators call it; `None` for what is not known.
    pub fn name(self) -> Option<&'static str> {
        self.known().map(|known| known.1)
    }

    /// What it says.
    pub fn value(self) -> PropertyValue<'a> {
        self.known()
            .and_then(|known| self.typed(known.2))
            .unwrap_or(PropertyValue::Opaque(self.0.value))
    }

    fn typed(self, shape: Shape) -> Option<PropertyValue<'a>> {
        let value = self.0.value;
        let mut cursor = Cursor::new(value, 0);
        Some(match shape {
            Shape::Number if (1..=8).contains(&value.len()) => {
                let number = value.iter().fold(0, |number, octet| number << 8 | u64::from(*octet));
                PropertyValue::Number(number)
            }
            Shape::Numbers(size) if value.len().is_multiple_of(size) => {
                PropertyValue::Numbers(size, value)
            }
            Shape::Pairs if value.len().is_multiple_of(2) => {
                PropertyValue::Depths(value.as_chunks().0)
            }
            Shape::Bandwidth => {
                PropertyValue::Bandwidth(f32::from_be_bytes(value.try_into().ok()?))
            }
            Shape::Bandwidths if value.len() == 32 => {
                PropertyValue::Bandwidths(value.as_chunks().0)
            }
            Shape::Address => {
                PropertyValue::Address(cursor.address(value.len(), "router id").ok()?)
            }
            Shape::Text => PropertyValue::Text(value),
            Shape::Sid(neighbor) => {
                // With a router id of four octets or six, and a SID of three or four.
                let neighbor = neighbor.unwrap_or(if value.len() >= 13 { 6 } else { 4 });
                let [flags, weight, ..] = cursor.array::<4>("flags").ok()?;
                let neighbor = cursor.take(neighbor, "neighbor").ok()?;
                let sid = read_sid(cursor.rest())?;
                PropertyValue::Sid { flags, weight, neighbor, sid }
            }
            Shape::Blocks => {
                let [flags, _] = cursor.array("flags").ok()?;
                let blocks = cursor.rest();
                while !cursor.is_empty() {
                    read_block(&mut cursor).ok()?;
                }
                PropertyValue::Blocks(flags, Blocks(blocks))
            }
            Shape::EndX(neighbor) => {
                let behaviour = cursor.u16("behaviour").ok()?;
                let [a, b, c, _] = cursor.array("flags").ok()?;
                let neighbor = cursor.take(neighbor, "neighbor").ok()?;
                let sid = cursor.ipv6("SID").ok()?;
                let more = Tlvs::parse(cursor.rest()).ok()?;
                PropertyValue::EndX { behaviour, flags: [a, b, c], neighbor, sid, more }
            }
            Shape::Locator => {
                let [flags, algorithm, ..] = cursor.array::<4>("flags").ok()?;
                let metric = cursor.u32("metric").ok()?;
                PropertyValue::Locator(flags, algorithm, metric, Tlvs::parse(cursor.rest()).ok()?)
            }
            Shape::Number
            | Shape::Numbers(_)
            | Shape::Pairs
            | Shape::Bandwidths
            | Shape::Opaque => return None,
        })
    }
}

impl fmt::Display for PropertyValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let neighbor_of = |f: &mut fmt::Formatter<'_>, neighbor: &[u8]| match neighbor {
            [] => Ok(()),
            id => write!(f, " neighbor {}", Hex(id)),
        };
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Numbers(size, octets) => {
                let numbers = octets.chunks_exact(*size);
                write_list(
                    f,
                    ",",
                    numbers.map(|number| {
                        number.iter().fold(0, |number, octet| number << 8 | u64::from(*octet))
                    }),
                )
            }
            Self::Depths(pairs) => {
                write_list(f, ",", pairs.iter().map(|[kind, depth]| format!("{kind}:{depth}")))
            }
            Self::Bandwidth(rate) => rate.fmt(f),
            Self::Bandwidths(rates) => {
                write_list(f, ",", rates.iter().map(|rate| f32::from_be_bytes(*rate)))
            }
            Self::Address(address) => address.fmt(f),
            Self::Text(text) => write!(f, "\"{}\"", text.escape_ascii()),
            Self::Sid { flags, weight, neighbor, sid } => {
                write!(f, "{sid} flags {flags:#04x} weight {weight}")?;
                neighbor_of(f, neighbor)
            }
            Self::Blocks(_, blocks) => {
                write_list(f, ",", blocks.iter().map(|(size, first)| format!("{first}+{size}")))
            }
            Self::EndX { behaviour, neighbor, sid, .. } => {
                write!(f, "{sid} behaviour {behaviour}")?;
                neighbor_of(f, neighbor)
            }
            Self::Locator(_, algorithm, metric, _) => {
                write!(f, "algorithm {algorithm} metric {metric}")
            }
            Self::Opaque(bytes) => write!(f, "0x{}", Hex(bytes)),
        }
    }
}

/// `igp-metric 10`; the number of a type that is not known in the place of its name.
impl fmt::Display for Property<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} {}", self.value()),
            None => write!(f, "{} {}", self.0.kind, self.value()),
        }
    }
}

/// With `; ` between the properties.
impl fmt::Display for BgpLs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, "; ", self.properties())
    }
}

/// Whether attribute 29 is well-formed; if it is not, it is discarded (RFC 9552 §8.2.2).
pub fn check(value: &[u8]) -> Result<()> {
    BgpLs::parse(value).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlv(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        Tlv { kind, value }.encode(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn known_properties_are_typed() {
        assert!(KNOWN.is_sorted_by_key(|known| known.0));
        let sid = tlv(1161, &[0, 0x3e, 0x80]);
        let end_x = [&[0, 5, 0, 0, 1, 0][..], &[0xfc; 16]].concat();
        let value = [
            tlv(1026, b"core-1"),
            tlv(1028, &[10, 0, 0, 1]),
            tlv(1089, &[0x4c, 0xee, 0x6b, 0x28]),
            tlv(266, &[1, 10, 2, 4]),
            tlv(1095, &[0, 0, 10]),
            tlv(1096, &[0, 0, 0, 1, 0, 0, 0, 2]),
            tlv(1099, &[0x30, 1, 0, 0, 0, 0x5d, 0xc1]),
            tlv(1100, &[0x30, 1, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0x5d, 0xc1]),
            tlv(1034, &[&[0x80, 0, 0, 0x1f, 0x40][..], &sid].concat()),
            tlv(1106, &end_x),
            tlv(4000, &[7]),
            tlv(1028, &[7]),
        ]
        .concat();
        assert_eq!(
            BgpLs::parse(&value).unwrap().to_string(),
            "node-name \"core-1\"; router-id 10.0.0.1; max-bandwidth 125000000; \
             node-msd 1:10,2:4; igp-metric 10; \
             srlg 1,2; adjacency-sid 24001 flags 0x30 weight 1; \
             lan-adjacency-sid 24001 flags 0x30 weight 1 neighbor 010203040506; \
             sr-capabilities 16000+8000; \
             srv6-end-x fcfc:fcfc:fcfc:fcfc:fcfc:fcfc:fcfc:fcfc behaviour 5; 4000 0x07; \
             router-id 0x07"
        );
        assert!(check(&value[..5]).is_err());
    }
}
