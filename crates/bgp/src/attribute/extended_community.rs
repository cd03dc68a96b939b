//! Extended communities of eight octets (RFC 4360, 5668, 7153 and those that registered more).

use std::fmt;
use std::net::Ipv4Addr;

use crate::fields::{Hex, write_list};
use crate::nlri::evpn::Mac;
use crate::{Asn, Error, Result};

/// An extended community as it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtendedCommunity(pub [u8; 8]);

/// What the six octets behind the type are.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExtendedValue {
    /// An AS of two octets and a number.
    As2(u16, u32),
    /// An address and a number.
    Address(Ipv4Addr, u16),
    /// An AS of four octets and a number (RFC 5668).
    As4(Asn, u16),
    /// An AS and a rate: link bandwidth and flowspec's traffic rates. Bytes (or packets) a second.
    Rate(u16, f32),
    /// Color (RFC 9012 §4.3): flags and color.
    Color(u16, u32),
    /// Tunnel type (RFC 9012 §4.1).
    Encapsulation(u16),
    /// OSPF route type (RFC 4577 §4.2.6): area, type, options.
    OspfRoute(Ipv4Addr, u8, u8),
    /// Origin validation (RFC 8097): 0 valid, 1 not found, 2 invalid.
    Validation(u8),
    /// MAC mobility (RFC 7432 §7.7): flags (1: sticky) and sequence number.
    Mobility(u8, u32),
    /// ESI label (RFC 7432 §7.5) and E-Tree (RFC 8317 §5.1): flags and label of three octets.
    FlagsLabel(u8, u32),
    /// ES-import target and router's MAC address (RFC 7432 §7.6, RFC 9135 §8.1).
    Mac(Mac),
    /// Layer 2 attributes (RFC 8214 §3.1): flags and MTU.
    Layer2(u16, u16),
    /// Designated forwarder election (RFC 8584 §2.2): algorithm, capabilities, preference.
    Election(u8, u16, u16),
    /// Flowspec's traffic action (RFC 8955 §7.3): bit 0 goes on, bit 1 samples.
    Action(u8),
    /// Flowspec's marking (RFC 8955 §7.5): the DSCP.
    Marking(u8),
    /// Layer 2 info of VPLS (RFC 4761 §3.2.4): encapsulation, flags, MTU.
    Layer2Info(u8, u8, u16),
    /// Cost (custom, widely used): point of insertion, id, cost.
    Cost(u8, u8, u32),
    /// Not known.
    Opaque([u8; 6]),
}

/// Type, subtype, name: as operators write them. The non-transitive bit is not looked at.
const NAMES: [(u8, u8, &str); 65] = [
    (0x00, 0x02, "rt"),
    (0x00, 0x03, "ro"),
    (0x00, 0x04, "link-bandwidth"),
    (0x00, 0x05, "ospf-domain"),
    (0x00, 0x08, "data-collection"),
    (0x00, 0x09, "source-as"),
    (0x00, 0x0a, "l2vpn-id"),
    (0x00, 0x10, "vpn-distinguisher"),
    (0x01, 0x02, "rt"),
    (0x01, 0x03, "ro"),
    (0x01, 0x05, "ospf-domain"),
    (0x01, 0x07, "ospf-router"),
    (0x01, 0x0a, "l2vpn-id"),
    (0x01, 0x0b, "vrf-route-import"),
    (0x01, 0x0c, "flow-redirect-ip"),
    (0x01, 0x10, "vpn-distinguisher"),
    (0x01, 0x12, "inter-area-p2mp"),
    (0x02, 0x02, "rt"),
    (0x02, 0x03, "ro"),
    (0x02, 0x04, "generic"),
    (0x02, 0x05, "ospf-domain"),
    (0x02, 0x08, "data-collection"),
    (0x02, 0x09, "source-as"),
    (0x02, 0x10, "vpn-distinguisher"),
    (0x03, 0x00, "origin-validation"),
    (0x03, 0x01, "cost"),
    (0x03, 0x03, "cp-orf"),
    (0x03, 0x04, "extranet-source"),
    (0x03, 0x05, "extranet-separation"),
    (0x03, 0x06, "ospf-route-type"),
    (0x03, 0x07, "additional-pmsi"),
    (0x03, 0x08, "context-label-space"),
    (0x03, 0x0b, "color"),
    (0x03, 0x0c, "encapsulation"),
    (0x03, 0x0d, "default-gateway"),
    (0x03, 0x0e, "p2mp-segmented-next-hop"),
    (0x03, 0x14, "consistent-hash"),
    (0x06, 0x00, "mac-mobility"),
    (0x06, 0x01, "esi-label"),
    (0x06, 0x02, "es-import"),
    (0x06, 0x03, "router-mac"),
    (0x06, 0x04, "l2-attributes"),
    (0x06, 0x05, "e-tree"),
    (0x06, 0x06, "df-election"),
    (0x06, 0x07, "i-sid"),
    (0x06, 0x08, "arp-nd"),
    (0x06, 0x09, "multicast-flags"),
    (0x06, 0x0a, "evi-rt0"),
    (0x06, 0x0b, "evi-rt1"),
    (0x06, 0x0c, "evi-rt2"),
    (0x06, 0x0d, "evi-rt3"),
    (0x06, 0x0f, "service-carving"),
    (0x08, 0x00, "flow-redirect-indirection"),
    (0x0a, 0x02, "transport-class"),
    (0x0b, 0x01, "sfir-pool"),
    (0x0b, 0x02, "sfc-mixed-swapping"),
    (0x80, 0x04, "cisco-vpn-id"),
    (0x80, 0x06, "flow-rate"),
    (0x80, 0x07, "flow-action"),
    (0x80, 0x08, "flow-redirect"),
    (0x80, 0x09, "flow-mark"),
    (0x80, 0x0a, "l2-info"),
    (0x80, 0x0c, "flow-rate-packets"),
    (0x81, 0x08, "flow-redirect"),
    (0x82, 0x08, "flow-redirect"),
];

