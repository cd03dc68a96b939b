//! Loss, reordering, duplication and corruption: messages are complete or absent, and
//! the counters exact.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::format::{TAG, Trailer};
use super::*;

const KEY: [u8; 32] = [9; 32];

fn options(own: u16, datagram: usize, encrypt: bool) -> TrunkOptions {
    TrunkOptions { own: AgentId(own), agents: 3, key: KEY, epoch: 5 << 16, encrypt, datagram }
}

fn trunk(own: u16, datagram: usize) -> Trunk {
    Trunk::new(options(own, datagram, true))
}

/// A packet whose content depends on its number.
fn packet(number: u32, length: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(2_654_435_761) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

fn put(trunk: &mut Trunk, to: u16, number: u32, length: usize) -> bool {
    let packet = packet(number, length);
    let (headers, payload) = packet.split_at(length.min(40));
    let message = Message {
        iface: IfaceId(number),
        due: Time::from_nanos(1_000_000 + u64::from(number)),
        version: 4,
        virtio: [number as u8; VIRTIO],
        headers,
        payload,
    };
    trunk.put(AgentId(to), &message)
}

/// All queued trains, and the size of their datagrams.
fn trains(trunk: &mut Trunk, now: u64) -> Vec<(Vec<u8>, usize)> {
    let mut trains = Vec::new();
    while let Some(Outgoing { bytes, segment, .. }) = trunk.next(Time::from_nanos(now)) {
        trains.push((bytes.to_vec(), segment));
        trunk.sent();
    }
    trains
}

fn datagrams(trunk: &mut Trunk, now: u64) -> Vec<Vec<u8>> {
    let cut = |(bytes, segment): (Vec<u8>, usize)| -> Vec<Vec<u8>> {
        bytes.chunks(segment).map(<[u8]>::to_vec).collect()
    };
    trains(trunk, now).into_iter().flat_map(cut).collect()
}

/// Receives a buffer; counts each message and checks its content.
fn receive(trunk: &mut Trunk, buffer: &mut [u8], segment: usize, got: &mut BTreeMap<u32, u32>) {
    let mut frames = Vec::new();
    trunk.receive(Time::from_nanos(2_000), buffer, segment, |received| {
        let number = received.iface.0;
        assert_eq!(received.packet(), packet(number, received.packet().len()));
        assert_eq!(received.virtio(), [number as u8; VIRTIO]);
        assert_eq!(received.due, Time::from_nanos(1_000_000 + u64::from(number)));
        assert_eq!(received.version, 4);
        *got.entry(number).or_default() += 1;
        frames.push(received.frame);
    });
    for frame in frames {
        trunk.recycle(frame);
    }
}

/// The treatment of a datagram by the network.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrive,
    Lose,
    Twice,
    Corrupt(usize),
    /// Swaps it with the datagram that many positions later.
    Delay(usize),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Arrive),
        1 => Just(Fate::Lose),
        1 => Just(Fate::Twice),
        1 => any::<usize>().prop_map(Fate::Corrupt),
        2 => (1_usize..9).prop_map(Fate::Delay),
    ]
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0_usize..200, 2 => 200_usize..3000, 1 => 3000_usize..=65_536]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn delivers_all_messages_without_loss(
        lengths in prop::collection::vec(length(), 1..40),
        datagram in
            prop_oneof![Just(1472_usize), 512_usize..1600, Just(8944), 60_000_usize..65_600],
        encrypt in any::<bool>(),
        turns in prop::collection::vec(1_usize..8, 1..40),
    ) {
        let mut sender = Trunk::new(options(0, datagram, encrypt));
        let mut receiver = Trunk::new(options(1, 1472, encrypt));
        let mut got = BTreeMap::new();
        let mut turns = turns.into_iter().cycle();
        let mut left = turns.next().unwrap();
        for (number, length) in lengths.iter().enumerate() {
            prop_assert!(put(&mut sender, 1, number as u32, *length));
            left -= 1;
            if left == 0 || number + 1 == lengths.len() {
                left = turns.next().unwrap();
                for (mut bytes, segment) in trains(&mut sender, 1_000) {
                    prop_assert!(bytes.len() <= 65_507 && bytes.len().div_ceil(segment) <= 64);
                    receive(&mut receiver, &mut bytes, segment, &mut got);
                }
            }
        }
        let all: BTreeMap<u32, u32> = (0..lengths.len()).map(|number| (number as u32, 1)).collect();
        prop_assert_eq!(got, all);
        let sent = sender.statistics(AgentId(1)).unwrap();
        let received = receiver.statistics(AgentId(0)).unwrap();
        prop_assert_eq!(sent.sent_datagrams, received.received_datagrams);
        prop_assert_eq!(sent.sent_bytes, received.received_bytes);
        prop_assert_eq!(sent.sent_messages, lengths.len() as u64);
        prop_assert_eq!(received.received_messages, lengths.len() as u64);
        prop_assert_eq!((received.lost, received.late, received.malformed), (0, 0, 0));
        prop_assert_eq!(received.delay.percentile(0.5), 1_000);
    }

    #[test]
    fn messages_are_complete_or_absent_and_counters_exact(
        lengths in prop::collection::vec(length(), 1..30),
        fates in prop::collection::vec(fate(), 1..500),
        groups in prop::collection::vec(1_usize..12, 1..50),
    ) {
        let mut sender = trunk(0, 1472);
        let mut receiver = trunk(1, 1472);
        for (number, length) in lengths.iter().enumerate() {
            prop_assert!(put(&mut sender, 1, number as u32, *length));
        }
        let sent = datagrams(&mut sender, 1_000);
        let mut arrivals: Vec<(usize, Vec<u8>, bool)> = Vec::new();
        let (mut lost, mut twice, mut forged) = (0, 0, 0);
        let numbered = sent.iter().cloned().enumerate();
        for ((number, mut bytes), fate) in numbered.zip(fates.iter().cycle()) {
            match *fate {
                Fate::Arrive | Fate::Delay(_) => arrivals.push((number, bytes, true)),
                Fate::Lose => lost += 1,
                Fate::Twice => {
                    twice += 1;
                    arrivals.push((number, bytes.clone(), true));
                    arrivals.push((number, bytes, true));
                }
                Fate::Corrupt(bit) => {
                    // The sender's identifier stays, because the counters are by sender.
                    let bit = bit % (bytes.len() * 8 - 16);
                    let bit = if bit < 14 * 8 { bit } else { bit + 16 };
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    forged += 1;
                    lost += 1;
                    arrivals.push((number, bytes, false));
                }
            }
        }
        for (at, fate) in fates.iter().enumerate().take(arrivals.len()) {
            if let Fate::Delay(by) = fate {
                let other = (at + by).min(arrivals.len() - 1);
                arrivals.swap(at, other);
            }
        }
        let good: Vec<usize> = arrivals.iter().filter(|one| one.2).map(|one| one.0).collect();
        // Losses after the last received datagram are not detected.
        let last = good.iter().max().map_or(0, |last| last + 1);
        let tail = (last..sent.len()).count();
        let mut reordered = 0;
        let mut highest = None;
        let mut seen = std::collections::BTreeSet::new();
        for number in &good {
            if seen.insert(*number) && highest > Some(*number) {
                reordered += 1;
            }
            highest = highest.max(Some(*number));
        }
        let mut got = BTreeMap::new();
        let mut groups = groups.into_iter().cycle();
        let mut rest = &arrivals[..];
        while !rest.is_empty() {
            let max = groups.next().unwrap();
            // The kernel coalesces datagrams of equal size; a shorter one ends the group.
            let size = rest[0].1.len();
            let full = rest.iter().take(max).take_while(|one| one.1.len() == size).count();
            let is_last = full < max && rest.get(full).is_some_and(|one| one.1.len() < size);
            let full = full + usize::from(is_last);
            let mut buffer: Vec<u8> = rest[..full].iter().flat_map(|one| one.1.clone()).collect();
            receive(&mut receiver, &mut buffer, size, &mut got);
            rest = &rest[full..];
        }
        prop_assert!(got.values().all(|times| *times == 1));
        let statistics = receiver.statistics(AgentId(0)).unwrap();
        prop_assert_eq!(statistics.lost, (lost - tail) as u64);
        prop_assert_eq!(statistics.duplicate, twice);
        prop_assert_eq!(statistics.forged, forged);
        prop_assert_eq!(statistics.reordered, reordered);
        prop_assert_eq!(statistics.received_datagrams, (sent.len() - lost) as u64);
        prop_assert_eq!(statistics.received_messages, got.len() as u64);
        prop_assert_eq!(statistics.malformed, 0);
        if lost == 0 {
            prop_assert_eq!(got.len(), lengths.len());
        }
    }

    #[test]
    fn ignores_random_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..4000),
        segment in 0_usize..2000,
    ) {
        let mut bytes = bytes;
        trunk(1, 1472).receive(Time::ZERO, &mut bytes, segment, |_| {
            panic!("random bytes were accepted")
        });
    }
}

