//! Random scripts: states form a chain, and each message is delivered once and in order, except
//! those after a NOTIFICATION.

use proptest::prelude::*;

use super::*;
use crate::{PeeringId, Reason, State};

#[derive(Default)]
struct Witness {
    states: Vec<(PeeringId, State)>,
    /// Messages of each peer.
    out: Vec<(u8, Vec<u8>)>,
    of: Vec<PeeringId>,
}

impl Sink for Witness {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        match event {
            Event::Message { message, .. } => {
                let std::net::IpAddr::V4(peer) = peering.peer else { panic!("of 10.0.0.0") };
                let peer = peer.octets()[3].min(match peering.local {
                    std::net::IpAddr::V4(local) => local.octets()[3],
                    std::net::IpAddr::V6(_) => 255,
                });
                self.out.push((peer, message.bytes().to_vec()));
                self.of.push(peering.id);
            }
            Event::State { old, new, reason, .. } => {
                assert_ne!(old, new);
                let known = self.states.iter_mut().find(|(id, _)| *id == peering.id);
                let was = known.as_ref().map_or(State::Idle, |(_, state)| *state);
                assert_eq!(was, *old);
                assert!(*reason != Reason::Collision || was < State::Established);
                match known {
                    Some(known) => known.1 = *new,
                    None => self.states.push((peering.id, *new)),
                }
            }
            Event::Gap(_) | Event::Reading(_) => {}
        }
    }

    fn reverse_peering(&mut self, peering: &Peering) {
        let mut of = self.of.iter();
        self.out.retain(|_| of.next() != Some(&peering.id));
        self.of.retain(|id| *id != peering.id);
    }
}

#[derive(Clone, Debug)]
enum Call {
    Open(u32, Option<bool>),
    Say(u32, bool, Vec<u8>),
    Hole(u32, bool),
    Close(u32, bool, u8),
    End(u32),
    Wait(u32),
    Finish,
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (1..9_u32).prop_map(open4),
        (1..9_u32).prop_map(|asn| open(asn, &[])),
        Just(keepalive()),
        Just(message(3, &[6, 7])),
        Just(message(5, &[0, 1, 0, 1])),
        Just(message(77, &[1, 2, 3])),
        (1..200_u8).prop_map(|third| update(4, 1, &[24, 10, third, 1])),
        (1..200_u8).prop_map(|third| update(2, 1, &[24, 10, third, 1, 24, 10, 0, 0])),
        (1..200_u8).prop_map(|third| update(4, 1, &[0, 0, 0, 1, 24, 10, third, 1])),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|body| message(2, &body)),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|body| message(1, &body)),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        2 => (0..6_u32, any::<Option<bool>>()).prop_map(|(id, opener)| Call::Open(id, opener)),
        12 => (0..6_u32, any::<bool>(), bytes()).prop_map(|(id, high, b)| Call::Say(id, high, b)),
        1 => (0..6_u32, any::<bool>()).prop_map(|(id, high)| Call::Hole(id, high)),
        1 => (0..6_u32, any::<bool>(), 0..6_u8).prop_map(|(id, high, c)| Call::Close(id, high, c)),
        1 => (0..6_u32).prop_map(Call::End),
        1 => (0..500_u32).prop_map(Call::Wait),
        1 => Just(Call::Finish),
    ]
}

/// Whether `all` has the messages of two connections, each in its order.
fn is_interleaved(all: &[&Vec<u8>], first: &[&Vec<u8>], second: &[&Vec<u8>]) -> bool {
    if all.len() != first.len() + second.len() {
        return false;
    }
    // Numbers of messages of the first connection that may be among those so far.
    let mut taken = std::collections::BTreeSet::from([0]);
    for (at, message) in all.iter().enumerate() {
        let is_next = |from: &[&Vec<u8>], number: usize| from.get(number) == Some(message);
        let firsts = taken.iter().filter(|number| is_next(first, **number)).map(|one| one + 1);
        let seconds = taken.iter().filter(|number| is_next(second, at - **number)).copied();
        taken = firsts.chain(seconds).collect();
    }
    !taken.is_empty()
}

/// Also returns the messages of each connection.
fn play(calls: &[Call], settings: Settings) -> (Witness, Vec<(u32, Vec<u8>)>) {
    let end = |high| if high { HIGH } else { LOW };
    let mut script = Script(Sessions::new(settings, Witness::default()));
    let (mut now, mut there, mut given) = (1000.0, [false; 6], Vec::new());
    let mut notified = [false; 6];
    for call in calls {
        now += 0.25;
        match call {
            Call::Open(id, opener) => {
                let ends = [format!("10.0.0.{}:4000", id % 4), format!("10.0.0.9:{}", 179 + id)];
                script.connect(now, *id, [&ends[0], &ends[1]], opener.map(end));
                there[*id as usize] = true;
                notified[*id as usize] = false;
            }
            Call::Say(id, high, bytes) => {
                script.say(now, *id, end(*high), bytes);
                let notified = &mut notified[*id as usize];
                *notified |= bytes[18] == 3;
                if there[*id as usize] && (!*notified || bytes[18] == 3) {
                    given.push((*id, bytes.clone()));
                }
            }
            Call::Hole(id, high) => {
                let hole = Hole { resynchronised: true, ..gap(now, 9) };
                script.0.hole(ConnectionId(*id), end(*high), &hole);
            }
            Call::Close(id, high, close) => {
                let closes = [
                    Close::Finished,
                    Close::Reset,
                    Close::Replaced,
                    Close::Idle,
                    Close::Evicted,
                    Close::Ended,
                ];
                script.close(now, *id, end(*high), closes[usize::from(*close)]);
            }
            Call::End(id) => {
                script.end(now, *id);
                there[*id as usize] = false;
            }
            Call::Wait(seconds) => {
                now += f64::from(*seconds);
                script.0.advance(at(now));
            }
            Call::Finish => script.0.finish(),
        }
    }
    script.0.finish();
    (script.0.into_sink(), given)
}

proptest! {
    #[test]
    fn emits_each_message_once_and_in_order(
        calls in prop::collection::vec(call(), 0..120),
        small in any::<bool>(),
        configured in any::<bool>(),
    ) {
        let mut settings = Settings::default();
        if small {
            (settings.peerings, settings.wait_messages, settings.wait_bytes) = (2, 4, 200);
        }
        if configured {
            settings.routers.push("10.0.0.9".parse().unwrap());
        }
        let (witness, given) = play(&calls, settings);
        for peer in 0..4 {
            let out = witness.out.iter().filter(|(one, _)| *one == peer);
            let out: Vec<_> = out.map(|(_, bytes)| bytes).collect();
            let of = |id: u32| -> Vec<_> {
                given.iter().filter(|(one, _)| *one == id).map(|(_, bytes)| bytes).collect()
            };
            let (first, second) = (of(peer.into()), of(u32::from(peer) + 4));
            prop_assert!(is_interleaved(&out, &first, &second), "{out:?} {first:?} {second:?}");
        }
    }
}
