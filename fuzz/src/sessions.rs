//! Sessions with any messages and ends: no panic, and each message is reported exactly once, or
//! counted if it follows a NOTIFICATION. If the router's end was guessed wrong, a session is
//! processed again: its earlier reports do not count.

use std::collections::BTreeMap;

use base::Time;
use collector::session::{Sessions, Settings};
use collector::{Close, Connection, ConnectionId, End, Event, MirrorId, Peering, Receiver, Sink};

#[derive(Default)]
struct Messages {
    /// By the number of their session.
    seen: BTreeMap<u32, Vec<Vec<u8>>>,
    /// A session was processed again, and the messages after its NOTIFICATION counted again.
    again: bool,
}

impl Sink for Messages {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        if let Event::Message { message, .. } = event {
            self.seen.entry(peering.id.0).or_default().push(message.bytes().to_vec());
        }
    }

    /// All messages of the session are reported again, under another number.
    fn reverse_peering(&mut self, peering: &Peering) {
        self.seen.remove(&peering.id.0);
        self.again = true;
    }
}

pub(crate) fn target(data: &[u8]) {
    let settings = Settings { peerings: 2, wait_messages: 8, check: true, ..Settings::default() };
    let mut sessions = Sessions::new(settings, Messages::default());
    let (mut given, mut now, mut rest) = (Vec::new(), 0, data);
    for id in 0..4 {
        let ends = [format!("10.0.0.{}:4000", 1 + id % 3), "10.0.0.9:179".into()];
        let ends = ends.map(|end: String| end.parse().expect("an address"));
        let opener = [None, Some(End::Low), Some(End::High)][id as usize % 3];
        let connection = Connection { mirror: MirrorId(0), ends, opener };
        sessions.opened(Time::ZERO, ConnectionId(id), &connection);
    }
    // Session, event, delay, length, body.
    while let Some((&[who, kind, later, length], body)) = rest.split_first_chunk() {
        let (body, next) = body.split_at(body.len().min(length.into()));
        rest = next;
        now += u64::from(later) * 1_000_000_000;
        let (id, time) = (ConnectionId(u32::from(who % 4)), Time::from_nanos(now));
        let from = if who & 4 == 0 { End::Low } else { End::High };
        if kind & 0x80 != 0 {
            sessions.closed(time, id, from, if kind & 1 == 0 { Close::Reset } else { Close::Idle });
            continue;
        }
        let mut message = bgp::MARKER.to_vec();
        message.extend((19 + body.len() as u16).to_be_bytes());
        message.push(kind % 8);
        message.extend(body);
        sessions.message(time, id, from, &message);
        given.push(message);
    }
    sessions.finish();
    let late = sessions.late_messages();
    let Messages { seen, again } = sessions.into_sink();
    for message in seen.into_values().flatten() {
        let at = given.iter().position(|given| *given == message);
        given.swap_remove(at.expect("each reported message was given, and is reported once"));
    }
    let left = given.len() as u64;
    assert!(left == late || again && left < late, "{left} not reported, {late} late: {given:?}");
}
