//! Archive files of many writers and years are decoded, and encoded to the same bytes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use bgp::mrt::{Body, Cause, Reader, Record, Records, Step, kind, write};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../data/bgp")
}

/// The bytes of a file, decompressed; `None` if the program for that is not installed.
fn read(path: &Path) -> Option<Vec<u8>> {
    let program = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => "gzip",
        Some("bz2") => "bzip2",
        _ => return Some(std::fs::read(path).unwrap()),
    };
    match Command::new(program).arg("-dc").arg(path).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", path.display());
            Some(output.stdout)
        }
        Err(error) => {
            eprintln!("SKIPPED {}: {program}: {error}", path.display());
            None
        }
    }
}

/// All sample files, by name.
fn samples() -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let truth = data().join("pcap/addpath-extmsg-as4-v6-md5.bird-truth.mrt");
    found.insert("bird-truth".to_owned(), std::fs::read(truth).unwrap());
    for folder in ["mrt", "mrt/small"] {
        for entry in std::fs::read_dir(data().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let other = path.extension().is_some_and(|end| end == "conf" || end == "rst");
            if path.is_file()
                && !other
                && let Some(bytes) = read(&path)
            {
                found.insert(name, bytes);
            }
        }
    }
    assert!(found.len() >= 15, "{:?}", found.keys());
    found
}

/// Encodes the decoded record.
fn again(record: &Record<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let (time, kind) = (record.time, record.kind);
    match record.parse().unwrap() {
        Body::Message(message) => {
            write::message(&mut out, time, kind, &message.session, message.form, message.bytes);
        }
        Body::StateChange(change) => write::state_change(&mut out, time, kind, &change),
        Body::Entry(entry) => write::entry(&mut out, time, &entry).unwrap(),
        Body::TableDump(dump) => write::table_dump(&mut out, time, &dump).unwrap(),
        Body::Old(old) => write::old(&mut out, time, &old),
        Body::PeerIndexTable(table) => {
            let peers: Vec<_> = table.peers().map(Result::unwrap).collect();
            assert_eq!(peers.len(), usize::from(table.count));
            write::peer_index_table(&mut out, time, table.collector, table.view, &peers).unwrap();
        }
        Body::Rib(rib) => {
            let (sequence, family) = (rib.sequence, rib.family);
            let mut open =
                write::Rib::open(&mut out, time, sequence, family, rib.add_path, rib.nlri);
            for entry in rib.entries() {
                open.entry(&mut out, &entry.unwrap()).unwrap();
            }
            open.close(&mut out);
        }
        other => panic!("{other:?} in a sample"),
    }
    out
}

#[test]
fn encodes_decoded_samples_to_same_bytes() {
    for (name, bytes) in samples() {
        let mut records = 0;
        for step in Records::new(&bytes) {
            let Ok(record) = step else { continue };
            assert_eq!(Record::of(record.bytes), Some(record));
            assert!(again(&record) == record.bytes, "{name}: {record:?}");
            records += 1;
        }
        assert!(records >= 5, "{name}: {records} records");
    }
}

#[test]
fn finds_damage_only_in_file_of_2000() {
    for (name, bytes) in samples() {
        let damages: Vec<_> = Records::new(&bytes).filter_map(Result::err).collect();
        if !name.contains("20000325") {
            assert_eq!(damages, [], "{name}");
            continue;
        }
        // MRTd omitted the bytes after the first two octets of a length.
        assert!(damages.iter().all(|damage| damage.cause == Cause::Framing));
        assert_eq!((damages[0].offset, damages[0].skipped), (188, 10));
        let skipped: usize = damages.iter().map(|damage| damage.skipped).sum();
        let read = Records::new(&bytes).filter_map(Result::ok);
        let (count, whole) = read.fold((0, 0), |(n, b), record| (n + 1, b + record.bytes.len()));
        assert_eq!(skipped + whole, bytes.len());
        assert!(skipped < 1000 && count > 2500, "{count} records, {skipped} bytes skipped");
    }
}

