//! Labs over several hosts that succeed, and labs that are rejected.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::bench::{Run, count, number, signal};
use super::harness::{Cluster, in_cluster};

/// Two senders on two agents share a link; programs run on both, with a file of the lab.
const LAB: &str = r#"
link = [
    { ends = ["a", "left"], delay = "5 ms", rate = "20 Mbit/s" },
    { ends = ["b", "left"], delay = "5 ms", rate = "20 Mbit/s" },
    { ends = ["left", "right"], delay = "10 ms", rate = "10 Mbit/s", name = "line" },
    { ends = ["right", "c"], delay = "5 ms", rate = "20 Mbit/s" },
]
flow = [
    { name = "first", from = "a", to = "c", duration = "4 s" },
    { name = "second", from = "b", to = "c", duration = "4 s" },
]
program = [
    { name = "ping", node = "a", run = "ping -c 8 -i 0.3 b" },
    { name = "reader", node = "b", run = "cat words.txt; echo $NETARIUM_CREDENTIALS" },
]
[lab]
name = "apart"
duration = "20 s"
model = "collapsed"
[cluster]
apart = [["a", "b"]]
[node]
a = {}
b = {}
c = {}
left = { kind = "router" }
right = { kind = "router" }
"#;

in_cluster!(distributed_lab_gives_one_report, run_distributed_lab, &["2"]);
in_cluster!(rejects_unauthorised_and_oversized_labs, reject_labs, &["2"]);
in_cluster!(concurrent_labs_are_isolated, run_concurrent_labs, &["2"]);
in_cluster!(collects_results_after_loss_of_coordinator, collect_results, &["2"]);
in_cluster!(does_not_follow_planted_links, plant_links, &["1"]);

#[test]
#[ignore = "runs in a cluster, started by distributed_lab_gives_one_report"]
fn run_distributed_lab() {
    let Some(cluster) = Cluster::inside() else { return };
    cluster.bench.write("words.txt", "shipped with the lab\n");
    let before = cluster.inventory();
    let run = cluster.run(LAB, &[]);
    let record = run.record();
    assert_eq!(record["status"], "finished", "{}", run.dump());
    assert_eq!(record["cluster"]["members"].as_array().unwrap().len(), 2);
    assert!(run.stdout("ping").contains(" 0% packet loss"), "{}", run.stdout("ping"));
    assert_eq!(run.stdout("reader"), "shipped with the lab\n\n", "and no credentials");
    let rates = flows_share_line(&run);
    let sum: f64 = rates.iter().sum();
    if run.record()["verdict"]["trusted"] == true {
        assert!((8e6..10e6).contains(&sum), "{rates:?}");
        assert!(rates.iter().all(|rate| (0.35..0.65).contains(&(rate / sum))), "{rates:?}");
    }
    assert!(run.folder().join("report.html").exists());
    let again = record["repeat"].as_str().unwrap();
    assert!(again.starts_with("netarium cluster local 2 -- netarium run "), "{again}");
    assert!(!again.contains("--cluster"), "{again}");
    cluster.returns_to(&before, "a run");
}

/// The goodput of both flows, in bit/s, after a check that the line carried exactly their packets.
///
/// The check counts bytes: flows that start at different times have a sum of goodputs above the
/// rate of the line, since each one divides by its own duration.
fn flows_share_line(run: &Run) -> [f64; 2] {
    let flows = ["first", "second"];
    let received: u64 = flows.iter().map(|flow| count(&run.flow(flow)["received_bytes"])).sum();
    let sent = |link: &str| count(&run.link(link, "up")["sent_bytes"]);
    let line = sent("line");
    assert!(received <= line && line <= sent("a-left") + sent("b-left"), "{}", run.dump());
    // A stalled agent uses outdated shares.
    if run.record()["verdict"]["trusted"] == true {
        assert!(number(&run.link("line", "up")["utilisation"]) <= 1.05, "{}", run.dump());
    }
    flows.map(|flow| {
        assert!(count(&run.flow(flow)["received_bytes"]) > 0, "{}", run.dump());
        number(&run.flow(flow)["goodput_bit_per_s"])
    })
}

fn printed(command: &mut Command) -> (i32, String) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), text.into_owned())
}

#[test]
#[ignore = "runs in a cluster, started by rejects_unauthorised_and_oversized_labs"]
fn reject_labs() {
    let Some(cluster) = Cluster::inside() else { return };
    cluster.bench.write("words.txt", "x\n");
    let before = cluster.inventory();
    cluster.bench.write("apart.toml", LAB);
    let run = ["run", "apart.toml", "--no-progress"];
    let foreign = cluster.bench.path().join("foreign");
    let authority = cluster_live::authority::Authority::generate(1).unwrap();
    let role = cluster_live::credentials::Role::Coordinator;
    authority.issue(role, "other", 1).unwrap().store(&foreign).unwrap();
    let (code, text) = printed(cluster.command(&run).arg("--credentials").arg(&foreign));
    assert!(code == 4 && text.contains("signed by one authority"), "{code} {text}");
    let (code, text) = printed(cluster.command(&run).args(["--cluster", "127.0.0.1:9"]));
    assert!(code == 4 && text.contains("netarium agent"), "{code} {text}");
    let (code, text) = printed(cluster.command(&run).args(["--cluster", "a b"]));
    assert!(code == 2 && text.contains("HOST:PORT"), "{code} {text}");
    let huge = LAB.replace("b = {}", "b = { memory = \"900 TiB\" }");
    cluster.bench.write("huge.toml", &huge);
    let (code, text) = printed(&mut cluster.command(&["run", "huge.toml"]));
    assert!(code == 2 && text.contains("memory"), "{code} {text}");
    let missing = LAB.replace("apart = ", "files = [\"none/**\"]\napart = ");
    cluster.bench.write("missing.toml", &missing);
    let (code, text) = printed(&mut cluster.command(&["run", "missing.toml"]));
    assert!(code == 2 && text.contains("none/**"), "{code} {text}");
    cluster.returns_to(&before, "refusals");
}

