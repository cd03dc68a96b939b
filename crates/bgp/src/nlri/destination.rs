//! Routes of any family, typed: what each family's routes lead to.

use std::fmt;

use super::bgp_ls::LinkState;
use super::evpn::Evpn;
use super::flowspec::Flowspec;
use super::labelled::Labelled;
use super::mcast_vpn::McastVpn;
use super::route_target::RouteTarget;
use super::service_chain::ServiceChain;
use super::sr_policy::SrPolicy;
use super::vpls::Vpls;
use super::vpn::Vpn;
use super::{Route, Routes};
use crate::cursor::Cursor;
use crate::fields::Hex;
use crate::{Afi, Family, Prefix, Result, Safi};

/// What a route leads to, by family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Destination<'a> {
    /// Unicast and multicast.
    Prefix(Prefix),
    /// Labelled unicast.
    Labelled(Labelled<'a>),
    /// Prefix of a VPN.
    Vpn(Vpn<'a>),
    /// Ethernet VPN.
    Evpn(Evpn<'a>),
    /// Flow specification, also of a VPN.
    Flowspec(Flowspec<'a>),
    /// Link state, also of a VPN.
    LinkState(LinkState<'a>),
    /// Multicast VPN.
    McastVpn(McastVpn<'a>),
    /// Membership in a route target.
    RouteTarget(RouteTarget),
    /// Service function chain.
    ServiceChain(ServiceChain<'a>),
    /// Segment routing policy.
    SrPolicy(SrPolicy),
    /// Virtual private LAN.
    Vpls(Vpls<'a>),
    /// A family that is not known.
    Opaque(&'a [u8]),
}

impl<'a> Destination<'a> {
    /// What a framed route of `family` leads to. An error means that this route is malformed, but
    /// those behind it can still be read.
    pub fn decode(route: &Route<'a>, family: Family) -> Result<Self> {
        let mut cursor = Cursor::new(route.bytes, route.at);
        let afi = family.afi;
        let read = &mut cursor;
        let inet = afi == Afi::IPV4 || afi == Afi::IPV6;
        let destination = match family.safi {
            Safi::UNICAST | Safi::MULTICAST if inet => {
                let bits = read.u8("prefix length")?;
                Self::Prefix(read.prefix(afi, bits, "prefix")?)
            }
            Safi::LABELLED if inet => Self::Labelled(Labelled::read(read, afi)?),
            Safi::MPLS_VPN if inet => Self::Vpn(Vpn::read(read, afi, true)?),
            Safi::MCAST_MPLS_VPN if inet => Self::Vpn(Vpn::read(read, afi, false)?),
            Safi::MCAST_VPN if inet => Self::McastVpn(McastVpn::read(read)?),
            Safi::ROUTE_TARGET if inet => Self::RouteTarget(RouteTarget::read(read)?),
            Safi::SR_POLICY if inet => Self::SrPolicy(SrPolicy::read(read)?),
            Safi::FLOWSPEC if inet => Self::Flowspec(Flowspec::read(read, afi, false)?),
            Safi::FLOWSPEC_VPN if inet => Self::Flowspec(Flowspec::read(read, afi, true)?),
            Safi::SERVICE_CHAIN if afi == Afi::SERVICE_CHAIN => {
                Self::ServiceChain(ServiceChain::read(read)?)
            }
            Safi::EVPN if afi == Afi::L2VPN => Self::Evpn(Evpn::read(read)?),
            Safi::VPLS if afi == Afi::L2VPN => Self::Vpls(Vpls::read(read)?),
            Safi::BGP_LS if afi == Afi::BGP_LS => Self::LinkState(LinkState::read(read, false)?),
            Safi::BGP_LS_VPN if afi == Afi::BGP_LS => Self::LinkState(LinkState::read(read, true)?),
            _ => Self::Opaque(read.finish()),
        };
        cursor.end("route")?;
        Ok(destination)
    }

    /// Appends it as NLRI, without a path identifier.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Prefix(prefix) => {
                super::encode(&super::Nlri { path_id: None, prefix: *prefix }, out);
                Ok(())
            }
            Self::Labelled(labelled) => labelled.encode(out),
            Self::Vpn(vpn) => vpn.encode(out),
            Self::Evpn(evpn) => evpn.encode(out),
            Self::Flowspec(flow) => flow.encode(out),
            Self::LinkState(state) => state.encode(out),
            Self::McastVpn(route) => route.encode(out),
            Self::RouteTarget(target) => target.encode(out),
            Self::ServiceChain(route) => route.encode(out),
            Self::SrPolicy(policy) => policy.encode(out),
            Self::Vpls(route) => route.encode(out),
            Self::Opaque(bytes) => {
                out.extend(*bytes);
                Ok(())
            }
        }
    }
}

impl fmt::Display for Destination<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prefix(prefix) => prefix.fmt(f),
            Self::Labelled(labelled) => labelled.fmt(f),
            Self::Vpn(vpn) => vpn.fmt(f),
            Self::Evpn(evpn) => evpn.fmt(f),
            Self::Flowspec(flow) => flow.fmt(f),
            Self::LinkState(state) => state.fmt(f),
            Self::McastVpn(route) => route.fmt(f),
            Self::RouteTarget(target) => target.fmt(f),
            Self::ServiceChain(route) => route.fmt(f),
            Self::SrPolicy(policy) => policy.fmt(f),
            Self::Vpls(route) => route.fmt(f),
            Self::Opaque(bytes) => write!(f, "0x{}", Hex(bytes)),
        }
    }
}

/// The routes of a field of NLRI of any family, framed and typed. Framing ends behind the first
/// error of its own; a route that is framed but malformed does not end it.
pub fn destinations(
    family: Family,
    bytes: &[u8],
    add_path: bool,
) -> impl Iterator<Item = Result<(Route<'_>, Destination<'_>)>> {
    Routes::new(bytes, family, add_path).map(move |route| {
        let route = route?;
        Destination::decode(&route, family).map(|destination| (route, destination))
    })
}

#[cfg(test)]
mod tests;
