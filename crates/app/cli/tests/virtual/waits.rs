//! Queueing delays in `run.json`, in the terminal's table and in expectations.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use super::cell::Cell;

/// 1000 wire bytes at 10 Mbit/s.
const SERVICE_NS: u64 = 800_000;

/// A link of 10 Mbit/s and 10 ms, and a flow of datagrams of 1000 wire bytes.
fn lab(queue: &str, flow: &str, expectations: &[String]) -> String {
    let mut lab = format!(
        "[lab]\nname = \"waits\"\nduration = \"400 s\"\n[node.a]\n[node.b]\n\
         [[link]]\nname = \"core\"\nends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\n\
         delay = \"10 ms\"\nqueue = \"{queue}\"\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\ntransport = \"udp\"\n{flow}\n"
    );
    for expectation in expectations {
        let _ = writeln!(lab, "[[expect]]\nthat = \"link.core.up.delay.{expectation}\"");
    }
    lab
}

/// Runs a lab; returns the queueing delays of its link in `run.json`, and `wait p99` in the
/// terminal, in ms.
fn waits(cell: &Cell, lab: &str) -> (Value, f64) {
    cell.write("waits.toml", lab);
    let output = cell.netarium(&["sim", "waits.toml", "--no-report"]);
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.err);
    let run = fs::read_to_string(cell.runs("runs")[0].join("run.json")).unwrap();
    let run: Value = serde_json::from_str(&run).unwrap();
    let mut links = run["links"].as_array().unwrap().iter();
    let up = links.find(|link| link["direction"] == "up").unwrap();
    let row = output.out.lines().find(|line| line.starts_with("core")).unwrap();
    let heads = output.out.lines().find(|line| line.starts_with("link ")).unwrap();
    let start = heads.find("wait p99").unwrap();
    let cell: String = row.chars().skip(start).take("wait p99".len()).collect();
    let wait = cell.trim().strip_suffix(" ms").unwrap_or_else(|| panic!("{row}"));
    (up["queue_delay"].clone(), wait.parse().unwrap())
}

/// `metric` within 0.5 % of a value in nanoseconds, including the link delay.
fn within_half_percent(metric: &str, wait_ns: f64) -> [String; 2] {
    let ms = |factor: f64| (wait_ns * factor + 10e6) / 1e6;
    [format!("{metric} >= {:.6} ms", ms(0.995)), format!("{metric} <= {:.6} ms", ms(1.005))]
}

fn assert_close(what: &str, found: f64, expected: f64, tolerance: f64) {
    let error = (found - expected).abs() / expected;
    assert!(error <= tolerance, "{what}: {found} instead of {expected}");
}

/// Event times of a Poisson process in ns.
fn poisson(count: usize, mean_ns: f64) -> Vec<u64> {
    let (mut state, mut at) = (1u64, 0.0);
    let moments = (0..count).map(|_| {
        // MMIX's generator by Knuth.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let uniform = ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        at -= mean_ns * uniform.ln();
        at as u64
    });
    moments.collect()
}

/// Queueing delays of all arrivals at a server of constant speed, by
/// Lindley's recursion; ascending.
fn lindley(arrivals: &[u64]) -> Vec<u64> {
    let mut free = 0;
    let waits = arrivals.iter().map(|at| {
        let begins = free.max(*at);
        free = begins + SERVICE_NS;
        begins - at
    });
    let mut waits: Vec<u64> = waits.collect();
    waits.sort_unstable();
    waits
}

#[test]
fn queueing_delays_of_poisson_arrivals_match_md1() {
    let load = 0.7;
    let arrivals = poisson(200_000, SERVICE_NS as f64 / load);
    let expected = lindley(&arrivals);
    let mean = expected.iter().sum::<u64>() as f64 / expected.len() as f64;
    let quantile = |q: f64| expected[(q * expected.len() as f64).ceil() as usize - 1] as f64;
    let theory = load * SERVICE_NS as f64 / (2.0 * (1.0 - load));
    assert_close("mean of the oracle", mean, theory, 0.02);

    let cell = Cell::new();
    let mut trace = String::new();
    for at in &arrivals {
        let _ = writeln!(trace, "{}.{:09} 934", at / 1_000_000_000, at % 1_000_000_000);
    }
    cell.write("arrivals.txt", &trace);
    let last = arrivals[arrivals.len() - 1] + 1000;
    let flow = format!("pattern = {{ trace = \"arrivals.txt\" }}\nduration = \"{last} ns\"");
    let expectations = [
        within_half_percent("mean", mean),
        within_half_percent("p99", quantile(0.99)),
        within_half_percent("max", quantile(1.0)),
    ];
    let (run, p99_ms) = waits(&cell, &lab("1000 packets", &flow, &expectations.concat()));
    assert_eq!(run["count"], expected.len());
    assert_eq!(run["min_ns"], expected[0]);
    assert_eq!(run["max_ns"], expected[expected.len() - 1]);
    assert_close("mean", run["mean_ns"].as_f64().unwrap(), mean, 1e-9);
    for (name, q) in [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999)] {
        assert_close(name, run[name].as_f64().unwrap(), quantile(q), 0.005);
    }
    // Three digits are printed.
    assert_close("wait p99", p99_ms, quantile(0.99) / 1e6, 0.005 + 0.005);
}

#[test]
fn maximum_queueing_delay_of_full_queue_is_exact() {
    let cell = Cell::new();
    // Twice the link's rate, 100 packets of 0.8 ms each.
    let flow = "packet = \"934 B\"\nrate = \"18.68 Mbit/s\"\nduration = \"10 s\"";
    let exact = ["max >= 90 ms".to_owned(), "max <= 90 ms".to_owned()];
    let (run, p99_ms) = waits(&cell, &lab("100 packets", flow, &exact));
    assert_eq!((run["min_ns"].as_u64(), run["max_ns"].as_u64()), (Some(0), Some(80_000_000)));
    assert_close("wait p99", p99_ms, 80.0, 0.005);
}
