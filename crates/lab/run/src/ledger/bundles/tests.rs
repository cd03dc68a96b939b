use std::path::Path;

use crate::sample::bundle;
use crate::table::Table;
use crate::{Recorder, RecorderOptions, RunFolder};
use base::{Bandwidth, Bytes, Ratio};
use bundler::sendbox::{Cause, Counters};
use lab::expect::{Measure, Metric, Statistic};

use super::*;

const LAB: &str = r#"
[lab]
duration = "10 s"
[node]
a = {}
b = {}
sb = { kind = "sendbox" }
rb = { kind = "receivebox" }
[[link]]
ends = ["a", "sb"]
[[link]]
ends = ["sb", "rb"]
rate = "96 Mbit/s"
[[link]]
ends = ["rb", "b"]
[[flow]]
from = "a"
to = "b"
[[bundle]]
name = "upload"
from = "sb"
to = "rb"
[[at]]
time = "6.5 s"
box = "sb"
action = "stop"
[[expect]]
that = "bundle.upload.rate.mean <= 96 Mbit/s"
"#;

fn plan() -> Plan {
    lab::parse("lab.toml", LAB, Path::new(".")).unwrap().plans.swap_remove(0)
}

fn second(n: u64) -> Time {
    Time::ZERO + Span::from_secs(n)
}

fn status(state: State, mbits: Option<u64>, sent: u64) -> Status {
    Status {
        state,
        since: Time::ZERO,
        rate: mbits.map(Bandwidth::from_mbits_per_sec),
        proposed: None,
        rtt: Some(Span::from_millis(52)),
        min_rtt: Some(Span::from_millis(50)),
        queueing: Some(Span::from_millis(2)),
        send_rate: None,
        receive_rate: None,
        capacity: None,
        loss: Some(Ratio::ZERO),
        out_of_order: None,
        backlog: Bytes::new(sent),
        backlog_packets: 1,
        sojourn: Span::from_millis(3),
        period: 16,
        counters: Counters {
            arrived_packets: sent,
            sent_packets: sent,
            sent_bytes: sent * 1000,
            ..Counters::default()
        },
    }
}

fn change(at: u64, from: State, to: State, cause: Cause) -> Transition {
    Transition { at: second(at), from, to, cause }
}

/// Ten seconds: learning; delay control from 2 s; fail-open from 5 s; no process from 6.5 s; a new
/// process from 8 s.
fn ledger(plan: &Plan, recorder: RecorderHandle) -> BundleLedger {
    let mut ledger = BundleLedger::new(plan, recorder);
    ledger.enter(Time::ZERO, [Some(status(State::Learning, None, 0))]);
    ledger.transition(0, &change(2, State::Learning, State::Delay, Cause::Queue));
    ledger.enter(second(4), [Some(status(State::Delay, Some(90), 100))]);
    ledger.transition(0, &change(5, State::Delay, State::FailOpen, Cause::NoFeedback));
    ledger.enter(second(5), [Some(status(State::FailOpen, Some(80), 150))]);
    ledger.enter(second(7), [None]);
    let begun = Status { since: second(8), ..status(State::Learning, None, 30) };
    ledger.enter(second(10), [Some(begun)]);
    ledger
}

fn recording(run: impl FnOnce(RecorderHandle)) -> (tempfile::TempDir, RunFolder) {
    let parent = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(parent.path(), "bundles").unwrap();
    let options =
        RecorderOptions { bundles: vec!["upload".to_owned()], ..RecorderOptions::default() };
    let recorder = Recorder::start(&folder, &options).unwrap();
    run(recorder.handle());
    assert!(recorder.finish().error.is_none());
    (parent, folder)
}

