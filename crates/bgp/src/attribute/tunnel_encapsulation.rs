//! Tunnels (RFC 9012), and segment routing policies in them (RFC 9830 §2.4).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use crate::Result;
use crate::cursor::Cursor;
use crate::fields::{Hex, put_address, put_sized_u8, put_sized_u16, write_list};
use crate::nlri::labelled::Label;

/// What routers call a type of tunnel; `None` for what is not known.
pub const fn name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        1 => "l2tpv3",
        2 => "gre",
        3 => "ipsec-endpoint",
        4 => "ip-in-ip-ipsec",
        5 => "mpls-in-ip-ipsec",
        7 => "ip-in-ip",
        8 => "vxlan",
        9 => "nvgre",
        10 => "mpls",
        11 => "mpls-in-gre",
        12 => "vxlan-gpe",
        13 => "mpls-in-udp",
        14 => "ipv6-tunnel",
        15 => "sr-policy",
        16 => "bare",
        17 => "sr-tunnel",
        19 => "geneve",
        20 => "any-encapsulation",
        25 => "gtp-u",
        26 => "srv6",
        _ => return None,
    })
}

/// The value of attribute 23: one tunnel after the other. Their framing has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TunnelEncapsulation<'a>(&'a [u8]);

/// A tunnel and what is said about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tunnel<'a> {
    /// Type, as IANA numbers them.
    pub kind: u16,
    parts: &'a [u8],
}

impl<'a> TunnelEncapsulation<'a> {
    /// Wrong if the tunnels do not fill the value, or their parts do not fill them.
    pub fn parse(value: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(value, 0);
        if cursor.is_empty() {
            return Err(cursor.wrong("tunnels", 0, "too few: one at least"));
        }
        while !cursor.is_empty() {
            Tunnel::read(&mut cursor)?;
        }
        Ok(Self(value))
    }

    /// The tunnels, in order.
    pub fn tunnels(self) -> impl Iterator<Item = Tunnel<'a>> {
        let mut cursor = Cursor::new(self.0, 0);
        std::iter::from_fn(move || Tunnel::read(&mut cursor).ok())
    }

    /// The value as it is sent.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Tunnel<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let kind = cursor.u16("type of a tunnel")?;
        let length = cursor.u16("length of a tunnel")?;
        let mut body = cursor.part(length.into(), "tunnel")?;
        let parts = body.rest();
        while !body.is_empty() {
            read_part(&mut body)?;
        }
        Ok(Self { kind, parts })
    }

    /// What is said about it, in order.
    pub fn parts(&self) -> impl Iterator<Item = TunnelPart<'a>> {
        let mut cursor = Cursor::new(self.parts, 0);
        std::iter::from_fn(move || {
            read_part(&mut cursor).ok().map(|(kind, value)| TunnelPart::decode(kind, value))
        })
    }

    /// Appends a tunnel of these parts.
    pub fn encode(kind: u16, parts: &[TunnelPart<'_>], out: &mut Vec<u8>) -> Result<()> {
        out.extend(kind.to_be_bytes());
        put_sized_u16(out, "tunnel", |out| parts.iter().try_for_each(|part| part.encode(out)))
    }
}

/// Type and value: the length has one octet below type 128, two from there on (RFC 9012 §2).
fn read_part<'a>(cursor: &mut Cursor<'a>) -> Result<(u8, &'a [u8])> {
    let kind = cursor.u8("type of a tunnel's part")?;
    let length = match kind {
        0..128 => cursor.u8("length of a tunnel's part")?.into(),
        128.. => cursor.u16("length of a tunnel's part")?,
    };
    Ok((kind, cursor.take(length.into(), "part of a tunnel")?))
}

