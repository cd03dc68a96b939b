//! Lab files with bundles: their plans and error messages.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::path::Path;

use base::{Bandwidth, Bytes, Ratio, Span, Time};
use fabric::{Discipline, NodeKind, QueueLimit};
use lab::plan::{Action, BoxAction, BundleControl, Feedback, Marking, Mode, Plan, Role};
use lab::{Diagnostics, parse, resolved};
use miette::{GraphicalReportHandler, GraphicalTheme};

const SITES: &str = r#"
[node.a]
[node.b]
[node.sa]
kind = "sendbox"
[node.rb]
kind = "receivebox"
[node.sb]
kind = "sendbox"
[node.ra]
kind = "receivebox"

[[link]]
ends = ["a", "sa"]
[[link]]
ends = ["sa", "ra"]
[[link]]
name = "core"
ends = ["ra", "sb"]
rate = "96 Mbit/s"
delay = "25 ms"
[[link]]
ends = ["sb", "rb"]
[[link]]
ends = ["rb", "b"]

[[flow]]
from = "a"
to = "b"
"#;

const BUNDLES: &str = r#"
[[bundle]]
name = "there"
from = "sa"
to = "rb"
scheduler = { kind = "fq-codel", limit = "2000 packets" }
control = { kind = "constant", rate = "90 Mbit/s" }
marking = "encapsulation"
mode = "dry-run"
floor = "2 Mbit/s"
ceiling = "1 Gbit/s"
elasticity = false
multipath = false
feedback = { loss = "10 %", jitter = "5 ms" }
[[bundle]]
from = "sb"
to = "ra"

[[at]]
time = "10 s"
box = "rb"
action = "stop"
[[at]]
time = "11 s"
box = "rb"
action = "start"
[[at]]
time = "12 s"
box = "sa"
action = "restart"
"#;

fn read(text: &str) -> Plan {
    match parse("test.toml", text, Path::new(".")) {
        Ok(mut lab) if lab.warnings.is_empty() => lab.plans.remove(0),
        Ok(lab) => panic!("{:#?}", lab.warnings.list()),
        Err(errors) => panic!("{:#?}", errors.list()),
    }
}

#[test]
fn bundles_and_boxes_are_read() {
    let plan = read(&format!("{SITES}{BUNDLES}"));
    let node = |name: &str| plan.node(name).unwrap();
    let [back, there] = &plan.bundles[..] else { panic!("two bundles") };
    assert_eq!((back.name.as_str(), back.from, back.to), ("sb-ra", node("sb"), node("ra")));
    let fq = Discipline::Fq { flows: 65_536, quantum: Bytes::new(15_380) };
    assert_eq!(back.scheduler.discipline, fq);
    assert_eq!(back.scheduler.limit, QueueLimit::UNLIMITED);
    assert_eq!((back.control, back.mode), (BundleControl::Copa, Mode::Enforce));
    assert_eq!((back.marking, back.feedback), (Marking::Header, Feedback::default()));
    assert_eq!((back.floor, back.ceiling), (Bandwidth::from_mbits_per_sec(1), None));
    assert!(back.elasticity && back.multipath);
    assert_eq!((there.name.as_str(), there.from, there.to), ("there", node("sa"), node("rb")));
    assert!(matches!(there.scheduler.discipline, Discipline::FqCoDel { .. }));
    assert_eq!(there.control, BundleControl::Constant(Bandwidth::from_mbits_per_sec(90)));
    assert_eq!((there.marking, there.mode), (Marking::Encapsulation, Mode::DryRun));
    assert_eq!(there.ceiling, Some(Bandwidth::from_mbits_per_sec(1000)));
    assert!(!there.elasticity && !there.multipath);
    let loss = Ratio::from_parts_per_billion(100_000_000);
    assert_eq!(there.feedback, Feedback { loss, jitter: Span::from_millis(5) });
    assert_eq!(plan.bundle("there"), Some(1));
    let boxes = plan.nodes.iter().filter(|node| node.kind.is_box());
    assert!(boxes.clone().all(|node| node.fabric == NodeKind::Router));
    assert_eq!(boxes.filter(|node| node.kind == Role::SendBox).count(), 2);
    let happens: Vec<_> = plan.events.iter().map(|e| (e.at, e.text.as_str())).collect();
    let at = |seconds| Time::ZERO + Span::from_secs(seconds);
    let expected =
        [(at(10), "box rb stops"), (at(11), "box rb starts"), (at(12), "box sa restarts")];
    assert_eq!(happens, expected);
    assert_eq!(plan.events[2].action, Action::Box(node("sa"), BoxAction::Restart));
}

/// Writing and reading gives the same bundles.
#[test]
fn bundles_survive_being_written_out() {
    let plan = read(&format!("{SITES}{BUNDLES}"));
    let text = resolved(&plan);
    let again = read(&text);
    assert_eq!(again.bundles, plan.bundles, "{text}");
    assert_eq!(again.events, plan.events, "{text}");
    let kinds = |plan: &Plan| plan.nodes.iter().map(|node| node.kind).collect::<Vec<_>>();
    assert_eq!(kinds(&again), kinds(&plan), "{text}");
}

/// The order of the file has no effect.
#[test]
fn bundles_are_in_the_order_of_their_names() {
    let text = |first: &str, second: &str| {
        format!(
            "{SITES}[[bundle]]\nname = \"{first}\"\nfrom = \"sa\"\nto = \"rb\"\n\
             [[bundle]]\nname = \"{second}\"\nfrom = \"sb\"\nto = \"ra\"\n"
        )
    };
    let names = |plan: &Plan| plan.bundles.iter().map(|b| b.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&read(&text("z", "y"))), ["y", "z"]);
    assert_eq!(names(&read(&text("y", "z"))), ["y", "z"]);
}

/// A bundle's traffic may consist of responses only, or use paths that are not up yet.
#[test]
fn traffic_is_looked_for_in_both_directions() {
    let bundle = "[[bundle]]\nfrom = \"sb\"\nto = \"ra\"\n";
    let sa = "[[bundle]]\nfrom = \"sa\"\nto = \"rb\"\n";
    assert_eq!(read(&format!("{SITES}{bundle}{sa}")).bundles.len(), 2);
}

fn render(diagnostics: &Diagnostics) -> String {
    let mut out = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .with_width(100)
        .render_report(&mut out, diagnostics)
        .expect("writing to a String cannot fail");
    out.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[test]
fn invalid_bundles_are_rejected() {
    for name in ["wrong-ends", "wrong-settings"] {
        check(&format!("bundles-of-{name}"), true);
    }
    for name in ["collapsed", "fluid", "unrouted", "rate-controlled"] {
        check(&format!("bundles-{name}"), true);
    }
    check("bundles-beside-the-path", false);
}

fn check(name: &str, is_refused: bool) {
    let path = format!("{}/tests/wrong/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let found = match parse("lab.toml", &text, Path::new(".")) {
        Ok(lab) => {
            assert!(!is_refused, "{name}");
            lab.warnings
        }
        Err(errors) => {
            assert!(is_refused, "{name}: {:#?}", errors.list());
            errors
        }
    };
    insta::assert_snapshot!(name, render(&found));
}
