//! Segments that the receiving host merged before the capture (GRO, LRO).

use super::encapsulate::{checksum, fragments, packet, plain, vxlan};
use super::*;

/// A SYN of `from` with the option MSS, and a correct sum.
fn syn(from: SocketAddr, to: SocketAddr, mss: u16) -> Vec<u8> {
    let mut data = packet(from, to, 1, b"");
    let tcp = data.len() - 32;
    data[tcp + 13] = flags::SYN;
    data[tcp + 20..tcp + 24].copy_from_slice(&[2, 4, (mss >> 8) as u8, mss as u8]);
    set_sum(&mut data, |sum| sum);
    data
}

/// Replaces the TCP checksum by `change` of the correct one.
fn set_sum(data: &mut [u8], change: impl Fn(u16) -> u16) {
    let (ip, addresses) = if data[0] >> 4 == 4 { (20, 12..20) } else { (40, 8..40) };
    let length = (data.len() - ip) as u32;
    data[ip + 16..ip + 18].fill(0);
    let head = [&data[addresses], &length.to_be_bytes(), &[0, 0, 0, 6]].concat();
    let sum = change(checksum(&[&head, &data[ip..]]));
    data[ip + 16..ip + 18].copy_from_slice(&sum.to_be_bytes());
}

/// A segment whose checksum is the sum of the pseudo-header, as GRO leaves it.
fn partial(from: SocketAddr, to: SocketAddr, length: usize) -> Vec<u8> {
    let mut data = packet(from, to, 9, &vec![7; length]);
    let (ip, addresses) = if from.is_ipv4() { (20, 12..20) } else { (40, 8..40) };
    let bytes = (data.len() - ip) as u32;
    let sum = !checksum(&[&data[addresses], &bytes.to_be_bytes(), &[0, 0, 0, 6]]);
    set_sum(&mut data, |_| sum);
    data
}

/// A segment with another checksum, as LRO and damage leave it.
fn wrong(from: SocketAddr, to: SocketAddr, length: usize) -> Vec<u8> {
    let mut data = packet(from, to, 9, &vec![7; length]);
    set_sum(&mut data, |sum| sum ^ 0x5a5a);
    data
}

fn verdict(decapsulator: &mut Decapsulator, packet: &[u8]) -> Checksum {
    take(decapsulator, &frame(LinkType::ETHERNET, &plain(packet)))[0].7
}

/// A decapsulator that has captured SYNs with `mss`, if any, and segments of `longest` bytes of
/// both ends with correct sums.
fn after(mss: Option<u16>, longest: usize) -> Decapsulator {
    let mut decapsulator = new();
    for (from, to) in ends() {
        for (from, to) in [(from, to), (to, from)] {
            if let Some(mss) = mss {
                assert_eq!(verdict(&mut decapsulator, &syn(from, to, mss)), Checksum::Right);
            }
            for _ in 0..20 {
                let right = packet(from, to, 9, &vec![7; longest]);
                assert_eq!(verdict(&mut decapsulator, &right), Checksum::Right);
            }
        }
    }
    decapsulator
}

/// The packets have 12 bytes of options.
#[test]
fn accepts_any_sum_of_segments_above_mss() {
    for (mss, longest) in [(1_460, 1_448), (536, 100), (8_960, 8_948), (1_220, 1_208)] {
        let length = usize::from(mss) - 12;
        for (from, to) in ends() {
            for merge in [partial, wrong] {
                let mut decapsulator = after(Some(mss), longest);
                let above = merge(from, to, length + 1);
                assert_eq!(verdict(&mut decapsulator, &above), Checksum::Unknown, "{mss}");
                assert_eq!(decapsulator.counters().unknown_checksums, 1);
            }
            let mut decapsulator = after(Some(mss), longest);
            let single = wrong(from, to, length);
            assert_eq!(verdict(&mut decapsulator, &single), Checksum::Wrong, "{mss}");
        }
    }
}

#[test]
fn accepts_any_sum_of_segments_above_mtu_without_syn() {
    for (from, to) in ends() {
        let most = if from.is_ipv4() { 1_448 } else { 1_428 };
        let verdicts = [Checksum::Unknown, Checksum::Wrong];
        for (merge, short) in [partial, wrong].into_iter().zip(verdicts) {
            let mut decapsulator = after(None, 500);
            assert_eq!(verdict(&mut decapsulator, &merge(from, to, most)), short);
            assert_eq!(verdict(&mut decapsulator, &merge(from, to, most + 1)), Checksum::Unknown);
        }
    }
}

