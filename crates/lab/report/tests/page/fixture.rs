//! A synthetic run folder: a dumbbell with three flows, a failed program and a link that changes.

use std::f64::consts::TAU;
use std::path::Path;

use base::{Direction, FlowId, Histogram, LinkId, RandomStream, Span, Time};
use run::record::*;
use run::{
    DropReason, Exit, FlowSample, LinkSample, Recorder, RecorderOptions, RunFolder, RunRecord,
};

const STEPS: u64 = 300;
const INTERVAL: Span = Span::from_millis(100);
const LINKS: [(&str, &str, &str, u64, u64); 5] = [
    ("alice-r1", "alice", "r1", 100_000_000, 1_000_000),
    ("carol-r1", "carol", "r1", 100_000_000, 1_000_000),
    ("core", "r1", "r2", 10_000_000, 25_000_000),
    ("r2-bob", "r2", "bob", 100_000_000, 1_000_000),
    ("r2-dave", "r2", "dave", 1_000_000_000, 500_000),
];
const FLOWS: [(&str, &str, &str, &str); 3] = [
    ("alice-bob", "alice", "bob", "TCP cubic"),
    ("carol-dave", "carol", "dave", "UDP 2 Mbit/s"),
    ("rpc", "alice", "dave", "RPC 200 B / 4 kB"),
];

/// Creates the folder of a trusted or untrusted run under `parent`.
pub(crate) fn make(parent: &Path, trusted: bool) -> RunFolder {
    let folder = RunFolder::create(parent, "dumbbell").expect("the fixture can be written");
    let mut record = record(&folder, trusted);
    let recorder = Recorder::start(
        &folder,
        &RecorderOptions {
            started_unix_ns: record.started_unix_ms * 1_000_000,
            links: LINKS.map(|l| l.0.to_owned()).to_vec(),
            flows: FLOWS.map(|f| f.0.to_owned()).to_vec(),
            ..RecorderOptions::default()
        },
    )
    .expect("the fixture can be written");
    let mut random = RandomStream::new(7, "fixture");
    let mut totals = Totals::default();
    for step in 0..STEPS {
        feed(&recorder, step, &mut random, &mut totals);
    }
    assert!(recorder.finish().error.is_none());
    record.links = totals.links();
    record.flows = totals.flows();
    folder.write_record(&record).expect("the fixture can be written");
    let lab = include_str!("fixture.toml");
    folder.write(RunFolder::RESOLVED_LAB, lab.as_bytes()).expect("the fixture can be written");
    folder
}

#[derive(Default)]
struct Totals {
    sent: [[u64; 2]; LINKS.len()],
    lost: [[u64; DropReason::COUNT]; 2],
    received: [u64; FLOWS.len()],
    delays: [Histogram; FLOWS.len()],
    queue_delays: Histogram,
    retransmits: u64,
    missing: u64,
}

fn feed(recorder: &Recorder, step: u64, random: &mut RandomStream, totals: &mut Totals) {
    let handle = recorder.handle();
    let at = Time::ZERO + INTERVAL * (step + 1);
    let s = step as f64 / 10.0;
    let delay_ms = if s < 10.0 { 27.0 } else { 102.0 };
    // A sawtooth of CUBIC under a queue of 64 packets.
    let phase = (s / 4.2).fract();
    let window = 0.72 + 0.28 * phase.powf(0.6);
    let tcp = 7.4e6 * window.min(0.98) + random.unit() * 1e5;
    let dipped = if (s - 10.0).abs() < 0.4 { tcp * 0.3 } else { tcp };
    let udp = if s < 5.0 { 0.0 } else { 2e6 * (1.0 - 0.01 * random.unit()) };
    let rpc = 0.35e6 * (1.0 + 0.4 * (s * TAU / 9.0).sin());
    let queue = 64.0 * 1538.0 * ((window - 0.72) / 0.28);
    let rates = [dipped * 1.045 + rpc * 0.1, udp * 1.06, dipped * 1.045 + udp * 1.06 + rpc * 0.1];
    let rates = [rates[0], rates[1], rates[2].min(1e7), dipped * 1.045, udp * 1.06 + rpc * 0.1];
    for (index, rate) in rates.into_iter().enumerate() {
        for direction in Direction::BOTH {
            let rate = if direction == Direction::Up { rate } else { rate * 0.03 + rpc };
            let mut sample = LinkSample::empty(at, INTERVAL, LinkId::at(index), direction);
            sample.sent_bytes = (rate / 80.0) as u64;
            sample.sent_packets = sample.sent_bytes / 1400 + 1;
            if index == 2 && direction == Direction::Up {
                sample.queue_bytes = queue as u64;
                sample.queue_max_bytes = (queue * 1.1) as u64;
                sample.queue_delay_max = Some(Span::from_nanos((queue * 800.0) as u64));
                sample.drops[DropReason::QueueFull.index()] = u64::from(phase > 0.97) * 9;
                sample.drops[DropReason::Loss.index()] = u64::from(random.unit() < 0.08);
                sample.drops[DropReason::LinkDown.index()] = u64::from(step == 200) * 14;
                totals.queue_delays.record_many((queue * 700.0) as u64, sample.sent_packets);
                for (total, n) in totals.lost[0].iter_mut().zip(sample.drops) {
                    *total += n;
                }
            }
            totals.sent[index][direction.index()] += sample.sent_bytes;
            handle.link(sample);
        }
    }
    let wait_ms = queue * 8.0 / 1e4;
    for (index, rate) in [dipped, udp, rpc].into_iter().enumerate() {
        let mut sample = FlowSample::empty(at, INTERVAL, FlowId::at(index));
        sample.received_bytes = (rate / 80.0) as u64;
        sample.sent_bytes = sample.received_bytes;
        let milli = delay_ms + wait_ms + random.unit();
        let delay = Span::from_nanos((milli * 1e6) as u64);
        let mut delays = Histogram::new();
        delays.record_many(delay.as_nanos(), 20);
        match index {
            0 => {
                sample.rtt = Some(delay + Span::from_nanos((delay_ms * 1e6) as u64));
                sample.cwnd_bytes = Some((60_000.0 + queue) as u64);
                sample.retransmits = Some(u64::from(phase > 0.97) * 9);
                totals.retransmits += sample.retransmits.unwrap_or(0);
            }
            1 if s >= 5.0 => {
                sample.delay = delays.distribution();
                sample.lost = Some(u64::from(random.unit() < 0.05));
                totals.missing += sample.lost.unwrap_or(0);
            }
            2 => {
                delays.record_many(delay.as_nanos() * 2, 80);
                sample.latency = delays.distribution();
                sample.responses = Some(10);
            }
            _ => {}
        }
        totals.delays[index].merge(&delays);
        totals.received[index] += sample.received_bytes;
        handle.flow(sample);
    }
}

