use std::io::Read;

use base::Span;

use super::*;

const SECOND: u64 = 1_000_000_000;
/// 2024-02-29T23:50:00Z.
const START: u64 = 1_709_250_600;

fn at(second: u64) -> Time {
    Time::from_nanos((START + second) * SECOND)
}

/// A record with `number` in it.
fn record(time: Time, number: u64, buffer: &mut Vec<u8>) {
    let micros = time.as_nanos() / 1_000;
    buffer.extend(((micros / 1_000_000) as u32).to_be_bytes());
    buffer.extend([0, 17, 0, 4, 0, 0, 0, 12]);
    buffer.extend(((micros % 1_000_000) as u32).to_be_bytes());
    buffer.extend(number.to_be_bytes());
}

fn put(archive: &mut Archive, second: u64, number: u64) {
    record(at(second), number, archive.at(at(second)));
}

fn options() -> Options {
    Options { compression: Compression::None, ..Options::default() }
}

fn content(folder: &Path) -> Vec<(String, Vec<u64>)> {
    let listed: Vec<Entry> = read_ledger(&folder.join(MANIFEST)).unwrap();
    let mut all: Vec<_> = listed
        .iter()
        .map(|entry| {
            let bytes = fs::read(folder.join(&entry.file)).unwrap();
            assert_eq!(bytes.len() as u64, entry.bytes);
            let mut plain = Vec::new();
            match entry.file.rsplit_once('.').map_or("", |(_, end)| end) {
                "gz" => flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).map(drop),
                "bz2" => bzip2::read::BzDecoder::new(&bytes[..]).read_to_end(&mut plain).map(drop),
                "zst" => zstd::stream::copy_decode(&bytes[..], &mut plain),
                _ => bytes.as_slice().read_to_end(&mut plain).map(drop),
            }
            .unwrap();
            assert_eq!(plain.len() as u64, entry.content);
            assert_eq!(plain.len() as u64, 24 * entry.records);
            let number = |record: &[u8]| u64::from_be_bytes(*record.last_chunk().unwrap());
            (entry.file.clone(), plain.chunks(24).map(number).collect())
        })
        .collect();
    all.sort();
    all
}

fn names(folder: &Path) -> Vec<String> {
    content(folder).into_iter().map(|(name, _)| name).collect()
}

fn gaps(folder: &Path) -> Vec<Loss> {
    read_ledger(&folder.join(GAPS)).unwrap()
}

#[test]
fn aligns_intervals_and_writes_empty_ones() {
    for compression in
        [Compression::None, Compression::Gzip(6), Compression::Bzip2, Compression::Zstd(3)]
    {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { compression, ..options() };
        let mut archive = Archive::open(folder.path(), options).unwrap();
        put(&mut archive, 299, 1);
        put(&mut archive, 300, 2);
        // A late record stays in the current file.
        put(&mut archive, 290, 3);
        put(&mut archive, 1_250, 4);
        archive.advance(at(1_499));
        archive.advance(at(1_500));
        let status = archive.close().unwrap();
        assert_eq!((status.records, status.files, status.lost), (4, 6, 0));
        let end = compression.suffix();
        let expected = [
            ("2024.02/updates.20240229.2350", vec![1]),
            ("2024.02/updates.20240229.2355", vec![2, 3]),
            ("2024.03/updates.20240301.0000", vec![]),
            ("2024.03/updates.20240301.0005", vec![]),
            ("2024.03/updates.20240301.0010", vec![4]),
            ("2024.03/updates.20240301.0015", vec![]),
        ];
        let expected = expected.map(|(name, numbers)| (format!("{name}{end}"), numbers));
        assert_eq!(content(folder.path()), expected);
        assert_eq!(gaps(folder.path()), []);
        let hidden = fs::read_dir(folder.path().join("2024.02")).unwrap();
        assert_eq!(hidden.count(), 2, "no hidden files are left");
    }
}

