//! Ethernet VPN routes: RFC 7432 §7 (types 1 to 4), RFC 9136 (5), RFC 9251 (6 to 8), RFC 9572
//! (9 to 11).

use std::fmt;
use std::net::IpAddr;

use super::labelled::Label;
use super::vpn::RouteDistinguisher;
use crate::cursor::Cursor;
use crate::fields::{Hex, put_address, put_sized_address, put_sized_u8, write_list};
use crate::{Prefix, Result};

/// An Ethernet segment: the links of one site, as ten octets of which the first is the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Esi(pub [u8; 10]);

impl fmt::Display for Esi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, ":", self.0.iter().map(|byte| Octet(*byte)))
    }
}

/// A station's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, ":", self.0.iter().map(|byte| Octet(*byte)))
    }
}

struct Octet(u8);

impl fmt::Display for Octet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}", self.0)
    }
}

/// A multicast flow and who says so: what types 6, 7, 8 and 10 share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// Ethernet tag.
    pub tag: u32,
    /// Source; `None` for all.
    pub source: Option<IpAddr>,
    /// Group; `None` for all.
    pub group: Option<IpAddr>,
    /// The originating router.
    pub originator: Option<IpAddr>,
}

impl Flow {
    fn read(body: &mut Cursor<'_>) -> Result<Self> {
        Ok(Self {
            tag: body.u32("Ethernet tag")?,
            source: body.sized_address("multicast source")?,
            group: body.sized_address("multicast group")?,
            originator: body.sized_address("originating router")?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.tag.to_be_bytes());
        put_sized_address(out, self.source);
        put_sized_address(out, self.group);
        put_sized_address(out, self.originator);
    }
}

/// `[tag]:[bits]:[source]:[bits]:[group]:[bits]:[originator]`.
impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}]", self.tag)?;
        for address in [self.source, self.group, self.originator] {
            f.write_str(":")?;
            write_sized(f, address)?;
        }
        Ok(())
    }
}

fn write_sized(f: &mut fmt::Formatter<'_>, address: Option<IpAddr>) -> fmt::Result {
    match address {
        None => f.write_str("[0]:[*]"),
        Some(address) => write!(f, "[{}]:[{address}]", if address.is_ipv4() { 32 } else { 128 }),
    }
}

/// A route of an Ethernet VPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Evpn<'a> {
    /// Which VPN it is of. Types that nobody defined, and type 11, have none of their own.
    pub distinguisher: Option<RouteDistinguisher>,
    /// What it says.
    pub route: EvpnRoute<'a>,
}

/// What a route of an Ethernet VPN says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are named as the RFCs name them")]
pub enum EvpnRoute<'a> {
    /// Type 1: Ethernet auto-discovery.
    AutoDiscovery { segment: Esi, tag: u32, label: Label },
    /// Type 2: a station, and its address if known.
    MacIp {
        segment: Esi,
        tag: u32,
        mac: Mac,
        address: Option<IpAddr>,
        label: Label,
        second_label: Option<Label>,
    },
    /// Type 3: inclusive multicast.
    InclusiveMulticast { tag: u32, originator: Option<IpAddr> },
    /// Type 4: an Ethernet segment.
    Segment { segment: Esi, originator: Option<IpAddr> },
    /// Type 5: an IP prefix.
    Prefix { segment: Esi, tag: u32, prefix: Prefix, gateway: IpAddr, label: Label },
    /// Type 6: selective multicast.
    SelectiveMulticast { flow: Flow, flags: u8 },
    /// Type 7: a membership report, told to the other routers of the segment.
    MembershipReport { segment: Esi, flow: Flow, flags: u8 },
    /// Type 8: a leave, likewise.
    Leave { segment: Esi, flow: Flow, reserved: u32, response_time: u8, flags: u8 },
    /// Type 9: inclusive tunnel of a region.
    PerRegion { tag: u32, region: [u8; 8] },
    /// Type 10: selective tunnel.
    Selective(Flow),
    /// Type 11: a leaf of the tunnel that the key (a route of type 3, 9 or 10) announced.
    Leaf { key: &'a [u8], originator: Option<IpAddr> },
    /// A type that nobody defined, and its bytes.
    Other { kind: u8, bytes: &'a [u8] },
}

impl EvpnRoute<'_> {
    /// The number of its type.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::AutoDiscovery { .. } => 1,
            Self::MacIp { .. } => 2,
            Self::InclusiveMulticast { .. } => 3,
            Self::Segment { .. } => 4,
            Self::Prefix { .. } => 5,
            Self::SelectiveMulticast { .. } => 6,
            Self::MembershipReport { .. } => 7,
            Self::Leave { .. } => 8,
            Self::PerRegion { .. } => 9,
            Self::Selective(_) => 10,
            Self::Leaf { .. } => 11,
            Self::Other { kind, .. } => *kind,
        }
    }
}

