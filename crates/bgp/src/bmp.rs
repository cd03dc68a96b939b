//! BGP Monitoring Protocol version 3: RFC 7854, 8671 (Adj-RIB-Out), 9069 (Loc-RIB).
//!
//! # Problem
//!
//! A router tells a station of its sessions over one TCP connection: who is up (with both OPENs),
//! each UPDATE as it came, who is down and why. [`Reader`] frames the stream, [`Packet::parse`]
//! says what a packet means as views of its bytes, [`mod@write`] makes the same bytes again.
//!
//! | type | body | source |
//! |---|---|---|
//! | 0 Route Monitoring | [`Body::RouteMonitoring`] | RFC 7854 §4.6 |
//! | 1 Statistics Report | [`Body::Statistics`] | RFC 7854 §4.8, RFC 8671 §6.2 |
//! | 2 Peer Down | [`Body::PeerDown`] | RFC 7854 §4.9, RFC 9069 §5.3 |
//! | 3 Peer Up | [`Body::PeerUp`] | RFC 7854 §4.10, RFC 9069 §5.2 |
//! | 4 Initiation | [`Body::Initiation`] | RFC 7854 §4.3 |
//! | 5 Termination | [`Body::Termination`] | RFC 7854 §4.5 |
//! | 6 Route Mirroring | [`Body::RouteMirroring`] | RFC 7854 §4.7 |
//! | all others | [`Body::Opaque`] | |

mod peer;
mod reader;
mod statistics;
mod tlv;
pub mod write;

pub use peer::{PeerHeader, peer_flags, peer_type};
pub use reader::{Reader, Step};
pub use statistics::{Statistic, Statistics, Value};
pub use tlv::{Tlv, Tlvs, information};

use std::net::{IpAddr, Ipv4Addr};

use crate::mrt::Fields;
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
    /// What it is: see [`kind`].
    pub kind: u8,
    /// What follows the header.
    pub body: &'a [u8],
    /// All of it, header included.
    pub bytes: &'a [u8],
}

/// Why a session went down (RFC 7854 §4.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Down<'a> {
    /// The router sent this NOTIFICATION (1).
    LocalNotification(&'a [u8]),
    /// The router closed without one; the event of its state machine (RFC 4271 §8.1) or 0 (2).
    LocalEvent(u16),
    /// The peer sent this NOTIFICATION (3).
    RemoteNotification(&'a [u8]),
    /// The peer closed without one (4).
    RemoteClosed,
    /// The router no longer reports this peer, which may be up (5).
    Deconfigured,
    /// The Loc-RIB is no longer reported; information follows (6, RFC 9069 §5.3).
    LocalRib(Tlvs<'a>),
    /// Another reason, with what follows it.
    Other(u8, &'a [u8]),
}

/// A session came up (RFC 7854 §4.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerUp<'a> {
    /// The router's address; unspecified where the session is its own Loc-RIB.
    pub local: IpAddr,
    /// The router's TCP port.
    pub local_port: u16,
    /// The peer's TCP port.
    pub remote_port: u16,
    /// The OPEN that the router sent, header included.
    pub sent: &'a [u8],
    /// The OPEN that the peer sent, header included.
    pub received: &'a [u8],
    /// What else there is to say: free text (0), name of the VRF or table (3, RFC 9069 §5.2.1).
    pub information: Tlvs<'a>,
}

/// What a packet means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Body<'a> {
    /// An UPDATE, header included.
    RouteMonitoring(PeerHeader, &'a [u8]),
    /// Counters and gauges.
    Statistics(PeerHeader, Statistics<'a>),
    /// A session went down.
    PeerDown(PeerHeader, Down<'a>),
    /// A session came up.
    PeerUp(PeerHeader, PeerUp<'a>),
    /// Who speaks: free text (0), sysDescr (1), sysName (2).
    Initiation(Tlvs<'a>),
    /// The router ends the connection: free text (0), reason (1).
    Termination(Tlvs<'a>),
    /// Messages as they came (0), and what there is to say of them (1: 0 for a message with
    /// errors, 1 for messages lost).
    RouteMirroring(PeerHeader, Tlvs<'a>),
    /// Not known here.
    Opaque(&'a [u8]),
}

impl<'a> Packet<'a> {
    /// The packet at the start of `bytes`; `None` if it is of another version, if its length
    /// field is below that of its header, or if the bytes end before it does.
    #[inline]
    pub fn split(bytes: &'a [u8]) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER>()?;
        let length = reader::length(*header);
        if header[0] != VERSION || length < HEADER {
            return None;
        }
        let bytes = bytes.get(..length)?;
        Some(Self { kind: header[5], body: &bytes[HEADER..], bytes })
    }

    /// What it means. Types that are not known are [`Body::Opaque`], not errors. Errors count
    /// bytes from behind the header.
    pub fn parse(&self) -> Result<Body<'a>> {
        let mut fields = Fields::new(self.body);
        Ok(match self.kind {
            kind::ROUTE_MONITORING => {
                Body::RouteMonitoring(PeerHeader::parse(&mut fields)?, fields.rest())
            }
            kind::STATISTICS_REPORT => {
                let peer = PeerHeader::parse(&mut fields)?;
                let count = fields.u32("statistics count")?;
                Body::Statistics(peer, Statistics::new(count, fields.rest()))
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
            kind::ROUTE_MIRRORING => {
                Body::RouteMirroring(PeerHeader::parse(&mut fields)?, Tlvs::new(fields.rest()))
            }
            _ => Body::Opaque(self.body),
        })
    }
}

impl<'a> Down<'a> {
    fn parse(fields: &mut Fields<'a>) -> Result<Self> {
        Ok(match fields.u8("reason")? {
            1 => Self::LocalNotification(fields.rest()),
            2 => Self::LocalEvent(fields.u16("event code")?),
            3 => Self::RemoteNotification(fields.rest()),
            4 => Self::RemoteClosed,
            5 => Self::Deconfigured,
            6 => Self::LocalRib(Tlvs::new(fields.rest())),
            other => Self::Other(other, fields.rest()),
        })
    }

    /// The code and subcode of its NOTIFICATION, if it has one.
    pub fn notification(&self) -> Option<(u8, u8)> {
        let (Self::LocalNotification(bytes) | Self::RemoteNotification(bytes)) = self else {
            return None;
        };
        let body = Message::split(bytes)?.body();
        Some((*body.first()?, *body.get(1)?))
    }
}

impl<'a> PeerUp<'a> {
    fn parse(peer: &PeerHeader, fields: &mut Fields<'a>) -> Result<Self> {
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

/// A BGP message, as long as its length field says.
fn open<'a>(fields: &mut Fields<'a>, field: &'static str) -> Result<&'a [u8]> {
    let rest = fields.rest();
    match Message::split(rest) {
        Some(message) => fields.take(field, message.bytes().len()),
        None if rest.get(..16).is_some_and(|marker| marker != MARKER) => {
            let (at, value) = (fields.at(), rest[0].into());
            Err(crate::Error::Value { field, at, value, wrong: "not the marker of a message" })
        }
        // Short of its length field, or of all that the field says.
        None => fields.take(field, rest.len().max(BGP_HEADER) + 1),
    }
}