proptest! {
    #[test]
    fn tolerates_malformed_datagrams_of_a_peer(
        datagrams in prop::collection::vec(
            (0_u64..20, prop::collection::vec(0_u8..30, 0..200), any::<[u8; 8]>()), 1..30
        ),
    ) {
        let mut receiver = trunk(1, 1472);
        let key = seal::Key::new(&KEY, AgentId(0), AgentId(1), true);
        for (number, content, trailer) in datagrams {
            let mut datagram = number.to_be_bytes().to_vec();
            datagram.extend([0; 8]);
            datagram.extend(&content);
            datagram.extend([[0; 8], trailer.map(|byte| byte % 40)].as_flattened());
            datagram.extend([0; TAG]);
            key.seal(&mut datagram);
            let length = datagram.len();
            receiver.receive(Time::from_nanos(5), &mut datagram, length, |received| {
                assert!(received.frame.len() >= VIRTIO && received.frame.len() < MAX_MESSAGE_BYTES);
            });
        }
        prop_assert_eq!(receiver.statistics(AgentId(0)).unwrap().forged, 0);
    }
}

#[test]
fn lost_datagram_affects_only_its_messages() {
    let (mut sender, mut receiver) = (trunk(0, 1472), trunk(1, 1472));
    for number in 0..10 {
        assert!(put(&mut sender, 1, number, 1460));
    }
    let sent = datagrams(&mut sender, 1_000);
    let mut got = BTreeMap::new();
    for (at, mut datagram) in sent.into_iter().enumerate() {
        if at != 4 {
            receive(&mut receiver, &mut datagram, 1472, &mut got);
        }
    }
    // Datagram 4 has the end of packet 3 and the beginning of packet 4.
    assert_eq!(got.into_keys().collect::<Vec<_>>(), [0, 1, 2, 5, 6, 7, 8, 9]);
    assert_eq!(receiver.statistics(AgentId(0)).unwrap().lost, 1);
}

