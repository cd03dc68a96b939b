use std::io::Write;

use super::captures::Item;
use super::*;

/// A capture of packets of 60 bytes; each has its number in it.
fn pcap(packets: impl IntoIterator<Item = (u64, u32)>) -> Vec<u8> {
    let mut bytes = 0xa1b2_c3d4_u32.to_le_bytes().to_vec();
    bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
    for (micros, number) in packets {
        for field in [(micros / 1_000_000) as u32, (micros % 1_000_000) as u32, 60, 60] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(number.to_le_bytes());
        bytes.resize(bytes.len() + 56, 0);
    }
    bytes
}

/// Times in milliseconds and numbers of all packets, and the number of problems.
fn read(captures: &mut Captures) -> (Vec<(u64, u32)>, usize) {
    read_until(captures, Progress::End)
}

fn read_now(captures: &mut Captures) -> (Vec<(u64, u32)>, usize) {
    read_until(captures, Progress::Waiting)
}

fn read_until(captures: &mut Captures, last: Progress) -> (Vec<(u64, u32)>, usize) {
    let (mut packets, mut troubles) = (Vec::new(), 0);
    let mut each = |item: Item<'_>| match item {
        Item::Frame(frame) => {
            assert_eq!(frame.data.len(), 60);
            let number = u32::from_le_bytes(*frame.data.first_chunk().unwrap());
            packets.push((frame.time.as_nanos() / 1_000_000, number));
        }
        Item::Dropped { .. } => panic!("these files report no loss"),
        Item::Trouble(_) => troubles += 1,
    };
    loop {
        let progress = captures.step(Duration::from_millis(20), &mut each).unwrap();
        if progress == Progress::End || progress == last {
            return (packets, troubles);
        }
    }
}

fn many(count: u32) -> Vec<(u64, u32)> {
    (0..count).map(|n| (1_700_000_000_000_000 + u64::from(n) * 1_000, n)).collect()
}

fn millis(packets: &[(u64, u32)]) -> Vec<(u64, u32)> {
    packets.iter().map(|(micros, number)| (micros / 1_000, *number)).collect()
}

fn open(paths: &[PathBuf]) -> Captures {
    Captures::open(paths, false, false).unwrap()
}

/// The same bytes in each compression, in two concatenated parts.
fn packed(bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let (a, b) = bytes.split_at(bytes.len() / 3);
    let gzip = |part: &[u8]| {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(part).unwrap();
        writer.finish().unwrap()
    };
    let bzip2 = |part: &[u8]| {
        let mut writer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        writer.write_all(part).unwrap();
        writer.finish().unwrap()
    };
    let zstd = |part: &[u8]| {
        let mut writer = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        writer.long_distance_matching(true).unwrap();
        writer.window_log(27).unwrap();
        writer.write_all(part).unwrap();
        writer.finish().unwrap()
    };
    let lz4 = |part: &[u8]| {
        let mut writer = lz4_flex::frame::FrameEncoder::new(Vec::new());
        writer.write_all(part).unwrap();
        writer.finish().unwrap()
    };
    vec![
        ("plain", bytes.to_vec()),
        ("gzip", [gzip(a), gzip(b)].concat()),
        ("bzip2", [bzip2(a), bzip2(b)].concat()),
        ("zstd", [zstd(a), zstd(b)].concat()),
        ("lz4", [lz4(a), lz4(b)].concat()),
    ]
}

#[test]
fn reads_same_packets_from_each_compression() {
    let folder = tempfile::tempdir().unwrap();
    let packets = many(10_000);
    for (name, bytes) in packed(&pcap(packets.clone())) {
        let path = folder.path().join(name);
        fs::write(&path, &bytes).unwrap();
        let mut input = Input::open(&path, false).unwrap();
        assert_eq!(input.format().unwrap(), Format::Capture, "{name}");
        let (read, troubles) = read(&mut open(&[path]));
        assert!(read == millis(&packets) && troubles == 0, "{name}");
    }
}

#[test]
fn reads_xz_of_system_tool() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture");
    fs::write(&path, pcap(many(5_000))).unwrap();
    match std::process::Command::new("xz").arg("-9").arg(&path).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return eprintln!("SKIPPED xz_is_read: {error}"),
    }
    let (read, troubles) = read(&mut open(&[folder.path().join("capture.xz")]));
    assert!(read == millis(&many(5_000)) && troubles == 0);
}

#[test]
fn reads_truncated_input_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut");
    for (name, bytes) in packed(&pcap(many(10_000))) {
        fs::write(&path, &bytes[..bytes.len() - 30]).unwrap();
        let (read, troubles) = read(&mut open(std::slice::from_ref(&path)));
        assert!(troubles >= 1 && read.len() < 10_000, "{name}");
        assert!(read == millis(&many(read.len() as u32)), "{name}");
        // With block-wise compression, up to the last third may be lost.
        assert!(read.len() > 3_000, "{name}: {}", read.len());
    }
}

#[test]
fn merges_files_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let packets = many(3_000);
    // Two alternate in bursts, one is after both, and one has no packets.
    let part = |n: u32| match n {
        2_000.. => 2,
        _ => n / 7 % 2,
    };
    let paths: Vec<PathBuf> = [2, 0, 3, 1]
        .iter()
        .map(|which| {
            let path = folder.path().join(which.to_string());
            let own = packets.iter().copied().filter(|(_, n)| part(*n) == *which);
            fs::write(&path, pcap(own)).unwrap();
            path
        })
        .collect();
    let (merged, troubles) = read(&mut open(&paths));
    assert!(merged == millis(&packets) && troubles == 0);
}

