use std::net::IpAddr;

use bgp::bmp::{Body, Packet};
use bgp::negotiated::Families;
use bgp::open::Open;
use bgp::{Asn, Family, Negotiated};

use super::*;
use crate::input::bmp::Input;
use crate::{GapCause, MirrorId};

fn peering(id: u32, peer: &str) -> Peering {
    let reading = Negotiated {
        four_octet_as: true,
        extended_message: true,
        add_path: Families::NONE.with(Family::IPV6_UNICAST),
    };
    Peering {
        peer_as: Asn(4_200_000_001),
        peer_id: 0x0a00_0001,
        local_as: Asn(64_512),
        from_peer: reading,
        from_local: Negotiated { four_octet_as: true, ..Negotiated::default() },
        ..Peering::new(
            PeeringId(id),
            MirrorId(0),
            peer.parse().unwrap(),
            "192.0.2.254".parse::<IpAddr>().unwrap(),
        )
    }
}

fn message(kind: MessageType, body: &[u8]) -> Vec<u8> {
    let mut out = bgp::MARKER.to_vec();
    out.extend((body.len() as u16 + 19).to_be_bytes());
    out.push(kind.0);
    out.extend_from_slice(body);
    out
}

fn time(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

fn tell(exporter: &mut Exporter, peering: &Peering, at: u64, from: Sender, bytes: &[u8]) {
    let message = Message::split(bytes).unwrap();
    exporter.event(peering, &Event::Message { time: time(at), from, message });
}

fn change(exporter: &mut Exporter, peering: &Peering, at: u64, up: bool, reason: Reason) {
    let (idle, established) = (State::Idle, State::Established);
    let (old, new) = if up { (idle, established) } else { (established, idle) };
    exporter.event(peering, &Event::State { time: time(at), old, new, reason });
}

fn packets(bytes: &[u8]) -> Vec<Body<'_>> {
    let mut rest = bytes;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let packet = Packet::split(rest).unwrap();
        found.push(packet.parse().unwrap());
        rest = &rest[packet.bytes.len()..];
    }
    found
}

#[test]
fn exports_captured_messages_unchanged() {
    let mut exporter = Exporter::new(Settings::default());
    let peering = peering(0, "192.0.2.1");
    let opens = [7, 8].map(|id| message(MessageType::OPEN, &[4, 1, 1, 0, 90, 0, 0, 0, id, 0]));
    let update = message(MessageType::UPDATE, &[0; 4]);
    let cease = message(MessageType::NOTIFICATION, &[6, 2]);
    let mut greeting = Vec::new();
    let cursor = exporter.greeting(&mut greeting).unwrap();
    tell(&mut exporter, &peering, 1, Sender::Peer, &opens[0]);
    tell(&mut exporter, &peering, 1, Sender::Local, &opens[1]);
    change(&mut exporter, &peering, 1, true, Reason::Seen);
    tell(&mut exporter, &peering, 2, Sender::Peer, &update);
    tell(&mut exporter, &peering, 2, Sender::Local, &update);
    let old = Peering { from_peer: Negotiated::default(), ..peering };
    tell(&mut exporter, &old, 3, Sender::Peer, &update);
    tell(&mut exporter, &peering, 4, Sender::Peer, &cease);
    change(&mut exporter, &peering, 4, false, Reason::Notification(Sender::Peer, 6, 2));

    let first = packets(&greeting);
    let Body::Initiation(who) = first[0] else { panic!("{first:?}") };
    assert_eq!((first.len(), who.first(information::SYS_NAME)), (1, Some(&b"netarium"[..])));
    let stream = packets(exporter.unread(cursor).unwrap());
    let [
        Body::PeerUp(_, up),
        Body::RouteMonitoring(wide, received),
        Body::RouteMonitoring(narrow, _),
        Body::PeerDown(header, down),
    ] = &stream[..]
    else {
        panic!("{stream:#?}")
    };
    assert_eq!((up.received, up.sent), (&opens[0][..], &opens[1][..]));
    assert!(up.information.bytes().is_empty());
    assert_eq!((*received, wide.time()), (&update[..], Some(time(2))));
    assert!(!wide.is_two_octet_as() && narrow.is_two_octet_as());
    assert_eq!(*down, Down::RemoteNotification(&cease));
    assert_eq!((header.address(), header.asn), (peering.peer, peering.peer_as));
}

