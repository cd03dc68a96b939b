use std::path::Path;
use std::sync::Arc;

use base::{FlowId, Time};
use proptest::prelude::*;
use workload::Report;

use super::*;
use crate::flow::Transfers;
use crate::waits::{HostWaits, WaitRecorder, Waits};
use crate::{FlowCounters, FlowLifetime, Outcome};

const STATISTICS: [(Statistic, f64); 4] = [
    (Statistic::P50, 0.5),
    (Statistic::P90, 0.9),
    (Statistic::P99, 0.99),
    (Statistic::P999, 0.999),
];

const CROSSING: Crossings = Crossings::by_kernel(1);

fn histogram(values: &[u64]) -> Histogram {
    let mut all = Histogram::new();
    for value in values {
        all.record(*value);
    }
    all
}

/// Stalls of these lengths, one in each second.
fn each_second(lengths: &[u64]) -> Stalls {
    let mut stalls = Stalls::default();
    for (second, nanos) in (0..).zip(lengths) {
        let from = Time::ZERO + Span::from_secs(second);
        stalls.record(from, from + Span::from_nanos(*nanos));
    }
    stalls
}

fn effects(lateness: Histogram, stalls: &[u64]) -> HostEffects {
    let host = HostDelays { lateness, stalls: each_second(stalls), ..HostDelays::default() };
    HostEffects::new(vec![host], Span::from_secs(10))
}

/// A plan with one flow of each kind, and the result of one of them over 10 s.
fn result(kind: usize) -> (Plan, FlowResult) {
    let flows = [
        "transport = \"tcp\"",
        "transport = \"udp\"\nrate = \"1 Mbit/s\"",
        "request = \"100 B\"\nresponse = \"1 kB\"\ninterval = \"5 ms\"",
        "size = \"1 MB\"\narrivals = { every = \"1 s\" }",
    ];
    let text = "[node]\na = {}\nb = {}\n[[link]]\nends = [\"a\", \"b\"]\n".to_owned()
        + "[[flow]]\nfrom = \"a\"\nto = \"b\"\n"
        + flows[kind];
    let plan = lab::parse("one.toml", &text, Path::new(".")).unwrap().plans.swap_remove(0);
    let lifetime = FlowLifetime {
        outcome: Outcome::Stopped,
        started: Some(Time::ZERO),
        ended: Some(Time::ZERO + Span::from_secs(10)),
        active: Span::from_secs(10),
        completion: None,
    };
    let flow = &plan.flows[0];
    let counters = FlowCounters::default();
    let result = counters.into_result(FlowId(0), flow.name.clone(), &flow.traffic, lifetime);
    (plan, result)
}