/// A wrong time delays no packet of its file; a time after a pause does.
#[test]
fn wrong_time_delays_no_other_packet() {
    let folder = tempfile::tempdir().unwrap();
    let packets = many(100);
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    let numbers_with = |changed: std::ops::Range<u32>, micros: u64| {
        for (which, path) in (0..).zip(&paths) {
            let own = packets.iter().filter(|(_, n)| n / 7 % 2 == which);
            let own = own.map(|(time, n)| (if changed.contains(n) { micros } else { *time }, *n));
            fs::write(path, pcap(own)).unwrap();
        }
        read(&mut open(&paths)).0.into_iter().map(|(_, number)| number).collect::<Vec<_>>()
    };
    // In 2105 and 1970.
    for wrong in [4_260_000_000_000_000, 1] {
        for changed in [0, 1, 7, 8, 48, 49, 50, 97, 98, 99] {
            let mut found = numbers_with(changed..changed + 1, wrong);
            found.retain(|number| *number != changed);
            let others: Vec<u32> = (0..100).filter(|number| *number != changed).collect();
            assert_eq!(found, others, "{changed} at {wrong}");
        }
    }
    let found = numbers_with(98..100, 4_260_000_000_000_000);
    assert_eq!(found, (0..100).collect::<Vec<_>>());
    // The first file pauses after packet 55.
    let found = numbers_with(56..63, 4_260_000_000_000_000);
    assert_eq!(found.iter().position(|number| *number == 63), Some(56));
}

/// The packet after the first one is looked up before the first one is delivered.
#[test]
fn reports_damage_after_first_packet_of_merged_file() {
    let folder = tempfile::tempdir().unwrap();
    let packets = many(3);
    let paths = ["plain", "damaged"].map(|name| folder.path().join(name));
    fs::write(&paths[0], pcap([packets[0], packets[2]])).unwrap();
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(&pcap([packets[1]])).unwrap();
    let mut bytes = writer.finish().unwrap();
    // Damages the CRC-32 in the gzip trailer (RFC 1952 §2.3.1).
    let at = bytes.len() - 8;
    bytes[at] ^= 1;
    fs::write(&paths[1], bytes).unwrap();
    assert_eq!(read(&mut open(&paths)), (millis(&packets), 1));
}

#[test]
fn assigns_interfaces_to_separate_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|name| folder.path().join(name));
    for path in &paths {
        fs::write(path, pcap(many(2))).unwrap();
    }
    for (apart, expected) in [(false, 1), (true, 2)] {
        let mut interfaces = std::collections::BTreeSet::new();
        let mut captures = Captures::open(&paths, false, apart).unwrap();
        let mut each = |item: Item<'_>| {
            if let Item::Frame(frame) = item {
                interfaces.insert(frame.interface);
            }
        };
        while captures.step(Duration::ZERO, &mut each).unwrap() != Progress::End {}
        assert_eq!(interfaces.len(), expected);
    }
}

#[test]
fn follows_growing_file_through_rotation_and_truncation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live");
    let bytes = pcap(many(10));
    fs::write(&path, &bytes[..40]).unwrap();
    let mut captures = Captures::open(std::slice::from_ref(&path), true, false).unwrap();
    assert_eq!(read_now(&mut captures).0, []);
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(&bytes[40..500]).unwrap();
    assert_eq!(read_now(&mut captures).0.len(), 6);
    file.write_all(&bytes[500..]).unwrap();
    assert_eq!(read_now(&mut captures).0.len(), 4);
    // Another file gets the name.
    fs::rename(&path, folder.path().join("old")).unwrap();
    assert_eq!(read_now(&mut captures).0.len(), 0);
    fs::write(&path, pcap(many(3))).unwrap();
    assert_eq!(read_now(&mut captures).0.len(), 3);
    // The same file is truncated and rewritten.
    fs::write(&path, pcap(many(1))).unwrap();
    assert_eq!(read_now(&mut captures), (millis(&many(1)), 0));
}

#[test]
fn reads_pipe_without_delay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let bytes = pcap(many(3_000));
    let writer = {
        let path = path.clone();
        std::thread::spawn(move || {
            let mut pipe = File::create(path).unwrap();
            pipe.write_all(&bytes[..1_000]).unwrap();
            wait.recv().unwrap();
            pipe.write_all(&bytes[1_000..]).unwrap();
        })
    };
    let mut captures = open(&[path]);
    let mut all = read_now(&mut captures).0;
    assert!(!all.is_empty() && all.len() < 13, "{}", all.len());
    go.send(()).unwrap();
    while all.len() < 3_000 {
        all.extend(read_now(&mut captures).0);
    }
    writer.join().unwrap();
    assert_eq!(all, millis(&many(3_000)));
}

#[test]
fn rejects_unreadable_input() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Input::open(&folder.path().join("missing"), false);
    assert!(matches!(missing, Err(Error::File { .. })));
    assert!(matches!(Input::open(folder.path(), false), Err(Error::File { .. })));
    let path = folder.path().join("packed");
    fs::write(&path, &packed(b"content")[1].1).unwrap();
    assert!(matches!(Input::open(&path, true), Err(Error::CompressedFollow(_))));
    let mut input = Input::open(&path, false).unwrap();
    let too_long = input.fill(1 << 30, Duration::ZERO);
    assert!(matches!(too_long, Err(Error::TooLong { .. })));
    fs::write(&path, b"no capture, just a text").unwrap();
    assert_eq!(read(&mut open(std::slice::from_ref(&path))), (Vec::new(), 1));
    assert!(Captures::open(&[path.clone(), path], false, false).is_err());
}
