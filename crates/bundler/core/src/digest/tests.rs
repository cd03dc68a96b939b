use proptest::prelude::*;

use siphasher::sip::{SipHasher13, SipHasher24};

use super::siphash::siphash;
use super::*;

fn key() -> DigestKey {
    Key::from_secret("correct horse").digest()
}

/// A TCP segment with 12 bytes of options and 8 of payload.
fn v4() -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 60, 0x12, 0x34, 0x40, 0, 64, 6, 0xab, 0xcd];
    packet.extend([10, 1, 0, 1, 10, 2, 0, 1]);
    packet.extend(transport());
    packet
}

/// The same in IPv6, after these extension headers.
fn v6(first: u8, extensions: &[u8]) -> Vec<u8> {
    let length = (40 + extensions.len()) as u16;
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([first, 64]);
    packet.extend((0..32).map(|octet| octet + 0x20));
    packet.extend(extensions);
    packet.extend(transport());
    packet
}

fn transport() -> impl Iterator<Item = u8> {
    let ports_and_numbers = [0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2];
    let rest = [0x80, 0x10, 0x10, 0, 0xbe, 0xef, 0, 0];
    ports_and_numbers.into_iter().chain(rest).chain(0..20)
}

fn changed(packet: &[u8], at: usize) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[at] ^= 0x10;
    packet
}

/// Offsets of the bytes of `packet` that the digest covers.
fn matters(packet: &[u8]) -> Vec<usize> {
    let digest = of_packet(&key(), packet).unwrap();
    let differs = |at: &usize| of_packet(&key(), &changed(packet, *at)) != Some(digest);
    (0..packet.len()).filter(differs).collect()
}

#[test]
fn v4_digest_covers_immutable_fields() {
    // Version, total length, identification, offset, protocol, addresses, 20 bytes of transport.
    // The high nibble of byte 6 contains a bit of the offset.
    let expected: Vec<usize> = [0, 2, 3, 4, 5, 6, 7, 9].into_iter().chain(12..40).collect();
    assert_eq!(matters(&v4()), expected);
    let mut without_df = v4();
    without_df[6] = 0;
    assert_eq!(of_packet(&key(), &without_df), of_packet(&key(), &v4()));
}

#[test]
fn v6_digest_covers_immutable_fields() {
    // Version, length, protocol, addresses, transport; neither flow label nor hop limit.
    let expected: Vec<usize> = [0, 4, 5, 6].into_iter().chain(8..60).collect();
    assert_eq!(matters(&v6(6, &[])), expected);
}

#[test]
fn extension_header_options_do_not_change_the_digest() {
    let hop_by_hop = v6(0, &[6, 0, 0x3e, 4, 1, 2, 3, 4]);
    let matters = matters(&hop_by_hop);
    assert!((42..48).all(|at| !matters.contains(&at)), "{matters:?}");
    // Next header and length determine the position of the transport header.
    assert!([40, 41].iter().all(|at| matters.contains(at)), "{matters:?}");
    assert!((48..68).all(|at| matters.contains(&at)), "{matters:?}");
}

#[test]
fn fragments_have_different_digests() {
    let piece = |offset: u16, identification: u32| {
        let mut extension = vec![6, 0];
        extension.extend((offset << 3 | 1).to_be_bytes());
        extension.extend(identification.to_be_bytes());
        of_packet(&key(), &v6(44, &extension))
    };
    assert_ne!(piece(0, 7), piece(1, 7));
    assert_ne!(piece(1, 7), piece(1, 8));
    let mut later = v4();
    later[7] = 5;
    assert_ne!(of_packet(&key(), &later), of_packet(&key(), &v4()));
}

#[test]
fn truncated_packets_have_the_right_digest_or_none() {
    for packet in [v4(), v6(6, &[]), v6(0, &[6, 0, 0, 0, 0, 0, 0, 0])] {
        let digest = of_packet(&key(), &packet);
        for length in 0..packet.len() {
            let cut = of_packet(&key(), &packet[..length]);
            assert!(cut.is_none() || cut == digest, "{length}");
        }
        let mut padded = packet.clone();
        padded.extend([7; 9]);
        assert_eq!(of_packet(&key(), &padded), digest);
    }
}

