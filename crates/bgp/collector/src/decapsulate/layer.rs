//! Headers below IP: link types, Ethernet with its tags, PPP, MPLS.

use super::mirror::Tag;
use super::packet::{Layer, Packet, Skip, u16_at, u32_at};
use super::tunnel::Tunnels;
use crate::LinkType;

/// Maximum number of tags and labels of a frame between two IP headers.
const STEPS_MAX: usize = 24;

mod ether {
    pub(super) const IPV4: u16 = 0x0800;
    pub(super) const BRIDGED: u16 = 0x6558;
    pub(super) const VLAN: u16 = 0x8100;
    pub(super) const IPV6: u16 = 0x86dd;
    pub(super) const MPLS: u16 = 0x8847;
    pub(super) const MPLS_UPSTREAM: u16 = 0x8848;
    pub(super) const PPPOE_SESSION: u16 = 0x8864;
    pub(super) const SERVICE_VLAN: u16 = 0x88a8;
    /// Cisco metadata: version, length in words, options such as the security group.
    pub(super) const CISCO_METADATA: u16 = 0x8909;
    /// Cisco VN-Tag.
    pub(super) const VN_TAG: u16 = 0x8926;
    /// IEEE 802.1BR E-Tag.
    pub(super) const E_TAG: u16 = 0x893f;
    pub(super) const OLD_QINQ: u16 = 0x9100;
    pub(super) const OLD_QINQ_2: u16 = 0x9200;
    /// Time stamp of an Arista switch between the addresses and the type.
    pub(super) const ARISTA: u16 = 0xd28b;
}

/// Ethernet types of tags between the addresses and the type of a frame, except VLAN tags.
pub(crate) const OTHER_TAGS: [u16; 4] =
    [ether::CISCO_METADATA, ether::VN_TAG, ether::E_TAG, ether::ARISTA];

/// Number of bytes of a tag of [`OTHER_TAGS`], after its type; `None` if its version is unknown.
fn other_tag(kind: u16, bytes: &[u8]) -> Option<usize> {
    match kind {
        ether::VN_TAG => Some(4),
        ether::E_TAG => Some(6),
        ether::CISCO_METADATA => Some(2 + 4 * usize::from(*bytes.get(1)?)),
        // Type 1 is a time stamp; the low byte of the version is its format: seconds of 32 or 16
        // bits, and nanoseconds.
        _ => match bytes.get(..4)? {
            [0, 1, _, 0x10] => Some(4 + 8),
            [0, 1, _, 0x20] => Some(4 + 6),
            _ => None,
        },
    }
}

/// Layer at the start of a frame of `link`, after headers of captures.
pub(super) fn first<'a>(
    link: LinkType,
    bytes: &'a [u8],
    tags: &mut Vec<Tag>,
) -> Result<(Layer, &'a [u8]), Skip> {
    let behind = |count: usize| bytes.get(count..).ok_or(Skip::Truncated);
    let type_at = |at| u16_at(bytes, at).map(Layer::Type).ok_or(Skip::Truncated);
    Ok(match link.0 {
        0 | 108 => {
            // The address family of the capturing host, in its byte order: IPv6
            // has a different number on each system, so the IP version decides.
            behind(4).map(|bytes| (Layer::Ip, bytes))?
        }
        1 => (Layer::Ethernet, bytes),
        9 | 50 => (Layer::Ppp, bytes),
        12 | 14 | 101 | 228 | 229 => (Layer::Ip, bytes),
        51 => (Layer::Type(ether::PPPOE_SESSION), bytes),
        104 => (Layer::Hdlc, bytes),
        107 => frame_relay(bytes)?,
        113 => (type_at(14)?, behind(16)?),
        // One byte has the direction.
        204 => (Layer::Ppp, behind(1)?),
        205 => (Layer::Hdlc, behind(1)?),
        219 => (Layer::Mpls, bytes),
        276 => {
            tags.push(Tag::Device(u32_at(bytes, 4).ok_or(Skip::Truncated)?));
            (type_at(0)?, behind(20)?)
        }
        239 => nflog(bytes)?,
        // Apple's libpcap writes the number of a user-defined type in older files.
        149 | 258 => {
            let (link, bytes) = pktap(link, bytes)?;
            return first(link, bytes, tags);
        }
        130..=137 | 167 | 168 | 178..=181 | 183 | 194 | 200 => juniper(link.0, bytes)?,
        link => return Err(Skip::Link(link)),
    })
}

/// Packet in a netfilter log: family, version, resource, and attributes with length and type in the
/// byte order of the capturing host.
fn nflog(bytes: &[u8]) -> Result<(Layer, &[u8]), Skip> {
    const PAYLOAD: u8 = 9;
    let mut rest = bytes.get(4..).ok_or(Skip::Truncated)?;
    loop {
        let Some(&[l0, l1, t0, t1]) = rest.first_chunk() else { return Err(Skip::Truncated) };
        // Types are small numbers.
        let (length, kind) = match (t0, t1) {
            (kind, 0) => (u16::from_le_bytes([l0, l1]), kind),
            (0, kind) => (u16::from_be_bytes([l0, l1]), kind),
            _ => return Err(Skip::Malformed),
        };
        let length = usize::from(length);
        if length < 4 {
            return Err(Skip::Malformed);
        }
        if kind == PAYLOAD {
            return Ok((Layer::Ip, &rest[4..length.min(rest.len())]));
        }
        rest = rest.get(length.next_multiple_of(4)..).ok_or(Skip::Truncated)?;
    }
}

