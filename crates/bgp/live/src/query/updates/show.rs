//! Updates as lines of text and of JSON.

use std::fmt::Write;

use base::Time;
use bgp::attribute::{Communities, LargeCommunities};
use bgp::notification::names;
use collector::rib::segments_text;
use collector::{Reason, Sender};
use serde_json::{Value, json};

use super::super::moment::{moment_text, unix};
use super::super::routes::next_hop_text;
use super::{ChangedRoute, Content, Update, UpdateChange};

/// Why a session ended; `None` if nothing is known.
fn reason_text(reason: Reason) -> Option<String> {
    Some(match reason {
        Reason::Seen => return None,
        Reason::Inferred => "inferred from messages".to_owned(),
        Reason::Notification(from, code, subcode) => {
            let whose = if from == Sender::Peer { "peer" } else { "router" };
            let name = match names(code, subcode) {
                (Some(name), Some(of)) => format!(" ({name}: {of})"),
                (Some(name), None) => format!(" ({name})"),
                (None, _) => String::new(),
            };
            format!("NOTIFICATION {code}/{subcode} of the {whose}{name}")
        }
        Reason::Collision => "connection collision".to_owned(),
        Reason::Finished => "connection closed".to_owned(),
        Reason::Reset => "connection reset".to_owned(),
        Reason::HoldTimeExpired => "hold time expired".to_owned(),
        Reason::Replaced => "replaced by a new connection".to_owned(),
        Reason::Forgotten => "removed to save memory".to_owned(),
    })
}

impl Content<'_> {
    fn path_text(&self) -> String {
        self.path.map_or_else(String::new, |path| segments_text(path.segments()))
    }

    fn communities(&self) -> Vec<String> {
        self.communities.iter().flat_map(Communities::iter).map(|one| one.to_string()).collect()
    }

    fn large_communities(&self) -> Vec<String> {
        self.large.iter().flat_map(LargeCommunities::iter).map(|one| one.to_string()).collect()
    }
}

impl UpdateChange<'_> {
    /// `announce`, `withdraw` or `state`, as the options name them.
    const fn kind(&self) -> &'static str {
        match self {
            Self::Announce(..) => "announce",
            Self::Withdraw(_) => "withdraw",
            Self::State(..) | Self::EndOfRib(_) | Self::Refresh(..) => "state",
        }
    }
}

impl Update<'_> {
    pub fn json(&self) -> Value {
        let peering = self.peering;
        let mut object = json!({
            "time": unix(self.time),
            "type": self.change.kind(),
            "peer": peering.peer,
            "peer_as": peering.peer_as.0,
            "router": peering.local,
            "mirror": peering.mirror.interface(),
        });
        let mut add = |route: &ChangedRoute<'_>| {
            object["prefix"] = json!(route.destination.to_string());
            object["family"] = json!(route.family.to_string());
            object["path_id"] = json!(route.path_id);
        };
        match &self.change {
            UpdateChange::Announce(route, content) => {
                add(route);
                object["path"] = json!(content.path_text());
                object["next_hop"] = json!(next_hop_text(route.next_hop));
                object["communities"] = json!(content.communities());
                object["large_communities"] = json!(content.large_communities());
            }
            UpdateChange::Withdraw(route) => add(route),
            UpdateChange::State(old, new, reason) => {
                object["old"] = json!(format!("{old:?}"));
                object["new"] = json!(format!("{new:?}"));
                object["reason"] = json!(reason_text(*reason));
            }
            UpdateChange::EndOfRib(family) => {
                object["event"] = json!("end-of-rib");
                object["family"] = json!(family.to_string());
            }
            UpdateChange::Refresh(family, is_begin) => {
                let event = if *is_begin { "refresh-begin" } else { "refresh-end" };
                object["event"] = json!(event);
                object["family"] = json!(family.to_string());
            }
        }
        object
    }
}

/// Formats updates as lines in columns, with a line for each day.
#[derive(Debug, Default)]
pub struct UpdateText {
    day: String,
}

impl UpdateText {
    /// The line of an update, after a line with its day if that is new.
    pub fn line(&mut self, update: &Update<'_>) -> String {
        let (day, clock) = split(update.time);
        let mut text = String::new();
        if day != self.day {
            text = format!("{day} (UTC)\n");
            self.day = day;
        }
        let (peer, kind) = (update.peering.peer.to_string(), update.change.kind());
        let _ = write!(text, "{clock}  {peer:<15}  {kind:<8}  ");
        match &update.change {
            UpdateChange::Announce(route, content) => {
                let path = content.path_text();
                text.push_str(format!("{:<18}  {path}", route.destination.to_string()).trim_end());
                text.push_str(&marks(route));
            }
            UpdateChange::Withdraw(route) => {
                text.push_str(&route.destination.to_string());
                text.push_str(&marks(route));
            }
            UpdateChange::State(old, new, reason) => {
                let _ = write!(text, "{old:?} > {new:?}");
                if let Some(reason) = reason_text(*reason) {
                    let _ = write!(text, ": {reason}");
                }
            }
            UpdateChange::EndOfRib(family) => {
                let _ = write!(text, "End-of-RIB of {family}");
            }
            UpdateChange::Refresh(family, is_begin) => {
                let what = if *is_begin { "begins" } else { "ends" };
                let _ = write!(text, "route refresh of {family} {what}");
            }
        }
        text
    }
}

/// Day, and time of day in milliseconds.
fn split(time: Time) -> (String, String) {
    let millis = Time::from_nanos(time.as_nanos() / 1_000_000 * 1_000_000);
    let text = moment_text(millis);
    let (day, clock) = text.split_once('T').unwrap_or((&text, ""));
    let clock = clock.trim_end_matches('Z');
    let (seconds, fraction) = clock.split_once('.').unwrap_or((clock, "000"));
    (day.to_owned(), format!("{seconds}.{fraction:.3}"))
}

/// Path identifier and family, where the prefix does not show it.
fn marks(route: &ChangedRoute<'_>) -> String {
    let mut text = String::new();
    if let Some(id) = route.path_id {
        let _ = write!(text, "  [id {id}]");
    }
    let family = route.family.to_string();
    if !family.ends_with("/unicast") {
        let _ = write!(text, "  [{family}]");
    }
    text
}
