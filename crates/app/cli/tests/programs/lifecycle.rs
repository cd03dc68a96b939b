//! Programs that start, end, fork, and are stopped.

use super::bench::{Bench, processes, requires_labs, until};

#[test]
fn stopping_a_program_stops_its_descendants() {
    requires_labs!();
    let bench = Bench::new();
    // The number is in the command lines of the processes, and is unique to this test.
    let marker = format!("7{}.25", std::process::id());
    let lab = format!(
        r#"
        lab = {{ name = "family", duration = "85 s" }}
        node.a = {{}}
        program = [
            {{ name = "family", node = "a", service = true, run = """
                sleep {marker} &
                setsid sh -c 'trap "" TERM; sleep {marker} & sleep {marker}; sleep {marker}' &
                trap '' TERM; while :; do sleep {marker}; done""", grace = "300 ms" }},
            {{ name = "rest", node = "a", run = "sleep 85" }},
        ]
        at = [{{ time = "6 s", program = "family", stop = true }}]
        "#
    );
    let run = bench.start(&lab, &[]);
    let sleepers = format!("sleep\0{marker}");
    until("all of its processes to start", || (processes(&sleepers).len() >= 4).then_some(()));
    until("all of its processes to end", || processes(&marker).is_empty().then_some(()));
    let labs = bench.ps();
    assert_eq!(labs.len(), 1, "the lab itself continues");
    run.signal("-INT");
    let run = run.finish();
    assert_eq!(run.code, Some(130), "{}", run.dump());
    assert_eq!(run.program("family")["end"], "stopped", "{}", run.dump());
    assert_eq!(run.record()["status"], "interrupted");
    assert!(processes(&marker).is_empty());
}

#[test]
fn programs_and_nodes_stop_and_start_again() {
    requires_labs!("ping");
    let bench = Bench::new();
    bench.write("below/place", "there\n");
    let run = bench.run(LIFE).passed();
    assert_eq!(run.stdout("killed").lines().count(), 2, "{}", run.dump());
    assert_eq!(
        run.stdout("stopped").lines().collect::<Vec<_>>(),
        ["up", "asked to go", "up", "asked to go"]
    );
    assert_eq!(run.stdout("on-b").lines().count(), 2, "{}", run.dump());
    let flaky = run.program("flaky");
    assert_eq!(flaky["restarts"], 2, "{flaky}");
    assert_eq!(flaky["end"]["exit"], 0, "{flaky}");
    assert_eq!(run.stdout("flaky"), "1\n2\n3\n");
    assert_eq!(run.stdout("where").trim(), "blue there");
    let printed = run.stdout("ping");
    let answered: Vec<u32> = printed
        .lines()
        .filter_map(|l| l.split("icmp_seq=").nth(1)?.split(' ').next()?.parse().ok())
        .collect();
    // Down from 4 s to 7 s: no replies then, but before and after.
    let gap = answered.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(gap >= 2, "node b was never down: {answered:?}");
    let events = run.record()["events"].as_array().unwrap();
    assert_eq!(events.len(), 6, "{events:?}");
}

const LIFE: &str = r#"
[lab]
name = "life"
duration = "10 s"
[node.a]
[node.b]
[[link]]
ends = ["a", "b"]
[[program]]
name = "killed"
node = "a"
run = "echo up; exec sleep 60"
service = true
[[program]]
name = "stopped"
node = "a"
run = "echo up; trap 'echo asked to go; exit 0' TERM; while :; do sleep 0.05; done"
service = true
grace = "20 s"
[[program]]
name = "on-b"
node = "b"
run = "echo up; exec sleep 60"
service = true
[[program]]
name = "flaky"
node = "a"
run = "echo x >> count; wc -l < count; test $(wc -l < count) = 3"
restart = "on-failure"
[[program]]
name = "where"
node = "a"
run = "echo $COLOUR $(cat place)"
env = { COLOUR = "blue" }
dir = "below"
[[program]]
name = "ping"
node = "a"
run = "ping -n -i 0.1 -c 85 -W 5 b"
exit = "any"
[[at]]
time = "3 s"
program = "killed"
kill = true
[[at]]
time = "3500 ms"
program = "killed"
start = true
[[at]]
time = "3 s"
program = "stopped"
stop = true
[[at]]
time = "3500 ms"
program = "stopped"
start = true
[[at]]
time = "4 s"
node = "b"
down = true
[[at]]
time = "7 s"
node = "b"
up = true
"#;
