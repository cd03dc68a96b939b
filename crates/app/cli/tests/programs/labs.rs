//! Management of parallel labs: `ps`, `exec`, `down`, `clean`; sweeps.

use std::fs;

use super::bench::{Bench, PING_TOLERANCE_MS, requires_labs, shortest_ping, until};

/// Both labs have these names and addresses.
fn twin(message: &str) -> String {
    format!(
        r#"
        lab = {{ name = "twin", duration = "60 s" }}
        node.alice = {{ address = "10.9.0.1/24" }}
        node.bob = {{ address = "10.9.0.2/24" }}
        link = [{{ ends = ["alice", "bob"] }}]
        [[program]]
        name = "server"
        node = "bob"
        run = "while :; do echo {message} | nc -l -N 80 >/dev/null; done"
        ready = "port 80"
        "#
    )
}

#[test]
fn separates_labs_with_equal_names_and_addresses() {
    requires_labs!("ping", "nc");
    let bench = Bench::new();
    let first = bench.start(&twin("one"), &["--stay"]);
    bench.wait_for("twin");
    let second = bench.start(&twin("two"), &["--stay"]);
    let listed = bench.wait_for("twin-2");
    assert_eq!(listed["lab"], "twin");
    assert_eq!(listed["hosts"], serde_json::json!(["alice", "bob"]));
    assert_eq!(listed["pid"], second.pid());
    let id = listed["id"].as_str().unwrap();

    for (lab, answer) in [("twin", "one"), ("twin-2", "two"), (id, "two")] {
        let printed = until("an answer", || {
            let output = bench.exec(lab, "alice", &["nc", "-d", "-w", "5", "bob", "80"]);
            let printed = String::from_utf8(output.stdout).unwrap();
            (!printed.is_empty()).then_some(printed)
        });
        assert_eq!(printed.trim(), answer);
    }
    let ping = bench.exec("twin", "alice", &["ping", "-n", "-c", "1", "10.9.0.2"]);
    assert_eq!(ping.status.code(), Some(0), "{}", String::from_utf8_lossy(&ping.stdout));
    let host = bench.exec("twin", "bob", &["hostname"]);
    assert_eq!(String::from_utf8_lossy(&host.stdout).trim(), "bob");
    for status in [0, 1, 7, 255] {
        let output = bench.exec("twin", "alice", &["sh", "-c", &format!("exit {status}")]);
        assert_eq!(output.status.code(), Some(status));
    }
    let killed = bench.exec("twin", "alice", &["sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.status.code(), Some(143));
    let missing = bench.exec("twin", "alice", &["no-such-program"]);
    assert_eq!(missing.status.code(), Some(127), "{}", String::from_utf8_lossy(&missing.stderr));
    assert_eq!(bench.exec("twin", "carol", &["true"]).status.code(), Some(2));
    assert_eq!(bench.exec("triplet", "alice", &["true"]).status.code(), Some(2));

    let stop = bench.netarium(&["down", "twin"]);
    assert_eq!(stop.status.code(), Some(0), "{}", String::from_utf8_lossy(&stop.stderr));
    let first = first.finish();
    assert_eq!(first.code, Some(130), "{}", first.dump());
    assert_eq!(first.record()["status"], "interrupted");
    assert!(first.folder().join("report.html").is_file());
    let left: Vec<_> = bench.ps().iter().map(|l| l["name"].clone()).collect();
    assert_eq!(left, ["twin-2"]);
    let clean = bench.netarium(&["clean", "--json"]);
    let clean: serde_json::Value = serde_json::from_slice(&clean.stdout).unwrap();
    assert_eq!(clean["entries"], serde_json::json!([]), "a running lab is nothing to clean");
    let stop = bench.netarium(&["down", "--all"]);
    assert_eq!(stop.status.code(), Some(0), "{}", String::from_utf8_lossy(&stop.stderr));
    let second = second.finish();
    assert_eq!(second.code, Some(130), "{}", second.dump());
    assert_eq!(bench.ps().len(), 0);
}

#[test]
fn starts_eight_labs_in_parallel() {
    requires_labs!("ping");
    let lab = r#"
        lab = { name = "swarm", duration = "90 s" }
        node.a = { address = "10.9.0.1/24" }
        node.b = { address = "10.9.0.2/24" }
        link = [{ ends = ["a", "b"] }]
    "#;
    let bench = Bench::new();
    let running: Vec<_> = (0..8).map(|_| bench.start(lab, &[])).collect();
    let mut names = until("all labs to be listed", || {
        let labs = bench.ps();
        (labs.len() == 8).then(|| labs.into_iter().map(|l| l["name"].clone()).collect::<Vec<_>>())
    });
    names.sort_by_key(|name| name.as_str().map(str::len));
    assert_eq!(names[0], "swarm", "{names:?}");
    for name in &names {
        let ping = bench.exec(name.as_str().unwrap(), "a", &["ping", "-n", "-c", "1", "b"]);
        assert_eq!(ping.status.code(), Some(0), "{}", String::from_utf8_lossy(&ping.stderr));
    }
    assert_eq!(bench.netarium(&["down", "--all"]).status.code(), Some(0));
    for run in running {
        let run = run.finish();
        assert_eq!(run.code, Some(130), "{}", run.dump());
    }
    assert!(bench.ps().is_empty());
}

#[test]
fn sweep_runs_each_combination_once() {
    requires_labs!("ping");
    let lab = r#"
        lab = { name = "sweep", duration = "20 s" }
        node.a = {}
        node.b = {}
        link = [{ name = "l", ends = ["a", "b"], delay = { sweep = ["5 ms", "40 ms"] }, mtu = { sweep = ["1400 B", "1500 B"] } }]
        program = [{ name = "ping", node = "a", run = "ping -n -M do -s 1472 -c 2 -i 0.2 b", exit = "any" }]
    "#;
    let bench = Bench::new();
    let run = bench.run(lab).passed();
    assert_eq!(run.records.len(), 4, "{}", run.stderr);
    let mut seen = Vec::new();
    for record in &run.records {
        let value = |parameter: &str| {
            let values = record["sweep"].as_array().unwrap();
            let value = values.iter().find(|v| v["parameter"] == parameter).unwrap();
            value["value"].as_str().unwrap().to_owned()
        };
        let (delay, mtu) = (value("link.l.delay"), value("link.l.mtu"));
        let folder = record["folder"].as_str().unwrap();
        let printed = fs::read_to_string(format!("{folder}/programs/ping/stdout")).unwrap();
        assert_eq!(printed.contains(" 2 received"), mtu == "1500 B", "{printed}");
        if mtu == "1500 B" {
            let (min, max) = if delay == "5 ms" { (10.0, 60.0) } else { (80.0, 300.0) };
            // On a busy host both packets may be late.
            let max = if record["verdict"]["trusted"] == true { max } else { f64::INFINITY };
            assert!(
                (min - PING_TOLERANCE_MS..max).contains(&shortest_ping(&printed)),
                "{delay}: {printed}"
            );
        }
        let repeat = record["repeat"].as_str().unwrap();
        assert!(repeat.contains("--set 'link.l.delay="), "{repeat}");
        assert_eq!(record["seed"], 1);
        seen.push((delay, mtu));
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");
}
