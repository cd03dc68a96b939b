//! Whole sessions, with one fault at a time.

use base::{Span, Time};
use mctcp::Reason;
use mctcp::scheduler::SchedulerKind;
use mctcp::session::Event;

use super::script::{Act, Application, Path, Script, millis, secs};
use super::world::{CLIENT, SERVER, World};

/// Runs a script in which all data are delivered.
fn assert_completes(script: &Script, until: u64) -> World {
    let mut world = World::new(script);
    assert!(world.finish(secs(until)), "not over {}", world.describe());
    assert!(world.is_complete(), "{}", world.describe());
    world
}

fn two() -> [Path; 2] {
    [Path::new(10, 10), Path::new(10, 10)]
}

#[test]
fn short_transfer_uses_one_connection() {
    for bytes in [1 << 10, 10_000] {
        let script = Script::upload(&two(), bytes);
        let mut world = World::new(&script);
        world.run(millis(55));
        let server = world.server.as_ref().expect("a session");
        assert!(server.read == bytes && server.done, "{}", world.describe());
        let world = assert_completes(&script, 1);
        assert_eq!(world.client.session.statistics().subflows_opened, 1);
    }
}

#[test]
fn long_transfer_uses_both_paths() {
    let mut world = World::new(&Script::upload(&two(), 4 << 20));
    world.run(millis(1_500));
    let read = world.server_read();
    assert!(read > 2 * 10_000_000 / 8, "{read} bytes");
    let statistics = world.client.session.statistics();
    assert!(statistics.reinjected < 100_000, "{statistics:?}");
    assert_eq!(world.client.session.subflows().count(), 2);
}

#[test]
fn replaces_a_silent_path_until_it_returns() {
    let script = Script::upload(&two(), 4 << 20).at(1_000, Act::Kill(0)).at(2_500, Act::Revive(0));
    let mut world = World::new(&script);
    let mut read_at = |at| {
        world.run(millis(at));
        world.server_read()
    };
    let before = read_at(1_500);
    let after = read_at(2_500);
    assert!(after > before + 1_000_000, "{before} then {after}");
    let stale = |event: &(Time, usize, Event)| matches!(event.2, Event::SubflowStale(_));
    assert!(world.events.iter().any(stale), "{:?}", world.events);
    assert_completes(&script, 20);
}

#[test]
fn survives_the_loss_of_the_first_frames() {
    let script = (0..2).fold(Script::upload(&two(), 10_000), |script, path| {
        script.at(20, Act::Kill(path)).at(5_000, Act::Revive(path))
    });
    let mut world = World::new(&script);
    world.run(secs(5));
    assert_eq!(world.failure(CLIENT), None);
    world.run(secs(6));
    assert!(world.has_event(CLIENT, Event::Established), "{}", world.describe());
    assert_eq!(world.server_read(), 10_000);
}

#[test]
fn every_scheduler_delivers() {
    let paths = [Path::new(10, 10), Path::new(2, 100), Path::new(50, 1)];
    for (kind, _) in SchedulerKind::ALL {
        let script = Script::upload(&paths, 4_000_000).scheduler(*kind).buffers(262_144);
        let world = assert_completes(&script, 20);
        let sent: u64 = world.client.session.statistics().reinjected;
        assert!(*kind == SchedulerKind::Redundant || sent < 4_000_000, "{kind}: {sent} B again");
    }
}

#[test]
fn replaces_a_silent_path_within_500_ms() {
    for path in 0..2 {
        let world =
            assert_completes(&Script::upload(&two(), 10_000_000).at(2_000, Act::Kill(path)), 60);
        let max_read_gap_s = world.max_read_gap_s();
        assert!(max_read_gap_s <= 0.5, "path {path}: {max_read_gap_s} s");
    }
}

/// The repair takes longer than for a failed path, because TCP has acknowledged the missing data.
#[test]
fn replaces_a_path_whose_proxy_acknowledges_and_forwards_nothing() {
    for (path, delay) in [(0, 0), (1, 0), (0, 10), (1, 10)] {
        let paths = [Path::new(10, delay), Path::new(10, delay)];
        let script = Script::upload(&paths, 10_000_000).at(2_000, Act::Hold(path, true));
        let world = assert_completes(&script, 60);
        let max_read_gap_s = world.max_read_gap_s();
        assert!(max_read_gap_s <= 0.5, "path {path}: {max_read_gap_s} s");
    }
}

