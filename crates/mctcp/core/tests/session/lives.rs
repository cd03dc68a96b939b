//! Whole sessions, with one fault at a time.

use base::{Span, Time};
use mctcp::Reason;
use mctcp::scheduler::SchedulerKind;
use mctcp::session::Event;

use super::script::{Act, Application, Path, Script};
use super::world::{CLIENT, SERVER, World};

fn secs(secs: u64) -> Time {
    Time::ZERO + Span::from_secs(secs)
}

/// Runs a script in which all data are delivered.
fn completes(script: &Script, until: u64) -> World {
    let mut world = World::new(script);
    let over = world.finish(secs(until));
    assert!(over, "not over {}", world.tell());
    for side in [CLIENT, SERVER] {
        let end = world.end_of(side).expect("a session");
        assert!(end.session.is_closed() && end.done, "{}", world.tell());
        assert_eq!(end.read, script.applications[1 - side].writes);
    }
    world
}

fn fails(world: &World, side: usize) -> Option<Reason> {
    world.end_of(side).and_then(|end| end.session.failed())
}

fn two() -> [Path; 2] {
    [Path::new(10, 10), Path::new(10, 10)]
}

#[test]
fn a_short_transfer_stays_on_one_connection() {
    for bytes in [1 << 10, 10_000] {
        let script = Script::upload(&two(), bytes);
        let mut world = World::new(&script);
        world.run(Time::ZERO + Span::from_millis(55));
        let server = world.server.as_ref().expect("a session");
        assert!(server.read == bytes && server.done, "{}", world.tell());
        let world = completes(&script, 1);
        assert_eq!(world.client.session.statistics().subflows_opened, 1);
    }
}

#[test]
fn a_long_transfer_uses_both_paths() {
    let mut world = World::new(&Script::upload(&two(), 4 << 20));
    world.run(Time::ZERO + Span::from_millis(1_500));
    let read = world.server.as_ref().map_or(0, |server| server.read);
    assert!(read > 2 * 10_000_000 / 8, "{read} bytes");
    let statistics = world.client.session.statistics();
    assert!(statistics.reinjected < 100_000, "{statistics:?}");
    assert_eq!(world.client.session.subflows().count(), 2);
}

#[test]
fn replaces_a_silent_path_until_it_returns() {
    let script = Script::upload(&two(), 4 << 20).at(1_000, Act::Kill(0)).at(2_500, Act::Revive(0));
    let mut world = World::new(&script);
    let mut read_at = |millis| {
        world.run(Time::ZERO + Span::from_millis(millis));
        world.server.as_ref().map_or(0, |server| server.read)
    };
    let before = read_at(1_500);
    let after = read_at(2_500);
    assert!(after > before + 1_000_000, "{before} then {after}");
    let stale = |event: &(Time, usize, Event)| matches!(event.2, Event::SubflowStale(_));
    assert!(world.events.iter().any(stale), "{:?}", world.events);
    completes(&script, 20);
}

#[test]
fn survives_the_loss_of_the_first_frames() {
    let script = (0..2).fold(Script::upload(&two(), 10_000), |script, path| {
        script.at(20, Act::Kill(path)).at(5_000, Act::Revive(path))
    });
    let mut world = World::new(&script);
    world.run(secs(5));
    assert_eq!(fails(&world, CLIENT), None);
    world.run(secs(6));
    let established =
        |event: &(Time, usize, Event)| (event.1, event.2) == (CLIENT, Event::Established);
    assert!(world.events.iter().any(established), "{}", world.tell());
    assert_eq!(world.server.as_ref().map_or(0, |server| server.read), 10_000);
}

#[test]
fn every_scheduler_delivers() {
    let paths = [Path::new(10, 10), Path::new(2, 100), Path::new(50, 1)];
    for (kind, _) in SchedulerKind::ALL {
        let script = Script::upload(&paths, 4_000_000).scheduler(*kind).buffers(262_144);
        let world = completes(&script, 20);
        let sent: u64 = world.client.session.statistics().reinjected;
        assert!(*kind == SchedulerKind::Redundant || sent < 4_000_000, "{kind}: {sent} B again");
    }
}

