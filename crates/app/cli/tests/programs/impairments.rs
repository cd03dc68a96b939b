//! Effects of link impairments on real network stacks.

use super::bench::{self, Bench, number, requires_labs};

/// One link for each impairment, between separate hosts.
const LINKS: &str = r#"
lab = { name = "impaired", duration = "60 s" }
node.a = {}
node.b = {}
node.c = {}
node.d = {}
node.e = {}
node.f = {}
node.g = {}
node.h = {}
node.r = { kind = "router" }
link = [
    { ends = ["a", "r"] },
    { name = "reorder", ends = ["r", "b"], delay = "1 ms", reorder = { probability = "20 %", by = "20 ms" } },
    { name = "jitter", ends = ["r", "c"], delay = "20 ms", jitter = { distribution = "uniform", spread = "10 ms" } },
    { name = "twice", ends = ["r", "d"], duplicate = "30 %" },
    { name = "corrupt", ends = ["r", "e"], corrupt = "20 %" },
    { name = "loss", ends = ["r", "f"], delay = "2 ms", rate = "20 Mbit/s", up = { loss = "3 %" } },
    { name = "bursts", ends = ["r", "g"], loss = { model = "gilbert-elliott", p = "2 %", r = "20 %" } },
    { name = "traced", ends = ["r", "h"], delay = "1 ms", queue = "50 packets", up = { trace = "t.trace" } },
]

[[flow]]
name = "reorder"
from = "a"
to = "b"
transport = "udp"
rate = "2 Mbit/s"
packet = "500 B"
size = "200 kB"
[[flow]]
name = "jitter"
from = "a"
to = "c"
transport = "udp"
rate = "2 Mbit/s"
packet = "500 B"
size = "200 kB"
[[flow]]
name = "corrupt"
from = "a"
to = "e"
transport = "udp"
rate = "2 Mbit/s"
packet = "500 B"
size = "200 kB"
[[flow]]
name = "bursts"
from = "a"
to = "g"
transport = "udp"
rate = "2 Mbit/s"
packet = "500 B"
size = "400 kB"
[[flow]]
name = "loss"
from = "a"
to = "f"
control = "cubic"
size = "3 MB"
[[flow]]
name = "traced"
from = "a"
to = "h"
control = "cubic"
duration = "4 s"
[[program]]
name = "twice"
node = "a"
run = "ping -n -i 0.02 -c 100 d"
exit = "any"
[[program]]
name = "stacks"
node = "a"
run = "ip -s -j link"
start = "5 s"
[[program]]
name = "times"
node = "a"
run = "ping -n -i 0.05 -c 60 c"
# One packet of 1504 B every 2 ms.
[[expect]]
that = "link.traced.up.throughput.max <= 6.2 Mbit/s"
"#;

#[test]
fn kernel_stacks_observe_impairments() {
    requires_labs!("ping", "ip");
    let bench = Bench::new();
    bench.write("t.trace", "2\n4\n6\n8\n10\n");
    let run = bench.run(LINKS).passed();
    let count = |name: &str, field: &str| bench::count(&run.flow(name)[field]);

    let reordered = count("reorder", "reordered_datagrams");
    assert!((20..200).contains(&reordered), "{}", run.flow("reorder"));
    assert_eq!(count("reorder", "lost_datagrams"), 0, "{}", run.flow("reorder"));

    // Jitter alone preserves the order; delays are between 10 ms and 30 ms.
    assert_eq!(count("jitter", "reordered_datagrams"), 0, "{}", run.flow("jitter"));
    let delay = &run.flow("jitter")["delay"];
    let (min, max) = (number(&delay["min_ns"]), number(&delay["p90_ns"]));
    assert!(min >= 10e6 - bench::PING_TOLERANCE_MS * 1e6 && max > 22e6, "{delay}");
    // On a busy host all packets may be late.
    assert!(min < 20e6 || run.record()["verdict"]["trusted"] == false, "{delay}");
    let printed = run.stdout("times");
    assert!(printed.contains("60 packets transmitted, 60 received"), "{printed}");

    let printed = run.stdout("twice");
    // Requests and replies are duplicated: on average 0.69 additional ones each.
    let twice = printed.matches("(DUP!)").count();
    assert!((35..=110).contains(&twice), "{twice} of 100: {printed}");

    let lost = count("corrupt", "lost_datagrams");
    assert!((40..140).contains(&lost), "checksums caught {lost}: {}", run.flow("corrupt"));
    assert_eq!(run.link("corrupt", "up")["drops"].as_object().unwrap().len(), 0);

    let lost = count("bursts", "lost_datagrams");
    assert!((10..300).contains(&lost), "{}", run.flow("bursts"));
    let counted = bench::count(&run.link("bursts", "up")["drops"]["loss"]);
    assert_eq!(lost, counted, "the link and the receiver differ");

    assert!(count("traced", "received_bytes") > 10_000, "{}", run.flow("traced"));
    assert_eq!(run.expectations_passed(), Ok(()), "{}", run.dump());
}

