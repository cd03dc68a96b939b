use base::Time;
use bgp::negotiated::Families;
use bgp::{Asn, Message, Safi};
use serde_json::{Value, json};

use super::*;
use crate::{Gap, GapCause, MirrorId, PeeringId, Reading, State};

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

fn line(event: &Event<'_>) -> String {
    let mut line = Vec::new();
    super::event(&peering(), event, &mut line);
    String::from_utf8(line).unwrap()
}

/// The members that follow the peering in the line of an event.
fn members(event: &Event<'_>) -> Value {
    let peering = concat!(
        r#"{"time":1740561857.910123,"ns":1740561857910123457,"peering":7,"mirror":3,"#,
        r#""session":9,"peer":"2001:db8::2","peer_as":4200000001,"peer_id":4294967295,"#,
        r#""local":"192.0.2.1","local_as":64499,"local_id":2,"certain":false,"#,
        r#""from_peer":{"as4":true,"extended_message":false,"#,
        r#""add_path":["ipv6/unicast","ipv4/mpls-vpn"]},"#,
        r#""from_local":{"as4":false,"extended_message":false,"add_path":[]},"#,
    );
    let line = line(event);
    serde_json::from_str(&format!("{{{}", line.strip_prefix(peering).unwrap())).unwrap()
}

#[test]
fn writes_events() {
    let bytes = update();
    let message = Message::split(&bytes).unwrap();
    for (from, name) in [(Sender::Peer, "peer"), (Sender::Local, "local")] {
        let value = members(&Event::Message { time: TIME, from, message });
        assert_eq!(value["from"], name);
        let raw = value["raw"].as_str().unwrap();
        assert!(raw.starts_with("ffffffffffffffffffffffffffffffff"), "{raw}");
        assert_eq!(raw.len(), 2 * bytes.len());
    }
    let gap = Gap {
        since: Time::from_nanos(1),
        until: TIME,
        from: Sender::Local,
        cause: GapCause::Start,
        missing: u64::MAX,
        skipped: 5,
    };
    let wanted = json!({"type": "GAP", "from": "local", "since_ns": 1, "cause": "start",
        "missing": u64::MAX, "skipped": 5});
    assert_eq!(members(&Event::Gap(gap)), wanted);
    let reading = Reading { time: TIME, confidence: Confidence::Likely, otherwise: 3 };
    let wanted = json!({"type": "READING", "confidence": "likely", "otherwise": 3});
    assert_eq!(members(&Event::Reading(reading)), wanted);
    let (old, new) = (State::Established, State::Idle);
    let state = |reason| members(&Event::State { time: TIME, old, new, reason });
    let wanted = json!({"type": "STATE", "old": "Established", "new": "Idle",
        "reason": "hold time expired"});
    assert_eq!(state(Reason::HoldTimeExpired), wanted);
    let wanted = json!({"type": "STATE", "old": "Established", "new": "Idle",
        "reason": "notification", "from": "local", "code": 6, "subcode": 7});
    assert_eq!(state(Reason::Notification(Sender::Local, 6, 7)), wanted);
}

#[test]
fn decodes_update() {
    let bytes = update();
    let message = Message::split(&bytes).unwrap();
    let text = line(&Event::Message { time: TIME, from: Sender::Peer, message });
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["type"], "UPDATE");
    assert_eq!(value["withdrawn"], json!(["10.9.0.0/16"]));
    assert_eq!(value["announced"], json!(["10.1.2.0/24"]));
    assert_eq!(
        value["attributes"],
        json!([
            {"code": 1, "flags": 64, "name": "ORIGIN", "value": "IGP"},
            {"code": 2, "flags": 64, "name": "AS_PATH", "value": [64500, 3333, [8, 7]]},
            {"code": 3, "flags": 64, "name": "NEXT_HOP", "value": "192.0.2.1"},
            {"code": 8, "flags": 192, "name": "COMMUNITIES", "value": ["3333:42"]},
            {"code": 99, "flags": 192, "hex": "abcd"},
        ])
    );
    assert_eq!(value["verdict"], Value::Null);
    // With two-octet AS numbers the path is malformed.
    let text = line(&Event::Message { time: TIME, from: Sender::Local, message });
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["verdict"]["action"], "treat as withdraw", "{text}");
    assert!(value["attributes"][1]["error"].is_string(), "{text}");
}
