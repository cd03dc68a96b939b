//! Session parameters saved beside the archive, with which a restarted collector continues in the
//! middle of sessions.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use base::Span;
use bgp::{Afi, Asn, Family, Negotiated, Safi};
use collector::decapsulate::Mirror;
use collector::session::{Learned, Sessions};
use collector::{Confidence, MirrorId, Sink};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The file, one session per line.
pub(crate) const SESSIONS: &str = "SESSIONS";

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Reading {
    four_octet_as: bool,
    extended_message: bool,
    add_path: Vec<(u16, u8)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    mirror: String,
    peer: IpAddr,
    local: IpAddr,
    peer_as: u32,
    local_as: u32,
    peer_id: u32,
    local_id: u32,
    from_peer: Reading,
    from_local: Reading,
    proved: bool,
    #[serde(default)]
    is_guess: bool,
    hold_seconds: Option<u64>,
}

impl From<Negotiated> for Reading {
    fn from(negotiated: Negotiated) -> Self {
        let families = negotiated.add_path.iter();
        Self {
            four_octet_as: negotiated.four_octet_as,
            extended_message: negotiated.extended_message,
            add_path: families.map(|family| (family.afi.0, family.safi.0)).collect(),
        }
    }
}

impl From<&Reading> for Negotiated {
    fn from(reading: &Reading) -> Self {
        let families = reading.add_path.iter();
        Self {
            four_octet_as: reading.four_octet_as,
            extended_message: reading.extended_message,
            add_path: families
                .map(|(afi, safi)| Family { afi: Afi(*afi), safi: Safi(*safi) })
                .collect(),
        }
    }
}

impl Line {
    fn new(learned: &Learned, mirrors: &[String]) -> Option<Self> {
        Some(Self {
            mirror: mirrors.get(learned.mirror.index()?)?.clone(),
            peer: learned.peer,
            local: learned.local,
            peer_as: learned.peer_as.0,
            local_as: learned.local_as.0,
            peer_id: learned.peer_id,
            local_id: learned.local_id,
            from_peer: learned.from_peer.into(),
            from_local: learned.from_local.into(),
            proved: learned.confidence == Confidence::Proved,
            is_guess: learned.is_guess,
            hold_seconds: learned.hold.map(|hold| hold.as_nanos() / 1_000_000_000),
        })
    }

    fn key(&self) -> (&str, IpAddr, IpAddr) {
        (&self.mirror, self.peer, self.local)
    }

    fn learned(&self, mirror: MirrorId) -> Learned {
        Learned {
            mirror,
            peer: self.peer,
            local: self.local,
            peer_as: Asn(self.peer_as),
            local_as: Asn(self.local_as),
            peer_id: self.peer_id,
            local_id: self.local_id,
            from_peer: (&self.from_peer).into(),
            from_local: (&self.from_local).into(),
            confidence: if self.proved { Confidence::Proved } else { Confidence::Likely },
            is_guess: self.is_guess,
            hold: self.hold_seconds.map(Span::from_secs),
        }
    }
}

/// Maximum number of sessions: current ones first.
const MAX_SESSIONS: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Memory {
    lines: Arc<[Line]>,
}

impl Memory {
    /// Reads the file in `folder`. An invalid line is ignored.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(SESSIONS);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(Error::file("read", &path, e)),
        };
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self { lines })
    }

    pub(super) fn lines(&self) -> Arc<[Line]> {
        Arc::clone(&self.lines)
    }

    /// Applies the parameters of sessions of `mirrors`, which are those of the earlier collector.
    pub(super) fn teach<S: Sink>(&self, mirrors: &[Mirror], sessions: &mut Sessions<S>) {
        let names = mirrors.iter().map(|mirror| mirror.name.as_str());
        let numbers: BTreeMap<&str, u32> = names.zip(1..).collect();
        for line in &*self.lines {
            if let Some(number) = numbers.get(&*line.mirror) {
                sessions.learn(line.learned(MirrorId(*number)));
            }
        }
    }
}

/// Parameters to save: those of current sessions, and earlier ones of absent sessions.
pub(super) fn text(known: &[Line], learned: &[Learned], mirrors: &[String]) -> String {
    let fresh: Vec<Line> = learned.iter().filter_map(|one| Line::new(one, mirrors)).collect();
    let keys: HashSet<_> = fresh.iter().map(Line::key).collect();
    let known = known.iter().filter(|line| !keys.contains(&line.key()));
    let mut text = String::new();
    for line in fresh.iter().chain(known).take(MAX_SESSIONS) {
        if let Ok(line) = serde_json::to_string(line) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_session_parameters_as_lines() {
        let negotiated = Negotiated {
            four_octet_as: true,
            extended_message: true,
            add_path: [Family::IPV4_UNICAST, Family::IPV6_UNICAST].into_iter().collect(),
        };
        let learned = Learned {
            mirror: MirrorId(1),
            peer: "192.0.2.1".parse().unwrap(),
            local: "2001:db8::1".parse().unwrap(),
            peer_as: Asn(4_200_000_001),
            local_as: Asn::ZERO,
            peer_id: 7,
            local_id: 0,
            from_peer: negotiated,
            from_local: Negotiated::default(),
            confidence: Confidence::Likely,
            is_guess: true,
            hold: Some(Span::from_secs(90)),
        };
        let mirrors = ["interface 0".to_owned()];
        let kept = text(&[], &[learned], &mirrors);
        let again: Line = serde_json::from_str(&kept).unwrap();
        assert_eq!(again.learned(MirrorId(1)), learned);
        // One is current again, another is still absent.
        let other = Line { peer: "192.0.2.9".parse().unwrap(), ..again.clone() };
        let kept = text(&[again, other], &[learned], &mirrors);
        assert_eq!(kept.lines().count(), 2);
        assert!(kept.lines().nth(1).unwrap().contains("192.0.2.9"));
    }
}
