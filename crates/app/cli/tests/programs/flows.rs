//! Built-in flows over sockets of the kernel.

use std::fs;

use super::bench::{Bench, number, requires_labs};

const PAIR: &str = r#"
[lab]
name = "flows"
duration = "30 s"
[node.a]
[node.b]
[[link]]
name = "core"
ends = ["a", "b"]
rate = "50 Mbit/s"
delay = "2 ms"

[[flow]]
name = "many"
from = "a"
to = "b"
size = "1 MB"
streams = 4
[[flow]]
name = "small"
from = "a"
to = "b"
size = "100 kB"
message = "500 B"
family = "ipv6"
[[flow]]
name = "paced"
from = "b"
to = "a"
transport = "udp"
rate = "2 Mbit/s"
packet = "500 B"
size = "250 kB"
[[flow]]
name = "paced6"
from = "b"
to = "a"
transport = "udp"
rate = "2 Mbit/s"
size = "100 kB"
family = "ipv6"
dscp = 46
[[flow]]
name = "rpc"
from = "a"
to = "b"
request = "100 B"
response = "2 kB"
count = 50
[[flow]]
name = "timed"
from = "a"
to = "b"
start = "500 ms"
duration = "1 s"
[[flow]]
name = "stopped"
from = "a"
to = "b"
[[at]]
time = "1 s"
flow = "stopped"
stop = true
[[expect]]
that = "flow.rpc.latency.min >= 3.5 ms"
[[expect]]
that = "flow.paced.delay.min >= 1.5 ms"
[[expect]]
that = "flow.many.completion < 29 s"
[[expect]]
that = "flow.rpc.responses.sum == 50"
[[expect]]
that = "link.core.up.utilisation.max <= 101 % between 200 ms and 1 s"
"#;

#[test]
fn delivers_flows_of_every_kind() {
    requires_labs!();
    let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let controls = fs::read_to_string(file).unwrap();
    let mut lab = PAIR.to_owned();
    for control in controls.split_whitespace() {
        let flow = [
            "[[flow]]\nname = \"",
            control,
            "\"\nfrom = \"a\"\nto = \"b\"\nsize = \"1 MB\"\ncontrol = \"",
            control,
            "\"\n",
        ];
        lab.extend(flow);
    }
    let bench = Bench::new();
    let run = bench.run(&lab).passed();
    let whole = controls.split_whitespace().map(|c| (c, 1_000_000));
    let whole = whole.chain([("many", 1_000_000), ("small", 100_000)]);
    for (name, bytes) in whole {
        let flow = run.flow(name);
        assert_eq!(flow["received_bytes"], bytes, "{flow:#}");
        assert!(number(&flow["completion_s"]) > 0.0, "{flow:#}");
        assert!(flow["error"].is_null(), "{flow:#}");
    }
    for control in controls.split_whitespace() {
        let kind = run.flow(control)["kind"].as_str().unwrap().to_owned();
        assert!(kind.contains(control), "{kind}");
    }
    let paced = run.flow("paced");
    assert_eq!(paced["sent_datagrams"], 500, "{paced:#}");
    assert_eq!(paced["lost_datagrams"], 0, "{paced:#}");
    assert_eq!(paced["received_bytes"], 250_000, "{paced:#}");
    assert_eq!(run.flow("paced6")["lost_datagrams"], 0, "{}", run.dump());
    let rpc = run.flow("rpc");
    assert_eq!(rpc["responses"], 50, "{rpc:#}");
    assert_eq!(rpc["received_bytes"], 100_000, "{rpc:#}");
    let timed = run.flow("timed");
    assert!(number(&timed["started_s"]) >= 0.5, "{timed:#}");
    let stopped = run.flow("stopped");
    // Without the event it would end with the lab, after 30 s.
    assert!((1.0..29.0).contains(&number(&stopped["ended_s"])), "{stopped:#}");
    assert!(number(&stopped["received_bytes"]) > 0.0, "{stopped:#}");
    // Each loss is counted by a link with its reason.
    for direction in ["up", "down"] {
        let drops = &run.link("core", direction)["drops"];
        let odd = drops.as_object().unwrap().keys().find(|reason| *reason != "queue full");
        assert_eq!(odd, None, "{drops}");
    }
}

#[test]
fn host_between_two_links_reaches_both_sides() {
    requires_labs!();
    let lab = r#"
        lab = { name = "middle", duration = "10 s" }
        node.left = {}
        node.middle = {}
        node.right = {}
        link = [{ ends = ["left", "middle"] }, { ends = ["middle", "right"] }]
        flow = [
            { from = "middle", to = "left", size = "100 kB" },
            { from = "middle", to = "right", size = "100 kB" },
            { from = "left", to = "middle", size = "100 kB", family = "ipv6" },
            { from = "right", to = "middle", size = "100 kB", family = "ipv6" },
        ]
        program = [{ node = "right", run = "ping -n -c 2 -i 0.2 middle" }]
    "#;
    let bench = Bench::new();
    let run = bench.run(lab).passed();
    for flow in ["middle-left", "middle-right", "left-middle", "right-middle"] {
        assert_eq!(run.flow(flow)["received_bytes"], 100_000, "{}", run.dump());
    }
}
