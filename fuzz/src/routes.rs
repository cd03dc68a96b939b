//! Any messages update routes and cause notifications without a panic; when all sessions end,
//! no routes remain.

use std::net::{IpAddr, Ipv4Addr};

use base::Time;
use bgp::negotiated::Families;
use bgp::{Asn, Family, MARKER, Message, Negotiated};
use collector::integrity::{Integrity, Settings};
use collector::rib::{Query, Rib};
use collector::{Event, MirrorId, Peering, PeeringId, Reason, Sender, Sink, State};

fn peering(number: u8) -> Peering {
    let add_path = if number & 1 != 0 {
        [Family::IPV4_UNICAST, Family::IPV6_UNICAST].into_iter().collect()
    } else {
        Families::NONE
    };
    let four_octet_as = number & 2 != 0;
    let negotiated = Negotiated { four_octet_as, extended_message: true, add_path };
    Peering {
        id: PeeringId(number.into()),
        mirror: MirrorId(0),
        peer: IpAddr::V4(Ipv4Addr::from_bits(number.into())),
        peer_as: Asn(1),
        peer_id: 1,
        local: IpAddr::V4(Ipv4Addr::LOCALHOST),
        local_as: Asn(2),
        local_id: 2,
        from_peer: negotiated,
        from_local: negotiated,
        certain: true,
        session: 0,
    }
}

// Steps: the action and its session; time that passes; length of a body; the body.
pub(crate) fn target(bytes: &[u8]) {
    let mut sink = (Rib::new(), Integrity::new(Settings { hours: 2, ..Settings::default() }));
    let (mut rest, mut now, mut file) = (bytes, 0, Vec::new());
    while let [what, seconds, length, behind @ ..] = rest {
        let (body, behind) = behind.split_at((*length as usize).min(behind.len()));
        rest = behind;
        now += u64::from(*seconds) * 1_000_000_000;
        let (peering, time) = (peering(what & 3), Time::from_nanos(now));
        match what >> 2 & 7 {
            0 => {
                let (old, new) = (State::OpenConfirm, State::Established);
                sink.event(&peering, &Event::State { time, old, new, reason: Reason::Seen });
            }
            1 => {
                let (old, new) = (State::Established, State::Idle);
                sink.event(&peering, &Event::State { time, old, new, reason: Reason::Reset });
            }
            2 => drop(sink.0.begin_snapshot(time, 1, b"")),
            3 => drop(sink.0.write_snapshot(64, &mut file)),
            kind => {
                let mut message = MARKER.to_vec();
                message.extend_from_slice(&(19 + body.len() as u16).to_be_bytes());
                message.push(if kind == 4 { 1 } else { 2 });
                message.extend_from_slice(body);
                let Some(message) = Message::split(&message) else { return };
                sink.event(&peering, &Event::Message { time, from: Sender::Peer, message });
            }
        }
    }
    let (mut rib, account) = sink;
    assert_eq!(rib.query(&Query::default()).len(), rib.len());
    let _ = account.json();
    rib.cancel_snapshot();
    for number in 0..4 {
        let (time, old, new) = (Time::from_nanos(now), State::Established, State::Idle);
        let event = Event::State { time, old, new, reason: Reason::Forgotten };
        rib.event(&peering(number), &event);
    }
    assert_eq!((rib.len(), rib.prefixes(), rib.attribute_sets()), (0, 0, 0));
}
