//! Address families (RFC 4760): the type of the routes in an NLRI field.

use std::fmt;

/// Address family identifier of the IANA registry.
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

/// Subsequent address family identifier of the IANA registry.
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

/// An address family: the type of prefixes or routes in an NLRI field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Family {
    /// Address family identifier (AFI).
    pub afi: Afi,
    /// Subsequent address family identifier (SAFI).
    pub safi: Safi,
}

impl Family {
    /// IPv4 unicast: the family of plain BGP-4.
    pub const IPV4_UNICAST: Self = Self { afi: Afi::IPV4, safi: Safi::UNICAST };
    /// Unicast routes of IPv6.
    pub const IPV6_UNICAST: Self = Self { afi: Afi::IPV6, safi: Safi::UNICAST };
}

const AFI_NAMES: &[(u16, &str)] = &[(1, "ipv4"), (2, "ipv6"), (25, "l2vpn"), (16388, "bgp-ls")];

const SAFI_NAMES: &[(u8, &str)] = &[
    (1, "unicast"),
    (2, "multicast"),
    (4, "labelled-unicast"),
    (5, "mcast-vpn"),
    (65, "vpls"),
    (70, "evpn"),
    (71, "bgp-ls"),
    (72, "bgp-ls-vpn"),
    (73, "sr-policy"),
    (128, "mpls-vpn"),
    (129, "mcast-mpls-vpn"),
    (132, "route-target"),
    (133, "flowspec"),
    (134, "flowspec-vpn"),
];

/// Names of families as in RIS Live: `ipv4/unicast`. A part without a name is a number: `31/9`.
impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match AFI_NAMES.iter().find(|(number, _)| *number == self.afi.0) {
            Some((_, name)) => f.write_str(name)?,
            None => self.afi.0.fmt(f)?,
        }
        f.write_str("/")?;
        match SAFI_NAMES.iter().find(|(number, _)| *number == self.safi.0) {
            Some((_, name)) => f.write_str(name),
            None => self.safi.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn family_without_name_is_shown_as_numbers() {
        assert_eq!(Family::IPV4_UNICAST.to_string(), "ipv4/unicast");
        let unnamed = Family { afi: Afi::SERVICE_CHAIN, safi: Safi::SERVICE_CHAIN };
        assert_eq!(unnamed.to_string(), "31/9");
    }
}
