//! The archive under kills at any moment and on full disks: no record that the kernel accepted is
//! lost, none is duplicated, and missing data are stated.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base::{Span, Time};
use bgp::mrt::{Body, Reader, Record, Step};
use collector_live::archive::{
    Archive, Compression, Entry, GAPS, Loss, MANIFEST, Options, Sync, read_ledger,
};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Microseconds since 1970 of the record with number 0.
const EPOCH: u64 = 1_709_250_600_000_000;
/// Microseconds between records: an interval of one second has 40.
const STEP: u64 = 25_000;

fn micros(number: u64) -> u64 {
    EPOCH + number * STEP
}

fn time(number: u64) -> Time {
    Time::from_nanos(micros(number) * 1_000)
}

/// An UPDATE that announces 192.0.2.0/24 with the path `number`.
fn record(number: u64, out: &mut Vec<u8>) {
    let path = (number as u32).to_be_bytes();
    let mut message = vec![0xff; 16];
    message.extend([0, 47, 2, 0, 0, 0, 20, 0x40, 1, 1, 0, 0x40, 2, 6, 2, 1]);
    message.extend(path);
    message.extend([0x40, 3, 4, 192, 0, 2, 1, 24, 192, 0, 2]);
    let body = 4 + 20 + message.len() as u32;
    out.extend(((micros(number) / 1_000_000) as u32).to_be_bytes());
    out.extend([0, 17, 0, 4]);
    out.extend(body.to_be_bytes());
    out.extend(((micros(number) % 1_000_000) as u32).to_be_bytes());
    out.extend([0, 0, 0xfd, 0xe8, 0, 0, 0xfd, 0xe9, 0, 0, 0, 1, 192, 0, 2, 1, 192, 0, 2, 2]);
    out.extend(message);
}

fn number(record: &Record<'_>) -> u64 {
    let body = record.parse().unwrap();
    assert!(matches!(body, Body::Message(_)), "{body:?}");
    let at = record.bytes.len() - 15;
    u64::from(u32::from_be_bytes(*record.bytes[at..].first_chunk().unwrap()))
}

fn options(seed: u64) -> Options {
    let compression =
        [Compression::None, Compression::Gzip(6), Compression::Bzip2, Compression::Zstd(3)]
            [seed as usize % 4];
    Options {
        interval: Span::from_secs(1),
        compression,
        sync: Sync::Every(Span::from_millis(2)),
        backlog: 4,
        ..Options::default()
    }
}

/// Log of the writing process, in a file that remains after its end.
struct Progress(File);

impl Progress {
    fn open(folder: &Path) -> Self {
        let path = folder.with_extension("progress");
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        Self(file.unwrap())
    }

    fn set(&self, slot: u64, value: u64) {
        self.0.write_all_at(&value.to_ne_bytes(), slot * 8).unwrap();
    }

    fn get(&self, slot: u64) -> u64 {
        let mut value = [0; 8];
        match self.0.read_exact_at(&mut value, slot * 8) {
            Ok(()) => u64::from_ne_bytes(value),
            Err(_) => 0,
        }
    }
}

const ATTEMPTED: u64 = 0;
const WRITTEN: u64 = 1;

fn write_on(folder: &Path, first: u64, seed: u64) -> ! {
    let progress = Progress::open(folder);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut archive = Archive::open(folder, options(seed)).unwrap();
    for number in first.. {
        progress.set(ATTEMPTED, number);
        record(number, archive.at(time(number)));
        if random.next_u32() % 8 == 0 {
            archive.flush();
            progress.set(WRITTEN, number);
        }
        if random.next_u32() % 256 == 0 {
            let mut snapshot = archive.snapshot(time(number), Vec::new()).unwrap();
            let mut bytes = Vec::new();
            record(number, &mut bytes);
            snapshot.append(&bytes).unwrap();
            snapshot.finish().unwrap();
        }
    }
    unreachable!("numbers do not end");
}