#[test]
fn reconstructs_equivalent_opens() {
    let mut exporter = Exporter::new(Settings::default());
    let expected = peering(0, "2001:db8::1");
    let update = message(MessageType::UPDATE, &[0; 4]);
    // An UPDATE in the middle of a session shows that it is up.
    tell(&mut exporter, &expected, 5, Sender::Peer, &update);
    let stream = packets(exporter.unread(Cursor(0)).unwrap());
    let Body::PeerUp(_, up) = stream[0] else { panic!("{stream:?}") };
    let texts: Vec<_> = up.information.iter().map(|tlv| tlv.unwrap().value).collect();
    assert_eq!(texts, NOT_CAPTURED.map(str::as_bytes));
    let open = |bytes| Open::parse(Message::split(bytes).unwrap().body()).unwrap();
    let (received, sent) = (open(up.received), open(up.sent));
    assert_eq!(Negotiated::between(&received, &sent), expected.from_peer);
    assert_eq!(Negotiated::between(&sent, &received), expected.from_local);
    assert_eq!((received.asn(), received.id), (expected.peer_as, expected.peer_id));
    assert_eq!((sent.asn(), sent.id), (expected.local_as, 0xc000_02fe));
}

#[test]
fn keeps_separate_position_per_station() {
    let mut exporter = Exporter::new(Settings { limit: 400, ..Settings::default() });
    let peering = peering(0, "192.0.2.1");
    let update = message(MessageType::UPDATE, &[0; 4]);
    let mut early = exporter.greeting(&mut Vec::new()).unwrap();
    change(&mut exporter, &peering, 1, true, Reason::Seen);
    let taken = exporter.unread(early).unwrap().len();
    early.advance(taken);
    let mut greeting = Vec::new();
    let late = exporter.greeting(&mut greeting).unwrap();
    let id = exporter.sessions(&[peering])[0].unwrap();
    for id in [id, id, PeeringId(9)] {
        exporter.table(&mut greeting, id, time(2), &update);
    }
    let received = packets(&greeting);
    assert!(matches!(
        received[..],
        [
            Body::Initiation(_),
            Body::PeerUp(..),
            Body::RouteMonitoring(..),
            Body::RouteMonitoring(..)
        ]
    ));
    assert_eq!(late, early);
    tell(&mut exporter, &peering, 3, Sender::Peer, &update);
    assert_eq!(packets(exporter.unread(late).unwrap()).len(), 1);
    for at in 0..100 {
        tell(&mut exporter, &peering, at, Sender::Peer, &update);
        assert!(exporter.bytes.len() <= 800);
    }
    let overrun = exporter.unread(late).unwrap_err();
    let gone = 101 * (6 + 42 + 23) - exporter.bytes.len();
    assert_eq!(overrun.missing as usize, gone);
    let mut end = Vec::new();
    Exporter::termination(&mut end).unwrap();
    assert!(matches!(packets(&end)[..], [Body::Termination(_)]));
}

#[test]
fn reports_gap_counters() {
    let mut exporter = Exporter::new(Settings::default());
    let peering = peering(0, "192.0.2.1");
    change(&mut exporter, &peering, 1, true, Reason::Seen);
    let (since, until, from) = (time(1), time(2), Sender::Peer);
    let gap = Gap { since, until, from, cause: GapCause::Mirror, missing: 100, skipped: 20 };
    exporter.event(&peering, &Event::Gap(gap));
    exporter.event(&peering, &Event::Gap(gap));
    exporter.statistics(time(3)).unwrap();
    let stream = packets(exporter.unread(Cursor(0)).unwrap());
    let Body::Statistics(_, statistics) = stream[1] else { panic!("{stream:?}") };
    let values: Vec<_> = statistics.iter().map(|one| one.unwrap().value).collect();
    assert_eq!(values, [&[0, 0, 0, 2][..], &200_u64.to_be_bytes(), &40_u64.to_be_bytes()]);
}

