//! Routes and changes as JSON and as a table.

use std::collections::BTreeSet;
use std::fmt::Write;

use bgp::attribute::{Attribute, NextHop, Origin};
use bgp::{Asn, nlri};
use collector::MirrorId;
use collector::rib::{Change, Destination, Route, path_text};
use serde_json::{Value, json};

use super::super::moment::{moment_text, unix};
use super::super::table::{columns, hex};
use super::{RouteSource, Routes};

fn destination(route: &Route) -> String {
    let bytes = match &route.destination {
        Destination::Prefix(prefix) => return prefix.to_string(),
        Destination::Other(bytes) => bytes,
    };
    let decoded = nlri::Routes::new(bytes, route.family, false)
        .next()
        .and_then(|route_of| nlri::Destination::decode(&route_of.ok()?, route.family).ok());
    decoded.map_or_else(|| hex(bytes), |decoded| decoded.to_string())
}

fn mirror_name(mirror: MirrorId, sources: &[RouteSource]) -> Option<&str> {
    let source = sources.get(usize::from(mirror.archive()))?;
    source.mirrors.get(&mirror.interface().into()).map(String::as_str)
}

fn next_hop(route: &Route) -> Option<String> {
    next_hop_text(route.next_hop())
}

pub(in crate::query) fn next_hop_text(next_hop: NextHop<'_>) -> Option<String> {
    Some(match next_hop {
        NextHop::None => return None,
        NextHop::V4(address) | NextHop::VpnV4(_, address) => address.to_string(),
        NextHop::V4Pair(one, other) => format!("{one},{other}"),
        NextHop::V6(address) | NextHop::VpnV6(_, address) => address.to_string(),
        NextHop::V6Pair(global, local) | NextHop::VpnV6Pair([(_, global), (_, local)]) => {
            format!("{global},{local}")
        }
        NextHop::Unknown(bytes) => hex(bytes),
    })
}

fn route(route: &Route, sources: &[RouteSource]) -> Value {
    let mut object = json!({
        "prefix": destination(route),
        "family": route.family.to_string(),
        "path_id": route.path_id,
        "peering": {
            "peer": route.peering.peer,
            "peer_as": route.peering.peer_as.0,
            "router": route.peering.local,
            "router_as": route.peering.local_as.0,
            "mirror": route.peering.mirror.interface(),
            "mirror_name": mirror_name(route.peering.mirror, sources),
        },
        "since": unix(route.since),
        "stale": route.stale,
        "path": path_text(route.path()),
        "origin_as": route.path().origin().map(|Asn(number)| number),
        "next_hop": next_hop(route),
        "communities": route.communities().map(|one| one.to_string()).collect::<Vec<_>>(),
    });
    for attribute in route.attributes() {
        match attribute {
            Attribute::Origin(origin) => {
                object["origin"] = json!(match origin {
                    Origin::Igp => "IGP",
                    Origin::Egp => "EGP",
                    Origin::Incomplete => "INCOMPLETE",
                });
            }
            Attribute::MultiExitDisc(metric) => object["med"] = json!(metric),
            Attribute::LocalPref(preference) => object["local_pref"] = json!(preference),
            Attribute::LargeCommunities(all) => {
                object["large_communities"] =
                    all.iter().map(|one| Value::from(one.to_string())).collect();
            }
            _ => {}
        }
    }
    object
}

fn communities(route: &Route) -> String {
    let mut all: Vec<String> = route.communities().map(|one| one.to_string()).collect();
    for attribute in route.attributes() {
        if let Attribute::LargeCommunities(large) = attribute {
            all.extend(large.iter().map(|one| one.to_string()));
        }
    }
    all.join(" ")
}

fn row(mark: &str, route: &Route) -> Vec<String> {
    let none = || "-".to_owned();
    vec![
        mark.to_owned(),
        destination(route),
        route.family.to_string(),
        route.path_id.map_or_else(none, |id| id.to_string()),
        route.peering.peer.to_string(),
        route.peering.peer_as.0.to_string(),
        match route.peering.mirror.interface() {
            0 => none(),
            number => number.to_string(),
        },
        moment_text(route.since),
        next_hop(route).unwrap_or_else(none),
        path_text(route.path()),
        communities(route),
    ]
}

