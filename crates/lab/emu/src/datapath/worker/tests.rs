//! The data path on a clock that the tests control, without namespaces and without real waits.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;

use base::Span;
use lab::routes::Routes;
use run::Schedule;
use run::calls::CallWriter;
use run::{Recorder, RecorderOptions, RunFolder, RunRecord};
use sim::Engine as _;

use super::*;
use crate::enclosure::{Enclosure, Engine};

/// Packets arrive at the router in the same nanosecond in which links change.
pub(crate) const LAB: &str = r#"
[lab]
duration = "3 s"
[node.a]
[node.b]
[node.r]
kind = "router"
[[link]]
ends = ["a", "r"]
delay = "10 ms"
[[link]]
ends = ["b", "r"]
delay = "10 ms"
[[flow]]
from = "a"
to = "b"
transport = "udp"
rate = "800 kbit/s"
packet = "1 kB"
start = "10 ms"
[[at]]
time = "1 s"
link = "b-r"
set = { delay = "30 ms" }
[[at]]
time = "2 s"
link = "b-r"
set = { delay = "10 ms" }
"#;

/// The same between the gateways of a bundle, which have a deadline every 10 ms.
const GATEWAYS: &str = r#"
[lab]
duration = "3 s"
[node.a]
[node.b]
[node.s]
kind = "sendbox"
[node.t]
kind = "receivebox"
[[link]]
ends = ["a", "s"]
delay = "10 ms"
mtu = "1440 B"
[[link]]
name = "core"
ends = ["s", "t"]
delay = "10 ms"
[[link]]
ends = ["b", "t"]
delay = "10 ms"
[[bundle]]
from = "s"
to = "t"
[[at]]
time = "1 s"
link = "core"
set = { delay = "30 ms" }
[[at]]
time = "1.5 s"
box = "t"
action = "restart"
[[at]]
time = "2 s"
link = "core"
down = true
[[at]]
time = "2.1 s"
link = "core"
up = true
"#;

const GAP: Span = Span::from_millis(10);
const END: Time = Time::from_nanos(3_000_000_000);

/// Results of a data path.
struct Done {
    hash: u64,
    /// Counters of packets from node `b`'s link, and samples, with their times.
    batches: Vec<Batch>,
    folder: RunFolder,
    _kept: (Sender<Command>, Recorder, tempfile::TempDir),
}

/// A data path without namespaces, whose clock starts now.
pub(crate) struct Staged {
    pub(crate) worker: Worker,
    pub(crate) batches: Receiver<Batch>,
    plan: Arc<Plan>,
    resolved: String,
    folder: RunFolder,
    /// Values that must exist as long as the data path.
    pub(crate) kept: (Sender<Command>, Recorder, tempfile::TempDir),
}

impl Staged {
    pub(crate) fn new(text: &str) -> Self {
        let mut lab = lab::parse("lab.toml", text, Path::new(".")).unwrap();
        let plan = Arc::new(lab.plans.swap_remove(0));
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "lab").unwrap();
        let recorder = Recorder::start(&folder, &RecorderOptions::default()).unwrap();
        let resolved = lab::resolved(&plan);
        let setup = Setup {
            enclosure: Arc::new(Enclosure {
                engine: Engine::Tun,
                hosts: Vec::new(),
                ipv6: true,
                notices: Vec::new(),
            }),
            forwarding: Box::new(Routes::compute(&plan, &vec![true; plan.links.len()])),
            recorder: recorder.handle(),
            captures: vec![None; plan.ifaces.len()],
            mirror_captures: Vec::new(),
            clock: LabClock::new(sys::clock::monotonic()),
            calls: Some(CallWriter::start(&folder, &resolved).unwrap()),
            shard: None,
            plan: Arc::clone(&plan),
        };
        let ((commands, inbox), (outbox, batches)) = (mpsc::channel(), mpsc::channel());
        let waker = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
        let poller = Poller::try_new(&setup.enclosure, Arc::new(waker)).unwrap();
        let worker = Worker::try_new(setup, inbox, outbox, &poller).unwrap();
        Self { worker, batches, plan, resolved, folder, kept: (commands, recorder, parent) }
    }
}

