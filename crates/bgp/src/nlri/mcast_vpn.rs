//! Routes of multicast VPNs (RFC 6514 §4).

use std::fmt;
use std::net::IpAddr;

use super::vpn::RouteDistinguisher;
use crate::cursor::Cursor;
use crate::fields::{Hex, put_address, put_sized_address, put_sized_u8};
use crate::{Asn, Result};

/// A route of a multicast VPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are named as the RFC names them")]
pub enum McastVpn<'a> {
    /// Type 1: the inclusive tunnel of a router within its AS.
    IntraAs { distinguisher: RouteDistinguisher, originator: IpAddr },
    /// Type 2: the inclusive tunnel of an AS.
    InterAs { distinguisher: RouteDistinguisher, source_as: Asn },
    /// Type 3: a selective tunnel. No source or group: all.
    Selective {
        distinguisher: RouteDistinguisher,
        source: Option<IpAddr>,
        group: Option<IpAddr>,
        originator: IpAddr,
    },
    /// Type 4: a leaf of the tunnel that the key (a route of type 2 or 3) announced.
    Leaf { key: &'a [u8], originator: IpAddr },
    /// Type 5: an active source.
    SourceActive {
        distinguisher: RouteDistinguisher,
        source: Option<IpAddr>,
        group: Option<IpAddr>,
    },
    /// Types 6 (shared tree) and 7 (source tree): a join.
    Join {
        shared: bool,
        distinguisher: RouteDistinguisher,
        source_as: Asn,
        source: Option<IpAddr>,
        group: Option<IpAddr>,
    },
    /// A type that nobody defined, and its bytes.
    Other { kind: u8, bytes: &'a [u8] },
}

fn originator(body: &mut Cursor<'_>) -> Result<IpAddr> {
    body.address(body.left(), "originating router")
}

impl<'a> McastVpn<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let kind = cursor.u8("type of a multicast VPN route")?;
        let length = cursor.u8("length of a multicast VPN route")?;
        let mut body = cursor.part(length.into(), "multicast VPN route")?;
        let route = Self::read_route(kind, &mut body)?;
        body.end("multicast VPN route")?;
        Ok(route)
    }

    fn read_route(kind: u8, body: &mut Cursor<'a>) -> Result<Self> {
        let (source, group) = ("multicast source", "multicast group");
        Ok(match kind {
            1 => Self::IntraAs {
                distinguisher: RouteDistinguisher::read(body)?,
                originator: originator(body)?,
            },
            2 => Self::InterAs {
                distinguisher: RouteDistinguisher::read(body)?,
                source_as: Asn(body.u32("source AS")?),
            },
            3 => Self::Selective {
                distinguisher: RouteDistinguisher::read(body)?,
                source: body.sized_address(source)?,
                group: body.sized_address(group)?,
                originator: originator(body)?,
            },
            4 => {
                let whole = body.rest();
                body.u8("type of a route key")?;
                let length = body.u8("length of a route key")?;
                body.take(length.into(), "route key")?;
                let key = &whole[..usize::from(length) + 2];
                Self::Leaf { key, originator: originator(body)? }
            }
            5 => Self::SourceActive {
                distinguisher: RouteDistinguisher::read(body)?,
                source: body.sized_address(source)?,
                group: body.sized_address(group)?,
            },
            6 | 7 => Self::Join {
                shared: kind == 6,
                distinguisher: RouteDistinguisher::read(body)?,
                source_as: Asn(body.u32("source AS")?),
                source: body.sized_address(source)?,
                group: body.sized_address(group)?,
            },
            _ => Self::Other { kind, bytes: body.finish() },
        })
    }

    /// The number of its type.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::IntraAs { .. } => 1,
            Self::InterAs { .. } => 2,
            Self::Selective { .. } => 3,
            Self::Leaf { .. } => 4,
            Self::SourceActive { .. } => 5,
            Self::Join { shared: true, .. } => 6,
            Self::Join { .. } => 7,
            Self::Other { kind, .. } => *kind,
        }
    }

    /// Which VPN it is of.
    pub const fn distinguisher(&self) -> Option<RouteDistinguisher> {
        match self {
            Self::IntraAs { distinguisher, .. }
            | Self::InterAs { distinguisher, .. }
            | Self::Selective { distinguisher, .. }
            | Self::SourceActive { distinguisher, .. }
            | Self::Join { distinguisher, .. } => Some(*distinguisher),
            Self::Leaf { .. } | Self::Other { .. } => None,
        }
    }

    /// Appends type, length and value.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        out.push(self.kind());
        put_sized_u8(out, "multicast VPN route", |out| {
            if let Some(distinguisher) = self.distinguisher() {
                out.extend(distinguisher.0);
            }
            match *self {
                Self::IntraAs { originator, .. } => put_address(out, originator),
                Self::InterAs { source_as, .. } => out.extend(source_as.0.to_be_bytes()),
                Self::Selective { source, group, originator, .. } => {
                    put_sized_address(out, source);
                    put_sized_address(out, group);
                    put_address(out, originator);
                }
                Self::Leaf { key, originator } => {
                    out.extend(key);
                    put_address(out, originator);
                }
                Self::SourceActive { source, group, .. } => {
                    put_sized_address(out, source);
                    put_sized_address(out, group);
                }
                Self::Join { source_as, source, group, .. } => {
                    out.extend(source_as.0.to_be_bytes());
                    put_sized_address(out, source);
                    put_sized_address(out, group);
                }
                Self::Other { bytes, .. } => out.extend(bytes),
            }
            Ok(())
        })
    }
}

/// `*` for all.
fn write_any(f: &mut fmt::Formatter<'_>, address: Option<IpAddr>) -> fmt::Result {
    match address {
        Some(address) => write!(f, ":[{address}]"),
        None => f.write_str(":[*]"),
    }
}

/// `65000:1 [5]:[10.0.0.1]:[232.1.1.1]`: type, AS, source, group, originator, as far as there are.
impl fmt::Display for McastVpn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(distinguisher) = self.distinguisher() {
            write!(f, "{distinguisher} ")?;
        }
        write!(f, "[{}]", self.kind())?;
        match *self {
            Self::IntraAs { originator, .. } => write!(f, ":[{originator}]"),
            Self::InterAs { source_as, .. } => write!(f, ":[{source_as}]"),
            Self::Selective { source, group, originator, .. } => {
                write_any(f, source)?;
                write_any(f, group)?;
                write!(f, ":[{originator}]")
            }
            Self::Leaf { key, originator } => write!(f, ":[{}]:[{originator}]", Hex(key)),
            Self::SourceActive { source, group, .. } => {
                write_any(f, source)?;
                write_any(f, group)
            }
            Self::Join { source_as, source, group, .. } => {
                write!(f, ":[{source_as}]")?;
                write_any(f, source)?;
                write_any(f, group)
            }
            Self::Other { bytes, .. } => write!(f, ":[{}]", Hex(bytes)),
        }
    }
}
