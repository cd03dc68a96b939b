//! A plan for tests, and tests of whole records.

use std::path::Path;
use std::sync::Arc;

use crate::record::{Clock, Engine, LinkSummary, Status, Verdict};
use crate::{Recorder, RecorderOptions, RunFolder, RunRecord, Transfer};
use base::{Bytes, FlowId, NodeId, Span, Time};
use lab::expect::{Expectation, Measure, Metric, Op, Statistic, Subject};
use lab::plan::{Family, Flow, Plan, Tcp, Traffic};
use workload::{Arrivals, Sizes};

use super::*;

/// Three hosts around a router; link *i* leads from the router to host *i*.
pub(crate) fn star() -> Plan {
    let arm = |host| format!("[node.{host}]\n[[link]]\nends = [\"r\", \"{host}\"]\n");
    let text = "[node.r]\nkind = \"router\"\n".to_owned() + &["a", "b", "c"].map(arm).concat();
    let mut lab = lab::parse("star.toml", &text, Path::new(".")).unwrap();
    lab.plans.swap_remove(0)
}

fn second(n: u64) -> Time {
    Time::ZERO + Span::from_secs(n)
}

/// The record of a virtual run with one flow of ten transfers, of which eight complete.
fn transfers_record(plan: &Plan) -> RunRecord {
    let mut counters = FlowCounters::default();
    for n in 1..=8 {
        counters.transfer(&Transfer {
            flow: FlowId(0),
            start: second(n),
            size: Bytes::new(1000),
            completion: Some(Span::from_millis(n * 10)),
            ideal: Some(Span::from_millis(10)),
            retransmits: Some(0),
        });
    }
    counters.transfers_started = 10;
    counters.timeouts = Some(1);
    counters.close_run();
    let interval = Span::from_secs(10);
    let sample = counters.cut(second(10), interval, FlowId(0), &plan.flows[0].traffic);
    assert_eq!((sample.responses, sample.latency.unwrap().count), (Some(8), 8));
    let mut flows = FlowLedger::new(plan);
    flows.enter(&sample);
    let lifetime = FlowLifetime {
        outcome: Outcome::Stopped,
        started: Some(second(0)),
        ended: Some(second(10)),
        active: interval,
        completion: None,
    };
    let flow = &plan.flows[0];
    let results = [counters.into_result(FlowId(0), flow.name.clone(), &flow.traffic, lifetime)];
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "star").unwrap();
    let recorder = Recorder::start(&folder, &RecorderOptions::default()).unwrap();
    let links = LinkLedger::new(plan, recorder.handle());
    let bundles = BundleLedger::new(plan, recorder.handle());
    let start = Start { id: "0", repeat: "", clock: Clock::Virtual, engine: Engine::default() };
    let mut record = begin(plan, start);
    record.status = Status::Finished;
    let (at, flow_results, links, flows) = (second(10), &results, &links, &flows);
    let bundles = &bundles;
    complete(
        &mut record,
        &RunResults {
            plan,
            at,
            flow_results,
            links,
            flows,
            control: &[],
            bundles,
            queue_delays: &[],
            effects: None,
        },
    );
    record
}

