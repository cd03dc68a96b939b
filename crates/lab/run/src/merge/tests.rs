use std::path::Path;

use crate::record::{Clock, Engine, EventRecord, HostFaults};
use crate::sample::shares;
use crate::table::Table;
use crate::{CaptureId, FlowSample, Level, PacketRecord, Transfer, pcapng};
use base::{Bandwidth, Bytes, FlowId, IfaceId, RandomStream};
use fabric::{LinkStats, QueueLevel, Share};
use proptest::prelude::*;

use super::*;
use crate::effect::HostEffects;
use crate::observation::{Ending, ObservationWriter, Peer};
use crate::{Batch, FlowCounters, FlowLifetime, Half, Outcome, Start};

const INTERVALS: u64 = 8;

/// Wall-clock time at lab time zero.
const STARTED: u64 = 1_000_000_000_000;

fn plan() -> Plan {
    let text = r#"
        [lab]
        duration = "1 s"
        interval = "100 ms"
        [node.r]
        kind = "router"
        [node.a]
        [node.b]
        [[link]]
        name = "left"
        ends = ["r", "a"]
        rate = "10 Mbit/s"
        delay = "5 ms"
        [[link]]
        ends = ["r", "b"]
        delay = "5 ms"
        [[flow]]
        name = "f"
        from = "a"
        to = "b"
        [[program]]
        node = "a"
        run = "true"
        [[program]]
        node = "b"
        run = "false"
        [[expect]]
        that = "link.left.down.throughput > 0 bit/s"
        [[expect]]
        that = "flow.f.goodput.max > 1 bit/s"
        [[expect]]
        that = "flow.f.received >= 1 B"
    "#;
    match lab::parse("pair.toml", text, Path::new(".")) {
        Ok(mut lab) => lab.plans.swap_remove(0),
        Err(errors) => panic!("{errors:?}"),
    }
}

fn millis(n: u64) -> Time {
    Time::ZERO + Span::from_millis(n)
}

/// All observations of a run.
struct World {
    plan: Plan,
    batches: Vec<Batch>,
    samples: Vec<FlowSample>,
    transfers: Vec<Transfer>,
    result: FlowResult,
    waited: Vec<Histogram>,
}

/// The end of the run, which is not a sampling time.
fn ended() -> Time {
    millis(INTERVALS * 100 + 37)
}

fn share(from: u32, flow: u32, sent: u64) -> Share {
    Share {
        from: IfaceId(from),
        to: IfaceId(4 - from),
        flow,
        stream: true,
        share: Some(Bandwidth::from_mbits_per_sec(5)),
        most: None,
        since: millis(3),
        sent,
    }
}

fn world(random: &mut RandomStream) -> World {
    let plan = plan();
    let positions = plan.links.len() * 2;
    let mut whole = vec![LinkStats::default(); positions];
    let mut waited = vec![Histogram::new(); positions];
    let (mut batches, mut samples, mut transfers) = (Vec::new(), Vec::new(), Vec::new());
    let mut histogram = Histogram::new();
    let times = (1..=INTERVALS).map(|n| millis(n * 100)).chain([ended()]);
    for (number, at) in times.enumerate() {
        let mut links = Vec::new();
        for (position, stats) in whole.iter_mut().enumerate() {
            let packets = random.below(4) * random.below(100);
            stats.sent_packets += packets;
            stats.sent_bytes += packets * 1000;
            stats.drops[random.below(3) as usize] += packets / 10;
            let peak = if packets > 50 { packets * 100 } else { 0 };
            let level = QueueLevel {
                packets: peak / 1000,
                bytes: peak / 2,
                peak_packets: peak / 500,
                peak_bytes: peak,
                peak_delay: Span::from_nanos(peak),
            };
            waited[position].record_many(peak, packets);
            links.push((position as u32, stats.clone(), level));
        }
        let sent = number as u64 * 100;
        let shares = vec![share(1, 5, sent), share(3, 6, sent * 2)];
        batches.push(Batch { at, links, shares, ..Batch::default() });
        let mut sample = FlowSample::empty(at, Span::from_millis(100), FlowId(0));
        sample.sent_bytes = random.below(10_000);
        sample.received_bytes = random.below(10_000);
        sample.rtt = Some(Span::from_nanos(random.below(1 << 20)));
        histogram.record(sample.received_bytes);
        samples.push(sample);
        transfers.push(Transfer {
            flow: FlowId(0),
            start: at,
            size: Bytes::new(number as u64),
            completion: (number % 2 == 0).then_some(Span::from_nanos(5)),
            ideal: None,
            retransmits: Some(1),
        });
    }
    let lifetime = FlowLifetime {
        outcome: Outcome::Completed,
        started: Some(millis(1)),
        ended: Some(ended()),
        active: Span::from_millis(800),
        completion: Some(Span::from_millis(800)),
    };
    let mut result = FlowCounters::default().into_result(
        FlowId(0),
        "f".to_owned(),
        &plan.flows[0].traffic,
        lifetime,
    );
    (result.sent_bytes, result.received_bytes) = (random.below(1 << 30), random.below(1 << 30));
    result.goodput = histogram;
    World { plan, batches, samples, transfers, result, waited }
}

