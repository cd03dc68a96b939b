//! Peers that violate the protocol, and attackers on a path.

use base::Time;
use mctcp::frame::Frame;
use mctcp::session::Event;
use mctcp::{Reason, SubflowId};

use super::script::{Path, Script, millis, secs};
use super::world::{CLIENT, SERVER, Tamper, World};

fn world(tamper: Tamper) -> World {
    let script = Script::upload(&[Path::new(10, 10), Path::new(10, 10)], 3_000_000);
    let mut world = World::new(&script);
    world.tamper = Some(tamper);
    world
}

/// The attacked end closes the session with this reason, and the other end receives it.
fn assert_reset(tamper: Tamper, attacked: usize, reason: Reason) {
    let mut world = world(tamper);
    assert!(world.finish(secs(5)), "{}", world.describe());
    assert_eq!(world.failure(attacked), Some(reason), "{}", world.describe());
    let other = world.end_of(1 - attacked).expect("a session");
    assert_eq!(other.by_peer, Some(reason));
}

/// The session loses a subflow, or gets no second one, and delivers everything.
fn assert_survives(tamper: Tamper) -> World {
    let mut world = world(tamper);
    assert!(world.finish(secs(20)), "{}", world.describe());
    assert!(world.is_complete(), "{}", world.describe());
    world
}

fn subflows_up(world: &World) -> Vec<SubflowId> {
    let up = |event: &(Time, usize, Event)| match event {
        (_, SERVER, Event::SubflowUp(id)) => Some(*id),
        _ => None,
    };
    world.events.iter().filter_map(up).collect()
}

#[test]
fn wrong_token_ends_only_the_joining_subflow() {
    let world = assert_survives(Box::new(|_, frame| match frame {
        Frame::Join(mut join) => {
            join.token[0] ^= 1;
            Some(Frame::Join(join))
        }
        other => Some(other),
    }));
    assert_eq!(subflows_up(&world), [SubflowId(0)]);
}

#[test]
fn replayed_join_ends_only_the_joining_subflow() {
    let mut first = None;
    let world = assert_survives(Box::new(move |_, frame| match frame {
        // An eavesdropper replays the first one in place of every later one.
        Frame::Join(join) => Some(Frame::Join(*first.get_or_insert(join))),
        other => Some(other),
    }));
    assert_eq!(subflows_up(&world).len(), 2);
}

#[test]
fn server_without_the_key_gets_no_subflow() {
    let world = assert_survives(Box::new(|_, frame| match frame {
        Frame::Challenge(mut challenge) => {
            challenge.proof[3] ^= 1;
            Some(Frame::Challenge(challenge))
        }
        other => Some(other),
    }));
    assert_eq!(subflows_up(&world), [SubflowId(0)]);
}

#[test]
fn client_without_a_valid_proof_gets_no_subflow() {
    let world = assert_survives(Box::new(|_, frame| match frame {
        Frame::Proof(mut proof) => {
            proof[31] ^= 1;
            Some(Frame::Proof(proof))
        }
        other => Some(other),
    }));
    assert_eq!(subflows_up(&world), [SubflowId(0)]);
}

#[test]
fn data_beyond_the_credit_end_the_session() {
    assert_reset(
        Box::new(|to, frame| match frame {
            Frame::Data { dsn, payload, copy } if to == SERVER && dsn > 500_000 => {
                Some(Frame::Data { dsn: dsn + (16 << 20), payload, copy })
            }
            other => Some(other),
        }),
        SERVER,
        Reason::Credit,
    );
}

#[test]
fn missing_frame_ends_the_session() {
    let mut dropped = false;
    assert_reset(
        Box::new(move |to, frame| {
            let drop = to == SERVER
                && matches!(frame, Frame::Data { dsn, .. } if dsn > 500_000)
                && !std::mem::replace(&mut dropped, true);
            (!drop).then_some(frame)
        }),
        SERVER,
        Reason::Protocol,
    );
}

type Make = fn(&Frame<bytes::Bytes>) -> Option<Frame<bytes::Bytes>>;

/// Frames that are invalid, or not allowed in the current state, end the session at
/// the receiving end.
#[test]
fn unexpected_frames_end_the_session() {
    let address = std::net::SocketAddr::from(([10, 0, 0, 1], 1));
    let makes: [(usize, Make); 5] = [
        (CLIENT, |_| Some(Frame::Proof([0; 32]))),
        (CLIENT, |_| Some(Frame::Fin { length: u64::MAX })),
        (SERVER, |_| {
            let payload = bytes::Bytes::new();
            Some(Frame::Data { dsn: 0, payload, copy: mctcp::frame::Copy::First })
        }),
        (SERVER, |_| {
            Some(Frame::Challenge(mctcp::frame::Challenge { nonce: [0; 16], proof: [0; 16] }))
        }),
        (CLIENT, |frame| match frame {
            Frame::Dack(dack) => {
                let mut dack = dack.clone();
                dack.next = 1 << 40;
                Some(Frame::Dack(dack))
            }
            _ => None,
        }),
    ];
    for (at, (side, make)) in makes.into_iter().enumerate() {
        let mut world = world(Box::new(|_, frame| Some(frame)));
        world.run(millis(400));
        world.tamper = Some(Box::new(move |to, frame| match (&frame, to == side) {
            (Frame::Data { .. } | Frame::Dack(_), true) => Some(make(&frame).unwrap_or(frame)),
            _ => Some(frame),
        }));
        assert!(world.finish(secs(5)), "case {at}: {}", world.describe());
        let failed = world.failure(side);
        let expected = [Reason::Protocol, Reason::Credit, Reason::Authentication];
        assert!(failed.is_some_and(|reason| expected.contains(&reason)), "case {at}: {failed:?}");
    }
    // A valid frame without effect at this end does not end it.
    assert_survives(Box::new(move |to, frame| match frame {
        Frame::Pong(_) if to == CLIENT => Some(Frame::AddAddress { id: 1, address }),
        other => Some(other),
    }));
}