#[test]
fn uses_a_path_again_when_its_proxy_forwards_again() {
    for (held_for, reinjected) in [(300, 600_000), (5_000, 2_000_000)] {
        let script = Script::upload(&two(), 20_000_000)
            .at(2_000, Act::Hold(0, true))
            .at(2_000 + held_for, Act::Hold(0, false));
        let world = assert_completes(&script, 60);
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
    let world = assert_completes(&script, 60);
    let in_pause = |event: &&(Time, usize, Event)| {
        (secs(2)..secs(4) + Span::from_millis(100)).contains(&event.0)
            && matches!(event.2, Event::SubflowStale(_))
    };
    let stale: Vec<_> = world.events.iter().filter(in_pause).collect();
    assert!(stale.len() <= 1, "{stale:?}");
}

#[test]
fn continues_when_one_of_two_failed_paths_returns() {
    let script = Script::upload(&two(), 20_000_000)
        .at(2_000, Act::Kill(0))
        .at(2_000, Act::Kill(1))
        .at(12_000, Act::Revive(1));
    let mut world = World::new(&script);
    world.run(secs(12));
    let before = world.server_read();
    world.run(secs(14));
    let after = world.server_read();
    assert!(after > before, "{}", world.describe());
    assert!(world.finish(secs(60)) && world.client.session.is_closed());
}

#[test]
fn connects_over_the_second_path_when_the_first_fails() {
    let mut world = World::new(&Script::upload(&two(), 10_000_000).at(0, Act::Kill(0)));
    world.run(secs(1));
    assert!(world.client.session.is_established(), "{}", world.describe());
    let mut world = World::new(&Script::upload(&two(), 10_000_000).at(0, Act::Refuse(0, true)));
    world.run(secs(1));
    assert!(world.client.session.is_established(), "{}", world.describe());
}

#[test]
fn uses_a_failed_path_again_after_its_return() {
    for dead in [5, 60] {
        let script = Script::upload(&two(), u64::MAX)
            .at(2_000, Act::Kill(0))
            .at(2_000 + dead * 1_000, Act::Revive(0));
        let mut world = World::new(&script);
        world.run(secs(2 + dead + 5));
        let before = world.server_read();
        world.run(secs(2 + dead + 7));
        let after = world.server_read();
        let rate = (after - before) as f64 * 8.0 / 2.0 / 1e6;
        assert!(rate > 9.6 + 0.3 * 9.6, "{rate} Mbit/s after {dead} s");
    }
}

#[test]
fn bounds_the_buffer_of_a_receiver_that_stops_reading() {
    let script = Script::upload(&two(), 5_000_000)
        .buffers(65_536)
        .at(500, Act::StopReading(SERVER, Span::from_secs(30)));
    let world = assert_completes(&script, 60);
    assert!(world.server.is_some_and(|server| server.buffered_peak <= 65_536));
}

#[test]
fn closes_when_both_ends_finish_at_once_or_10_s_apart() {
    let mut script = Script::upload(&two(), 0);
    assert_completes(&script, 5);
    script.applications = [Application::bulk(300_000), Application::bulk(300_000)];
    assert_completes(&script, 5);
    script.applications[SERVER].starts = secs(10);
    assert_completes(&script, 20);
}

#[test]
fn abort_resets_the_peer() {
    for side in [CLIENT, SERVER] {
        let script = Script::upload(&two(), 10_000_000).at(2_000, Act::Abort(side));
        let mut world = World::new(&script);
        assert!(world.finish(secs(3)), "{}", world.describe());
        let peer = world.end_of(1 - side).expect("a session");
        assert_eq!(peer.by_peer, Some(Reason::Aborted));
        assert_eq!(world.failure(side), Some(Reason::Aborted));
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
fn resumes_after_25_s_without_connections() {
    let world = assert_completes(&cut_off(25_000), 60);
    assert!(world.now < secs(35), "{}", world.now);
}

#[test]
fn times_out_at_both_ends_after_the_resume_timeout() {
    let mut world = World::new(&cut_off(40_000));
    assert!(world.finish(secs(60)), "{}", world.describe());
    assert_eq!(world.failure(CLIENT), Some(Reason::Timeout));
    assert_eq!(world.failure(SERVER), Some(Reason::Timeout));
}

#[test]
fn times_out_at_both_ends_on_silent_paths() {
    let script = Script::upload(&two(), 50_000_000).at(1_000, Act::Kill(0)).at(1_000, Act::Kill(1));
    let mut world = World::new(&script);
    assert!(world.finish(secs(140)), "{}", world.describe());
    assert_eq!(world.failure(CLIENT), Some(Reason::Timeout));
    assert_eq!(world.failure(SERVER), Some(Reason::Timeout));
}

#[test]
fn continues_when_addresses_change() {
    // Only one path at any time: the old one is removed before the new one is added.
    let script = Script::upload(&two(), 5_000_000)
        .at(0, Act::Remove(1))
        .at(1_500, Act::Remove(0))
        .at(2_000, Act::Add(1))
        .at(3_500, Act::Remove(1))
        .at(3_500, Act::Add(0));
    let world = assert_completes(&script, 30);
    let downs = world.events.iter().filter(|event| matches!(event.2, Event::SubflowDown(_)));
    assert!(downs.count() >= 2, "{:?}", world.events);
}

#[test]
fn backup_carries_no_data_while_another_path_works() {
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
    assert!(world.finish(secs(30)) && world.client.session.is_closed(), "{}", world.describe());
}
