//! Faults of agents, shards, networks and coordinators while a lab runs on three agents.

use std::time::Duration;

use serde_json::Value;

use super::bench::{Run, Running, conclusive, number, signal, until};
use super::harness::{Cluster, Inventory, in_cluster, lives};

/// A host on each agent, all with traffic; `sleep` shows that programs run, and
/// detects remaining processes.
fn lab(on_loss: &str, seconds: u32) -> String {
    let hosts = ["a", "b", "c"].iter().zip(1..).map(|(host, machine)| {
        format!(
            "[node.{host}]\nmachine = \"m{machine}\"\n\
             [[link]]\nends = [\"{host}\", \"r\"]\nrate = \"100 Mbit/s\"\ndelay = \"5 ms\"\n\
             [[program]]\nname = \"on-{host}\"\nnode = \"{host}\"\nrun = \"sleep 4711\"\n\
             service = true\n"
        )
    });
    let flows = [("a", "b"), ("b", "c"), ("c", "a")].iter().map(|(from, to)| {
        format!(
            "[[flow]]\nname = \"{from}{to}\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
             transport = \"udp\"\nrate = \"1 Mbit/s\"\n"
        )
    });
    format!(
        "lab = {{ name = \"faults-{on_loss}\", duration = \"{seconds} s\", model = \"collapsed\" }}\n\
         cluster = {{ on_agent_loss = \"{on_loss}\" }}\nnode.r = {{ kind = \"router\" }}\n{}{}",
        hosts.collect::<String>(),
        flows.collect::<String>()
    )
}

/// Duration in seconds of a lab that continues after a fault.
const LAB_S: u32 = 9;
/// Duration in seconds of a lab that a fault stops. The end of the lab must not come first, even if
/// the loss is detected late on a busy host.
const LONG_LAB_S: u32 = 75;

/// A lab on all three agents for each reaction to the fault of the second agent.
struct Labs<'a> {
    cluster: &'a Cluster,
    stops: Running,
    continues: Running,
    /// The processes of the second agent's shards, each with that of its lab.
    shards: [(u32, u32); 2],
}

impl<'a> Labs<'a> {
    fn start(cluster: &'a Cluster) -> Self {
        let mut stops = cluster.start(&lab("stop", LONG_LAB_S), &[]);
        let agents = ["m1", "m2", "m3"];
        let _ = agents.map(|agent| cluster.shards::<1>(agent, &mut stops));
        let mut continues = cluster.start(&lab("continue", LAB_S), &[]);
        let [_, shards, _] = agents.map(|agent| cluster.shards(agent, &mut continues));
        std::thread::sleep(Duration::from_secs(1));
        Self { cluster, stops, continues, shards }
    }

    /// Checks that the second agent's outages fit and are reported, that the other agents stopped
    /// or continued, and that nothing is left. Returns the lab that continued.
    fn finish(self, before: &Inventory, after: &str, fits: impl Fn(&[Outage]) -> bool) -> Run {
        let [stopped, continued] = [self.stops, self.continues].map(|running| {
            let run = running.finish();
            let lost = outages(&run);
            assert!(fits(&lost), "{after}: {lost:?} {}", run.dump());
            assert_reported(&run);
            run
        });
        let is_early = elapsed(&stopped) < f64::from(LONG_LAB_S) - 1.0;
        assert!(is_early, "{after}: {}", stopped.dump());
        assert!(elapsed(&continued) >= f64::from(LAB_S) - 0.5, "{after}: {}", continued.dump());
        self.cluster.returns_to(before, after);
        continued
    }
}

/// Whether each flow delivered most of its datagrams; those in flight at the end are lost.
fn all_flows_arrived(run: &Run) -> Result<(), String> {
    for flow in ["ab", "bc", "ca"] {
        let (sent, (received, possible)) =
            (number(&run.flow(flow)["sent_bytes"]), received(run, flow));
        if received == 0.0 || 4.0 * possible <= sent {
            return Err(format!("flow {flow} delivered {received} of {sent} B"));
        }
    }
    Ok(())
}

/// Runs a lab that must not be affected by the previous fault.
fn next_lab(cluster: &Cluster, after: &str) {
    until("all agents to answer", || {
        let agents = cluster.status()["agents"].as_array()?.len();
        (agents == cluster.names().len()).then_some(())
    });
    let attempt = || {
        let run = cluster.run(&lab("stop", 1), &[]);
        assert!(matches!(run.code, Some(0 | 3)), "after {after}: {}", run.dump());
        assert_eq!(run.record()["status"], "finished", "after {after}: {}", run.dump());
        run
    };
    conclusive(&format!("the lab after {after}"), attempt, all_flows_arrived);
}

/// Begin and end in seconds.
type Outage = (f64, Option<f64>);

