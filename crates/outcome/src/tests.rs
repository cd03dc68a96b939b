//! A plan for tests, and whole records.

use std::path::Path;

use base::{Bytes, FlowId, NodeId, Span, Time};
use lab::expect::{Expectation, Measure, Metric, Op, Statistic, Subject};
use lab::plan::{Family, Flow, Plan, Tcp, Traffic};
use record::run::Clock;
use record::{Recorder, RecorderOptions, RunFolder, RunRecord, Transfer};
use transport::workload::{Arrivals, Sizes};

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

/// A virtual run of the star with one flow of ten transfers, of which the first eight complete.
fn transfers(plan: &Plan) -> RunRecord {
    let mut tally = Tally::default();
    for n in 1..=8 {
        tally.transfer(&Transfer {
            flow: FlowId(0),
            start: second(n),
            size: Bytes::new(1000),
            completion: Some(Span::from_millis(n * 10)),
            ideal: Some(Span::from_millis(10)),
            retransmits: Some(0),
        });
    }
    tally.transfers_started = 10;
    tally.timeouts = Some(1);
    tally.close_run();
    let interval = Span::from_secs(10);
    let sample = tally.cut(second(10), interval, FlowId(0), &plan.flows[0].traffic);
    assert_eq!((sample.responses, sample.latency.unwrap().count), (Some(8), 8));
    let mut flows = FlowLedger::new(plan);
    flows.enter(&sample);
    let course = Course {
        outcome: Outcome::Stopped,
        started: Some(second(0)),
        ended: Some(second(10)),
        active: interval,
        completion: None,
    };
    let flow = &plan.flows[0];
    let results = [tally.into_result(FlowId(0), flow.name.clone(), &flow.traffic, course)];
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "star").unwrap();
    let recorder = Recorder::start(&folder, &RecorderOptions::default()).unwrap();
    let links = LinkLedger::new(plan, recorder.handle());
    let bundles = BundleLedger::new(plan, recorder.handle());
    let start = Start {
        id: "0",
        repeat: "",
        clock: Clock::Virtual,
        engine: record::run::Engine::default(),
    };
    let mut record = begin(plan, start);
    record.status = record::run::Status::Finished;
    let (at, results, links, flows) = (second(10), &results, &links, &flows);
    let bundles = &bundles;
    complete(
        &mut record,
        &Ended { plan, at, results, links, flows, control: &[], bundles, queue_delays: &[] },
    );
    record
}

#[test]
fn transfers_are_summed_up_and_expectations_see_them() {
    let mut plan = star();
    plan.flows.push(Flow {
        name: "short".to_owned(),
        from: NodeId(1),
        to: NodeId(2),
        family: Family::V4,
        start: Time::ZERO,
        duration: None,
        traffic: Traffic::Transfers {
            sizes: Sizes::Fixed(Bytes::new(1000)),
            arrivals: Arrivals::Every(Span::from_secs(1)),
            count: Some(10),
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
    let record = transfers(&plan);
    let outcomes: Vec<_> = record.expectations.iter().map(|e| e.outcome).collect();
    let (last, others) = outcomes.split_last().unwrap();
    assert!(others.iter().all(|o| *o == record::run::Outcome::Passed), "{outcomes:?}");
    assert_eq!(*last, record::run::Outcome::Unmeasured, "not all transfers completed");
    assert_eq!(record.exit_code, Some(1));
    let summary = &record.flows[0];
    assert_eq!((summary.transfers_started, summary.transfers_completed), (Some(10), Some(8)));
    assert!((summary.slowdown.unwrap().max - 8.0).abs() < 1e-9);
    assert!(summary.latency.is_none() && summary.responses.is_none(), "{summary:?}");
}
