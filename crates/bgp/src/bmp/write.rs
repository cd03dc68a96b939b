//! Packets into bytes, appended to a `Vec<u8>`. Functions that can fail leave it as it was.

use std::net::IpAddr;

use super::{Down, HEADER, PeerHeader, PeerUp, Statistic, Tlv, VERSION, Value, kind};
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

/// Who speaks: the first packet of a connection.
pub fn initiation(out: &mut Vec<u8>, information: &[Tlv<'_>]) -> Result<()> {
    check(information)?;
    let packet = open(out, kind::INITIATION);
    tlvs(out, information);
    packet.close(out);
    Ok(())
}

/// The last packet of a connection.
pub fn termination(out: &mut Vec<u8>, information: &[Tlv<'_>]) -> Result<()> {
    check(information)?;
    let packet = open(out, kind::TERMINATION);
    tlvs(out, information);
    packet.close(out);
    Ok(())
}

/// A session came up. Both OPENs are whole messages, header included.
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

/// A session went down.
pub fn peer_down(out: &mut Vec<u8>, header: &PeerHeader, down: &Down<'_>) {
    let packet = open(out, kind::PEER_DOWN);
    peer(out, header);
    let (reason, rest) = match down {
        Down::LocalNotification(message) => (1, *message),
        Down::LocalEvent(_) => (2, &[][..]),
        Down::RemoteNotification(message) => (3, *message),
        Down::RemoteClosed => (4, &[][..]),
        Down::Deconfigured => (5, &[][..]),
        Down::LocalRib(information) => (6, information.bytes()),
        Down::Other(reason, rest) => (*reason, *rest),
    };
    out.push(reason);
    if let Down::LocalEvent(event) = down {
        out.extend_from_slice(&event.to_be_bytes());
    }
    out.extend_from_slice(rest);
    packet.close(out);
}

/// An UPDATE, header included.
#[inline]
pub fn route_monitoring(out: &mut Vec<u8>, header: &PeerHeader, update: &[u8]) {
    let packet = open(out, kind::ROUTE_MONITORING);
    peer(out, header);
    out.extend_from_slice(update);
    packet.close(out);
}

/// Messages as they came (type 0), and what there is to say of them (type 1).
pub fn route_mirroring(out: &mut Vec<u8>, header: &PeerHeader, parts: &[Tlv<'_>]) -> Result<()> {
    check(parts)?;
    let packet = open(out, kind::ROUTE_MIRRORING);
    peer(out, header);
    tlvs(out, parts);
    packet.close(out);
    Ok(())
}

/// Counters and gauges.
pub fn statistics(
    out: &mut Vec<u8>,
    header: &PeerHeader,
    statistics: &[Statistic<'_>],
) -> Result<()> {
    for statistic in statistics {
        if let Value::Opaque(value) = statistic.value {
            check(&[Tlv { kind: statistic.kind, value }])?;
        }
    }
    let packet = open(out, kind::STATISTICS_REPORT);
    peer(out, header);
    out.extend_from_slice(&(statistics.len() as u32).to_be_bytes());
    for Statistic { kind, value } in statistics {
        let kind = *kind;
        match value {
            Value::Counter(count) => tlvs(out, &[Tlv { kind, value: &count.to_be_bytes() }]),
            Value::Gauge(gauge) => tlvs(out, &[Tlv { kind, value: &gauge.to_be_bytes() }]),
            Value::OfFamily(family, gauge) => {
                let mut value = [0; 11];
                value[..2].copy_from_slice(&family.afi.0.to_be_bytes());
                value[2] = family.safi.0;
                value[3..].copy_from_slice(&gauge.to_be_bytes());
                tlvs(out, &[Tlv { kind, value: &value }]);
            }
            Value::Opaque(value) => tlvs(out, &[Tlv { kind, value }]),
        }
    }
    packet.close(out);
    Ok(())
}
