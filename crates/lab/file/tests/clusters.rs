//! Requirements of labs on their placement in a cluster.

use std::path::Path;

use base::Bytes;
use lab::plan::{OnLoss, Plan, Spread};
use lab::{Code, Overrides, parse_with, resolved};

const NODES: &str = r#"
[lab]
model = "collapsed"
[node.a]
machine = "m1"
cpus = 0.5
memory = "512 MiB"
[node.b]
[node.c]
cpus = 2
[node.r]
kind = "router"
[[generate]]
kind = "star"
hub = "switch"
prefix = "x-"
hosts = 3
link = { rate = "1 Gbit/s" }
[[link]]
ends = ["a", "r"]
[[link]]
ends = ["b", "r"]
[[link]]
ends = ["c", "r"]
"#;

fn parsed(text: &str) -> Result<Plan, Vec<(Code, String)>> {
    let overrides = Overrides { trust_programs: true, ..Overrides::default() };
    match parse_with("test.toml", text, Path::new("."), &overrides) {
        Ok(mut lab) => Ok(lab.plans.remove(0)),
        Err(errors) => Err(errors.list().iter().map(|d| (d.code, d.message.clone())).collect()),
    }
}

fn with(cluster: &str) -> Plan {
    parsed(&format!("{NODES}[cluster]\n{cluster}")).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

fn refused(cluster: &str) -> Vec<(Code, String)> {
    parsed(&format!("{NODES}[cluster]\n{cluster}")).expect_err(cluster)
}

fn names(plan: &Plan, group: &[base::NodeId]) -> Vec<String> {
    group.iter().map(|id| plan.nodes[id.index()].name.clone()).collect()
}

#[test]
fn groups_pins_and_needs_are_read_and_written_back() {
    let plan = with(
        r#"
on_agent_loss = "continue"
spread = "pack"
apart = [["a", "b"], ["x-*"]]
together = [["b", "c"]]
machines = { m2 = ["b", "x-h1"], "rack.3" = "x-h2" }
cpus = 0.25
memory = "64 MiB"
files = ["apps/**", "data/*.csv"]
"#,
    );
    let cluster = &plan.cluster;
    assert_eq!((cluster.on_loss, cluster.spread), (OnLoss::Continue, Spread::Pack));
    assert_eq!(cluster.apart.len(), 2);
    assert_eq!(names(&plan, &cluster.apart[1]), ["x-h1", "x-h2", "x-h3"]);
    assert_eq!(names(&plan, &cluster.together[0]), ["b", "c"]);
    assert_eq!(cluster.files, ["apps/**", "data/*.csv"]);
    let wishes = |name: &str| cluster.wishes(plan.node(name).unwrap());
    let a = wishes("a");
    assert_eq!(
        (a.machine.as_deref(), a.cpus, a.memory),
        (Some("m1"), Some(0.5), Some(Bytes::new(512 << 20)))
    );
    let c = wishes("c");
    assert_eq!((c.machine, c.cpus, c.memory), (None, Some(2.0), Some(Bytes::new(64 << 20))));
    let pins = ["b", "x-h1", "x-h2", "x-h3"].map(|name| wishes(name).machine.unwrap_or_default());
    assert_eq!(pins, ["m2", "m2", "rack.3", ""]);
    assert_eq!(wishes("x-h3").cpus, Some(0.25));
    let again = parsed(&resolved(&plan)).unwrap();
    assert_eq!(again.cluster, plan.cluster);
    assert_eq!(resolved(&again), resolved(&plan));
}

#[test]
fn labs_that_ask_for_nothing_are_written_without_a_section() {
    let text = "[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"b\"]\n";
    let plan = parsed(text).unwrap();
    assert_eq!(plan.cluster, lab::plan::Cluster::default());
    assert!(!resolved(&plan).contains("[cluster]"));
}

#[test]
fn contradictions_are_refused_all_at_once() {
    let found = refused(
        r#"
apart = [["a", "b"], ["b", "c"], ["x-h1", "x-h2"]]
together = [["b", "c"], ["a", "x-h3"]]
machines = { m1 = ["b", "x-h1", "x-h2"], m2 = ["x-h3"] }
"#,
    );
    let conflicts: Vec<&str> = found
        .iter()
        .filter(|(code, _)| *code == Code::Conflict)
        .map(|(_, message)| message.as_str())
        .collect();
    assert_eq!(
        conflicts,
        [
            "`a` and `b` must be on different machines, but both are on `m1`",
            "`b` and `c` are to be apart and together",
            "`x-h1` and `x-h2` must be on different machines, but both are on `m1`",
            "`x-h3` is to be on `m2`, and together with `a` on `m1`",
        ]
    );
    assert_eq!(found.len(), conflicts.len());
}

/// Groups that share a node are joined.
#[test]
fn groups_of_together_are_transitive() {
    let found =
        refused("apart = [[\"a\", \"x-h1\"]]\ntogether = [[\"a\", \"b\"], [\"b\", \"x-h1\"]]");
    assert_eq!(found[0].1, "`a` and `x-h1` are to be apart and together");
}

#[test]
fn invalid_placements_are_rejected() {
    let cases = [
        ("apart = [[\"a\", \"bb\"]]", Code::UnknownName, "unknown node `bb`"),
        (
            "apart = [[\"a\", \"r\"]]",
            Code::Restricted,
            "a group with `r`, a router on which nothing runs",
        ),
        (
            "machines = { m1 = [\"r\"] }",
            Code::Restricted,
            "a machine for `r`, a router on which nothing runs",
        ),
        ("machines = { m2 = \"a\" }", Code::Conflict, "`a` cannot be on `m1` and on `m2`"),
        ("machines = { \"m 1\" = [\"b\"] }", Code::BadName, "`m 1` is not a valid agent name"),
        ("on_agent_loss = \"stopp\"", Code::UnknownWord, "`on_agent_loss` cannot be `stopp`"),
        ("files = [\"../x\"]", Code::OutOfRange, "`../x` is not in the folder"),
        ("files = [\"/etc/passwd\"]", Code::OutOfRange, "`/etc/passwd` is not in the folder"),
        ("cpus = -1", Code::OutOfRange, "`cpus`"),
        ("memory = 5", Code::Quantity, "`memory` needs a unit"),
    ];
    for (cluster, code, message) in cases {
        let found = refused(cluster);
        assert!(
            found.iter().any(|(c, m)| *c == code && m.starts_with(message)),
            "{cluster}: {found:?}"
        );
    }
}

#[test]
fn a_router_on_which_something_runs_has_a_machine() {
    let text = format!(
        "{NODES}[[program]]\nnode = \"r\"\nrun = \"bird\"\n[cluster]\napart = [[\"r\", \"a\"]]\n"
    );
    let plan = parsed(&text).unwrap();
    assert_eq!(names(&plan, &plan.cluster.apart[0]), ["a", "r"]);
}
