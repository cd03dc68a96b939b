//! Headers of tunnels: GRE with ERSPAN, VXLAN, Geneve, TZSP, Juniper's packet mirroring.

use super::mirror::Tag;
use super::packet::{Layer, Skip, u16_at, u32_at};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnels {
    /// GRE (RFC 2784, 2890), with ERSPAN of types I, II and III.
    pub gre: bool,
    /// IPv4 and IPv6 in IPv4 and IPv6 (RFC 2003, 2473, 4213).
    pub ip: bool,
    /// MPLS, with pseudowires of Ethernet, and MPLS in IP (RFC 4023).
    pub mpls: bool,
    /// PPP over Ethernet sessions (RFC 2516).
    pub pppoe: bool,
    /// UDP ports of VXLAN (RFC 7348).
    pub vxlan: Vec<u16>,
    /// UDP ports of Geneve (RFC 8926).
    pub geneve: Vec<u16>,
    pub tzsp: Vec<u16>,
    pub juniper: Vec<u16>,
}

impl Tunnels {
    pub const fn none() -> Self {
        Self {
            gre: false,
            ip: false,
            mpls: false,
            pppoe: false,
            vxlan: Vec::new(),
            geneve: Vec::new(),
            tzsp: Vec::new(),
            juniper: Vec::new(),
        }
    }

    pub fn all() -> Self {
        Self {
            gre: true,
            ip: true,
            mpls: true,
            pppoe: true,
            vxlan: vec![4789, 8472],
            geneve: vec![6081],
            tzsp: vec![37008],
            juniper: vec![30030],
        }
    }

    pub fn udp_ports(&self) -> impl Iterator<Item = u16> {
        let all = [&self.vxlan, &self.geneve, &self.tzsp, &self.juniper];
        all.into_iter().flatten().copied()
    }
}

pub(super) struct Gre<'a> {
    pub(super) layer: Layer,
    pub(super) bytes: &'a [u8],
    pub(super) key: Option<u32>,
    pub(super) sequence: Option<u32>,
    pub(super) session: Option<u16>,
    /// The mirrored VLAN; 0 for none.
    pub(super) vlan: u16,
}

pub(super) fn gre(bytes: &[u8]) -> Result<Gre<'_>, Skip> {
    const CHECKSUM: u16 = 0x8000;
    const ROUTING: u16 = 0x4000;
    const KEY: u16 = 0x2000;
    const SEQUENCE: u16 = 0x1000;
    let flags = u16_at(bytes, 0).ok_or(Skip::Truncated)?;
    let protocol = u16_at(bytes, 2).ok_or(Skip::Truncated)?;
    if flags & 7 != 0 || flags & ROUTING != 0 {
        return Err(Skip::Foreign);
    }
    let mut at = if flags & CHECKSUM == 0 { 4 } else { 8 };
    let mut field = |flag| {
        if flags & flag == 0 {
            return Ok(None);
        }
        at += 4;
        u32_at(bytes, at - 4).map(Some).ok_or(Skip::Truncated)
    };
    let (key, sequence) = (field(KEY)?, field(SEQUENCE)?);
    let bytes = bytes.get(at..).ok_or(Skip::Truncated)?;
    let mut gre =
        Gre { layer: Layer::Type(protocol), bytes, key, sequence, session: None, vlan: 0 };
    match protocol {
        0x88be => erspan(&mut gre)?,
        0x22eb => erspan_3(&mut gre)?,
        _ => {}
    }
    Ok(gre)
}

fn erspan(gre: &mut Gre<'_>) -> Result<(), Skip> {
    gre.layer = Layer::Ethernet;
    if gre.sequence.is_none() {
        return Ok(());
    }
    let head = u16_at(gre.bytes, 0).ok_or(Skip::Truncated)?;
    if head >> 12 != 1 {
        return Err(Skip::Malformed);
    }
    gre.vlan = head & 0xfff;
    gre.session = u16_at(gre.bytes, 2).map(|field| field & 0x3ff);
    gre.bytes = gre.bytes.get(8..).ok_or(Skip::Truncated)?;
    Ok(())
}

