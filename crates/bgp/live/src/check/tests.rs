use std::fs;
use std::io::Write;

use base::Span;
use bgp::Asn;
use bgp::mrt::{self, Session, StateChange};

use super::*;
use crate::archive::{Archive, Compression, Options};

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_795_262_400 * SECOND;

fn record(out: &mut Vec<u8>, nanos: u64) {
    let [peer, local] = [1, 2].map(|last| std::net::Ipv4Addr::new(192, 0, 2, last).into());
    let session = Session::new(Asn(64500), Asn(64501), peer, local);
    let change = StateChange { session, four_octet_as: true, old: 1, new: 3 };
    mrt::write::state_change(out, Time::from_nanos(nanos), mrt::write::bgp4mp(true), &change);
}

fn options() -> Options {
    Options {
        interval: Span::from_secs(60),
        compression: Compression::Gzip(1),
        ..Options::default()
    }
}

/// Five files of 100 records each.
fn fill(folder: &Path) {
    let mut archive = Archive::open(folder, options()).unwrap();
    for number in 0..500 {
        let time = START + number * 60 * SECOND / 100;
        record(archive.at(Time::from_nanos(time)), time);
    }
    archive.close().unwrap();
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let month = folder.join("2026.11");
    let mut files: Vec<PathBuf> =
        fs::read_dir(month).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn wrongs(folder: &Path) -> Vec<Wrong> {
    let report = check(&[folder.to_owned()]).unwrap();
    assert_eq!(report.is_right(), report.findings.is_empty());
    let mut wrongs: Vec<Wrong> = report.findings.iter().map(|finding| finding.wrong).collect();
    wrongs.sort_unstable();
    wrongs
}

fn archive() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    folder
}

#[test]
fn accepts_whole_archive() {
    let folder = archive();
    let report = check(&[folder.path().to_owned()]).unwrap();
    assert!(report.is_right(), "{report:?}");
    assert_eq!((report.files, report.records, report.verified), (5, 500, 5));
    assert_eq!(report.notes, Vec::<String>::new());
    assert!(report.table().contains("no errors"));
    assert_eq!(report.json()["ok"], true);
}

#[test]
fn finds_changed_file() {
    let folder = archive();
    let path = &files(folder.path())[1];
    let mut bytes = fs::read(path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(path, &bytes).unwrap();
    assert!(wrongs(folder.path()).contains(&Wrong::Changed));
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    let found = wrongs(folder.path());
    assert!(found.contains(&Wrong::Changed) && found.contains(&Wrong::Unreadable), "{found:?}");
    // A valid file, but a different one.
    fs::copy(&files(folder.path())[3], path).unwrap();
    let found = wrongs(folder.path());
    let expected = [Wrong::Changed, Wrong::Content, Wrong::Interval];
    assert!(expected.iter().all(|wrong| found.contains(wrong)), "{found:?}");
    fs::remove_file(path).unwrap();
    assert_eq!(wrongs(folder.path()), [Wrong::Absent]);
}

#[test]
fn finds_duplicate_file() {
    let folder = archive();
    let all = files(folder.path());
    let name = all[2].file_name().unwrap().to_str().unwrap();
    fs::copy(&all[2], all[2].with_file_name(name.replace(".gz", "-2.gz"))).unwrap();
    assert_eq!(wrongs(folder.path()), [Wrong::Duplicate, Wrong::Unlisted]);
    let manifest = folder.path().join(MANIFEST);
    let text = fs::read_to_string(&manifest).unwrap();
    let line = text.lines().next().unwrap().replace("\"records\":100", "\"records\":101");
    let mut file = fs::OpenOptions::new().append(true).open(&manifest).unwrap();
    writeln!(file, "{line}\nnonsense").unwrap();
    let found = wrongs(folder.path());
    let expected = [Wrong::ListedTwice, Wrong::Line, Wrong::Content];
    assert!(expected.iter().all(|wrong| found.contains(wrong)), "{found:?}");
}

#[test]
fn reports_files_of_killed_collector() {
    let folder = archive();
    let mut archive = Archive::open(folder.path(), options()).unwrap();
    let time = START + 600 * SECOND;
    record(archive.at(Time::from_nanos(time)), time);
    archive.flush();
    // A running collector is not a finding.
    let report = check(&[folder.path().to_owned()]).unwrap();
    assert!(report.is_right() && !report.notes.is_empty(), "{report:?}");
    drop(archive);
    assert_eq!(wrongs(folder.path()), [Wrong::Leftover]);
    Archive::open(folder.path(), options()).unwrap().close().unwrap();
    assert_eq!(wrongs(folder.path()), []);
}

#[test]
fn checks_single_files() {
    let folder = archive();
    let mut bytes = Vec::new();
    (0..10).for_each(|number| record(&mut bytes, START + number));
    let path = folder.path().join("mine.mrt");
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let report = check(std::slice::from_ref(&path)).unwrap();
    assert_eq!(report.findings.len(), 1);
    assert_eq!((report.findings[0].wrong, report.records), (Wrong::Torn, 9));
    let middle = bytes.len() / 2;
    bytes[middle..middle + 40].fill(0xee);
    fs::write(&path, &bytes).unwrap();
    let report = check(std::slice::from_ref(&path)).unwrap();
    assert!(report.findings.iter().any(|finding| finding.wrong == Wrong::Framing), "{report:?}");
    assert!(check(&[folder.path().join("absent")]).is_err());
}