#[test]
fn locks_folder_for_one_collector() {
    let folder = tempfile::tempdir().unwrap();
    let first = Archive::open(folder.path(), options()).unwrap();
    let second = Archive::open(folder.path(), options()).err().unwrap();
    assert!(matches!(second, Error::Locked(_)), "{second}");
    let other = Options { collector: "rrc99".to_owned(), ..options() };
    Archive::open(folder.path(), other).unwrap().close().unwrap();
    drop(first);
    Archive::open(folder.path(), options()).unwrap();
}

#[test]
fn keeps_finished_files_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..3 {
        let mut archive = Archive::open(folder.path(), options()).unwrap();
        put(&mut archive, 10 + number, number);
        archive.close().unwrap();
    }
    let expected = ["", "-2", "-3"].map(|part| format!("2024.02/updates.20240229.2350{part}"));
    assert_eq!(names(folder.path()), expected);
    let down = |since, until| Loss::Down {
        since_us: (START + since) * 1_000_000,
        until_us: (START + until) * 1_000_000,
        stopped: true,
    };
    assert_eq!(gaps(folder.path()), [down(10, 11), down(11, 12)]);
}

#[test]
fn continues_file_of_previous_collector() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = Archive::open(folder.path(), options()).unwrap();
    put(&mut archive, 10, 1);
    drop(archive);
    // The process is killed during a write.
    let plain = folder.path().join("2024.02/.updates.20240229.2350.open");
    let mut bytes = fs::read(&plain).unwrap();
    bytes.extend_from_within(..13);
    fs::write(&plain, &bytes).unwrap();
    let mut archive = Archive::open(folder.path(), options()).unwrap();
    let torn = Loss::TornTail {
        file: "2024.02/updates.20240229.2350".to_owned(),
        at: 24,
        bytes: 13,
        since_us: Some((START + 10) * 1_000_000),
    };
    assert_eq!(archive.recovered(), std::slice::from_ref(&torn));
    put(&mut archive, 20, 2);
    archive.close().unwrap();
    let expected = [("2024.02/updates.20240229.2350".to_owned(), vec![1, 2])];
    assert_eq!(content(folder.path()), expected);
    let down = Loss::Down {
        since_us: (START + 10) * 1_000_000,
        until_us: (START + 20) * 1_000_000,
        stopped: false,
    };
    assert_eq!(gaps(folder.path()), [torn, down]);
}

#[test]
fn states_loss_beside_empty_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = Archive::open(folder.path(), options()).unwrap();
    put(&mut archive, 10, 1);
    archive.close().unwrap();
    // Killed twice: with a file that had no record yet, and before the next record.
    fs::write(folder.path().join("2024.02/.updates.20240229.2355.open"), b"").unwrap();
    Archive::open(folder.path(), options()).unwrap().close().unwrap();
    let mut archive = Archive::open(folder.path(), options()).unwrap();
    put(&mut archive, 400, 2);
    archive.close().unwrap();
    let [Loss::Down { since_us, until_us, .. }] = gaps(folder.path())[..] else {
        panic!("{:?}", gaps(folder.path()));
    };
    assert_eq!((since_us, until_us), ((START + 10) * 1_000_000, (START + 400) * 1_000_000));
}

#[test]
fn finishes_file_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = Archive::open(folder.path(), options()).unwrap();
    put(&mut archive, 10, 1);
    archive.close().unwrap();
    let done = folder.path().join("2024.02/updates.20240229.2350");
    let plain = folder.path().join("2024.02/.updates.20240229.2350.open");
    // Killed before the plain file was removed, and before the finished one was listed.
    for listed in [true, false] {
        fs::copy(&done, &plain).unwrap();
        if !listed {
            fs::remove_file(folder.path().join(MANIFEST)).unwrap();
        }
        Archive::open(folder.path(), options()).unwrap().close().unwrap();
        assert!(!plain.exists());
        assert_eq!(content(folder.path()), [("2024.02/updates.20240229.2350".to_owned(), vec![1])]);
    }
}

