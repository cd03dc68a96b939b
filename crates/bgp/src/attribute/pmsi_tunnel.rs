//! The tunnel of a provider multicast service interface (RFC 6514 §5).

use std::fmt;
use std::net::IpAddr;

use crate::Result;
use crate::cursor::Cursor;
use crate::fields::{Hex, put_address};
use crate::nlri::labelled::Label;

/// The value of attribute 22.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PmsiTunnel<'a> {
    /// Flags; 1: leaf information required.
    pub flags: u8,
    /// How the tunnel is made.
    pub kind: TunnelKind,
    /// The label of the service in the tunnel (or a network identifier in all 24 bits).
    pub label: Label,
    /// Which tunnel; what it consists of depends on the kind.
    pub identifier: &'a [u8],
}

/// How a multicast tunnel is made, as IANA numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TunnelKind(pub u8);

#[expect(missing_docs, reason = "the names are the registry's")]
impl TunnelKind {
    pub const NONE: Self = Self(0);
    pub const RSVP_TE_P2MP: Self = Self(1);
    pub const MLDP_P2MP: Self = Self(2);
    pub const PIM_SSM: Self = Self(3);
    pub const PIM_SM: Self = Self(4);
    pub const BIDIR_PIM: Self = Self(5);
    pub const INGRESS_REPLICATION: Self = Self(6);
    pub const MLDP_MP2MP: Self = Self(7);
    pub const TRANSPORT: Self = Self(8);
    pub const ASSISTED_REPLICATION: Self = Self(10);
    pub const BIER: Self = Self(11);

    /// What operators call it; `None` for what is not known.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NONE => "none",
            Self::RSVP_TE_P2MP => "rsvp-te-p2mp",
            Self::MLDP_P2MP => "mldp-p2mp",
            Self::PIM_SSM => "pim-ssm",
            Self::PIM_SM => "pim-sm",
            Self::BIDIR_PIM => "bidir-pim",
            Self::INGRESS_REPLICATION => "ingress-replication",
            Self::MLDP_MP2MP => "mldp-mp2mp",
            Self::TRANSPORT => "transport",
            Self::ASSISTED_REPLICATION => "assisted-replication",
            Self::BIER => "bier",
            _ => return None,
        })
    }
}

/// Which tunnel, as far as it is made of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TunnelIdentifier<'a> {
    /// There is none.
    None,
    /// RSVP-TE: extended tunnel id, tunnel id, P2MP id.
    Rsvp(IpAddr, u16, u32),
    /// PIM: sender (or root) and group.
    Pim(IpAddr, IpAddr),
    /// Ingress replication: the endpoint at the sender's end.
    Endpoint(IpAddr),
    /// Something else.
    Other(&'a [u8]),
}

impl<'a> PmsiTunnel<'a> {
    /// Wrong if it is shorter than its fixed part, or if the identifier of a known kind has a
    /// length that this kind cannot have.
    pub fn parse(value: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(value, 0);
        let flags = cursor.u8("PMSI tunnel flags")?;
        let kind = TunnelKind(cursor.u8("PMSI tunnel type")?);
        let label = Label(cursor.u24("PMSI tunnel label")?);
        let identifier = cursor.rest();
        let fits = match kind {
            TunnelKind::NONE => identifier.is_empty(),
            TunnelKind::RSVP_TE_P2MP => matches!(identifier.len(), 12 | 24),
            TunnelKind::PIM_SSM | TunnelKind::PIM_SM | TunnelKind::BIDIR_PIM => {
                matches!(identifier.len(), 8 | 32)
            }
            TunnelKind::INGRESS_REPLICATION => matches!(identifier.len(), 4 | 16),
            _ => true,
        };
        if !fits {
            let size = identifier.len() as u64;
            let wrong = "no length that this kind of tunnel has";
            return Err(cursor.wrong("PMSI tunnel identifier", size, wrong));
        }
        Ok(Self { flags, kind, label, identifier })
    }