fn child(job: &str, folder: &Path, first: u64, seed: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "as_child", "--ignored", "--nocapture"]);
    command.env("ARCHIVE_JOB", job).env("ARCHIVE_FOLDER", folder);
    command.env("ARCHIVE_FIRST", first.to_string()).env("ARCHIVE_SEED", seed.to_string());
    command.stdout(Stdio::null()).stdin(Stdio::null());
    command
}

#[test]
#[ignore = "runs in child processes of other tests"]
fn as_child() {
    let Ok(job) = std::env::var("ARCHIVE_JOB") else { return };
    let variable = |name: &str| std::env::var(name).unwrap();
    let folder = PathBuf::from(variable("ARCHIVE_FOLDER"));
    let seed = variable("ARCHIVE_SEED").parse().unwrap();
    match job.as_str() {
        "write" => write_on(&folder, variable("ARCHIVE_FIRST").parse().unwrap(), seed),
        "limit" => write_with_limit(&folder),
        "full" => write_to_full_disk(&folder),
        "full until exit" => write_until_exit(&folder),
        other => panic!("{other}"),
    }
}

fn kill(mut child: Child) {
    // The process is killed before it ends.
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{status}");
}

fn unpack(path: &Path) -> Vec<u8> {
    let mut content = Vec::new();
    let file = File::open(path).unwrap();
    match path.to_string_lossy().rsplit_once('.').unwrap().1 {
        "gz" => flate2::read::MultiGzDecoder::new(file).read_to_end(&mut content).map(drop),
        "bz2" => bzip2::read::BzDecoder::new(file).read_to_end(&mut content).map(drop),
        "zst" => zstd::stream::copy_decode(file, &mut content),
        _ => (&file).read_to_end(&mut content).map(drop),
    }
    .unwrap();
    content
}

/// The numbers of all records of a file, each of which must be readable.
fn numbers(content: &[u8]) -> Vec<u64> {
    let mut reader = Reader::new();
    let mut rest = content;
    let mut numbers = Vec::new();
    loop {
        match reader.next(rest, true) {
            Step::Record(record) => {
                numbers.push(number(&record));
                rest = &rest[record.bytes.len()..];
            }
            Step::End => return numbers,
            other => panic!("{other:?}"),
        }
    }
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn is_stated(gaps: &[Loss], number: u64) -> bool {
    let at = micros(number);
    gaps.iter().any(|loss| match *loss {
        Loss::Down { since_us, until_us, .. } => since_us < at && at < until_us,
        Loss::NotWritten { since_us, until_us, .. } => since_us <= at && at <= until_us,
        _ => false,
    })
}

/// Checks an archive without a running collector; returns the numbers of its records.
fn verify(folder: &Path) -> BTreeSet<u64> {
    let listed: Vec<Entry> = read_ledger(&folder.join(MANIFEST)).unwrap();
    let gaps: Vec<Loss> = read_ledger(&folder.join(GAPS)).unwrap();
    let mut present = Vec::new();
    files(folder, &mut present);
    let mut present: BTreeSet<String> = present
        .iter()
        .map(|path| path.strip_prefix(folder).unwrap().to_string_lossy().into_owned())
        .filter(|name| name != MANIFEST && name != GAPS && name != ".lock")
        .collect();
    let mut all = BTreeSet::new();
    for entry in &listed {
        assert!(present.remove(&entry.file), "{} is listed twice or missing", entry.file);
        let content = unpack(&folder.join(&entry.file));
        assert_eq!(content.len() as u64, entry.content, "{}", entry.file);
        let numbers = numbers(&content);
        assert_eq!(numbers.len() as u64, entry.records, "{}", entry.file);
        if entry.file.contains("bview") {
            continue;
        }
        for number in numbers {
            assert!(all.insert(number), "record {number} is there twice");
        }
    }
    assert!(present.is_empty(), "not listed: {present:?}");
    let (Some(first), Some(last)) = (all.first(), all.last()) else { return all };
    for number in *first..*last {
        let there = all.contains(&number);
        assert!(there || is_stated(&gaps, number), "{number} is missing and no loss stated");
    }
    all
}

/// Checks that bgpdump, if installed, reads the same number of records.
fn compare_with_bgpdump(folder: &Path) {
    let listed: Vec<Entry> = read_ledger(&folder.join(MANIFEST)).unwrap();
    let packed = |entry: &&Entry| Path::new(&entry.file).extension().is_some_and(|e| e == "zst");
    for entry in listed.iter().filter(|entry| !packed(entry)).take(40) {
        let run = Command::new("bgpdump").arg("-m").arg(folder.join(&entry.file)).output();
        let Ok(output) = run else {
            eprintln!("SKIPPED compare_with_bgpdump: it is not installed");
            return;
        };
        let lines = String::from_utf8_lossy(&output.stdout).lines().count();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(lines as u64, entry.records, "{}: {errors}", entry.file);
    }
}

/// Number of kills: `ARCHIVE_KILLS`, or enough to cover each stage.
fn kills() -> u64 {
    std::env::var("ARCHIVE_KILLS").map_or(160, |text| text.parse().unwrap())
}

/// A folder in memory if possible, because the test concerns kills, not the disk.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    match tempfile::tempdir_in(memory) {
        Ok(folder) => folder,
        Err(_) => tempfile::tempdir().unwrap(),
    }
}

