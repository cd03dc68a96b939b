//! One lab on both clocks: CUBIC of the kernel compared with the simulated one.

use super::bench::{Bench, Run, enclosed, number};

/// 20 ms and twice the bandwidth-delay product of buffer.
const LAB: &str = r#"
[lab]
name = "parity"
duration = "15 s"
[node.alice]
[node.bob]
[node.west]
kind = "router"
[node.east]
kind = "router"
[[link]]
ends = ["alice", "west"]
rate = "100 Mbit/s"
delay = "1 ms"
[[link]]
name = "core"
ends = ["west", "east"]
rate = "10 Mbit/s"
delay = "8 ms"
queue = { kind = "droptail", limit = "50 kB" }
[[link]]
ends = ["east", "bob"]
rate = "100 Mbit/s"
delay = "1 ms"
[[flow]]
name = "bulk"
from = "alice"
to = "bob"
control = "cubic"
"#;

/// A busy host disturbs the kernel's run: maximum number of attempts.
const ATTEMPTS: usize = 3;

#[test]
fn kernel_and_simulated_cubic_agree() {
    if !enclosed("kernel_and_simulated_cubic_agree") {
        return;
    }
    let bench = Bench::new();
    bench.write("parity.toml", LAB);
    let output = bench.netarium(&["sim", "parity.toml", "--json", "--no-report"]);
    let simulated = Run::of(output).passed();
    let mut real = bench.run(LAB).passed();
    for _ in 1..ATTEMPTS {
        if real.code == Some(0) {
            break;
        }
        real = bench.run(LAB).passed();
    }
    let pair = |pick: &dyn Fn(&Run) -> f64| [pick(&real), pick(&simulated)];
    let story = || format!("{}\n{}", real.story(), simulated.story());

    // If the host distorts each attempt, its numbers prove nothing.
    if real.code == Some(0) {
        assert_agreement(pair, story);
    }

    let folders = [&real, &simulated].map(Run::folder);
    let [real, simulated] = folders.each_ref().map(|folder| folder.to_str().unwrap());
    let diff = bench.netarium(&["diff", real, simulated]);
    let shown = String::from_utf8(diff.stdout).unwrap();
    for part in ["wall clock", "virtual clock", "flow.bulk.goodput.mean", "link.core.up.drops"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

/// Checks that both runs have similar numbers.
fn assert_agreement(pair: impl Fn(&dyn Fn(&Run) -> f64) -> [f64; 2], story: impl Fn() -> String) {
    let [wall, virt] = pair(&|run| number(&run.flow("bulk")["goodput_bit_per_s"]));
    assert!((virt / wall - 1.0).abs() < 0.02, "goodput {wall} {virt}: {}", story());

    // The queue, and with it the round-trip time, has similar percentiles.
    for percentile in ["p50_ns", "p99_ns"] {
        let [wall, virt] = pair(&|run| number(&run.link("core", "up")["queue_delay"][percentile]));
        assert!((0.7..1.4).contains(&(virt / wall)), "waits {wall} {virt}: {}", story());
    }
    let [wall, virt] = pair(&|run| number(&run.flow("bulk")["rtt"]["p50_ns"]));
    assert!((0.8..1.25).contains(&(virt / wall)), "round trips {wall} {virt}: {}", story());

    // Of the same order only: slow start ends by RFC 9406 in one and by HyStart in the other, and
    // its overshoot causes most of the retransmissions within seconds.
    let [wall, virt] = pair(&|run| number(&run.flow("bulk")["retransmits"]));
    assert!(wall > 0.0 && virt > 0.0, "{}", story());
    assert!((0.2..=5.0).contains(&(virt / wall)), "resent {wall} {virt}: {}", story());
}