/// Jumbo frames without a captured SYN, or merged segments with recomputed sums.
#[test]
fn verifies_long_segments_of_sender_with_correct_sums_of_such() {
    for mss in [None, Some(1_460)] {
        for (from, to) in ends() {
            let mut decapsulator = after(mss, 8_948);
            assert_eq!(verdict(&mut decapsulator, &wrong(from, to, 8_948)), Checksum::Wrong);
            assert_eq!(verdict(&mut decapsulator, &partial(from, to, 8_948)), Checksum::Unknown);
        }
    }
}

/// Short segments are merged to one below the MSS, also the first ones of a mirror.
#[test]
fn accepts_partial_sums_below_mss_as_first_segments() {
    for (from, to) in ends() {
        for mut decapsulator in [new(), after(None, 500), after(Some(1_460), 500)] {
            assert_eq!(verdict(&mut decapsulator, &partial(from, to, 200)), Checksum::Unknown);
            assert_eq!(verdict(&mut decapsulator, &partial(to, from, 38)), Checksum::Unknown);
            assert_eq!(decapsulator.counters().unknown_checksums, 2);
        }
    }
    let (from, to) = ends()[0];
    let mut decapsulator = after(Some(1_460), 500);
    assert_eq!(verdict(&mut decapsulator, &partial(from, to, 200)), Checksum::Unknown);
    assert_eq!(verdict(&mut decapsulator, &wrong(from, to, 200)), Checksum::Wrong);
}

#[test]
fn verifies_datagrams_of_several_fragments() {
    let (from, to) = ends()[0];
    for merge in [partial, wrong] {
        let mut decapsulator = after(Some(1_460), 500);
        let pieces = fragments(&merge(from, to, 2_000), 1_000);
        assert!(pieces.len() > 1);
        let mut last = Vec::new();
        for piece in pieces {
            last = take(&mut decapsulator, &frame(LinkType::RAW, &piece));
        }
        assert_eq!((last[0].5.len(), last[0].7), (2_000, Checksum::Wrong));
    }
}

/// A forged SYN with a small MSS does not replace the MSS of the connection.
#[test]
fn lower_mss_does_not_replace_higher() {
    let (from, to) = ends()[0];
    let mut decapsulator = after(Some(1_460), 500);
    assert_eq!(verdict(&mut decapsulator, &syn(to, from, 48)), Checksum::Right);
    assert_eq!(verdict(&mut decapsulator, &wrong(from, to, 500)), Checksum::Wrong);
}

#[test]
fn accepts_sums_that_the_kernel_marks_as_not_computed() {
    let (from, to) = ends()[0];
    for (data, plainly) in
        [(partial(from, to, 100), Checksum::Unknown), (wrong(from, to, 100), Checksum::Wrong)]
    {
        let mut decapsulator = after(Some(1_460), 500);
        let data = plain(&data);
        let marked = Frame { without_checksum: true, ..frame(LinkType::ETHERNET, &data) };
        assert_eq!(take(&mut decapsulator, &marked)[0].7, Checksum::Unknown);
        assert_eq!(verdict(&mut decapsulator, &data[14..]), plainly);
        // The mark is that of the outermost checksum.
        let tunnelled = plain(&vxlan(1, &data));
        let marked = Frame { without_checksum: true, ..frame(LinkType::ETHERNET, &tunnelled) };
        decapsulator = after(Some(1_460), 500);
        let _ = take(
            &mut decapsulator,
            &frame(LinkType::ETHERNET, &plain(&vxlan(1, &plain(&packet(from, to, 9, b"x"))))),
        );
        assert_eq!(take(&mut decapsulator, &marked)[0].7, plainly);
    }
}

fn updates(count: u8) -> Vec<Vec<u8>> {
    let update = |number: u8| {
        let attributes = [0x40, 1, 1, 0, 0x40, 2, 0, 0x40, 3, 4, 192, 0, 2, number];
        let body = [&[0, 0, 0, 14][..], &attributes, &[24, 10, number, number.wrapping_mul(37)]];
        let body = body.concat();
        [&[0xff; 16][..], &[0, 19 + body.len() as u8, 2], &body].concat()
    };
    (1..=count).map(update).collect()
}

