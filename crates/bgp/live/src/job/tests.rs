use std::fs;
use std::path::Path;

use super::*;
use crate::input::{Captures, Progress};

const CAPTURE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../../data/bgp/pcap/addpath-extmsg-as4-v6-md5.pcap");

fn written(folder: &Path) -> u64 {
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => written(&entry.path()),
        Ok(data) if entry.path().extension().is_some_and(|end| end == "open") => data.len(),
        _ => 0,
    };
    fs::read_dir(folder).unwrap().flatten().map(of).sum()
}

#[test]
fn flushes_records_under_continuous_load() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Some((folder.path().to_owned(), archive::Options::default()));
    let mut job = Job::new(Settings { archive, ..Settings::default() }).unwrap();
    job.live = true;
    let mut captures = Captures::open(&[CAPTURE.into()], false, false).unwrap();
    let each = &mut |item: Item<'_>| job.item(item);
    while captures.step(Duration::ZERO, each).unwrap() == Progress::More {}
    assert_eq!(written(folder.path()), 0, "the batch is too small for a separate write");
    job.pause(Clock::Unknown);
    assert!(written(folder.path()) > 1_000);
}
