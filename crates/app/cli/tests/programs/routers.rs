//! Routers from the view of programs: hops, MTUs, and routing daemons.

use super::bench::{Bench, requires_labs};
use super::routing::{bird, lab, program};

const LINE: &str = r#"
[[program]]
name = "trace4"
node = "alice"
run = "traceroute -4 -n -q 1 -w 20,0,0 bob"
[[program]]
name = "trace6"
node = "alice"
run = "traceroute -6 -n -q 1 -w 20,0,0 bob"
[[program]]
name = "icmp"
node = "alice"
run = "traceroute -I -n -q 1 -w 20,0,0 bob"

# Without DF the router fragments; with it, the sender receives an error. It caches the MTU, so
# each of them has its own.
[[program]]
name = "cut"
node = "alice"
run = "ping -M dont -n -c 2 -i 0.2 -s 1400 bob"
[[program]]
name = "mtu-v4"
node = "alice"
run = "ping -M do -n -c 3 -i 0.2 -s 1400 bob"
start = "1 s"
exit = "any"
[[program]]
name = "mtu-v6"
node = "alice"
run = "ping -6 -M do -n -c 3 -i 0.2 -s 1400 bob"
start = "1 s"
exit = "any"
[[program]]
name = "fits"
node = "alice"
run = "ping -M do -n -c 2 -i 0.2 -s 1272 bob"
start = "2 s"

[[flow]]
name = "bulk"
from = "alice"
to = "bob"
size = "2 MB"
start = "5 s"
[[flow]]
name = "bulk6"
from = "alice"
to = "bob"
size = "2 MB"
start = "5 s"
family = "ipv6"
"#;

#[test]
fn routers_send_ttl_and_mtu_errors() {
    requires_labs!("traceroute", "ping", "tshark");
    for model in ["hop", "collapsed"] {
        let keys = format!("duration = \"60 s\"\nmodel = \"{model}\"\ncapture = [\"bob\"]");
        let narrow = "name = \"narrow\"\nmtu = \"1300 B\"\nrate = \"100 Mbit/s\"";
        let links = [
            ("alice", "r1", ""),
            ("r1", "r2", "delay = \"2 ms\""),
            ("r2", "r3", narrow),
            ("r3", "bob", ""),
        ];
        check_answers(&(lab(&keys, &links) + LINE));
    }
}

fn check_answers(lab: &str) {
    let bench = Bench::new();
    let run = bench.run(lab).passed();
    for (program, v6) in [("trace4", false), ("trace6", true), ("icmp", false)] {
        let printed = run.stdout(program);
        let hops: Vec<&str> =
            printed.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
        // A router answers from the interface at which the packet arrived: here its first one.
        let path = ["r1", "r2", "r3", "bob"].map(|node| run.address(node, v6, 0));
        assert_eq!(hops, path, "{printed}");
    }
    let printed = run.stdout("cut");
    assert!(printed.contains("2 packets transmitted, 2 received"), "{printed}");
    let output = run.stdout("mtu-v4") + &run.stderr_of("mtu-v4");
    let router = run.address("r2", false, 0);
    assert!(output.contains(&format!("From {router} icmp_seq=1 Frag needed")), "{output}");
    assert!(output.contains("mtu = 1300") || output.contains("mtu=1300"), "{output}");
    assert!(output.contains(" 0 received"), "{output}");
    let output = run.stdout("mtu-v6") + &run.stderr_of("mtu-v6");
    assert!(output.contains("Packet too big: mtu=1300") || output.contains("mtu=1300"), "{output}");
    assert!(output.contains(" 0 received"), "{output}");
    let printed = run.stdout("fits");
    assert!(printed.contains("2 packets transmitted, 2 received"), "{printed}");
    for flow in ["bulk", "bulk6"] {
        assert_eq!(run.flow(flow)["received_bytes"], 2_000_000, "{}", run.dump());
    }
    let fragments = run.tshark("bob.eth0.pcapng", "icmp && ip.src_host != \"\"", &["ip.len"]);
    assert!(!fragments.is_empty());
    let first = "ip.flags.mf == 1";
    assert!(run.tshark("bob.eth0.pcapng", first, &["ip.len"]).len() >= 2, "no fragments at bob");
    // bob's own large packets are not limited by the narrow link's MTU; alice's are, on arrival.
    let alice = run.address("alice", false, 0);
    let large =
        run.tshark("bob.eth0.pcapng", &format!("ip.src == {alice} && ip.len > 1300"), &["ip.len"]);
    assert!(large.is_empty(), "crossed a link with an MTU of 1300 B: {large:?}");
}

const BIRD: &str = r"
log stderr all;
protocol device { scan time 1; }
protocol kernel { ipv4 { export all; }; }
protocol ospf v2 {
    ipv4 { import all; export none; };
    area 0 {
        interface 10.1.0.0/24 { stub; };
        interface 10.3.0.0/24 { stub; };
        interface 10.12.0.0/30, 10.23.0.0/30 { type ptp; hello 1; dead 4; };
    };
}
";

#[test]
fn bird_finds_routes_by_ospf() {
    requires_labs!("bird", "ping", "traceroute");
    let bench = Bench::new();
    bench.write("bird.conf", BIRD);
    let links = [
        ("alice", "r1", "addresses = { alice = \"10.1.0.2/24\", r1 = \"10.1.0.1/24\" }"),
        ("bob", "r3", "addresses = { bob = \"10.3.0.2/24\", r3 = \"10.3.0.1/24\" }"),
        ("r1", "r2", "addresses = { r1 = \"10.12.0.1/30\", r2 = \"10.12.0.2/30\" }"),
        ("r2", "r3", "addresses = { r2 = \"10.23.0.1/30\", r3 = \"10.23.0.2/30\" }"),
    ];
    let ping = "until ping -n -c 1 -W 1 bob; do sleep 0.2; done; traceroute -n -q 1 -w 20,0,0 bob";
    let lab = [
        lab("duration = \"60 s\"\nrouting = \"none\"", &links),
        bird(&["r1", "r2", "r3"]),
        program("ping", &["alice"], ping),
    ];
    let run = bench.run(&lab.concat()).passed();
    let printed = run.stdout("ping");
    assert!(printed.contains(" 0% packet loss"), "{printed}");
    assert!(printed.contains("ttl=61"), "{printed}");
    for hop in ["1  10.1.0.1 ", "2  10.12.0.2 ", "3  10.23.0.2 ", "4  10.3.0.2 "] {
        assert!(printed.contains(hop), "{hop}: {printed}");
    }
}
