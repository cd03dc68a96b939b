//! Capabilities that an OPEN announces (RFC 5492).

use crate::{Afi, Asn, Family, Safi};

/// Codes, as IANA numbers them.
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

/// The registry's name of a code; `None` for those that are not known.
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

/// What a speaker is to its neighbour (RFC 9234 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the RFC's")]
pub enum Role {
    Provider = 0,
    RouteServer = 1,
    RouteServerClient = 2,
    Customer = 3,
    Peer = 4,
}

impl Role {
    const fn new(value: u8) -> Option<Self> {
        Some(match value {
            0 => Self::Provider,
            1 => Self::RouteServer,
            2 => Self::RouteServerClient,
            3 => Self::Customer,
            4 => Self::Peer,
            _ => return None,
        })
    }

    /// Whether the two ends of a session may have these roles (RFC 9234 §4.2).
    pub const fn matches(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Provider, Self::Customer)
                | (Self::Customer, Self::Provider)
                | (Self::RouteServer, Self::RouteServerClient)
                | (Self::RouteServerClient, Self::RouteServer)
                | (Self::Peer, Self::Peer)
        )
    }
}

/// Filters that a speaker sends or takes for a family (RFC 5291 §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FilterSupport<'a> {
    /// The family.
    pub family: Family,
    /// Type of filter, and 1 (takes), 2 (sends) or 3 (both), for each.
    pub types: &'a [[u8; 2]],
}

