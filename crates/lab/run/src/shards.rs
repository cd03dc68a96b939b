//! Creates the record and the verdict of a run from the summaries of its shards. A run on one
//! host has one shard.

use std::path::PathBuf;

use base::{Histogram, NodeId, Span, Time};
use lab::plan::{Plan, Role};

use crate::effect::{HostDelays, HostEffects};
use crate::observation::{Ending, Peer};
use crate::record::cluster::{Cluster, Member, Outage, Trunk};
use crate::record::{Engine, Failure, HostFaults, HostLoad, Lateness, Machine, Status};
use crate::verdict::{self, MachineStats};
use crate::{FlowResult, RunRecord};

/// A run on several agents, with the coordinator's information.
#[derive(Clone, Debug, Default)]
pub struct ClusterRun {
    /// The agents, in the order of their numbers.
    pub agents: Vec<AgentRun>,
    /// The agent of each node of the plan; `None` for a node that is on every agent.
    pub owners: Vec<Option<u16>>,
    /// The `sharing` key of the lab file.
    pub sharing: String,
    /// Whether packets between agents were encrypted.
    pub encrypted: bool,
    /// `stop` or `continue`.
    pub on_agent_loss: String,
    /// Warnings of the coordinator and of placement.
    pub warnings: Vec<String>,
    /// The status of the run if the coordinator decided it, for example by stopping all agents.
    pub status: Option<Status>,
    /// Reason for the failure of the run, if the coordinator reported one.
    pub failure: Option<Failure>,
}

#[derive(Clone, Debug, Default)]
pub struct AgentRun {
    pub name: String,
    /// The version of netarium on it.
    pub version: String,
    /// A local copy of its shard's run folder; `None` if that could not be fetched.
    pub folder: Option<PathBuf>,
    /// Times during which the other agents or the coordinator received no message from it.
    pub outages: Vec<Outage>,
    /// Its clock minus the first agent's, in nanoseconds.
    pub clock_offset_ns: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
pub struct Shard<'a> {
    /// The name of its agent; empty in a run on one host.
    pub name: &'a str,
    /// `None` if it was killed, is damaged or could not be read.
    pub ending: Option<&'a Ending>,
    /// Traffic from and to the other shards.
    pub peers: &'a [Peer],
}

/// The data for the record and the verdict of a run, without its samples.
#[derive(Clone, Copy, Debug)]
pub struct ShardResults<'a> {
    pub plan: &'a Plan,
    pub shards: &'a [Shard<'a>],
    /// The cluster of the run; `None` for a run on one host.
    pub cluster: Option<ClusterContext<'a>>,
    pub flow_results: &'a [FlowResult],
    pub at: Time,
    pub tolerance: Span,
}

/// The coordinator's information about a run on several agents.
#[derive(Clone, Copy, Debug)]
pub struct ClusterContext<'a> {
    pub run: &'a ClusterRun,
    /// Minimum emulated delays from shard to shard.
    pub delays: &'a [Vec<Option<Span>>],
}

impl<'a> ShardResults<'a> {
    fn endings(&self) -> Vec<&'a Ending> {
        self.shards.iter().filter_map(|shard| shard.ending).collect()
    }

    /// Why the run failed. The coordinator's failure takes precedence, because it may have
    /// stopped the shards.
    fn failure(&self) -> Option<Failure> {
        let coordinator = self.cluster.and_then(|cluster| cluster.run.failure.clone());
        coordinator.or_else(|| self.endings().iter().find_map(|ending| ending.failure.clone()))
    }
}

/// Enters the shards' summaries and the verdict into the record. Returns the errors that the hosts
/// may have caused in the results.
pub fn enter(record: &mut RunRecord, results: &ShardResults<'_>) -> HostEffects {
    let endings = results.endings();
    let failure = results.failure();
    let coordinator_status = results.cluster.and_then(|cluster| cluster.run.status);
    record.status = status(coordinator_status, &endings, failure.is_some());
    if let Some(failure) = failure {
        record.fail(failure);
    }
    record.machine = machine(&endings).unwrap_or_else(|| record.machine.clone());
    record.engine = engine(&endings).unwrap_or_else(|| record.engine.clone());
    let events = endings.iter().map(|ending| &ending.events);
    record.events = events.max_by_key(|events| events.len()).cloned().unwrap_or_default();
    let lateness = sum(&endings, |ending| &ending.lateness);
    record.lateness = Lateness {
        distribution: lateness.distribution(),
        tolerance_ns: results.tolerance.as_nanos(),
        histogram: lateness,
    };
    record.notice_delay = sum(&endings, |ending| &ending.notices).distribution();
    record.host = faults(&endings);
    record.load = load(&endings);
    let cluster = results.cluster.map(|context| cluster(results, context, record.status));
    let machines: Vec<MachineStats<'_>> = results.shards.iter().filter_map(machine_stats).collect();
    let effects = HostEffects::new(
        endings.iter().map(|ending| delays(ending)).collect(),
        results.at.since(Time::ZERO),
    );
    record.verdict = Some(verdict::judge(&verdict::Evidence {
        plan: results.plan,
        machines: &machines,
        effects: &effects,
        cluster: cluster.as_ref(),
        flow_results: results.flow_results,
        elapsed: results.at.as_secs_f64(),
        tolerance: results.tolerance,
    }));
    record.cluster = cluster.map(Box::new);
    effects
}

