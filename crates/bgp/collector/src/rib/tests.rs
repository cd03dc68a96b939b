use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use bgp::mrt;
use bgp::nlri::{self, Nlri};
use bgp::{Asn, MARKER, Message, Negotiated, Prefix};
use proptest::prelude::*;

use super::*;
use crate::{Gap, GapCause, MirrorId};

mod queries;
mod restarts;

/// A peering; even ones send no path identifiers.
pub(super) fn peering(number: u32) -> Peering {
    let families = if number % 2 == 1 {
        [Family::IPV4_UNICAST, Family::IPV6_UNICAST].into_iter().collect()
    } else {
        bgp::negotiated::Families::NONE
    };
    let negotiated =
        Negotiated { four_octet_as: true, extended_message: false, add_path: families };
    Peering {
        peer_as: Asn(65_000 + number),
        peer_id: number,
        local_as: Asn(64_512),
        local_id: 1,
        from_peer: negotiated,
        from_local: negotiated,
        certain: true,
        ..Peering::new(
            PeeringId(number),
            MirrorId(0),
            IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number)),
            IpAddr::V4(Ipv4Addr::LOCALHOST),
        )
    }
}

pub(super) const fn at(milliseconds: u64) -> Time {
    Time::from_nanos(1_500_000_000_000_000_000 + milliseconds * 1_000_000)
}

pub(super) fn message(kind: MessageType, body: &[u8]) -> Vec<u8> {
    let mut bytes = MARKER.to_vec();
    bytes.extend_from_slice(&(19 + body.len() as u16).to_be_bytes());
    bytes.push(kind.0);
    bytes.extend_from_slice(body);
    bytes
}

