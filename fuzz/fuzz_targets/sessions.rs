//! Sessions of any messages and ends: nothing panics and no message is lost. A session
//! is read again at most twice: if its routes, and then if another session, show that the monitored
//! end is the other one.
#![no_main]

use base::Time;
use collector::session::{Sessions, Settings};
use collector::{Close, Connection, ConnectionId, End, Event, MirrorId, Peering, Receiver, Sink};
use libfuzzer_sys::fuzz_target;

#[derive(Default)]
struct Count(usize);

impl Sink for Count {
    fn event(&mut self, _peering: &Peering, event: &Event<'_>) {
        self.0 += usize::from(matches!(event, Event::Message { .. }));
    }
}

fuzz_target!(|data: &[u8]| {
    let settings = Settings { peerings: 2, wait_messages: 8, check: true, ..Settings::default() };
    let mut sessions = Sessions::new(settings, Count::default());
    let (mut given, mut now, mut rest) = (0, 0, data);
    for id in 0..4 {
        let ends = [format!("10.0.0.{}:4000", 1 + id % 3), "10.0.0.9:179".into()];
        let ends = ends.map(|end: String| end.parse().expect("an address"));
        let opener = [None, Some(End::Low), Some(End::High)][id as usize % 3];
        let connection = Connection { mirror: MirrorId(0), ends, opener };
        sessions.opened(Time::ZERO, ConnectionId(id), &connection);
    }
    // Who, what, how much later, length, body.
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
        given += 1;
    }
    sessions.finish();
    let seen = sessions.into_sink().0;
    assert!((given..=3 * given).contains(&seen), "{seen} of {given}");
});
