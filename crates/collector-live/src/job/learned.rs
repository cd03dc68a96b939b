//! What was learned about sessions, kept beside the archive: a collector that starts again in the
//! middle of them reads on as before.

use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base::Span;
use bgp::{Afi, Asn, Family, Negotiated, Safi};
use collector::decapsulate::Mirror;
use collector::session::{Learned, Sessions};
use collector::{Confidence, MirrorId, Sink};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The file, one session a line.
pub(crate) const SESSIONS: &str = "SESSIONS";

/// How one direction is read.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Reading {
    four_octet_as: bool,
    extended_message: bool,
    /// Families by their two numbers.
    add_path: Vec<(u16, u8)>,
}

/// A line.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    /// The stream of clones, as it is shown to people: its number may be another next time.
    mirror: String,
    peer: IpAddr,
    local: IpAddr,
    peer_as: u32,
    local_as: u32,
    peer_id: u32,
    local_id: u32,
    from_peer: Reading,
    from_local: Reading,
    /// Whether nothing else was possible.
    proved: bool,
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
    fn new(learned: &Learned, mirrors: &[Mirror]) -> Option<Self> {
        Some(Self {
            mirror: mirrors.get(learned.mirror.0 as usize)?.to_string(),
            peer: learned.peer,
            local: learned.local,
            peer_as: learned.peer_as.0,
            local_as: learned.local_as.0,
            peer_id: learned.peer_id,
            local_id: learned.local_id,
            from_peer: learned.from_peer.into(),
            from_local: learned.from_local.into(),
            proved: learned.confidence == Confidence::Proved,
            hold_seconds: learned.hold.map(|hold| hold.as_nanos() / 1_000_000_000),
        })
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
            hold: self.hold_seconds.map(Span::from_secs),
        }
    }
}

/// What an earlier collector knew, until the streams of clones appear that it is about.
#[derive(Debug, Default)]
pub(super) struct Memory {
    path: Option<PathBuf>,
    lines: Vec<Line>,
    mirrors: usize,
}

impl Memory {
    /// Reads what there is in `folder`. A line that cannot be read teaches nothing.
    ///
    /// # Errors
    /// If there is a file that cannot be read.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(SESSIONS);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(Error::file("read", &path, e)),
        };
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self { path: Some(path), lines, mirrors: 0 })
    }

    /// Teaches what is known of streams of clones that appeared since the last time.
    pub(super) fn teach<S: Sink>(&mut self, mirrors: &[Mirror], sessions: &mut Sessions<S>) {
        for (number, mirror) in mirrors.iter().enumerate().skip(self.mirrors) {
            let name = mirror.to_string();
            for line in self.lines.iter().filter(|line| line.mirror == name) {
                sessions.learn(line.learned(MirrorId(number as u32)));
            }
        }
        self.mirrors = mirrors.len();
    }

    /// Writes what is known now, and what was known of sessions that did not appear.
    ///
    /// # Errors
    /// If the disk does not take it; what was there stays.
    pub(super) fn save<S: Sink>(&self, mirrors: &[Mirror], sessions: &Sessions<S>) -> Result<()> {
        let Some(path) = self.path.as_ref().filter(|_| !mirrors.is_empty()) else { return Ok(()) };
        let fresh: Vec<Line> =
            sessions.learned().filter_map(|learned| Line::new(&learned, mirrors)).collect();
        let is_known = |old: &&Line| {
            let key = (&old.mirror, old.peer, old.local);
            !fresh.iter().any(|line| (&line.mirror, line.peer, line.local) == key)
        };
        let old = self.lines.iter().filter(is_known);
        let partial = path.with_extension("part");
        let work = || {
            let mut file = fs::File::create(&partial)?;
            for line in old.chain(&fresh) {
                serde_json::to_writer(&mut file, line)?;
                file.write_all(b"\n")?;
            }
            file.sync_data()?;
            fs::rename(&partial, path)
        };
        work().map_err(|e| Error::file("write", path, e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_learned() {
        let negotiated = Negotiated {
            four_octet_as: true,
            extended_message: true,
            add_path: [Family::IPV4_UNICAST, Family::IPV6_UNICAST].into_iter().collect(),
        };
        let learned = Learned {
            mirror: MirrorId(0),
            peer: "192.0.2.1".parse().unwrap(),
            local: "2001:db8::1".parse().unwrap(),
            peer_as: Asn(4_200_000_001),
            local_as: Asn::ZERO,
            peer_id: 7,
            local_id: 0,
            from_peer: negotiated,
            from_local: Negotiated::default(),
            confidence: Confidence::Likely,
            hold: Some(Span::from_secs(90)),
        };
        let mirror = Mirror { tags: Vec::new(), tunnel: None, segments: 0 };
        let line = Line::new(&learned, &[mirror]).unwrap();
        let text = serde_json::to_string(&line).unwrap();
        let again: Line = serde_json::from_str(&text).unwrap();
        assert_eq!(again.learned(MirrorId(0)), learned);
    }
}
