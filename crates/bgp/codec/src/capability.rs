//! Capabilities that an OPEN announces (RFC 5492).

use crate::{Afi, Asn, Family, Safi};

/// Codes of the IANA registry.
#[expect(missing_docs, reason = "the names are the registry's")]
pub mod code {
    pub const MULTIPROTOCOL: u8 = 1;
    pub const ROUTE_REFRESH: u8 = 2;
    pub const OUTBOUND_ROUTE_FILTERING: u8 = 3;
    pub const EXTENDED_NEXT_HOP: u8 = 5;
    pub const EXTENDED_MESSAGE: u8 = 6;
    pub const BGPSEC: u8 = 7;
    pub const MULTIPLE_LABELS: u8 = 8;
    pub const ROLE: u8 = 9;
    pub const GRACEFUL_RESTART: u8 = 64;
    pub const FOUR_OCTET_AS: u8 = 65;
    pub const DYNAMIC: u8 = 67;
    pub const MULTISESSION: u8 = 68;
    pub const ADD_PATH: u8 = 69;
    pub const ENHANCED_ROUTE_REFRESH: u8 = 70;
    pub const LONG_LIVED_GRACEFUL_RESTART: u8 = 71;
    pub const ROUTING_POLICY_DISTRIBUTION: u8 = 72;
    pub const FQDN: u8 = 73;
    pub const BFD: u8 = 74;
    pub const SOFTWARE_VERSION: u8 = 75;
    pub const PATHS_LIMIT: u8 = 76;
    pub const ROUTE_REFRESH_CISCO: u8 = 128;
    pub const OUTBOUND_ROUTE_FILTERING_CISCO: u8 = 130;
    pub const MULTISESSION_CISCO: u8 = 131;
}

/// Registry name of a code; `None` for unknown ones.
pub const fn name(code: u8) -> Option<&'static str> {
    Some(match code {
        code::MULTIPROTOCOL => "multiprotocol",
        code::ROUTE_REFRESH => "route refresh",
        code::OUTBOUND_ROUTE_FILTERING => "outbound route filtering",
        code::EXTENDED_NEXT_HOP => "extended next hop encoding",
        code::EXTENDED_MESSAGE => "extended message",
        code::BGPSEC => "BGPsec",
        code::MULTIPLE_LABELS => "multiple labels",
        code::ROLE => "role",
        code::GRACEFUL_RESTART => "graceful restart",
        code::FOUR_OCTET_AS => "four-octet AS number",
        code::DYNAMIC => "dynamic capability",
        code::MULTISESSION => "multisession",
        code::ADD_PATH => "ADD-PATH",
        code::ENHANCED_ROUTE_REFRESH => "enhanced route refresh",
        code::LONG_LIVED_GRACEFUL_RESTART => "long-lived graceful restart",
        code::ROUTING_POLICY_DISTRIBUTION => "routing policy distribution",
        code::FQDN => "FQDN",
        code::BFD => "BFD strict mode",
        code::SOFTWARE_VERSION => "software version",
        code::PATHS_LIMIT => "paths limit",
        code::ROUTE_REFRESH_CISCO => "route refresh (before its standard)",
        code::OUTBOUND_ROUTE_FILTERING_CISCO => "outbound route filtering (before its standard)",
        code::MULTISESSION_CISCO => "multisession (before its standard)",
        _ => return None,
    })
}

