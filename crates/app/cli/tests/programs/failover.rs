//! Routes of kernels after events, on both clocks.

use super::bench::{Bench, Run, conclusive, enclosed, installed, requires_labs};
use super::routing::lab;

const PLAIN: &str = include_str!("../field/c27-kernel-failover/plain.toml");
const ROUTER_PROGRAM: &str = include_str!("../field/c27-kernel-failover/router-program.toml");
const MULTIHOMED: &str = include_str!("../field/c27-kernel-failover/multihomed.toml");

fn without_programs(lab: &str) -> String {
    let mut text = String::new();
    let mut is_program = false;
    for line in lab.lines() {
        if line.starts_with('[') {
            is_program = line == "[[program]]";
        }
        if !is_program {
            text += line;
            text.push('\n');
        }
    }
    text
}

/// Runs a lab on both clocks, and checks that its expectations are met on both. `facts` do not
/// depend on time.
#[track_caller]
fn check_on_both_clocks(test: &str, lab: &str, facts: impl Fn(&Run)) {
    if !enclosed(test) || !installed(test, &["ip", "ping"]) {
        return;
    }
    let bench = Bench::new();
    bench.write("virtual.toml", &without_programs(lab));
    let output = bench.netarium(&["sim", "virtual.toml", "--json", "--no-report"]);
    let simulated = Run::of(output);
    assert_eq!(simulated.code, Some(0), "{}", simulated.dump());
    let attempt = || {
        let run = bench.run(lab);
        // With a wrong number the run fails; the machine may be the reason.
        assert!(matches!(run.code, Some(0 | 1 | 3)), "{}", run.dump());
        let warnings = run.record()["warnings"].to_string();
        assert!(!warnings.contains("kernel"), "{warnings}");
        facts(&run);
        run
    };
    conclusive(test, attempt, Run::expectations_passed);
}

#[test]
fn single_homed_hosts_use_detour_of_routers() {
    check_on_both_clocks("single_homed_hosts_use_detour_of_routers", PLAIN, |_| {});
}

/// Parts of the output of `ip route`, which `r1` or `alice` prints before and in the outage.
fn tables(run: &Run, program: &str, separator: &str) -> Vec<String> {
    let printed = run.stdout(program);
    let mut tables: Vec<String> = Vec::new();
    for line in printed.lines() {
        if line.starts_with(separator) {
            tables.push(String::new());
        }
        if let Some(table) = tables.last_mut() {
            *table += line;
            table.push('\n');
        }
    }
    tables
}

#[test]
fn router_kernel_uses_detour() {
    let test = "router_kernel_uses_detour";
    check_on_both_clocks(test, ROUTER_PROGRAM, |run| {
        let tables = tables(run, "watch", "10.0.0.0/30");
        assert_eq!(tables.len(), 2, "{tables:?}");
        let bob = run.address("bob", false, 0);
        assert!(tables[0].contains(&format!("{bob} dev eth1")), "{tables:?}");
        assert!(tables[1].contains(&format!("{bob} dev eth2")), "{tables:?}");
    });
}

#[test]
fn multihomed_host_uses_other_link() {
    let test = "multihomed_host_uses_other_link";
    check_on_both_clocks(test, MULTIHOMED, |run| {
        let tables = tables(run, "routes", "default");
        let devices: Vec<_> =
            tables.iter().filter_map(|table| table.split_whitespace().nth(2)).collect();
        assert_eq!(devices, ["eth0", "eth1", "eth0"], "{tables:?}");
    });
}

/// The lab with IPv6 flows and `ip -6 route`.
fn over_ipv6(lab: &str) -> String {
    lab.replace("transport = \"udp\"", "transport = \"udp\"\nfamily = \"ipv6\"")
        .replace("ip route", "ip -6 route")
        .replace("ping ", "ping -6 ")
}

#[test]
fn ipv6_routes_use_detour() {
    check_on_both_clocks("ipv6_routes_use_detour", &over_ipv6(ROUTER_PROGRAM), |run| {
        let printed = run.stdout("watch");
        let bob = run.address("bob", true, 0);
        let devices: Vec<_> = printed
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("{bob} dev "))?.split(' ').next())
            .collect();
        assert_eq!(devices, ["eth1", "eth2"], "{printed}");
    });
    check_on_both_clocks("ipv6_routes_use_detour", &over_ipv6(MULTIHOMED), |_| {});
}

const NODE: &str = r#"
[[at]]
time = "4 s"
node = "r2"
down = true
[[at]]
time = "8 s"
node = "r2"
up = true
[[program]]
name = "watch"
node = ["r1", "r2", "r3", "bob"]
run = "sleep 1000"
service = true
[[flow]]
name = "probe"
from = "alice"
to = "bob"
transport = "udp"
rate = "400 kbit/s"
packet = "500 B"
[[flow]]
name = "upload"
from = "bob"
to = "alice"
transport = "udp"
rate = "400 kbit/s"
packet = "500 B"
[[expect]]
that = "flow.upload.delay.min >= 10 ms between 5 s and 7 s"
[[expect]]
that = "flow.upload.delay.max <= 9 ms between 10 s and 11 s"
[[expect]]
that = "flow.upload.loss.mean <= 1 %"
"#;

#[test]
fn kernels_avoid_failed_node() {
    // `r2`, on the shortest path, goes down and returns. alice, bob and the routers have kernels.
    let links = [
        ("alice", "r1", "delay = \"2 ms\""),
        ("r1", "r2", "delay = \"2 ms\""),
        ("r2", "bob", "delay = \"2 ms\""),
        ("r1", "r3", "delay = \"6 ms\""),
        ("r3", "bob", "delay = \"2 ms\""),
    ];
    let lab = lab("duration = \"12 s\"", &links) + NODE;
    check_on_both_clocks("kernels_avoid_failed_node", &lab, |_| {});
}

/// The route that a program sets remains, and none is added.
#[test]
fn keeps_routes_of_programs() {
    requires_labs!("ip");
    let lab = without_programs(MULTIHOMED)
        .replace("[lab]", "[lab]\nrouting = \"none\"")
        .split("[[flow]]")
        .next()
        .unwrap()
        .to_owned()
        + r#"
[[program]]
name = "routes"
node = "alice"
run = """
ip route replace 192.0.2.0/24 dev eth0
ip route show table all | sed 's/ linkdown//'; echo then
until [ $(cat /sys/class/net/eth0/carrier) = 0 ]; do sleep 0.1; done
sleep 1
ip route show table all | sed 's/ linkdown//'
"""
"#;
    let bench = Bench::new();
    let run = bench.run(&lab).passed();
    let printed = run.stdout("routes");
    let (before, after) = printed.split_once("then\n").unwrap();
    assert!(before.contains("192.0.2.0/24 dev eth0"), "{printed}");
    assert_eq!(before, after);
}
