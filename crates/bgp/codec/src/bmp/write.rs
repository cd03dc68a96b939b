//! Encodes packets by appending to a `Vec<u8>`. A function that fails leaves the vector unchanged.

use std::net::IpAddr;

use super::{Down, HEADER, PeerHeader, PeerUp, Tlv, VERSION, kind};
use crate::{Error, Result};

/// A packet whose body is being written.
#[derive(Debug)]
struct Open {
    start: usize,
}

fn open(out: &mut Vec<u8>, kind: u8) -> Open {
    let start = out.len();
    out.extend_from_slice(&[VERSION, 0, 0, 0, 0, kind]);
    Open { start }
}

impl Open {
    fn close(self, out: &mut [u8]) {
        let length = (out.len() - self.start) as u32;
        out[self.start + 1..self.start + HEADER - 1].copy_from_slice(&length.to_be_bytes());
    }
}

fn peer(out: &mut Vec<u8>, peer: &PeerHeader) {
    out.extend_from_slice(&[peer.kind, peer.flags]);
    out.extend_from_slice(&peer.distinguisher.to_be_bytes());
    out.extend_from_slice(&peer.octets);
    out.extend_from_slice(&peer.asn.0.to_be_bytes());
    out.extend_from_slice(&peer.id.to_be_bytes());
    out.extend_from_slice(&peer.seconds.to_be_bytes());
    out.extend_from_slice(&peer.microseconds.to_be_bytes());
}

fn check(tlvs: &[Tlv<'_>]) -> Result<()> {
    match tlvs.iter().find(|tlv| tlv.value.len() > u16::MAX.into()) {
        None => Ok(()),
        Some(tlv) => {
            let limit = u16::MAX.into();
            Err(Error::Long { field: "value", size: tlv.value.len(), limit })
        }
    }
}

fn tlvs(out: &mut Vec<u8>, tlvs: &[Tlv<'_>]) {
    for tlv in tlvs {
        out.extend_from_slice(&tlv.kind.to_be_bytes());
        out.extend_from_slice(&(tlv.value.len() as u16).to_be_bytes());
        out.extend_from_slice(tlv.value);
    }
}

/// Initiation: the first packet of a connection.
pub fn initiation(out: &mut Vec<u8>, information: &[Tlv<'_>]) -> Result<()> {
    with_tlvs(out, kind::INITIATION, information)
}

/// Termination: the last packet of a connection.
pub fn termination(out: &mut Vec<u8>, information: &[Tlv<'_>]) -> Result<()> {
    with_tlvs(out, kind::TERMINATION, information)
}

fn with_tlvs(out: &mut Vec<u8>, kind: u8, information: &[Tlv<'_>]) -> Result<()> {
    check(information)?;
    let packet = open(out, kind);
    tlvs(out, information);
    packet.close(out);
    Ok(())
}

/// Peer Up. Both OPENs are whole messages, including the header.
pub fn peer_up(out: &mut Vec<u8>, header: &PeerHeader, up: &PeerUp<'_>) {
    let packet = open(out, kind::PEER_UP);
    peer(out, header);
    let octets = match up.local {
        IpAddr::V4(address) => u128::from(address.to_bits()).to_be_bytes(),
        IpAddr::V6(address) => address.octets(),
    };
    out.extend_from_slice(&octets);
    out.extend_from_slice(&up.local_port.to_be_bytes());
    out.extend_from_slice(&up.remote_port.to_be_bytes());
    out.extend_from_slice(up.sent);
    out.extend_from_slice(up.received);
    out.extend_from_slice(up.information.bytes());
    packet.close(out);
}

/// Peer Down: the session ended.
pub fn peer_down(out: &mut Vec<u8>, header: &PeerHeader, down: &Down<'_>) {
    let packet = open(out, kind::PEER_DOWN);
    peer(out, header);
    let (reason, rest) = match down {
        Down::LocalNotification(message) => (1, *message),
        Down::LocalEvent(_) => (2, &[][..]),
        Down::RemoteNotification(message) => (3, *message),
        Down::RemoteClosed => (4, &[][..]),
        Down::Deconfigured => (5, &[][..]),
        Down::Other(reason, rest) => (*reason, *rest),
    };
    out.push(reason);
    if let Down::LocalEvent(event) = down {
        out.extend_from_slice(&event.to_be_bytes());
    }
    out.extend_from_slice(rest);
    packet.close(out);
}

/// Route Monitoring with an UPDATE, including the header.
#[inline]
pub fn route_monitoring(out: &mut Vec<u8>, header: &PeerHeader, update: &[u8]) {
    let packet = open(out, kind::ROUTE_MONITORING);
    peer(out, header);
    out.extend_from_slice(update);
    packet.close(out);
}

/// Statistics Report with counters (four octets) and gauges (eight octets).
pub fn statistics(out: &mut Vec<u8>, header: &PeerHeader, statistics: &[Tlv<'_>]) -> Result<()> {
    check(statistics)?;
    let packet = open(out, kind::STATISTICS_REPORT);
    peer(out, header);
    out.extend_from_slice(&(statistics.len() as u32).to_be_bytes());
    tlvs(out, statistics);
    packet.close(out);
    Ok(())
}
