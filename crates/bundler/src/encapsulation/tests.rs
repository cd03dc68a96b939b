use proptest::prelude::*;

use super::*;

fn key() -> Key {
    Key::from_secret("correct horse")
}

fn datagram(incarnation: u64, sequence: u64, packet: &[u8]) -> Vec<u8> {
    let header = Header { bundle: 7, incarnation, sequence };
    let header = Encapsulator::new(&key()).seal(header, packet.len());
    [&header[..], packet].concat()
}

fn receiver(incarnation: u64) -> Decapsulator {
    let mut receiver = Decapsulator::new(7, &key());
    receiver.adopt(incarnation);
    receiver
}

#[test]
fn a_path_of_1500_bytes_leaves_1440_inside() {
    assert_eq!(1500 - overhead(false), 1440);
    assert_eq!(1500 - overhead(true), 1420);
}

#[test]
fn the_packet_comes_out_and_has_a_digest_of_its_own() {
    let mut receiver = receiver(3);
    let payload = datagram(3, 1, b"packet");
    let opened = receiver.open(&payload).unwrap();
    assert_eq!(&payload[opened.inner], b"packet");
    let header = Header { bundle: 7, incarnation: 3, sequence: 1 };
    assert_eq!(opened.digest, Some(header.digest(&key().digest())));
    let next = receiver.open(&datagram(3, 2, b"packet")).unwrap();
    assert_ne!(next.digest, opened.digest);
    assert_eq!(bundle_of(&payload), Some(7));
    assert_eq!(bundle_of(&payload[..HEADER]), None);
}

#[test]
fn order_does_not_matter_and_duplicates_are_refused() {
    let mut receiver = receiver(3);
    for sequence in (1..=8192).rev() {
        assert!(receiver.open(&datagram(3, sequence, b"packet")).is_ok(), "{sequence}");
    }
    for sequence in 1..=8192 {
        let again = receiver.open(&datagram(3, sequence, b"packet"));
        assert_eq!(again, Err(Rejection::Replayed));
    }
    assert!(receiver.open(&datagram(3, 8193, b"packet")).is_ok());
    assert_eq!(receiver.open(&datagram(3, 1, b"packet")), Err(Rejection::TooOld));
}

#[test]
fn a_new_incarnation_counts_from_its_adoption() {
    let mut receiver = receiver(3);
    assert!(receiver.open(&datagram(3, 9000, b"packet")).unwrap().digest.is_some());
    let first = datagram(4, 1, b"packet");
    assert_eq!(receiver.open(&first).unwrap().digest, None);
    receiver.adopt(4);
    assert!(receiver.open(&first).unwrap().digest.is_some());
    receiver.adopt(4);
    assert_eq!(receiver.open(&first), Err(Rejection::Replayed));
    assert_eq!(receiver.open(&datagram(3, 9000, b"packet")).unwrap().digest, None);
}

#[test]
fn each_kind_of_defect_is_named() {
    let good = datagram(3, 1, b"packet");
    let open = |bytes: &[u8]| receiver(3).open(bytes).unwrap_err();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    assert_eq!(open(&with(1, 0)), Rejection::Foreign(0x4e00));
    assert_eq!(open(&with(2, 9)), Rejection::UnknownVersion(9));
    assert_eq!(open(&with(3, 1)), Rejection::UnknownType(1));
    assert_eq!(open(&with(7, 8)), Rejection::UnknownBundle(8));
    assert_eq!(open(&with(15, 0)), Rejection::BadValue { field: "incarnation", at: 8, value: 0 });
    assert_eq!(
        open(&with(23, 0)),
        Rejection::BadValue { field: "sequence number", at: 16, value: 0 }
    );
    assert_eq!(open(&good[..HEADER]), Rejection::Truncated { field: "packet", at: HEADER });
    let mut stranger = Decapsulator::new(7, &Key::from_secret("battery staple"));
    stranger.adopt(3);
    assert_eq!(stranger.open(&good), Err(Rejection::BadTag));
}

proptest! {
    /// The packet itself is not protected, but neither its length nor its number can be changed.
    #[test]
    fn changed_headers_and_lengths_are_refused(
        incarnation in 1..u64::MAX,
        sequence in 1..u64::MAX,
        packet in prop::collection::vec(any::<u8>(), 1..100),
    ) {
        let good = datagram(incarnation, sequence, &packet);
        let mut receiver = receiver(incarnation);
        for bit in 0..HEADER * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(receiver.open(&bytes).is_err(), "bit {}", bit);
        }
        for length in 0..good.len() {
            prop_assert!(receiver.open(&good[..length]).is_err(), "length {}", length);
        }
        prop_assert!(receiver.open(&[&good[..], &[0]].concat()).is_err());
        prop_assert_eq!(receiver.open(&good).unwrap().inner, HEADER..good.len());
    }

    #[test]
    fn any_bytes_are_refused(bytes: Vec<u8>) {
        prop_assert!(receiver(3).open(&bytes).is_err());
    }
}
