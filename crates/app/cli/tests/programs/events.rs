//! Effects of timed events on traffic.

use super::bench::{Bench, number, requires_labs};

/// The sender exceeds the link's rate, and the queue holds all packets; then the link becomes
/// faster.
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
time = "5 s"
link = "l"
set = { rate = "100 Mbit/s" }
[[expect]]
that = "link.l.up.throughput.max <= 600 kbit/s between 500 ms and 4800 ms"
[[expect]]
that = "link.l.up.queue.max >= 150 kB between 1 s and 5 s"
# What is left at 5 s, at least 150 kB, leaves within 20 ms. At 500 kbit/s it would take 2.4 s.
[[expect]]
that = "link.l.up.throughput.max >= 5 Mbit/s between 5 s and 5500 ms"
"#;

#[test]
fn rate_change_keeps_queue() {
    requires_labs!();
    let bench = Bench::new();
    let run = bench.run(FASTER).passed();
    let flow = run.flow("burst");
    assert_eq!(flow["sent_datagrams"], 500, "{flow:#}");
    assert_eq!(flow["lost_datagrams"], 0, "{flow:#}");
    assert_eq!(flow["reordered_datagrams"], 0, "{flow:#}");
    // Most of the flow waits for the faster link; the flow itself may begin late.
    assert!(number(&flow["ended_s"]) >= 5.0, "{flow:#}");
    assert_eq!(run.link("l", "up")["drops"].as_object().unwrap().len(), 0);
}

/// alice and bob are two routers apart in one direction of the ring, four in the other.
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
    { time = "3 s", link = ["r1", "r2"], down = true },
    { time = "6 s", link = ["r1", "r2"], up = true },
    { time = "8 s", link = "bob-r2", down = true },
    { time = "11 s", link = "bob-r2", up = true },
]
[[program]]
name = "ping"
node = "alice"
run = "ping -n -i 0.1 -c 135 -W 5 bob"
exit = "any"
[[program]]
name = "trace"
node = "alice"
run = "traceroute -n -q 1 -w 20,0,0 bob"
start = "3200 ms"
"#;

#[test]
fn reroutes_around_a_ring() {
    requires_labs!("ping", "traceroute");
    let bench = Bench::new();
    let run = bench.run(RING).passed();
    let printed = run.stdout("ping");
    let mut ttls: Vec<&str> =
        printed.lines().filter_map(|l| l.split("ttl=").nth(1)?.split(' ').next()).collect();
    ttls.dedup();
    // Two routers on the path, then four, then two again.
    assert_eq!(ttls, ["62", "60", "62"], "{printed}");
    // While bob's own link is down, no reply arrives; after that they arrive again.
    let sequence = |line: &str| line.split("icmp_seq=").nth(1)?.split(' ').next()?.parse().ok();
    let answered: Vec<u32> =
        printed.lines().filter(|line| line.contains("ttl=")).filter_map(sequence).collect();
    let gap = answered.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(gap > 5 && answered.len() > 30, "{printed}");
    let hops = run.stdout("trace");
    assert_eq!(hops.lines().count(), 6, "{hops}");
    let down = run.record()["events"].as_array().unwrap().len();
    assert_eq!(down, 4);
}