/// What is said about a tunnel. A known type whose value cannot be what it should be is
/// [`TunnelPart::Other`]: it does not count then (RFC 9012 §13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TunnelPart<'a> {
    /// 1: what the tunnel's header is made of; depends on the type of the tunnel.
    Encapsulation(&'a [u8]),
    /// 2: Ethernet type of what is in it.
    Protocol(u16),
    /// 4: color, as an extended community: flags and color.
    Color(u16, u32),
    /// 5: how many bits to spread load by.
    LoadBalancing(u16),
    /// 6: where the tunnel ends; `None`: at the next hop.
    Endpoint(Option<IpAddr>),
    /// 7: the octet of differentiated services.
    DiffServ(u8),
    /// 8: UDP destination port.
    UdpPort(u16),
    /// 9: what to do with a label of the NLRI.
    EmbeddedLabel(u8),
    /// 10: whole label stack entries.
    LabelStack(&'a [[u8; 4]]),
    /// 12: preference of an SR policy: flags and number.
    Preference(u8, u32),
    /// 13: binding SID of an SR policy: flags and label.
    BindingLabel(u8, Label),
    /// 13 or 20: binding SID of an SR policy: flags and SID; the rest (20) as it was sent.
    BindingSid(u8, u8, Ipv6Addr, &'a [u8]),
    /// 14: explicit null label policy: flags and which.
    ExplicitNull(u8, u8),
    /// 15: priority of an SR policy.
    Priority(u8),
    /// 128: a list of segments.
    SegmentList(SegmentList<'a>),
    /// 129: name of a candidate path.
    CandidateName(&'a [u8]),
    /// 130: name of a policy.
    PolicyName(&'a [u8]),
    /// Type and value of what is not known.
    Other(u8, &'a [u8]),
}

impl<'a> TunnelPart<'a> {
    fn decode(kind: u8, value: &'a [u8]) -> Self {
        Self::known(kind, value).unwrap_or(Self::Other(kind, value))
    }

    fn known(kind: u8, value: &'a [u8]) -> Option<Self> {
        let octet = || value.try_into().ok().map(u8::from_be_bytes);
        let short = || value.try_into().ok().map(u16::from_be_bytes);
        Some(match (kind, value) {
            (1, _) => Self::Encapsulation(value),
            (2, _) => Self::Protocol(short()?),
            (4, [3, 0x0b, high, low, color @ ..]) => {
                let color = u32::from_be_bytes(color.try_into().ok()?);
                Self::Color(u16::from_be_bytes([*high, *low]), color)
            }
            (5, _) => Self::LoadBalancing(short()?),
            (6, [0, 0, 0, 0, 0, 0]) => Self::Endpoint(None),
            (6, [0, 0, 0, 0, rest @ ..]) => Self::Endpoint(Some(endpoint(rest)?)),
            (7, _) => Self::DiffServ(octet()?),
            (8, _) => Self::UdpPort(short()?),
            (9, _) => Self::EmbeddedLabel(octet()?),
            (10, _) => {
                let (entries, rest) = value.as_chunks();
                rest.is_empty().then_some(Self::LabelStack(entries))?
            }
            (12, [flags, 0, a, b, c, d]) => {
                Self::Preference(*flags, u32::from_be_bytes([*a, *b, *c, *d]))
            }
            (13, [flags, 0, a, b, c, 0]) => {
                Self::BindingLabel(*flags, Label(u32::from_be_bytes([0, *a, *b, *c])))
            }
            (13 | 20, [flags, 0, rest @ ..]) => {
                let (sid, rest) = rest.split_first_chunk::<16>()?;
                (kind == 20 || rest.is_empty()).then_some(())?;
                Self::BindingSid(kind, *flags, Ipv6Addr::from(*sid), rest)
            }
            (14, [flags, 0, policy]) => Self::ExplicitNull(*flags, *policy),
            (15, [priority, 0]) => Self::Priority(*priority),
            (128, [0, ..]) => Self::SegmentList(SegmentList::parse(value).ok()?),
            (129, [0, name @ ..]) => Self::CandidateName(name),
            (130, [0, name @ ..]) => Self::PolicyName(name),
            _ => return None,
        })
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Encapsulation(_) => 1,
            Self::Protocol(_) => 2,
            Self::Color(..) => 4,
            Self::LoadBalancing(_) => 5,
            Self::Endpoint(_) => 6,
            Self::DiffServ(_) => 7,
            Self::UdpPort(_) => 8,
            Self::EmbeddedLabel(_) => 9,
            Self::LabelStack(_) => 10,
            Self::Preference(..) => 12,
            Self::BindingLabel(..) => 13,
            Self::BindingSid(kind, ..) | Self::Other(kind, _) => *kind,
            Self::ExplicitNull(..) => 14,
            Self::Priority(_) => 15,
            Self::SegmentList(_) => 128,
            Self::CandidateName(_) => 129,
            Self::PolicyName(_) => 130,
        }
    }

    /// Appends type, length and value.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        let kind = self.kind();
        out.push(kind);
        let write = |out: &mut Vec<u8>| {
            self.put_value(out);
            Ok(())
        };
        match kind {
            0..128 => put_sized_u8(out, "part of a tunnel", write),
            128.. => put_sized_u16(out, "part of a tunnel", write),
        }
    }

    fn put_value(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Encapsulation(bytes) | Self::Other(_, bytes) => out.extend(bytes),
            Self::Protocol(value) | Self::LoadBalancing(value) | Self::UdpPort(value) => {
                out.extend(value.to_be_bytes());
            }
            Self::Color(flags, color) => {
                out.extend([3, 0x0b]);
                out.extend(flags.to_be_bytes());
                out.extend(color.to_be_bytes());
            }
            Self::Endpoint(address) => {
                out.extend([0; 4]);
                let family = address.map_or(0, |address| if address.is_ipv4() { 1_u16 } else { 2 });
                out.extend(family.to_be_bytes());
                if let Some(address) = address {
                    put_address(out, address);
                }
            }
            Self::DiffServ(octet) | Self::EmbeddedLabel(octet) => out.push(octet),
            Self::LabelStack(entries) => out.extend(entries.as_flattened()),
            Self::Preference(flags, number) => {
                out.extend([flags, 0]);
                out.extend(number.to_be_bytes());
            }
            Self::BindingLabel(flags, label) => {
                let [_, a, b, c] = label.0.to_be_bytes();
                out.extend([flags, 0, a, b, c, 0]);
            }
            Self::BindingSid(_, flags, sid, rest) => {
                out.extend([flags, 0]);
                out.extend(sid.octets());
                out.extend(rest);
            }
            Self::ExplicitNull(flags, policy) => out.extend([flags, 0, policy]),
            Self::Priority(priority) => out.extend([priority, 0]),
            Self::SegmentList(list) => out.extend(list.0),
            Self::CandidateName(name) | Self::PolicyName(name) => {
                out.push(0);
                out.extend(name);
            }
        }
    }
}

/// Address family of two octets and an address of it (RFC 9012 §3.1).
fn endpoint(bytes: &[u8]) -> Option<IpAddr> {
    match bytes {
        [0, 1, octets @ ..] => Some(<[u8; 4]>::try_from(octets).ok()?.into()),
        [0, 2, octets @ ..] => Some(<[u8; 16]>::try_from(octets).ok()?.into()),
        _ => None,
    }
}

/// The segments of an SR policy, and the weight of the list (RFC 9830 §2.4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentList<'a>(&'a [u8]);

/// A segment, or what else a list of them holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Segment<'a> {
    /// 9: flags and weight of the list.
    Weight(u8, u32),
    /// 1 (type A): flags and label stack entry of four octets.
    Label(u8, u32),
    /// 13 (type B): flags and `SRv6` SID; behaviour and structure of it as they were sent.
    Srv6(u8, Ipv6Addr, &'a [u8]),
    /// Type and value of what is not known.
    Other(u8, &'a [u8]),
}

impl<'a> SegmentList<'a> {
    /// Behind a reserved octet, segments that fill the value.
    pub fn parse(value: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(value, 0);
        cursor.u8("reserved octet of a segment list")?;
        while !cursor.is_empty() {
            read_segment(&mut cursor)?;
        }
        Ok(Self(value))
    }

    /// The segments, in order.
    pub fn segments(self) -> impl Iterator<Item = Segment<'a>> {
        let mut cursor = Cursor::new(self.0.get(1..).unwrap_or_default(), 1);
        std::iter::from_fn(move || read_segment(&mut cursor).ok())
    }

    /// Appends the value of a list of these segments.
    pub fn encode(segments: &[Segment<'_>], out: &mut Vec<u8>) -> Result<()> {
        out.push(0);
        for segment in segments {
            let (kind, flags) = match segment {
                Segment::Weight(flags, _) => (9, *flags),
                Segment::Label(flags, _) => (1, *flags),
                Segment::Srv6(flags, ..) => (13, *flags),
                Segment::Other(kind, _) => (*kind, 0),
            };
            out.push(kind);
            put_sized_u8(out, "segment", |out| {
                match segment {
                    Segment::Weight(_, value) | Segment::Label(_, value) => {
                        out.extend([flags, 0]);
                        out.extend(value.to_be_bytes());
                    }
                    Segment::Srv6(_, sid, rest) => {
                        out.extend([flags, 0]);
                        out.extend(sid.octets());
                        out.extend(*rest);
                    }
                    Segment::Other(_, bytes) => out.extend(*bytes),
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn read_segment<'a>(cursor: &mut Cursor<'a>) -> Result<Segment<'a>> {
    let kind = cursor.u8("type of a segment")?;
    let length = cursor.u8("length of a segment")?;
    let value = cursor.take(length.into(), "segment")?;
    Ok(match (kind, value) {
        (9 | 1, [flags, 0, a, b, c, d]) => {
            let number = u32::from_be_bytes([*a, *b, *c, *d]);
            if kind == 9 { Segment::Weight(*flags, number) } else { Segment::Label(*flags, number) }
        }
        (13, [flags, 0, rest @ ..]) => match rest.split_first_chunk::<16>() {
            Some((sid, rest)) => Segment::Srv6(*flags, Ipv6Addr::from(*sid), rest),
            None => Segment::Other(kind, value),
        },
        _ => Segment::Other(kind, value),
    })
}

impl fmt::Display for Segment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weight(_, weight) => write!(f, "weight {weight}"),
            Self::Label(_, entry) => write!(f, "{}", entry >> 12),
            Self::Srv6(_, sid, _) => sid.fmt(f),
            Self::Other(kind, bytes) => write!(f, "{kind}=0x{}", Hex(bytes)),
        }
    }
}

impl fmt::Display for TunnelPart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encapsulation(bytes) => write!(f, "header 0x{}", Hex(bytes)),
            Self::Protocol(kind) => write!(f, "protocol {kind:#06x}"),
            Self::Color(_, color) => write!(f, "color {color}"),
            Self::LoadBalancing(bits) => write!(f, "load-balancing {bits}"),
            Self::Endpoint(None) => f.write_str("endpoint next-hop"),
            Self::Endpoint(Some(address)) => write!(f, "endpoint {address}"),
            Self::DiffServ(octet) => write!(f, "ds {octet}"),
            Self::UdpPort(port) => write!(f, "udp {port}"),
            Self::EmbeddedLabel(how) => write!(f, "embedded-label {how}"),
            Self::LabelStack(entries) => {
                f.write_str("labels ")?;
                let labels = entries.iter().map(|entry| u32::from_be_bytes(*entry) >> 12);
                write_list(f, "/", labels)
            }
            Self::Preference(_, number) => write!(f, "preference {number}"),
            Self::BindingLabel(_, label) => write!(f, "binding {label}"),
            Self::BindingSid(_, _, sid, _) => write!(f, "binding {sid}"),
            Self::ExplicitNull(_, policy) => write!(f, "explicit-null {policy}"),
            Self::Priority(priority) => write!(f, "priority {priority}"),
            Self::SegmentList(list) => {
                f.write_str("segments <")?;
                write_list(f, ", ", list.segments())?;
                f.write_str(">")
            }
            Self::CandidateName(name) => write!(f, "path \"{}\"", name.escape_ascii()),
            Self::PolicyName(name) => write!(f, "policy \"{}\"", name.escape_ascii()),
            Self::Other(kind, bytes) => write!(f, "{kind}=0x{}", Hex(bytes)),
        }
    }
}

/// `vxlan [endpoint 10.0.0.1; color 5]`.
impl fmt::Display for Tunnel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name(self.kind) {
            Some(name) => f.write_str(name)?,
            None => write!(f, "tunnel {}", self.kind)?,
        }
        f.write_str(" [")?;
        write_list(f, "; ", self.parts())?;
        f.write_str("]")
    }
}

