//! One lab on both clocks: CUBIC of the kernel compared with the simulated one.

use std::ops::RangeInclusive;

use super::bench::{Bench, Run, conclusive, number, requires_labs};

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

#[test]
fn kernel_and_simulated_cubic_agree() {
    let test = "kernel_and_simulated_cubic_agree";
    requires_labs!();
    let bench = Bench::new();
    bench.write("parity.toml", LAB);
    let output = bench.netarium(&["sim", "parity.toml", "--json", "--no-report"]);
    let simulated = Run::of(output).passed();
    let attempt = || {
        let real = bench.run(LAB).passed();
        let folders = [&real, &simulated].map(Run::folder);
        let [wall, virt] = folders.each_ref().map(|folder| folder.to_str().unwrap());
        let diff = bench.netarium(&["diff", wall, virt]);
        let shown = String::from_utf8(diff.stdout).unwrap();
        for part in ["wall clock", "virtual clock", "flow.bulk.goodput.mean", "link.core.up.drops"]
        {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        real
    };
    conclusive(test, attempt, |real| agreement(real, &simulated));
}

/// Whether both runs have similar numbers. Those of the wall clock have error bars.
fn agreement(real: &Run, simulated: &Run) -> Result<(), String> {
    let similar = |what: &str, wall: (f64, f64), virt: f64, ratios: RangeInclusive<f64>| {
        let (low, high) = wall;
        if (low * ratios.start()..=high * ratios.end()).contains(&virt) {
            return Ok(());
        }
        Err(format!("{what} {wall:?} {virt}: {}", simulated.dump()))
    };
    let waits = |run: &Run, percentile| number(&run.link("core", "up")["queue_delay"][percentile]);
    let bulk = simulated.flow("bulk");
    let goodput = real.goodput("bulk");
    similar("goodput", goodput, number(&bulk["goodput_bit_per_s"]), 0.98..=1.02)?;
    // The queue, and with it the round-trip time, has similar percentiles.
    for percentile in ["p50_ns", "p99_ns"] {
        let (wall, virt) = (waits(real, percentile), waits(simulated, percentile));
        similar("waits", (wall, wall), virt, 0.7..=1.4)?;
    }
    let round_trip = real.delay("bulk", "rtt", "p50_ns");
    similar("round trips", round_trip, number(&bulk["rtt"]["p50_ns"]), 0.8..=1.25)?;
    // Of the same order only: slow start ends by RFC 9406 in one and by HyStart in the other, and
    // its overshoot causes most of the retransmissions within seconds.
    let resent = |run: &Run| number(&run.flow("bulk")["retransmits"]);
    similar("resent", (resent(real), resent(real)), resent(simulated), 0.2..=5.0)
}