/// A capability, typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capability<'a> {
    /// Speaks of this family (RFC 4760 §8).
    Multiprotocol(Family),
    /// Sends its routes again when asked (RFC 2918).
    RouteRefresh,
    /// Filters: see [`filters`] (RFC 5291); `true` for the code from before the standard.
    OutboundRouteFiltering(&'a [u8], bool),
    /// Next hops of another family: see [`Capability::next_hops`] (RFC 8950 §4).
    ExtendedNextHop(&'a [[u8; 6]]),
    /// Takes messages of more than 4,096 octets (RFC 8654).
    ExtendedMessage,
    /// Signed paths: version, whether the speaker sends them (else it takes them), and for which
    /// addresses (RFC 8205 §2.1).
    Bgpsec {
        /// Version of the protocol.
        version: u8,
        /// Sends; otherwise takes.
        sends: bool,
        /// Of the addresses.
        afi: Afi,
    },
    /// How many labels a route may have: see [`Capability::label_counts`] (RFC 8277 §2.1).
    MultipleLabels(&'a [[u8; 4]]),
    /// What the speaker is to its neighbour (RFC 9234).
    Role(Role),
    /// Forwards while it restarts (RFC 4724 §3).
    GracefulRestart {
        /// It has just restarted.
        restarted: bool,
        /// It ends sessions gracefully by NOTIFICATION too (RFC 8538 §2).
        notification: bool,
        /// Seconds until it is back.
        time: u16,
        /// Families: see [`Capability::restarting`].
        families: &'a [[u8; 4]],
    },
    /// Its AS number in four octets (RFC 6793).
    FourOctetAs(Asn),
    /// Codes of capabilities that may change in a session (draft-ietf-idr-dynamic-cap).
    Dynamic(&'a [u8]),
    /// A session for each group of families (draft-ietf-idr-bgp-multisession): flags, and codes of
    /// the capabilities that tell sessions apart.
    Multisession(u8, &'a [u8]),
    /// Several paths to a prefix: see [`Capability::paths`] (RFC 7911 §4).
    AddPath(&'a [[u8; 4]]),
    /// Marks beginning and end of a refresh (RFC 7313).
    EnhancedRouteRefresh,
    /// Keeps stale routes for long: see [`Capability::long_lived`] (RFC 9494 §3.1).
    LongLivedGracefulRestart(&'a [[u8; 7]]),
    /// Names of host and domain (draft-walton-bgp-hostname-capability).
    Fqdn(&'a [u8], &'a [u8]),
    /// Holds sessions back until BFD is up (draft-ietf-idr-bgp-bfd-strict-mode).
    BfdStrictMode,
    /// What runs there (draft-ietf-idr-bgp-software-version): UTF-8, as sent.
    SoftwareVersion(&'a [u8]),
    /// Paths that it takes for each prefix: see [`Capability::path_limits`]
    /// (draft-ietf-idr-add-paths-limit).
    PathsLimit(&'a [[u8; 5]]),
    /// [`Capability::RouteRefresh`] from before the standard.
    RouteRefreshCisco,
    /// Anything else, and those whose value is malformed: code and value.
    Unknown(u8, &'a [u8]),
}

fn family(octets: &[u8]) -> Family {
    match *octets {
        [high, low, safi, ..] => {
            Family { afi: Afi(u16::from_be_bytes([high, low])), safi: Safi(safi) }
        }
        _ => Family { afi: Afi(0), safi: Safi(0) },
    }
}

/// All of `value` as records of `N` octets.
fn records<const N: usize>(value: &[u8]) -> Option<&[[u8; N]]> {
    let (records, rest) = value.as_chunks();
    rest.is_empty().then_some(records)
}

impl<'a> Capability<'a> {
    /// Of a code and its value; [`Capability::Unknown`] if the value is not what the code wants.
    pub fn decode(code: u8, value: &'a [u8]) -> Self {
        Self::known(code, value).unwrap_or(Self::Unknown(code, value))
    }

    fn known(code: u8, value: &'a [u8]) -> Option<Self> {
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
            code::ROUTE_REFRESH_CISCO => flag(Self::RouteRefreshCisco),
            code::EXTENDED_MESSAGE => flag(Self::ExtendedMessage),
            code::ENHANCED_ROUTE_REFRESH => flag(Self::EnhancedRouteRefresh),
            code::BFD => flag(Self::BfdStrictMode),
            code::OUTBOUND_ROUTE_FILTERING | code::OUTBOUND_ROUTE_FILTERING_CISCO => {
                let old = code == code::OUTBOUND_ROUTE_FILTERING_CISCO;
                let read: usize = filters(value).map(|filter| 5 + 2 * filter.types.len()).sum();
                (read == value.len()).then_some(Self::OutboundRouteFiltering(value, old))
            }
            code::EXTENDED_NEXT_HOP => records(value).map(Self::ExtendedNextHop),
            code::BGPSEC => match *value {
                [first, high, low] => Some(Self::Bgpsec {
                    version: first >> 4,
                    sends: first & 8 != 0,
                    afi: Afi(u16::from_be_bytes([high, low])),
                }),
                _ => None,
            },
            code::MULTIPLE_LABELS => records(value).map(Self::MultipleLabels),
            code::ROLE => match *value {
                [role] => Role::new(role).map(Self::Role),
                _ => None,
            },
            code::GRACEFUL_RESTART => Self::graceful_restart(value),
            code::FOUR_OCTET_AS => {
                let asn = u32::from_be_bytes(value.try_into().ok()?);
                Some(Self::FourOctetAs(Asn(asn)))
            }
            code::DYNAMIC => Some(Self::Dynamic(value)),
            code::MULTISESSION | code::MULTISESSION_CISCO => {
                value.split_first().map(|(flags, codes)| Self::Multisession(*flags, codes))
            }
            code::ADD_PATH => records(value).map(Self::AddPath),
            code::LONG_LIVED_GRACEFUL_RESTART => records(value).map(Self::LongLivedGracefulRestart),
            code::FQDN => Self::fqdn(value),
            code::SOFTWARE_VERSION => match value {
                [length, version @ ..] if version.len() == usize::from(*length) => {
                    Some(Self::SoftwareVersion(version))
                }
                _ => None,
            },
            code::PATHS_LIMIT => records(value).map(Self::PathsLimit),
            _ => None,
        }
    }

    fn graceful_restart(value: &'a [u8]) -> Option<Self> {
        let (head, families) = value.split_first_chunk()?;
        let head = u16::from_be_bytes(*head);
        Some(Self::GracefulRestart {
            restarted: head & 0x8000 != 0,
            notification: head & 0x4000 != 0,
            time: head & 0xfff,
            families: records(families)?,
        })
    }

    fn fqdn(value: &'a [u8]) -> Option<Self> {
        let (length, rest) = value.split_first()?;
        let (host, rest) = rest.split_at_checked((*length).into())?;
        // Some speakers leave the domain out, length and all.
        let (length, domain) = rest.split_first().unwrap_or((&0, &[]));
        (domain.len() == usize::from(*length)).then_some(Self::Fqdn(host, domain))
    }

    /// For ADD-PATH: families, and whether the speaker takes and sends several paths.
    pub fn paths(&self) -> impl Iterator<Item = (Family, bool, bool)> + use<'a> {
        let records: &[[u8; 4]] = if let Self::AddPath(records) = self { records } else { &[] };
        // Other values than 1 to 3 are to be ignored (RFC 7911 §4).
        records
            .iter()
            .filter(|record| matches!(record[3], 1..=3))
            .map(|record| (family(record), record[3] & 1 != 0, record[3] & 2 != 0))
    }

    /// For the extended next hop: families of routes, and addresses that their next hops may have.
    pub fn next_hops(&self) -> impl Iterator<Item = (Family, Afi)> + use<'a> {
        let records: &[[u8; 6]] =
            if let Self::ExtendedNextHop(records) = self { records } else { &[] };
        records.iter().map(|&[a, b, _, safi, c, d]| {
            let afi = Afi(u16::from_be_bytes([a, b]));
            (Family { afi, safi: Safi(safi) }, Afi(u16::from_be_bytes([c, d])))
        })
    }

    /// For multiple labels: families, and how many labels their routes may have.
    pub fn label_counts(&self) -> impl Iterator<Item = (Family, u8)> + use<'a> {
        let records: &[[u8; 4]] =
            if let Self::MultipleLabels(records) = self { records } else { &[] };
        records.iter().map(|record| (family(record), record[3]))
    }

    /// For graceful restart: families, and whether forwarding state was kept.
    pub fn restarting(&self) -> impl Iterator<Item = (Family, bool)> + use<'a> {
        let records: &[[u8; 4]] =
            if let Self::GracefulRestart { families, .. } = self { families } else { &[] };
        records.iter().map(|record| (family(record), record[3] & 0x80 != 0))
    }

    /// For long-lived graceful restart: families, whether forwarding state was kept, and for how
    /// many seconds stale routes are.
    pub fn long_lived(&self) -> impl Iterator<Item = (Family, bool, u32)> + use<'a> {
        let records: &[[u8; 7]] =
            if let Self::LongLivedGracefulRestart(records) = self { records } else { &[] };
        records.iter().map(|record| {
            let [_, _, _, flags, a, b, c] = *record;
            (family(record), flags & 0x80 != 0, u32::from_be_bytes([0, a, b, c]))
        })
    }

    /// For the limit of paths: families, and how many paths for a prefix are taken.
    pub fn path_limits(&self) -> impl Iterator<Item = (Family, u16)> + use<'a> {
        let records: &[[u8; 5]] = if let Self::PathsLimit(records) = self { records } else { &[] };
        records.iter().map(|record| (family(record), u16::from_be_bytes([record[3], record[4]])))
    }

    /// Its code.
    pub const fn code(&self) -> u8 {
        match self {
            Self::Multiprotocol(_) => code::MULTIPROTOCOL,
            Self::RouteRefresh => code::ROUTE_REFRESH,
            Self::OutboundRouteFiltering(_, false) => code::OUTBOUND_ROUTE_FILTERING,
            Self::OutboundRouteFiltering(_, true) => code::OUTBOUND_ROUTE_FILTERING_CISCO,
            Self::ExtendedNextHop(_) => code::EXTENDED_NEXT_HOP,
            Self::ExtendedMessage => code::EXTENDED_MESSAGE,
            Self::Bgpsec { .. } => code::BGPSEC,
            Self::MultipleLabels(_) => code::MULTIPLE_LABELS,
            Self::Role(_) => code::ROLE,
            Self::GracefulRestart { .. } => code::GRACEFUL_RESTART,
            Self::FourOctetAs(_) => code::FOUR_OCTET_AS,
            Self::Dynamic(_) => code::DYNAMIC,
            Self::Multisession(..) => code::MULTISESSION,
            Self::AddPath(_) => code::ADD_PATH,
            Self::EnhancedRouteRefresh => code::ENHANCED_ROUTE_REFRESH,
            Self::LongLivedGracefulRestart(_) => code::LONG_LIVED_GRACEFUL_RESTART,
            Self::Fqdn(..) => code::FQDN,
            Self::BfdStrictMode => code::BFD,
            Self::SoftwareVersion(_) => code::SOFTWARE_VERSION,
            Self::PathsLimit(_) => code::PATHS_LIMIT,
            Self::RouteRefreshCisco => code::ROUTE_REFRESH_CISCO,
            Self::Unknown(code, _) => *code,
        }
    }

    /// Appends the value.
    pub fn encode_value(&self, to: &mut Vec<u8>) {
        match *self {
            Self::Multiprotocol(family) => {
                to.extend(family.afi.0.to_be_bytes());
                to.extend([0, family.safi.0]);
            }
            Self::RouteRefresh
            | Self::RouteRefreshCisco
            | Self::ExtendedMessage
            | Self::EnhancedRouteRefresh
            | Self::BfdStrictMode => {}
            Self::OutboundRouteFiltering(value, _)
            | Self::Dynamic(value)
            | Self::Unknown(_, value) => to.extend_from_slice(value),
            Self::ExtendedNextHop(records) => to.extend_from_slice(records.as_flattened()),
            Self::Bgpsec { version, sends, afi } => {
                to.push(version << 4 | u8::from(sends) << 3);
                to.extend(afi.0.to_be_bytes());
            }
            Self::MultipleLabels(records) | Self::AddPath(records) => {
                to.extend_from_slice(records.as_flattened());
            }
            Self::Role(role) => to.push(role as u8),
            Self::GracefulRestart { restarted, notification, time, families } => {
                let flags = u16::from(restarted) << 15 | u16::from(notification) << 14;
                to.extend((flags | time & 0xfff).to_be_bytes());
                to.extend_from_slice(families.as_flattened());
            }
            Self::FourOctetAs(asn) => to.extend(asn.0.to_be_bytes()),
            Self::Multisession(flags, codes) => {
                to.push(flags);
                to.extend_from_slice(codes);
            }
            Self::LongLivedGracefulRestart(records) => {
                to.extend_from_slice(records.as_flattened());
            }
            Self::Fqdn(host, domain) => {
                for name in [host, domain] {
                    to.push(name.len() as u8);
                    to.extend_from_slice(name);
                }
            }
            Self::SoftwareVersion(version) => {
                to.push(version.len() as u8);
                to.extend_from_slice(version);
            }
            Self::PathsLimit(records) => to.extend_from_slice(records.as_flattened()),
        }
    }
}

/// The families of [`Capability::OutboundRouteFiltering`] and their filters.
pub fn filters(value: &[u8]) -> impl Iterator<Item = FilterSupport<'_>> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let ([high, low, _, safi, count], behind) = rest.split_first_chunk()?;
        let (types, behind) = behind.split_at_checked(2 * usize::from(*count))?;
        rest = behind;
        let afi = Afi(u16::from_be_bytes([*high, *low]));
        let (types, _) = types.as_chunks();
        Some(FilterSupport { family: Family { afi, safi: Safi(*safi) }, types })
    })
}