fn field(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn attributes(number: u8) -> Vec<u8> {
    let mut bytes = vec![0x40, 1, 1, 0, 0x40, 2, 6, 2, 1, 0, 0, 0xff, number];
    bytes.extend([0x40, 3, 4, 192, 0, 2, 1]);
    if !number.is_multiple_of(3) {
        bytes.extend([0xc0, 8, 4, 0, 1, 0, number % 3]);
    }
    bytes
}

fn encoded(routes: &[Nlri]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for route in routes {
        nlri::encode(route, &mut bytes);
    }
    bytes
}

/// The body of an UPDATE; IPv6 routes go into `MP_REACH_NLRI` and `MP_UNREACH_NLRI`.
pub(super) fn update(withdrawn: &[Nlri], announced: &[Nlri], number: u8) -> Vec<u8> {
    let split = |routes: &[Nlri]| -> (Vec<Nlri>, Vec<Nlri>) {
        routes.iter().partition(|route| matches!(route.prefix, Prefix::V4(..)))
    };
    let ((gone, gone6), (new, new6)) = (split(withdrawn), split(announced));
    let mut all = Vec::new();
    if !gone6.is_empty() {
        let value = [&[0, 2, 1][..], &encoded(&gone6)].concat();
        all.extend([0x90, 15]);
        all.extend(field(&value));
    }
    if !announced.is_empty() {
        all.extend(attributes(number));
    }
    if !new6.is_empty() {
        let value = [&[0, 2, 1, 16][..], &[0x20; 16], &[0], &encoded(&new6)].concat();
        all.extend([0x90, 14]);
        all.extend(field(&value));
    }
    [field(&encoded(&gone)), field(&all), encoded(&new)].concat()
}

pub(super) fn send(rib: &mut Rib, peer: &Peering, time: Time, kind: MessageType, body: &[u8]) {
    let bytes = message(kind, body);
    let message = Message::split(&bytes).unwrap();
    rib.event(peer, &Event::Message { time, from: Sender::Peer, message });
}

pub(super) fn state(rib: &mut Rib, peer: &Peering, time: Time, new: State, reason: Reason) {
    let old = if new == State::Established { State::OpenConfirm } else { State::Established };
    rib.event(peer, &Event::State { time, old, new, reason });
}

/// Attributes and time in seconds by peer, prefix and path.
type Model = BTreeMap<(u32, Nlri), (u8, u32)>;

/// Reads a table dump and checks its format.
fn read(bytes: &[u8]) -> Model {
    let mut model = Model::new();
    let mut peers = Vec::new();
    let (mut rest, mut sequences, mut last) = (bytes, 0, None);
    while !rest.is_empty() {
        let length = u32::from_be_bytes(*rest[8..].first_chunk().unwrap()) as usize;
        let (record, behind) = rest.split_at(mrt::HEADER + length);
        let record = mrt::Record::of(record).unwrap();
        rest = behind;
        match record.parse().unwrap() {
            mrt::Body::PeerIndexTable(table) => {
                assert!(peers.is_empty());
                peers = table.peers().map(|peer| peer.unwrap()).collect();
            }
            mrt::Body::Rib(rib) => {
                assert_eq!(rib.sequence, sequences);
                sequences += 1;
                let mut prefixes = nlri::Prefixes::new(rib.nlri, rib.family.afi, false);
                let prefix = prefixes.next().unwrap().unwrap().prefix;
                let place = (rib.family, rib.add_path, prefix);
                if let Some((family, add_path, before)) = last {
                    let same = (family, add_path) == (rib.family, rib.add_path);
                    assert!(!same || before < prefix, "out of order");
                }
                last = Some(place);
                for entry in rib.entries() {
                    let entry = entry.unwrap();
                    let number = peers[usize::from(entry.peer)].id;
                    let route = Nlri { path_id: entry.path_id, prefix };
                    let set = entry.attributes[12];
                    let old = model.insert((number, route), (set, entry.originated));
                    assert_eq!(old, None, "written twice");
                }
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    model
}

#[derive(Clone, Debug)]
enum Step {
    Update { peer: u32, withdrawn: Vec<(u8, u8)>, announced: Vec<(u8, u8)>, set: u8 },
    Lost(u32),
    Begin,
    Write(usize),
}

fn route(peer: u32, (number, kind): (u8, u8)) -> Nlri {
    let path_id = (peer % 2 == 1).then_some(u32::from(kind % 3));
    let prefix = if kind % 8 == 0 {
        Prefix::V6(0x2001 << 112 | u128::from(number) << 80, 48)
    } else {
        Prefix::V4(u32::from(number) << 16 | 0x1000_0000, 16 + kind % 2 * 8)
    };
    Nlri { path_id, prefix }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = || prop::collection::vec((any::<u8>(), any::<u8>()), 0..6);
    let step = prop_oneof![
        20 => (0_u32..6, some(), some(), any::<u8>()).prop_map(
            |(peer, withdrawn, announced, set)| Step::Update { peer, withdrawn, announced, set }
        ),
        1 => (0_u32..6).prop_map(Step::Lost),
        2 => Just(Step::Begin),
        4 => (0_usize..900).prop_map(Step::Write),
    ];
    prop::collection::vec(step, 1..400)
}

fn dumped(rib: &mut Rib) -> Model {
    let mut out = Vec::new();
    assert!(rib.begin_snapshot(at(0), 1, b"all"));
    assert!(rib.write_snapshot(usize::MAX, &mut out));
    read(&out)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn routes_and_snapshots_agree_with_a_map(steps in steps()) {
        let mut rib = Rib::new();
        let mut model = Model::new();
        let (mut expected, mut file) = (None, Vec::new());
        for (number, step) in steps.into_iter().enumerate() {
            let time = at(number as u64 * 700);
            let seconds = (time.as_nanos() / 1_000_000_000) as u32;
            match step {
                Step::Update { peer, withdrawn, announced, set } => {
                    let list = |routes: Vec<(u8, u8)>| -> Vec<Nlri> {
                        routes.into_iter().map(|one| route(peer, one)).collect()
                    };
                    let (withdrawn, announced) = (list(withdrawn), list(announced));
                    let body = update(&withdrawn, &announced, set);
                    send(&mut rib, &peering(peer), time, MessageType::UPDATE, &body);
                    for one in withdrawn {
                        model.remove(&(peer, one));
                    }
                    for one in announced {
                        model.insert((peer, one), (set, seconds));
                    }
                }
                Step::Lost(peer) => {
                    state(&mut rib, &peering(peer), time, State::Idle, Reason::Reset);
                    model.retain(|key, _| key.0 != peer);
                }
                Step::Begin => {
                    if rib.begin_snapshot(time, 1, b"") {
                        prop_assert!(expected.is_none());
                        expected = Some(model.clone());
                    }
                }
                Step::Write(budget) => {
                    if let Some(instant) = &expected
                        && rib.write_snapshot(budget, &mut file) {
                            prop_assert_eq!(&read(&file), instant);
                            (expected, file) = (None, Vec::new());
                        }
                }
            }
            prop_assert_eq!(rib.len(), model.len());
        }
        rib.cancel_snapshot();
        prop_assert_eq!(dumped(&mut rib), model);
        for peer in 0..6 {
            state(&mut rib, &peering(peer), at(1_000_000), State::Idle, Reason::Reset);
        }
        prop_assert_eq!((rib.len(), rib.prefixes(), rib.attribute_sets()), (0, 0, 0));
        let memory = rib.memory();
        prop_assert_eq!((memory.announcements, memory.snapshot), (0, 0));
    }
}

#[test]
fn stores_equal_attributes_once() {
    let mut rib = Rib::new();
    let routes: Vec<Nlri> = (0..200)
        .map(|number| Nlri { path_id: None, prefix: Prefix::V4(number << 8, 24) })
        .collect();
    for peer in [0, 2, 4] {
        let body = update(&[], &routes, 7);
        send(&mut rib, &peering(peer), at(5), MessageType::UPDATE, &body);
    }
    assert_eq!((rib.len(), rib.prefixes(), rib.attribute_sets()), (600, 200, 1));
    assert_eq!(rib.len_of(PeeringId(2)), 200);
    assert_eq!(rib.counts().announced, 600);
}

/// Repeated changes and losses of all routes of many peerings reuse freed memory.
#[test]
fn limits_memory_to_present_routes() {
    let mut rib = Rib::new();
    let mut highest = Vec::new();
    for round in 0..4_u32 {
        for set in 0..3 {
            for peer in (0..40).step_by(2) {
                let list = |base: u32| -> Vec<Nlri> {
                    let numbers = (0..40).map(|number| base + number * 16 + round % 2);
                    let prefixes = numbers.map(|number| Prefix::V4(peer << 24 | number << 8, 24));
                    prefixes.map(|prefix| Nlri { path_id: None, prefix }).collect()
                };
                for part in 0..25 {
                    let body = update(&[], &list(part * 1024), (set + part as u8) % 7);
                    let time = at(u64::from(round * 100 + part));
                    send(&mut rib, &peering(peer), time, MessageType::UPDATE, &body);
                }
            }
        }
        assert_eq!(rib.len(), 20_000);
        highest.push(rib.memory().total());
        for peer in (0..40).step_by(2) {
            let time = at(u64::from(round * 100 + 50));
            state(&mut rib, &peering(peer), time, State::Idle, Reason::HoldTimeExpired);
        }
        assert_eq!((rib.len(), rib.prefixes(), rib.attribute_sets()), (0, 0, 0));
        assert!(rib.memory().total() < 40_000, "{:?}", rib.memory());
    }
    assert!(highest[3] <= highest[0] + highest[0] / 10, "{highest:?}");
}

#[test]
fn frees_removed_peerings() {
    let mut rib = Rib::new();
    let peers = [peering(0), peering(2)];
    for peer in &peers {
        state(&mut rib, peer, at(0), State::Established, Reason::Seen);
        let body = update(&[], &[route(0, (1, 0)), route(0, (2, 0))], 1);
        send(&mut rib, peer, at(1), MessageType::UPDATE, &body);
    }
    assert_eq!((rib.len(), rib.peerings().count()), (4, 2));
    rib.forget_peering(&peers[0]);
    assert_eq!((rib.len(), rib.peerings().count()), (2, 1));
    // While a snapshot is written, its peers keep their numbers.
    rib.begin_snapshot(at(2), 0, b"");
    rib.forget_peering(&peers[1]);
    assert_eq!(dumped_now(&mut rib), 2);
    assert_eq!((rib.len(), rib.attribute_sets()), (0, 0));
}

fn dumped_now(rib: &mut Rib) -> usize {
    let mut bytes = Vec::new();
    while !rib.write_snapshot(1, &mut bytes) {}
    read(&bytes).len()
}

#[test]
fn marks_table_incomplete_after_gap() {
    let mut rib = Rib::new();
    let peer = peering(0);
    state(&mut rib, &peer, at(0), State::Established, Reason::Seen);
    assert!(rib.peerings().all(|peer| peer.complete && peer.established));
    let gap = |from| {
        let (since, until, cause) = (at(1), at(2), GapCause::Mirror);
        Event::Gap(Gap { since, until, from, cause, missing: 1, skipped: 0 })
    };
    rib.event(&peer, &gap(Sender::Local));
    assert!(rib.peerings().all(|peer| peer.complete));
    rib.event(&peer, &gap(Sender::Peer));
    assert!(rib.peerings().all(|peer| !peer.complete));
    state(&mut rib, &peer, at(3), State::Idle, Reason::Reset);
    state(&mut rib, &peer, at(4), State::Established, Reason::Inferred);
    assert!(rib.peerings().all(|peer| !peer.complete && peer.established));
}

/// The actions for malformed attributes (RFC 7606 §7) affect the routes.
#[test]
fn applies_verdicts() {
    let mut rib = Rib::new();
    let (peer, routes) = (peering(0), [route(0, (1, 1)), route(0, (2, 1))]);
    let good = update(&[], &routes, 6);
    send(&mut rib, &peer, at(0), MessageType::UPDATE, &good);
    assert_eq!((rib.len(), rib.counts().treated_as_withdraw), (2, 0));
    let mut wrong_origin = update(&[], &routes[..1], 6);
    wrong_origin[7] = 9;
    send(&mut rib, &peer, at(1), MessageType::UPDATE, &wrong_origin);
    assert_eq!((rib.len(), rib.counts().treated_as_withdraw), (1, 1));
    let mut all = attributes(9);
    let whole = all.clone();
    all.extend([0xc0, 7, 3, 1, 2, 3]);
    let body = [vec![0, 0], field(&all), encoded(&routes[..1])].concat();
    send(&mut rib, &peer, at(2), MessageType::UPDATE, &body);
    assert_eq!(rib.len(), 2);
    let given = attributes::NewSet {
        attributes: &whole,
        four_octet_as: true,
        reach: None,
        nlri: None,
        discarded: &[],
    };
    let discarded = rib.attributes.intern(&given, 0);
    let mut sets = Vec::new();
    for peer in rib.peers() {
        let routes = &peer.tables[0].routes;
        routes.visit(|_, one| sets.push(rib.announcements.get(one).attributes));
    }
    assert!(sets.contains(&discarded));
    send(&mut rib, &peer, at(3), MessageType::UPDATE, &[0, 9, 0, 0]);
    assert_eq!((rib.len(), rib.counts().ignored), (2, 1));
}

/// Malformed UPDATEs are processed up to the error, without panic.
#[test]
fn tolerates_truncated_updates() {
    let routes: Vec<Nlri> = (0..20).map(|number| route(1, (number, number))).collect();
    let body = update(&routes[..10], &routes[10..], 7);
    for peer in [0, 1] {
        for length in 0..body.len() {
            let mut rib = Rib::new();
            send(&mut rib, &peering(peer), at(0), MessageType::UPDATE, &body[..length]);
            let mut flipped = body.clone();
            flipped[length] ^= 0x55;
            send(&mut rib, &peering(peer), at(1), MessageType::UPDATE, &flipped);
            let mut out = Vec::new();
            rib.begin_snapshot(at(2), 0, b"");
            assert!(rib.write_snapshot(usize::MAX, &mut out));
        }
    }
}
