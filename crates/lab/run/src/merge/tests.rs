use std::path::Path;

use crate::record::cluster::Outage;
use crate::record::{Clock, Engine, EventRecord, HostFaults, Status};
use crate::sample::shares;
use crate::table::Table;
use crate::{CaptureId, FlowSample, Level, PacketRecord, Transfer, pcapng};
use base::{Bandwidth, Bytes, FlowId, IfaceId, RandomStream};
use fabric::{LinkStats, QueueLevel, Share};
use proptest::prelude::*;

use super::*;
use crate::effect::HostEffects;
use crate::observation::{Ending, ObservationWriter, Peer};
use crate::{Batch, FlowCounters, FlowEnds, FlowLifetime, Outcome, Start};

const INTERVAL_COUNT: u64 = 8;

/// Wall-clock time at lab time zero.
const STARTED_UNIX_NS: u64 = 1_000_000_000_000;

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

struct TestRun {
    plan: Plan,
    batches: Vec<Batch>,
    samples: Vec<FlowSample>,
    transfers: Vec<Transfer>,
    result: FlowResult,
    queue_delays: Vec<Histogram>,
}

/// The end of the run, which is not a sampling time.
fn ended() -> Time {
    millis(INTERVAL_COUNT * 100 + 37)
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

fn test_run(random: &mut RandomStream) -> TestRun {
    let plan = plan();
    let positions = plan.links.len() * 2;
    let mut totals = vec![LinkStats::default(); positions];
    let mut queue_delays = vec![Histogram::new(); positions];
    let (mut batches, mut samples, mut transfers) = (Vec::new(), Vec::new(), Vec::new());
    let mut histogram = Histogram::new();
    let times = (1..=INTERVAL_COUNT).map(|n| millis(n * 100)).chain([ended()]);
    for (number, at) in times.enumerate() {
        let mut links = Vec::new();
        for (position, stats) in totals.iter_mut().enumerate() {
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
            queue_delays[position].record_many(peak, packets);
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
    TestRun { plan, batches, samples, transfers, result, queue_delays }
}

fn begun(plan: &Plan, into: &RunFolder) -> RunRecord {
    let (repeat, engine) = ("", Engine::default());
    crate::begin(plan, Start { id: into.id(), repeat, clock: Clock::Wall, engine })
}

/// The record of the same run on one host.
fn record_on_one_host(test_run: &TestRun, into: &RunFolder) -> RunRecord {
    let plan = &test_run.plan;
    let options = options(plan, Vec::new(), STARTED_UNIX_NS);
    let recorder = Recorder::start(into, &options).unwrap();
    let mut ledgers = Ledgers::new(plan, recorder.handle());
    test_run.batches.iter().for_each(|batch| ledgers.enter(batch.clone()));
    test_run.samples.iter().for_each(|sample| ledgers.flow(sample.clone()));
    test_run.transfers.iter().for_each(|transfer| ledgers.transfer(*transfer));
    let mut record = begun(plan, into);
    record.status = Status::Finished;
    let ended = RunResults {
        plan,
        at: ended(),
        flow_results: std::slice::from_ref(&test_run.result),
        links: &ledgers.links,
        flows: &ledgers.flows,
        control: &[],
        bundles: &ledgers.bundles,
        queue_delays: &test_run.queue_delays,
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

/// The counters of each shard: the increase of each row is split among the shards.
fn counters(test_run: &TestRun, shards: usize, random: &mut RandomStream) -> Vec<Vec<Batch>> {
    let positions = test_run.batches[0].links.len();
    let mut totals = vec![vec![LinkStats::default(); positions]; shards];
    let mut before = vec![LinkStats::default(); positions];
    let mut batches: Vec<Vec<Batch>> = vec![Vec::new(); shards];
    for batch in &test_run.batches {
        let mut shard_batches: Vec<Batch> = (0..shards)
            .map(|shard| Batch {
                // Shards end at different times.
                at: if batch.at == ended() {
                    millis(INTERVAL_COUNT * 100 + 37 - shard as u64)
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
            let (dropping_shard, queueing_shard) =
                (random.below(shards as u64), random.below(shards as u64));
            for (shard, own) in totals.iter_mut().enumerate() {
                let is_last = shard + 1 == shards;
                let take_part = |left: u64, random: &mut RandomStream| {
                    if is_last { left } else { random.below(left + 1) }
                };
                let (p, b) = (take_part(packets, random), take_part(bytes, random));
                (packets, bytes) = (packets - p, bytes - b);
                let own = &mut own[at];
                own.sent_packets += p;
                own.sent_bytes += b;
                if shard as u64 == dropping_shard {
                    for reason in 0..own.drops.len() {
                        own.drops[reason] += stats.drops[reason] - last.drops[reason];
                    }
                }
                let is_queueing = shard as u64 == queueing_shard;
                let level = if is_queueing { *level } else { QueueLevel::default() };
                shard_batches[shard].links.push((*position, own.clone(), level));
            }
        }
        for (number, share) in batch.shares.iter().enumerate() {
            shard_batches[number % shards].shares.push(*share);
        }
        for (shard, batch) in shard_batches.into_iter().enumerate() {
            batches[shard].push(batch);
        }
    }
    batches
}

/// Writes the folders of shards that together contain all observations of a run.
fn write_shards(
    test_run: &TestRun,
    all: usize,
    parent: &Path,
    random: &mut RandomStream,
) -> ClusterRun {
    let batches = counters(test_run, all, random);
    let (opener, accepter) = (random.below(all as u64), random.below(all as u64));
    let agent = |(shard, batches): (usize, &Vec<Batch>)| {
        let (opens, accepts) = (shard as u64 == opener, shard as u64 == accepter);
        let shard = TestShard { test_run, all, shard, opens, accepts };
        let folder = RunFolder::create(parent, "shard").unwrap();
        shard.write(&folder, batches);
        let name = format!("m{}", shard.shard + 1);
        let folder = Some(folder.path().to_owned());
        AgentRun { name, folder, ..AgentRun::default() }
    };
    let owner = |at: usize| (at > 0).then(|| (at - 1).min(all - 1) as u16);
    ClusterRun {
        agents: batches.iter().enumerate().map(agent).collect(),
        owners: (0..test_run.plan.nodes.len()).map(owner).collect(),
        status: Some(Status::Finished),
        ..ClusterRun::default()
    }
}

struct TestShard<'a> {
    test_run: &'a TestRun,
    all: usize,
    shard: usize,
    /// Whether it has the opening end of the flow.
    opens: bool,
    /// Whether it has the accepting end of the flow.
    accepts: bool,
}

impl TestShard<'_> {
    fn write(&self, folder: &RunFolder, batches: &[Batch]) {
        let plan = &self.test_run.plan;
        // The wall clocks of the agents differ.
        let started = STARTED_UNIX_NS + self.shard as u64 * 1_000;
        self.log(folder, started);
        let mut writer = ObservationWriter::start(folder, plan, started).unwrap();
        for (batch, sample) in batches.iter().zip(&self.test_run.samples) {
            writer.batch(batch);
            self.write_sample(&mut writer, sample);
        }
        if self.opens {
            for transfer in &self.test_run.transfers {
                writer.write(&Observation::Transfer(*transfer));
            }
        }
        self.programs(folder, &mut writer);
        let is_here = |at: usize| at % self.all == self.shard;
        let queue_delays = self.test_run.queue_delays.iter().enumerate();
        let queue_delays: Vec<Histogram> = queue_delays
            .map(
                |(at, queue_delays)| {
                    if is_here(at) { queue_delays.clone() } else { Histogram::new() }
                },
            )
            .collect();
        let peer = |peer: usize| Peer {
            peer: peer as u16,
            sent_datagrams: 10,
            datagrams: 10,
            packets: 10,
            ..Peer::default()
        };
        let peers = (0..self.all).filter(|peer| *peer != self.shard).map(peer).collect();
        writer.finish(self.result(), &queue_delays, peers, self.ending()).unwrap();
    }

    fn log(&self, folder: &RunFolder, started_unix_ns: u64) {
        let options = options(&self.test_run.plan, vec!["a.eth0".to_owned()], started_unix_ns);
        let recorder = Recorder::start(folder, &options).unwrap();
        let log = recorder.handle();
        log.log(millis(10 + self.shard as u64), Level::Info, "p", "started");
        log.log(millis(500), Level::Info, "event", "link left goes down");
        let (capture, dropped, outbound, bytes) = (CaptureId(0), None, true, &[0x45; 20][..]);
        let (at, length) = (millis(20), 20);
        log.packet(&PacketRecord { at, capture, outbound, dropped, bytes, length });
        assert!(recorder.finish().error.is_none());
    }

    /// The part of a flow's sample that the local ends measure.
    fn write_sample(&self, writer: &mut ObservationWriter, sample: &FlowSample) {
        let (opens, accepts) = (u64::from(self.opens), u64::from(self.accepts));
        if opens + accepts > 0 {
            let mut part = sample.clone();
            part.sent_bytes *= opens;
            part.received_bytes *= accepts;
            part.rtt = part.rtt.filter(|_| self.opens);
            writer.write(&Observation::Flow(Box::new(part)));
        }
    }

    fn result(&self) -> Vec<FlowResult> {
        let mut part = self.test_run.result.clone();
        part.ends = match (self.opens, self.accepts) {
            (false, false) => return Vec::new(),
            (true, true) => FlowEnds::Both,
            (true, false) => FlowEnds::Opening,
            (false, true) => FlowEnds::Accepting,
        };
        part.sent_bytes *= u64::from(self.opens);
        part.received_bytes *= u64::from(self.accepts);
        part.goodput = if self.accepts { part.goodput } else { Histogram::new() };
        vec![part]
    }

    /// The first shard has the first program, the last of several shards has the second.
    fn programs(&self, folder: &RunFolder, writer: &mut ObservationWriter) {
        for (at, program) in self.test_run.plan.programs.iter().enumerate() {
            if at.min(self.all - 1) == self.shard {
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
            at: millis(INTERVAL_COUNT * 100 + 37 - self.shard as u64),
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
    fn merged_shards_equal_run_on_one_host(seed in any::<u64>(), all in 1_usize..5) {
        let mut random = RandomStream::new(seed, "merge");
        let test_run = test_run(&mut random);
        let parent = tempfile::tempdir().unwrap();
        let reference = RunFolder::create(parent.path(), "reference").unwrap();
        let expected = record_on_one_host(&test_run, &reference);
        let cluster_run = write_shards(&test_run, all, parent.path(), &mut random);
        let into = RunFolder::create(parent.path(), "merged").unwrap();
        let started = begun(&test_run.plan, &into);
        let record = merge(&test_run.plan, &cluster_run, started, &into).unwrap();
        prop_assert_eq!(&record.links, &expected.links);
        prop_assert_eq!(&record.flows, &expected.flows);
        prop_assert_eq!(&record.expectations, &expected.expectations);
        prop_assert_eq!(record.elapsed_s.to_bits(), expected.elapsed_s.to_bits());
        for table in ["links.parquet", "flows.parquet", "transfers.parquet", shares::FILE] {
            prop_assert_eq!(rows(&into, table), rows(&reference, table), "{}", table);
        }
        prop_assert_eq!(record.status, Status::Finished);
        prop_assert_eq!(record.events.len(), 1);
        let verdict = record.verdict.as_ref().unwrap();
        prop_assert!(verdict.trusted, "{:?}", verdict);
        prop_assert!(record.warnings.is_empty(), "{:?}", record.warnings);
        prop_assert!(into.read_record().unwrap().cluster.is_some());
    }
}

fn two_shards(seed: u64) -> (tempfile::TempDir, TestRun, ClusterRun, RunFolder) {
    let mut random = RandomStream::new(seed, "merge");
    let test_run = test_run(&mut random);
    let parent = tempfile::tempdir().unwrap();
    let cluster_run = write_shards(&test_run, 2, parent.path(), &mut random);
    let into = RunFolder::create(parent.path(), "merged").unwrap();
    (parent, test_run, cluster_run, into)
}

/// Programs of a lab can write into the folder if it is in `/tmp`.
#[test]
fn copies_output_without_following_links() {
    let (parent, test_run, cluster_run, into) = two_shards(1);
    let outside = parent.path().join("outside");
    std::fs::write(&outside, "kept").unwrap();
    for program in &test_run.plan.programs {
        let folder = into.program(&program.name).unwrap();
        std::os::unix::fs::symlink(&outside, folder.join("stdout")).unwrap();
    }
    merge(&test_run.plan, &cluster_run, begun(&test_run.plan, &into), &into).unwrap();
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "kept");
    for program in &test_run.plan.programs {
        let output = into.file("programs").join(&program.name).join("stdout");
        assert!(std::fs::symlink_metadata(&output).unwrap().is_file());
    }
    let (parent, test_run, cluster_run, into) = two_shards(2);
    let outside = parent.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, into.file("programs")).unwrap();
    merge(&test_run.plan, &cluster_run, begun(&test_run.plan, &into), &into).unwrap();
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn merges_logs_captures_and_programs_output() {
    let (_parent, test_run, cluster_run, into) = two_shards(1);
    let record = merge(&test_run.plan, &cluster_run, begun(&test_run.plan, &into), &into).unwrap();
    let log = std::fs::read_to_string(into.file("log.jsonl")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3, "an event is logged once: {log}");
    assert!(lines[0].contains("\"member\":\"m1\"") && lines[1].contains("\"member\":\"m2\""));
    assert!(lines[2].contains("goes down") && !lines[2].contains("member"), "{log}");
    for program in &test_run.plan.programs {
        let output = into.file("programs").join(&program.name).join("stdout");
        assert_eq!(std::fs::read_to_string(output).unwrap(), program.name);
    }
    let capture = pcapng::Part { path: into.file("a.eth0.pcapng"), shift_ns: 0 };
    let bytes = std::fs::read(&capture.path).unwrap();
    let stamp = (STARTED_UNIX_NS + 20_000_000) as u32;
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
    let (_parent, test_run, cluster_run, into) = two_shards(2);
    let file = cluster_run.agents[1].folder.as_ref().unwrap().join(crate::observation::FILE);
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() - 9]).unwrap();
    let record = merge(&test_run.plan, &cluster_run, begun(&test_run.plan, &into), &into).unwrap();
    let verdict = record.verdict.as_ref().unwrap();
    assert!(!verdict.trusted && verdict.reasons[0].contains("the results of m2"), "{verdict:?}");
    assert!(record.warnings.iter().any(|text| text.starts_with("m2: its results end at")));
    let members = &record.cluster.as_ref().unwrap().members;
    assert_eq!((members[0].status, members[1].status), (Status::Finished, Status::Killed));
    assert_eq!(record.exit_code, Some(crate::Exit::Untrusted));
}

#[test]
fn merges_without_missing_shard() {
    let (_parent, test_run, mut cluster_run, into) = two_shards(3);
    cluster_run.agents[1].folder = None;
    cluster_run.agents[1].outages.push(Outage { at_s: 0.4, until_s: None });
    let record = merge(&test_run.plan, &cluster_run, begun(&test_run.plan, &into), &into).unwrap();
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
    let folder = RunFolder::create(parent.path(), "shard").unwrap();
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
    let agent = || AgentRun { folder: Some(folder.path().to_owned()), ..AgentRun::default() };
    let cluster_run = ClusterRun { agents: vec![agent(), agent()], ..ClusterRun::default() };
    let into = RunFolder::create(parent.path(), "merged").unwrap();
    let record = merge(&plan, &cluster_run, begun(&plan, &into), &into).unwrap();
    assert!(!record.verdict.unwrap().trusted);
}