fn delays(ending: &Ending) -> HostDelays {
    HostDelays {
        lateness: ending.lateness.clone(),
        ingress: ending.ingress.clone(),
        stalls: ending.stalls.clone(),
        flow_waits: ending.flow_waits.clone(),
    }
}

/// The status of the run: that of the coordinator, or the worst of its shards.
fn status(coordinator_status: Option<Status>, endings: &[&Ending], failed: bool) -> Status {
    let any = |status| endings.iter().any(|ending| ending.status == status);
    if failed || any(Status::Failed) {
        return Status::Failed;
    }
    if let Some(status) = coordinator_status {
        return status;
    }
    match endings {
        [] => Status::Killed,
        _ if any(Status::Interrupted) => Status::Interrupted,
        _ => Status::Finished,
    }
}

fn machine_stats<'a>(shard: &Shard<'a>) -> Option<MachineStats<'a>> {
    let ending = shard.ending?;
    Some(MachineStats {
        name: shard.name,
        lateness: &ending.lateness,
        ingress: &ending.ingress,
        cpu: ending.cpu,
        distorted: ending.distorted,
        rejected: ending.rejected,
        memory_drops: ending.memory_drops,
        faults: &ending.host,
        load: &ending.load,
        cpus: ending.cpus as usize,
    })
}

fn sum(endings: &[&Ending], pick: fn(&Ending) -> &Histogram) -> Histogram {
    let mut all = Histogram::new();
    for ending in endings {
        all.merge(pick(ending));
    }
    all
}

/// A summary of all hosts.
fn machine(endings: &[&Ending]) -> Option<Machine> {
    let first = endings.first()?;
    Some(Machine {
        kernel: distinct(endings, |ending| &ending.machine.kernel),
        cpu: distinct(endings, |ending| &ending.machine.cpu),
        cores: endings.iter().fold(0, |sum: u32, e| sum.saturating_add(e.machine.cores)),
        memory_bytes: endings.iter().map(|e| e.machine.memory_bytes).sum(),
        realtime: first.machine.realtime && endings.iter().all(|e| e.machine.realtime),
    })
}

fn engine(endings: &[&Ending]) -> Option<Engine> {
    let first = endings.first()?;
    let name = distinct(endings, |ending| &ending.engine.name);
    Some(Engine { name, ..first.engine.clone() })
}

/// The distinct texts, in order, joined by `; `.
fn distinct<'a>(endings: &[&'a Ending], pick: fn(&'a Ending) -> &'a String) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in endings.iter().map(|ending| pick(ending).as_str()) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join("; ")
}

fn faults(endings: &[&Ending]) -> HostFaults {
    let mut all = HostFaults::default();
    for host in endings.iter().map(|ending| &ending.host) {
        all.steal_s += host.steal_s;
        all.dropped_packets += host.dropped_packets;
        all.capture_drops += host.capture_drops;
        all.records_lost += host.records_lost;
        all.cpu_s += host.cpu_s;
    }
    all
}

/// Sums the times, and takes the maximum of shares and counts.
fn load(endings: &[&Ending]) -> Option<HostLoad> {
    let mut loads = endings.iter().map(|ending| &ending.load);
    let mut all = loads.next()?.clone();
    let add = |all: &mut Option<f64>, more: Option<f64>| {
        *all = all.map_or(more, |all| Some(all + more.unwrap_or(0.0)));
    };
    for load in loads {
        all.busy = all.busy.max(load.busy);
        all.busiest = all.busiest.max(load.busiest);
        all.flows_cpu_s += load.flows_cpu_s;
        add(&mut all.programs_cpu_s, load.programs_cpu_s);
        add(&mut all.cpu_wait_s, load.cpu_wait_s);
        add(&mut all.memory_stall_s, load.memory_stall_s);
        all.suspended_s += load.suspended_s;
        all.other_labs = all.other_labs.max(load.other_labs);
    }
    Some(all)
}