fn begun(plan: &Plan, into: &RunFolder) -> RunRecord {
    let (repeat, engine) = ("", Engine::default());
    crate::begin(plan, Start { id: into.id(), repeat, clock: Clock::Wall, engine })
}

/// The record of the same run on one host.
fn alone(world: &World, into: &RunFolder) -> RunRecord {
    let plan = &world.plan;
    let options = options(plan, Vec::new(), STARTED);
    let recorder = Recorder::start(into, &options).unwrap();
    let mut ledgers = Ledgers::new(plan, recorder.handle());
    world.batches.iter().for_each(|batch| ledgers.enter(batch.clone()));
    world.samples.iter().for_each(|sample| ledgers.flow(sample.clone()));
    world.transfers.iter().for_each(|transfer| ledgers.transfer(*transfer));
    let mut record = begun(plan, into);
    record.status = Status::Finished;
    let ended = RunResults {
        plan,
        at: ended(),
        flow_results: std::slice::from_ref(&world.result),
        links: &ledgers.links,
        flows: &ledgers.flows,
        control: &[],
        bundles: &ledgers.bundles,
        queue_delays: &world.waited,
        effects: Some(&HostEffects::default()),
    };
    crate::complete(&mut record, &ended);
    assert!(recorder.finish().error.is_none());
    record
}

fn options(plan: &Plan, captures: Vec<String>, started_unix_ns: u64) -> RecorderOptions {
    RecorderOptions {
        started_unix_ns,
        links: plan.links.iter().map(|link| link.name.clone()).collect(),
        flows: plan.flows.iter().map(|flow| flow.name.clone()).collect(),
        nodes: plan.nodes.iter().map(|node| node.name.clone()).collect(),
        captures,
        lossless: true,
        ..RecorderOptions::default()
    }
}

/// The counters of each of `all` shards: the increase of each row is split among them.
fn counters(world: &World, all: usize, random: &mut RandomStream) -> Vec<Vec<Batch>> {
    let positions = world.batches[0].links.len();
    let mut seen = vec![vec![LinkStats::default(); positions]; all];
    let mut before = vec![LinkStats::default(); positions];
    let mut batches: Vec<Vec<Batch>> = vec![Vec::new(); all];
    for batch in &world.batches {
        let mut cluster_run: Vec<Batch> = (0..all)
            .map(|piece| Batch {
                // Shards end at different times.
                at: if batch.at == ended() {
                    millis(INTERVALS * 100 + 37 - piece as u64)
                } else {
                    batch.at
                },
                ..Batch::default()
            })
            .collect();
        for (position, stats, level) in &batch.links {
            let at = *position as usize;
            let last = std::mem::replace(&mut before[at], stats.clone());
            let (mut packets, mut bytes) =
                (stats.sent_packets - last.sent_packets, stats.sent_bytes - last.sent_bytes);
            let (dropper, waiter) = (random.below(all as u64), random.below(all as u64));
            for (piece, own) in seen.iter_mut().enumerate() {
                let is_last = piece + 1 == all;
                let some = |left: u64, random: &mut RandomStream| {
                    if is_last { left } else { random.below(left + 1) }
                };
                let (p, b) = (some(packets, random), some(bytes, random));
                (packets, bytes) = (packets - p, bytes - b);
                let own = &mut own[at];
                own.sent_packets += p;
                own.sent_bytes += b;
                if piece as u64 == dropper {
                    for reason in 0..own.drops.len() {
                        own.drops[reason] += stats.drops[reason] - last.drops[reason];
                    }
                }
                let is_waiter = piece as u64 == waiter;
                let level = if is_waiter { *level } else { QueueLevel::default() };
                cluster_run[piece].links.push((*position, own.clone(), level));
            }
        }
        for (number, share) in batch.shares.iter().enumerate() {
            cluster_run[number % all].shares.push(*share);
        }
        for (piece, batch) in cluster_run.into_iter().enumerate() {
            batches[piece].push(batch);
        }
    }
    batches
}

