//! Connections that are lost while a session ends.

use base::{Bandwidth, Span};
use mctcp::session::Event;
use mctcp::{Frame, Reason};

use super::script::{Act, Application, Path, Script, millis, secs};
use super::world::{CLIENT, SERVER, World};

/// A short session over two paths.
fn short(psk: bool, writes: [u64; 2]) -> Script {
    let mut script = Script::upload(&[Path::new(10, 10), Path::new(2, 30)], 0);
    script.psk = psk;
    script.applications = writes.map(Application::bulk);
    script.at(0, Act::JoinNow)
}

/// The step at which the handshake is complete, and the total number of steps.
fn length(script: &Script) -> (usize, usize) {
    let mut world = World::new(script);
    let (mut steps, mut first) = (0, None);
    while !world.is_over() {
        assert!(world.advance());
        steps += 1;
        first = first.or(world.has_event(CLIENT, Event::Established).then_some(steps));
    }
    (first.expect("it was established"), steps)
}

/// Runs until both ends have closed and read everything.
fn assert_completes(world: &mut World, context: &str) {
    assert!(world.finish(secs(20)), "{context}: {}", world.describe());
    assert!(world.is_complete(), "{context}: {}", world.describe());
}

#[test]
fn closes_when_all_connections_are_lost_at_any_step_of_the_end() {
    for psk in [false, true] {
        for writes in [[3_000, 0], [0, 3_000], [3_000, 3_000], [0, 0], [60_000, 20_000]] {
            let script = short(psk, writes);
            let (first, last) = length(&script);
            for at in first..=last {
                let mut world = World::new(&script);
                (0..at).for_each(|_| assert!(world.advance()));
                world.reset_all();
                assert_completes(&mut world, &format!("{writes:?}, reset at {at}"));
            }
        }
    }
}

#[test]
fn closes_when_connections_are_lost_again_during_the_reconnection() {
    let script = short(true, [3_000, 3_000]);
    let (first, last) = length(&script);
    for at in first..=last {
        // The second loss is anywhere in the reconnection, which takes about as many steps.
        for again in (1..last).step_by(5) {
            let mut world = World::new(&script);
            (0..at).for_each(|_| assert!(world.advance()));
            world.reset_all();
            for _ in 0..again {
                world.advance();
            }
            world.reset_all();
            assert_completes(&mut world, &format!("reset at {at} and {again} later"));
        }
    }
}

#[test]
fn client_with_all_data_closes_without_the_server() {
    // The last acknowledgement is lost, and the server no longer answers.
    let script = short(false, [3_000, 3_000]);
    let mut world = World::new(&script);
    while !world.client.session.is_done() {
        assert!(world.advance());
    }
    assert!(world.client.session.is_established(), "closed before the server knew");
    (0..2).for_each(|path| world.act(Act::Refuse(path, true)));
    world.reset_all();
    let until = world.now + Span::from_secs(35);
    world.run(until);
    assert!(world.client.session.is_closed(), "{}", world.describe());
    assert!(world.is_over(), "{}", world.describe());
}

#[test]
fn client_closes_right_after_the_server() {
    let mut script = short(false, [3_000, 0]);
    script.paths.iter_mut().for_each(|path| path.rate = Bandwidth::from_mbits_per_sec(1_000));
    let mut world = World::new(&script);
    assert!(world.finish(secs(1)), "{}", world.describe());
    // TCP, HELLO and data, FIN of the server, the last DACK: five one-way delays of 10 ms, plus at
    // most one delayed DACK for each.
    assert!(world.now <= millis(180), "{}", world.now);
    let closed = |side| world.events.iter().find(|e| (e.1, e.2) == (side, Event::Closed));
    assert!(closed(CLIENT).map(|e| e.0) > closed(SERVER).map(|e| e.0));
}

/// An attacker on a path sends that the session has ended.
#[test]
fn ignores_a_forged_end_of_the_session() {
    let script = Script::upload(&[Path::new(10, 10), Path::new(10, 10)], 1_000_000);
    let mut world = World::new(&script);
    world.tamper = Some(Box::new(|_, frame| match frame {
        Frame::Challenge(_) => Some(Frame::Refuse(Reason::Finished)),
        other => Some(other),
    }));
    assert_completes(&mut world, "forged answer to a join");
    // The authenticated server contradicts its own acknowledgements.
    let mut script = script.at(0, Act::JoinNow);
    script.applications[SERVER] = Application::bulk(1_000_000);
    let mut world = World::new(&script);
    world.tamper = Some(Box::new(|to, frame| match frame {
        Frame::Dack(_) if to == CLIENT => Some(Frame::Refuse(Reason::Finished)),
        other => Some(other),
    }));
    assert!(world.finish(secs(20)), "{}", world.describe());
    assert_eq!(world.client.session.failed(), Some(Reason::Protocol), "{}", world.describe());
}