#[test]
fn states_clock_steps() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = Archive::open(folder.path(), options()).unwrap();
    put(&mut archive, 0, 1);
    put(&mut archive, 1_000_000_000, 2);
    put(&mut archive, 1, 3);
    archive.close().unwrap();
    let numbers: Vec<_> = content(folder.path()).into_iter().map(|(_, n)| n).collect();
    assert_eq!(numbers, [vec![1], vec![3], vec![2]]);
    let steps = gaps(folder.path());
    assert_eq!(steps.len(), 2, "{steps:?}");
    assert!(steps.iter().all(|loss| matches!(loss, Loss::ClockStep { .. })));
}

#[test]
fn publishes_complete_tables_only() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { layout: Layout::RouteViews, ..options() };
    let mut archive = Archive::open(folder.path(), options.clone()).unwrap();
    put(&mut archive, 0, 1);
    let mut whole = archive.snapshot(at(60), Vec::new()).unwrap();
    let mut bytes = Vec::new();
    record(at(60), 7, &mut bytes);
    whole.append(&bytes).unwrap();
    whole.append(&bytes).unwrap();
    let mut half = archive.snapshot(at(60), Vec::new()).unwrap();
    half.append(&bytes).unwrap();
    drop(half);
    whole.finish().unwrap();
    let mut killed = archive.snapshot(at(120), Vec::new()).unwrap();
    killed.append(&bytes).unwrap();
    std::mem::forget(killed);
    archive.close().unwrap();
    let expected = [
        ("bgpdata/2024.02/RIBS/rib.20240229.2351".to_owned(), vec![7, 7]),
        ("bgpdata/2024.02/UPDATES/updates.20240229.2350".to_owned(), vec![1]),
    ];
    assert_eq!(content(folder.path()), expected);
    // A killed snapshot holds the lock of its process; the folder is copied to open it again.
    let copy = tempfile::tempdir().unwrap();
    let ribs = copy.path().join("bgpdata/2024.02/RIBS");
    fs::create_dir_all(&ribs).unwrap();
    let partial = ".rib.20240229.2352.partial";
    fs::copy(folder.path().join("bgpdata/2024.02/RIBS").join(partial), ribs.join(partial)).unwrap();
    let archive = Archive::open(copy.path(), options).unwrap();
    let file = "bgpdata/2024.02/RIBS/rib.20240229.2352".to_owned();
    assert_eq!(archive.recovered(), [Loss::UnfinishedRoutes { file }]);
    assert_eq!(fs::read_dir(&ribs).unwrap().count(), 0);
}

#[test]
fn rejects_invalid_options() {
    let folder = tempfile::tempdir().unwrap();
    let interval = Options { interval: Span::from_millis(1_500), ..options() };
    assert!(matches!(Archive::open(folder.path(), interval), Err(Error::Interval(_))));
    let collector = Options { collector: "../x".to_owned(), ..options() };
    assert!(matches!(Archive::open(folder.path(), collector), Err(Error::Name(_))));
}

#[test]
fn retries_losses_after_failed_writes() {
    let folder = tempfile::tempdir().unwrap();
    let mut archive = Archive::open(folder.path(), options()).unwrap();
    put(&mut archive, 0, 1);
    // A list that cannot be written, because the disk is full.
    let full = ledger::Ledger::open("/dev/full".into()).unwrap();
    let list = std::mem::replace(&mut *finish::lock(&archive.store.shared.gaps), full);
    let loss = |number| Loss::ClockStep { since_us: number, until_us: number };
    for number in 0..20_000 {
        archive.state(&[loss(number)]);
    }
    assert!(archive.status().trouble.is_some());
    *finish::lock(&archive.store.shared.gaps) = list;
    put(&mut archive, 1, 2);
    archive.close().unwrap();
    let expected: Vec<Loss> = (0..10_000).map(loss).collect();
    assert_eq!(gaps(folder.path()), expected);
}
