//! A cluster on a slow physical network with loss and reordering, emulated by Netarium.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::bench::{Bench, NETARIUM, PING_TOLERANCE_MS, requires_labs, shortest_ping};

/// A lab with two hosts on two agents, and a path delay of `path` milliseconds.
fn inner(name: &str, path: u32) -> String {
    format!(
        "lab = {{ name = \"{name}\", duration = \"9 s\", model = \"collapsed\" }}\n\
         link = [{{ ends = [\"a\", \"b\"], delay = \"{path} ms\", rate = \"20 Mbit/s\" }}]\n\
         flow = [{{ from = \"a\", to = \"b\", transport = \"udp\", rate = \"2 Mbit/s\", \
         duration = \"5 s\" }}]\n\
         program = [{{ name = \"ping\", node = \"a\", run = \"ping -c 40 -i 0.1 b\" }}]\n\
         node.a.machine = \"m1\"\nnode.b.machine = \"m2\"\n"
    )
}

/// Two agents with 3 ms between them, and a coordinator of two labs.
fn outer(place: &Path) -> String {
    let place = place.display();
    let agent = |name: &str, own: &str, more: &str| {
        format!(
            "exec {NETARIUM} agent --name {name} --listen {own}:7447 --dir {place}/{name} \
             --credentials {place}/pki/agents/{name} {more}"
        )
    };
    let [one, two] = [
        agent("m1", "10.0.0.1", ""),
        agent("m2", "10.0.0.2", "--join 10.0.0.1:7447 --trunk-address 10.0.0.2"),
    ];
    let run = |lab: &str| {
        format!(
            "{NETARIUM} run {place}/{lab}.toml --cluster 10.0.0.1:7447 --no-progress \
             --credentials {place}/pki/coordinators/coordinator --runs {place}/inner"
        )
    };
    format!(
        r#"
lab = {{ name = "outer", duration = "85 s" }}
link = [{{ ends = ["x", "y"], delay = "3 ms", rate = "1 Gbit/s", loss = "1 %",
          reorder = {{ probability = "1 %", by = "1 ms" }} }}]
node = {{ x = {{}}, y = {{}} }}
[[program]]
name = "one"
privileged = true
node = "x"
run = "{one}"
ready = "port 7447"
service = true
[[program]]
name = "two"
privileged = true
node = "y"
after = ["one"]
run = "{two}"
ready = "port 7447"
service = true
[[program]]
name = "labs"
privileged = true
node = "x"
after = ["two"]
# Both agents have measured the clock of the other one.
run = """until test $({status} | grep -o '"round_trip_ns"' | wc -l) = 2; do sleep 0.2; done
         {far}; {near}"""
exit = [0, 3]
"#,
        status = format_args!(
            "{NETARIUM} cluster status --json --cluster 10.0.0.1:7447 \
             --credentials {place}/pki/coordinators/coordinator"
        ),
        far = run("far"),
        near = run("near")
    )
}

/// The record of an inner lab, and the shortest round trip of `ping` in milliseconds.
fn result(place: &Path, lab: &str) -> Option<(Value, f64)> {
    let runs = fs::read_dir(place.join("inner")).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut folders = runs.filter(|path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(lab))
    });
    let folder = folders.next()?;
    let record = serde_json::from_slice(&fs::read(folder.join("run.json")).ok()?).ok()?;
    let ping = fs::read_to_string(folder.join("programs/ping/stdout")).ok()?;
    Some((record, shortest_ping(&ping)))
}

#[test]
fn compensates_slow_network_or_reports_it() {
    requires_labs!("ping");
    let bench = Bench::new();
    let init = ["cluster", "init", "--dir", "pki", "--agent", "m1", "--agent", "m2"];
    assert!(bench.netarium(&init).status.success());
    bench.write("far.toml", &inner("far", 20));
    bench.write("near.toml", &inner("near", 2));
    let run = bench.run(&outer(bench.path()));
    let dump = || format!("{}\n{}", run.dump(), run.stdout("labs"));
    let (far, round_trip) = result(bench.path(), "far").unwrap_or_else(|| panic!("{}", dump()));
    let reasons = far["verdict"].to_string();
    assert!(round_trip >= 40.0 - PING_TOLERANCE_MS, "twice 20 ms: {round_trip} {reasons}");
    // On a busy host even the fastest ping may be late; then the verdict says why.
    let late = ["left late", "may have waited", "after they were due"];
    let is_late = late.iter().any(|part| reasons.contains(part));
    assert!(round_trip < 42.0 || is_late, "twice 20 ms: {round_trip} {reasons}");
    assert!(reasons.contains("the network lost"), "{reasons}");
    let lead = far["cluster"]["trunks"][0]["lead_ns"].as_u64().unwrap();
    // A busy host adds to the delay of the network, up to the maximum egress lead time.
    assert!((3_000_000..=250_000_000).contains(&lead), "{lead}");
    let (near, round_trip) = result(bench.path(), "near").unwrap_or_else(|| panic!("{}", dump()));
    let reasons = near["verdict"].to_string();
    assert!(round_trip > 6.0, "nothing is faster than the network below: {round_trip}");
    let expected = "emulated path between their hosts, 2.00 ms";
    assert!(reasons.contains(expected), "{reasons}");
    assert!(reasons.contains("after they were due"), "{reasons}");
}
