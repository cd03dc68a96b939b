use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// The incarnation of the receivebox.
const RECEIVER: u64 = 20;

fn key() -> Key {
    Key::from_secret("correct horse")
}

fn envelope(incarnation: u64, sequence: u64) -> Envelope {
    let header = Header { bundle: 7, incarnation, sequence };
    Envelope::new(header, &key(), RECEIVER)
}

fn sealed(envelope: &Envelope, packet: &[u8]) -> Vec<u8> {
    let mut datagram = [&[0; HEADER], packet].concat();
    envelope.seal(&mut datagram);
    datagram
}

fn datagram(incarnation: u64, sequence: u64, packet: &[u8]) -> Vec<u8> {
    sealed(&envelope(incarnation, sequence), packet)
}

fn receiver(incarnation: u64) -> Decapsulator {
    let mut receiver = Decapsulator::new(7, &key());
    receiver.adopt(incarnation, RECEIVER);
    receiver
}

/// Opens a copy of the payload; returns the packet and its digest.
fn open(receiver: &mut Decapsulator, payload: &[u8]) -> Result<(Vec<u8>, u64), Rejection> {
    let mut payload = payload.to_vec();
    let opened = receiver.open(&mut payload)?;
    Ok((payload[opened.inner].to_vec(), opened.digest))
}

#[test]
fn path_mtu_of_1500_leaves_1432_inside() {
    assert_eq!(1500 - overhead(false), 1432);
    assert_eq!(1500 - overhead(true), 1412);
}

#[test]
fn opens_packet_with_its_own_digest() {
    let mut receiver = receiver(3);
    let payload = datagram(3, 1, b"packet");
    assert_eq!(payload.len(), HEADER + 6 + TAG);
    assert!(!payload.windows(6).any(|bytes| bytes == b"packet"), "it is encrypted");
    let (packet, digest) = open(&mut receiver, &payload).unwrap();
    assert_eq!(packet, b"packet");
    assert_eq!(digest, envelope(3, 1).header.digest(&key().digest()));
    let (_, next) = open(&mut receiver, &datagram(3, 2, b"packet")).unwrap();
    assert_ne!(next, digest);
    assert_eq!(bundle_of(&payload), Some(7));
    assert_eq!(bundle_of(&payload[..HEADER + TAG]), None);
}

#[test]
fn accepts_reordered_packets_and_rejects_duplicates() {
    let mut receiver = receiver(3);
    for sequence in (1..=8192).rev() {
        assert!(open(&mut receiver, &datagram(3, sequence, b"packet")).is_ok(), "{sequence}");
    }
    for sequence in 1..=8192 {
        let again = open(&mut receiver, &datagram(3, sequence, b"packet"));
        assert_eq!(again, Err(Rejection::Replayed));
    }
    assert!(open(&mut receiver, &datagram(3, 8193, b"packet")).is_ok());
    assert_eq!(open(&mut receiver, &datagram(3, 1, b"packet")), Err(Rejection::TooOld));
}

#[test]
fn rejects_packets_of_incarnations_that_are_not_adopted() {
    let mut receiver = Decapsulator::new(7, &key());
    let (old, new) = (datagram(3, 9000, b"packet"), datagram(4, 1, b"packet"));
    assert_eq!(open(&mut receiver, &old), Err(Rejection::NotAdopted));
    receiver.adopt(3, RECEIVER);
    assert!(open(&mut receiver, &old).is_ok());
    assert_eq!(open(&mut receiver, &new), Err(Rejection::NotAdopted));
    receiver.adopt(4, RECEIVER);
    assert!(open(&mut receiver, &new).is_ok());
    receiver.adopt(4, RECEIVER);
    assert_eq!(open(&mut receiver, &new), Err(Rejection::Replayed));
    assert_eq!(open(&mut receiver, &old), Err(Rejection::NotAdopted));
}

#[test]
fn rejects_packets_recorded_before_the_receivebox_restarted() {
    let recorded = datagram(3, 9000, b"packet");
    assert!(open(&mut receiver(3), &recorded).is_ok());
    let mut restarted = Decapsulator::new(7, &key());
    // The sendbox has not restarted: its incarnation is unchanged.
    restarted.adopt(3, RECEIVER + 1);
    assert_eq!(open(&mut restarted, &recorded), Err(Rejection::BadTag));
}

#[test]
fn forged_sequence_number_does_not_move_the_replay_window() {
    let mut receiver = receiver(3);
    let mut forged = datagram(3, 1, b"packet");
    forged[16] = 0x7f;
    assert_eq!(open(&mut receiver, &forged), Err(Rejection::BadTag));
    assert!(open(&mut receiver, &datagram(3, 1, b"packet")).is_ok());
}

