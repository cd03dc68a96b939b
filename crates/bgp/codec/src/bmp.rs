//! BGP Monitoring Protocol version 3: RFC 7854, 8671 (Adj-RIB-Out), 9069 (Loc-RIB).
//!
//! # Problem
//!
//! A router reports its sessions to a monitoring station over one TCP connection: sessions that
//! come up (with both OPENs), each received UPDATE, sessions that go down and the reason.
//! [`Reader`] frames the stream, [`Packet::parse`] decodes a packet into views of its bytes,
//! [`mod@write`] encodes the same bytes.
//!
//! | type | body | source |
//! |---|---|---|
//! | 0 Route Monitoring | [`Body::RouteMonitoring`] | RFC 7854 §4.6 |
//! | 1 Statistics Report | [`Body::Statistics`] | RFC 7854 §4.8, RFC 8671 §6.2 |
//! | 2 Peer Down | [`Body::PeerDown`] | RFC 7854 §4.9, RFC 9069 §5.3 |
//! | 3 Peer Up | [`Body::PeerUp`] | RFC 7854 §4.10, RFC 9069 §5.2 |
//! | 4 Initiation | [`Body::Initiation`] | RFC 7854 §4.3 |
//! | 5 Termination | [`Body::Termination`] | RFC 7854 §4.5 |
//! | all others | [`Body::Opaque`] | |

mod peer;
mod reader;
mod tlv;
pub mod write;

pub use peer::{PeerHeader, peer_flags, peer_type};
pub use reader::{Reader, Step};
pub use tlv::{Tlv, Tlvs, information};

use std::net::{IpAddr, Ipv4Addr};

use crate::cursor::Cursor;
use crate::{HEADER as BGP_HEADER, MARKER, Message, Result};

/// The version that is read and written.
pub const VERSION: u8 = 3;
/// Bytes of the header that all packets share (RFC 7854 §4.1).
pub const HEADER: usize = 6;

/// Types of packets (RFC 7854 §4.1).
#[expect(missing_docs, reason = "the names are the RFC's")]
pub mod kind {
    pub const ROUTE_MONITORING: u8 = 0;
    pub const STATISTICS_REPORT: u8 = 1;
    pub const PEER_DOWN: u8 = 2;
    pub const PEER_UP: u8 = 3;
    pub const INITIATION: u8 = 4;
    pub const TERMINATION: u8 = 5;
    pub const ROUTE_MIRRORING: u8 = 6;
}

/// One packet, framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Packet type: see [`kind`].
    pub kind: u8,
    /// Body, after the header.
    pub body: &'a [u8],
    /// All bytes, including the header.
    pub bytes: &'a [u8],
}

