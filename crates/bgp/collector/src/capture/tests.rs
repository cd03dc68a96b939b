use base::Time;
use proptest::prelude::*;

use super::*;
use crate::{Frame, LinkType};

type Kept = (u64, u16, u32, u32, Vec<u8>);

/// Output of a reader that receives `piece` more bytes when it requires more.
#[derive(Debug, Default, PartialEq, Eq)]
struct Output {
    frames: Vec<Kept>,
    dropped: Vec<(u32, u64)>,
    damaged: Vec<u64>,
    torn: Option<(u64, usize)>,
    lost: u64,
}

fn read(bytes: &[u8], piece: usize) -> Result<Output, Error> {
    let (mut reader, mut output) = (Reader::new(), Output::default());
    let (mut at, mut shown) = (0, piece.min(bytes.len()));
    let mut idle = 0;
    loop {
        let end = shown == bytes.len();
        let before = at;
        match reader.next(&bytes[at..shown], end)? {
            Step::Frame { frame, used } => {
                let Frame { time, link, interface, data, length, .. } = frame;
                output.frames.push((time.as_nanos(), link.0, interface, length, data.to_vec()));
                at += used;
            }
            Step::Skip { used } => at += used,
            Step::Need { bytes: need } => {
                assert!(!end && need > shown - at, "{need} of {} are there", shown - at);
                shown = (at + need).max(shown + piece).min(bytes.len());
            }
            Step::Dropped { interface, packets, used } => {
                output.dropped.push((interface, packets));
                at += used;
            }
            Step::Damaged { offset, used } => {
                output.damaged.push(offset);
                at += used;
            }
            Step::Torn { offset, bytes } => {
                assert!(end);
                output.torn = Some((offset, bytes));
                break;
            }
            Step::End => break,
        }
        idle = if before == at { idle + 1 } else { 0 };
        assert!(idle < 6, "nothing moves at byte {at}");
        assert_eq!(reader.offset(), at as u64);
    }
    output.lost = reader.damage().1;
    Ok(output)
}

/// A pcap file with `frames` of (seconds, fraction, bytes, length on the wire).
fn pcap(magic: u32, big: bool, frames: &[(u32, u32, &[u8], u32)]) -> Vec<u8> {
    let mut file = Vec::new();
    let u32 = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let u16 = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    file.extend([u32(magic).as_slice(), &u16(2), &u16(4), &u32(0), &u32(0)].concat());
    file.extend([u32(262_144), u32(1)].concat());
    for (seconds, fraction, data, length) in frames {
        let captured = data.len() as u32;
        file.extend([u32(*seconds), u32(*fraction), u32(captured), u32(*length)].concat());
        if magic == 0xa1b2_cd34 {
            file.extend([0; 8]);
        }
        file.extend_from_slice(data);
    }
    file
}

const SECOND: u32 = 1_700_000_000;

/// `count` frames whose bytes resemble no record header.
fn frames(count: u32) -> Vec<Vec<u8>> {
    let bytes = |i: u32| (0..60 + i % 50).map(|j| (i * 31 + j * 7 + 128) as u8).collect();
    (0..count).map(bytes).collect()
}

