use std::net::IpAddr;

use bgp::{Asn, Message};

use super::*;
use crate::{MirrorId, PeeringId, Reason};

fn peering() -> Peering {
    let negotiated = Negotiated { four_octet_as: true, ..Negotiated::default() };
    Peering {
        peer_as: Asn(64500),
        peer_id: 1,
        local_as: Asn(64499),
        local_id: 2,
        from_peer: negotiated,
        from_local: negotiated,
        certain: true,
        ..Peering::new(
            PeeringId(0),
            MirrorId(0),
            "2001:db8::2".parse::<IpAddr>().unwrap(),
            "2001:db8::1".parse().unwrap(),
        )
    }
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xff; 16];
    bytes.extend(((19 + body.len()) as u16).to_be_bytes());
    bytes.push(kind);
    bytes.extend_from_slice(body);
    bytes
}

/// Withdraws a prefix and announces one of each family, over 64500 3333 {7 8}.
fn update() -> Vec<u8> {
    let mut attributes = vec![0x40, 1, 1, 0, 0x40, 2, 20, 2, 2, 0, 0, 0xfb, 0xf4];
    attributes.extend([0, 0, 13, 5, 1, 2, 0, 0, 0, 8, 0, 0, 0, 7]);
    attributes.extend([0x40, 3, 4, 192, 0, 2, 1, 0x80, 4, 4, 0, 0, 0, 5]);
    attributes.extend([0xc0, 7, 8, 0, 0, 13, 5, 192, 0, 2, 9]);
    attributes.extend([0xc0, 8, 4, 13, 5, 0, 42]);
    attributes.extend([0x80, 14, 44, 0, 2, 1, 32]);
    for address in ["2001:db8::1", "fe80::1"] {
        attributes.extend(address.parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    attributes.extend([0, 48, 0x20, 1, 0x0d, 0xb8, 0, 7]);
    let mut body = vec![0, 3, 16, 10, 9];
    body.extend((attributes.len() as u16).to_be_bytes());
    body.extend_from_slice(&attributes);
    body.extend([24, 10, 1, 2]);
    message(2, &body)
}

fn event(bytes: &[u8], from: Sender) -> Event<'_> {
    let time = Time::from_nanos(1_740_561_857_910_123_456);
    Event::Message { time, from, message: Message::split(bytes).unwrap() }
}

fn texts(encoder: &mut Encoder, event: &Event<'_>) -> [String; 2] {
    texts_of(encoder, &peering(), event)
}

fn texts_of(encoder: &mut Encoder, peering: &Peering, event: &Event<'_>) -> [String; 2] {
    let (mut plain, mut raw) = (Vec::new(), Vec::new());
    encoder.encode(&Notice::new(peering, event).unwrap(), &mut plain, &mut raw);
    [plain, raw].map(|text| String::from_utf8(text).unwrap())
}

#[test]
fn encodes_update_with_fields_of_ris() {
    let bytes = update();
    let mut encoder = Encoder::new("rrc99");
    let [plain, raw] = texts(&mut encoder, &event(&bytes, Sender::Peer));
    assert_eq!(
        plain,
        concat!(
            r#"{"type":"ris_message","data":{"timestamp":1740561857.910123,"#,
            r#""peer":"2001:db8::2","peer_asn":"64500","id":"2001:db8::2-019541923d760000","#,
            r#""host":"rrc99","type":"UPDATE","path":[64500,3333,[8,7]],"community":[[3333,42]],"#,
            r#""origin":"IGP","med":5,"aggregator":"3333:192.0.2.9","announcements":["#,
            r#"{"next_hop":"192.0.2.1","prefixes":["10.1.2.0/24"]},"#,
            r#"{"next_hop":"2001:db8::1,fe80::1","prefixes":["2001:db8:7::/48"]}],"#,
            r#""withdrawals":["10.9.0.0/16"]}}"#
        )
    );
    assert!(raw.contains(r#","raw":"ffffffff"#));
    let [next, _] = texts(&mut encoder, &event(&bytes, Sender::Peer));
    assert!(next.contains(r#""id":"2001:db8::2-019541923d760001""#), "{next}");
}

#[test]
fn other_messages_and_states() {
    let mut encoder = Encoder::new("rrc99");
    let open = message(1, &[4, 0xfb, 0xf4, 0, 90, 1, 2, 3, 4, 8, 2, 6, 1, 4, 0, 1, 0, 1]);
    let [text, _] = texts(&mut encoder, &event(&open, Sender::Local));
    let wanted = concat!(
        r#""direction":"sent","version":4,"asn":64500,"hold_time":90,"router_id":"1.2.3.4","#,
        r#""capabilities":{"1":{"name":"multiprotocol","families":["ipv4/unicast"]}}"#
    );
    assert!(text.contains(wanted), "{text}");
    let notification = message(3, &[6, 7, 6, 5]);
    let [text, _] = texts(&mut encoder, &event(&notification, Sender::Peer));
    assert!(text.contains(r#""notification":{"code":6,"subcode":7,"data":"0605"}"#), "{text}");
    let down = Event::State {
        time: Time::from_nanos(0),
        old: State::Established,
        new: State::Idle,
        reason: Reason::Reset,
    };
    let [text, raw] = texts(&mut encoder, &down);
    assert!(text.contains(r#""type":"RIS_PEER_STATE","state":"down""#), "{text}");
    assert_eq!(text, raw);
    let bytes = update();
    assert!(Notice::new(&peering(), &event(&bytes, Sender::Local)).is_none());
}

fn wants(filter: &str, event: &Event<'_>) -> bool {
    let mut client = Client::new();
    let replies = client.handle(&format!(r#"{{"type":"ris_subscribe","data":{filter}}}"#), || {
        vec!["rrc99".to_owned()]
    });
    assert!(replies.is_empty(), "{replies:?}");
    client.matches("rrc99.example", &Notice::new(&peering(), event).unwrap())
}

#[test]
fn filters() {
    let bytes = update();
    let event = event(&bytes, Sender::Peer);
    for filter in [
        "{}",
        r#"{"host":"rrc99"}"#,
        r#"{"host":"rrc99.example","type":"UPDATE","peer":"2001:db8:0::2"}"#,
        r#"{"require":"withdrawals"}"#,
        r#"{"path":3333}"#,
        r#"{"path":"^64500"}"#,
        r#"{"path":"3333,[7,8]$"}"#,
        r#"{"path":"^64500,3333,[7,8]$"}"#,
        r#"{"path":"!^3333"}"#,
        r#"{"prefix":"10.0.0.0/8"}"#,
        r#"{"prefix":["192.0.2.0/24","2001:db8:7::/48"],"moreSpecific":false}"#,
        r#"{"prefix":"10.9.1.0/24","lessSpecific":true}"#,
    ] {
        assert!(wants(filter, &event), "{filter}");
    }
    for filter in [
        r#"{"host":"rrc9"}"#,
        r#"{"type":"OPEN"}"#,
        r#"{"peer":"2001:db8::1"}"#,
        r#"{"require":"state"}"#,
        r#"{"path":"^3333"}"#,
        r#"{"path":"64500,7"}"#,
        r#"{"path":"!3333"}"#,
        r#"{"prefix":"10.0.0.0/8","moreSpecific":false}"#,
        r#"{"prefix":"10.9.1.0/24"}"#,
        r#"{"prefix":"0.0.0.0/0","type":"KEEPALIVE"}"#,
    ] {
        assert!(!wants(filter, &event), "{filter}");
    }
}

#[test]
fn answers_client() {
    let mut client = Client::new();
    let mut says = |text: &str| client.handle(text, || vec!["rrc99".to_owned()]).join("\n");
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let pong = says(r#"{"type":"ping","data":null}"#);
    assert_eq!(json(&pong), json(r#"{"type":"pong","data":null}"#));
    let list = says(r#"{"type":"request_rrc_list"}"#);
    assert_eq!(json(&list), json(r#"{"type":"ris_rrc_list","data":["rrc99"]}"#));
    let subscribe = r#"{"type":"ris_subscribe","data":{"prefix":["10.0.0.0/8","11.0.0.0/8"],
        "path":"^1,[3,2]$","socketOptions":{"includeRaw":true,"acknowledge":true}}}"#;
    let replies = says(subscribe);
    assert_eq!(replies.lines().count(), 2);
    assert!(replies.contains(r#""prefix":"11.0.0.0/8""#), "{replies}");
    for wrong in [
        "",
        "[]",
        r#"{"type":7}"#,
        r#"{"type":"wrong"}"#,
        r#"{"type":"ris_subscribe","data":{"prefix":"10.0.0.0/33"}}"#,
        r#"{"type":"ris_subscribe","data":{"peer":"stranger"}}"#,
        r#"{"type":"ris_subscribe","data":{"path":"1,,2"}}"#,
    ] {
        assert!(says(wrong).contains(r#""type":"ris_error""#), "{wrong}");
    }
    says(r#"{"type":"ris_unsubscribe","data":{"path":"^1,[2,3]$","prefix":"10.0.0.0/8"}}"#);
    assert!(client.wants_raw());
    let bytes = update();
    let event = event(&bytes, Sender::Peer);
    let peering = peering();
    let notice = Notice::new(&peering, &event).unwrap();
    assert!(!client.matches("rrc99", &notice));
    client.handle(r#"{"type":"ris_subscribe","data":{"host":"rrc99"}}"#, Vec::new);
    assert!(client.matches("rrc99", &notice));
    client.handle(r#"{"type":"ris_unsubscribe"}"#, Vec::new);
    assert!(!client.matches("rrc99", &notice));
}

#[test]
fn assigns_host_to_each_mirror() {
    let bytes = update();
    let event = event(&bytes, Sender::Peer);
    let at = |mirror| Peering { mirror: MirrorId(mirror), ..peering() };
    let mut encoder = Encoder::new("rrc99.example");
    let hosts: Vec<_> = [0, 1, 2, 12]
        .map(|mirror| texts_of(&mut encoder, &at(mirror), &event))
        .iter()
        .map(|[text, raw]| {
            let of = |text: &str| {
                let message: serde_json::Value = serde_json::from_str(text).unwrap();
                (message["data"]["host"].clone(), message["data"]["mirror"].clone())
            };
            assert_eq!(of(text), of(raw));
            of(text)
        })
        .collect();
    let own = |host: &str, mirror: u32| (host.into(), mirror.into());
    let none = ("rrc99.example".into(), serde_json::Value::Null);
    let second = own("rrc99.example.mirror2", 2);
    let twelfth = own("rrc99.example.mirror12", 12);
    assert_eq!(hosts, [none, own("rrc99.example", 1), second, twelfth]);
    assert_eq!(host_of("rrc99.example", MirrorId(12)), "rrc99.example.mirror12");
    assert_eq!(host_of("rrc99.example", MirrorId(1)), "rrc99.example");
    let wanted = |filter: &str| -> Vec<u32> {
        let mut client = Client::new();
        let subscribe = format!(r#"{{"type":"ris_subscribe","data":{filter}}}"#);
        assert_eq!(client.handle(&subscribe, Vec::new), [""; 0]);
        let matches = |mirror: &u32| {
            client.matches("rrc99.example", &Notice::new(&at(*mirror), &event).unwrap())
        };
        [0, 1, 2, 12].into_iter().filter(matches).collect()
    };
    // The collector's name selects all of its mirrors.
    assert_eq!(wanted(r#"{"host":"rrc99"}"#), [0, 1, 2, 12]);
    assert_eq!(wanted(r#"{"host":"rrc99.example"}"#), [0, 1, 2, 12]);
    assert_eq!(wanted(r#"{"host":"rrc99.example.mirror2"}"#), [2]);
    assert_eq!(wanted(r#"{"host":"rrc99.example.mirror12"}"#), [12]);
    assert_eq!(wanted(r#"{"host":"rrc99.example.mirror1"}"#), [0; 0]);
    assert_eq!(wanted(r#"{"host":"rrc99.example.mirror"}"#), [0; 0]);
    assert_eq!(wanted(r#"{"require":"mirror"}"#), [1, 2, 12]);
}