impl fmt::Display for TunnelEncapsulation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, " ", self.tunnels())
    }
}

/// Whether attribute 23 is well-formed; if it is not, its routes are withdrawn (RFC 9012 §13).
/// Parts whose values are wrong only do not count, so that framing is all that matters here.
pub fn check(value: &[u8]) -> Result<()> {
    TunnelEncapsulation::parse(value).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_written_and_read() {
        let mut list = Vec::new();
        let segments = [
            Segment::Weight(0, 4),
            Segment::Label(0, 16001 << 12 | 0x1ff),
            Segment::Srv6(0, "fc00::1".parse().unwrap(), &[]),
            Segment::Other(77, &[1]),
        ];
        SegmentList::encode(&segments, &mut list).unwrap();
        let parts = [
            TunnelPart::Preference(0, 200),
            TunnelPart::BindingLabel(0, Label(15000 << 4)),
            TunnelPart::BindingSid(20, 0, "fc00::2".parse().unwrap(), &[0, 1]),
            TunnelPart::ExplicitNull(0, 4),
            TunnelPart::Priority(3),
            TunnelPart::SegmentList(SegmentList::parse(&list).unwrap()),
            TunnelPart::CandidateName(b"best"),
            TunnelPart::PolicyName(b"gold"),
            TunnelPart::Endpoint(None),
            TunnelPart::Endpoint(Some("10.0.0.1".parse().unwrap())),
            TunnelPart::Color(0, 9),
            TunnelPart::UdpPort(4789),
            TunnelPart::Protocol(0x800),
            TunnelPart::LoadBalancing(8),
            TunnelPart::DiffServ(46),
            TunnelPart::EmbeddedLabel(1),
            TunnelPart::LabelStack(&[[0, 0, 0x61, 0xff]]),
            TunnelPart::Encapsulation(&[1, 2]),
            TunnelPart::Other(99, &[3]),
        ];
        let mut value = Vec::new();
        Tunnel::encode(15, &parts, &mut value).unwrap();
        Tunnel::encode(8, &[], &mut value).unwrap();
        let read = TunnelEncapsulation::parse(&value).unwrap();
        let tunnels: Vec<_> = read.tunnels().collect();
        assert_eq!(tunnels.len(), 2);
        assert!(tunnels[0].parts().eq(parts));
        let text = tunnels[0].to_string();
        let start = "sr-policy [preference 200; binding 15000; binding fc00::2; explicit-null 4; \
                     priority 3; segments <weight 4, 16001, fc00::1, 77=0x01>; path \"best\"";
        assert!(text.starts_with(start), "{text}");
        let TunnelPart::SegmentList(again) = tunnels[0].parts().nth(5).unwrap() else { panic!() };
        assert!(again.segments().eq(segments));
    }

    #[test]
    fn framing_is_checked() {
        assert!(check(&[]).is_err());
        assert!(check(&[0, 8, 0, 1]).is_err());
        assert!(check(&[0, 8, 0, 1, 6]).is_err());
        assert!(check(&[0, 8, 0, 2, 6, 0]).is_ok());
        assert!(check(&[0, 8, 0, 3, 128, 0, 0]).is_ok());
        assert!(check(&[0, 8, 0, 3, 128, 0, 1]).is_err());
    }
}
