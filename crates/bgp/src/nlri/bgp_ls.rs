//! Link-state routes (RFC 9552 §5.2; `SRv6` SIDs of RFC 9514 §6): nodes, links and prefixes of an
//! interior routing protocol.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::vpn::RouteDistinguisher;
use crate::cursor::Cursor;
use crate::fields::{Hex, put_sized_u16, write_list};
use crate::{Afi, Asn, Prefix, Result};

/// Type, length, value with two octets for each of the first two: what link-state is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tlv<'a> {
    /// Type.
    pub kind: u16,
    /// Value.
    pub value: &'a [u8],
}

impl<'a> Tlv<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let kind = cursor.u16("type of a link-state TLV")?;
        let length = cursor.u16("length of a link-state TLV")?;
        Ok(Self { kind, value: cursor.take(length.into(), "link-state TLV")? })
    }

    /// Appends type, length and value.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend(self.kind.to_be_bytes());
        put_sized_u16(out, "link-state TLV", |out| {
            out.extend(self.value);
            Ok(())
        })
    }
}

/// TLVs one after the other. They have been checked: iterating meets no error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tlvs<'a>(&'a [u8]);

impl<'a> Tlvs<'a> {
    /// Checks that the TLVs fill the bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        Self::read(&mut Cursor::new(bytes, 0))
    }

    fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let bytes = cursor.rest();
        while !cursor.is_empty() {
            Tlv::read(cursor)?;
        }
        Ok(Self(bytes))
    }

    /// The TLVs, in order.
    pub fn iter(self) -> impl Iterator<Item = Tlv<'a>> {
        let mut cursor = Cursor::new(self.0, 0);
        std::iter::from_fn(move || Tlv::read(&mut cursor).ok())
    }

    /// As they were received.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// A descriptor: what tells a node, link or prefix from others (RFC 9552 §5.2.1 to 5.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the registry's")]