/// Frame after the header of Apple's packet taps: length of the header, type of the record (1 for a
/// packet), link type, in the byte order of the capturing host.
fn pktap(link: LinkType, bytes: &[u8]) -> Result<(LinkType, &[u8]), Skip> {
    const PACKET: u32 = 1;
    let field = |at| u32_at(bytes, at).ok_or(Skip::Truncated);
    let (mut length, mut kind, mut inner) = (field(0)?, field(4)?, field(8)?);
    if kind != PACKET {
        (length, kind, inner) = (length.swap_bytes(), kind.swap_bytes(), inner.swap_bytes());
    }
    if kind != PACKET || length < 12 {
        return Err(Skip::Link(link.0));
    }
    let rest = bytes.get(length as usize..).ok_or(Skip::Truncated)?;
    // Headers of some writers have the name of the interface in place of the link type.
    let inner = match u16::try_from(inner) {
        Ok(149 | 258) => return Err(Skip::Link(link.0)),
        Ok(inner) => LinkType(inner),
        Err(_) if looks_like_ip(rest) => LinkType::RAW,
        Err(_) => LinkType::ETHERNET,
    };
    Ok((inner, rest))
}

/// Frame Relay (RFC 2427): address, control, NLPID.
fn frame_relay(bytes: &[u8]) -> Result<(Layer, &[u8]), Skip> {
    let end = bytes.iter().take(4).position(|byte| byte & 1 != 0).ok_or(Skip::Malformed)?;
    match bytes.get(end + 1..) {
        Some([0x03, 0xcc | 0x8e, rest @ ..]) => Ok((Layer::Ip, rest)),
        Some([0x03, 0x00, 0x80, 0, 0, 0, high, low, rest @ ..]) => {
            Ok((Layer::Type(u16::from_be_bytes([*high, *low])), rest))
        }
        Some([high, low, rest @ ..]) if *high == 8 && *low == 0 => Ok((Layer::Ip, rest)),
        Some(_) => Err(Skip::Foreign),
        None => Err(Skip::Truncated),
    }
}

/// Header of a Juniper router before captured frames: magic, flags, extensions.
fn juniper(link: u16, bytes: &[u8]) -> Result<(Layer, &[u8]), Skip> {
    const NO_LINK_HEADER: u8 = 2;
    const EXTENDED: u8 = 0x80;
    let [0x4d, 0x47, 0x43, flags, ..] = *bytes else { return Err(Skip::Malformed) };
    let mut at = 4;
    if flags & EXTENDED != 0 {
        at = 6 + usize::from(u16_at(bytes, 4).ok_or(Skip::Truncated)?);
    }
    let behind = |at: usize| bytes.get(at..).ok_or(Skip::Truncated);
    if flags & NO_LINK_HEADER != 0 {
        return behind(at + 4).map(|bytes| (Layer::Ip, bytes));
    }
    match link {
        167 | 178 => behind(at).map(|bytes| (Layer::Ethernet, bytes)),
        179 => behind(at).map(|bytes| (Layer::Ppp, bytes)),
        180 => frame_relay(behind(at)?),
        181 => behind(at).map(|bytes| (Layer::Hdlc, bytes)),
        // A cookie of the interface card, of an even number of at most 8 bytes, comes first.
        _ => [0, 4, 2, 6, 8]
            .into_iter()
            .filter_map(|cookie| bytes.get(at + cookie..))
            .find(|bytes| looks_like_ip(bytes))
            .map(|bytes| (Layer::Ip, bytes))
            .ok_or(Skip::Foreign),
    }
}

/// Whether the bytes may be an IP packet, by version and lengths.
pub(super) fn looks_like_ip(bytes: &[u8]) -> bool {
    let length = |at| u16_at(bytes, at).map_or(usize::MAX, usize::from);
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => bytes[0] & 0xf >= 5 && length(2) >= 20 && length(2) <= bytes.len(),
        Some(6) => length(4).saturating_add(40) <= bytes.len(),
        _ => false,
    }
}

