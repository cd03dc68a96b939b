//! Random schedules: in every schedule the streams are delivered once, in order and within bounded
//! memory, and both ends terminate.

use base::{Bandwidth, Bytes, Ratio, Span, Time};
use mctcp::scheduler::SchedulerKind;
use mctcp::session::Event;
use mctcp::{Reason, Settings};
use proptest::prelude::*;
use proptest::sample::select;

use super::script::{Act, Application, Path, Script, millis};
use super::world::{CLIENT, World};

/// Time in milliseconds from which on every path works again.
const FAULTS_END_MS: u64 = 20_000;

fn rate() -> impl Strategy<Value = Bandwidth> {
    select(vec![300, 1_000, 2_000, 10_000, 50_000])
        .prop_map(|kbit: u64| Bandwidth::from_bits_per_sec(kbit * 1_000))
}

fn delay() -> impl Strategy<Value = Span> {
    select(vec![0, 1, 10, 40, 150, 500]).prop_map(Span::from_millis)
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
    let at = prop_oneof![0..2_000u64, 0..FAULTS_END_MS];
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
                remove_faults(&mut script);
                script
            },
        )
    })
}

/// From now on every path works, with low quality.
fn remove_faults(script: &mut Script) {
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
            script.acts.push((millis(FAULTS_END_MS), act));
        }
    }
}

/// Time by which both sessions must have ended.
const MAX_DURATION: Span = Span::from_secs(140);
/// Additional time until the last connection is closed: TCP's backoff is long.
const CLOSE_TIMEOUT: Span = Span::from_secs(300);

/// Runs the script; returns the first error.
fn check_result(script: &Script) -> Result<(), String> {
    let mut world = World::new(script);
    let over = world.finish(Time::ZERO + MAX_DURATION);
    if !world.has_event(CLIENT, Event::Established) && world.client.session.failed().is_some() {
        // The client got no answer, and the application got the error.
        let reason = world.client.session.failed();
        let is_expected = matches!(reason, Some(Reason::Target | Reason::Timeout));
        return if is_expected { Ok(()) } else { Err(world.describe()) };
    }
    let Some(server) = &world.server else {
        return Err(format!("no session {}", world.describe()));
    };
    if script.psk && server.session.failed() == Some(Reason::Authentication) {
        // The proof was lost for too long, and neither end reports delivered data.
        let reported = server.read == 0 && world.client.session.failed().is_some();
        return if reported { Ok(()) } else { Err(world.describe()) };
    }
    if !over || !world.is_complete() {
        return Err(world.describe());
    }
    let end = world.now + CLOSE_TIMEOUT;
    world.run(end);
    let left = world.open_connections();
    if !left.is_empty() {
        return Err(format!("left open: {left:?} {}", world.describe()));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn random_schedule_delivers_all_and_ends(script in script()) {
        check_result(&script).map_err(TestCaseError::fail)?;
    }
}

fn kbit(kbit: u64) -> Bandwidth {
    Bandwidth::from_bits_per_sec(kbit * 1_000)
}

/// A path with loss in thousandths.
fn lossy(rate: u64, delay: u64, queue: u64, loss: u64) -> Path {
    Path {
        rate: kbit(rate),
        delay: Span::from_millis(delay),
        queue: Bytes::new(queue),
        loss: Ratio::from_parts_per_billion(loss * 1_000_000),
        backup: false,
    }
}

fn sized(buffers: u64, frame: u64) -> Settings {
    Settings {
        max_frame: Bytes::new(frame),
        send_buffer: Bytes::new(buffers),
        receive_buffer: Bytes::new(buffers),
        autotune: false,
        max_subflows: 1,
        ..Settings::default()
    }
}

fn writes(writes: u64, rate: Option<u64>) -> Application {
    Application { writes, chunk: 16_384, rate: rate.map(kbit), starts: Time::ZERO }
}

#[track_caller]
fn assert_ends(mut script: Script) {
    remove_faults(&mut script);
    check_result(&script).unwrap_or_else(|error| panic!("{error}"));
}

/// After the first path is up again, the server's TCP waits two minutes for its next retransmission
/// on the only subflow, while the client has nothing in flight.
#[test]
fn replaces_the_only_subflow_of_a_peer_that_answers_no_probe() {
    assert_ends(Script {
        seed: 8_948_148_904_528_959_745,
        paths: vec![
            lossy(10_000, 10, 60_000, 200),
            lossy(50_000, 40, 20_000, 0),
            lossy(10_000, 0, 20_000, 0),
            Path { backup: true, ..lossy(50_000, 0, 200_000, 50) },
        ],
        settings: [
            Settings {
                scheduler: SchedulerKind::Weighted,
                join_after: Bytes::new(20_000),
                max_subflows: 8,
                ..sized(262_144, 4_096)
            },
            Settings { scheduler: SchedulerKind::Backup, ..sized(262_144, 65_535) },
        ],
        applications: [writes(200_001, None), writes(600_000, Some(500))],
        low_water: 16_384,
        socket: 65_536,
        psk: true,
        acts: vec![
            (millis(17_080), Act::Hold(2, true)),
            (millis(6_628), Act::Reset(1)),
            (millis(1_532), Act::Refuse(2, true)),
            (millis(7_036), Act::Kill(0)),
            (millis(3_857), Act::Rate(1, kbit(2_000))),
            (millis(124), Act::JoinNow),
            (millis(439), Act::Hold(0, true)),
            (millis(688), Act::Add(0)),
        ],
    });
}

/// The server has dropped the session, because the proof was lost, and refuses new subflows.
#[test]
fn times_out_although_the_server_refuses_new_subflows() {
    let settings = Settings { join_after: Bytes::ZERO, ..sized(65_536, 1_024) };
    assert_ends(Script {
        seed: 526_090_388_410_573_989,
        paths: vec![lossy(300, 0, 20_000, 50)],
        settings: [settings.clone(), settings],
        applications: [
            writes(65_536, None),
            Application { chunk: 65_536, ..writes(65_536, Some(5_000)) },
        ],
        low_water: 4_096,
        socket: 65_536,
        psk: true,
        acts: vec![(millis(1_519), Act::Kill(0))],
    });
}
