use super::*;

fn names() -> Names<'static> {
    Names {
        flows: vec!["alice-bob", "alice-bob.2"],
        links: vec!["core", "a-b"],
        programs: vec!["bob.iperf3"],
        bundles: vec!["a-b", "a-b.2"],
    }
}

fn read(text: &str) -> Expectation {
    parse(text, &names()).unwrap()
}

#[test]
fn metrics_values_and_windows_are_read() {
    let e = read("flow.alice-bob.goodput.mean >= 9 Mbit/s");
    assert_eq!(e.metric.subject, Subject::Flow(FlowId(0)));
    assert_eq!((e.metric.measure, e.metric.statistic), (Measure::Goodput, Statistic::Mean));
    assert_eq!((e.op, e.value), (Op::AtLeast, 9e6));
    let e = read("flow.alice-bob.2.rtt.p99 < 50 ms between \"5 s\" and \"10 s\"");
    assert_eq!(e.metric.subject, Subject::Flow(FlowId(1)));
    assert_eq!(e.metric.window.unwrap().1.as_nanos(), 10_000_000_000);
    let e = read("link.core.down.utilisation>=0.9");
    assert_eq!(e.metric.subject, Subject::Link(LinkId(0), Direction::Down));
    assert_eq!((e.metric.statistic, e.value), (Statistic::Mean, 0.9));
    assert_eq!(read("program.bob.iperf3.exit == 0").metric.measure, Measure::Exit);
    assert!(read("run.trusted == true").op.holds(1.0, read("run.trusted == true").value));
    assert_eq!(read("run.lateness.p999 <= 1 ms").metric.statistic, Statistic::P999);
}

#[test]
fn bundles_have_measures_and_times_in_states() {
    let e = read("bundle.a-b.queueing.p99 <= 8 ms");
    assert_eq!(e.metric.subject, Subject::Bundle(0));
    assert_eq!((e.metric.measure, e.metric.statistic), (Measure::Queueing, Statistic::P99));
    let e = read("bundle.a-b.receive-rate >= 80 Mbit/s between 5 s and 10 s").metric;
    assert_eq!((e.measure, e.statistic), (Measure::ReceiveRate, Statistic::Mean));
    let e = read("bundle.a-b.time.pass-through <= 5 %");
    assert_eq!(e.metric.measure, Measure::TimeIn(BundleState::PassThrough));
    assert_eq!((e.metric.statistic, e.value), (Statistic::Value, 0.05));
    // The longest name has priority.
    let e = read("bundle.a-b.2.time.delay >= 0.9").metric;
    assert_eq!((e.subject, e.measure), (Subject::Bundle(1), Measure::TimeIn(BundleState::Delay)));
    let refused = |text| parse(text, &names()).unwrap_err();
    assert!(matches!(refused("bundle.a-b.time >= 1"), ParseError::Measure { .. }));
    assert!(matches!(refused("bundle.a-b.transitions.max < 1"), ParseError::Statistic { .. }));
    assert!(matches!(refused("bundle.b-a.rate > 1 bit/s"), ParseError::Name { .. }));
}

#[test]
fn transfers_have_completion_times_and_slowdowns() {
    let whole = read("flow.alice-bob.completion < 5 s").metric;
    assert_eq!((whole.measure, whole.statistic), (Measure::Completion, Statistic::Value));
    let each = read("flow.alice-bob.completion.p99 < 50 ms").metric;
    assert_eq!((each.measure, each.statistic), (Measure::Completion, Statistic::P99));
    let slowdown = read("flow.alice-bob.slowdown.p90 <= 4.5");
    assert_eq!((slowdown.metric.measure, slowdown.value), (Measure::Slowdown, 4.5));
    assert_eq!(read("flow.alice-bob.transfers >= 100").metric.statistic, Statistic::Value);
    assert_eq!(read("flow.alice-bob.timeouts == 0").metric.measure, Measure::Timeouts);
    let wrong = parse("flow.alice-bob.completion. < 5 s", &names()).unwrap_err();
    let ParseError::Statistic { known, .. } = wrong else { panic!("{wrong:?}") };
    assert!(!known.contains(&""));
}

#[test]
fn errors_have_the_range_of_the_invalid_part() {
    let wrong = |text| parse(text, &names()).unwrap_err();
    assert_eq!(wrong("flow.alice-bob.goodput"), ParseError::NoComparison);
    assert_eq!(wrong("flux.a > 1"), ParseError::Subject(0..4));
    assert!(
        matches!(wrong("flow.bob.goodput > 1 bit/s"), ParseError::Name { at, .. } if at == (5..8))
    );
    assert_eq!(wrong("link.core.drops == 0"), ParseError::Direction(10..15));
    assert!(matches!(wrong("run.late > 1 s"), ParseError::Measure { at, .. } if at == (4..8)));
    assert!(
        matches!(wrong("run.duration.p50 > 1 s"), ParseError::Statistic { at, .. } if at == (13..16))
    );
    assert!(matches!(wrong("run.duration > 1"), ParseError::Value { at, .. } if at == (15..16)));
    assert!(matches!(wrong("run.trusted == 2"), ParseError::Plain { .. }));
    assert!(matches!(wrong("run.duration > 1 s between 3 s and 2 s"), ParseError::Window(_)));
}

#[test]
fn outcomes_tell_held_failed_and_not_measured_apart() {
    let e = read("run.duration < 2 s");
    let exact = Measurement::exact;
    assert_eq!(e.check(&|_| Some(exact(1e9))), Outcome::Held(exact(1e9)));
    assert_eq!(e.check(&|_| Some(exact(2e9))), Outcome::Failed(exact(2e9)));
    assert_eq!(e.check(&|_| None), Outcome::NotMeasured);
    assert_eq!(e.check(&|_| Some(exact(f64::NAN))), Outcome::NotMeasured);
    assert!(Op::Equal.holds(0.1 + 0.2, 0.3) && Op::NotEqual.holds(1.0, 2.0));
}

#[test]
fn values_read_well() {
    assert_eq!(Quantity::Rate.text(9_123_456.0), "9123 kbit/s");
    assert_eq!(Quantity::Time.text(123_456.0), "123.5 us");
    assert_eq!(Quantity::Share.text(0.001), "0.1 %");
    assert_eq!(Quantity::Count.text(3.0), "3");
    assert_eq!(Quantity::Truth.text(0.0), "false");
}