pub enum Descriptor<'a> {
    LocalNode(Tlvs<'a>),
    RemoteNode(Tlvs<'a>),
    LinkIdentifiers {
        local: u32,
        remote: u32,
    },
    Ipv4Interface(Ipv4Addr),
    Ipv4Neighbor(Ipv4Addr),
    Ipv6Interface(Ipv6Addr),
    Ipv6Neighbor(Ipv6Addr),
    /// One or more identifiers of two octets each.
    MultiTopology(&'a [u8]),
    OspfRouteType(u8),
    Reachability(Prefix),
    AutonomousSystem(Asn),
    BgpLsIdentifier(u32),
    OspfArea(Ipv4Addr),
    /// 4 octets of OSPF, 8 of an OSPF pseudonode, 6 of IS-IS, 7 of an IS-IS pseudonode.
    IgpRouter(&'a [u8]),
    BgpRouter(Ipv4Addr),
    ConfederationMember(Asn),
    Srv6Sid(Ipv6Addr),
    /// A type that is not known, or a known one of another length than it should have.
    Other(Tlv<'a>),
}

impl<'a> Descriptor<'a> {
    /// What a TLV says; `afi` of the prefix that it may hold.
    pub fn decode(tlv: Tlv<'a>, afi: Afi) -> Self {
        Self::known(tlv, afi).unwrap_or(Self::Other(tlv))
    }

    fn known(tlv: Tlv<'a>, afi: Afi) -> Option<Self> {
        let value = tlv.value;
        let number = || value.try_into().ok().map(u32::from_be_bytes);
        let v4 = || number().map(Ipv4Addr::from_bits);
        let v6 = || <[u8; 16]>::try_from(value).ok().map(Ipv6Addr::from);
        Some(match tlv.kind {
            256 => Self::LocalNode(Tlvs::parse(value).ok()?),
            257 => Self::RemoteNode(Tlvs::parse(value).ok()?),
            258 => {
                let ids = u64::from_be_bytes(value.try_into().ok()?);
                Self::LinkIdentifiers { local: (ids >> 32) as u32, remote: ids as u32 }
            }
            259 => Self::Ipv4Interface(v4()?),
            260 => Self::Ipv4Neighbor(v4()?),
            261 => Self::Ipv6Interface(v6()?),
            262 => Self::Ipv6Neighbor(v6()?),
            263 if value.len().is_multiple_of(2) => Self::MultiTopology(value),
            264 => Self::OspfRouteType(u8::from_be_bytes(value.try_into().ok()?)),
            265 => {
                let (bits, _) = value.split_first()?;
                let mut cursor = Cursor::new(&value[1..], 0);
                let prefix = cursor.prefix(afi, *bits, "reachable prefix").ok()?;
                cursor.is_empty().then_some(Self::Reachability(prefix))?
            }
            512 => Self::AutonomousSystem(Asn(number()?)),
            513 => Self::BgpLsIdentifier(number()?),
            514 => Self::OspfArea(v4()?),
            515 => Self::IgpRouter(value),
            516 => Self::BgpRouter(v4()?),
            517 => Self::ConfederationMember(Asn(number()?)),
            518 => Self::Srv6Sid(v6()?),
            _ => return None,
        })
    }
}

/// What a link-state route is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkStateKind(pub u16);

#[expect(missing_docs, reason = "the names are the registry's")]
impl LinkStateKind {
    pub const NODE: Self = Self(1);
    pub const LINK: Self = Self(2);
    pub const IPV4_PREFIX: Self = Self(3);
    pub const IPV6_PREFIX: Self = Self(4);
    pub const SRV6_SID: Self = Self(6);
}

/// A link-state route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkState<'a> {
    /// What it is about.
    pub kind: LinkStateKind,
    /// Which VPN it is of; only with SAFI 72.
    pub distinguisher: Option<RouteDistinguisher>,
    /// What it says.
    pub body: LinkStateBody<'a>,
}

/// What a link-state route says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkStateBody<'a> {
    /// The types that are defined.
    Described {
        /// Where it was learned (RFC 9552 §5.2): 1 and 2 IS-IS, 3 `OSPFv2`, 4 direct, 5 static,
        /// 6 `OSPFv3`, 7 BGP, ...
        protocol: u8,
        /// Which instance of the protocol.
        instance: u64,
        /// The TLVs; [`LinkState::descriptors`] types them.
        descriptors: Tlvs<'a>,
    },
    /// A type that nobody defined, and its bytes.
    Other(&'a [u8]),
}

impl<'a> LinkState<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>, vpn: bool) -> Result<Self> {
        let kind = LinkStateKind(cursor.u16("type of a link-state route")?);
        let length = cursor.u16("length of a link-state route")?;
        let mut body = cursor.part(length.into(), "link-state route")?;
        let distinguisher = if vpn { Some(RouteDistinguisher::read(&mut body)?) } else { None };
        let body = match kind.0 {
            1..=4 | 6 => {
                let protocol = body.u8("protocol of a link-state route")?;
                let instance = body.u64("instance of a link-state route")?;
                let descriptors = Tlvs::read(&mut body)?;
                LinkStateBody::Described { protocol, instance, descriptors }
            }
            _ => LinkStateBody::Other(body.finish()),
        };
        Ok(Self { kind, distinguisher, body })
    }

    /// The address family of a prefix in the descriptors.
    const fn afi(&self) -> Afi {
        if self.kind.0 == LinkStateKind::IPV4_PREFIX.0 { Afi::IPV4 } else { Afi::IPV6 }
    }

    /// The descriptors of the outer level; nodes have more within.
    pub fn descriptors(&self) -> impl Iterator<Item = Descriptor<'a>> {
        let afi = self.afi();
        let tlvs = match self.body {
            LinkStateBody::Described { descriptors, .. } => descriptors,
            LinkStateBody::Other(_) => Tlvs::default(),
        };
        tlvs.iter().map(move |tlv| Descriptor::decode(tlv, afi))
    }

    /// Appends type, length and value.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.extend(self.kind.0.to_be_bytes());
        put_sized_u16(out, "link-state route", |out| {
            if let Some(distinguisher) = self.distinguisher {
                out.extend(distinguisher.0);
            }
            match self.body {
                LinkStateBody::Described { protocol, instance, descriptors } => {
                    out.push(protocol);
                    out.extend(instance.to_be_bytes());
                    out.extend(descriptors.0);
                }
                LinkStateBody::Other(bytes) => out.extend(bytes),
            }
            Ok(())
        })
    }
}

