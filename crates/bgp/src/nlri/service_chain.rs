//! Service function chains (RFC 9015 §3.1): where functions are, and which paths there are.

use std::fmt;

use super::vpn::RouteDistinguisher;
use crate::Result;
use crate::cursor::Cursor;
use crate::fields::{Hex, put_sized_u16};

/// A route of service function chaining.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServiceChain<'a> {
    /// Type 1: an instance of a function.
    Instance {
        /// Which instance of the function.
        distinguisher: RouteDistinguisher,
        /// Type of the function, as IANA numbers them.
        function: u16,
    },
    /// Type 2: a path through functions; attribute 37 says which.
    Path {
        /// Who made the path.
        distinguisher: RouteDistinguisher,
        /// The identifier of the path, three octets.
        path: u32,
    },
    /// A type that nobody defined, and its bytes.
    Other(u16, &'a [u8]),
}

impl<'a> ServiceChain<'a> {
    pub(crate) fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        let kind = cursor.u16("type of a service chain route")?;
        let length = cursor.u16("length of a service chain route")?;
        let mut body = cursor.part(length.into(), "service chain route")?;
        let route = match kind {
            1 => Self::Instance {
                distinguisher: RouteDistinguisher::read(&mut body)?,
                function: body.u16("service function type")?,
            },
            2 => Self::Path {
                distinguisher: RouteDistinguisher::read(&mut body)?,
                path: body.u24("service path identifier")?,
            },
            _ => Self::Other(kind, body.finish()),
        };
        body.end("service chain route")?;
        Ok(route)
    }

    /// Appends type, length and value.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        let kind: u16 = match self {
            Self::Instance { .. } => 1,
            Self::Path { .. } => 2,
            Self::Other(kind, _) => *kind,
        };
        out.extend(kind.to_be_bytes());
        put_sized_u16(out, "service chain route", |out| {
            match self {
                Self::Instance { distinguisher, function } => {
                    out.extend(distinguisher.0);
                    out.extend(function.to_be_bytes());
                }
                Self::Path { distinguisher, path } => {
                    out.extend(distinguisher.0);
                    out.extend(&path.to_be_bytes()[1..]);
                }
                Self::Other(_, bytes) => out.extend(*bytes),
            }
            Ok(())
        })
    }
}

/// `65000:1 function 4`, `65000:1 path 9`.
impl fmt::Display for ServiceChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance { distinguisher, function } => {
                write!(f, "{distinguisher} function {function}")
            }
            Self::Path { distinguisher, path } => write!(f, "{distinguisher} path {path}"),
            Self::Other(kind, bytes) => write!(f, "type {kind} 0x{}", Hex(bytes)),
        }
    }
}