/// Runs a lab with a datagram from `a` to `b` every 10 ms. The data path runs a turn every `pause`
/// of its clock, and so is late by up to `pause`.
fn run(text: &str, pause: Span) -> Done {
    let Staged { mut worker, batches, plan, resolved, folder, kept } = Staged::new(text);
    worker.changes = Schedule::new(Arc::clone(&plan)).changes(END).into();

    let [from, to] = ["a", "b"].map(|name| plan.nodes[plan.node(name).unwrap().index()].ifaces[0]);
    let ends = [from, to].map(|iface| plan.ifaces[iface.index()].v4.unwrap().0);
    let ends = ends.map(|address| SocketAddr::new(address.into(), 9));
    let mut turn = Time::ZERO;
    for number in 1..=END.as_nanos() / GAP.as_nanos() {
        let at = Time::ZERO + GAP * number;
        while turn < at {
            worker.handle_all(turn);
            turn += pause;
        }
        let bytes = wire::datagram(ends[0], ends[1], 0, &[0; 1_000]).unwrap();
        let packet = worker.ingress.describe(&worker.pool, bytes, 0, Offload::default()).unwrap();
        worker.inject(at, from, packet);
    }
    worker.handle_all(END);
    let (hash, events) = (worker.fabric.trace_hash(), worker.fabric.events());
    worker.calls.take().unwrap().finish(worker.fabric.now(), events, hash);
    let record = RunRecord {
        schema: run::record::SCHEMA.to_owned(),
        plan_hash: run::lab_hash(&resolved),
        trace_hash: Some(run::hash_text(hash)),
        ..RunRecord::default()
    };
    folder.write_record(&record).unwrap();
    Done { hash, batches: batches.try_iter().collect(), folder, _kept: kept }
}

/// Packets that had arrived at `b` by the sample at `millis` ms.
fn arrived(done: &Done, iface: usize, millis: u64) -> u64 {
    let at = Time::ZERO + Span::from_millis(millis);
    let batch = done.batches.iter().find(|batch| batch.at == at).unwrap();
    batch.links[iface].0.delivered_packets
}

#[test]
fn coinciding_events_have_one_order_on_both_clocks_and_in_replays() {
    let punctual = run(LAB, Span::from_millis(1));
    let late = run(LAB, Span::from_micros(77_777));
    let mut lab = lab::parse("lab.toml", LAB, Path::new(".")).unwrap();
    let mut virtual_clock = sim::Simulation::try_new(&lab.plans.swap_remove(0)).unwrap();
    virtual_clock.advance(END);
    assert_eq!(punctual.hash, virtual_clock.trace_hash(), "the wall clock and the virtual one");
    assert_eq!(punctual.hash, late.hash, "lateness changes when packets are seen, not their order");
    for done in [&punctual, &late] {
        let replay = sim::replay(&done.folder).unwrap();
        assert!(replay.identical, "{replay:?}");
        // The packet that reaches the router at 1 s gets the new delay: it arrives at 1.03 s.
        assert_eq!(arrived(done, 3, 1_000), 98, "samples come after arrivals");
        assert_eq!(arrived(done, 3, 1_100), 98 + 8, "the change comes before arrivals");
    }
}

#[test]
fn coinciding_events_of_gateways_are_replayed_identically() {
    let punctual = run(GATEWAYS, Span::from_millis(1));
    let late = run(GATEWAYS, Span::from_micros(77_777));
    assert_eq!(punctual.hash, late.hash);
    for done in [&punctual, &late] {
        let replay = sim::replay(&done.folder).unwrap();
        assert!(replay.identical && replay.calls > 500, "{replay:?}");
    }
}

#[test]
fn agreement_on_shares_is_replayed_identically() {
    let header = "[lab]\nmodel = \"collapsed\"\nsharing = \"slbn\"";
    let lab = LAB.replace("[lab]", header).replace("[[flow]]", "rate = \"2 Mbit/s\"\n[[flow]]");
    let punctual = run(&lab, Span::from_millis(1));
    let late = run(&lab, Span::from_micros(77_777));
    assert_eq!(punctual.hash, late.hash);
    for done in [&punctual, &late] {
        let replay = sim::replay(&done.folder).unwrap();
        assert!(replay.identical && replay.calls > 300, "{replay:?}");
    }
}

#[test]
fn stamps_burst_with_one_time_within_maximum_lead() {
    let micros = |micros: u64| Time::from_nanos(1_000 * micros);
    let ready = micros(100);
    assert_eq!(stamp(ready, ready, Time::ZERO), ready, "the first of a port");
    assert_eq!(stamp(ready, micros(115), ready), ready, "a burst that is read at once");
    // The thread waits for a CPU for 2 ms, and a packet arrives in this time.
    assert_eq!(stamp(ready, micros(2_100), ready), micros(2_080));
    assert_eq!(stamp(ready, micros(2_101), micros(2_090)), micros(2_090), "in their order");
}

#[test]
fn cpu_share_covers_last_second() {
    let mut state = Realtime::default();
    let at = |ms| Time::ZERO + Span::from_millis(ms);
    let mut cpu = 0;
    let mut after = |now: u64, used_ms: u64| {
        cpu += used_ms * 1_000_000;
        (state.used_share(at(now), cpu) * 100.0).round() as u64
    };
    assert_eq!([after(5_000, 40), after(5_100, 100)], [0, 10], "idle before");
    let busy: Vec<_> = (1..10).map(|step| after(5_100 + step * 100, 100)).collect();
    assert_eq!(busy[busy.len() - 1], 100);
    let idle: Vec<_> = (1..=10).map(|step| after(6_000 + step * 100, 0)).collect();
    assert_eq!((idle[0], idle[9]), (90, 0));
    assert_eq!(after(9_000, 200), 10, "of the two seconds since the last reading");
    assert!(state.readings.len() <= 2);
}