/// Reason for which a session went down (RFC 7854 §4.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Down<'a> {
    /// The router sent this NOTIFICATION (1).
    LocalNotification(&'a [u8]),
    /// The router closed the session without a NOTIFICATION (2): event of the state machine (RFC
    /// 4271 §8.1), or 0.
    LocalEvent(u16),
    /// The peer sent this NOTIFICATION (3).
    RemoteNotification(&'a [u8]),
    /// The peer closed the session without a NOTIFICATION (4).
    RemoteClosed,
    /// The router no longer reports this peer, whose session may still be up (5).
    Deconfigured,
    /// Another reason: code and data; information TLVs for 6 (the Loc-RIB, RFC 9069 §5.3).
    Other(u8, &'a [u8]),
}

/// A session came up (RFC 7854 §4.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerUp<'a> {
    /// The router's address; unspecified for the Loc-RIB.
    pub local: IpAddr,
    /// The router's TCP port.
    pub local_port: u16,
    /// The peer's TCP port.
    pub remote_port: u16,
    /// The OPEN that the router sent, header included.
    pub sent: &'a [u8],
    /// The OPEN that the peer sent, header included.
    pub received: &'a [u8],
    /// Information TLVs: free text (0), name of the VRF or table (3, RFC 9069 §5.2.1).
    pub information: Tlvs<'a>,
}

/// Decoded body of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body<'a> {
    /// An UPDATE, header included.
    RouteMonitoring(PeerHeader, &'a [u8]),
    /// Counters of 32 bits and gauges of 64 bits.
    Statistics(PeerHeader, Tlvs<'a>),
    /// A session went down.
    PeerDown(PeerHeader, Down<'a>),
    /// A session came up.
    PeerUp(PeerHeader, PeerUp<'a>),
    /// Description of the router: free text (0), sysDescr (1), sysName (2).
    Initiation(Tlvs<'a>),
    /// The router ends the connection: free text (0), reason (1).
    Termination(Tlvs<'a>),
    /// A packet of another type.
    Opaque(&'a [u8]),
}

impl<'a> Packet<'a> {
    /// The packet at the start of `bytes`; `None` if the version is not 3, the length field is
    /// below the header length, or the packet is truncated.
    #[inline]
    pub fn split(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER>()?;
        let length = length(*header);
        if header[0] != VERSION || length < HEADER {
            return None;
        }
        let bytes = bytes.get(..length)?;
        Some(Self { kind: header[5], body: &bytes[HEADER..], bytes })
    }

    /// Decodes the body. Unknown types are [`Body::Opaque`], not errors. Offsets of errors count
    /// from the end of the header.
    pub fn parse(&self) -> Result<Body<'a>> {
        let mut fields = Cursor::new(self.body, 0);
        Ok(match self.kind {
            kind::ROUTE_MONITORING => {
                Body::RouteMonitoring(PeerHeader::parse(&mut fields)?, fields.rest())
            }
            kind::STATISTICS_REPORT => {
                let peer = PeerHeader::parse(&mut fields)?;
                fields.u32("statistics count")?;
                Body::Statistics(peer, Tlvs::new(fields.rest()))
            }
            kind::PEER_DOWN => {
                let peer = PeerHeader::parse(&mut fields)?;
                Body::PeerDown(peer, Down::parse(&mut fields)?)
            }
            kind::PEER_UP => {
                let peer = PeerHeader::parse(&mut fields)?;
                Body::PeerUp(peer, PeerUp::parse(&peer, &mut fields)?)
            }
            kind::INITIATION => Body::Initiation(Tlvs::new(self.body)),
            kind::TERMINATION => Body::Termination(Tlvs::new(self.body)),
            _ => Body::Opaque(self.body),
        })
    }
}

impl<'a> Down<'a> {
    fn parse(fields: &mut Cursor<'a>) -> Result<Self> {
        Ok(match fields.u8("reason")? {
            1 => Self::LocalNotification(fields.rest()),
            2 => Self::LocalEvent(fields.u16("event code")?),
            3 => Self::RemoteNotification(fields.rest()),
            4 => Self::RemoteClosed,
            5 => Self::Deconfigured,
            other => Self::Other(other, fields.rest()),
        })
    }

    /// Code and subcode of the NOTIFICATION, if there is one.
    pub fn notification(&self) -> Option<(u8, u8)> {
        let (Self::LocalNotification(bytes) | Self::RemoteNotification(bytes)) = self else {
            return None;
        };
        let body = Message::split(bytes)?.body();
        Some((*body.first()?, *body.get(1)?))
    }
}

impl<'a> PeerUp<'a> {
    fn parse(peer: &PeerHeader, fields: &mut Cursor<'a>) -> Result<Self> {
        let bits = fields.ipv6("local address")?;
        let local = match bits {
            IpAddr::V6(address) if !peer.is_ipv6() => {
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() as u32))
            }
            other => other,
        };
        let local_port = fields.u16("local port")?;
        let remote_port = fields.u16("remote port")?;
        let sent = open(fields, "sent OPEN")?;
        let received = open(fields, "received OPEN")?;
        let information = Tlvs::new(fields.rest());
        Ok(Self { local, local_port, remote_port, sent, received, information })
    }
}

/// Total length of the packet in bytes, from its header.
fn length(header: [u8; HEADER]) -> usize {
    u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize
}

/// Reads a BGP message with the length in its header.
fn open<'a>(fields: &mut Cursor<'a>, field: &'static str) -> Result<&'a [u8]> {
    let rest = fields.rest();
    match Message::split(rest) {
        Some(message) => fields.take(message.bytes().len(), field),
        None if rest.get(..16).is_some_and(|marker| marker != MARKER) => {
            let (at, value) = (fields.at(), rest[0].into());
            Err(crate::Error::Value { field, at, value, wrong: "not the marker of a BGP message" })
        }
        // The message is shorter than its header, or than the length in its header.
        None => fields.take(rest.len().max(BGP_HEADER) + 1, field),
    }
}
