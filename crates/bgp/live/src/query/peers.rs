//! Peers, the start of their sessions, and their numbers of messages.

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use collector::{MirrorId, Peering};
use serde_json::{Value, json};

use super::census::{Census, Seen};
use super::gaps::Account;
use super::moment::{moment_text, unix};
use super::table::columns;
use super::{ArchiveFolder, Archives};
use crate::Result;

#[derive(Debug)]
pub struct Peers {
    collectors: Vec<Collector>,
}

#[derive(Debug)]
struct Collector {
    name: String,
    folder: String,
    census: Census,
    account: Option<Account>,
}

/// The peerings of archives, of all neighbours or of `peer`.
pub fn peers(archives: &Archives, peer: Option<IpAddr>) -> Result<Peers> {
    let collector = |shelf: &ArchiveFolder| {
        Ok(Collector {
            name: shelf.name(),
            folder: shelf.folder.display().to_string(),
            census: Census::take(shelf)?,
            account: Account::read(shelf, peer)?,
        })
    };
    let mut collectors =
        archives.shelves.iter().map(collector).collect::<Result<Vec<Collector>>>()?;
    for collector in &mut collectors {
        collector.census.only(peer);
    }
    Ok(Peers { collectors })
}

impl Census {
    fn only(&mut self, peer: Option<IpAddr>) {
        if let Some(peer) = peer {
            self.retain(|seen| seen.peering.peer == peer);
        }
    }
}

fn identifier(id: u32) -> Option<String> {
    (id != 0).then(|| Ipv4Addr::from_bits(id).to_string())
}

fn state(seen: &Seen) -> Option<String> {
    seen.state.map(|(state, _)| format!("{state:?}"))
}

impl Peers {
    pub fn is_empty(&self) -> bool {
        self.collectors.iter().all(|collector| collector.census.peers().next().is_none())
    }

    pub fn troubles(&self) -> impl Iterator<Item = &String> {
        self.collectors.iter().flat_map(|collector| &collector.census.troubles)
    }

    pub fn json(&self) -> Value {
        let collectors = self.collectors.iter().map(|collector| {
            let peers = collector.census.peers().map(|seen| collector.peer(seen));
            json!({
                "collector": collector.name,
                "folder": collector.folder,
                "accounted": collector.account.is_some(),
                "table": collector.census.table.map(moment_text),
                "peers": peers.collect::<Vec<_>>(),
                "troubles": collector.census.troubles,
            })
        });
        json!({ "schema": "netarium.peers/1", "collectors": collectors.collect::<Vec<_>>() })
    }

    pub fn table(&self) -> String {
        const HEAD: [&str; 15] = [
            "peer",
            "AS",
            "router",
            "mirror",
            "state",
            "since",
            "sessions",
            "first",
            "last",
            "updates",
            "announced",
            "withdrawn",
            "routes",
            "blind",
            "read as",
        ];
        let mut text = String::new();
        for collector in &self.collectors {
            let rows: Vec<Vec<String>> =
                collector.census.peers().map(|seen| collector.row(seen)).collect();
            let _ = writeln!(text, "{}", collector.folder);
            text.push_str(&columns(&HEAD, &rows));
            if let Some(table) = collector.census.table {
                let _ = writeln!(text, "routes: in the table of {}", moment_text(table));
            }
            if collector.account.is_none() {
                text.push_str("blind: unknown, because the files have no integrity account\n");
            }
            text.push('\n');
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }
}

impl Collector {
    fn peer(&self, seen: &Seen) -> Value {
        let peering = &seen.peering;
        let [open, update, notification, keepalive, route_refresh] = seen.messages;
        let account = self.account.as_ref().map(|account| account.of(peering));
        json!({
            "peer": peering.peer,
            "peer_as": peering.peer_as.0,
            "peer_id": identifier(peering.peer_id),
            "router": peering.local,
            "router_as": peering.local_as.0,
            "mirror": peering.mirror.0,
            "mirror_name": self.census.mirror_name(peering),
            "state": state(seen),
            "since": seen.state.map(|(_, since)| unix(since)),
            "sessions": seen.sessions,
            "first": seen.times.map(|(first, _)| unix(first)),
            "last": seen.times.map(|(_, last)| unix(last)),
            "messages": {
                "open": open,
                "update": update,
                "notification": notification,
                "keepalive": keepalive,
                "route_refresh": route_refresh,
            },
            "router_messages": seen.local_messages,
            "announced": seen.announced,
            "withdrawn": seen.withdrawn,
            "families": seen.families.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "routes": seen.routes,
            "four_octet_as": seen.peering.from_peer.four_octet_as,
            "inferred": account.map(|of| of.inferred > 0),
            "reread": account.map(|of| of.reread),
            "blind_seconds": account.map(|of| of.blind_seconds),
            "gaps": account.map(|of| of.gaps),
        })
    }

    fn mirror(&self, peering: &Peering) -> Option<String> {
        let number = (peering.mirror != MirrorId::NONE).then(|| peering.mirror.0.to_string());
        self.census.mirror_name(peering).map(str::to_owned).or(number)
    }

    fn row(&self, seen: &Seen) -> Vec<String> {
        let peering = &seen.peering;
        let none = || "-".to_owned();
        let time = |time: Option<base::Time>| time.map_or_else(none, moment_text);
        let account = self.account.as_ref().map(|account| account.of(peering));
        let read = account
            .map_or_else(none, |of| if of.inferred > 0 { "inferred" } else { "agreed" }.to_owned());
        vec![
            peering.peer.to_string(),
            peering.peer_as.0.to_string(),
            if peering.local.is_unspecified() { none() } else { peering.local.to_string() },
            self.mirror(peering).unwrap_or_else(none),
            state(seen).unwrap_or_else(none),
            time(seen.state.map(|(_, since)| since)),
            seen.sessions.to_string(),
            time(seen.times.map(|(first, _)| first)),
            time(seen.times.map(|(_, last)| last)),
            seen.messages[1].to_string(),
            seen.announced.to_string(),
            seen.withdrawn.to_string(),
            seen.routes.map_or_else(none, |routes| routes.to_string()),
            account.map_or_else(none, |of| format!("{} s", of.blind_seconds)),
            read,
        ]
    }
}