fn cluster(results: &ShardResults<'_>, context: ClusterContext<'_>, status: Status) -> Cluster {
    let run = context.run;
    let notices = sum(&results.endings(), |ending| &ending.notices);
    Cluster {
        sharing: run.sharing.clone(),
        encrypted: run.encrypted,
        on_agent_loss: run.on_agent_loss.clone(),
        members: (0..results.shards.len()).map(|at| member(results, run, at, status)).collect(),
        trunks: trunks(results, context.delays),
        notice_delay: notices.distribution(),
        notice_delays: notices,
    }
}

fn member(results: &ShardResults<'_>, run: &ClusterRun, at: usize, status: Status) -> Member {
    let (agent, plan) = (&run.agents[at], results.plan);
    let is_here = |node: NodeId| {
        let owner = run.owners.get(node.index()).copied().flatten();
        owner.is_some_and(|owner| usize::from(owner) == at)
    };
    let nodes = plan.nodes.iter().enumerate();
    let hosts = nodes.filter(|(id, node)| node.kind == Role::Host && is_here(NodeId::at(*id)));
    let programs = plan.programs.iter().filter(|program| is_here(program.node));
    let flows = plan.flows.iter().filter(|flow| is_here(flow.from)).count() as u32;
    let mut member = Member {
        name: agent.name.clone(),
        version: agent.version.clone(),
        status: Status::Killed,
        hosts: hosts.map(|(_, node)| node.name.clone()).collect(),
        programs: programs.map(|program| program.name.clone()).collect(),
        flows,
        clock_offset_ns: agent.clock_offset_ns,
        outages: agent.outages.clone(),
        ..Member::default()
    };
    let Some(ending) = results.shards[at].ending else { return member };
    // The coordinator interrupts shards for a reason that only the status of the run contains.
    member.status = match ending.status {
        Status::Interrupted => status,
        status => status,
    };
    member.machine = ending.machine.clone();
    member.engine = ending.engine.clone();
    member.delivered_packets = ending.delivered;
    member.lateness = ending.lateness.distribution();
    member.notice_delay = ending.notices.distribution();
    member.messages_sent = ending.messages.sent;
    member.message_bytes_sent = ending.messages.sent_bytes;
    member.messages_received = ending.messages.received;
    member.message_bytes_received = ending.messages.received_bytes;
    member.messages_unsent = ending.messages.unsent;
    member.overrun_datagrams = ending.overrun;
    member.clock_bound_ns = ending.clock_bound.map(Span::as_nanos);
    member.host = ending.host.clone();
    member.load = Some(ending.load.clone());
    member
}

/// All pairs of agents with traffic between them. Sent counts are from the sender, all others
/// from the receiver.
fn trunks(results: &ShardResults<'_>, path_delays: &[Vec<Option<Span>>]) -> Vec<Trunk> {
    let mut trunks = Vec::new();
    let shards = results.shards;
    let counted = |at: usize, peer: usize| {
        shards[at].peers.iter().find(|counted| usize::from(counted.peer) == peer)
    };
    for from in 0..shards.len() {
        for to in (0..shards.len()).filter(|to| *to != from) {
            let (sent, received) = (counted(from, to), counted(to, from));
            let count = |peer: Option<&Peer>, pick: fn(&Peer) -> u64| peer.map_or(0, pick);
            let datagrams = count(sent, |peer| peer.sent_datagrams + peer.refused)
                + count(received, |peer| peer.datagrams + peer.forged + peer.lost);
            if datagrams == 0 {
                continue;
            }
            let late = received.map_or_else(Histogram::new, |peer| peer.late.clone());
            let delays = received.map_or_else(Histogram::new, |peer| peer.delay.clone());
            let within = late.share_within(results.tolerance.as_nanos());
            trunks.push(Trunk {
                from: shards[from].name.to_owned(),
                to: shards[to].name.to_owned(),
                sent_datagrams: count(sent, |peer| peer.sent_datagrams),
                sent_bytes: count(sent, |peer| peer.sent_bytes),
                refused_packets: count(sent, |peer| peer.refused),
                datagrams: count(received, |peer| peer.datagrams),
                bytes: count(received, |peer| peer.bytes),
                packets: count(received, |peer| peer.packets),
                lost: count(received, |peer| peer.lost),
                reordered: count(received, |peer| peer.reordered),
                duplicate: count(received, |peer| peer.duplicate),
                forged: count(received, |peer| peer.forged),
                late: late.count(),
                too_late: (late.count() as f64 * (1.0 - within)).round() as u64,
                lateness: late.distribution(),
                lead_ns: sent.map_or(0, |peer| peer.lead.as_nanos()),
                delay: delays.distribution(),
                delays,
                path_delay_ns: path_delays[from][to].map(Span::as_nanos),
            });
        }
    }
    trunks
}
