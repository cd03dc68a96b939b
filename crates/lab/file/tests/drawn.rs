//! A lab with session generators, written and read: the same plan from the
//! rules, without listed hosts.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use lab::plan::{Plan, Role};
use lab::{Overrides, parse_with, resolved};
use proptest::prelude::*;

/// Networks, two of their routers, and a pattern for all routers.
const NETWORKS: [(&str, &str, &str); 4] = [
    ("[[generate]]\nkind = \"ring\"\nrouters = 5\n", "[\"r4\", \"r1\"]", "\"r*\""),
    (
        "[[import]]\nfile = \"files/backbone.gml\"\nlink = { queue = \"unlimited\" }\n",
        "[\"seattle\", \"houston\"]",
        "\"*\"",
    ),
    (
        "[[generate]]\nkind = \"transit-stub\"\ntransit_routers = 2\nstub_routers = 4\n",
        "[\"t1-1\", \"t2-1\"]",
        "[\"t*\", \"s*\"]",
    ),
    // The switch's subnet is larger than others, and one is fixed, so the addresses have gaps.
    (
        "[node.r1]\nkind = \"router\"\n[node.r2]\nkind = \"router\"\n[node.r3]\n\
         kind = \"router\"\n[node.switch]\nkind = \"switch\"\n[node.h1]\n[node.h2]\n[node.h3]\n\
         [[link]]\nends = [\"r1\", \"r2\"]\naddresses = { r1 = \"10.0.0.97/27\" }\n\
         [[link]]\nends = [\"r2\", \"r3\"]\n[[link]]\nends = [\"r3\", \"switch\"]\n\
         [[link]]\nends = [\"h1\", \"switch\"]\n[[link]]\nends = [\"h2\", \"switch\"]\n\
         [[link]]\nends = [\"h3\", \"switch\"]\n\
         [[link]]\nends = [\"r1\", \"r3\"]\nmtu = \"900 B\"\n",
        "[\"r3\", \"r1\"]",
        "\"r?\"",
    ),
];

const LEAVES: [&str; 3] =
    ["", "leave = \"900 ms\"\n", "leave = [\"800 ms\", \"1 s\"]\nleave_count = 1\n"];
const SIZES: [&str; 5] = [
    "",
    "size = \"70 kB\"\n",
    "size = { pareto = \"600 kB\", shape = 1.5, limit = \"2 MB\" }\n",
    "size = { exponential = \"50 kB\" }\n",
    "size = { cdf = \"files/mice-and-elephants.cdf\" }\n",
];
const DEMANDS: [&str; 3] =
    ["", "demand = \"5 Mbit/s\"\n", "demand = [\"1 Mbit/s\", \"7000001 bit/s\"]\n"];
const STARTS: [&str; 3] = ["", "start = \"1 ms\"\n", "start = [\"0 s\", \"333333333 ns\"]\n"];

fn read(text: &str, folder: &Path) -> Vec<Plan> {
    let lab = parse_with("lab.toml", text, folder, &Overrides::default());
    lab.unwrap_or_else(|errors| panic!("{text}\n{:#?}", errors.list())).plans
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples")
}

/// Removes the fields that a resolved lab does not contain.
fn stripped(mut plan: Plan) -> Plan {
    plan.nodes.iter_mut().for_each(|node| node.declared = (0, 0));
    plan.sweep.clear();
    plan
}

/// Writes a plan, reads it without access to other files, and compares.
fn repeats(plan: &Plan) -> String {
    let text = resolved(plan);
    let mut again = read(&text, Path::new("/nonexistent"));
    assert_eq!(again.len(), 1);
    let again = again.remove(0);
    assert_eq!(stripped(again), stripped(plan.clone()), "{text}");
    text
}

