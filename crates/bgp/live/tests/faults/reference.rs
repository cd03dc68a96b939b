//! Captures of sessions with a dump of the router.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use collector::State;
use collector_live::input::Input;
use sha2::{Digest, Sha256};

use crate::collect::{Outcome, collect, settings};
use crate::{data, mrt, readers};

/// UPDATEs of each peer: their number, and the first bytes of their SHA-256.
fn updates(archive: &[u8]) -> BTreeMap<mrt::Ends, (usize, u64)> {
    let mut by = BTreeMap::new();
    for (ends, messages) in mrt::messages(archive) {
        let updates: Vec<&Vec<u8>> =
            messages.iter().map(|(_, bytes)| bytes).filter(|bytes| bytes[18] == 2).collect();
        let mut hash = Sha256::new();
        for bytes in &updates {
            hash.update(bytes);
        }
        let start = u64::from_be_bytes(*hash.finalize().first_chunk().unwrap());
        by.insert(ends, (updates.len(), start));
    }
    by
}

#[test]
fn archives_five_tables_of_router() {
    let files = [data("pcap/full5x577737.pcap.zst")];
    let outcome = collect(&files, settings());
    assert_eq!(outcome.troubles, Vec::<String>::new());
    let found = updates(&outcome.archive);
    assert_eq!(found.len(), 5);
    for (ends, (count, hash)) in &found {
        assert_eq!(*hash, 0x95ba_49fe_47b0_2787, "{ends:?}: {hash:x}");
        assert_eq!(*count, 89_680, "{ends:?}");
    }
    assert_eq!(outcome.statistics.missing_bytes + outcome.statistics.skipped_bytes, 0);
    let first: Vec<u8> = outcome.archive[..4 << 20].to_vec();
    readers::accept(&first[..whole(&first)]);
}

fn whole(bytes: &[u8]) -> usize {
    let mut at = 0;
    while at + 12 <= bytes.len() {
        let length = u32::from_be_bytes(*bytes[at + 8..].first_chunk().unwrap()) as usize;
        if at + 12 + length > bytes.len() {
            break;
        }
        at += 12 + length;
    }
    at
}

fn by_type(messages: &[(u64, Vec<u8>)]) -> BTreeMap<u8, usize> {
    let mut by = BTreeMap::new();
    for (_, bytes) in messages {
        *by.entry(bytes[18]).or_default() += 1;
    }
    by
}

/// Microseconds at which sessions were established or ended, by peer.
fn established(archive: &[u8]) -> BTreeMap<mrt::Ends, Vec<(u64, bool)>> {
    let mut by: BTreeMap<mrt::Ends, Vec<(u64, bool)>> = BTreeMap::new();
    for record in mrt::records(archive).iter().filter(|record| record.is_state) {
        let (old, new) = (record.bytes[1], record.bytes[3]);
        if (old == 6) != (new == 6) {
            by.entry(record.ends).or_default().push((record.time, new == 6));
        }
    }
    by
}

fn sessions() -> Outcome {
    let files = [data("pcap/addpath-extmsg-as4-v6-md5.pcap")];
    collect(&files, settings())
}

#[test]
fn matches_dump_of_router_for_all_session_kinds() {
    let truth = fs::read(data("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt")).unwrap();
    let outcome = sessions();
    readers::accept(&outcome.archive);
    let (ours, theirs) = (mrt::messages(&outcome.archive), mrt::messages(&truth));
    assert_eq!(updates(&outcome.archive), {
        let mut theirs = updates(&truth);
        theirs.retain(|ends, _| ours.contains_key(ends));
        theirs
    });
    assert_eq!(ours.len(), 3);
    for (ends, messages) in &ours {
        assert_eq!(by_type(messages), by_type(&theirs[ends]), "{ends:?}");
        for ((time, message), (other, same)) in messages.iter().zip(&theirs[ends]) {
            assert!(message == same && time.abs_diff(*other) < 1_000_000, "{ends:?}: {time}");
        }
    }
    // After the abrupt end of one session its dump contains neither peer nor router.
    let (ours, theirs) = (established(&outcome.archive), established(&truth));
    for (ends, changes) in &ours {
        let theirs = theirs.get(ends).map(Vec::as_slice).unwrap_or_default();
        assert!(changes.len() >= theirs.len(), "{ends:?}: {changes:?} {theirs:?}");
        for ((time, up), (other, there)) in changes.iter().zip(theirs) {
            assert_eq!(up, there, "{ends:?}");
            assert!(time.abs_diff(*other) < 1_000_000, "{ends:?}: {time} {other}");
        }
    }
    let ups = outcome.collected.states.values().flatten();
    let ups = ups.filter(|(_, _, new)| *new == State::Established).count();
    let downs = ours.values().flatten().filter(|(_, up)| !up).count();
    assert_eq!((ups, downs), (3, 3), "{ours:?}");
}

/// The same bytes from any type of input: whole, compressed, in parts.
#[test]
fn archives_equally_from_each_input() {
    let expected = sessions().archive;
    let path = data("pcap/addpath-extmsg-as4-v6-md5.pcap");
    let plain = fs::read(&path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let packed = folder.path().join("sessions.pcap.zst");
    fs::write(&packed, zstd::encode_all(&plain[..], 3).unwrap()).unwrap();
    // One file per direction, merged by time.
    let mut sides = [plain[..24].to_vec(), plain[..24].to_vec()];
    let mut at = 24;
    while at < plain.len() {
        let length = u32::from_le_bytes(*plain[at + 8..].first_chunk().unwrap()) as usize;
        let record = &plain[at..at + 16 + length];
        let port = if record[28..30] == [8, 0] { 50 } else { 70 };
        let to_router = record[port + 2..port + 4] == [0, 179];
        sides[usize::from(to_router)].extend_from_slice(record);
        at += 16 + length;
    }
    let parts: Vec<PathBuf> =
        ["away.pcap", "towards.pcap"].map(|name| folder.path().join(name)).into();
    for (path, bytes) in parts.iter().zip(&sides) {
        fs::write(path, bytes).unwrap();
    }
    for files in [vec![packed], parts] {
        assert!(Input::open(&files[0], false).is_ok());
        assert!(collect(&files, settings()).archive == expected, "{files:?}");
    }
}