proptest! {
    /// The bound holds for any delays of the lab and of the host, in any order.
    #[test]
    fn percentile_of_lab_is_within_bound(
        pairs in proptest::collection::vec((1_000_000..80_000_000u64, 0..5_000_000u64), 50..400),
        stalled in 0..20u64,
    ) {
        let with_stalls = |(at, (lab, host)): (usize, (u64, u64))| {
            (lab, if (at as u64) < stalled { host * 20 } else { host / 100 })
        };
        let pairs: Vec<_> = pairs.into_iter().enumerate().map(with_stalls).collect();
        let lab = histogram(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
        let host = histogram(&pairs.iter().map(|pair| pair.1).collect::<Vec<_>>());
        let measured = histogram(&pairs.iter().map(|pair| pair.0 + pair.1).collect::<Vec<_>>());
        let effects = effects(host, &[]);
        for (statistic, quantile) in STATISTICS {
            let value = measured.percentile(quantile) as f64;
            let error = effects.delay(&measured, None, statistic, CROSSING);
            let lab_delay = lab.percentile(quantile) as f64;
            // The histograms round by up to 0.4 %.
            prop_assert!(value - error <= lab_delay * 1.02, "{statistic:?}: {value} {error}");
            prop_assert!(value >= lab_delay * 0.98);
        }
    }
}

proptest! {
    /// The bound from waits of known time holds, and is 0 for delays that no wait touches.
    #[test]
    fn percentile_without_waits_is_within_bound(
        pairs in proptest::collection::vec((1_000_000..80_000_000u64, 0..5_000_000u64), 50..400),
    ) {
        let all =
            |part: fn(&(u64, u64)) -> u64| histogram(&pairs.iter().map(part).collect::<Vec<_>>());
        let (lab, measured) = (all(|(lab, _)| *lab), all(|(lab, host)| lab + host));
        // Half of the waits are counted twice.
        let lower = all(|(lab, host)| lab.saturating_sub(host % 2 * host));
        let adjusted = Adjusted { without_waits: lower, ..Adjusted::default() };
        let effects = effects(histogram(&[5_000_000; 100]), &[]);
        for (statistic, quantile) in STATISTICS {
            let value = measured.percentile(quantile) as f64;
            let error = effects.delay(&measured, Some(&adjusted), statistic, CROSSING);
            let lab_delay = lab.percentile(quantile) as f64;
            prop_assert!(value - error <= lab_delay * 1.02, "{statistic:?}: {value} {error}");
        }
        let untouched = Adjusted { without_waits: measured.clone(), ..Adjusted::default() };
        for statistic in [Statistic::Mean, Statistic::Min, Statistic::Max, Statistic::P99] {
            let error = effects.delay(&measured, Some(&untouched), statistic, CROSSING);
            prop_assert!(error.abs() < f64::EPSILON, "{statistic:?}: {error}");
        }
    }
}

/// Two stalls of 30 ms in 10 s, and datagrams of 50 ms each ms: 2 × 130 of them may have waited.
#[test]
fn stalls_affect_overlapping_delays_only() {
    let waits = Arc::<Waits>::default();
    let mut recorder = WaitRecorder::new(waits.clone());
    let (plan, _) = result(1);
    let flow = &plan.flows[0];
    let waits = HostWaits { datapath: waits, ..HostWaits::default() };
    let mut counters = FlowCounters::on_host(waits, plan.tolerance, &flow.traffic);
    let ms = |ms| Time::ZERO + Span::from_millis(ms);
    let mut disturbed = 0;
    for now in 0..10_000 {
        let stalled = [3_000, 6_000].contains(&now);
        recorder.enter(if stalled { ms(now - 30) } else { ms(now) }, ms(now));
        let after = now % 3_000;
        let waited = if now > 2_000 && now < 7_000 { 30u64.saturating_sub(after) } else { 0 };
        disturbed += u64::from(waited > 2);
        counters.record_delay(50_000_000 + waited * 1_000_000);
    }
    let mut last = |second| {
        let interval = Span::from_secs(second);
        counters.cut(ms(10_000), interval, FlowId(0), &flow.traffic).wait_max
    };
    assert_eq!([last(1), last(5)], [Some(Span::ZERO), Some(Span::from_millis(30))]);
    assert_eq!(last(6), None, "older waits are not kept");
    let lifetime = FlowLifetime {
        outcome: Outcome::Stopped,
        started: Some(Time::ZERO),
        ended: Some(ms(10_000)),
        active: Span::from_secs(10),
        completion: None,
    };
    let result = counters.into_result(FlowId(0), flow.name.clone(), &flow.traffic, lifetime);
    let mut late = Histogram::new();
    late.record_many(0, 9_900);
    late.record_many(30_000_000, 100);
    let effects = effects(late, &[30_000_000; 2]);
    let effect = effects.effect_on_flow(&plan, &result);
    assert!(effect.p50_ns < 200_000, "{effect:?}");
    let trimmed = effect.trimmed.unwrap();
    assert!((disturbed..400).contains(&trimmed.left_out), "{trimmed:?}, {disturbed}");
    assert!((49_800_000..50_200_000).contains(&trimmed.p99_ns), "{trimmed:?}");
    let of_several = HostEffects::new(vec![HostDelays::default(); 2], Span::from_secs(10));
    assert_eq!(of_several.effect_on_flow(&plan, &result).trimmed, None, "waits of one host only");
}

/// The flow thread waited for 3 ms before 2 % of its events.
#[test]
fn flow_thread_waits_affect_its_own_packets_only() {
    let mut flow_waits = Histogram::new();
    flow_waits.record_many(10_000, 980);
    flow_waits.record_many(3_000_000, 20);
    let host =
        HostDelays { lateness: histogram(&[20_000; 100]), flow_waits, ..HostDelays::default() };
    let effects = HostEffects::new(vec![host], Span::from_secs(10));
    let p99 = |kind: usize, delays: fn(&mut FlowResult) -> &mut Histogram| {
        let (plan, mut result) = result(kind);
        delays(&mut result).record_many(50_000_000, 980);
        delays(&mut result).record_many(53_000_000, 20);
        effects.effect_on_flow(&plan, &result).p99_ns
    };
    assert!(p99(0, |bulk| &mut bulk.rtt) < 100_000, "the kernel answers segments");
    assert!(p99(1, |paced| &mut paced.delay) > 2_900_000);
    assert!(p99(2, |rpc| &mut rpc.latency) > 2_900_000);
}

/// The flow thread waits for 4 ms before the server reads a request, and for 3 ms before the client
/// reads its response.
#[test]
fn responses_contain_two_waits_of_the_flow_thread() {
    let waits = HostWaits::default();
    let mut recorder = WaitRecorder::new(waits.flows.clone());
    let (plan, _) = result(2);
    let flow = &plan.flows[0];
    let mut counters = FlowCounters::on_host(waits, plan.tolerance, &flow.traffic);
    let ms = |ms| Time::ZERO + Span::from_millis(ms);
    for (from, to) in [(100, 101), (130, 134), (154, 157)] {
        recorder.enter(ms(from), ms(to));
    }
    counters.report(FlowId(0), None, Report::Response(Span::from_millis(47)));
    let lifetime = FlowLifetime {
        outcome: Outcome::Stopped,
        started: Some(Time::ZERO),
        ended: Some(ms(157)),
        active: Span::from_millis(157),
        completion: None,
    };
    let result = counters.into_result(FlowId(0), flow.name.clone(), &flow.traffic, lifetime);
    let latency = &result.adjusted.as_ref().unwrap().latency;
    // Twice the longest wait of the last 94 ms.
    let min = latency.without_waits.min();
    assert!((38_500_000..=39_000_000).contains(&min), "{min}");
    assert_eq!(latency.undisturbed.count(), 0);
}

#[test]
fn rare_stalls_change_high_percentiles_only() {
    let mut lateness = Histogram::new();
    lateness.record_many(20_000, 9_990);
    lateness.record_many(3_000_000, 10);
    let effects = effects(lateness, &[]);
    let mut measured = Histogram::new();
    measured.record_many(50_000_000, 10_000);
    let error = |statistic, crossings| {
        effects.delay(&measured, None, statistic, Crossings::by_kernel(crossings))
    };
    assert!((20_000.0..30_000.0).contains(&error(Statistic::P50, 1)));
    assert!((40_000.0..60_000.0).contains(&error(Statistic::P50, 2)));
    assert!((40_000.0..60_000.0).contains(&error(Statistic::P99, 2)));
    assert!(error(Statistic::Max, 1) >= 3_000_000.0);
    assert!((22_000.0..25_000.0).contains(&error(Statistic::Mean, 1)));
}

#[test]
fn stall_of_few_packets_does_not_change_their_p99() {
    let mut waits = Histogram::new();
    waits.record_many(100_000, 9_940);
    waits.record_many(50_000_000, 60);
    let stalled = HostDelays { lateness: waits.clone(), ..HostDelays::default() };
    let effects = |host| HostEffects::new(vec![host], Span::from_secs(10));
    assert!((95_000.0..105_000.0).contains(&effects(stalled).added_delay(0.01, CROSSING)));
    let both = HostDelays { lateness: waits.clone(), ingress: waits, ..HostDelays::default() };
    assert!(
        effects(both).added_delay(0.01, CROSSING) > 49_000_000.0,
        "0.6 % and 0.6 % may be 1.2 %"
    );
}

#[test]
fn stalls_lower_the_rate_of_flows_that_wait_for_acknowledgements() {
    let mut lateness = Histogram::new();
    lateness.record_many(50_000, 1_000);
    let effects = effects(lateness, &[30_000_000, 70_000_000]);
    let (plan, mut bulk) = result(0);
    bulk.rtt.record_many(20_000_000, 100);
    // 100 ms of 10 s, and 0.1 ms of each 20 ms.
    let rate = effects.effect_on_flow(&plan, &bulk).goodput_share;
    assert!((rate - 0.015).abs() < 1e-4, "{rate}");
    // A stall of 30 ms is in the first second, that of 70 ms in the next one.
    let at = |millis| Time::ZERO + Span::from_millis(millis);
    for (from, to, expected) in [(0, 1_000, 0.035), (500, 1_000, 0.005), (1_000, 1_010, 1.0)] {
        let duration = Span::from_millis(to - from);
        let rate = effects.rate_error(&plan, &bulk, (at(from), at(to)), duration);
        assert!((rate - expected).abs() < 1e-3, "{from}: {rate}");
    }
    // The datagrams of a stall arrive after it.
    let (plan, paced) = result(1);
    let rate = effects.effect_on_flow(&plan, &paced).goodput_share;
    assert!((rate - 0.007).abs() < 1e-4, "{rate}");
    // Requests every 5 ms wait only for responses that take longer.
    for (latency, expected) in [(1_000_000, 0.007), (20_000_000, 0.015)] {
        let (plan, mut rpc) = result(2);
        rpc.latency.record_many(latency, 100);
        let rate = effects.effect_on_flow(&plan, &rpc).goodput_share;
        assert!((rate - expected).abs() < 1e-4, "{latency} ns: {rate}");
    }
}

/// Requests every 5 ms; 10 of 100 responses took 25 ms instead of 1 ms.
#[test]
fn late_responses_postpone_requests() {
    let effects = effects(histogram(&[1_000; 100]), &[]);
    let (plan, mut rpc) = result(2);
    rpc.latency.record_many(1_000_000, 90);
    rpc.latency.record_many(25_000_000, 10);
    let rate = |rpc: &FlowResult| effects.effect_on_flow(&plan, rpc).goodput_share;
    assert!((rate(&rpc) - 0.02).abs() < 1e-3, "10 times 20 ms of 10 s: {}", rate(&rpc));
    let latency = Adjusted { without_waits: rpc.latency.clone(), ..Adjusted::default() };
    rpc.adjusted = Some(Box::new(AdjustedDelays { latency, ..AdjustedDelays::default() }));
    assert!(rate(&rpc) < 1e-6, "they are slow without the host, too: {}", rate(&rpc));
}

#[test]
fn delay_of_a_transfer_grows_with_its_round_trips() {
    let mut lateness = Histogram::new();
    lateness.record_many(50_000, 1_000);
    let effects = effects(lateness, &[]);
    let (plan, mut web) = result(3);
    let mut completion = Histogram::new();
    completion.record_many(500_000_000, 10);
    web.transfers = Some(Transfers { completed: 10, completion, ..Transfers::default() });
    let p50 = |web: &FlowResult| effects.effect_on_flow(&plan, web).p50_ns;
    web.received_bytes = 10 * 1_000;
    // A handshake and one round trip: 4 crossings.
    assert!((195_000..205_000).contains(&p50(&web)), "{}", p50(&web));
    web.received_bytes = 10 * 1_000_000;
    // 1 MB needs 7 rounds of slow start.
    assert!((790_000..810_000).contains(&p50(&web)), "{}", p50(&web));
}

#[test]
fn reports_result_above_tolerance() {
    let (plan, mut bulk) = result(0);
    bulk.rtt.record_many(100_000_000, 100);
    bulk.received_bytes = 10_000_000;
    let mut lateness = Histogram::new();
    lateness.record_many(20_000, 100);
    assert!(Excess::of(&plan, &bulk, &effects(lateness.clone(), &[100_000_000])).is_none());
    let stalled = effects(lateness, &[400_000_000]);
    let (factor, excess) = Excess::of(&plan, &bulk, &stalled).unwrap();
    assert!((2.0..2.1).contains(&factor), "{factor}");
    assert_eq!(
        excess.text(plan.tolerance.rate),
        "goodput 8 Mbit/s may be 4.0 % too low because of the machine, the lab tolerates 2 %"
    );
    let mut late = Histogram::new();
    late.record_many(6_000_000, 100);
    let (_, excess) = Excess::of(&plan, &bulk, &effects(late, &[])).unwrap();
    let text = excess.text(plan.tolerance.rate);
    assert!(text.contains("may be") && text.contains("the lab tolerates"), "{text}");
}

#[test]
fn uses_worst_host_of_cluster() {
    let late = |nanos| HostDelays { lateness: histogram(&[nanos; 100]), ..HostDelays::default() };
    let stalled = |nanos| HostDelays { stalls: each_second(&[nanos]), ..HostDelays::default() };
    let hosts = vec![late(20_000), late(4_000_000), late(30_000)];
    let effects = HostEffects::new(hosts, Span::from_secs(10));
    assert!((3_980_000.0..4_020_000.0).contains(&effects.added_delay(0.01, CROSSING)));
    let hosts = vec![stalled(1_000_000), stalled(5_000_000), stalled(3_000_000)];
    let effects = HostEffects::new(hosts, Span::from_secs(10));
    assert_eq!(effects.stalled_time(), Span::from_millis(8), "the two ends of a flow");
    assert_eq!(effects.longest_stall(), Span::from_millis(5));
}