impl ExtendedCommunity {
    const NON_TRANSITIVE: u8 = 0x40;

    /// Of a type, a subtype and a value.
    pub fn new(kind: u8, subtype: u8, value: ExtendedValue) -> Self {
        let mut whole = [kind, subtype, 0, 0, 0, 0, 0, 0];
        whole[2..].copy_from_slice(&value.octets());
        Self(whole)
    }

    /// A route target: two octets of AS if the number fits, else four (RFC 5668), with which
    /// `number` is cut to 16 bits.
    pub fn route_target(asn: Asn, number: u32) -> Self {
        match u16::try_from(asn.0) {
            Ok(short) => Self::new(0, 2, ExtendedValue::As2(short, number)),
            Err(_) => Self::new(2, 2, ExtendedValue::As4(asn, number as u16)),
        }
    }

    /// The high octet of the type.
    pub const fn kind(self) -> u8 {
        self.0[0]
    }

    /// The low octet of the type.
    pub const fn subtype(self) -> u8 {
        self.0[1]
    }

    /// Whether it goes on to other ASes.
    pub const fn is_transitive(self) -> bool {
        self.0[0] & Self::NON_TRANSITIVE == 0
    }

    /// What operators call it; `None` for what is not known.
    pub fn name(self) -> Option<&'static str> {
        let kind = self.0[0] & !Self::NON_TRANSITIVE;
        let known = NAMES.iter().find(|known| (known.0, known.1) == (kind, self.0[1]));
        known.map(|known| known.2)
    }

    /// The six octets behind the type.
    pub fn octets(self) -> [u8; 6] {
        let [_, _, value @ ..] = self.0;
        value
    }

    /// What it says.
    pub fn value(self) -> ExtendedValue {
        let octets = self.octets();
        let short = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
        let word = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
        let address = Ipv4Addr::from_bits(word(0));
        let (first, last) = (octets[0], octets[5]);
        match (self.0[0] & !Self::NON_TRANSITIVE, self.0[1]) {
            (0x00, 0x04) | (0x80, 0x06 | 0x0c) => {
                ExtendedValue::Rate(short(0), f32::from_bits(word(2)))
            }
            (0x00, _) | (0x80, 0x08) => ExtendedValue::As2(short(0), word(2)),
            (0x01, _) | (0x81, 0x08) => ExtendedValue::Address(address, short(4)),
            (0x02, _) | (0x82, 0x08) => ExtendedValue::As4(Asn(word(0)), short(4)),
            (0x03, 0x00) if !self.is_transitive() => ExtendedValue::Validation(last),
            (0x03, 0x01) => ExtendedValue::Cost(first, octets[1], word(2)),
            (0x03, 0x06) => ExtendedValue::OspfRoute(address, octets[4], last),
            (0x03, 0x0b) => ExtendedValue::Color(short(0), word(2)),
            (0x03, 0x0c) => ExtendedValue::Encapsulation(short(4)),
            (0x06, 0x00) => ExtendedValue::Mobility(first, word(2)),
            (0x06, 0x01 | 0x05) => ExtendedValue::FlagsLabel(first, word(2) & 0xff_ffff),
            (0x06, 0x02 | 0x03) => ExtendedValue::Mac(Mac(octets)),
            (0x06, 0x04) => ExtendedValue::Layer2(short(0), short(2)),
            (0x06, 0x06) => ExtendedValue::Election(first, short(1), short(4)),
            (0x80, 0x07) => ExtendedValue::Action(last),
            (0x80, 0x09) => ExtendedValue::Marking(last),
            (0x80, 0x0a) => ExtendedValue::Layer2Info(first, octets[1], short(2)),
            _ => ExtendedValue::Opaque(octets),
        }
    }
}

