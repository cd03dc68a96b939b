//! Messages of RIS Live clients, one per line: no panic, every reply is a message of the protocol,
//! the number of replies is bounded, and an unsubscribed client receives nothing.

use base::Time;
use bgp::Message;
use collector::text::ris_live::{Client, Notice};
use collector::{Event, MirrorId, Peering, PeeringId, Sender};
use serde_json::Value;

/// Max subscriptions of a client.
const MAX_SUBSCRIPTIONS: usize = 1000;

/// An UPDATE of 192.0.2.0/24 by 65001 65002.
const UPDATE: &[u8] = &[
    255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 51, 2, 0, 0,
    0, 24, 0x40, 1, 1, 0, 0x40, 2, 10, 2, 2, 0, 0, 0xfd, 0xe9, 0, 0, 0xfd, 0xea, 0x40, 3, 4, 10, 0,
    0, 1, 24, 192, 0, 2,
];

fn peering() -> Peering {
    Peering {
        id: PeeringId(0),
        mirror: MirrorId(0),
        peer: [10, 0, 0, 1].into(),
        peer_as: bgp::Asn(65_001),
        peer_id: 1,
        local: [10, 0, 0, 2].into(),
        local_as: bgp::Asn(65_000),
        local_id: 2,
        from_peer: bgp::Negotiated { four_octet_as: true, ..bgp::Negotiated::default() },
        from_local: bgp::Negotiated { four_octet_as: true, ..bgp::Negotiated::default() },
        certain: true,
        session: 0,
    }
}

pub(crate) fn target(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut client = Client::new();
    let peering = peering();
    let message = Message::split(UPDATE).expect("an UPDATE");
    let event = Event::Message { time: Time::ZERO, from: Sender::Peer, message };
    let notice = Notice::new(&peering, &event).expect("clients are notified of an UPDATE");
    for line in text.lines() {
        let replies = client.handle(line, || vec!["host".to_owned()]);
        assert!(replies.len() <= MAX_SUBSCRIPTIONS);
        for reply in replies {
            let reply: Value = serde_json::from_str(&reply).expect("replies are JSON");
            assert!(reply["type"].is_string());
        }
        client.matches("host", &notice);
    }
    client.handle(r#"{"type": "ris_unsubscribe", "data": null}"#, || vec!["host".to_owned()]);
    assert!(!client.matches("host", &notice));
}