/// Folders of shards that together have all observations of a run.
fn split(world: &World, all: usize, parent: &Path, random: &mut RandomStream) -> ClusterRun {
    let batches = counters(world, all, random);
    let (opener, accepter) = (random.below(all as u64), random.below(all as u64));
    let member = |(piece, batches): (usize, &Vec<Batch>)| {
        let (opens, accepts) = (piece as u64 == opener, piece as u64 == accepter);
        let piece = Split { world, all, piece, opens, accepts };
        let folder = RunFolder::create(parent, "piece").unwrap();
        piece.write(&folder, batches);
        let name = format!("m{}", piece.piece + 1);
        let folder = Some(folder.path().to_owned());
        AgentRun { name, folder, ..AgentRun::default() }
    };
    let owner = |at: usize| (at > 0).then(|| (at - 1).min(all - 1) as u16);
    ClusterRun {
        agents: batches.iter().enumerate().map(member).collect(),
        owners: (0..world.plan.nodes.len()).map(owner).collect(),
        status: Some(Status::Finished),
        ..ClusterRun::default()
    }
}

/// A shard of a run.
struct Split<'a> {
    world: &'a World,
    all: usize,
    piece: usize,
    /// The ends of the flow that it has.
    opens: bool,
    accepts: bool,
}

impl Split<'_> {
    fn write(&self, folder: &RunFolder, batches: &[Batch]) {
        let plan = &self.world.plan;
        // The wall clocks of the agents differ.
        let started = STARTED + self.piece as u64 * 1_000;
        self.log(folder, started);
        let mut writer = ObservationWriter::start(folder, plan, started).unwrap();
        for (batch, sample) in batches.iter().zip(&self.world.samples) {
            writer.batch(batch);
            self.half(&mut writer, sample);
        }
        if self.opens {
            for transfer in &self.world.transfers {
                writer.write(&Observation::Transfer(*transfer));
            }
        }
        self.programs(folder, &mut writer);
        let is_here = |at: usize| at % self.all == self.piece;
        let waited = self.world.waited.iter().enumerate();
        let waited: Vec<Histogram> = waited
            .map(|(at, waited)| if is_here(at) { waited.clone() } else { Histogram::new() })
            .collect();
        let peer = |peer: usize| Peer {
            peer: peer as u16,
            sent_datagrams: 10,
            datagrams: 10,
            packets: 10,
            ..Peer::default()
        };
        let peers = (0..self.all).filter(|peer| *peer != self.piece).map(peer).collect();
        writer.finish(self.result(), &waited, peers, self.ending()).unwrap();
    }

    fn log(&self, folder: &RunFolder, started_unix_ns: u64) {
        let options = options(&self.world.plan, vec!["a.eth0".to_owned()], started_unix_ns);
        let recorder = Recorder::start(folder, &options).unwrap();
        let log = recorder.handle();
        log.log(millis(10 + self.piece as u64), Level::Info, "p", "started");
        log.log(millis(500), Level::Info, "event", "link left goes down");
        let (capture, dropped, outbound, bytes) = (CaptureId(0), None, true, &[0x45; 20][..]);
        log.packet(&PacketRecord { at: millis(20), capture, outbound, dropped, bytes });
        assert!(recorder.finish().error.is_none());
    }

    /// The part of a flow's sample that the local ends measure.
    fn half(&self, writer: &mut ObservationWriter, sample: &FlowSample) {
        let (opens, accepts) = (u64::from(self.opens), u64::from(self.accepts));
        if opens + accepts > 0 {
            let mut half = sample.clone();
            half.sent_bytes *= opens;
            half.received_bytes *= accepts;
            half.rtt = half.rtt.filter(|_| self.opens);
            writer.write(&Observation::Flow(Box::new(half)));
        }
    }

    fn result(&self) -> Vec<FlowResult> {
        let mut half = self.world.result.clone();
        half.half = match (self.opens, self.accepts) {
            (false, false) => return Vec::new(),
            (true, true) => Half::Whole,
            (true, false) => Half::Opening,
            (false, true) => Half::Accepting,
        };
        half.sent_bytes *= u64::from(self.opens);
        half.received_bytes *= u64::from(self.accepts);
        half.goodput = if self.accepts { half.goodput } else { Histogram::new() };
        vec![half]
    }

    /// The first shard has the first program, the last of several shards has the second.
    fn programs(&self, folder: &RunFolder, writer: &mut ObservationWriter) {
        for (at, program) in self.world.plan.programs.iter().enumerate() {
            if at.min(self.all - 1) == self.piece {
                let name = program.name.clone();
                let output = folder.program(&name).unwrap();
                std::fs::write(output.join("stdout"), name.as_bytes()).unwrap();
                let as_expected = true;
                let summary = ProgramSummary { name, as_expected, ..ProgramSummary::default() };
                writer.write(&Observation::Program(at as u32, Box::new(summary)));
            }
        }
    }

    fn ending(&self) -> Ending {
        let mut lateness = Histogram::new();
        lateness.record_many(20_000, 100);
        Ending {
            at: millis(INTERVALS * 100 + 37 - self.piece as u64),
            // The coordinator stopped it.
            status: Status::Interrupted,
            lateness,
            events: vec![EventRecord {
                at_s: 0.5,
                text: "link left goes down".to_owned(),
                ..EventRecord::default()
            }],
            clock_bound: Some(Span::from_nanos(10_000)),
            ..Ending::default()
        }
    }
}

