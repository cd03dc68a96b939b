//! Metrics of running labs: `--metrics` of `run`, `up` and `sim`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::bench::{Bench, TEST_TIMEOUT, requires_labs, signal};
use super::watch::{LAB, lab_of_flows};

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The value of a metric with these labels, or of one without labels.
fn value(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.parse().ok()
}

/// Reads metrics until one has at least this value.
#[track_caller]
fn scrape_until(address: &str, name: &str, least: f64) -> String {
    let begin = Instant::now();
    loop {
        let text = get(address, "/metrics");
        if value(&text, name).is_some_and(|value| value >= least) {
            return text;
        }
        assert!(begin.elapsed() < TEST_TIMEOUT, "{name} stays below {least}: {text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

const WIRE: &str = r#"{link="wire",from="a",to="b"}"#;

#[test]
fn serves_metrics_of_lab_that_is_up() {
    requires_labs!();
    let bench = Bench::new();
    bench.write("pair.toml", LAB);
    // The port is free again once the listener is dropped.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let up = bench.netarium(&["up", "pair.toml", "--metrics", &port]);
    let notes = String::from_utf8_lossy(&up.stderr);
    let address = format!("127.0.0.1:{port}");
    assert!(notes.contains(&format!("metrics at http://{address}/metrics")), "{notes}");
    let received = r#"netarium_lab_flow_received_bytes_total{flow="bulk"}"#;
    let text = scrape_until(&address, received, 100_000.0);
    let sent = value(&text, &format!("netarium_lab_link_sent_bytes_total{WIRE}")).unwrap();
    assert!(sent >= 100_000.0, "{text}");
    let limit = value(&text, &format!("netarium_lab_link_rate_limit_bit_s{WIRE}"));
    assert_eq!(limit, Some(1e7));
    for name in [
        r#"netarium_lab_lateness_s{quantile="0.99"}"#,
        r#"netarium_lab_flow_rtt_s{flow="bulk"}"#,
        "netarium_lab_trusted",
        "netarium_lab_stalls_total",
    ] {
        scrape_until(&address, name, 0.0);
    }
    let state = r#"netarium_lab_program_state{program="server",node="b",state="running"}"#;
    assert_eq!(value(&text, state), Some(1.0), "{text}");
    assert!(get(&address, "/health").starts_with("HTTP/1.0 200"));
    bench.netarium(&["set", "pair", "link.wire.up.rate=20 Mbit/s"]);
    scrape_until(&address, &format!("netarium_lab_link_rate_limit_bit_s{WIRE}"), 2e7);
    let listed = bench.netarium(&["status", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let commands = listed["commands"].as_array().unwrap();
    let lab = commands.iter().find(|command| command["schema"] == "netarium.lab/1").unwrap();
    assert_eq!((&lab["name"], &lab["role"]), (&"pair".into(), &"up".into()));
    let again = bench.netarium(&["run", "pair.toml", "--name", "two", "--metrics", &port]);
    let message = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(4), "{message}");
    assert!(message.contains("cannot listen at 127.0.0.1"), "{message}");
    assert!(bench.netarium(&["down", "pair"]).status.success());
    assert!(TcpStream::connect(&address).is_err());
}

#[test]
fn serves_metrics_of_virtual_run_without_effect_on_it() {
    let bench = Bench::new();
    bench.write("pair.toml", lab_of_flows());
    let mut command =
        bench.command(&["sim", "pair.toml", "--duration", "100000 s", "--metrics", "0"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut notes = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let note = notes.find(|line| line.contains("metrics at")).unwrap();
    let (_, address) = note.split_once("http://").unwrap();
    let address = address.trim_end_matches("/metrics");
    let text = scrape_until(address, "netarium_lab_time_s", 20.0);
    let time = value(&text, "netarium_lab_time_s").unwrap();
    let sent = value(&text, &format!("netarium_lab_link_sent_bytes_total{WIRE}")).unwrap();
    assert!(sent > time * 1e7 / 8.0 * 0.9, "the link is full: {sent} B in {time} s");
    assert!(text.contains(r#"clock="virtual""#), "{text}");
    signal(child.id(), "-INT");
    assert_eq!(notes.filter(|line| line.contains("no metrics")).count(), 0);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let hash = |args: &[&str]| {
        let output = bench.netarium(&[&["sim", "pair.toml", "--json"], args].concat());
        let record: Value = serde_json::from_slice(&output.stdout).unwrap();
        record["trace_hash"].clone()
    };
    assert_eq!(hash(&["--metrics", "0"]), hash(&[]));
}

#[test]
fn rejects_unsupported_runs_of_metrics() {
    let bench = Bench::new();
    bench.write("pair.toml", LAB);
    let lab = lab_of_flows();
    bench.write("sweep.toml", &lab.replace("\"5 ms\"", "{ sweep = [\"1 ms\", \"2 ms\"] }"));
    for (args, part) in [
        (&["run", "pair.toml", "pair.toml", "--metrics", "0"][..], "--metrics shows one lab"),
        (&["run", "pair.toml", "--metrics", "0", "--repeat", "2"], "cannot be used with"),
        (&["sim", "pair.toml", "--metrics", "0", "--watch"], "cannot be used with"),
        (&["sim", "sweep.toml", "--metrics", "0"], "--metrics shows one run, and the lab has 2"),
        (&["sim", "pair.toml", "--metrics", "x"], "expected a port or ADDR:PORT"),
        (&["up", "pair.toml", "--metrics", "0"], "a port other than 0"),
    ] {
        let output = bench.netarium(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(part), "{args:?}: {text}");
    }
}