#[test]
fn summary_has_states_means_and_counters() {
    let plan = plan();
    recording(|handle| {
        let summaries = ledger(&plan, handle).summaries(&plan, second(10));
        let [upload] = &summaries[..] else { panic!("one bundle: {summaries:?}") };
        assert_eq!((upload.from.as_str(), upload.to.as_str()), ("sb", "rb"));
        assert_eq!((upload.scheduler.as_str(), upload.control.as_str()), ("fq", "copa"));
        let share = |state: &str| (upload.time[state] * 1e3).round() as u64;
        assert_eq!(share("learning"), 400, "{:?}", upload.time);
        assert_eq!((share("delay"), share("fail-open"), share("stopped")), (300, 150, 150));
        let to: Vec<_> = upload.transitions.iter().map(|t| (t.at_s, t.to.as_str())).collect();
        let expected = [(2.0, "delay"), (5.0, "fail-open"), (6.5, "stopped"), (8.0, "learning")];
        assert_eq!(to, expected);
        // 90 Mbit/s for four seconds, 80 Mbit/s for one.
        assert!((upload.rate_bit_per_s.unwrap() - 88e6).abs() < 1.0, "{upload:?}");
        // The new process counts from 0.
        assert_eq!((upload.sent_packets, upload.sent_bytes), (180, 180_000));
        assert!((upload.throughput_bit_per_s - 144_000.0).abs() < 1e-6);
        assert_eq!(upload.min_rtt_ns, Some(50_000_000));
    });
}

#[test]
fn expectations_use_samples_and_states() {
    let plan = plan();
    recording(|handle| {
        let ledger = ledger(&plan, handle);
        let value = |measure, statistic, window: (u64, u64)| {
            let subject = Subject::Bundle(0);
            let metric = Metric { subject, measure, statistic, window: None };
            ledger.value(0, &metric, (second(window.0), second(window.1)))
        };
        let mean = Statistic::Mean;
        assert_eq!(value(Measure::Rate, mean, (0, 10)), Some(88e6));
        assert_eq!(value(Measure::Rate, Statistic::Max, (0, 10)), Some(90e6));
        assert_eq!(value(Measure::Rate, mean, (4, 10)), Some(80e6));
        assert_eq!(value(Measure::Rate, mean, (6, 10)), None);
        // Nothing was measured while the process was stopped.
        assert_eq!(value(Measure::Queueing, mean, (0, 10)), Some(2e6));
        assert_eq!(value(Measure::Throughput, mean, (0, 4)), Some(200_000.0));
        assert_eq!(value(Measure::Transitions, Statistic::Value, (0, 6)), Some(2.0));
        let time = |state, window| value(Measure::TimeIn(state), Statistic::Value, window);
        assert_eq!(time(BundleState::Delay, (0, 4)), Some(0.5));
        assert_eq!(time(BundleState::PassThrough, (0, 10)), Some(0.0));
        assert_eq!(time(BundleState::Learning, (8, 10)), Some(1.0));
    });
}

#[test]
fn records_samples_and_state_changes() {
    let plan = plan();
    let (_parent, folder) = recording(|handle| {
        ledger(&plan, handle);
    });
    let table = Table::read(&folder.file(bundle::FILE)).unwrap();
    let states = ["delay", "fail-open", "stopped", "learning"];
    assert_eq!(table.texts("state").unwrap(), states);
    assert_eq!(table.texts("bundle").unwrap()[0], "upload");
    let sent = [Some(100), Some(50), Some(0), Some(30)];
    assert_eq!(table.integers("sent_packets").unwrap(), sent);
    let log = std::fs::read_to_string(folder.file("log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 4, "{log}");
    assert!(log.contains("learning to delay: the bundle's own queue"), "{log}");
    assert!(log.contains("fail-open to stopped: the sendbox has stopped"), "{log}");
}

/// The record of a bundle that changes its state all the time is bounded, and all changes count.
#[test]
fn limits_retained_state_changes() {
    let plan = plan();
    recording(|handle| {
        let mut ledger = BundleLedger::new(&plan, handle);
        for n in 0..MAX_STATE_CHANGES as u64 {
            let (out, back) = (State::FailOpen, State::Learning);
            ledger.transition(0, &change(n, back, out, Cause::NoFeedback));
            ledger.transition(0, &change(n, out, back, Cause::Feedback));
        }
        let end = second(MAX_STATE_CHANGES as u64);
        assert_eq!(ledger.transitions(0, (Time::ZERO, end)), Some(2 * MAX_STATE_CHANGES as u64));
        assert_eq!(ledger.summaries(&plan, end)[0].transitions.len(), MAX_STATE_CHANGES);
    });
}
