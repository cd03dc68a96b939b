//! Timed events, as traffic sees them.

use super::bench::{Bench, enclosed, installed, number};

/// More is sent than the link carries, into a queue that holds it all; then the link gets faster.
const FASTER: &str = r#"
[lab]
name = "faster"
duration = "20 s"
[node.a]
[node.b]
[[link]]
name = "l"
ends = ["a", "b"]
rate = "500 kbit/s"
queue = "10000 packets"
[[flow]]
name = "burst"
from = "a"
to = "b"
transport = "udp"
rate = "4 Mbit/s"
packet = "1000 B"
size = "500 kB"
[[at]]
time = "2 s"
link = "l"
set = { rate = "100 Mbit/s" }
[[expect]]
that = "link.l.up.throughput.max <= 600 kbit/s between 500 ms and 1800 ms"
[[expect]]
that = "link.l.up.queue.max >= 250 kB between 1 s and 2 s"
"#;

#[test]
fn a_change_of_rate_keeps_the_queue() {
    if !enclosed("a_change_of_rate_keeps_the_queue") {
        return;
    }
    let bench = Bench::new();
    let run = bench.run(FASTER).passed();
    let flow = run.flow("burst");
    assert_eq!(flow["sent_datagrams"], 500, "{flow:#}");
    assert_eq!(flow["lost_datagrams"], 0, "{flow:#}");
    assert_eq!(flow["reordered_datagrams"], 0, "{flow:#}");
    // At 500 kbit/s it would have taken over 8 s.
    let took = number(&flow["completion_s"]);
    assert!((2.0..6.0).contains(&took), "{flow:#}");
    assert_eq!(run.link("l", "up")["drops"].as_object().unwrap().len(), 0);
}

/// alice and bob sit two routers apart one way round the ring, four the other.
const RING: &str = r#"
lab = { name = "ring", duration = "20 s" }
node.alice = {}
node.bob = {}
node.r1 = { kind = "router" }
node.r2 = { kind = "router" }
node.r3 = { kind = "router" }
node.r4 = { kind = "router" }
link = [
    { ends = ["alice", "r1"] },
    { ends = ["bob", "r2"] },
    { ends = ["r1", "r2"], delay = "2 ms" },
    { ends = ["r2", "r3"], delay = "2 ms" },
    { ends = ["r3", "r4"], delay = "2 ms" },
    { ends = ["r4", "r1"], delay = "2 ms" },
]
at = [
    { time = "1500 ms", link = ["r1", "r2"], down = true },
    { time = "3 s", link = ["r1", "r2"], up = true },
    { time = "4 s", link = "bob-r2", down = true },
    { time = "5 s", link = "bob-r2", up = true },
]
[[program]]
name = "ping"
node = "alice"
run = "ping -n -i 0.1 -c 60 -W 1 bob"
exit = "any"
[[program]]
name = "trace"
node = "alice"
run = "traceroute -n -q 1 bob"
start = "2 s"
"#;

#[test]
fn a_ring_reroutes() {
    let test = "a_ring_reroutes";
    if !enclosed(test) || !installed(test, &["ping", "traceroute"]) {
        return;
    }
    let bench = Bench::new();
    let run = bench.run(RING).passed();
    let said = run.stdout("ping");
    let mut ways: Vec<&str> =
        said.lines().filter_map(|l| l.split("ttl=").nth(1)?.split(' ').next()).collect();
    let count = ways.len();
    ways.dedup();
    // Two routers on the way, then four, then two again.
    assert_eq!(ways, ["62", "60", "62"], "{said}");
    // The ring lost nothing but what was on the link; a second without bob's own link is silent.
    assert!((40..=54).contains(&count), "{said}");
    assert!(said.lines().any(|l| l.contains("icmp_seq=58 ")), "{said}");
    let hops = run.stdout("trace");
    assert_eq!(hops.lines().count(), 6, "{hops}");
    let down = run.record()["events"].as_array().unwrap().len();
    assert_eq!(down, 4);
}
