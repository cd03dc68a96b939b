//! Updates as lines of text and of JSON.

use std::fmt::{Display, Write};

use base::Time;
use bgp::attribute::{Communities, LargeCommunities};
use bgp::notification::names;
use collector::rib::segments_text;
use collector::{Reason, Sender};
use serde::ser::{Serialize, SerializeMap, Serializer};

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

/// Text of a value as a string of JSON.
struct Text<T>(T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

/// Texts of values as an array of JSON.
struct Texts<F>(F);

impl<I: Iterator<Item: Display>, F: Fn() -> I> Serialize for Texts<F> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0().map(Text))
    }
}

/// As an object. An archive has millions of updates, so no tree of values is made of them.
impl Serialize for Update<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (peering, mut map) = (self.peering, to.serialize_map(None)?);
        map.serialize_entry("time", &unix(self.time))?;
        map.serialize_entry("type", self.change.kind())?;
        map.serialize_entry("peer", &peering.peer)?;
        map.serialize_entry("peer_as", &peering.peer_as.0)?;
        map.serialize_entry("router", &peering.local)?;
        map.serialize_entry("mirror", &peering.mirror.interface())?;
        if let UpdateChange::Announce(route, _) | UpdateChange::Withdraw(route) = &self.change {
            map.serialize_entry("prefix", &Text(&route.destination))?;
            map.serialize_entry("family", &Text(route.family))?;
            map.serialize_entry("path_id", &route.path_id)?;
        }
        match &self.change {
            UpdateChange::Announce(route, content) => {
                let communities = || content.communities.iter().flat_map(Communities::iter);
                let large = || content.large.iter().flat_map(LargeCommunities::iter);
                map.serialize_entry("path", &content.path_text())?;
                map.serialize_entry("next_hop", &next_hop_text(route.next_hop))?;
                map.serialize_entry("communities", &Texts(communities))?;
                map.serialize_entry("large_communities", &Texts(large))?;
            }
            UpdateChange::Withdraw(_) => {}
            UpdateChange::State(old, new, reason) => {
                map.serialize_entry("old", &Text(format_args!("{old:?}")))?;
                map.serialize_entry("new", &Text(format_args!("{new:?}")))?;
                map.serialize_entry("reason", &reason_text(*reason))?;
            }
            UpdateChange::EndOfRib(family) => {
                map.serialize_entry("event", "end-of-rib")?;
                map.serialize_entry("family", &Text(family))?;
            }
            UpdateChange::Refresh(family, is_begin) => {
                let event = if *is_begin { "refresh-begin" } else { "refresh-end" };
                map.serialize_entry("event", event)?;
                map.serialize_entry("family", &Text(family))?;
            }
        }
        map.end()
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
