use std::path::Path;

use crate::RunFolder;
use crate::record::{Failure, FailureKind, ProgramEnd};
use base::{Bytes, Distribution, FlowId, LinkId};
use bundler::sendbox::{self, Cause, State, Status, Transition};
use fabric::{LinkStats, QueueLevel, Share};
use lab::plan::Plan;

use super::*;
use crate::{Batch, FlowCounters, FlowLifetime, Outcome};

/// Two hosts at a router, with a flow and a program.
fn plan() -> Plan {
    let text = "[node.r]\nkind = \"router\"\n[node.a]\n[node.b]\n[[link]]\nends = [\"r\", \"a\"]\n[[link]]\nends = [\"r\", \"b\"]\n\
                [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n\
                [[program]]\nnode = \"a\"\nrun = \"true\"\n";
    lab::parse("pair.toml", text, Path::new(".")).unwrap().plans.swap_remove(0)
}

fn millis(n: u64) -> Time {
    Time::ZERO + Span::from_millis(n)
}

fn histogram(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    for value in values {
        histogram.record(*value);
    }
    histogram
}

fn share() -> Share {
    Share {
        from: base::IfaceId(1),
        to: base::IfaceId(3),
        flow: 7,
        stream: true,
        share: Some(base::Bandwidth::from_mbits_per_sec(5)),
        most: None,
        since: millis(3),
        sent: 1234,
    }
}

fn batch(at: u64, sent: u64) -> Batch {
    let stats = LinkStats { sent_packets: sent, sent_bytes: sent * 1500, ..LinkStats::default() };
    let level = QueueLevel { peak_bytes: 1500, peak_packets: 1, ..QueueLevel::default() };
    Batch {
        at: millis(at),
        links: vec![(0, stats, level), (3, LinkStats::default(), QueueLevel::default())],
        shares: vec![share()],
        ..Batch::default()
    }
}

fn result() -> FlowResult {
    let lifetime = FlowLifetime {
        outcome: Outcome::Failed("reset".to_owned()),
        started: Some(millis(1)),
        ended: Some(millis(9)),
        active: Span::from_millis(8),
        completion: None,
    };
    let mut counters = FlowCounters::default();
    counters.retransmits = 7;
    let traffic = &plan().flows[0].traffic;
    counters.into_result(FlowId(0), "f".to_owned(), traffic, lifetime)
}

fn other_observations() -> Vec<Observation> {
    let mut sample = FlowSample::empty(millis(100), Span::from_millis(100), FlowId(0));
    sample.delay = histogram(&[5, 9]).distribution();
    sample.retransmits = Some(3);
    let subflow = SubflowSample {
        at: millis(100),
        interval: Span::from_millis(100),
        flow: FlowId(0),
        subflow: 2,
        path: LinkId(1),
        sent_bytes: 1,
        received_bytes: 2,
        rtt: None,
        cwnd_bytes: Some(9),
        retransmits: 0,
        state: "stale",
    };
    let transfer = Transfer {
        flow: FlowId(0),
        start: millis(5),
        size: Bytes::new(100),
        completion: Some(Span::from_millis(2)),
        ideal: None,
        retransmits: Some(0),
    };
    let program = ProgramSummary { end: Some(ProgramEnd::Signal(9)), ..ProgramSummary::default() };
    vec![
        Observation::Flow(Box::new(sample)),
        Observation::Subflow(subflow),
        Observation::Transfer(transfer),
        Observation::Program(0, Box::new(program)),
    ]
}

fn read(bytes: &[u8], plan: &Plan) -> (Vec<Observation>, Option<crate::Error>) {
    let mut seen = Vec::new();
    let mut reader = match ObservationReader::new(bytes, Path::new("f"), plan) {
        Ok(reader) => reader,
        Err(error) => return (seen, Some(error)),
    };
    loop {
        match reader.next_observation() {
            Ok(Some(observation)) => seen.push(observation),
            Ok(None) => return (seen, None),
            Err(error) => return (seen, Some(error)),
        }
    }
}

/// Writes the file of a shard; returns its bytes, and its observations without the counters.
fn write_file(plan: &Plan) -> (Vec<u8>, Vec<Observation>) {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "shard").unwrap();
    let mut writer = ObservationWriter::start(&folder, plan, 7).unwrap();
    writer.batch(&batch(100, 5));
    let mut expected = other_observations();
    for observation in &expected {
        writer.write(observation);
    }
    writer.batch(&batch(200, 9));
    let peer = Peer { peer: 1, lost: 2, delay: histogram(&[1000]), ..Peer::default() };
    let ending = Ending {
        at: millis(250),
        failure: Some(Failure { kind: FailureKind::DiskFull, text: "no".to_owned() }),
        clock_bound: Some(Span::from_nanos(5)),
        ingress: histogram(&[3]),
        flow_waits: histogram(&[4]),
        warnings: vec!["slow".to_owned()],
        ..Ending::default()
    };
    let queue_delays = [Histogram::new(), histogram(&[8])];
    writer.finish(vec![result()], &queue_delays, vec![peer.clone()], ending.clone()).unwrap();
    expected.push(Observation::Result(Box::new(result())));
    expected.push(Observation::QueueDelay(1, histogram(&[8])));
    expected.push(Observation::Peer(Box::new(peer)));
    expected.push(Observation::End(Box::new(ending)));
    (std::fs::read(folder.file(FILE)).unwrap(), expected)
}