#[test]
fn preserves_written_records_after_kill() {
    const SERIES: u64 = 20;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(20_100_426);
    for series in 0..kills().div_ceil(SERIES) {
        let scratch = scratch();
        let folder = scratch.path().join("archive");
        let progress = Progress::open(&folder);
        let mut written = BTreeSet::new();
        let mut first = 0;
        for _ in 0..SERIES {
            progress.set(ATTEMPTED, first);
            progress.set(WRITTEN, u64::MAX);
            let begin = Instant::now();
            let running = child("write", &folder, first, series).spawn().unwrap();
            let moment = Duration::from_micros(u64::from(random.next_u32() % 20_000));
            std::thread::sleep(moment.saturating_sub(begin.elapsed()));
            kill(running);
            let last = progress.get(WRITTEN);
            if last != u64::MAX {
                written.extend(first..=last);
            }
            first = progress.get(ATTEMPTED) + 1 + u64::from(random.next_u32() % 30);
        }
        let attempted = progress.get(ATTEMPTED);
        Archive::open(&folder, options(series)).unwrap().close().unwrap();
        let all = verify(&folder);
        assert!(written.is_subset(&all), "{:?}", written.difference(&all).next());
        assert!(all.last().is_none_or(|last| *last <= attempted));
        compare_with_bgpdump(&folder);
        eprintln!("series {series}: {} of {} records", all.len(), first);
    }
}

/// Files are limited to 10,000 bytes, so they are continued by further parts.
fn write_with_limit(folder: &Path) {
    sys::limits::limit_file_size(10_000).unwrap();
    let options = Options { interval: Span::from_secs(3_600), ..options(1) };
    let mut archive = Archive::open(folder, options).unwrap();
    for number in 0..1_000 {
        record(number, archive.at(time(number)));
        archive.flush();
    }
    let status = archive.close().unwrap();
    assert_eq!((status.records, status.lost), (1_000, 0));
}

#[test]
fn continues_in_new_part_after_failed_append() {
    let scratch = scratch();
    let folder = scratch.path().join("archive");
    let status = child("limit", &folder, 0, 0).status().unwrap();
    assert!(status.success(), "{status}");
    let all = verify(&folder);
    assert_eq!(all.len(), 1_000);
    let listed: Vec<Entry> = read_ledger(&folder.join(MANIFEST)).unwrap();
    assert!(listed.iter().all(|entry| entry.content <= 10_000));
    assert_eq!(read_ledger::<Loss>(&folder.join(GAPS)).unwrap(), []);
}

