//! Recorded runs, replayed on the virtual clock.

use std::fs;

use super::bench::{Bench, requires_labs};

/// Every type of call: packets in both directions, routers that answer (a small MTU, a hop limit),
/// events that change links and routes, elements with separate random streams.
const LAB: &str = r#"
[lab]
name = "recorded"
duration = "60 s"
record = true
[node.a]
[node.b]
[node.c]
[node.r1]
kind = "router"
[node.r2]
kind = "router"
[node.r3]
kind = "router"
[[link]]
ends = ["a", "r1"]
[[link]]
name = "core"
ends = ["r1", "r2"]
rate = "20 Mbit/s"
delay = "5 ms"
loss = "0.5 %"
queue = { kind = "fq-codel" }
[[link]]
ends = ["r1", "r3"]
rate = "10 Mbit/s"
delay = "20 ms"
jitter = "1 ms"
[[link]]
ends = ["r3", "r2"]
[[link]]
ends = ["r2", "b"]
mtu = "1400 B"
[[link]]
ends = ["r2", "c"]
duplicate = "1 %"
corrupt = "0.5 %"
[[flow]]
from = "a"
to = "b"
size = "2 MB"
[[flow]]
from = "b"
to = "a"
transport = "udp"
rate = "2 Mbit/s"
duration = "2 s"
[[program]]
node = "c"
run = "ping -n -i 0.1 -c 15 a; ping -n -t 1 -c 1 -W 1 a; true"
[[at]]
time = "500 ms"
link = "core"
down = true
[[at]]
time = "1 s"
link = "core"
up = true
[[at]]
time = "1.2 s"
link = "core"
set = { delay = "20 ms" }
"#;

#[test]
fn replays_a_recorded_run_exactly() {
    requires_labs!();
    for model in ["hop", "collapsed"] {
        check_replay(&LAB.replace("[lab]", &format!("[lab]\nmodel = \"{model}\"")));
    }
}

fn check_replay(lab: &str) {
    let bench = Bench::new();
    let run = bench.run(lab).passed();
    let folder = run.folder();
    let folder = folder.to_str().unwrap();
    let replay = bench.replay(&run);
    assert!(replay["packets"].as_u64().unwrap() > 500, "{replay:#}");

    // A damaged recording is reported, and nothing is compared.
    let trace = run.folder().join("fabric.trace");
    let mut bytes = fs::read(&trace).unwrap();
    let middle = bytes.len() - 100;
    bytes[middle] ^= 0x10;
    fs::write(&trace, &bytes).unwrap();
    let output = bench.netarium(&["replay", folder]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && printed.contains("damaged"), "{printed}");
    fs::write(&trace, &bytes[..2_000]).unwrap();
    let output = bench.netarium(&["replay", folder]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && printed.contains("truncated"), "{printed}");
    fs::remove_file(&trace).unwrap();
    let output = bench.netarium(&["replay", folder]);
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && printed.contains("record = true"), "{printed}");
}