#[test]
fn distinguishes_equal_peers_of_two_routers() {
    let mut exporter = Exporter::new(Settings::default());
    let peerings = [peering(0, "192.0.2.1"), peering(1, "192.0.2.1"), peering(2, "192.0.2.3")];
    for peering in &peerings {
        change(&mut exporter, peering, 1, true, Reason::Seen);
    }
    let stream = packets(exporter.unread(Cursor(0)).unwrap());
    let headers: Vec<_> = stream
        .iter()
        .map(|body| match body {
            Body::PeerUp(header, _) => (header.kind, header.distinguisher),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(headers, [(peer_type::GLOBAL, 0), (peer_type::LOCAL, 2), (peer_type::GLOBAL, 0)]);
}

#[derive(Default, Debug, PartialEq)]
struct Received(Vec<(IpAddr, Asn, String)>);

impl Sink for Received {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        self.0.push((peering.peer, peering.peer_as, format!("{event:?}")));
    }
}

#[test]
fn imports_exported_events() {
    let mut exporter = Exporter::new(Settings { local_messages: true, ..Settings::default() });
    let mut expected = Received::default();
    let peering = peering(0, "2001:db8::1");
    let opens = [7, 8].map(|id| message(MessageType::OPEN, &[4, 1, 1, 0, 90, 0, 0, 0, id, 0]));
    let update = message(MessageType::UPDATE, &[0; 4]);
    let cease = message(MessageType::NOTIFICATION, &[6, 4]);
    let mut both = (&mut exporter, &mut expected);
    let tell = |both: &mut (&mut Exporter, &mut Received), at, from, bytes: &[u8]| {
        let message = Message::split(bytes).unwrap();
        both.event(&peering, &Event::Message { time: time(at), from, message });
    };
    tell(&mut both, 1, Sender::Local, &opens[0]);
    tell(&mut both, 1, Sender::Peer, &opens[1]);
    let (idle, established) = (State::Idle, State::Established);
    let reason = Reason::Seen;
    both.event(&peering, &Event::State { time: time(1), old: idle, new: established, reason });
    tell(&mut both, 2, Sender::Peer, &update);
    tell(&mut both, 3, Sender::Local, &update);
    tell(&mut both, 4, Sender::Local, &cease);
    let reason = Reason::Notification(Sender::Local, 6, 4);
    both.event(&peering, &Event::State { time: time(4), old: established, new: idle, reason });
    let mut input = Input::new(MirrorId(0), PeeringId(0));
    let mut received = Received::default();
    let bytes = exporter.unread(Cursor(0)).unwrap();
    assert_eq!(input.read(bytes, true, &mut received), (bytes.len(), 0));
    assert_eq!(received, expected);
    assert_eq!(input.peerings().len(), 1);
}

#[test]
fn finds_sessions_of_table_by_address_as_and_order() {
    let mut exporter = Exporter::new(Settings::default());
    let own = |number: u32| {
        // Three peerings each have the same address.
        let mut peering = peering(number, &format!("10.0.{}.1", number / 3));
        peering.mirror = MirrorId(number % 3 + 1);
        peering
    };
    for number in 0..30 {
        // All but the first of each address are up.
        change(&mut exporter, &own(number), 1, true, Reason::Seen);
        if number % 3 == 0 {
            change(&mut exporter, &own(number), 2, false, Reason::Reset);
        }
    }
    let table: Vec<Peering> = (0..30).map(own).chain([peering(30, "10.9.9.9")]).collect();
    let found = exporter.sessions(&table);
    let wanted = (0..31).map(|at| (at % 3 != 0 && at < 30).then_some(PeeringId(at)));
    assert!(found.iter().copied().eq(wanted), "{found:?}");
}
