//! Random schedules: in every schedule the streams are delivered once, in order and within bounded
//! memory, and both ends terminate.

use base::{Bandwidth, Bytes, Ratio, Span, Time};
use mctcp::Settings;
use mctcp::scheduler::SchedulerKind;
use proptest::prelude::*;
use proptest::sample::select;

use super::script::{Act, Application, Path, Script};
use super::verdict::judge;

/// Time in milliseconds from which on every path works again.
const HEALED: u64 = 20_000;

fn millis(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn rate() -> impl Strategy<Value = Bandwidth> {
    select(vec![300, 1_000, 2_000, 10_000, 50_000])
        .prop_map(|kbit: u64| Bandwidth::from_bits_per_sec(kbit * 1_000))
}

fn delay() -> impl Strategy<Value = Span> {
    select(vec![0, 1, 10, 40, 150]).prop_map(Span::from_millis)
}

fn loss() -> impl Strategy<Value = u16> {
    select(vec![0, 0, 0, 10, 50, 200])
}

fn path() -> impl Strategy<Value = Path> {
    let queue = select(vec![20_000, 60_000, 200_000]);
    let backup = proptest::bool::weighted(0.2);
    (rate(), delay(), queue, loss(), backup).prop_map(|(rate, delay, queue, loss, backup)| Path {
        rate,
        delay,
        queue: Bytes::new(queue),
        loss: Ratio::from_parts_per_billion(u64::from(loss) * 1_000_000),
        backup,
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    let kinds: Vec<_> = SchedulerKind::ALL.iter().map(|(kind, _)| *kind).collect();
    let buffer = || select(vec![64 << 10, 100_000, 262_144, 1 << 20]);
    let frame = select(vec![1 << 10, 4 << 10, 16 << 10, 65_535]);
    let join_after = select(vec![0, 20_000, 262_144]);
    let numbers = (buffer(), buffer(), frame, join_after, 1u8..=8);
    (select(kinds), any::<bool>(), numbers).prop_map(
        |(scheduler, autotune, (send, receive, frame, join_after, subflows))| Settings {
            scheduler,
            autotune,
            send_buffer: Bytes::new(send),
            receive_buffer: Bytes::new(receive),
            max_frame: Bytes::new(frame),
            join_after: Bytes::new(join_after),
            max_subflows: subflows,
            ..Settings::default()
        },
    )
}

fn application() -> impl Strategy<Value = Application> {
    let writes = select(vec![0, 1, 1_000, 65_536, 200_001, 600_000]);
    let chunk = select(vec![700, 16 << 10, 64 << 10]);
    let rate = select(vec![None, None, Some(500_000), Some(5_000_000)]);
    (writes, chunk, rate, select(vec![0, 0, 100, 3_000])).prop_map(
        |(writes, chunk, rate, starts)| Application {
            writes,
            chunk,
            rate: rate.map(Bandwidth::from_bits_per_sec),
            starts: millis(starts),
        },
    )
}

fn act(paths: usize) -> impl Strategy<Value = (Time, Act)> {
    let path = 0..paths;
    let kinds: Vec<_> = SchedulerKind::ALL.iter().map(|(kind, _)| *kind).collect();
    let act = prop_oneof![
        4 => path.clone().prop_map(Act::Kill),
        2 => path.clone().prop_map(Act::Revive),
        3 => path.clone().prop_map(Act::Reset),
        2 => (path.clone(), any::<bool>()).prop_map(|(path, hold)| Act::Hold(path, hold)),
        1 => (path.clone(), any::<bool>()).prop_map(|(path, refuse)| Act::Refuse(path, refuse)),
        1 => (path.clone(), loss()).prop_map(|(path, loss)| Act::Loss(path, loss)),
        1 => (path.clone(), rate()).prop_map(|(path, rate)| Act::Rate(path, rate)),
        1 => (path.clone(), delay()).prop_map(|(path, delay)| Act::Delay(path, delay)),
        1 => path.clone().prop_map(Act::Remove),
        1 => path.prop_map(Act::Add),
        1 => Just(Act::JoinNow),
        1 => (0..2usize, select(vec![300, 5_000, 30_000]))
            .prop_map(|(side, time)| Act::StopReading(side, Span::from_millis(time))),
        1 => select(kinds).prop_map(Act::Schedule),
    ];
    let at = prop_oneof![0..2_000u64, 0..HEALED];
    (at.prop_map(millis), act)
}

fn script() -> impl Strategy<Value = Script> {
    let paths = prop::collection::vec(path(), 1..=4);
    paths.prop_flat_map(|paths| {
        let acts = prop::collection::vec(act(paths.len()), 0..10);
        let settings = [settings(), settings()];
        let applications = [application(), application()];
        let sockets = (select(vec![4_096, 16 << 10, 128 << 10]), select(vec![64 << 10, 4 << 20]));
        (any::<u64>(), Just(paths), settings, applications, sockets, any::<bool>(), acts).prop_map(
            |(seed, paths, settings, applications, (low_water, socket), psk, acts)| {
                let mut script =
                    Script { seed, paths, settings, applications, low_water, socket, psk, acts };
                heal(&mut script);
                script
            },
        )
    })
}

/// From now on every path works, with low quality.
fn heal(script: &mut Script) {
    for path in 0..script.paths.len() {
        for act in [
            Act::Revive(path),
            Act::Hold(path, false),
            Act::Refuse(path, false),
            Act::Loss(path, 10),
            Act::Rate(path, Bandwidth::from_mbits_per_sec(1)),
            Act::Delay(path, Span::from_millis(40)),
            Act::Add(path),
        ] {
            script.acts.push((millis(HEALED), act));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_whatever_happens(script in script()) {
        judge(&script).map_err(TestCaseError::fail)?;
    }
}
