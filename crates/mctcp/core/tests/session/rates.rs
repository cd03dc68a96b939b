//! Share of the capacity of several paths that a session uses, with the default scheduler.

use mctcp::scheduler::SchedulerKind;

use super::script::{Path, Script, secs};
use super::world::World;

/// Buffers of the experiment that the labs repeat (`labs/mctcp/seed.toml`), and the default.
const SMALL_BUFFER_BYTES: u64 = 262_144;
const LARGE_BUFFER_BYTES: u64 = 4 << 20;

/// Rate at the application in Mbit/s, from the 3rd to the 9th second.
fn goodput(paths: &[Path], buffers: u64) -> f64 {
    let mut script = Script::upload(paths, u64::MAX).buffers(buffers);
    script.low_water = 16 << 10;
    measured(&script)
}

fn measured(script: &Script) -> f64 {
    let mut world = World::new(script);
    let mut read_at = |at: u64| {
        world.run(secs(at));
        world.server_read()
    };
    let early = read_at(3);
    (read_at(9) - early) as f64 * 8.0 / 6.0 / 1e6
}

fn assert_goodput(paths: &[Path], buffers: u64, min: f64) {
    let got = goodput(paths, buffers);
    assert!(got >= min, "{got:.2} Mbit/s of {min:.2} over {paths:?} with {buffers} B");
}

#[test]
fn redundant_copies_reach_the_rate_of_one_path() {
    let path = Path::new(10, 10);
    let script = |paths: &[Path]| {
        let mut script = Script::upload(paths, u64::MAX).scheduler(SchedulerKind::Redundant);
        script.low_water = 16 << 10;
        script
    };
    let alone = goodput(&[path], LARGE_BUFFER_BYTES);
    let got = measured(&script(&[path, path]));
    assert!((0.95 * alone..1.2 * alone).contains(&got), "{got:.2} Mbit/s, alone {alone:.2}");
}

#[test]
fn goodput_is_the_sum_of_equal_paths() {
    let path = Path::new(10, 10);
    let alone = goodput(&[path], LARGE_BUFFER_BYTES);
    for count in 2..=4 {
        assert_goodput(&vec![path; count], LARGE_BUFFER_BYTES, 0.98 * alone * count as f64);
    }
    // Measured: 0.977 over simulated TCP, 0.98 over the previous model of TCP.
    assert_goodput(&[path, path], SMALL_BUFFER_BYTES, 0.97 * 2.0 * alone);
}

#[test]
fn long_path_adds_to_a_short_one() {
    let (short, long) = (Path::new(10, 10), Path::new(10, 100));
    let (best, other) =
        (goodput(&[short], LARGE_BUFFER_BYTES), goodput(&[long], LARGE_BUFFER_BYTES));
    for paths in [[short, long], [long, short]] {
        assert_goodput(&paths, LARGE_BUFFER_BYTES, 0.95 * (best + other));
        assert_goodput(&paths, SMALL_BUFFER_BYTES, 1.4 * best);
    }
}

#[test]
fn slow_path_does_not_reduce_the_goodput() {
    for (good, poor) in [
        (Path::new(10, 10), Path::new(2, 10)),
        (Path::new(10, 10), Path::new(2, 100)),
        (Path::new(50, 10), Path::new(2, 1)),
    ] {
        let best = goodput(&[good], LARGE_BUFFER_BYTES);
        for buffers in [SMALL_BUFFER_BYTES, LARGE_BUFFER_BYTES] {
            assert_goodput(&[good, poor], buffers, 0.98 * best);
            assert_goodput(&[poor, good], buffers, 0.98 * best);
        }
    }
}

/// Frames on the late path would pause the stream for as long as a failure.
#[test]
fn late_path_that_adds_little_rate_keeps_goodput_and_read_gaps() {
    let good = [Path::new(20, 20), Path::new(10, 5)];
    let measured = |paths: &[Path]| {
        let mut world = World::new(&Script::upload(paths, u64::MAX));
        world.run(secs(20));
        let server = world.server.as_ref().expect("a session");
        (server.read as f64, server.max_read_gap_s)
    };
    let (two, _) = measured(&good);
    for rate in [2, 5, 10] {
        let (three, max_read_gap_s) = measured(&[good[0], good[1], Path::new(rate, 500)]);
        assert!(
            three >= 0.99 * two && max_read_gap_s <= 0.3,
            "{rate} Mbit/s: {} {max_read_gap_s} s",
            three / two
        );
    }
}

#[test]
fn uses_a_late_path_that_adds_much_rate() {
    let mut script = Script::upload(&[Path::new(2, 20), Path::new(20, 350)], u64::MAX);
    // A queue of one bandwidth-delay product.
    script.paths[1].queue = base::Bytes::new(1_750_000);
    let mut world = World::new(&script);
    world.run(secs(20));
    let rate = world.server_read() as f64 * 8.0 / 20.0 / 1e6;
    assert!(rate >= 8.0, "{rate} Mbit/s");
}