/// A segment of `parts` with the checksum, and possibly the IPv4 checksum, of the first one.
fn lro(from: SocketAddr, to: SocketAddr, parts: &[&[u8]], keeps_ip: bool) -> Vec<u8> {
    let mut first = packet(from, to, 9, parts[0]);
    set_sum(&mut first, |sum| sum);
    let mut data = packet(from, to, 9, &parts.concat());
    let ip = if from.is_ipv4() { 20 } else { 40 };
    data[ip + 16..ip + 18].copy_from_slice(&first[ip + 16..ip + 18]);
    if keeps_ip && from.is_ipv4() {
        data[10..12].copy_from_slice(&first[10..12]);
    }
    data
}

#[test]
fn accepts_first_sum_of_short_messages() {
    let all = updates(3);
    let parts: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
    for (from, to) in ends() {
        for (mss, count) in [(Some(1_460), 2), (None, 2), (None, 3)] {
            let mut decapsulator = after(mss, 500);
            let merged = lro(from, to, &parts[..count], false);
            assert_eq!(verdict(&mut decapsulator, &merged), Checksum::Unknown);
            assert_eq!(decapsulator.counters().unknown_checksums, 1);
        }
        // Also the first segment of its sender.
        assert_eq!(verdict(&mut new(), &lro(from, to, &parts, false)), Checksum::Unknown);
    }
}

/// Parts that end within a message.
#[test]
fn accepts_first_sum_of_known_lengths() {
    let stream: Vec<u8> = (0..1_000_u16).map(|at| (at * 7 % 251) as u8).collect();
    for (from, to) in ends() {
        // The longest segment before has 500 bytes of payload.
        let of = |length| lro(from, to, &[&stream[..length], &stream[length..]], false);
        let mut decapsulator = after(None, 500);
        assert_eq!(verdict(&mut decapsulator, &of(499)), Checksum::Wrong);
        assert_eq!(verdict(&mut decapsulator, &of(500)), Checksum::Unknown);
        // Such a segment shows that the capturing host merges.
        assert_eq!(verdict(&mut decapsulator, &of(499)), Checksum::Doubtful);
        assert_eq!(verdict(&mut decapsulator, &wrong(from, to, 300)), Checksum::Wrong);
        // The header has the IPv4 checksum of the first part.
        let mut decapsulator = after(None, 400);
        let kept = lro(from, to, &[&stream[..499], &stream[499..]], true);
        let expected = if from.is_ipv4() { Checksum::Unknown } else { Checksum::Wrong };
        assert_eq!(verdict(&mut decapsulator, &kept), expected);
        assert_eq!(decapsulator.counters().bad_headers, 0);
    }
}

/// Without the sum of a first part, the header was changed: then any segment may be merged.
#[test]
fn doubts_segments_of_host_that_changes_headers() {
    for (from, to) in ends() {
        let mut decapsulator = after(Some(1_460), 500);
        assert_eq!(verdict(&mut decapsulator, &wrong(from, to, 300)), Checksum::Wrong);
        assert_eq!(verdict(&mut decapsulator, &wrong(from, to, 1_600)), Checksum::Unknown);
        assert_eq!(verdict(&mut decapsulator, &wrong(from, to, 300)), Checksum::Doubtful);
        let mut damaged = wrong(from, to, 300);
        if from.is_ipv4() {
            damaged[4] ^= 1;
            assert_eq!(verdict(&mut decapsulator, &damaged), Checksum::Wrong);
        }
    }
}

/// A damaged segment of n messages has the sum of a first part by accident: n - 1 in 65,536.
#[test]
fn rejects_nearly_all_damaged_segments() {
    const SEGMENTS: u32 = 20_000;
    let (from, to) = ends()[0];
    let (all, mut rng) = (updates(20).concat(), base::RandomStream::new(1, "damage"));
    let intact = packet(from, to, 9, &all);
    let mut accepted = 0;
    for number in 0..SEGMENTS {
        let mut data = intact.clone();
        let at = 20 + 4 + rng.below(data.len() as u64 - 24) as usize;
        data[at] ^= 1 << rng.below(8);
        if number % 2 == 1 {
            let length = data.len() as u64;
            data[length as usize - 1 - rng.below(length - 60) as usize] ^= rng.below(255) as u8 + 1;
        }
        let mut decapsulator = new();
        assert_eq!(verdict(&mut decapsulator, &intact), Checksum::Right);
        let verdict = take(&mut decapsulator, &frame(LinkType::ETHERNET, &plain(&data)));
        accepted += u32::from(verdict.first().is_some_and(|one| one.7 == Checksum::Unknown));
    }
    assert!(accepted < 20, "{accepted}");
}
