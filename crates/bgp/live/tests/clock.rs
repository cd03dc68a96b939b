//! Captures with a wrong clock.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::path::Path;
use std::sync::atomic::AtomicBool;

use collector_live::archive::{Compression, Options};
use collector_live::input::Captures;
use collector_live::job::{self, Settings};
use collector_live::live::Source;

/// The offsets of the seconds of each packet in a little-endian pcap file.
fn places(pcap: &[u8]) -> Vec<usize> {
    let mut at = 24;
    let mut places = Vec::new();
    while at + 16 <= pcap.len() {
        places.push(at);
        let length = u32::from_le_bytes(pcap[at + 8..at + 12].try_into().unwrap());
        at += 16 + length as usize;
    }
    places
}

/// The capture with many unrelated packets between its own, so that it is read in many parts.
fn spread(pcap: &[u8]) -> Vec<u8> {
    const OTHER: usize = 8_000;
    let places = places(pcap);
    let ends = places.iter().skip(1).copied().chain([pcap.len()]);
    let mut out = pcap[..24].to_vec();
    out[16..20].copy_from_slice(&65_535_u32.to_le_bytes());
    for (start, end) in places.iter().zip(ends) {
        out.extend_from_slice(&pcap[*start..end]);
        out.extend_from_slice(&pcap[*start..*start + 8]);
        out.extend((OTHER as u32).to_le_bytes().repeat(2));
        out.extend([0x88; OTHER]);
    }
    out
}

fn collect(pcap: &[u8], folder: &Path) -> (u64, u64) {
    let capture = folder.join("capture.pcap");
    std::fs::write(&capture, pcap).unwrap();
    let options = Options { compression: Compression::None, ..Options::default() };
    let archive = Some((folder.join("archive"), options));
    let settings = Settings { archive, ..Settings::default() };
    let captures = Captures::open(&[capture], false, false).unwrap();
    let never = AtomicBool::new(false);
    let summary = job::packets(settings, vec![Source::Captures(captures)], &never).unwrap();
    let archive = summary.archive.unwrap();
    (archive.records, archive.files)
}

#[test]
fn limits_file_changes_after_damaged_time() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../data/bgp/pcap/addpath-extmsg-as4-v6-md5.pcap"
    );
    let mut pcap = spread(&std::fs::read(path).unwrap());
    assert!(pcap.len() > 1 << 20, "{}", pcap.len());
    let folder = tempfile::tempdir().unwrap();
    let (records, files) = collect(&pcap, folder.path());
    assert!(records > 100);
    let places = places(&pcap);
    let place = places[places.len() / 20];
    let seconds = u32::from_le_bytes(pcap[place..place + 4].try_into().unwrap());
    pcap[place..place + 4].copy_from_slice(&(seconds + 10 * 365 * 86_400).to_le_bytes());
    let folder = tempfile::tempdir().unwrap();
    let damaged = collect(&pcap, folder.path());
    assert!(damaged.1 <= files + 2, "{damaged:?} instead of {:?}", (records, files));
}