    /// What the identifier consists of.
    pub fn identifier(&self) -> TunnelIdentifier<'a> {
        self.known().unwrap_or(TunnelIdentifier::Other(self.identifier))
    }

    fn known(&self) -> Option<TunnelIdentifier<'a>> {
        let size = self.identifier.len();
        let mut cursor = Cursor::new(self.identifier, 0);
        let mut address = |octets| cursor.address(octets, "tunnel").ok();
        match self.kind {
            TunnelKind::NONE => Some(TunnelIdentifier::None),
            TunnelKind::RSVP_TE_P2MP => {
                // Extended tunnel id, two reserved octets, tunnel id, P2MP id.
                let extended = address(size.checked_sub(8)?)?;
                cursor.take(2, "reserved octets").ok()?;
                let tunnel = cursor.u16("tunnel").ok()?;
                Some(TunnelIdentifier::Rsvp(extended, tunnel, cursor.u32("P2MP").ok()?))
            }
            TunnelKind::PIM_SSM | TunnelKind::PIM_SM | TunnelKind::BIDIR_PIM => {
                Some(TunnelIdentifier::Pim(address(size / 2)?, address(size / 2)?))
            }
            TunnelKind::INGRESS_REPLICATION => Some(TunnelIdentifier::Endpoint(address(size)?)),
            _ => None,
        }
    }

    /// Appends the value of the attribute.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend([self.flags, self.kind.0]);
        out.extend(&self.label.0.to_be_bytes()[1..]);
        out.extend(self.identifier);
    }
}

impl TunnelIdentifier<'_> {
    /// Appends the octets of an identifier.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::None => {}
            Self::Rsvp(extended, tunnel, p2mp) => {
                put_address(out, extended);
                out.extend([0, 0]);
                out.extend(tunnel.to_be_bytes());
                out.extend(p2mp.to_be_bytes());
            }
            Self::Pim(sender, group) => {
                put_address(out, sender);
                put_address(out, group);
            }
            Self::Endpoint(address) => put_address(out, address),
            Self::Other(bytes) => out.extend(bytes),
        }
    }
}

impl fmt::Display for TunnelIdentifier<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("-"),
            Self::Rsvp(extended, tunnel, p2mp) => write!(f, "{extended}:{tunnel}:{p2mp}"),
            Self::Pim(sender, group) => write!(f, "({sender}, {group})"),
            Self::Endpoint(address) => address.fmt(f),
            Self::Other(bytes) => write!(f, "0x{}", Hex(bytes)),
        }
    }
}

/// `ingress-replication label 100 10.0.0.1`.
impl fmt::Display for PmsiTunnel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind.name() {
            Some(name) => f.write_str(name)?,
            None => write!(f, "tunnel {}", self.kind.0)?,
        }
        write!(f, " label {} {}", self.label, self.identifier())
    }
}

/// Whether attribute 22 is well-formed; if it is not, its routes are withdrawn (RFC 6514 §5).
pub fn check(value: &[u8]) -> Result<()> {
    PmsiTunnel::parse(value).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_depend_on_the_kind() {
        let value = [0, 6, 0, 6, 0x41, 10, 0, 0, 1];
        let tunnel = PmsiTunnel::parse(&value).unwrap();
        assert_eq!(tunnel.to_string(), "ingress-replication label 100 10.0.0.1");
        let mut again = Vec::new();
        tunnel.encode(&mut again);
        assert_eq!(again, value);
        assert!(check(&value[..8]).is_err());
        assert!(check(&value[..4]).is_err());
        let pim = [0, 3, 0, 0, 0, 10, 0, 0, 1, 232, 1, 1, 1];
        let tunnel = PmsiTunnel::parse(&pim).unwrap();
        assert_eq!(tunnel.to_string(), "pim-ssm label 0 (10.0.0.1, 232.1.1.1)");
    }

    proptest::proptest! {
        #[test]
        fn identifiers_survive_being_written(
            kind in 0..12_u8,
            identifier in proptest::collection::vec(0..=255_u8, 0..34),
        ) {
            let mut value = vec![1, kind, 0, 1, 2];
            value.extend(&identifier);
            if let Ok(tunnel) = PmsiTunnel::parse(&value) {
                let mut again = value[..5].to_vec();
                tunnel.identifier().encode(&mut again);
                let reread = PmsiTunnel::parse(&again).unwrap();
                proptest::prop_assert_eq!(reread.identifier(), tunnel.identifier());
            }
        }
    }
}