impl<'a> Evpn<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let kind = cursor.u8("type of an EVPN route")?;
        let length = cursor.u8("length of an EVPN route")?;
        let mut body = cursor.part(length.into(), "EVPN route")?;
        let distinguisher = match kind {
            1..=10 => Some(RouteDistinguisher::read(&mut body)?),
            _ => None,
        };
        let route = read_route(kind, &mut body)?;
        body.end("EVPN route")?;
        Ok(Self { distinguisher, route })
    }

    /// Appends type, length and value.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.push(self.route.kind());
        put_sized_u8(out, "EVPN route", |out| {
            if let Some(distinguisher) = self.distinguisher {
                out.extend(distinguisher.0);
            }
            put_route(out, &self.route);
            Ok(())
        })
    }
}

fn esi(body: &mut Cursor<'_>) -> Result<Esi> {
    body.array("Ethernet segment").map(Esi)
}

fn label(body: &mut Cursor<'_>) -> Result<Label> {
    body.u24("label").map(Label)
}

fn read_route<'a>(kind: u8, body: &mut Cursor<'a>) -> Result<EvpnRoute<'a>> {
    let tag = "Ethernet tag";
    let originator = "originating router";
    Ok(match kind {
        1 => EvpnRoute::AutoDiscovery {
            segment: esi(body)?,
            tag: body.u32(tag)?,
            label: label(body)?,
        },
        2 => read_mac_ip(body)?,
        3 => EvpnRoute::InclusiveMulticast {
            tag: body.u32(tag)?,
            originator: body.sized_address(originator)?,
        },
        4 => {
            EvpnRoute::Segment { segment: esi(body)?, originator: body.sized_address(originator)? }
        }
        5 => read_prefix(body)?,
        6 => EvpnRoute::SelectiveMulticast { flow: Flow::read(body)?, flags: body.u8("flags")? },
        7 => EvpnRoute::MembershipReport {
            segment: esi(body)?,
            flow: Flow::read(body)?,
            flags: body.u8("flags")?,
        },
        8 => EvpnRoute::Leave {
            segment: esi(body)?,
            flow: Flow::read(body)?,
            reserved: body.u32("reserved octets")?,
            response_time: body.u8("maximum response time")?,
            flags: body.u8("flags")?,
        },
        9 => EvpnRoute::PerRegion { tag: body.u32(tag)?, region: body.array("region")? },
        10 => EvpnRoute::Selective(Flow::read(body)?),
        11 => {
            let whole = body.rest();
            body.u8("type of a route key")?;
            let length = body.u8("length of a route key")?;
            body.take(length.into(), "route key")?;
            let key = &whole[..usize::from(length) + 2];
            EvpnRoute::Leaf { key, originator: body.sized_address(originator)? }
        }
        _ => EvpnRoute::Other { kind, bytes: body.finish() },
    })
}

fn read_mac_ip<'a>(body: &mut Cursor<'_>) -> Result<EvpnRoute<'a>> {
    let segment = esi(body)?;
    let tag = body.u32("Ethernet tag")?;
    let bits = body.u8("length of a MAC address")?;
    if bits != 48 {
        return Err(body.wrong("length of a MAC address", bits.into(), "not 48"));
    }
    Ok(EvpnRoute::MacIp {
        segment,
        tag,
        mac: Mac(body.array("MAC address")?),
        address: body.sized_address("address of a station")?,
        label: label(body)?,
        second_label: if body.is_empty() { None } else { Some(label(body)?) },
    })
}

fn read_prefix<'a>(body: &mut Cursor<'_>) -> Result<EvpnRoute<'a>> {
    let segment = esi(body)?;
    let tag = body.u32("Ethernet tag")?;
    let bits = body.u8("length of an EVPN prefix")?;
    // Prefix and gateway are of the same family, which only the length of the route tells.
    let octets = match body.left() {
        11 => 4,
        35 => 16,
        left => return Err(body.wrong("EVPN prefix", left as u64, "neither IPv4 nor IPv6")),
    };
    if usize::from(bits) > 8 * octets {
        return Err(body.wrong("length of an EVPN prefix", bits.into(), "longer than an address"));
    }
    let prefix = match body.address(octets, "EVPN prefix")? {
        IpAddr::V4(address) => Prefix::V4(address.to_bits(), bits),
        IpAddr::V6(address) => Prefix::V6(address.to_bits(), bits),
    };
    let gateway = body.address(octets, "gateway of an EVPN prefix")?;
    Ok(EvpnRoute::Prefix { segment, tag, prefix, gateway, label: label(body)? })
}

