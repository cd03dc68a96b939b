//! The aggregator of a route (RFC 4271 §5.1.7, four octets: RFC 6793).

use std::net::Ipv4Addr;

use crate::Asn;

/// The speaker that aggregated a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Aggregator {
    /// AS of the speaker.
    pub asn: Asn,
    /// Address or BGP identifier of the speaker.
    pub address: Ipv4Addr,
}

impl Aggregator {
    /// Parses six octets, or eight with AS numbers of four; `None` for other lengths.
    #[inline]
    pub(crate) fn parse(value: &[u8], four_octet_as: bool) -> Option<Self> {
        let (asn, address) = value.split_at_checked(value.len().checked_sub(4)?)?;
        let asn = match *asn {
            [a, b] if !four_octet_as => u16::from_be_bytes([a, b]).into(),
            [a, b, c, d] if four_octet_as => u32::from_be_bytes([a, b, c, d]),
            _ => return None,
        };
        let address = u32::from_be_bytes(*address.first_chunk()?);
        Some(Self { asn: Asn(asn), address: Ipv4Addr::from_bits(address) })
    }

    /// Appends the value, with [`Asn::TRANS`] where the AS number needs more than two octets.
    pub(crate) fn encode(self, four_octet_as: bool, to: &mut Vec<u8>) {
        if four_octet_as {
            to.extend_from_slice(&self.asn.0.to_be_bytes());
        } else {
            to.extend_from_slice(&self.asn.two_octets().to_be_bytes());
        }
        to.extend_from_slice(&self.address.octets());
    }
}
