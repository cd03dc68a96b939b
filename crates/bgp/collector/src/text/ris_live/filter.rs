//! Filters of a subscription.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bgp::Prefix;
use bgp::attribute::SegmentKind;
use serde_json::{Map, Value};

use super::{Content, MIRROR, Notice, Routes};
use crate::MirrorId;

/// Conditions of a subscription; all must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Filter {
    host: Option<String>,
    kind: Option<String>,
    require: Option<String>,
    peer: Option<IpAddr>,
    path: Option<PathPattern>,
    prefix: Option<Prefix>,
    more_specific: bool,
    less_specific: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hop {
    One(u32),
    Set(Vec<u32>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PathPattern {
    inverted: bool,
    from_start: bool,
    to_end: bool,
    hops: Vec<Hop>,
}

/// Maximum length of a pattern in hops.
const PATTERN_LIMIT: usize = 256;

impl Filter {
    /// Filters of the `data` of a subscription, one per prefix. The client receives the error text.
    pub(super) fn parse(data: &Map<String, Value>) -> Result<Vec<Self>, String> {
        let text = |name: &str| match data.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{name}` has to be a string")),
        };
        let flag = |name: &str, default| match data.get(name) {
            None | Some(Value::Null) => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(_) => Err(format!("`{name}` has to be true or false")),
        };
        let peer = text("peer")?.map(|peer| {
            peer.parse().map_err(|_| format!("`peer` must be an IP address, not `{peer}`"))
        });
        let path = match data.get("path") {
            None | Some(Value::Null) => None,
            Some(Value::String(pattern)) => Some(PathPattern::parse(pattern)?),
            Some(value) => {
                let asn = value.as_u64().and_then(|asn| u32::try_from(asn).ok());
                let asn = asn.ok_or("`path` has to be an AS number or a pattern")?;
                Some(PathPattern::of(Hop::One(asn)))
            }
        };
        let mut filter = Self {
            host: text("host")?,
            kind: text("type")?,
            require: text("require")?,
            peer: peer.transpose()?,
            path,
            prefix: None,
            more_specific: flag("moreSpecific", true)?,
            less_specific: flag("lessSpecific", false)?,
        };
        let prefixes = match data.get("prefix") {
            None | Some(Value::Null) => return Ok(vec![filter]),
            Some(Value::Array(list)) => list.iter().map(prefix).collect::<Result<Vec<_>, _>>()?,
            Some(value) => vec![prefix(value)?],
        };
        let filters = prefixes.into_iter().map(|prefix| {
            filter.prefix = Some(prefix);
            filter.clone()
        });
        Ok(filters.collect())
    }

    pub(super) fn matches(&self, host: &str, notice: &Notice<'_>) -> bool {
        let own_host = |wanted: &String| {
            let mirror = |rest: &str| rest.strip_prefix(MIRROR)?.parse().ok();
            match host.strip_prefix(wanted.as_str()) {
                Some(rest) => rest.is_empty() || rest.starts_with('.'),
                None => wanted.strip_prefix(host).is_some_and(|rest| {
                    mirror(rest).is_some_and(|number| notice.numbered_mirror() == Some(number))
                }),
            }
        };
        self.host.as_ref().is_none_or(own_host)
            && self.kind.as_ref().is_none_or(|kind| kind == notice.kind())
            && self.peer.is_none_or(|peer| peer == notice.peering.peer)
            && self.require.as_ref().is_none_or(|key| notice.has(key))
            && self.path.as_ref().is_none_or(|path| path.matches(notice))
            && self.prefix.is_none_or(|prefix| self.prefix_matches(prefix, notice))
    }

    fn prefix_matches(&self, wanted: Prefix, notice: &Notice<'_>) -> bool {
        let Content::Update(routes) = &notice.content else { return false };
        let fits = |prefix: Prefix| {
            let prefix = prefix.masked();
            prefix == wanted
                || self.more_specific && wanted.covers(prefix)
                || self.less_specific && prefix.covers(wanted)
        };
        routes.announced().any(fits) || routes.withdrawn().any(fits)
    }

    pub(super) fn to_json(&self) -> Value {
        let mut map = Map::new();
        let texts = [("host", &self.host), ("type", &self.kind), ("require", &self.require)];
        for (name, value) in texts {
            if let Some(value) = value {
                map.insert(name.into(), value.clone().into());
            }
        }
        if let Some(peer) = self.peer {
            map.insert("peer".into(), peer.to_string().into());
        }
        if let Some(path) = &self.path {
            map.insert("path".into(), path.to_string().into());
        }
        if let Some(prefix) = self.prefix {
            map.insert("prefix".into(), prefix.to_string().into());
            map.insert("moreSpecific".into(), self.more_specific.into());
            map.insert("lessSpecific".into(), self.less_specific.into());
        }
        Value::Object(map)
    }
}

impl Notice<'_> {
    fn has(&self, key: &str) -> bool {
        match (key, &self.content) {
            ("timestamp" | "peer" | "peer_asn" | "id" | "host" | "type", _) => true,
            ("mirror", _) => self.peering.mirror != MirrorId::NONE,
            ("raw", content) => !matches!(content, Content::State(_)),
            (_, Content::Update(routes)) => routes.has(key),
            (_, Content::Open(..)) => {
                let keys =
                    ["direction", "version", "asn", "hold_time", "router_id", "capabilities"];
                keys.contains(&key)
            }
            (key, Content::Notification(_)) => key == "notification",
            (key, Content::State(_)) => key == "state",
            (_, Content::Keepalive) => false,
        }
    }
}

impl Routes<'_> {
    fn has(&self, key: &str) -> bool {
        match key {
            "path" => self.path.is_some(),
            "community" => self.communities.is_some(),
            "origin" => self.origin.is_some(),
            "med" => self.med.is_some(),
            "aggregator" => self.aggregator.is_some(),
            "announcements" => self.announced().next().is_some(),
            "withdrawals" => self.withdrawn().next().is_some(),
            _ => false,
        }
    }
}

fn prefix(value: &Value) -> Result<Prefix, String> {
    let wrong = || format!("`prefix` must be a prefix such as 192.0.2.0/24, not {value}");
    let (address, length) =
        value.as_str().and_then(|text| text.split_once('/')).ok_or_else(wrong)?;
    let length: u8 = length.parse().map_err(|_| wrong())?;
    let prefix = if let Ok(address) = address.parse::<Ipv4Addr>() {
        (length <= 32).then(|| Prefix::V4(address.to_bits(), length))
    } else {
        let address = address.parse::<Ipv6Addr>().map_err(|_| wrong())?;
        (length <= 128).then(|| Prefix::V6(address.to_bits(), length))
    };
    prefix.map(Prefix::masked).ok_or_else(wrong)
}

impl PathPattern {
    fn of(hop: Hop) -> Self {
        Self { inverted: false, from_start: false, to_end: false, hops: vec![hop] }
    }

    /// Parses `!^123,456,[7,8]$`: inverted, from the first hop, to the last.
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`path` must be a pattern such as ^123,456,[7,8]$, not `{text}`");
        let rest = text.trim();
        let (inverted, rest) = rest.strip_prefix('!').map_or((false, rest), |rest| (true, rest));
        let (from_start, rest) = rest.strip_prefix('^').map_or((false, rest), |rest| (true, rest));
        let (to_end, mut rest) = rest.strip_suffix('$').map_or((false, rest), |rest| (true, rest));
        let asn = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let mut hops = Vec::new();
        while hops.len() < PATTERN_LIMIT {
            let end = if let Some(set) = rest.strip_prefix('[') {
                let (set, behind) = set.split_once(']').ok_or_else(wrong)?;
                let mut set = set.split(',').map(asn).collect::<Result<Vec<_>, _>>()?;
                set.sort_unstable();
                hops.push(Hop::Set(set));
                behind
            } else {
                let end = rest.find(',').unwrap_or(rest.len());
                hops.push(Hop::One(asn(&rest[..end])?));
                &rest[end..]
            };
            if end.is_empty() {
                return Ok(Self { inverted, from_start, to_end, hops });
            }
            rest = end.strip_prefix(',').ok_or_else(wrong)?.trim_start();
        }
        Err(wrong())
    }

    fn matches(&self, notice: &Notice<'_>) -> bool {
        let Content::Update(routes) = &notice.content else { return false };
        let mut path = Vec::new();
        for segment in routes.segments() {
            if matches!(segment.kind, SegmentKind::Set | SegmentKind::ConfedSet) {
                let mut set: Vec<u32> = segment.asns.map(|asn| asn.0).collect();
                set.sort_unstable();
                path.push(Hop::Set(set));
            } else {
                path.extend(segment.asns.map(|asn| Hop::One(asn.0)));
            }
        }
        let length = self.hops.len();
        let found = match (self.from_start, self.to_end) {
            (true, true) => path == self.hops,
            (true, false) => path.starts_with(&self.hops),
            (false, true) => path.ends_with(&self.hops),
            (false, false) => path.windows(length).any(|part| part == self.hops),
        };
        found != self.inverted
    }
}

impl std::fmt::Display for PathPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.inverted {
            f.write_str("!")?;
        }
        if self.from_start {
            f.write_str("^")?;
        }
        for (at, hop) in self.hops.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match hop {
                Hop::One(asn) => write!(f, "{asn}")?,
                Hop::Set(set) => {
                    let texts: Vec<String> = set.iter().map(u32::to_string).collect();
                    write!(f, "[{}]", texts.join(","))?;
                }
            }
        }
        if self.to_end { f.write_str("$") } else { Ok(()) }
    }
}
