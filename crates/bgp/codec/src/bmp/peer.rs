//! The per-peer header: the peer and the table that a packet describes (RFC 7854 §4.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::Time;

use crate::cursor::Cursor;
use crate::{Asn, Result};

/// Types of peers (RFC 7854 §4.2, RFC 9069 §4.1).
#[expect(missing_docs, reason = "the names are the registry's")]
pub mod peer_type {
    pub const GLOBAL: u8 = 0;
    pub const LOCAL: u8 = 2;
    pub const LOC_RIB: u8 = 3;
}

/// Flags of peers (RFC 7854 §4.2, RFC 8671 §4, RFC 9069 §4.2).
pub mod peer_flags {
    /// The peer's address is IPv6 (V).
    pub const IPV6: u8 = 0x80;
    /// Routes after the inbound or outbound policy (L).
    pub const POST_POLICY: u8 = 0x40;
    /// `AS_PATH` has numbers of two octets (A).
    pub const TWO_OCTET_AS: u8 = 0x20;
    /// Routes sent to the peer (O).
    pub const ADJ_RIB_OUT: u8 = 0x10;
}

/// The per-peer header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerHeader {
    /// See [`peer_type`].
    pub kind: u8,
    /// See [`peer_flags`].
    pub flags: u8,
    /// Route distinguisher, or a number that distinguishes local instances; else 0.
    pub distinguisher: u64,
    /// The peer's address; IPv4 in the last four octets.
    pub octets: [u8; 16],
    /// AS of the peer.
    pub asn: Asn,
    /// BGP identifier of the peer.
    pub id: u32,
    /// Time in seconds since 1970; 0 if the router does not report it.
    pub seconds: u32,
    /// Microseconds of the time.
    pub microseconds: u32,
}

impl PeerHeader {
    /// Length in bytes.
    pub const LENGTH: usize = 42;

    /// The header of a global peer; only the address family sets a flag.
    pub fn global(time: Time, address: IpAddr, asn: Asn, id: u32) -> Self {
        let (flags, octets) = match address {
            IpAddr::V4(address) => (0, u128::from(address.to_bits()).to_be_bytes()),
            IpAddr::V6(address) => (peer_flags::IPV6, address.octets()),
        };
        let nanos = time.as_nanos();
        Self {
            kind: peer_type::GLOBAL,
            flags,
            distinguisher: 0,
            octets,
            asn,
            id,
            seconds: (nanos / 1_000_000_000) as u32,
            microseconds: (nanos % 1_000_000_000 / 1000) as u32,
        }
    }

    pub(super) fn parse(fields: &mut Cursor<'_>) -> Result<Self> {
        let bytes = fields.take(Self::LENGTH, "per-peer header")?;
        let mut fields = Cursor::new(bytes, 0);
        let kind = fields.u8("peer type")?;
        let flags = fields.u8("peer flags")?;
        let high = fields.u32("peer distinguisher")?;
        let low = fields.u32("peer distinguisher")?;
        let mut octets = [0; 16];
        octets.copy_from_slice(fields.take(16, "peer address")?);
        Ok(Self {
            kind,
            flags,
            distinguisher: u64::from(high) << 32 | u64::from(low),
            octets,
            asn: Asn(fields.u32("peer AS")?),
            id: fields.u32("peer BGP identifier")?,
            seconds: fields.u32("seconds")?,
            microseconds: fields.u32("microseconds")?,
        })
    }

    /// Whether the packet describes the router's own Loc-RIB. Its flags have other meanings.
    pub const fn is_loc_rib(&self) -> bool {
        self.kind == peer_type::LOC_RIB
    }

    /// Whether the peer's address is IPv6.
    pub const fn is_ipv6(&self) -> bool {
        !self.is_loc_rib() && self.flags & peer_flags::IPV6 != 0
    }

    /// Whether routes are those after the policy.
    pub const fn is_post_policy(&self) -> bool {
        !self.is_loc_rib() && self.flags & peer_flags::POST_POLICY != 0
    }

    /// Whether `AS_PATH` has numbers of two octets.
    pub const fn is_two_octet_as(&self) -> bool {
        !self.is_loc_rib() && self.flags & peer_flags::TWO_OCTET_AS != 0
    }

    /// Whether routes are those sent to the peer instead of those received from it.
    pub const fn is_adj_rib_out(&self) -> bool {
        !self.is_loc_rib() && self.flags & peer_flags::ADJ_RIB_OUT != 0
    }

    /// The peer's address.
    pub fn address(&self) -> IpAddr {
        let bits = u128::from_be_bytes(self.octets);
        if self.is_ipv6() {
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        } else {
            IpAddr::V4(Ipv4Addr::from_bits(bits as u32))
        }
    }

    /// Time since 1970; `None` if the router does not report it.
    pub fn time(&self) -> Option<Time> {
        let nanos = u64::from(self.seconds) * 1_000_000_000 + u64::from(self.microseconds) * 1000;
        (nanos != 0).then(|| Time::from_nanos(nanos))
    }
}
