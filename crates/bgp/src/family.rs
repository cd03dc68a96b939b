//! Address families (RFC 4760): which kind of reachability an NLRI field holds.

use std::fmt;

/// Address family identifier, as IANA numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Afi(pub u16);

#[expect(missing_docs, reason = "the names are the registry's")]
impl Afi {
    pub const IPV4: Self = Self(1);
    pub const IPV6: Self = Self(2);
    pub const L2VPN: Self = Self(25);
    pub const SERVICE_CHAIN: Self = Self(31);
    pub const BGP_LS: Self = Self(16388);
}

/// Subsequent address family identifier, as IANA numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Safi(pub u8);

#[expect(missing_docs, reason = "the names are the registry's")]
impl Safi {
    pub const UNICAST: Self = Self(1);
    pub const MULTICAST: Self = Self(2);
    pub const LABELLED: Self = Self(4);
    pub const MCAST_VPN: Self = Self(5);
    pub const SERVICE_CHAIN: Self = Self(9);
    pub const VPLS: Self = Self(65);
    pub const EVPN: Self = Self(70);
    pub const BGP_LS: Self = Self(71);
    pub const BGP_LS_VPN: Self = Self(72);
    pub const SR_POLICY: Self = Self(73);
    pub const MPLS_VPN: Self = Self(128);
    pub const MCAST_MPLS_VPN: Self = Self(129);
    pub const ROUTE_TARGET: Self = Self(132);
    pub const FLOWSPEC: Self = Self(133);
    pub const FLOWSPEC_VPN: Self = Self(134);
}

/// An address family: what the prefixes of an NLRI field are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Family {
    /// Of addresses.
    pub afi: Afi,
    /// Of what is said about them.
    pub safi: Safi,
}

impl Family {
    /// IPv4 unicast: what plain BGP-4 speaks.
    pub const IPV4_UNICAST: Self = Self { afi: Afi::IPV4, safi: Safi::UNICAST };
    /// IPv6 unicast.
    pub const IPV6_UNICAST: Self = Self { afi: Afi::IPV6, safi: Safi::UNICAST };
}

/// `1/1`: the two numbers.
impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.afi.0, self.safi.0)
    }
}