#[test]
fn summary_and_expectations_include_transfers() {
    let mut plan = star();
    plan.flows.push(Flow {
        name: "short".to_owned(),
        from: NodeId(1),
        to: NodeId(2),
        family: Family::V4,
        start: Time::ZERO,
        duration: None,
        traffic: Traffic::Transfers {
            spec: Arc::new(workload::Transfers {
                sizes: Sizes::Fixed(Bytes::new(1000)),
                arrivals: Arrivals::Every(Span::from_secs(1)),
                count: Some(10),
            }),
            tcp: Tcp::default(),
        },
        dscp: 0,
    });
    let expect = |subject, measure, statistic, op, value: f64| Expectation {
        text: String::new(),
        metric: Metric { subject, measure, statistic, window: None },
        op,
        value,
    };
    let flow = |measure, statistic, op, value| {
        expect(Subject::Flow(FlowId(0)), measure, statistic, op, value)
    };
    let value = Statistic::Value;
    plan.expectations = vec![
        flow(Measure::Transfers, value, Op::Equal, 8.0),
        flow(Measure::Timeouts, value, Op::Equal, 1.0),
        flow(Measure::Completion, Statistic::Max, Op::Equal, 80e6),
        flow(Measure::Slowdown, Statistic::Mean, Op::Equal, 4.5),
        expect(Subject::Run, Measure::Trusted, value, Op::Equal, 1.0),
        expect(Subject::Run, Measure::Lateness, Statistic::P99, Op::AtMost, 0.0),
        flow(Measure::Completion, value, Op::Above, 0.0),
    ];
    let record = transfers_record(&plan);
    assert!(record.verdict.as_ref().unwrap().trusted, "{:?}", record.verdict);
    let outcomes: Vec<_> = record.expectations.iter().map(|e| e.outcome).collect();
    let (last, others) = outcomes.split_last().unwrap();
    assert!(others.iter().all(|o| *o == crate::record::Outcome::Passed), "{outcomes:?}");
    assert_eq!(*last, crate::record::Outcome::Unmeasured, "not all transfers completed");
    assert_eq!(record.exit_code, Some(Exit::Expectation));
    let summary = &record.flows[0];
    assert_eq!((summary.transfers_started, summary.transfers_completed), (Some(10), Some(8)));
    assert!((summary.slowdown.unwrap().max - 8.0).abs() < 1e-9);
    assert!(summary.latency.is_none() && summary.responses.is_none(), "{summary:?}");
}

/// The record of a virtual run without packets.
fn idle_record(plan: &Plan, verdict: Option<Verdict>) -> RunRecord {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "star").unwrap();
    let recorder = Recorder::start(&folder, &RecorderOptions::default()).unwrap();
    let links = LinkLedger::new(plan, recorder.handle());
    let bundles = BundleLedger::new(plan, recorder.handle());
    let start = Start { id: "0", repeat: "", clock: Clock::Virtual, engine: Engine::default() };
    let mut record = RunRecord { verdict, status: Status::Finished, ..begin(plan, start) };
    complete(
        &mut record,
        &RunResults {
            plan,
            at: second(10),
            flow_results: &[],
            links: &links,
            flows: &FlowLedger::new(plan),
            control: &[],
            bundles: &bundles,
            queue_delays: &[],
            effects: None,
        },
    );
    record
}

#[test]
fn run_without_packets_is_untrusted_if_the_lab_has_programs() {
    let plan = star();
    assert_eq!(idle_record(&plan, None).exit_code, Some(Exit::Ok));
    let program = "[[program]]\nnode = \"a\"\nrun = \"true\"\n";
    let text = "[node]\na = {}\nb = {}\n[[link]]\nends = [\"a\", \"b\"]\n".to_owned() + program;
    let plan =
        |text: &str| lab::parse("idle.toml", text, Path::new(".")).unwrap().plans.swap_remove(0);
    let record = idle_record(&plan(&text), None);
    assert_eq!(record.exit_code, Some(Exit::Untrusted));
    let reasons = record.verdict.unwrap().reasons;
    assert_eq!(reasons, ["no packet crossed the network, so nothing was measured"]);
    let late = Verdict {
        trusted: false,
        machine_fit: true,
        reasons: vec!["2 samples are missing".to_owned()],
    };
    let reasons = idle_record(&plan(&text), Some(late)).conclusion().unwrap().reasons;
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    let without_links = "[node]\na = {}\n".to_owned() + program;
    assert_eq!(idle_record(&plan(&without_links), None).exit_code, Some(Exit::Ok));
}

#[test]
fn expired_packets_are_not_drops() {
    let drops = [("ttl exceeded", 9), ("loss", 2)].map(|(reason, n)| (reason.to_owned(), n));
    let link = LinkSummary { sent_packets: 5, drops: drops.into(), ..LinkSummary::default() };
    assert_eq!((link.dropped(), link.expired(), link.packets()), (2, 9, 16));
    let [at, interval] = [1, 1].map(Span::from_secs);
    let mut sample =
        LinkSample::empty(Time::ZERO + at, interval, base::LinkId(0), base::Direction::Up);
    sample.drops[DropReason::TtlExceeded.index()] = 9;
    sample.drops[DropReason::Loss.index()] = 2;
    assert_eq!(sample.dropped(), 2);
}