impl Routes {
    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.changes.is_empty()
    }

    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.sources
            .iter()
            .flat_map(|source| source.notes.iter().map(|note| format!("{}: {note}", source.folder)))
    }

    fn mirrors(&self) -> BTreeSet<MirrorId> {
        let changed = self.changes.iter().map(|change| match change {
            Change::Added(route) | Change::Removed(route) | Change::Changed(_, route) => route,
        });
        let all = self.found.iter().chain(changed).map(|route| route.peering.mirror);
        all.filter(|mirror| mirror.interface() > 0).collect()
    }

    pub fn json(&self) -> Value {
        let sources = self.sources.iter().map(|source| {
            json!({
                "folder": source.folder,
                "table": source.table.map(unix),
                "last": source.last.map(unix),
                "notes": source.notes,
            })
        });
        let route = |of: &Route| route(of, &self.sources);
        let changes = self.changes.iter().map(|change| match change {
            Change::Added(new) => json!({ "change": "added", "new": route(new) }),
            Change::Removed(old) => json!({ "change": "removed", "old": route(old) }),
            Change::Changed(old, new) => {
                json!({ "change": "changed", "old": route(old), "new": route(new) })
            }
        });
        let mut object = json!({
            "schema": "netarium.rib/1",
            "at": self.at.map(unix),
            "archives": sources.collect::<Vec<_>>(),
        });
        if let Some(until) = self.diff {
            object["until"] = json!(unix(until));
            object["changes"] = changes.collect();
        } else {
            object["routes"] = self.found.iter().map(route).collect();
        }
        object
    }

    pub fn table(&self) -> String {
        let head = [
            "",
            "prefix",
            "family",
            "id",
            "peer",
            "AS",
            "mirror",
            "since",
            "next hop",
            "AS path",
            "communities",
        ];
        let mirrors = self.mirrors();
        let mut rows = Vec::new();
        for route in &self.found {
            rows.push(row(if route.stale { "stale" } else { "" }, route));
        }
        for change in &self.changes {
            match change {
                Change::Added(new) => rows.push(row("+", new)),
                Change::Removed(old) => rows.push(row("-", old)),
                Change::Changed(old, new) => rows.extend([row("-", old), row("+", new)]),
            }
        }
        // Omits columns that are empty in most answers: mark, family if all are unicast, path
        // identifier, mirror if there is one, communities.
        let keep = |at: usize, nothing: &str| rows.iter().any(|row| row[at] != nothing);
        let kept: Vec<bool> = (0..head.len())
            .map(|at| match at {
                0 => keep(0, ""),
                2 => rows.iter().any(|row| !row[2].ends_with("/unicast")),
                3 => keep(3, "-"),
                6 => mirrors.len() > 1,
                10 => keep(10, ""),
                _ => true,
            })
            .collect();
        let cut = |row: &mut Vec<String>| {
            let mut at = 0;
            row.retain(|_| {
                at += 1;
                kept[at - 1]
            });
        };
        let head: Vec<&str> =
            head.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(name, _)| *name).collect();
        rows.iter_mut().for_each(cut);
        let mut text = columns(&head, &rows);
        for mirror in mirrors.iter().filter(|_| mirrors.len() > 1) {
            let (number, name) = (mirror.interface(), mirror_name(*mirror, &self.sources));
            let source = self.sources.get(usize::from(mirror.archive()));
            let folder = source.filter(|_| self.sources.len() > 1).map(|source| &source.folder);
            let folder = folder.map_or_else(String::new, |folder| format!(" of {folder}"));
            let _ = writeln!(text, "mirror {number}{folder}: {}", name.unwrap_or("no name"));
        }
        let count = self.found.len() + self.changes.len();
        let noun = if self.diff.is_some() { "change" } else { "route" };
        let _ = writeln!(text, "{count} {noun}{}", if count == 1 { "" } else { "s" });
        text
    }
}