prop_compose! {
    /// The keys of a session generator except name and routers.
    fn keys()(
        count in 1u32..=10,
        hosts in 10u32..=13,
        start in 0..STARTS.len(),
        leave in 0..LEAVES.len(),
        size in 0..SIZES.len(),
        demand in 0..DEMANDS.len(),
    ) -> String {
        let rest = [STARTS[start], LEAVES[leave], SIZES[size], DEMANDS[demand]].concat();
        format!("count = {count}\nhosts = {hosts}\nhost_delay = \"17 us\"\n{rest}")
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_written_lab_draws_the_same(
        network in 0..NETWORKS.len(),
        one in keys(),
        other in prop::option::of(keys()),
        names in prop::sample::select(vec![["first", "second"], ["second", "first"]]),
        seed in 0u64..=i64::MAX as u64,
        control in prop::option::of(prop::sample::select(vec!["slbn", "bfyz", "rcp"])),
    ) {
        let (network, two, all) = NETWORKS[network];
        let mut text = format!("[lab]\nduration = \"2 s\"\nseed = {seed}\n{network}");
        write!(text, "[[sessions]]\nname = \"{}\"\nrouters = {all}\n{one}", names[0]).unwrap();
        if let Some(other) = &other {
            write!(text, "[[sessions]]\nname = \"{}\"\nrouters = {two}\n{other}", names[1]).unwrap();
        }
        if let Some(control) = control {
            write!(text, "[control]\nprotocol = \"{control}\"\nloss = \"0.5 %\"\n").unwrap();
        }
        let plan = read(&text, &examples()).remove(0);
        let written = repeats(&plan);
        // The text names routers, but not generated hosts.
        let own = plan.nodes.iter().filter(|node| {
            node.kind != Role::Host || !node.name.contains("-p")
        });
        prop_assert_eq!(written.matches("\n[node.").count(), own.count());
        prop_assert!(!written.contains("each = ") && !written.contains("-p1"));
    }
}

/// Every seed of a sweep has its own sessions and its own text.
#[test]
fn swept_seeds_are_written_with_the_plan() {
    let (network, two, _) = NETWORKS[0];
    let text = format!(
        "[lab]\nduration = \"2 s\"\nseed = {{ sweep = [1, 2, 3] }}\n{network}\
         [[sessions]]\nname = \"all\"\ncount = 9\nrouters = {two}\nleave = [\"1 s\", \"2 s\"]\n"
    );
    let plans = read(&text, Path::new("."));
    let texts: Vec<String> = plans.iter().map(repeats).collect();
    assert_eq!(texts.len(), 3);
    assert_ne!(plans[0].sessions, plans[1].sessions);
    assert!(texts[1].contains("\nseed = 2\n"));
}

/// Keys in the file for generated hosts, and listed sessions beside a session generator.
#[test]
fn hosts_of_populations_can_still_be_named() {
    let (network, two, _) = NETWORKS[3];
    let text = format!(
        "[lab]\nduration = \"2 s\"\ncapture = [\"r1-p1\"]\n{network}\
         [[sessions]]\nname = \"listed\"\n\
         each = [{{ from = \"h1\", to = \"h2\", start = \"1 s\" }}]\n\
         [[sessions]]\nname = \"drawn\"\ncount = 4\nrouters = {two}\nhosts = 2\n\
         [[at]]\ntime = \"1 s\"\nlink = [\"r1-p1\", \"r1\"]\ndown = true\n\
         [[at]]\ntime = \"1.5 s\"\nlink = \"r1-p2-r1\"\nset = {{ rate = \"1 Mbit/s\" }}\n\
         [[expect]]\nthat = \"link.r3-p1-r3.up.drops < 5\"\n"
    );
    let plan = read(&text, Path::new(".")).remove(0);
    assert!(plan.node("r1-p2").is_some() && plan.sessions[0].drawing.is_none());
    let written = repeats(&plan);
    assert!(written.contains("each = ") && written.contains("count = 4"));
}

/// The length of the text does not depend on the number of sessions.
#[test]
fn many_sessions_take_little_text() {
    let (network, _, all) = NETWORKS[0];
    let with = |count| {
        let text = format!(
            "[lab]\nduration = \"2 s\"\n{network}\
             [[sessions]]\nname = \"all\"\ncount = {count}\nrouters = {all}\nhosts = 1000\n"
        );
        repeats(&read(&text, Path::new(".")).remove(0))
    };
    assert_eq!(with(1000).len(), with(3000).len());
}
