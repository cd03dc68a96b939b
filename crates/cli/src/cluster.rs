//! `cluster`: several machines for one lab.

use cluster::control::{AgentStatus, PeerStatus};
use cluster_live::coordinate;
use cluster_live::reach::Reached;
use record::RunFolder;
use serde_json::json;

use crate::agent::{failure, target};
use crate::args::agent::Target;
use crate::args::cluster::{Cluster, ClusterVerb, Collect};
use crate::exit::Exit;
use crate::terminal::Terminal;
use crate::{Failure, Verdict, local, placement, results};

mod trust;

pub(crate) fn cluster(args: &Cluster, terminal: &Terminal) -> Verdict {
    match &args.verb {
        ClusterVerb::Init(args) => trust::init(args, terminal),
        ClusterVerb::Invite(args) => trust::invite(args, terminal),
        ClusterVerb::Revoke(args) => trust::revoke(args, terminal),
        ClusterVerb::Enrol(args) => trust::enrol(args, terminal),
        ClusterVerb::Status(args) => status(args, terminal),
        ClusterVerb::Plan(args) => placement::plan(args, terminal),
        ClusterVerb::Manifest(args) => placement::manifest(args, terminal),
        ClusterVerb::Collect(args) => collect(args, terminal),
        ClusterVerb::Local(args) => local::local(args, terminal),
    }
}

/// The agents of the cluster that was named.
pub(crate) fn reach(named: &Target) -> Result<Reached, Failure> {
    let Some(cluster) = target(named)? else {
        let failure = Failure::usage("no cluster is named");
        return Err(failure.help("--cluster HOST:PORT, --cluster hosts.toml, or NETARIUM_CLUSTER"));
    };
    Reached::open(&cluster).map_err(|e| failure(&e))
}

fn status(args: &Target, terminal: &Terminal) -> Verdict {
    let reached = reach(args)?;
    let agents = &reached.agents;
    if terminal.json {
        terminal.object(&json!({
            "schema": "netarium.cluster/1",
            "agents": agents,
            "silent": reached.silent,
        }))?;
    } else {
        let tables = [agents_table(agents), peers_table(agents), labs_table(agents)];
        let tables: Vec<String> = tables.into_iter().flatten().collect();
        terminal.data(tables.join("\n\n"))?;
        for name in &reached.silent {
            terminal.error(format!("agent {name} is there, but does not answer"));
        }
    }
    Ok(if reached.silent.is_empty() { Exit::Ok } else { Exit::Machine })
}

fn collect(args: &Collect, terminal: &Terminal) -> Verdict {
    let how = coordinate::Collecting {
        lab: args.lab.clone(),
        runs_dir: args.runs.clone(),
        stop: args.stop,
    };
    let mut reached = reach(&args.target)?;
    let record = coordinate::collect(&mut reached, &how).map_err(|e| failure(&e))?;
    let folder = RunFolder::open(&args.runs.join(format!("{}-{}", record.name, record.id)))
        .map_err(Failure::machine)?;
    results::show(&record, &folder, !args.no_report, terminal)?;
    Ok(record.exit_code.map_or(Exit::Bug, |code| Exit::of_run(code.into())))
}

fn agents_table(agents: &[AgentStatus]) -> Option<String> {
    let head = ["agent", "version", "cores", "memory", "interface", "hosts", "labs", "trunks"];
    let rows = agents.iter().map(|agent| {
        let (free, total) = (agent.free, agent.total);
        let rate = |rate: Option<u64>| {
            rate.map_or("unknown".to_owned(), |rate| {
                base::Bandwidth::from_bits_per_sec(rate).to_string()
            })
        };
        vec![
            agent.name.clone(),
            agent.version.clone(),
            format!("{:.1} of {:.1}", free.cores, total.cores),
            format!("{} of {}", gib(free.memory), gib(total.memory)),
            rate(total.nic),
            format!("{} of {}", free.hosts, total.hosts),
            agent.labs.len().to_string(),
            agent.trunk.to_string(),
        ]
    });
    columns(&head, rows.collect())
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

fn peers_table(agents: &[AgentStatus]) -> Option<String> {
    let head = ["from", "to", "clock offset", "round trip", "pings lost"];
    let rows = agents
        .iter()
        .flat_map(|agent| agent.peers.iter().map(move |peer| peer_row(agent, peer)))
        .collect();
    columns(&head, rows)
}

fn peer_row(agent: &AgentStatus, peer: &PeerStatus) -> Vec<String> {
    let micros = |nanos: f64| format!("{:.1} µs", nanos / 1e3);
    let (offset, trip) = match peer.clock {
        Some(clock) => (
            format!("{} ± {}", micros(clock.offset_ns as f64), micros(clock.bound_ns as f64)),
            micros(clock.round_trip_ns as f64),
        ),
        None => ("unknown".to_owned(), "unknown".to_owned()),
    };
    let lost = match (peer.alive, peer.pings) {
        (false, _) => "is not heard".to_owned(),
        (true, 0) => "unknown".to_owned(),
        (true, pings) => format!("{:.1} %", 100.0 * peer.unanswered as f64 / pings as f64),
    };
    vec![agent.name.clone(), peer.name.clone(), offset, trip, lost]
}

fn labs_table(agents: &[AgentStatus]) -> Option<String> {
    let head = ["lab", "name", "agent", "hosts", "phase"];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for agent in agents {
        for lab in &agent.labs {
            let phase = serde_json::to_value(lab.phase).unwrap_or_default();
            let phase = phase.as_str().unwrap_or_default().to_owned();
            let (id, hosts) = (lab.id.clone(), lab.hosts.to_string());
            rows.push(vec![id, lab.name.clone(), agent.name.clone(), hosts, phase]);
        }
    }
    rows.sort();
    columns(&head, rows)
}

/// Text in columns as wide as their widest word; `None` without any row.
fn columns(head: &[&str], rows: Vec<Vec<String>>) -> Option<String> {
    if rows.is_empty() {
        return None;
    }
    let mut lines = vec![head.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()];
    lines.extend(rows);
    let width = |at: usize| {
        lines.iter().filter_map(|line| line.get(at)).map(|word| word.chars().count()).max()
    };
    let widths: Vec<usize> = (0..head.len()).map(|at| width(at).unwrap_or(0)).collect();
    let text = |line: &Vec<String>| {
        let words = line.iter().zip(&widths).map(|(word, &width)| format!("{word:width$}"));
        words.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    Some(lines.iter().map(text).collect::<Vec<_>>().join("\n"))
}