#[test]
fn a_silent_path_is_left_soon() {
    for path in 0..2 {
        let world = completes(&Script::upload(&two(), 10_000_000).at(2_000, Act::Kill(path)), 60);
        let gap = world.server.as_ref().map_or(0.0, |server| server.gap);
        assert!(gap <= 0.5, "path {path}: {gap} s");
    }
}

/// The repair takes longer than for a failed path, because TCP has acknowledged the missing data.
#[test]
fn replaces_a_path_whose_proxy_acknowledges_and_forwards_nothing() {
    for (path, delay) in [(0, 0), (1, 0), (0, 10), (1, 10)] {
        let paths = [Path::new(10, delay), Path::new(10, delay)];
        let script = Script::upload(&paths, 10_000_000).at(2_000, Act::Hold(path, true));
        let world = completes(&script, 60);
        let gap = world.server.as_ref().map_or(0.0, |server| server.gap);
        assert!(gap <= 0.5, "path {path}: {gap} s");
    }
}

#[test]
fn uses_a_path_again_when_its_proxy_forwards_again() {
    for (held_for, reinjected) in [(300, 600_000), (5_000, 2_000_000)] {
        let script = Script::upload(&two(), 20_000_000)
            .at(2_000, Act::Hold(0, true))
            .at(2_000 + held_for, Act::Hold(0, false));
        let world = completes(&script, 60);
        let statistics = world.client.session.statistics();
        assert!(statistics.reinjected <= reinjected, "{held_for} ms: {statistics:?}");
        assert!(world.now <= secs(14), "{held_for} ms: {}", world.now);
    }
}

/// A busy peer answers on no subflow, which does not mean that the paths fail.
#[test]
fn keeps_all_paths_of_a_peer_that_pauses() {
    let script = Script::upload(&two(), 10_000_000)
        .at(2_000, Act::Hold(0, true))
        .at(2_000, Act::Hold(1, true))
        .at(4_000, Act::Hold(0, false))
        .at(4_000, Act::Hold(1, false));
    let world = completes(&script, 60);
    let in_pause = |event: &&(Time, usize, Event)| {
        (secs(2)..secs(4) + Span::from_millis(100)).contains(&event.0)
            && matches!(event.2, Event::SubflowStale(_))
    };
    let stale: Vec<_> = world.events.iter().filter(in_pause).collect();
    assert!(stale.len() <= 1, "{stale:?}");
}

#[test]
fn a_transfer_goes_on_when_one_of_two_dead_paths_returns() {
    let script = Script::upload(&two(), 20_000_000)
        .at(2_000, Act::Kill(0))
        .at(2_000, Act::Kill(1))
        .at(12_000, Act::Revive(1));
    let mut world = World::new(&script);
    world.run(secs(12));
    let before = world.server.as_ref().map_or(0, |server| server.read);
    world.run(secs(14));
    let after = world.server.as_ref().map_or(0, |server| server.read);
    assert!(after > before, "{}", world.tell());
    assert!(world.finish(secs(60)) && world.client.session.is_closed());
}

#[test]
fn another_path_is_tried_when_the_first_is_dead_from_the_beginning() {
    let mut world = World::new(&Script::upload(&two(), 10_000_000).at(0, Act::Kill(0)));
    world.run(secs(1));
    assert!(world.client.session.is_established(), "{}", world.tell());
    let mut world = World::new(&Script::upload(&two(), 10_000_000).at(0, Act::Refuse(0, true)));
    world.run(secs(1));
    assert!(world.client.session.is_established(), "{}", world.tell());
}

#[test]
fn a_path_that_returns_is_used_again() {
    for dead in [5, 60] {
        let script = Script::upload(&two(), u64::MAX)
            .at(2_000, Act::Kill(0))
            .at(2_000 + dead * 1_000, Act::Revive(0));
        let mut world = World::new(&script);
        world.run(secs(2 + dead + 5));
        let before = world.server.as_ref().map_or(0, |server| server.read);
        world.run(secs(2 + dead + 7));
        let after = world.server.as_ref().map_or(0, |server| server.read);
        let rate = (after - before) as f64 * 8.0 / 2.0 / 1e6;
        assert!(rate > 9.6 + 0.3 * 9.6, "{rate} Mbit/s after {dead} s");
    }
}