#[test]
fn reader_returns_written_observations() {
    let plan = plan();
    let (bytes, expected) = write_file(&plan);
    let (seen, error) = read(&bytes, &plan);
    assert!(error.is_none(), "{error:?}");
    let (counters, seen): (Vec<_>, Vec<_>) =
        seen.into_iter().partition(|seen| matches!(seen, Observation::Counters(_)));
    assert_eq!((&seen[0], &seen[1..]), (&Observation::Begin(7), expected.as_slice()));
    let [Observation::Counters(first), Observation::Counters(second)] = counters.as_slice() else {
        panic!("{counters:?}")
    };
    assert_eq!((first.at, second.at), (millis(100), millis(200)));
    assert_eq!(first.links.len(), 1, "unchanged links are omitted");
    let (_, stats, level) = &batch(200, 9).links[0];
    assert_eq!((&second.links[0].stats(), &second.links[0].level()), (stats, level));
    assert_eq!(Share::from(first.shares[0]), share());
}

#[test]
fn reader_returns_written_bundles() {
    let status = Status {
        state: State::FailOpen,
        since: millis(7),
        rate: None,
        proposed: None,
        rtt: Some(Span::from_millis(9)),
        min_rtt: None,
        queueing: None,
        send_rate: None,
        receive_rate: None,
        capacity: Some(base::Bandwidth::from_mbits_per_sec(3)),
        loss: Some(base::Ratio::from_parts_per_billion(5)),
        out_of_order: None,
        backlog: Bytes::new(9),
        backlog_packets: 1,
        sojourn: Span::from_millis(3),
        period: 16,
        counters: sendbox::Counters { acks: 5, rebases: 2, ..sendbox::Counters::default() },
    };
    assert_eq!(BundleRow::new(2, &status).status(), Some(status));
    let change = Transition {
        at: millis(4),
        from: State::Delay,
        to: State::FailOpen,
        cause: Cause::Feedback,
    };
    assert_eq!(ChangeRow::new(1, &change).transition(), Some(change));
}

#[test]
fn returns_observations_before_damage() {
    let plan = plan();
    let (bytes, _) = write_file(&plan);
    let (all, _) = read(&bytes, &plan);
    for end in (0..bytes.len()).step_by(7) {
        let (seen, _) = read(&bytes[..end], &plan);
        assert!(all.starts_with(&seen));
        let mut flipped = bytes.clone();
        flipped[end] ^= 0x55;
        let (seen, error) = read(&flipped, &plan);
        assert!(error.is_some() && all.starts_with(&seen), "byte {end}");
    }
    // Positions outside the plan.
    let (seen, error) = read(&bytes, &crate::tests::star());
    assert!(matches!(error, Some(crate::Error::Damaged { .. })), "{error:?}");
    assert_eq!(seen.len(), 2, "the start, and counters of links");
    // Numbers above the maximum.
    let distribution = Distribution { count: u64::MAX, ..Distribution::default() };
    let mut sample = FlowSample::empty(millis(1), Span::from_millis(1), FlowId(0));
    sample.latency = Some(distribution);
    assert!(!is_accepted(&Observation::Flow(Box::new(sample)), &plan));
    let late = Counters { at: Time::from_nanos(u64::MAX), ..Counters::default() };
    assert!(!is_accepted(&Observation::Counters(late), &plan));
    assert!(!is_accepted(&Observation::QueueDelay(99, Histogram::new()), &plan));
}

fn is_accepted(observation: &Observation, plan: &Plan) -> bool {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "shard").unwrap();
    let mut writer = ObservationWriter::start(&folder, plan, 7).unwrap();
    writer.write(observation);
    writer.finish(Vec::new(), &[], Vec::new(), Ending::default()).unwrap();
    let (seen, error) = read(&std::fs::read(folder.file(FILE)).unwrap(), plan);
    error.is_none() && seen.len() == 3
}

#[test]
fn writer_splits_many_results_into_frames() {
    let plan = plan();
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "shard").unwrap();
    let writer = ObservationWriter::start(&folder, &plan, 7).unwrap();
    writer.finish(vec![result(); 5000], &[], Vec::new(), Ending::default()).unwrap();
    let (seen, error) = read(&std::fs::read(folder.file(FILE)).unwrap(), &plan);
    assert!(error.is_none() && seen.len() == 5002, "{error:?}, {}", seen.len());
}

/// A file with one frame of these bytes.
fn file_with_frame(contents: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let writer = crate::frames::FrameWriter::start(&path, KIND).unwrap();
    assert!(writer.push(contents.to_vec()));
    assert!(writer.finish().is_none());
    std::fs::read(&path).unwrap()
}

proptest::proptest! {
    #[test]
    fn reader_does_not_panic_on_any_frame(
        mut contents in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        kind in 0_u8..12,
    ) {
        if let Some(first) = contents.first_mut() {
            *first = kind;
        }
        let (seen, _) = read(&file_with_frame(&contents), &plan());
        proptest::prop_assert!(seen.len() <= contents.len());
    }
}