/// The outages of the second agent in the record.
#[track_caller]
fn outages(run: &Run) -> Vec<Outage> {
    let members = run.record()["cluster"]["members"].as_array().unwrap();
    let lost = members.iter().find(|member| member["name"] == "m2").unwrap();
    for member in members.iter().filter(|member| member["name"] != "m2") {
        let none = member["outages"].as_array().is_none_or(Vec::is_empty);
        assert!(none, "{member:#}");
    }
    let list = lost["outages"].as_array().cloned().unwrap_or_default();
    list.iter().map(|outage| (number(&outage["at_s"]), outage["until_s"].as_f64())).collect()
}

/// Checks that the verdict mentions the second agent.
#[track_caller]
fn assert_reported(run: &Run) {
    let record = run.record();
    assert_eq!(record["verdict"]["trusted"], false, "{}", run.dump());
    let printed = record["verdict"].to_string() + &record["warnings"].to_string();
    assert!(printed.contains("m2"), "{}", run.dump());
}

fn elapsed(run: &Run) -> f64 {
    number(&run.record()["elapsed_s"])
}

/// Whether the other two agents exchanged datagrams until the end of a lab that continued. 1,125 kB
/// are planned, and 250 kB precede the fault.
fn exchange_continued(run: &Run) -> Result<(), String> {
    let (received, possible) = received(run, "ca");
    let min = f64::from(LAB_S) * 50_000.0;
    if possible > min { Ok(()) } else { Err(format!("flow ca delivered {received} of {min} B")) }
}

/// The bytes that a flow received, and the most that it may have received without the machine.
fn received(run: &Run, flow: &str) -> (f64, f64) {
    let (goodput, possible) = run.goodput(flow);
    let received = number(&run.flow(flow)["received_bytes"]);
    (received, received * possible / goodput.max(1.0))
}