impl ExtendedValue {
    /// As six octets; reserved ones are 0.
    pub fn octets(self) -> [u8; 6] {
        match self {
            Self::As2(asn, number) => joined(asn.to_be_bytes(), number.to_be_bytes()),
            Self::Address(address, number) => joined(address.octets(), number.to_be_bytes()),
            Self::As4(asn, number) => joined(asn.0.to_be_bytes(), number.to_be_bytes()),
            Self::Rate(asn, rate) => joined(asn.to_be_bytes(), rate.to_bits().to_be_bytes()),
            Self::Color(flags, color) => joined(flags.to_be_bytes(), color.to_be_bytes()),
            Self::Encapsulation(tunnel) => joined([0; 4], tunnel.to_be_bytes()),
            Self::OspfRoute(area, kind, options) => joined(area.octets(), [kind, options]),
            Self::Validation(state) => [0, 0, 0, 0, 0, state],
            Self::Mobility(flags, sequence) => joined([flags, 0], sequence.to_be_bytes()),
            Self::FlagsLabel(flags, label) => {
                let [_, high, middle, low] = label.to_be_bytes();
                [flags, 0, 0, high, middle, low]
            }
            Self::Mac(mac) => mac.0,
            Self::Layer2(flags, mtu) => joined(flags.to_be_bytes(), mtu.to_be_bytes()),
            Self::Election(algorithm, capabilities, preference) => {
                let [high, low] = capabilities.to_be_bytes();
                joined([algorithm, high, low, 0], preference.to_be_bytes())
            }
            Self::Action(bits) => [0, 0, 0, 0, 0, bits],
            Self::Marking(dscp) => [0, 0, 0, 0, 0, dscp],
            Self::Layer2Info(encapsulation, flags, mtu) => {
                joined([encapsulation, flags], mtu.to_be_bytes())
            }
            Self::Cost(point, id, cost) => joined([point, id], cost.to_be_bytes()),
            Self::Opaque(octets) => octets,
        }
    }
}

/// Two fields that together have six octets.
fn joined<const A: usize, const B: usize>(first: [u8; A], second: [u8; B]) -> [u8; 6] {
    let mut octets = [0; 6];
    octets[..A].copy_from_slice(&first);
    octets[A..A + B].copy_from_slice(&second);
    octets
}

/// Numbers with colons between them, as after `rt:`.
impl fmt::Display for ExtendedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::As2(asn, number) => write!(f, "{asn}:{number}"),
            Self::Address(address, number) => write!(f, "{address}:{number}"),
            Self::As4(asn, number) => write!(f, "{asn}:{number}"),
            Self::Rate(asn, rate) => write!(f, "{asn}:{rate}"),
            Self::Color(flags, color) => write!(f, "{flags}:{color}"),
            Self::Encapsulation(tunnel) => match super::tunnel_encapsulation::name(*tunnel) {
                Some(name) => f.write_str(name),
                None => tunnel.fmt(f),
            },
            Self::OspfRoute(area, kind, options) => write!(f, "{area}:{kind}:{options}"),
            Self::Validation(0) => f.write_str("valid"),
            Self::Validation(1) => f.write_str("not-found"),
            Self::Validation(2) => f.write_str("invalid"),
            Self::Validation(value) | Self::Action(value) | Self::Marking(value) => value.fmt(f),
            Self::Mobility(flags, sequence) => {
                write!(f, "{sequence}{}", if flags & 1 != 0 { ":sticky" } else { "" })
            }
            Self::FlagsLabel(flags, label) => write!(f, "{flags}:{}", label >> 4),
            Self::Mac(mac) => mac.fmt(f),
            Self::Layer2(flags, mtu) => write!(f, "{flags}:{mtu}"),
            Self::Election(algorithm, capabilities, preference) => {
                write!(f, "{algorithm}:{capabilities}:{preference}")
            }
            Self::Layer2Info(encapsulation, flags, mtu) => {
                write!(f, "{encapsulation}:{flags}:{mtu}")
            }
            Self::Cost(point, id, cost) => write!(f, "{point}:{id}:{cost}"),
            Self::Opaque(octets) => write!(f, "0x{}", Hex(octets)),
        }
    }
}

