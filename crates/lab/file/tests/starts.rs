//! Random starts of flows: `start = { jitter = … }` and `start_jitter` of `[lab]`.

use std::path::Path;

use base::{Span, Time};
use lab::plan::Plan;
use lab::{Overrides, parse_with, resolved};

fn plan(lab: &str, flows: &str, seed: u64) -> Plan {
    let text = format!(
        "[lab]\nduration = \"10 s\"\n{lab}\n[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"b\"]\n\
         {flows}"
    );
    let overrides = Overrides { seed: Some(seed), ..Overrides::default() };
    let lab = parse_with("t.toml", &text, Path::new(""), &overrides).expect("a right lab");
    lab.plans.into_iter().next().expect("a plan")
}

fn flow(name: &str, start: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\n{start}\n")
}

fn start(plan: &Plan, name: &str) -> u64 {
    let flow = plan.flows.iter().find(|flow| flow.name == name).expect("the flow");
    flow.start.as_nanos()
}

#[test]
fn starts_are_uniform_over_the_jitter_and_keyed_by_seed_and_name() {
    let jittered = "start = { at = \"1 s\", jitter = \"500 ms\" }";
    let starts: Vec<u64> =
        (0..400).map(|seed| start(&plan("", &flow("f", jittered), seed), "f")).collect();
    assert!(starts.iter().all(|at| (1_000_000_000..=1_500_000_000).contains(at)), "{starts:?}");
    let mean = starts.iter().sum::<u64>() as f64 / 400.0;
    assert!((mean - 1.25e9).abs() < 25e6, "mean start {mean}");
    let both = flow("other", jittered) + &flow("f", jittered);
    assert_eq!(start(&plan("", &both, 7), "f"), starts[7], "another flow changes nothing");
    assert_ne!(start(&plan("", &both, 7), "other"), starts[7]);
}

#[test]
fn labs_jitter_applies_to_flows_without_their_own() {
    let flows = flow("plain", "start = \"2 s\"")
        + &flow("table", "start = { at = \"2 s\" }")
        + &flow("exact", "start = { at = \"2 s\", jitter = \"0 s\" }");
    let without = plan("", &flows, 3);
    assert!(without.flows.iter().all(|flow| flow.start == Time::from_nanos(2_000_000_000)));
    let with = plan("start_jitter = \"100 ms\"", &flows, 3);
    assert_eq!(with.start_jitter, Some(Span::from_millis(100)));
    assert_eq!(start(&with, "exact"), 2_000_000_000);
    for name in ["plain", "table"] {
        let at = start(&with, name);
        assert!(at > 2_000_000_000 && at <= 2_100_000_000, "{name} starts at {at}");
    }
}

#[test]
fn flow_starts_before_the_end_of_the_run() {
    let late = flow("f", "start = { at = \"9999 ms\", jitter = \"1 h\" }");
    assert!((0..50).all(|seed| start(&plan("", &late, seed), "f") < 10_000_000_000));
}

#[test]
fn resolved_lab_has_the_drawn_start_and_no_jitter() {
    let lab = "start_jitter = \"100 ms\"";
    let drawn = plan(lab, &flow("f", "start = { jitter = \"50 ms\" }"), 5);
    let text = resolved(&drawn);
    assert!(!text.contains("start_jitter"), "{text}");
    let again = parse_with("t.toml", &text, Path::new(""), &Overrides::default());
    let again = again.expect("a right lab").plans.remove(0);
    assert_eq!(again.flows[0].start, drawn.flows[0].start);
}