/// Reads in pieces of `size` bytes, as from a pipe.
fn in_pieces(bytes: &[u8], size: usize) -> (usize, usize) {
    let (mut reader, mut from, mut to) = (Reader::new(), 0, 0);
    let (mut records, mut skipped) = (0, 0);
    loop {
        match reader.next(&bytes[from..to], to == bytes.len()) {
            Step::Record(record) => {
                records += 1;
                from += record.bytes.len();
            }
            Step::Need(need) => {
                assert!(need > to - from && to < bytes.len());
                to = bytes.len().min((to + size).max(from + need));
            }
            Step::Damaged(damage) => {
                assert_eq!(damage.offset, from as u64);
                skipped += damage.skipped;
                from += damage.skipped;
            }
            Step::End => break,
        }
        assert_eq!(reader.offset(), from as u64);
    }
    assert_eq!(from, bytes.len());
    (records, skipped)
}

#[test]
fn reads_same_records_in_pieces() {
    for (name, bytes) in samples() {
        if name.contains("20000325") {
            continue;
        }
        let whole = Records::new(&bytes).count();
        for size in [1, 4096] {
            assert_eq!(in_pieces(&bytes, size), (whole, 0), "{name} by {size}");
        }
    }
}

#[test]
fn reads_truncated_states_of_zebra() {
    let samples = samples();
    let Some((_, bytes)) = samples.iter().find(|(name, _)| name.contains("20001104")) else {
        return;
    };
    let mut abridged = [0; 2];
    for record in Records::new(bytes) {
        match record.unwrap().parse().unwrap() {
            Body::StateChange(change) => {
                assert!((1..=8).contains(&change.old) && (1..=8).contains(&change.new));
                abridged[0] += usize::from(change.session.abridged);
            }
            Body::Message(message) => {
                assert!(message.message().is_some());
                abridged[1] += usize::from(message.session.abridged);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(abridged, [42, 21]);
}

#[test]
fn reports_offset_of_torn_tail() {
    let bytes = std::fs::read(data().join("mrt/small/bird_bgp")).unwrap();
    let all: Vec<_> = Records::new(&bytes).map(Result::unwrap).collect();
    let last = all.last().unwrap().bytes.len();
    for cut in 1..last {
        let torn = &bytes[..bytes.len() - cut];
        let mut records = Records::new(torn);
        assert_eq!(records.by_ref().take_while(Result::is_ok).count(), all.len() - 1);
        let damage = Records::new(torn).last().unwrap().unwrap_err();
        assert_eq!(damage.cause, Cause::Torn);
        assert_eq!(damage.offset, (bytes.len() - last) as u64);
        assert_eq!(damage.skipped, last - cut);
    }
}

#[test]
fn skips_only_damaged_records() {
    let bytes = std::fs::read(data().join("mrt/small/bgpipe_sample.mrt")).unwrap();
    let all: Vec<_> = Records::new(&bytes).map(Result::unwrap).collect();
    assert!(all.iter().all(|record| record.kind == kind::BGP4MP_ET));
    let mut at = 0;
    for (number, record) in all.iter().enumerate() {
        // Zeros over the header, as after a file system crash; and missing bytes.
        let mut zeroed = bytes.clone();
        zeroed[at..at + 12].fill(0);
        let mut cut = bytes.clone();
        cut.drain(at + 5..at + 9);
        for damaged in [zeroed, cut] {
            let read = Records::new(&damaged).filter_map(Result::ok).count();
            // At both ends of the input no neighbouring record confirms the time or the header.
            let lost = all.len() - read;
            assert!(lost <= 3, "record {number} of {}: {lost} lost", all.len());
        }
        at += record.bytes.len();
    }
}

/// Among valid records, only the one without room for its microseconds is skipped.
#[test]
fn skips_only_record_without_microseconds() {
    let bytes = std::fs::read(data().join("mrt/small/bgpipe_sample.mrt")).unwrap();
    let all: Vec<_> = Records::new(&bytes).map(Result::unwrap).collect();
    let cut = all[0].bytes.len() + all[1].bytes.len();
    let mut short = bytes[..8].to_vec();
    short.extend([0, 0, 0, 2, 0xff, 0xff]);
    let damaged = [&bytes[..cut], &short, &bytes[cut..]].concat();
    let read: Vec<_> = Records::new(&damaged).collect();
    let lost: usize = read.iter().filter_map(|one| one.as_ref().err()).map(|d| d.skipped).sum();
    assert_eq!(lost, short.len());
    let kept: Vec<_> = read.into_iter().filter_map(Result::ok).map(|one| one.bytes).collect();
    assert_eq!(kept, all.iter().map(|one| one.bytes).collect::<Vec<_>>());
}