/// On a disk of 1 MiB: fills it, frees space, continues.
fn write_to_full_disk(disk: &Path) {
    let folder = disk.join("archive");
    let ballast = disk.join("ballast");
    fs::write(&ballast, vec![1; 700_000]).unwrap();
    let options = Options { interval: Span::from_secs(3_600), hold: 4_096, ..options(0) };
    let mut archive = Archive::open(&folder, options.clone()).unwrap();
    let mut number = 0;
    let mut put = |archive: &mut Archive| {
        record(number, archive.at(time(number)));
        archive.flush();
        number += 1;
    };
    while archive.status().lost < 500 {
        put(&mut archive);
    }
    assert!(archive.status().trouble.is_some());
    fs::remove_file(&ballast).unwrap();
    let before = archive.status().records;
    while archive.status().records < before + 100 {
        put(&mut archive);
        std::thread::sleep(Duration::from_millis(1));
    }
    let status = archive.close().unwrap();
    assert!(status.trouble.is_none());
    let all = verify(&folder);
    assert_eq!((all.len() as u64, all.len() as u64 + status.lost), (status.records, number));
    let gaps: Vec<Loss> = read_ledger(&folder.join(GAPS)).unwrap();
    let [Loss::NotWritten { records, cause, .. }] = &gaps[..] else { panic!("{gaps:?}") };
    assert_eq!(*records, status.lost);
    assert!(cause.contains("No space left"), "{cause}");
}

/// On a disk of 1 MiB that is full until the collector ends: its losses are stated nevertheless,
/// and so are losses reported by others.
fn write_until_exit(disk: &Path) {
    let folder = disk.join("archive");
    let options = Options { interval: Span::from_secs(3_600), hold: 4_096, ..options(0) };
    let mut archive = Archive::open(&folder, options).unwrap();
    let ballast = File::create(disk.join("ballast")).unwrap();
    let fill = || while (&ballast).write_all(&[1; 4_096]).is_ok() {};
    fill();
    let gap = |since_us| Loss::Captured { since_us, until_us: since_us, interface: 0, packets: 1 };
    let (mut number, mut reported) = (0, 0);
    while archive.status().lost < 500 {
        record(number, archive.at(time(number)));
        archive.flush();
        number += 1;
        if number % 100 == 0 {
            archive.state(&[gap(number)]);
            reported += 1;
            fill();
        }
    }
    let status = archive.status();
    let lost = number - status.records;
    // Files cannot be finished; the next collector finishes them.
    let _ = archive.close();
    let gaps: Vec<Loss> = read_ledger(&folder.join(GAPS)).unwrap();
    let records: u64 = gaps
        .iter()
        .map(|gap| if let Loss::NotWritten { records, .. } = gap { *records } else { 0 })
        .sum();
    assert_eq!(records, lost, "{gaps:?}");
    assert_eq!(gaps.iter().filter(|gap| matches!(gap, Loss::Captured { .. })).count(), reported);
}

#[test]
fn states_whole_records_lost_on_full_disk() {
    on_small_disk("full");
}

#[test]
fn states_lost_records_on_disk_full_until_exit() {
    on_small_disk("full until exit");
}

/// Runs a job on a disk of 1 MiB.
fn on_small_disk(job: &str) {
    let disk = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=1m none \"$ARCHIVE_FOLDER\" || exit 99; exec \"$@\"";
    let inner = child(job, disk.path(), 0, 0);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        command.env(name, value.unwrap());
    }
    let status = command.stdin(Stdio::null()).status();
    match status.as_ref().map(std::process::ExitStatus::code) {
        Err(_) | Ok(Some(1 | 99)) => eprintln!("SKIPPED {job}: no namespaces: {status:?}"),
        Ok(code) => assert_eq!(code, Some(0)),
    }
}