fn put_label(out: &mut Vec<u8>, label: Label) {
    out.extend(&label.0.to_be_bytes()[1..]);
}

fn put_route(out: &mut Vec<u8>, route: &EvpnRoute<'_>) {
    match route {
        EvpnRoute::AutoDiscovery { segment, tag, label } => {
            out.extend(segment.0);
            out.extend(tag.to_be_bytes());
            put_label(out, *label);
        }
        EvpnRoute::MacIp { segment, tag, mac, address, label, second_label } => {
            out.extend(segment.0);
            out.extend(tag.to_be_bytes());
            out.push(48);
            out.extend(mac.0);
            put_sized_address(out, *address);
            put_label(out, *label);
            if let Some(label) = second_label {
                put_label(out, *label);
            }
        }
        EvpnRoute::InclusiveMulticast { tag, originator } => {
            out.extend(tag.to_be_bytes());
            put_sized_address(out, *originator);
        }
        EvpnRoute::Segment { segment, originator } => {
            out.extend(segment.0);
            put_sized_address(out, *originator);
        }
        EvpnRoute::Prefix { segment, tag, prefix, gateway, label } => {
            out.extend(segment.0);
            out.extend(tag.to_be_bytes());
            out.push(prefix.length());
            put_address(out, prefix.address());
            put_address(out, *gateway);
            put_label(out, *label);
        }
        EvpnRoute::SelectiveMulticast { flow, flags } => {
            flow.encode(out);
            out.push(*flags);
        }
        EvpnRoute::MembershipReport { segment, flow, flags } => {
            out.extend(segment.0);
            flow.encode(out);
            out.push(*flags);
        }
        EvpnRoute::Leave { segment, flow, reserved, response_time, flags } => {
            out.extend(segment.0);
            flow.encode(out);
            out.extend(reserved.to_be_bytes());
            out.extend([*response_time, *flags]);
        }
        EvpnRoute::PerRegion { tag, region } => {
            out.extend(tag.to_be_bytes());
            out.extend(region);
        }
        EvpnRoute::Selective(flow) => flow.encode(out),
        EvpnRoute::Leaf { key, originator } => {
            out.extend(*key);
            put_sized_address(out, *originator);
        }
        EvpnRoute::Other { bytes, .. } => out.extend(*bytes),
    }
}

/// `65000:1 [2]:[0]:[48]:[02:00:00:00:00:01]:[32]:[10.0.0.1]`: the bracketed form of routers'
/// command lines, the distinguisher before it.
impl fmt::Display for Evpn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(distinguisher) = self.distinguisher {
            write!(f, "{distinguisher} ")?;
        }
        write!(f, "[{}]:", self.route.kind())?;
        match self.route {
            EvpnRoute::AutoDiscovery { segment, tag, .. } => write!(f, "[{tag}]:[{segment}]"),
            EvpnRoute::MacIp { tag, mac, address, .. } => {
                write!(f, "[{tag}]:[48]:[{mac}]")?;
                let Some(address) = address else { return Ok(()) };
                f.write_str(":")?;
                write_sized(f, Some(address))
            }
            EvpnRoute::InclusiveMulticast { tag, originator } => {
                write!(f, "[{tag}]:")?;
                write_sized(f, originator)
            }
            EvpnRoute::Segment { segment, originator } => {
                write!(f, "[{segment}]:")?;
                write_sized(f, originator)
            }
            EvpnRoute::Prefix { tag, prefix, .. } => {
                write!(f, "[{tag}]:[{}]:[{}]", prefix.length(), prefix.address())
            }
            EvpnRoute::SelectiveMulticast { flow, .. } | EvpnRoute::Selective(flow) => {
                write!(f, "{flow}")
            }
            EvpnRoute::MembershipReport { segment, flow, .. }
            | EvpnRoute::Leave { segment, flow, .. } => write!(f, "[{segment}]:{flow}"),
            EvpnRoute::PerRegion { tag, region } => write!(f, "[{tag}]:[{}]", Hex(&region)),
            EvpnRoute::Leaf { key, originator } => {
                write!(f, "[{}]:", Hex(key))?;
                write_sized(f, originator)
            }
            EvpnRoute::Other { bytes, .. } => write!(f, "[{}]", Hex(bytes)),
        }
    }
}