#[test]
fn packets_without_bytes_need_the_same_key() {
    let mut receiver = receiver(3);
    let good = envelope(3, 1);
    let stale = Envelope { key: key().packets(7, 3, RECEIVER + 1), ..good };
    assert_eq!(receiver.open_unencoded(&stale), Err(Rejection::BadTag));
    assert_eq!(receiver.open_unencoded(&good), Ok(good.header.digest(&key().digest())));
    assert_eq!(receiver.open_unencoded(&good), Err(Rejection::Replayed));
    assert_eq!(receiver.open_unencoded(&envelope(4, 1)), Err(Rejection::NotAdopted));
}

#[test]
fn rejection_names_the_defect() {
    let good = datagram(3, 1, b"packet");
    let reason = |bytes: &[u8]| open(&mut receiver(3), bytes).unwrap_err();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    assert_eq!(reason(&with(1, 0)), Rejection::Foreign(0x4e00));
    assert_eq!(reason(&with(2, 1)), Rejection::UnknownVersion(1));
    assert_eq!(reason(&with(3, 1)), Rejection::UnknownType(1));
    assert_eq!(reason(&with(7, 8)), Rejection::UnknownBundle(8));
    let zero = |field, at| Rejection::BadValue { field, at, value: 0 };
    assert_eq!(reason(&with(15, 0)), zero("incarnation", 8));
    assert_eq!(reason(&with(23, 0)), zero("sequence number", 16));
    let empty = &good[..HEADER + TAG];
    assert_eq!(reason(empty), Rejection::Truncated { field: "packet", at: HEADER });
    let mut other = Decapsulator::new(7, &Key::from_secret("battery staple"));
    other.adopt(3, RECEIVER);
    assert_eq!(open(&mut other, &good), Err(Rejection::BadTag));
}

proptest! {
    #[test]
    fn rejects_every_changed_bit_and_length(
        incarnation in 1..u64::MAX,
        sequence in 1..u64::MAX,
        packet in prop::collection::vec(any::<u8>(), 1..100),
    ) {
        let good = datagram(incarnation, sequence, &packet);
        let mut receiver = receiver(incarnation);
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(open(&mut receiver, &bytes).is_err(), "bit {}", bit);
        }
        for length in 0..good.len() {
            prop_assert!(open(&mut receiver, &good[..length]).is_err(), "length {}", length);
        }
        prop_assert!(open(&mut receiver, &[&good[..], &[0]].concat()).is_err());
        prop_assert_eq!(open(&mut receiver, &good).unwrap().0, packet);
    }

    /// An attacker with all recorded datagrams replays, reorders and modifies them while
    /// gateways restart: only unmodified packets of the current pair of incarnations are
    /// accepted, once each.
    #[test]
    fn accepts_each_packet_of_the_present_incarnations_once(
        steps in prop::collection::vec((0..8_u8, any::<Index>(), any::<u16>()), 1..80),
    ) {
        let (mut sender, mut receiver, mut sequence) = (1, 1, 0_u64);
        let mut decapsulator = Decapsulator::new(7, &key());
        decapsulator.adopt(sender, receiver);
        let mut recorded: Vec<(u64, u64, u64, Vec<u8>)> = Vec::new();
        let mut accepted = std::collections::BTreeSet::new();
        for (step, index, value) in steps {
            match step {
                0 => {
                    (sender, sequence) = (sender + 1, 0);
                    decapsulator.adopt(sender, receiver);
                }
                1 => {
                    receiver += 1;
                    decapsulator = Decapsulator::new(7, &key());
                    decapsulator.adopt(sender, receiver);
                }
                2..=4 => {
                    sequence += 1;
                    let header = Header { bundle: 7, incarnation: sender, sequence };
                    let sealing = Envelope::new(header, &key(), receiver);
                    let bytes = sealed(&sealing, &value.to_be_bytes());
                    recorded.push((sender, receiver, sequence, bytes));
                }
                _ if recorded.is_empty() => {}
                step => {
                    let (from, to, number, bytes) = index.get(&recorded);
                    let mut bytes = bytes.clone();
                    if step == 5 {
                        let bit = usize::from(value) % (bytes.len() * 8);
                        bytes[bit / 8] ^= 1 << (bit % 8);
                    }
                    let fresh = (*from, *to) == (sender, receiver)
                        && step != 5
                        && accepted.insert((*from, *to, *number));
                    prop_assert_eq!(open(&mut decapsulator, &bytes).is_ok(), fresh);
                }
            }
        }
    }

    #[test]
    fn rejects_any_bytes(bytes: Vec<u8>) {
        prop_assert!(open(&mut receiver(3), &bytes).is_err());
    }
}