#[test]
fn rejects_replays_before_and_after_restart() {
    let mut receiver = trunk(1, 1472);
    let mut got = BTreeMap::new();
    let mut sender = trunk(0, 1472);
    put(&mut sender, 1, 1, 100);
    let old = datagrams(&mut sender, 1_000).remove(0);
    receive(&mut receiver, &mut old.clone(), 1472, &mut got);
    receive(&mut receiver, &mut old.clone(), 1472, &mut got);
    let mut restarted = Trunk::new(TrunkOptions { epoch: 6 << 16, ..options(0, 1472, true) });
    put(&mut restarted, 1, 2, 100);
    receive(&mut receiver, &mut datagrams(&mut restarted, 1_000).remove(0), 1472, &mut got);
    receive(&mut receiver, &mut old.clone(), 1472, &mut got);
    assert_eq!(got, BTreeMap::from([(1, 1), (2, 1)]));
    let statistics = receiver.statistics(AgentId(0)).unwrap();
    assert_eq!((statistics.duplicate, statistics.stale), (1, 1));
    // A datagram for one agent is not valid for another one.
    let mut third = trunk(2, 1472);
    receive(&mut third, &mut old.clone(), 1472, &mut got);
    assert_eq!(third.statistics(AgentId(0)).unwrap().forged, 1);
}

#[test]
fn measures_lateness_and_delay() {
    let (mut sender, mut receiver) = (trunk(0, 1472), trunk(1, 1472));
    put(&mut sender, 1, 0, 100);
    put(&mut sender, 1, 500, 100);
    let mut bytes = datagrams(&mut sender, 700_000).remove(0);
    receiver.receive(Time::from_nanos(1_000_300), &mut bytes, 1472, |_| {});
    let statistics = receiver.statistics(AgentId(0)).unwrap();
    assert_eq!((statistics.late, statistics.late_by.max()), (1, 300));
    assert_eq!(statistics.delay.max(), 300_300);
    put(&mut sender, 1, 500, 100);
    let mut bytes = datagrams(&mut sender, 1_500_000).remove(0);
    receiver.receive(Time::from_nanos(1_000_400), &mut bytes, 1472, |_| {});
    assert_eq!(receiver.statistics(AgentId(0)).unwrap().early, 1);
}

#[test]
fn backlog_is_bounded_and_forgotten_with_its_peer() {
    let mut sender = trunk(0, 1472);
    let accepted = (0..1000).filter(|number| put(&mut sender, 1, *number, 65_000)).count();
    assert!((200..400).contains(&accepted), "{accepted} super-packets wait");
    let refused = sender.statistics(AgentId(1)).unwrap().refused_messages;
    assert_eq!(refused + accepted as u64, 1000);
    sender.forget(AgentId(1));
    assert_eq!(sender.next(Time::ZERO), None);
    assert!(!put(&mut sender, 0, 1, 10), "the own agent is not a peer");
    assert!(!put(&mut sender, 3, 1, 10), "there are three agents");
    let (mut receiver, mut got) = (trunk(1, 1472), BTreeMap::new());
    put(&mut sender, 1, 7, 5000);
    for (mut bytes, segment) in trains(&mut sender, 1_000) {
        receive(&mut receiver, &mut bytes, segment, &mut got);
    }
    assert_eq!(got, BTreeMap::from([(7, 1)]));
}

#[test]
fn trailer_round_trips() {
    let trailer = Trailer {
        sent: Time::from_nanos(u64::MAX / 3),
        position: 65_561,
        left: 0xff_fffe,
        back: 255,
    };
    assert_eq!(Trailer::decode(trailer.encode()), trailer);
}

#[test]
fn datagram_size_fits_mtu() {
    assert_eq!(datagram_size(Bytes::new(1500), false), 1472);
    assert_eq!(datagram_size(Bytes::new(1500), true), 1440);
    assert_eq!(datagram_size(Bytes::new(9000), false), 8960);
    assert_eq!(datagram_size(Bytes::new(0), true), MIN_DATAGRAM_BYTES);
    assert!(datagram_size(Bytes::MAX, false) <= 65_507);
}