/// `1720.1600.4001.00` for IS-IS, an address for OSPF.
struct IgpRouter<'a>(&'a [u8]);

impl fmt::Display for IgpRouter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (pairs, rest) = self.0.as_chunks::<2>();
        match (self.0.as_chunks::<4>(), pairs, rest) {
            (([router], []), ..) => Ipv4Addr::from(*router).fmt(f),
            (([router, interface], []), ..) => {
                write!(f, "{}:{}", Ipv4Addr::from(*router), Ipv4Addr::from(*interface))
            }
            (_, [_, _, _], node) => {
                write_list(f, ".", pairs.iter().map(|pair| Hex(pair)))?;
                write!(f, ".{:02x}", node.first().unwrap_or(&0))
            }
            _ => write!(f, "0x{}", Hex(self.0)),
        }
    }
}

/// `as65000`, `area0.0.0.0`, `[local ...]`.
impl fmt::Display for Descriptor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nested = |f: &mut fmt::Formatter<'_>, name: &str, tlvs: &Tlvs<'_>| {
            write!(f, "[{name} ")?;
            // Nodes hold no nodes: a hostile nesting is not followed.
            write_list(
                f,
                " ",
                tlvs.iter().map(|tlv| match tlv.kind {
                    256 | 257 => Descriptor::Other(tlv),
                    _ => Descriptor::decode(tlv, Afi::IPV6),
                }),
            )?;
            f.write_str("]")
        };
        match self {
            Self::LocalNode(tlvs) => nested(f, "local", tlvs),
            Self::RemoteNode(tlvs) => nested(f, "remote", tlvs),
            Self::LinkIdentifiers { local, remote } => write!(f, "ids {local}:{remote}"),
            Self::Ipv4Interface(address) => write!(f, "interface {address}"),
            Self::Ipv6Interface(address) => write!(f, "interface {address}"),
            Self::Ipv4Neighbor(address) => write!(f, "neighbor {address}"),
            Self::Ipv6Neighbor(address) => write!(f, "neighbor {address}"),
            Self::MultiTopology(ids) => write!(f, "mt 0x{}", Hex(ids)),
            Self::OspfRouteType(kind) => write!(f, "route-type {kind}"),
            Self::Reachability(prefix) => write!(f, "prefix {prefix}"),
            Self::AutonomousSystem(asn) => write!(f, "as {asn}"),
            Self::BgpLsIdentifier(id) => write!(f, "ls-id {id}"),
            Self::OspfArea(area) => write!(f, "area {area}"),
            Self::IgpRouter(id) => write!(f, "igp-router {}", IgpRouter(id)),
            Self::BgpRouter(id) => write!(f, "bgp-router {id}"),
            Self::ConfederationMember(asn) => write!(f, "member-as {asn}"),
            Self::Srv6Sid(sid) => write!(f, "sid {sid}"),
            Self::Other(tlv) => write!(f, "{}=0x{}", tlv.kind, Hex(tlv.value)),
        }
    }
}

/// `node ospf 0 [local as 65000 igp-router 10.0.0.1]`.
impl fmt::Display for LinkState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(distinguisher) = self.distinguisher {
            write!(f, "{distinguisher} ")?;
        }
        match self.kind {
            LinkStateKind::NODE => f.write_str("node")?,
            LinkStateKind::LINK => f.write_str("link")?,
            LinkStateKind::IPV4_PREFIX => f.write_str("prefix4")?,
            LinkStateKind::IPV6_PREFIX => f.write_str("prefix6")?,
            LinkStateKind::SRV6_SID => f.write_str("srv6-sid")?,
            LinkStateKind(kind) => write!(f, "type {kind}")?,
        }
        match self.body {
            LinkStateBody::Other(bytes) => write!(f, " 0x{}", Hex(bytes)),
            LinkStateBody::Described { protocol, instance, .. } => {
                const PROTOCOLS: [&str; 8] =
                    ["", "isis1", "isis2", "ospf", "direct", "static", "ospf3", "bgp"];
                match PROTOCOLS.get(usize::from(protocol)) {
                    Some(name) if !name.is_empty() => write!(f, " {name}")?,
                    _ => write!(f, " protocol {protocol}")?,
                }
                write!(f, " {instance} ")?;
                write_list(f, " ", self.descriptors())
            }
        }
    }
}