/// A capability. Those that affect the session or the encoding of routes have typed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability<'a> {
    /// The speaker exchanges routes of this family (RFC 4760 §8).
    Multiprotocol(Family),
    /// The speaker resends its routes on request (RFC 2918).
    RouteRefresh,
    /// The speaker accepts messages of more than 4,096 octets (RFC 8654).
    ExtendedMessage,
    /// The speaker forwards packets while it restarts (RFC 4724 §3).
    GracefulRestart {
        /// The speaker has just restarted.
        restarted: bool,
        /// A NOTIFICATION also ends sessions gracefully (RFC 8538 §2).
        notification: bool,
        /// Restart time in seconds.
        time: u16,
        /// Families: see [`Capability::restarting`].
        families: &'a [[u8; 4]],
    },
    /// AS number in four octets (RFC 6793).
    FourOctetAs(Asn),
    /// Several paths per prefix: see [`Capability::paths`] (RFC 7911 §4).
    AddPath(&'a [[u8; 4]]),
    /// Long-lived stale routes: see [`Capability::long_lived`] (RFC 9494 §3.1).
    LongLivedGracefulRestart(&'a [[u8; 7]]),
    /// Code and value of any other capability, or of one with a malformed value.
    Opaque(u8, &'a [u8]),
}

fn family(octets: &[u8]) -> Family {
    match *octets {
        [high, low, safi, ..] => {
            Family { afi: Afi(u16::from_be_bytes([high, low])), safi: Safi(safi) }
        }
        _ => Family { afi: Afi(0), safi: Safi(0) },
    }
}

/// All of `value` as records of `N` octets; `None` if a remainder is left.
fn records<const N: usize>(value: &[u8]) -> Option<&[[u8; N]]> {
    let (records, rest) = value.as_chunks();
    rest.is_empty().then_some(records)
}

impl<'a> Capability<'a> {
    /// Decodes a capability; [`Capability::Opaque`] if its value is malformed.
    pub fn decode(code: u8, value: &'a [u8]) -> Self {
        Self::typed(code, value).unwrap_or(Self::Opaque(code, value))
    }

    fn typed(code: u8, value: &'a [u8]) -> Option<Self> {
        let flag = |this: Self| value.is_empty().then_some(this);
        match code {
            code::MULTIPROTOCOL => match *value {
                [high, low, _, safi] => {
                    let afi = Afi(u16::from_be_bytes([high, low]));
                    Some(Self::Multiprotocol(Family { afi, safi: Safi(safi) }))
                }
                _ => None,
            },
            code::ROUTE_REFRESH => flag(Self::RouteRefresh),
            code::EXTENDED_MESSAGE => flag(Self::ExtendedMessage),
            code::GRACEFUL_RESTART => {
                let (head, families) = value.split_first_chunk()?;
                let head = u16::from_be_bytes(*head);
                Some(Self::GracefulRestart {
                    restarted: head & 0x8000 != 0,
                    notification: head & 0x4000 != 0,
                    time: head & 0xfff,
                    families: records(families)?,
                })
            }
            code::FOUR_OCTET_AS => {
                Some(Self::FourOctetAs(Asn(u32::from_be_bytes(value.try_into().ok()?))))
            }
            code::ADD_PATH => records(value).map(Self::AddPath),
            code::LONG_LIVED_GRACEFUL_RESTART => records(value).map(Self::LongLivedGracefulRestart),
            _ => None,
        }
    }

    /// For ADD-PATH: families, and whether the speaker receives and sends several paths.
    pub fn paths(&self) -> impl Iterator<Item = (Family, bool, bool)> + use<'a> {
        let records: &[[u8; 4]] = if let Self::AddPath(records) = self { records } else { &[] };
        // Values other than 1 to 3 are ignored (RFC 7911 §4).
        records
            .iter()
            .filter(|record| matches!(record[3], 1..=3))
            .map(|record| (family(record), record[3] & 1 != 0, record[3] & 2 != 0))
    }

    /// For graceful restart: families, and whether the forwarding state was preserved.
    pub fn restarting(&self) -> impl Iterator<Item = (Family, bool)> + use<'a> {
        let records: &[[u8; 4]] =
            if let Self::GracefulRestart { families, .. } = self { families } else { &[] };
        records.iter().map(|record| (family(record), record[3] & 0x80 != 0))
    }

    /// For long-lived graceful restart: families, whether the forwarding state was preserved, and
    /// the time in seconds for which stale routes remain.
    pub fn long_lived(&self) -> impl Iterator<Item = (Family, bool, u32)> + use<'a> {
        let records: &[[u8; 7]] =
            if let Self::LongLivedGracefulRestart(records) = self { records } else { &[] };
        records.iter().map(|record| {
            let [_, _, _, flags, a, b, c] = *record;
            (family(record), flags & 0x80 != 0, u32::from_be_bytes([0, a, b, c]))
        })
    }

    /// Code of the capability.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Multiprotocol(_) => code::MULTIPROTOCOL,
            Self::RouteRefresh => code::ROUTE_REFRESH,
            Self::ExtendedMessage => code::EXTENDED_MESSAGE,
            Self::GracefulRestart { .. } => code::GRACEFUL_RESTART,
            Self::FourOctetAs(_) => code::FOUR_OCTET_AS,
            Self::AddPath(_) => code::ADD_PATH,
            Self::LongLivedGracefulRestart(_) => code::LONG_LIVED_GRACEFUL_RESTART,
            Self::Opaque(code, _) => *code,
        }
    }

    /// Appends the value.
    pub fn encode_value(&self, to: &mut Vec<u8>) {
        match *self {
            Self::Multiprotocol(family) => {
                to.extend(family.afi.0.to_be_bytes());
                to.extend([0, family.safi.0]);
            }
            Self::RouteRefresh | Self::ExtendedMessage => {}
            Self::GracefulRestart { restarted, notification, time, families } => {
                let flags = u16::from(restarted) << 15 | u16::from(notification) << 14;
                to.extend((flags | time & 0xfff).to_be_bytes());
                to.extend_from_slice(families.as_flattened());
            }
            Self::FourOctetAs(asn) => to.extend(asn.0.to_be_bytes()),
            Self::AddPath(records) => to.extend_from_slice(records.as_flattened()),
            Self::LongLivedGracefulRestart(records) => {
                to.extend_from_slice(records.as_flattened());
            }
            Self::Opaque(_, value) => to.extend_from_slice(value),
        }
    }
}