impl Totals {
    fn links(&self) -> Vec<LinkSummary> {
        let entry = |index: usize, direction: Direction| {
            let (name, a, b, rate, _) = LINKS[index];
            let (from, to) = if direction == Direction::Up { (a, b) } else { (b, a) };
            let bytes = self.sent[index][direction.index()];
            let mean = bytes as f64 * 8.0 / 30.0;
            let core = index == 2 && direction == Direction::Up;
            let drops = DropReason::ALL.iter().map(|r| (*r, self.lost[0][r.index()]));
            let drops = drops.filter(|(_, n)| core && *n > 0);
            LinkSummary {
                name: name.to_owned(),
                direction: direction.as_str().to_owned(),
                from: from.to_owned(),
                to: to.to_owned(),
                sent_packets: bytes / 1400,
                sent_bytes: bytes,
                throughput_bit_per_s: mean,
                utilisation: Some(mean / rate as f64),
                drops: drops.map(|(r, n)| (r.as_str().to_owned(), n)).collect(),
                marks: 0,
                queue_max_bytes: if core { 98_432 } else { 3_076 },
                queue_delay: if core { self.queue_delays.distribution() } else { None },
            }
        };
        (0..LINKS.len()).flat_map(|i| Direction::BOTH.map(|d| entry(i, d))).collect()
    }

    fn flows(&self) -> Vec<FlowSummary> {
        let entry = |(index, (name, from, to, kind)): (usize, (&str, &str, &str, &str))| {
            let delays = self.delays[index].distribution();
            FlowSummary {
                name: name.to_owned(),
                from: from.to_owned(),
                to: to.to_owned(),
                kind: kind.to_owned(),
                started_s: Some(if index == 1 { 5.0 } else { 0.0 }),
                ended_s: Some(30.0),
                sent_bytes: self.received[index],
                received_bytes: self.received[index],
                goodput_bit_per_s: self.received[index] as f64 * 8.0 / 30.0,
                retransmits: (index == 0).then_some(self.retransmits),
                lost_datagrams: (index == 1).then_some(self.missing),
                responses: (index == 2).then_some(3000),
                rtt: delays.filter(|_| index == 0),
                delay: delays.filter(|_| index == 1),
                latency: delays.filter(|_| index == 2),
                ..FlowSummary::default()
            }
        };
        FLOWS.into_iter().enumerate().map(entry).collect()
    }
}

fn lateness(trusted: bool) -> Lateness {
    let mut histogram = Histogram::new();
    let mut random = RandomStream::new(7, "lateness");
    for _ in 0..214_000 {
        let u = random.unit().max(1e-9);
        let tail = if trusted { 1e3 } else { 6e3 };
        histogram.record((9_000.0 + tail * (-u.ln()).powf(if trusted { 1.4 } else { 3.0 })) as u64);
    }
    Lateness { distribution: histogram.distribution(), tolerance_ns: 1_350_000, histogram }
}

