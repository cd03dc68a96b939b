//! `cluster` and `agent`: labs over several hosts.

use std::ffi::OsStr;
use std::process::ExitCode;

use cluster::control::{AgentStatus, PeerStatus};
use cluster_live::connection::Connection;
use cluster_live::{coordinate, shard};
use serde_json::json;

use crate::args::cluster::agent::Target;
use crate::args::cluster::{Cluster, ClusterCommand, Collect};
use crate::terminal::Terminal;
use crate::{Failure, Verdict, results};
use run::Exit;

mod agent;
mod agreement;
mod local;
mod placement;
pub(crate) mod spread;
mod trust;

pub(crate) use agent::agent;
use agent::{failure, target};
pub(crate) use agreement::measure_agreement;

/// Runs the shard of a lab, if the agent started this process for one.
pub(crate) fn shard(first_argument: &OsStr) -> Option<ExitCode> {
    (first_argument == shard::ARGUMENT).then(|| shard::shard_main().into())
}

pub(crate) fn cluster(args: &Cluster, terminal: &Terminal) -> Verdict {
    match &args.command {
        ClusterCommand::Init(args) => trust::init(args, terminal),
        ClusterCommand::Invite(args) => trust::invite(args, terminal),
        ClusterCommand::Revoke(args) => trust::revoke(args, terminal),
        ClusterCommand::Enrol(args) => trust::enrol(args, terminal),
        ClusterCommand::Status(args) => status(args, terminal),
        ClusterCommand::Plan(args) => placement::plan(args, terminal),
        ClusterCommand::Collect(args) => collect(args, terminal),
        ClusterCommand::Local(args) => local::local(args, terminal),
    }
}

pub(crate) fn connect(named: &Target) -> Result<Connection, Failure> {
    let Some(cluster) = target(named)? else {
        let failure = Failure::usage("no cluster was given");
        return Err(failure.help("--cluster HOST:PORT, --cluster hosts.toml, or NETARIUM_CLUSTER"));
    };
    Connection::open(&cluster).map_err(|e| failure(&e))
}

fn status(args: &Target, terminal: &Terminal) -> Verdict {
    let connection = connect(args)?;
    let agents = &connection.agents;
    if terminal.json {
        terminal.object(&json!({
            "schema": "netarium.cluster/1",
            "agents": agents,
            "silent": connection.silent,
        }))?;
    } else {
        let tables = [agents_table(agents), peers_table(agents), labs_table(agents)];
        let tables: Vec<String> = tables.into_iter().flatten().collect();
        terminal.data(tables.join("\n\n"))?;
        for name in &connection.silent {
            terminal.error(format!("agent {name} is alive but does not answer"));
        }
    }
    Ok(if connection.silent.is_empty() { Exit::Ok } else { Exit::Machine })
}

fn collect(args: &Collect, terminal: &Terminal) -> Verdict {
    let options = coordinate::Collection {
        lab: args.lab.clone(),
        runs_dir: args.runs.clone(),
        stop: args.stop,
    };
    let mut connection = connect(&args.target)?;
    let record = coordinate::collect(&mut connection, &options).map_err(|e| failure(&e))?;
    let folder = results::folder_of(&args.runs, &record)?;
    results::show(&record, &folder, !args.no_report, terminal)?;
    Ok(record.exit_code.unwrap_or(Exit::Internal))
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
    columns(&head, &rows.collect::<Vec<_>>())
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}

fn peers_table(agents: &[AgentStatus]) -> Option<String> {
    let head = ["from", "to", "clock offset", "round trip", "pings lost"];
    let rows = agents.iter().flat_map(|agent| agent.peers.iter().map(|peer| peer_row(agent, peer)));
    columns(&head, &rows.collect::<Vec<_>>())
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
        (false, _) => "unreachable".to_owned(),
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
    columns(&head, &rows)
}

/// `None` if there are no rows.
fn columns(heads: &[&str], rows: &[Vec<String>]) -> Option<String> {
    (!rows.is_empty()).then(|| report::columns(heads, rows, 0..0))
}
