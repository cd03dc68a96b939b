//! Bundler gateways between real kernels.

use serde_json::Value;

use super::bench::{Bench, requires_labs};

/// Two sites with a bundle in each direction; routers behind the gateways, and events that stop and
/// start them, and interrupt and restore the path.
const LAB: &str = r#"
[lab]
name = "boxed"
duration = "6 s"
record = true
interval = "50 ms"
[node.a]
[node.b]
[node.send]
kind = "sendbox"
[node.took]
kind = "receivebox"
[node.r1]
kind = "router"
[node.r2]
kind = "router"
[node.receive]
kind = "receivebox"
[node.back]
kind = "sendbox"
[[link]]
ends = ["a", "send"]
mtu = "1432 B"
[[link]]
ends = ["send", "took"]
[[link]]
ends = ["took", "r1"]
[[link]]
name = "core"
ends = ["r1", "r2"]
rate = "20 Mbit/s"
delay = "5 ms"
[[link]]
ends = ["r2", "receive"]
[[link]]
ends = ["receive", "back"]
[[link]]
ends = ["back", "b"]
mtu = "1432 B"
[[bundle]]
name = "there"
from = "send"
to = "receive"
marking = "MARKING"
[[bundle]]
name = "home"
from = "back"
to = "took"
marking = "MARKING"
feedback = { loss = "10 %", jitter = "2 ms" }
[[flow]]
name = "bulk"
from = "a"
to = "b"
streams = 2
duration = "5 s"
[[flow]]
name = "cbr"
from = "b"
to = "a"
transport = "udp"
rate = "2 Mbit/s"
duration = "5 s"
[[program]]
node = "a"
run = "ping -n -i 0.1 -c 10 b && ping -n -c 1 -W 4 send && ! ping -n -t 2 -c 1 -W 1 b"
start = "500 ms"
[[at]]
time = "2.5 s"
box = "receive"
action = "restart"
[[at]]
time = "3 s"
link = "core"
down = true
[[at]]
time = "3.2 s"
link = "core"
up = true
[[at]]
time = "4 s"
box = "back"
action = "stop"
[[at]]
time = "4.5 s"
box = "back"
action = "start"
"#;

#[test]
fn replays_a_run_with_bundler_gateways_exactly() {
    requires_labs!();
    for marking in ["header", "encapsulation"] {
        check_replay(&LAB.replace("MARKING", marking));
    }
}

fn check_replay(lab: &str) {
    let bench = Bench::new();
    let run = bench.run(lab).passed();
    let record = run.record();
    for bundle in ["there", "home"] {
        let bundles = record["bundles"].as_array().unwrap();
        let entry: &Value = bundles.iter().find(|entry| entry["name"] == bundle).unwrap();
        let counted = |what: &str| entry[what].as_u64().unwrap();
        // An idle host sends 1,000 packets; one with round trips of 2 s much less.
        assert!(counted("sent_packets") > 20 && counted("acks") > 0, "{entry:#}");
        // The other gateway's sendbox has two incarnations: answers to the first are rejected
        // in the second.
        assert!(bundle == "home" || counted("rejected_messages") == 0, "{entry:#}");
    }
    assert!(run.flow("bulk")["received_bytes"].as_u64().unwrap() > 10_000, "{}", run.dump());
    bench.replay(&run);
}