fn erspan_3(gre: &mut Gre<'_>) -> Result<(), Skip> {
    let head = u16_at(gre.bytes, 0).ok_or(Skip::Truncated)?;
    let last = u16_at(gre.bytes, 10).ok_or(Skip::Truncated)?;
    if head >> 12 != 2 {
        return Err(Skip::Malformed);
    }
    gre.vlan = head & 0xfff;
    gre.session = u16_at(gre.bytes, 2).map(|field| field & 0x3ff);
    // Type of the frame: Ethernet, or an IP packet.
    gre.layer = match last >> 10 & 0x1f {
        2 => Layer::Ip,
        _ => Layer::Ethernet,
    };
    let length = if last & 1 == 0 { 12 } else { 20 };
    gre.bytes = gre.bytes.get(length..).ok_or(Skip::Truncated)?;
    Ok(())
}

/// Payload of a UDP datagram to one of the ports.
pub(super) fn udp<'a>(
    bytes: &'a [u8],
    tunnels: &Tunnels,
    tags: &mut Vec<Tag>,
) -> Result<(Layer, &'a [u8]), Skip> {
    let port = u16_at(bytes, 2).ok_or(Skip::Truncated)?;
    let length = usize::from(u16_at(bytes, 4).ok_or(Skip::Truncated)?);
    let end = if length < 8 { bytes.len() } else { length.min(bytes.len()) };
    let bytes = bytes.get(8..end).ok_or(Skip::Truncated)?;
    if tunnels.vxlan.contains(&port) {
        vxlan(bytes, tags)
    } else if tunnels.geneve.contains(&port) {
        geneve(bytes, tags)
    } else if tunnels.tzsp.contains(&port) {
        tzsp(bytes)
    } else if tunnels.juniper.contains(&port) {
        let (mirror, session) = (u32_at(bytes, 0), u32_at(bytes, 4));
        let (Some(mirror), Some(session)) = (mirror, session) else { return Err(Skip::Truncated) };
        tags.push(Tag::Juniper(mirror, session));
        let layer = match bytes.get(8..10) {
            Some([0xff, 3]) => Layer::Ppp,
            _ => Layer::Ip,
        };
        Ok((layer, &bytes[8..]))
    } else {
        Err(Skip::Foreign)
    }
}

fn vxlan<'a>(bytes: &'a [u8], tags: &mut Vec<Tag>) -> Result<(Layer, &'a [u8]), Skip> {
    let (Some(flags), Some(network)) = (u32_at(bytes, 0), u32_at(bytes, 4)) else {
        return Err(Skip::Truncated);
    };
    if flags & 0x0800_0000 == 0 {
        return Err(Skip::Malformed);
    }
    tags.push(Tag::Network(network >> 8));
    Ok((Layer::Ethernet, &bytes[8..]))
}

fn geneve<'a>(bytes: &'a [u8], tags: &mut Vec<Tag>) -> Result<(Layer, &'a [u8]), Skip> {
    let (Some(head), Some(network)) = (u32_at(bytes, 0), u32_at(bytes, 4)) else {
        return Err(Skip::Truncated);
    };
    if head >> 30 != 0 {
        return Err(Skip::Malformed);
    }
    tags.push(Tag::Network(network >> 8));
    let options = (head >> 24 & 0x3f) as usize * 4;
    let rest = bytes.get(8 + options..).ok_or(Skip::Truncated)?;
    Ok((Layer::Type(head as u16), rest))
}

/// TZSP header: version, type, protocol, tagged fields up to an end tag.
fn tzsp(bytes: &[u8]) -> Result<(Layer, &[u8]), Skip> {
    const ETHERNET: u16 = 1;
    let protocol = u16_at(bytes, 2).ok_or(Skip::Truncated)?;
    if bytes[0] != 1 || bytes[1] > 1 || protocol != ETHERNET {
        return Err(Skip::Foreign);
    }
    let mut rest = &bytes[4..];
    loop {
        rest = match rest {
            [0, rest @ ..] => rest,
            [1, rest @ ..] => return Ok((Layer::Ethernet, rest)),
            [_, length, rest @ ..] => rest.get(usize::from(*length)..).ok_or(Skip::Truncated)?,
            _ => return Err(Skip::Truncated),
        };
    }
}