/// `rt:65000:1`; without a name the type in hexadecimal digits: `0x0123:...`.
impl fmt::Display for ExtendedCommunity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name)?,
            None => write!(f, "0x{}", Hex(&self.0[..2]))?,
        }
        write!(f, ":{}", self.value())
    }
}

/// The value of attribute 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtendedCommunities<'a>(&'a [[u8; 8]]);

impl<'a> ExtendedCommunities<'a> {
    /// Wrong unless they have eight octets each and there is one (RFC 7606 §7.14).
    pub fn parse(value: &'a [u8]) -> Result<Self> {
        let (communities, rest) = value.as_chunks();
        if rest.is_empty() && !communities.is_empty() {
            return Ok(Self(communities));
        }
        let (field, size) = ("EXTENDED_COMMUNITIES", value.len() as u64);
        Err(Error::Value { field, at: 0, value: size, wrong: "no multiple of 8, or 0" })
    }

    /// The communities, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = ExtendedCommunity> + 'a {
        self.0.iter().map(|octets| ExtendedCommunity(*octets))
    }

    /// Appends the value of an attribute.
    pub fn encode(communities: &[ExtendedCommunity], out: &mut Vec<u8>) {
        out.extend(communities.iter().flat_map(|community| community.0));
    }

    /// The value as it is sent.
    pub const fn bytes(self) -> &'a [u8] {
        self.0.as_flattened()
    }
}

/// With spaces between them.
impl fmt::Display for ExtendedCommunities<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_list(f, " ", self.iter())
    }
}

/// Whether attribute 16 is well-formed; if it is not, its routes are withdrawn (RFC 7606 §7.14).
pub fn check(value: &[u8]) -> Result<()> {
    ExtendedCommunities::parse(value).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_written_as_operators_write_them() {
        let written = [
            ([0, 2, 0xfd, 0xe8, 0, 0, 0, 1], "rt:65000:1"),
            ([1, 2, 10, 0, 0, 1, 0, 7], "rt:10.0.0.1:7"),
            ([2, 3, 0, 1, 0, 0, 0, 7], "ro:65536:7"),
            ([0x40, 4, 0xfd, 0xe8, 0x49, 0x98, 0x96, 0x80], "link-bandwidth:65000:1250000"),
            ([0x43, 0, 0, 0, 0, 0, 0, 2], "origin-validation:invalid"),
            ([3, 0x0c, 0, 0, 0, 0, 0, 8], "encapsulation:vxlan"),
            ([3, 0x0b, 0, 0, 0, 0, 0, 100], "color:0:100"),
            ([6, 0, 1, 0, 0, 0, 0, 5], "mac-mobility:5:sticky"),
            ([6, 3, 2, 0, 0, 0, 0, 1], "router-mac:02:00:00:00:00:01"),
            ([0x80, 6, 0, 0, 0, 0, 0, 0], "flow-rate:0:0"),
            ([0x80, 9, 0, 0, 0, 0, 0, 46], "flow-mark:46"),
            ([0x99, 1, 1, 2, 3, 4, 5, 6], "0x9901:0x010203040506"),
        ];
        for (octets, text) in written {
            assert_eq!(ExtendedCommunity(octets).to_string(), text);
        }
        assert!(!ExtendedCommunity([0x40, 4, 0, 0, 0, 0, 0, 0]).is_transitive());
        assert_eq!(ExtendedCommunity::route_target(Asn(65000), 1).to_string(), "rt:65000:1");
        assert_eq!(ExtendedCommunity::route_target(Asn(70000), 1).to_string(), "rt:70000:1");
    }

    #[test]
    fn a_list_is_whole_or_wrong() {
        assert!(check(&[]).is_err());
        assert!(check(&[0; 12]).is_err());
        let list = [ExtendedCommunity([0, 2, 0, 1, 0, 0, 0, 2]); 2];
        let mut bytes = Vec::new();
        ExtendedCommunities::encode(&list, &mut bytes);
        let parsed = ExtendedCommunities::parse(&bytes).unwrap();
        assert!(parsed.iter().eq(list));
        assert_eq!(parsed.to_string(), "rt:1:2 rt:1:2");
    }

    proptest::proptest! {
        #[test]
        fn values_survive_being_written(octets: [u8; 8]) {
            let community = ExtendedCommunity(octets);
            let again = ExtendedCommunity::new(octets[0], octets[1], community.value());
            // Through the text of Debug, since a rate may be no number.
            let (value, again) = (community.value(), again.value());
            proptest::prop_assert_eq!(format!("{value:?}"), format!("{again:?}"));
        }
    }
}
