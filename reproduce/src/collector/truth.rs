//! What the collector archived beside what the router dumped, session by session.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base::Time;
use bgp::mrt::{Body, Records};

use crate::{Error, Result};

/// Type of an UPDATE (RFC 4271 §4.1), and where it is in a message.
const UPDATE: u8 = 2;
const TYPE: usize = 18;
/// The state of sessions that are up (RFC 6396 §4.4.1).
const ESTABLISHED: u16 = 6;

/// What a peer sent, as an archive has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// Its UPDATEs, one behind the other.
    pub(super) updates: Vec<u8>,
    /// Where each of them ends.
    pub(super) ends: Vec<usize>,
    /// When the session came up, and when it went down.
    pub(super) up: Vec<Time>,
    pub(super) down: Vec<Time>,
}

/// All that an archive holds, by peer.
pub(super) type Archive = BTreeMap<IpAddr, Heard>;

/// Reads MRT: what is damaged is an error.
pub(super) fn read(path: &Path) -> Result<Archive> {
    let mut archive = Archive::new();
    for file in files(path)? {
        let bytes = fs::read(&file).map_err(|e| Error::io("read", &file, e))?;
        add(&bytes, &mut archive)
            .map_err(|what| Error::Refused(format!("{} {what}", file.display())))?;
    }
    Ok(archive)
}

/// A file, or the files of updates below a folder, in order.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(|e| Error::io("read", path, e))? {
        let entry = entry.map_err(|e| Error::io("read", path, e))?.path();
        let name = entry.file_name().map(|name| name.to_string_lossy().into_owned());
        if entry.is_dir() {
            found.extend(files(&entry)?);
        } else if name.is_some_and(|name| name.starts_with("updates.")) {
            found.push(entry);
        }
    }
    found.sort();
    Ok(found)
}

fn add(bytes: &[u8], archive: &mut Archive) -> std::result::Result<(), String> {
    for record in Records::new(bytes) {
        let record = record.map_err(|damage| format!("is damaged: {damage:?}"))?;
        match record.parse().map_err(|e| format!("has a record that cannot be read: {e}"))? {
            Body::Message(message)
                if !message.form.local && message.bytes.get(TYPE) == Some(&UPDATE) =>
            {
                let heard = archive.entry(message.session.peer).or_default();
                heard.updates.extend_from_slice(message.bytes);
                heard.ends.push(heard.updates.len());
            }
            // Where a connection breaks, BIRD no longer knows whose it was.
            Body::StateChange(change) if !change.session.peer.is_unspecified() => {
                let heard = archive.entry(change.session.peer).or_default();
                if change.new == ESTABLISHED {
                    heard.up.push(record.time);
                } else if change.old == ESTABLISHED {
                    heard.down.push(record.time);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// How two archives of the same sessions compare.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Comparison {
    /// Peers that sent UPDATEs, in either.
    pub(super) peers: usize,
    /// Those of them whose UPDATEs are the same bytes in the same order.
    pub(super) same: usize,
    /// Those of them of which ours has every UPDATE of the router's, in order, and perhaps others
    /// between them.
    pub(super) held: usize,
    /// UPDATEs of the router's.
    pub(super) updates: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// UPDATEs of ours.
    pub(super) own_updates: u64,
    /// Their bytes.
    pub(super) own_bytes: u64,
    /// Sessions that came up: the router's, ours.
    pub(super) up: (usize, usize),
    /// The longest time between the two about a session that came up, in s; `None` where their
    /// numbers differ.
    pub(super) apart_s: Option<f64>,
}

impl Heard {
    fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.updates[start..*end])
    }

    /// Whether it has every message of the other's, in order.
    fn holds(&self, other: &Self) -> bool {
        let mut own = self.messages();
        other.messages().all(|message| own.any(|mine| mine == message))
    }
}

pub(super) fn compare(router: &Archive, ours: &Archive) -> Comparison {
    let nothing = Heard::default();
    let mut result = Comparison { apart_s: Some(0.0), ..Comparison::default() };
    let mut peers: Vec<&IpAddr> = router.keys().chain(ours.keys()).collect();
    peers.sort();
    peers.dedup();
    for peer in peers {
        let theirs = router.get(peer).unwrap_or(&nothing);
        let own = ours.get(peer).unwrap_or(&nothing);
        result.up.0 += theirs.up.len();
        result.up.1 += own.up.len();
        let apart = |(a, b): (&Time, &Time)| (a.as_secs_f64() - b.as_secs_f64()).abs();
        result.apart_s = result.apart_s.filter(|_| theirs.up.len() == own.up.len());
        let most = theirs.up.iter().zip(&own.up).map(apart).fold(0.0, f64::max);
        result.apart_s = result.apart_s.map(|before| before.max(most));
        if theirs.ends.len() + own.ends.len() > 0 {
            result.peers += 1;
            result.same += usize::from(theirs.updates == own.updates);
            result.held += usize::from(own.holds(theirs));
            result.updates += theirs.ends.len() as u64;
            result.bytes += theirs.updates.len() as u64;
            result.own_updates += own.ends.len() as u64;
            result.own_bytes += own.updates.len() as u64;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(updates: &[u8], up: &[u64]) -> Heard {
        let up = up.iter().map(|s| Time::from_nanos(s * 1_000_000_000)).collect();
        let ends = (1..=updates.len()).collect();
        Heard { updates: updates.to_vec(), ends, up, down: Vec::new() }
    }

    fn archive<const N: usize>(of: [(&str, Heard); N]) -> Archive {
        of.into_iter().map(|(peer, heard)| (peer.parse().unwrap(), heard)).collect()
    }

    #[test]
    fn one_byte_more_or_less_is_not_the_same() {
        let a = archive([("10.0.0.1", heard(b"abc", &[1, 5])), ("10.0.0.2", heard(b"d", &[2]))]);
        let b = archive([("10.0.0.1", heard(b"abd", &[1, 7])), ("10.0.0.2", heard(b"d", &[2]))]);
        let same = compare(&a, &a);
        assert_eq!((same.peers, same.same, same.held, same.updates, same.bytes), (2, 2, 2, 4, 4));
        assert_eq!((same.up, same.apart_s), ((3, 3), Some(0.0)));
        let other = compare(&a, &b);
        assert_eq!((other.peers, other.same, other.apart_s), (2, 1, Some(2.0)));
        let less = compare(&a, &archive([("10.0.0.2", heard(b"d", &[]))]));
        assert_eq!((less.peers, less.same, less.up, less.apart_s), (2, 1, (3, 0), None));
    }

    #[test]
    fn a_dump_may_lack_messages_but_not_have_others() {
        let ours = archive([("10.0.0.1", heard(b"abcabc", &[]))]);
        for (dumped, held) in [("abcabc", 1), ("acb", 1), ("", 1), ("cca", 0), ("abd", 0)] {
            let dump = archive([("10.0.0.1", heard(dumped.as_bytes(), &[]))]);
            let compared = compare(&dump, &ours);
            assert_eq!((compared.held, compared.own_updates), (held, 6), "{dumped}");
            assert_eq!(compared.same, usize::from(dumped == "abcabc"));
        }
    }

    #[test]
    fn dumps_of_bird_are_read() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../data/bgp/pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt"
        );
        let truth = read(Path::new(path)).unwrap();
        assert_eq!(truth.len(), 3);
        let up: usize = truth.values().map(|heard| heard.up.len()).sum();
        let updates: u64 = truth.values().map(|heard| heard.ends.len() as u64).sum();
        assert!(up >= 3 && updates > 60, "{up} {updates}");
    }
}
