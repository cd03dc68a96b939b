use base::Time;
use bgp::negotiated::Families;
use bgp::{Asn, Safi};

use super::*;
use crate::{Gap, MirrorId, PeeringId, Reading, Sink};

fn peering() -> Peering {
    let vpn = Family { afi: bgp::Afi::IPV4, safi: Safi::MPLS_VPN };
    let add_path = Families::NONE.with(Family::IPV6_UNICAST).with(vpn);
    let from_peer = Negotiated { four_octet_as: true, extended_message: false, add_path };
    Peering {
        id: PeeringId(7),
        mirror: MirrorId(3),
        peer: "2001:db8::2".parse().unwrap(),
        peer_as: Asn(4_200_000_001),
        peer_id: u32::MAX,
        local: "192.0.2.1".parse().unwrap(),
        local_as: Asn(64499),
        local_id: 2,
        from_peer,
        from_local: Negotiated::default(),
        certain: false,
        session: 9,
    }
}

const TIME: Time = Time::from_nanos(1_740_561_857_910_123_457);

fn update() -> Vec<u8> {
    let mut attributes = vec![0x40, 1, 1, 0, 0x40, 2, 20, 2, 2, 0, 0, 0xfb, 0xf4];
    attributes.extend([0, 0, 13, 5, 1, 2, 0, 0, 0, 8, 0, 0, 0, 7]);
    attributes.extend([0x40, 3, 4, 192, 0, 2, 1, 0xc0, 8, 4, 13, 5, 0, 42]);
    attributes.extend([0xc0, 99, 2, 0xab, 0xcd]);
    let mut body = vec![0, 3, 16, 10, 9];
    body.extend((attributes.len() as u16).to_be_bytes());
    body.extend_from_slice(&attributes);
    body.extend([24, 10, 1, 2]);
    let mut bytes = vec![0xff; 16];
    bytes.extend(((19 + body.len()) as u16).to_be_bytes());
    bytes.push(2);
    bytes.extend_from_slice(&body);
    bytes
}

#[derive(Default)]
struct Lines(Vec<u8>);

impl Sink for Lines {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        super::event(peering, event, &mut self.0);
    }
}

fn line(event: &Event<'_>) -> String {
    let mut lines = Lines::default();
    lines.event(&peering(), event);
    String::from_utf8(lines.0).unwrap()
}

#[test]
fn round_trips_events() {
    let bytes = update();
    let message = Message::split(&bytes).unwrap();
    let gap = Gap {
        since: Time::from_nanos(1),
        until: TIME,
        from: Sender::Local,
        cause: GapCause::Start,
        missing: u64::MAX,
        skipped: 5,
    };
    let (old, new) = (State::Established, State::Idle);
    let reasons = [Reason::HoldTimeExpired, Reason::Notification(Sender::Local, 6, 7)];
    let mut events = vec![
        Event::Message { time: TIME, from: Sender::Peer, message },
        Event::Message { time: TIME, from: Sender::Local, message },
        Event::Gap(gap),
        Event::Reading(Reading { time: TIME, confidence: Confidence::Likely, otherwise: 3 }),
    ];
    events.extend(reasons.map(|reason| Event::State { time: TIME, old, new, reason }));
    for event in &events {
        let text = line(event);
        let Line::Event(read) = parse(&text).expect(&text) else { panic!("{text}") };
        assert_eq!(*read.peering(), peering());
        let mut again = Lines::default();
        read.tell(&mut again);
        assert_eq!(String::from_utf8(again.0).unwrap(), text);
    }
}

#[test]
fn decodes_update() {
    let bytes = update();
    let message = Message::split(&bytes).unwrap();
    let text = line(&Event::Message { time: TIME, from: Sender::Peer, message });
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["type"], "UPDATE");
    assert_eq!(value["withdrawn"], serde_json::json!(["10.9.0.0/16"]));
    assert_eq!(value["announced"], serde_json::json!(["10.1.2.0/24"]));
    assert_eq!(
        value["attributes"],
        serde_json::json!([
            {"code": 1, "flags": 64, "name": "ORIGIN", "value": "IGP"},
            {"code": 2, "flags": 64, "name": "AS_PATH", "value": [64500, 3333, [8, 7]]},
            {"code": 3, "flags": 64, "name": "NEXT_HOP", "value": "192.0.2.1"},
            {"code": 8, "flags": 192, "name": "COMMUNITIES", "value": ["3333:42"]},
            {"code": 99, "flags": 192, "hex": "abcd"},
        ])
    );
    assert_eq!(value["verdict"], serde_json::Value::Null);
    // With two-octet AS numbers the path is malformed.
    let text = line(&Event::Message { time: TIME, from: Sender::Local, message });
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["verdict"]["action"], "treat as withdraw", "{text}");
    assert!(value["attributes"][1]["error"].is_string(), "{text}");
}

#[test]
fn rejects_invalid_lines() {
    let bytes = update();
    let message = Message::split(&bytes).unwrap();
    let whole = line(&Event::Message { time: TIME, from: Sender::Peer, message });
    for (wrong, member) in [
        (String::new(), "line"),
        ("[1]".into(), "line"),
        ("{}".into(), "peering"),
        (r#"{"mrt":16}"#.into(), "raw"),
        (r#"{"mrt":16,"raw":"000"}"#.into(), "raw"),
        (r#"{"mrt":16,"raw":"000000000010000100000001"}"#.into(), "raw"),
        (whole.replace(r#""as4":true"#, r#""as4":1"#), "as4"),
        (whole.replace(r#""mirror":3"#, r#""mirror":4294967296"#), "mirror"),
        (whole.replace("ffffffffff", "fffffffff"), "raw"),
        (whole.replace(r#""from":"peer""#, r#""from":"stranger""#), "from"),
    ] {
        match parse(&wrong) {
            Err(crate::Error::Line { field, .. }) => assert_eq!(field, member, "{wrong}"),
            other => panic!("{wrong}: {other:?}"),
        }
    }
}