/// A table's contents as text, sorted: rows of equal time have no order.
fn rows(folder: &RunFolder, name: &str) -> Vec<String> {
    let table = Table::read(&folder.file(name)).unwrap();
    let columns: Vec<String> = table.columns().iter().map(|column| column.name.clone()).collect();
    let mut rows = vec![String::new(); table.rows()];
    for column in columns {
        let integers =
            table.integers(&column).map(|all| all.iter().map(|v| format!("{v:?}")).collect());
        let cells: Vec<String> = integers.or_else(|| table.texts(&column)).unwrap();
        for (row, cell) in rows.iter_mut().zip(cells) {
            row.extend([column.as_str(), "=", &cell, " "]);
        }
    }
    rows.sort_unstable();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn merged_shards_equal_one_machine(seed in any::<u64>(), all in 1_usize..5) {
        let mut random = RandomStream::new(seed, "merge");
        let world = world(&mut random);
        let parent = tempfile::tempdir().unwrap();
        let whole = RunFolder::create(parent.path(), "whole").unwrap();
        let expected = alone(&world, &whole);
        let cluster_run = split(&world, all, parent.path(), &mut random);
        let into = RunFolder::create(parent.path(), "merged").unwrap();
        let record = merge(&world.plan, &cluster_run, begun(&world.plan, &into), &into).unwrap();
        prop_assert_eq!(&record.links, &expected.links);
        prop_assert_eq!(&record.flows, &expected.flows);
        prop_assert_eq!(&record.expectations, &expected.expectations);
        prop_assert_eq!(record.elapsed_s.to_bits(), expected.elapsed_s.to_bits());
        for table in ["links.parquet", "flows.parquet", "transfers.parquet", shares::FILE] {
            prop_assert_eq!(rows(&into, table), rows(&whole, table), "{}", table);
        }
        prop_assert_eq!(record.status, Status::Finished);
        prop_assert_eq!(record.events.len(), 1);
        let verdict = record.verdict.as_ref().unwrap();
        prop_assert!(verdict.trusted, "{:?}", verdict);
        prop_assert!(record.warnings.is_empty(), "{:?}", record.warnings);
        prop_assert!(into.read_record().unwrap().cluster.is_some());
    }
}

fn two(seed: u64) -> (tempfile::TempDir, World, ClusterRun, RunFolder) {
    let mut random = RandomStream::new(seed, "merge");
    let world = world(&mut random);
    let parent = tempfile::tempdir().unwrap();
    let cluster_run = split(&world, 2, parent.path(), &mut random);
    let into = RunFolder::create(parent.path(), "merged").unwrap();
    (parent, world, cluster_run, into)
}