#[test]
fn padding_does_not_change_the_digest_of_a_short_datagram() {
    let mut packet = vec![0x45, 0, 0, 24, 0, 0, 0, 0, 64, 89, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    packet.extend([1, 2, 3, 4]);
    let digest = of_packet(&key(), &packet);
    assert!(digest.is_some());
    packet.extend([9; 22]);
    assert_eq!(of_packet(&key(), &packet), digest);
}

#[test]
fn both_families_and_both_keys_differ() {
    let other = Key::from_secret("correct horsf").digest();
    assert_ne!(of_packet(&other, &v4()), of_packet(&key(), &v4()));
    assert_ne!(of_packet(&key(), &v6(6, &[])), of_packet(&key(), &v4()));
    assert_ne!(Key::from_secret("a"), Key::from_secret("b"));
}

#[test]
fn keys_are_not_printed() {
    let key = Key::from_secret("correct horse");
    let printed = format!("{key:?} {:?} {:?} {:?}", key.digest(), key.mac(), key.packets(1, 2, 3));
    assert_eq!(printed, "Key(..) DigestKey(..) MacKey(..) PacketKey(..)");
}

/// Of `count` similar packets, 1 in 2^*k* must end an epoch for each *k*, within five standard
/// deviations of the binomial distribution.
fn assert_mixed(count: u32, digest: impl Fn(u32) -> u64) {
    let digests: Vec<u64> = (0..count).map(digest).collect();
    for log2 in 1..=10_u32 {
        let ends = digests.iter().filter(|digest| ends_epoch(**digest, 1 << log2)).count();
        let share = 0.5_f64.powi(log2 as i32);
        let mean = f64::from(count) * share;
        let deviation = (mean * (1.0 - share)).sqrt();
        assert!((ends as f64 - mean).abs() < 5.0 * deviation, "1 in 2^{log2}: {ends} of {mean}");
    }
    let mut unique = digests;
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), count as usize);
}

#[test]
fn siphash_mixes_counters_into_the_low_bits() {
    let key = key();
    assert_mixed(65_536, |identification| {
        let mut packet = v4();
        packet[4..6].copy_from_slice(&(identification as u16).to_be_bytes());
        of_packet(&key, &packet).unwrap()
    });
    assert_mixed(65_536, |sequence| {
        let mut packet = v6(6, &[]);
        packet[44..48].copy_from_slice(&(sequence * 1448).to_be_bytes());
        of_packet(&key, &packet).unwrap()
    });
    assert_mixed(65_536, |sequence| of_sequence(&key, 1, u64::from(sequence)));
    assert_mixed(65_536, |sequence| {
        let sequence = u64::from(sequence) * 1448;
        of_fields(&key, &Fields { flow: 7, length: 1500, sequence, ..Fields::default() })
    });
}

#[test]
fn epochs_of_powers_of_two_nest() {
    for digest in 0..4096 {
        for log2 in 1..=12 {
            assert!(!ends_epoch(digest, 1 << log2) || ends_epoch(digest, 1 << (log2 - 1)));
        }
        assert!(ends_epoch(digest, 1));
    }
}

proptest! {
    #[test]
    fn siphash_matches_reference_vectors(key: [u64; 2], words: [u64; 5]) {
        let bytes = words.map(u64::to_le_bytes);
        let quick = SipHasher13::new_with_keys(key[0], key[1]).hash(bytes.as_flattened());
        prop_assert_eq!(siphash::<1, 3, 5>(key, words), quick);
        let strong = SipHasher24::new_with_keys(key[0], key[1]).hash(bytes.as_flattened());
        prop_assert_eq!(siphash::<2, 4, 5>(key, words), strong);
    }

    #[test]
    fn digest_of_arbitrary_bytes_does_not_panic(bytes: Vec<u8>) {
        let _ = of_packet(&key(), &bytes);
    }

    #[test]
    fn every_field_changes_the_digest(
        values in (any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>(), any::<u32>()),
        entered: u64,
        which in 0..6,
        flip in 0..32_u32,
    ) {
        let (flow, length, sequence, acknowledgement, flags) = values;
        let fields = Fields { flow, length, sequence, acknowledgement, flags, entered };
        let (mut other, bit, wide) = (fields, 1_u32 << flip, 1_u64 << flip);
        match which {
            0 => other.flow ^= bit,
            1 => other.length ^= bit,
            2 => other.sequence ^= wide,
            3 => other.acknowledgement ^= wide,
            4 => other.flags ^= bit,
            _ => other.entered ^= wide,
        }
        prop_assert_ne!(of_fields(&key(), &fields), of_fields(&key(), &other));
    }
}