pub(super) fn descend<'a>(
    mut layer: Layer,
    mut packet: Packet<'a>,
    tags: &mut Vec<Tag>,
    tunnels: &Tunnels,
) -> Result<Packet<'a>, Skip> {
    for _ in 0..STEPS_MAX {
        let bytes = packet.bytes;
        (layer, packet.bytes) = match layer {
            Layer::Ip | Layer::Type(ether::IPV4 | ether::IPV6) => return Ok(packet),
            Layer::Ethernet | Layer::Type(ether::BRIDGED) => ethernet(bytes)?,
            Layer::Type(
                ether::VLAN | ether::SERVICE_VLAN | ether::OLD_QINQ | ether::OLD_QINQ_2,
            ) => {
                let [control, control_low, high, low, rest @ ..] = bytes else {
                    return Err(Skip::Truncated);
                };
                // 0 is a priority tag without a VLAN.
                match u16::from_be_bytes([*control, *control_low]) & 0xfff {
                    0 => {}
                    vlan => tags.push(Tag::Vlan(vlan)),
                }
                by_type(u16::from_be_bytes([*high, *low]), rest)?
            }
            Layer::Type(
                kind @ (ether::CISCO_METADATA | ether::VN_TAG | ether::E_TAG | ether::ARISTA),
            ) => {
                let length = other_tag(kind, bytes).ok_or(Skip::Foreign)?;
                let ether = u16_at(bytes, length).ok_or(Skip::Truncated)?;
                by_type(ether, &bytes[length + 2..])?
            }
            Layer::Type(ether::PPPOE_SESSION) if tunnels.pppoe => {
                let Some([0x11, 0, ..]) = bytes.get(..6) else { return Err(Skip::Foreign) };
                (Layer::Ppp, &bytes[6..])
            }
            Layer::Mpls | Layer::Type(ether::MPLS | ether::MPLS_UPSTREAM) if tunnels.mpls => {
                mpls(bytes, packet.cut)?
            }
            Layer::Mpls | Layer::Type(_) => return Err(Skip::Foreign),
            Layer::Ppp => ppp(bytes)?,
            Layer::Hdlc => {
                let ether = u16_at(bytes, 2).ok_or(Skip::Truncated)?;
                (Layer::Type(ether), &bytes[4..])
            }
        };
    }
    Err(Skip::Deep)
}

fn ethernet(bytes: &[u8]) -> Result<(Layer, &[u8]), Skip> {
    let Some(header) = bytes.first_chunk::<14>() else { return Err(Skip::Truncated) };
    by_type(u16::from_be_bytes([header[12], header[13]]), &bytes[14..])
}

/// A type, or the length of an IEEE 802.3 frame with LLC and SNAP.
fn by_type(ether: u16, bytes: &[u8]) -> Result<(Layer, &[u8]), Skip> {
    if ether >= 0x0600 {
        return Ok((Layer::Type(ether), bytes));
    }
    match bytes {
        [0xaa, 0xaa, 3, 0, 0, 0 | 0xf8, high, low, rest @ ..] => {
            Ok((Layer::Type(u16::from_be_bytes([*high, *low])), rest))
        }
        _ => Err(Skip::Foreign),
    }
}

/// PPP (RFC 1661), with HDLC-like framing (RFC 1662) or without; or Cisco's HDLC, which some
/// routers capture as PPP.
fn ppp(bytes: &[u8]) -> Result<(Layer, &[u8]), Skip> {
    let bytes = match bytes {
        [0xff, 3, rest @ ..] => rest,
        [0x0f | 0x8f, 0, ..] => return Ok((Layer::Hdlc, bytes)),
        bytes => bytes,
    };
    // Protocols of one byte are odd.
    let (protocol, rest) = match bytes {
        [short, rest @ ..] if short & 1 != 0 => (u16::from(*short), rest),
        [high, low, rest @ ..] => (u16::from_be_bytes([*high, *low]), rest),
        _ => return Err(Skip::Truncated),
    };
    match protocol {
        0x0021 | 0x0057 => Ok((Layer::Ip, rest)),
        0x0281 | 0x0283 => Ok((Layer::Mpls, rest)),
        _ => Err(Skip::Foreign),
    }
}

/// A stack of labels (RFC 3032) and its probable payload: IP, or Ethernet as in a pseudowire (RFC
/// 4448), with or without a control word.
fn mpls(mut bytes: &[u8], cut: u32) -> Result<(Layer, &[u8]), Skip> {
    for _ in 0..STEPS_MAX {
        let label = u32_at(bytes, 0).ok_or(Skip::Truncated)?;
        bytes = &bytes[4..];
        if label & 0x100 == 0 {
            continue;
        }
        let first = *bytes.first().ok_or(Skip::Truncated)?;
        return Ok(match first >> 4 {
            4 | 6 if looks_like_ip(bytes) || cut > 0 => (Layer::Ip, bytes),
            // An address may also start with 0: then the type after the control word is invalid,
            // and the one without it is valid.
            0 if known(bytes.get(4..)) || !known(Some(bytes)) => {
                (Layer::Ethernet, bytes.get(4..).ok_or(Skip::Truncated)?)
            }
            1 => return Err(Skip::Foreign),
            _ => (Layer::Ethernet, bytes),
        });
    }
    Err(Skip::Deep)
}

/// Whether the Ethernet type is one that is decapsulated.
fn known(bytes: Option<&[u8]>) -> bool {
    let ether = bytes.and_then(|bytes| u16_at(bytes, 12));
    matches!(
        ether,
        Some(
            ether::IPV4
                | ether::IPV6
                | ether::VLAN
                | ether::SERVICE_VLAN
                | ether::OLD_QINQ
                | ether::MPLS
                | ether::PPPOE_SESSION
                | ether::CISCO_METADATA
                | ether::VN_TAG
                | ether::E_TAG
                | ether::ARISTA
        )
    )
}