#[test]
fn a_receiver_may_stop_reading() {
    let script = Script::upload(&two(), 5_000_000)
        .buffers(65_536)
        .at(500, Act::StopReading(SERVER, Span::from_secs(30)));
    let world = completes(&script, 60);
    assert!(world.server.is_some_and(|server| server.peak <= 65_536));
}

#[test]
fn both_ends_may_close_at_once_and_one_long_before_the_other() {
    let mut script = Script::upload(&two(), 0);
    completes(&script, 5);
    script.applications = [Application::bulk(300_000), Application::bulk(300_000)];
    completes(&script, 5);
    script.applications[SERVER].starts = secs(10);
    completes(&script, 20);
}

#[test]
fn the_peer_hears_of_an_abort() {
    for side in [CLIENT, SERVER] {
        let script = Script::upload(&two(), 10_000_000).at(2_000, Act::Abort(side));
        let mut world = World::new(&script);
        assert!(world.finish(secs(3)), "{}", world.tell());
        let peer = world.end_of(1 - side).expect("a session");
        assert_eq!(peer.by_peer, Some(Reason::Aborted));
        assert_eq!(fails(&world, side), Some(Reason::Aborted));
    }
}

/// Every connection is reset, and new ones are rejected for this time.
fn cut_off(millis: u64) -> Script {
    let script = Script::upload(&two(), 5_000_000);
    (0..2).fold(script, |script, path| {
        script
            .at(1_000, Act::Refuse(path, true))
            .at(1_000, Act::Reset(path))
            .at(1_000 + millis, Act::Refuse(path, false))
    })
}

#[test]
fn a_session_outlives_all_its_connections_for_a_while() {
    let world = completes(&cut_off(25_000), 60);
    assert!(world.now < secs(35), "{}", world.now);
}

#[test]
fn a_session_that_is_cut_off_for_too_long_fails_at_both_ends() {
    let mut world = World::new(&cut_off(40_000));
    assert!(world.finish(secs(60)), "{}", world.tell());
    assert_eq!(fails(&world, CLIENT), Some(Reason::Timeout));
    assert_eq!(fails(&world, SERVER), Some(Reason::Timeout));
}

#[test]
fn silence_ends_a_session_too() {
    let script = Script::upload(&two(), 50_000_000).at(1_000, Act::Kill(0)).at(1_000, Act::Kill(1));
    let mut world = World::new(&script);
    assert!(world.finish(secs(140)), "{}", world.tell());
    assert_eq!(fails(&world, CLIENT), Some(Reason::Timeout));
    assert_eq!(fails(&world, SERVER), Some(Reason::Timeout));
}

#[test]
fn addresses_may_change_under_a_session() {
    // Only one path at any time: the old one is removed before the new one is added.
    let script = Script::upload(&two(), 5_000_000)
        .at(0, Act::Remove(1))
        .at(1_500, Act::Remove(0))
        .at(2_000, Act::Add(1))
        .at(3_500, Act::Remove(1))
        .at(3_500, Act::Add(0));
    let world = completes(&script, 30);
    let downs = world.events.iter().filter(|event| matches!(event.2, Event::SubflowDown(_)));
    assert!(downs.count() >= 2, "{:?}", world.events);
}

#[test]
fn a_backup_carries_nothing_while_another_path_works() {
    let mut paths = two();
    paths[1].backup = true;
    let mut script = Script::upload(&paths, 6_000_000).at(3_000, Act::Kill(0));
    script.settings[CLIENT].join_after = base::Bytes::ZERO;
    let mut world = World::new(&script);
    world.run(secs(3));
    let sent = |world: &World| -> Vec<u64> {
        world.client.session.subflows().map(|subflow| subflow.sent.count()).collect()
    };
    let before = sent(&world);
    assert!(before.len() == 2 && before[1] == 0, "{before:?}");
    assert!(world.finish(secs(30)) && world.client.session.is_closed(), "{}", world.tell());
}