#[test]
fn link_loss_is_not_a_local_drop() {
    requires_labs!("ip", "nstat");
    let lab = r#"
        lab = { name = "loss", duration = "80 s" }
        node.a = {}
        node.b = {}
        link = [{ name = "l", ends = ["a", "b"], delay = "2 ms", rate = "50 Mbit/s", up = { loss = "3 %" } }]
        flow = [{ name = "f", from = "a", to = "b", control = "cubic", size = "4 MB" }]
        [[program]]
        name = "stacks"
        node = "a"
        run = "sleep 4; ip -s -j link show eth0; nstat -asz TcpRetransSegs IpOutDiscards TcpExtTCPLocalDrop"
    "#;
    let bench = Bench::new();
    let run = bench.run(lab).passed();
    let flow = run.flow("f");
    assert_eq!(flow["received_bytes"], 4_000_000, "{flow:#}");
    assert!(number(&flow["retransmits"]) >= 20.0, "{flow:#}");
    let lost = number(&run.link("l", "up")["drops"]["loss"]);
    assert!((20.0..300.0).contains(&lost), "{lost}");
    let printed = run.stdout("stacks");
    let device: serde_json::Value =
        serde_json::from_str(printed.lines().next().unwrap_or_default()).unwrap();
    let sent = &device[0]["stats64"]["tx"];
    assert_eq!((&sent["dropped"], &sent["errors"]), (&0.into(), &0.into()), "{printed}");
    assert!(number(&sent["packets"]) > 0.0, "{printed}");
    let discarded = printed.lines().find(|l| l.starts_with("IpOutDiscards")).unwrap();
    assert_eq!(discarded.split_whitespace().nth(1), Some("0"), "{printed}");
}

/// 40 bursts of four datagrams with ECT(1) and one without ECN. Each takes 8 ms on the link: the
/// second of a burst waits for longer than 1 ms while two are behind it, so it is marked.
const DUAL_QUEUE: &str = r#"
lab = { name = "dual", duration = "30 s" }
node.a = {}
node.b = {}
link = [{ name = "l", ends = ["a", "b"], rate = "1 Mbit/s", queue = "dualpi2" }]
[[program]]
name = "receive"
node = "b"
ready = 'output "ready"'
run = ["python3", "-c", '''
import socket
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
udp.bind(("", 9000))
print("ready", flush=True)
udp.settimeout(10)
counts = [0] * 4
try:
    while True:
        _, control, _, _ = udp.recvmsg(2000, 100)
        counts[control[0][2][0] & 3] += 1
        udp.settimeout(2)
except TimeoutError:
    print("counts", *counts)
''']
[[program]]
name = "send"
node = "a"
after = "receive"
run = ["python3", "-c", '''
import socket, time
sockets = []
for tos in (1, 0):
    sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sockets[-1].setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
for _ in range(40):
    for index in (0, 0, 0, 0, 1):
        sockets[index].sendto(bytes(962), ("b", 9000))
    time.sleep(0.05)
# The lab ends with this program: the receiver waits for 2 s without a packet.
time.sleep(4)
''']
"#;

#[test]
fn dualpi2_marks_packets_of_programs_with_ect1() {
    requires_labs!("python3");
    let bench = Bench::new();
    let run = bench.run(DUAL_QUEUE).passed();
    let printed = run.stdout("receive");
    let counts: Vec<u64> =
        printed.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [not, l4s, classic, marked] = counts[..] else { panic!("{printed}") };
    let dropped = run.link("l", "up")["drops"]["aqm"].as_u64().unwrap_or(0);
    assert_eq!(not + l4s + marked + dropped, 200, "{printed}");
    assert_eq!(classic, 0, "{printed}");
    assert!(l4s > 0 && marked >= 30, "{printed}, {dropped} dropped");
}