/// A fault after which the second agent is lost permanently, with both reactions.
fn lose_agent(cluster: &Cluster, what: &str, fault: impl Fn(&Labs<'_>)) {
    let attempt = || {
        let before = cluster.inventory();
        let labs = Labs::start(cluster);
        fault(&labs);
        labs.finish(&before, what, |lost| matches!(lost, [(_, None)]))
    };
    conclusive(what, attempt, exchange_continued);
    next_lab(cluster, what);
}

in_cluster!(killed_agent_loses_its_hosts, kill_agents, &["3", "--restart"]);
in_cluster!(killed_shard_loses_its_hosts, kill_shards, &["3"]);
in_cluster!(killed_lab_process_loses_its_hosts, kill_labs, &["3"]);
in_cluster!(hanging_agent_is_lost_until_it_continues, hang, &["3"]);
in_cluster!(disconnected_agent_returns, disconnect, &["3"]);
in_cluster!(resends_notifications_after_short_outage, disconnect_for_500_ms, &["3"]);
in_cluster!(labs_survive_loss_of_coordinators, lose_coordinators, &["3"]);
in_cluster!(agents_keep_results_after_full_disk, run_with_full_disk, &["3"]);

#[test]
#[ignore = "runs in a cluster, started by killed_agent_loses_its_hosts"]
fn kill_agents() {
    let Some(cluster) = Cluster::inside() else { return };
    lose_agent(&cluster, "kill -9 of an agent", |labs| {
        signal(labs.cluster.agent_pid("m2"), "-KILL");
        // The agent is restarted, but its shards are not retained.
        let are_over = || labs.shards.iter().all(|(shard, inner)| !lives(*shard) && !lives(*inner));
        until("its shards to end", || are_over().then_some(()));
    });
}

#[test]
#[ignore = "runs in a cluster, started by killed_shard_loses_its_hosts"]
fn kill_shards() {
    let Some(cluster) = Cluster::inside() else { return };
    lose_agent(&cluster, "kill -9 of a shard's process", |labs| {
        for (shard, inner) in labs.shards {
            signal(shard, "-KILL");
            until("its lab to end", || (!lives(inner)).then_some(()));
        }
    });
}

#[test]
#[ignore = "runs in a cluster, started by killed_lab_process_loses_its_hosts"]
fn kill_labs() {
    let Some(cluster) = Cluster::inside() else { return };
    lose_agent(&cluster, "kill -9 of a shard's lab", |labs| {
        labs.shards.iter().for_each(|(_, inner)| signal(*inner, "-KILL"));
    });
}

/// A fault of five seconds, after which the second agent is available again or reported as lost.
fn interrupt_agent(
    cluster: &Cluster,
    what: &str,
    fault: impl Fn(&Cluster),
    fix: impl Fn(&Cluster),
) {
    let attempt = || {
        let before = cluster.inventory();
        let labs = Labs::start(cluster);
        fault(cluster);
        std::thread::sleep(Duration::from_secs(5));
        fix(cluster);
        labs.finish(&before, what, |lost| lost.len() == 1)
    };
    conclusive(what, attempt, exchange_continued);
    next_lab(cluster, what);
}

#[test]
#[ignore = "runs in a cluster, started by hanging_agent_is_lost_until_it_continues"]
fn hang() {
    let Some(cluster) = Cluster::inside() else { return };
    let send = |name: &'static str| move |cluster: &Cluster| signal(cluster.agent_pid("m2"), name);
    interrupt_agent(&cluster, "SIGSTOP of an agent", send("-STOP"), send("-CONT"));
    // The agent stays connected, so no agent is lost, but its packets are late.
    let after = "SIGSTOP of a shard's lab";
    let before = cluster.inventory();
    let mut running = cluster.start(&lab("stop", LAB_S), &[]);
    let [_, [(_, inner)], _] = ["m1", "m2", "m3"].map(|agent| cluster.shards(agent, &mut running));
    std::thread::sleep(Duration::from_secs(1));
    signal(inner, "-STOP");
    std::thread::sleep(Duration::from_secs(5));
    signal(inner, "-CONT");
    let run = running.finish();
    assert!(outages(&run).is_empty(), "{}", run.dump());
    assert_eq!(run.record()["verdict"]["trusted"], false, "{}", run.dump());
    assert!(elapsed(&run) >= f64::from(LAB_S) - 0.5, "{}", run.dump());
    cluster.returns_to(&before, after);
    next_lab(&cluster, after);
}

#[test]
#[ignore = "runs in a cluster, started by disconnected_agent_returns"]
fn disconnect() {
    let Some(cluster) = Cluster::inside() else { return };
    let set = |state: &'static str| move |_: &Cluster| Cluster::cable("m2", state);
    interrupt_agent(&cluster, "a cable out for 5 s", set("down"), set("up"));
}

/// Two senders share a link; the second one starts and ends flows while it is disconnected.
const CUT: &str = r#"
lab = { name = "cut", duration = "12 s", model = "collapsed", sharing = "max-min", window = "off" }
link = [
    { ends = ["a", "left"], rate = "100 Mbit/s", delay = "5 ms" },
    { ends = ["b", "left"], rate = "100 Mbit/s", delay = "5 ms" },
    { ends = ["left", "right"], rate = "12 Mbit/s", delay = "5 ms", name = "line" },
    { ends = ["right", "c"], rate = "100 Mbit/s", delay = "5 ms" },
]
flow = [
    { name = "one", from = "a", to = "c", control = "cubic", duration = "12 s" },
    { name = "two", from = "b", to = "c", control = "cubic", duration = "12 s" },
    { from = "b", to = "c", size = "3 kB", duration = "4 s", arrivals = { every = "50 ms" } },
]
program = [{ name = "on-a", node = "a", run = "sleep 4711", service = true },
           { name = "on-b", node = "b", run = "sleep 4711", service = true },
           { name = "on-c", node = "c", run = "sleep 4711", service = true }]
node.a.machine = "m1"
node.b.machine = "m2"
node.c.machine = "m3"
node.left.kind = "router"
node.right.kind = "router"
expect = [
    # Of 12 Mbit/s each has a half again, less headers, once all know that nothing else is left: a
    # flow of which the other agent knows more would never exceed 4 Mbit/s, and one of which it
    # knows nothing would have 11 Mbit/s. A busy host delays data, but not for the whole interval.
    { that = "flow.one.goodput.max >= 5.1 Mbit/s between 6.5 s and 12 s" },
    { that = "flow.one.goodput.mean <= 9 Mbit/s between 6.5 s and 12 s" },
    { that = "flow.two.goodput.max >= 5.1 Mbit/s between 6.5 s and 12 s" },
    { that = "flow.two.goodput.mean <= 9 Mbit/s between 6.5 s and 12 s" },
]
"#;

#[test]
#[ignore = "runs in a cluster, started by resends_notifications_after_short_outage"]
fn disconnect_for_500_ms() {
    let Some(cluster) = Cluster::inside() else { return };
    conclusive(
        "disconnect_for_500_ms",
        || run_with_short_outage(&cluster),
        |run| {
            let lost = outages(run);
            if !lost.is_empty() {
                return Err(format!("an interruption of 0.5 s is not a loss: {lost:?}"));
            }
            run.expectations_passed()
        },
    );
}

fn run_with_short_outage(cluster: &Cluster) -> Run {
    let mut running = cluster.start(CUT, &[]);
    let _ = ["m1", "m2", "m3"].map(|agent| cluster.shards::<1>(agent, &mut running));
    std::thread::sleep(Duration::from_secs(2));
    Cluster::cable("m2", "down");
    // A longer outage would start TCP's backoff, which resembles the loss of an agent.
    std::thread::sleep(Duration::from_millis(500));
    Cluster::cable("m2", "up");
    let run = running.finish();
    assert_eq!(run.record()["status"], "finished", "{}", run.dump());
    run
}

/// Name of the lab that continues.
const CONTINUES: &str = "faults-continue";

/// Fetches the results of a lab that continued without its coordinator.
fn collect(cluster: &Cluster, after: &str) -> Run {
    until("the lab to end", || {
        let status = cluster.status();
        let agents = status["agents"].as_array()?;
        let over = |agent: &Value| {
            let lab = agent["labs"].as_array()?.iter().find(|lab| lab["name"] == CONTINUES)?;
            Some(lab["phase"] == "finished")
        };
        agents.iter().all(|agent| over(agent) == Some(true)).then_some(())
    });
    let output = cluster.command(&["cluster", "collect", CONTINUES, "--json"]).output().unwrap();
    let run = Run::of(output);
    assert!(matches!(run.code, Some(0 | 3)), "{after}: {}", run.dump());
    assert!(elapsed(&run) >= f64::from(LAB_S) - 0.5, "{after}: {}", run.dump());
    run
}

/// Kills the coordinators of two labs. Returns the one that continues without.
fn kill_coordinators(cluster: &Cluster, after: &str) -> Run {
    let before = cluster.inventory();
    let labs = Labs::start(cluster);
    for running in [labs.stops, labs.continues] {
        running.signal("-KILL");
        assert_eq!(running.output().status.code(), None, "{after}");
    }
    let collected = collect(cluster, after);
    cluster.returns_to(&before, after);
    collected
}

#[test]
#[ignore = "runs in a cluster, started by labs_survive_loss_of_coordinators"]
fn lose_coordinators() {
    let Some(cluster) = Cluster::inside() else { return };
    let after = "kill -KILL of the coordinators";
    conclusive(after, || kill_coordinators(&cluster, after), exchange_continued);
    next_lab(&cluster, after);

    let after = "kill -INT of the coordinators";
    let before = cluster.inventory();
    let labs = Labs::start(&cluster);
    for running in [labs.stops, labs.continues] {
        running.signal("-INT");
        let run = running.finish();
        assert_eq!(run.code, Some(130), "{after}: {}", run.dump());
        assert_eq!(run.record()["status"], "interrupted", "{after}: {}", run.dump());
        let members: &Value = &run.record()["cluster"]["members"];
        assert_eq!(members.as_array().unwrap().len(), 3, "{members:#}");
    }
    cluster.returns_to(&before, after);
    next_lab(&cluster, after);
}

/// Runs a lab with a maximum file size in blocks of 512 bytes, similar to a disk that becomes full.
fn run_with_file_limit(cluster: &Cluster, blocks: u32) -> std::process::Output {
    cluster.bench.write("run_with_file_limit.toml", &lab("stop", 2));
    let netarium = cluster.command(&["run", "run_with_file_limit.toml", "--json", "--no-progress"]);
    let mut command = std::process::Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    command.args(["-c", &script, "sh"]).arg(netarium.get_program()).args(netarium.get_args());
    command.args(["--cluster", &std::env::var("NETARIUM_CLUSTER").unwrap()]);
    for (name, value) in netarium.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(netarium.get_current_dir().unwrap()).output().unwrap()
}

#[test]
#[ignore = "runs in a cluster, started by agents_keep_results_after_full_disk"]
fn run_with_full_disk() {
    let Some(cluster) = Cluster::inside() else { return };
    // Too small for the packed results of the agents, or for the report.
    for blocks in [4, 64] {
        let after = format!("a run without room, {blocks}");
        conclusive(&after, || collect_after_full_disk(&cluster, blocks, &after), all_flows_arrived);
    }
}

fn collect_after_full_disk(cluster: &Cluster, blocks: u32, after: &str) -> Run {
    let before = cluster.inventory();
    let output = run_with_file_limit(cluster, blocks);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(4), "{after}: {printed}");
    assert!(printed.contains("File too large"), "{after}: {printed}");
    assert!(printed.contains("netarium cluster collect "), "{after}: {printed}");
    let runs = std::fs::read_dir(cluster.bench.path().join("runs")).unwrap();
    assert_eq!(runs.count(), 0, "{after}");
    let output =
        cluster.command(&["cluster", "collect", "faults-stop", "--json"]).output().unwrap();
    let run = Run::of(output);
    assert!(matches!(run.code, Some(0 | 3)), "{after}: {}", run.dump());
    std::fs::remove_dir_all(run.folder()).unwrap();
    cluster.returns_to(&before, after);
    run
}