fn plain(count: u32) -> (Vec<u8>, Vec<Kept>) {
    let frames = frames(count);
    let of = |(i, data): (u32, &Vec<u8>)| {
        (u64::from(SECOND + i) * 1_000_000_000 + 5_000, 1, 0, data.len() as u32, data.clone())
    };
    let expected = (0..).zip(&frames).map(of).collect();
    let frame = |(i, data): (u32, &'static [u8])| (SECOND + i, 5, data, data.len() as u32);
    let leaked = frames.into_iter().map(|data| &*data.leak());
    let all: Vec<_> = (0..).zip(leaked).map(frame).collect();
    (pcap(0xa1b2_c3d4, false, &all), expected)
}

#[test]
fn reads_same_frames_from_each_pcap_variant() {
    let data = [1_u8, 2, 3, 4, 5];
    for (magic, fraction) in
        [(0xa1b2_c3d4, 123_456), (0xa1b2_3c4d, 123_456_000), (0xa1b2_cd34, 123_456)]
    {
        for big in [false, true] {
            let file = pcap(magic, big, &[(SECOND, fraction, &data, 99), (SECOND, 0, &[], 0)]);
            for piece in [1, 7, 1_000] {
                let output = read(&file, piece).unwrap();
                let time = u64::from(SECOND) * 1_000_000_000;
                let expected =
                    [(time + 123_456_000, 1, 0, 99, data.to_vec()), (time, 1, 0, 0, Vec::new())];
                assert_eq!(output.frames, expected, "{magic:x} {big}");
                assert_eq!((output.torn, output.damaged), (None, Vec::new()));
            }
        }
    }
}

#[test]
fn rejects_input_other_than_captures() {
    assert_eq!(read(b"GET / HTTP/1.1", 4), Err(Error::NoCapture { magic: *b"GET " }));
    assert_eq!(
        read(b"GET / and some more bytes", 100).unwrap_err().to_string(),
        "not a capture: the first bytes [47, 45, 54, 20] are neither pcap nor pcapng"
    );
    let mut file = plain(0).0;
    file[4] = 3;
    let version = Error::CaptureVersion { format: "pcap", version: 3 };
    assert_eq!(read(&file, 9), Err(version));
    assert_eq!(read(b"", 1), Ok(Output::default()));
    assert_eq!(read(&[0xd4, 0xc3], 1).unwrap().torn, Some((0, 2)));
}

#[test]
fn reads_frames_before_torn_tail() {
    let (file, expected) = plain(5);
    let last = expected[4].4.len() + 16;
    for cut in 1..last {
        let output = read(&file[..file.len() - cut], 50).unwrap();
        assert_eq!(output.frames, expected[..4]);
        assert_eq!(output.torn, Some(((file.len() - last) as u64, last - cut)));
        assert!(output.damaged.is_empty());
    }
}

#[test]
fn reads_concatenated_files() {
    let (file, expected) = plain(3);
    let output = read(&[&file[..], &file].concat(), 11).unwrap();
    assert_eq!(output.frames.len(), 6);
    assert_eq!(output.frames[3..], expected, "the same interface");
    let mut other_link = file.clone();
    other_link[20] = 101;
    let output = read(&[&file[..], &other_link, &file].concat(), 11).unwrap();
    let numbers: Vec<_> = output.frames.iter().map(|frame| frame.2).collect();
    assert_eq!(numbers, [0, 0, 0, 1, 1, 1, 0, 0, 0]);
}

#[test]
fn packet_without_time_has_time_of_last_one() {
    let data = [1_u8, 2, 3];
    let times = [(0, 0), (SECOND, 7), (0, 0), (0, 0), (SECOND + 1, 0)];
    let second = u64::from(SECOND) * 1_000_000;
    let expected = [0, second + 7, second + 7, second + 7, second + 1_000_000];
    let frames: Vec<_> = times.iter().map(|(s, us)| (*s, *us, &data[..], 3)).collect();
    let output = read(&pcap(0xa1b2_c3d4, false, &frames), 50).unwrap();
    assert_eq!(output.frames.iter().map(|frame| frame.0 / 1_000).collect::<Vec<_>>(), expected);
    let mut file = [section(false), interface(false, 1, 6, 0)].concat();
    for (seconds, micros) in times {
        let ticks = u64::from(seconds) * 1_000_000 + u64::from(micros);
        file.extend(packet(false, 0, ticks, &data, &[]));
    }
    let output = read(&file, 50).unwrap();
    assert_eq!(output.frames.iter().map(|frame| frame.0 / 1_000).collect::<Vec<_>>(), expected);
}

/// The record resembles a file header, except for the field after the version.
#[test]
fn reads_packet_that_resembles_file_header() {
    let (file, expected) = plain(3);
    let packet = pcap(0xa1b2_c3d4, false, &[(0xa1b2_c3d4, 0x0004_0002, &[7; 300], 300)]);
    let input = [&file[..], &packet[24..], &file[24..]].concat();
    let whole = read(&input, input.len()).unwrap();
    assert_eq!(whole.frames.len(), 2 * expected.len() + 1);
    for piece in [1, 5, 16, 23, 24] {
        assert_eq!(read(&input, piece).unwrap(), whole, "{piece}");
    }
}

#[test]
fn resumes_pcap_after_damage() {
    let (file, expected) = plain(40);
    let place =
        |record: usize| 24 + expected[..record].iter().map(|f| f.4.len() + 16).sum::<usize>();
    let at = place(20);
    // Missing bytes, extra bytes, an impossible length and a wrong length.
    let mut damages = vec![
        [&file[..at + 30], &file[at + 33..]].concat(),
        [&file[..at], &[0xa5; 1_000], &file[at..]].concat(),
    ];
    for length in [0xffff_ffff_u32, 200_000, 70] {
        let mut file = file.clone();
        file[at + 8..at + 12].copy_from_slice(&length.to_le_bytes());
        damages.push(file);
    }
    for (case, file) in damages.iter().enumerate() {
        for piece in [1, 64, 100_000] {
            let output = read(file, piece).unwrap();
            let good = |frame: &&Kept| expected.contains(frame);
            let found = output.frames.iter().filter(good).count();
            assert!(found >= 38, "case {case}, {piece} bytes at a time: {found} frames");
            assert!(output.frames.len() - found <= 1);
            assert_eq!(output.damaged.len(), 1, "case {case}");
            assert!(output.damaged[0].abs_diff(at as u64) < 200, "{:?}", output.damaged);
        }
    }
}

fn block(big: bool, kind: u32, body: &[u8]) -> Vec<u8> {
    let padded = body.len().next_multiple_of(4);
    let u32 = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let total = u32(padded as u32 + 12);
    let padding = vec![0; padded - body.len()];
    [u32(kind).as_slice(), &total, body, &padding, &total].concat()
}

/// The body of a block from fields, each a value and its size.
fn fields(big: bool, values: &[(u64, usize)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (value, size) in values {
        if big {
            body.extend(&value.to_be_bytes()[8 - size..]);
        } else {
            body.extend(&value.to_le_bytes()[..*size]);
        }
    }
    body
}

fn section(big: bool) -> Vec<u8> {
    block(big, 0x0a0d_0d0a, &fields(big, &[(0x1a2b_3c4d, 4), (1, 2), (0, 2), (u64::MAX, 8)]))
}

/// An interface with a resolution, and an offset in seconds.
/// The block of an interface, whose name is the link type.
fn interface(big: bool, link: u64, resolution: u64, offset: u64) -> Vec<u8> {
    let options = [(9, 2), (1, 2), (resolution, 1), (0, 3), (14, 2), (8, 2), (offset, 8)];
    let name = [(2, 2), (4, 2)];
    let head = fields(big, &[&[(link, 2), (0, 2), (0, 4)], &options[..], &name].concat());
    block(big, 1, &[&head[..], format!("{link:04}").as_bytes(), &[0; 4]].concat())
}

fn packet(big: bool, interface: u64, ticks: u64, data: &[u8], options: &[(u64, usize)]) -> Vec<u8> {
    let length = data.len() as u64;
    let head = [
        (interface, 4),
        (ticks >> 32, 4),
        (u64::from(ticks as u32), 4),
        (length, 4),
        (length + 7, 4),
    ];
    let padding = vec![0; data.len().next_multiple_of(4) - data.len()];
    let body = [&fields(big, &head)[..], data, &padding, &fields(big, options)].concat();
    block(big, 6, &body)
}

#[test]
fn applies_clock_of_each_pcapng_interface() {
    for big in [false, true] {
        let seconds = u64::from(SECOND);
        let mut file = [
            section(big),
            interface(big, 1, 6, 0),
            interface(big, 101, 9, 0),
            block(big, 0x0bad, &[7; 100]),
            interface(big, 113, 0x80 | 0x14, 10),
            packet(big, 0, seconds * 1_000_000 + 5, b"micro", &[]),
            packet(big, 1, seconds * 1_000_000_000 + 5, b"nano", &[]),
            packet(big, 2, ((seconds - 10) << 20) | (1 << 19), b"binary", &[]),
        ]
        .concat();
        // Another section, in the other byte order.
        file.extend(section(!big));
        file.extend(interface(!big, 276, 3, 0));
        file.extend(packet(!big, 0, seconds * 1_000 + 5, b"milli", &[]));
        // A simple packet has no time: it gets that of the previous packet.
        file.extend(block(!big, 3, &[&fields(!big, &[(3, 4)])[..], b"abc"].concat()));
        // An obsolete packet block: 16-bit interface and drop count.
        let old = fields(!big, &[(0, 2), (4, 2), (0, 4), (9, 4), (3, 4), (3, 4)]);
        file.extend(block(!big, 2, &[&old[..], b"old"].concat()));
        let nanos = seconds * 1_000_000_000;
        let expected = [
            (nanos + 5_000, 1, 0, 12, b"micro".to_vec()),
            (nanos + 5, 101, 1, 11, b"nano".to_vec()),
            (nanos + 500_000_000, 113, 2, 13, b"binary".to_vec()),
            (nanos + 5_000_000, 276, 3, 12, b"milli".to_vec()),
            (nanos + 5_000_000, 276, 3, 3, b"abc".to_vec()),
            (9_000_000, 276, 3, 3, b"old".to_vec()),
        ];
        for piece in [1, 13, 10_000] {
            let output = read(&file, piece).unwrap();
            assert_eq!(output.frames, expected, "{big}");
            assert_eq!((&output.dropped[..], output.torn), (&[(3, 4)][..], None));
            assert!(output.damaged.is_empty());
        }
    }
}

#[test]
fn numbers_interfaces_by_name() {
    let unnamed = |link: u64| block(false, 1, &fields(false, &[(link, 2), (0, 2), (0, 4)]));
    let packets = |count: u64| (0..count).flat_map(|at| packet(false, at, 5, b"x", &[]));
    let (one, two) = (interface(false, 1, 6, 0), interface(false, 101, 9, 0));
    let sections: Vec<u8> = [
        [section(false), one.clone(), two.clone(), packets(2).collect()].concat(),
        [section(false), two, one.clone(), one, packets(3).collect()].concat(),
        [section(false), unnamed(1), unnamed(101), packets(2).collect()].concat(),
        [section(false), unnamed(1), unnamed(1), packets(2).collect()].concat(),
    ]
    .concat();
    let output = read(&sections, 40).unwrap();
    let numbers: Vec<_> = output.frames.iter().map(|frame| frame.2).collect();
    assert_eq!(numbers, [0, 1, 1, 0, 0, 2, 3, 2, 4]);
}

#[test]
fn reports_pcapng_losses_once() {
    let statistics = |drops: u64, system: u64| {
        let options = [(5, 2), (8, 2), (drops, 8), (7, 2), (8, 2), (system, 8), (0, 4)];
        block(false, 5, &fields(false, &[&[(0, 4), (0, 8)], &options[..]].concat()))
    };
    let file = [
        section(false),
        interface(false, 1, 6, 0),
        statistics(3, 2),
        statistics(3, 2),
        packet(false, 0, 1, b"x", &[(4, 2), (8, 2), (40, 8), (0, 4)]),
        statistics(10, 2),
        packet(false, 0, 1, b"x", &[(4, 2), (8, 2), (2, 8), (0, 4)]),
    ]
    .concat();
    assert_eq!(read(&file, 3).unwrap().dropped, [(0, 5), (0, 40), (0, 7), (0, 2)]);
}

#[test]
fn resumes_pcapng_after_damage() {
    let packets: Vec<_> = frames(30)
        .iter()
        .map(|data| packet(false, 0, u64::from(SECOND) * 1_000_000, data, &[]))
        .collect();
    let head = [section(false), interface(false, 1, 6, 0)].concat();
    let at = head.len() + packets[..10].concat().len();
    let file = [head, packets.concat()].concat();
    let mut damages = vec![
        [&file[..at + 30], &file[at + 33..]].concat(),
        [&file[..at], &[0xa5; 200_003], &file[at..]].concat(),
    ];
    for length in [0xffff_fff0_u32, 13, 60_000] {
        let mut file = file.clone();
        file[at + 4..at + 8].copy_from_slice(&length.to_le_bytes());
        damages.push(file);
    }
    for (case, file) in damages.iter().enumerate() {
        for piece in [1, 64, 1_000_000] {
            if piece == 1 && file.len() > 100_000 {
                continue;
            }
            let output = read(file, piece).unwrap();
            assert!(output.frames.len() >= 29, "case {case}: {} frames", output.frames.len());
            assert_eq!(output.damaged, [at as u64], "case {case}");
        }
    }
}

#[test]
fn round_trips_written_captures() {
    let frames = frames(9);
    let interface = |link, name: Option<&str>| Interface {
        link: LinkType(link),
        name: name.map(str::to_owned),
        snap: 1_500,
        dropped: 0,
    };
    let interfaces = [interface(1, Some("span0")), interface(101, None)];
    let (mut pcap, mut pcapng) = (Vec::new(), Vec::new());
    write::pcap_header(LinkType(1), &mut pcap);
    write::pcapng_header(&interfaces, &mut pcapng);
    for (i, data) in (0..).zip(&frames) {
        let time = Time::from_nanos(1_700_000_000_123_456_789 + u64::from(i));
        let length = 100 + data.len() as u32;
        let frame = Frame { length, ..Frame::whole(time, LinkType(1), data) };
        write::pcap_frame(&frame, &mut pcap);
        write::pcapng_frame(&Frame { interface: i % 2, ..frame }, &mut pcapng);
    }
    write::pcapng_dropped(Time::from_nanos(9), 1, 77, &mut pcapng);
    let (one, two) = (read(&pcap, 10).unwrap(), read(&pcapng, 10).unwrap());
    assert_eq!(two.dropped, [(1, 77)]);
    for (i, (one, two)) in one.frames.iter().zip(&two.frames).enumerate() {
        assert_eq!((one.0, one.3, &one.4), (two.0, two.3, &two.4));
        assert_eq!((one.0, &one.4), (1_700_000_000_123_456_789 + i as u64, &frames[i]));
        assert_eq!((two.1, two.2), (if i % 2 == 0 { 1 } else { 101 }, i as u32 % 2));
    }
    let mut reader = Reader::new();
    let mut rest = &pcapng[..];
    while let Ok(Step::Skip { used } | Step::Frame { used, .. } | Step::Dropped { used, .. }) =
        reader.next(rest, true)
    {
        rest = &rest[used..];
    }
    assert_eq!(reader.interfaces()[0], interfaces[0]);
    assert_eq!(reader.interfaces()[1], Interface { dropped: 77, ..interfaces[1].clone() });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// For arbitrary bytes, the reader terminates, and the size of the pieces does not matter.
    #[test]
    fn terminates_on_arbitrary_bytes(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        start in 0..4,
    ) {
        let head = match start {
            0 => plain(2).0,
            1 => [section(false), interface(false, 1, 6, 0)].concat(),
            2 => [section(true), interface(true, 1, 6, 0)].concat(),
            _ => Vec::new(),
        };
        bytes.splice(..0, head);
        let whole = read(&bytes, bytes.len());
        prop_assert_eq!(read(&bytes, 1).is_ok(), whole.is_ok());
    }

    #[test]
    fn terminates_on_damaged_files(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        piece in 1_usize..300,
        next in any::<bool>(),
    ) {
        let mut bytes = if next {
            let packets = frames(8);
            let packets = packets.iter().map(|data| packet(false, 0, 1, data, &[]));
            let head = [section(false), interface(false, 1, 6, 0)];
            head.into_iter().chain(packets).flatten().collect()
        } else {
            plain(8).0
        };
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = read(&bytes, piece);
    }
}