/// Programs of a lab can write into the folder if it is in `/tmp`.
#[test]
fn output_is_copied_through_no_link() {
    let (parent, world, cluster_run, into) = two(1);
    let outside = parent.path().join("outside");
    std::fs::write(&outside, "kept").unwrap();
    for program in &world.plan.programs {
        let folder = into.program(&program.name).unwrap();
        std::os::unix::fs::symlink(&outside, folder.join("stdout")).unwrap();
    }
    merge(&world.plan, &cluster_run, begun(&world.plan, &into), &into).unwrap();
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "kept");
    for program in &world.plan.programs {
        let output = into.file("programs").join(&program.name).join("stdout");
        assert!(std::fs::symlink_metadata(&output).unwrap().is_file());
    }
    let (parent, world, cluster_run, into) = two(2);
    let outside = parent.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, into.file("programs")).unwrap();
    merge(&world.plan, &cluster_run, begun(&world.plan, &into), &into).unwrap();
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn merges_logs_captures_and_programs_output() {
    let (_parent, world, cluster_run, into) = two(1);
    let record = merge(&world.plan, &cluster_run, begun(&world.plan, &into), &into).unwrap();
    let log = std::fs::read_to_string(into.file("log.jsonl")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3, "an event is logged once: {log}");
    assert!(lines[0].contains("\"member\":\"m1\"") && lines[1].contains("\"member\":\"m2\""));
    assert!(lines[2].contains("goes down") && !lines[2].contains("member"), "{log}");
    for program in &world.plan.programs {
        let output = into.file("programs").join(&program.name).join("stdout");
        assert_eq!(std::fs::read_to_string(output).unwrap(), program.name);
    }
    let capture = pcapng::Part { path: into.file("a.eth0.pcapng"), shift_ns: 0 };
    let bytes = std::fs::read(&capture.path).unwrap();
    let stamp = (STARTED + 20_000_000) as u32;
    let stamps = bytes.windows(4).filter(|word| *word == stamp.to_le_bytes()).count();
    assert_eq!(stamps, 2);
    let cluster = record.cluster.unwrap();
    assert_eq!(cluster.members.len(), 2);
    assert_eq!(
        (cluster.members[0].hosts.as_slice(), cluster.members[0].flows),
        (&["a".to_owned()][..], 1)
    );
    assert_eq!(cluster.trunks.len(), 2);
    assert_eq!(cluster.trunks[0].path_delay_ns, Some(10_000_000));
}

#[test]
fn observations_of_killed_shard_are_merged() {
    let (_parent, world, cluster_run, into) = two(2);
    let file = cluster_run.agents[1].folder.as_ref().unwrap().join(crate::observation::FILE);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 9]).unwrap();
    let record = merge(&world.plan, &cluster_run, begun(&world.plan, &into), &into).unwrap();
    let verdict = record.verdict.as_ref().unwrap();
    assert!(!verdict.trusted && verdict.reasons[0].contains("the results of m2"), "{verdict:?}");
    assert!(record.warnings.iter().any(|text| text.starts_with("m2: its results end at")));
    let members = &record.cluster.as_ref().unwrap().members;
    assert_eq!((members[0].status, members[1].status), (Status::Finished, Status::Killed));
    assert_eq!(record.exit_code, Some(crate::Exit::Untrusted));
}

#[test]
fn merges_without_missing_shard() {
    let (_parent, world, mut cluster_run, into) = two(3);
    cluster_run.agents[1].folder = None;
    cluster_run.agents[1].outages.push(Outage { at_s: 0.4, until_s: None });
    let record = merge(&world.plan, &cluster_run, begun(&world.plan, &into), &into).unwrap();
    let verdict = record.verdict.as_ref().unwrap();
    assert!(!verdict.trusted && verdict.reasons[0].contains("lost m2 (b) at 0.4 s"));
    assert_eq!(record.programs.len(), 2);
    assert!(record.warnings.iter().any(|text| text.contains("is unknown")), "{record:?}");
    assert!(!record.links.is_empty());
}

#[test]
fn invalid_counters_do_not_panic() {
    let plan = plan();
    let mut random = RandomStream::new(4, "foreign");
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "piece").unwrap();
    let mut writer = ObservationWriter::start(&folder, &plan, u64::MAX).unwrap();
    for _ in 0..500 {
        let stats = LinkStats { sent_packets: random.below(1 << 56), ..LinkStats::default() };
        let level = QueueLevel { peak_bytes: random.below(1 << 56), ..QueueLevel::default() };
        let at = Time::from_nanos(random.below(1 << 56));
        let links = vec![(random.below(4) as u32, stats, level)];
        let shares = vec![share(1, 5, random.below(1 << 56))];
        writer.batch(&Batch { at, links, shares, ..Batch::default() });
    }
    let ending = Ending {
        host: HostFaults { records_lost: 1 << 56, ..HostFaults::default() },
        ..Ending::default()
    };
    writer.finish(Vec::new(), &[], Vec::new(), ending).unwrap();
    let joined = || AgentRun { folder: Some(folder.path().to_owned()), ..AgentRun::default() };
    let cluster_run = ClusterRun { agents: vec![joined(), joined()], ..ClusterRun::default() };
    let into = RunFolder::create(parent.path(), "merged").unwrap();
    let record = merge(&plan, &cluster_run, begun(&plan, &into), &into).unwrap();
    assert!(!record.verdict.unwrap().trusted);
}
