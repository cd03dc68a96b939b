//! Connections that are lost while a session ends.

use base::{Bandwidth, Span, Time};
use mctcp::session::Event;
use mctcp::{Frame, Reason};

use super::script::{Act, Application, Path, Script};
use super::world::{CLIENT, SERVER, World};

fn secs(secs: u64) -> Time {
    Time::ZERO + Span::from_secs(secs)
}

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
        let up = world.events.iter().any(|e| (e.1, e.2) == (CLIENT, Event::Established));
        first = first.or(up.then_some(steps));
    }
    (first.expect("it was established"), steps)
}

fn assert_ended_well(world: &World, script: &Script, context: &str) {
    for side in [CLIENT, SERVER] {
        let end = world.end_of(side).expect("a session");
        let whole = end.done && end.read == script.applications[1 - side].writes;
        assert!(end.session.is_closed() && whole, "{context}, side {side}: {}", world.tell());
    }
}

#[test]
fn connections_may_be_lost_at_every_moment_of_the_end() {
    for psk in [false, true] {
        for writes in [[3_000, 0], [0, 3_000], [3_000, 3_000], [0, 0], [60_000, 20_000]] {
            let script = short(psk, writes);
            let (first, last) = length(&script);
            for at in first..=last {
                let mut world = World::new(&script);
                (0..at).for_each(|_| assert!(world.advance()));
                world.reset_all();
                assert!(world.finish(secs(20)), "at {at}: {}", world.tell());
                assert_ended_well(&world, &script, &format!("{writes:?}, reset at {at}"));
            }
        }
    }
}

#[test]
fn they_may_be_lost_again_while_the_client_comes_back() {
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
            assert!(world.finish(secs(20)), "at {at} and {again}: {}", world.tell());
            assert_ended_well(&world, &script, &format!("reset at {at} and {again} later"));
        }
    }
}

#[test]
fn a_server_that_is_gone_for_good_does_not_hurt_a_client_that_has_everything() {
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
    assert!(world.client.session.is_closed(), "{}", world.tell());
    assert!(world.is_over(), "{}", world.tell());
}

#[test]
fn a_client_waits_no_longer_than_it_takes_the_server_to_hear() {
    let mut script = short(false, [3_000, 0]);
    script.paths.iter_mut().for_each(|path| path.rate = Bandwidth::from_mbits_per_sec(1_000));
    let mut world = World::new(&script);
    assert!(world.finish(secs(1)), "{}", world.tell());
    // TCP, HELLO and data, FIN of the server, the last DACK: five one-way delays of 10 ms, plus at
    // most one delayed DACK for each.
    assert!(world.now <= Time::ZERO + Span::from_millis(180), "{}", world.now);
    let closed = |side| world.events.iter().find(|e| (e.1, e.2) == (side, Event::Closed));
    assert!(closed(CLIENT).map(|e| e.0) > closed(SERVER).map(|e| e.0));
}

/// An attacker on a path claims that the session has ended.
#[test]
fn the_end_is_believed_of_nobody_but_the_server() {
    let script = Script::upload(&[Path::new(10, 10), Path::new(10, 10)], 1_000_000);
    let mut world = World::new(&script);
    world.tamper = Some(Box::new(|_, frame| match frame {
        Frame::Challenge(_) => Some(Frame::Refuse(Reason::Finished)),
        other => Some(other),
    }));
    assert!(world.finish(secs(20)), "{}", world.tell());
    assert_ended_well(&world, &script, "a stranger");
    // The authenticated server contradicts its own acknowledgements.
    let mut script = script.at(0, Act::JoinNow);
    script.applications[SERVER] = Application::bulk(1_000_000);
    let mut world = World::new(&script);
    world.tamper = Some(Box::new(|to, frame| match frame {
        Frame::Dack(_) if to == CLIENT => Some(Frame::Refuse(Reason::Finished)),
        other => Some(other),
    }));
    assert!(world.finish(secs(20)), "{}", world.tell());
    assert_eq!(world.client.session.failed(), Some(Reason::Protocol), "{}", world.tell());
}