fn topology() -> Topology {
    let node = |name: &str, role, x, y, last: u8| TopologyNode {
        name: name.to_owned(),
        role,
        x,
        y,
        addresses: vec![format!("10.0.0.{last}/30"), format!("fd6e:6574::{last}/64")],
    };
    let link = |(name, a, b, rate, delay): (&str, &str, &str, u64, u64)| {
        let text = format!("{} Mbit/s, {} ms, droptail", rate / 1_000_000, delay as f64 / 1e6);
        TopologyLink {
            name: name.to_owned(),
            ends: [a.to_owned(), b.to_owned()],
            text: [text.clone(), text],
            rate_bit_per_s: [Some(rate); 2],
            delay_ns: [delay; 2],
        }
    };
    Topology {
        nodes: vec![
            node("alice", NodeRole::Host, 0.0, 0.1, 1),
            node("carol", NodeRole::Host, 0.03, 0.42, 5),
            node("r1", NodeRole::Router, 0.33, 0.25, 2),
            node("r2", NodeRole::Router, 0.68, 0.25, 10),
            node("bob", NodeRole::Host, 1.0, 0.08, 14),
            node("dave", NodeRole::Host, 0.97, 0.4, 18),
        ],
        links: LINKS.map(link).to_vec(),
    }
}

fn programs() -> Vec<ProgramSummary> {
    let program = |name: &str, node: &str, command: &str, end, as_expected| ProgramSummary {
        name: name.to_owned(),
        node: node.to_owned(),
        command: command.to_owned(),
        started_s: Some(0.0),
        ready_s: Some(0.042),
        ended_s: Some(20.4),
        end: Some(end),
        as_expected,
        ..ProgramSummary::default()
    };
    let mut failed =
        program("carol.curl", "carol", "curl -sf http://dave/", ProgramEnd::Exit(22), false);
    failed.last_stderr = vec!["curl: (22) The requested URL returned error: 404".to_owned()];
    vec![
        program("bob.iperf3", "bob", "iperf3 -s -1", ProgramEnd::Exit(0), true),
        program("alice.iperf3", "alice", "iperf3 -c bob -t 20 -C cubic", ProgramEnd::Exit(0), true),
        program("dave.python3", "dave", "python3 -m http.server 80", ProgramEnd::Stopped, true),
        failed,
    ]
}

fn record(folder: &RunFolder, trusted: bool) -> RunRecord {
    let lateness = lateness(trusted);
    let event =
        |at_s, text: &str| EventRecord { at_s, text: text.to_owned(), ..Default::default() };
    let expectation = |text: &str, outcome, measured: &str| ExpectationRecord {
        text: text.to_owned(),
        outcome,
        measured: Some(measured.to_owned()),
    };
    let reason = if trusted {
        "p99.9 lateness within max(1 ms, 5 % of the shortest path's delay); no packet dropped by \
         the machine"
    } else {
        "p99.9 lateness is above the tolerated 1.35 ms: use a less busy machine, or precision = \
         \"high\""
    };
    RunRecord {
        schema: SCHEMA.to_owned(),
        version: "0.1.0".to_owned(),
        name: "dumbbell".to_owned(),
        id: folder.id().to_owned(),
        seed: 42,
        status: Status::Finished,
        exit_code: Some(if trusted { Exit::Expectation } else { Exit::Untrusted }),
        started_unix_ms: 1_795_237_334_000,
        ended_unix_ms: Some(1_795_237_364_200),
        planned_s: 30.0,
        elapsed_s: 30.0,
        interval_s: 0.1,
        repeat: "netarium run dumbbell.toml --seed 42".to_owned(),
        plan_hash: "5f1d09c3a1b77e20".to_owned(),
        machine: Machine {
            kernel: "Linux 6.12.0".to_owned(),
            cpu: "Example CPU 3000".to_owned(),
            cores: 2,
            memory_bytes: 8_000_000_000,
            realtime: false,
        },
        engine: Engine {
            name: "veth + packet socket".to_owned(),
            why: "the best one that works here".to_owned(),
            rejected: vec![RejectedEngine {
                name: "TUN".to_owned(),
                reason: "/dev/net/tun cannot be opened: permission denied".to_owned(),
            }],
        },
        verdict: Some(Verdict { trusted, machine_fit: trusted, reasons: vec![reason.to_owned()] }),
        lateness,
        host: HostFaults { cpu_s: 1.9, steal_s: 0.02, ..HostFaults::default() },
        load: Some(HostLoad {
            busy: 0.41,
            busiest: 0.97,
            flows_cpu_s: 2.5,
            programs_cpu_s: Some(0.75),
            cpu_wait_s: Some(0.125),
            suspended_s: 0.0,
            other_labs: 3,
            memory_stall_s: None,
        }),
        topology: topology(),
        programs: programs(),
        events: vec![
            event(10.0, "link core: delay = 100 ms"),
            event(20.0, "link core: down for 100 ms"),
        ],
        expectations: vec![
            expectation("flow.alice-bob.goodput.mean >= 5 Mbit/s", Outcome::Passed, "6.81 Mbit/s"),
            expectation("flow.carol-dave.delay.p99 <= 150 ms", Outcome::Failed, "181 ms"),
        ],
        ..RunRecord::default()
    }
}