#[test]
#[ignore = "runs in a cluster, started by concurrent_labs_are_isolated"]
fn run_concurrent_labs() {
    let Some(cluster) = Cluster::inside() else { return };
    cluster.bench.write("words.txt", "x\n");
    let before = cluster.inventory();
    let one = cluster.start(LAB, &["--name", "one"]);
    let two = cluster.start(LAB, &["--name", "two"]);
    let mut trusted = true;
    let sums = [one.finish(), two.finish()].map(|run| {
        assert_eq!(run.record()["status"], "finished", "{}", run.dump());
        trusted &= run.record()["verdict"]["trusted"] == true;
        flows_share_line(&run).iter().sum()
    });
    // A common link for both labs would carry at most 10 Mbit/s.
    if trusted {
        assert!(sums.iter().sum::<f64>() > 10.5e6, "each lab has a separate link: {sums:?}");
    }
    cluster.returns_to(&before, "two runs");
}

#[test]
#[ignore = "runs in a cluster, started by collects_results_after_loss_of_coordinator"]
fn collect_results() {
    let Some(cluster) = Cluster::inside() else { return };
    cluster.bench.write("words.txt", "x\n");
    let before = cluster.inventory();
    let lab = LAB.replace("[cluster]", "[cluster]\non_agent_loss = \"continue\"");
    let run = cluster.start(&lab, &[]);
    let phases = |status: &Value| -> Vec<String> {
        let agents = status["agents"].as_array().unwrap();
        let labs = agents.iter().flat_map(|agent| agent["labs"].as_array().unwrap());
        labs.map(|lab| lab["phase"].as_str().unwrap().to_owned()).collect()
    };
    super::bench::until("both agents to run", || {
        (phases(&cluster.status()) == ["running", "running"]).then_some(())
    });
    // Waits so that the agents have results of some traffic.
    std::thread::sleep(std::time::Duration::from_secs(3));
    signal(run.pid(), "-KILL");
    drop(run.output());
    let (code, text) = printed(&mut cluster.command(&["cluster", "collect", "apart"]));
    assert!(code == 2 && text.contains("still runs"), "{code} {text}");
    let (code, text) = printed(&mut cluster.command(&["cluster", "collect", "none"]));
    assert!(code == 2 && text.contains("cluster status"), "{code} {text}");
    let collect = ["cluster", "collect", "apart", "--stop", "--json"];
    let output = cluster.command(&collect).output().unwrap();
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["status"], "interrupted", "{record}");
    assert_eq!(record["cluster"]["members"].as_array().unwrap().len(), 2);
    assert!(count(&record["flows"][0]["received_bytes"]) > 0, "{record}");
    cluster.returns_to(&before, "a collection");
}

/// Makes links where the agent and the coordinator will write.
const PLANT: &str = r#"
cd "$NETARIUM_RUN_DIR/../.." || exit 1
for name in results results.part log; do ln -sf "$OUTSIDE" $name; done
for run in "$COORDINATOR"/runs/*; do
    mkdir -p "$run/programs/plant"
    ln -sf "$OUTSIDE" "$run/programs/plant/stdout"
    ln -sf "$OUTSIDE" "$run/.shard-0.packed"
done
"#;

/// Both folders are below `/tmp`, which programs of labs can change.
#[test]
#[ignore = "runs in a cluster, started by does_not_follow_planted_links"]
fn plant_links() {
    let Some(cluster) = Cluster::inside() else { return };
    let outside = cluster.bench.write("outside", "kept");
    cluster.bench.write("plant.sh", PLANT);
    let (coordinator, target) = (cluster.bench.path().display(), outside.display());
    let lab = format!(
        "node.a = {{}}\nnode.b = {{}}\nlink = [{{ ends = [\"a\", \"b\"] }}]\n\
         program = [{{ node = \"a\", name = \"plant\", run = \"sh plant.sh\", \
         env = {{ OUTSIDE = \"{target}\", COORDINATOR = \"{coordinator}\" }} }}]\n\
         [lab]\nname = \"planted\"\nduration = \"20 s\"\n"
    );
    let run = cluster.run(&lab, &[]);
    assert_eq!(run.program("plant")["end"]["exit"], 0, "{}", run.dump());
    assert_eq!(fs::read_to_string(&outside).unwrap(), "kept");
    let output = run.folder().join("programs/plant/stdout");
    assert!(fs::symlink_metadata(&output).unwrap().is_file(), "{}", output.display());
}
