//! Virtual private LANs: label blocks (RFC 4761 §3.2.2), and addresses of edges (RFC 6074 §3.2.2).

use std::fmt;
use std::net::Ipv4Addr;

use super::vpn::RouteDistinguisher;
use crate::Result;
use crate::cursor::Cursor;
use crate::fields::{Hex, put_sized_u16};

/// A route of a virtual private LAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vpls<'a> {
    /// A block of labels of an edge.
    Block {
        /// Which LAN.
        distinguisher: RouteDistinguisher,
        /// The edge.
        edge: u16,
        /// The first edge that the block has a label for.
        offset: u16,
        /// How many labels.
        size: u16,
        /// The first of the labels, in the 20 high bits of three octets.
        base: u32,
    },
    /// The address of an edge, found automatically.
    Edge {
        /// Which LAN.
        distinguisher: RouteDistinguisher,
        /// The edge.
        address: Ipv4Addr,
    },
    /// Another length than the two that are defined.
    Other(&'a [u8]),
}

impl<'a> Vpls<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let length = cursor.u16("length of a VPLS route")?;
        let mut body = cursor.part(length.into(), "VPLS route")?;
        Ok(match length {
            17 => Self::Block {
                distinguisher: RouteDistinguisher::read(&mut body)?,
                edge: body.u16("VE id")?,
                offset: body.u16("VE block offset")?,
                size: body.u16("VE block size")?,
                base: body.u24("label base")?,
            },
            12 => Self::Edge {
                distinguisher: RouteDistinguisher::read(&mut body)?,
                address: body.ipv4("edge of a VPLS")?,
            },
            _ => Self::Other(body.finish()),
        })
    }

    /// Appends length and value.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        put_sized_u16(out, "VPLS route", |out| {
            match self {
                Self::Block { distinguisher, edge, offset, size, base } => {
                    out.extend(distinguisher.0);
                    out.extend(edge.to_be_bytes());
                    out.extend(offset.to_be_bytes());
                    out.extend(size.to_be_bytes());
                    out.extend(&base.to_be_bytes()[1..]);
                }
                Self::Edge { distinguisher, address } => {
                    out.extend(distinguisher.0);
                    out.extend(address.octets());
                }
                Self::Other(bytes) => out.extend(*bytes),
            }
            Ok(())
        })
    }
}

/// `65000:1 ve 3 block 1 size 8 base 800000`, `65000:1 10.0.0.1`.
impl fmt::Display for Vpls<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block { distinguisher, edge, offset, size, base } => {
                write!(f, "{distinguisher} ve {edge} block {offset} size {size} ")?;
                write!(f, "base {}", base >> 4)
            }
            Self::Edge { distinguisher, address } => write!(f, "{distinguisher} {address}"),
            Self::Other(bytes) => write!(f, "0x{}", Hex(bytes)),
        }
    }
}
