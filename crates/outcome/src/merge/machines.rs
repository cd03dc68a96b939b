//! What of a record is about the machines and the network between them.

use base::{Histogram, Span, Time};
use lab::plan::{Plan, Role};
use record::RunRecord;
use record::cluster::{Cluster, Member, Trunk};
use record::run::{Engine, HostFaults, HostLoad, Lateness, Machine, Status};

use super::sources::Source;
use super::{Joined, Pieces};
use crate::FlowResult;
use crate::observation::{Ending, Peer};
use crate::verdict::{self, MachineSeen};

/// What is known of the machines.
pub(super) struct Found<'a> {
    pub(super) plan: &'a Plan,
    pub(super) pieces: &'a Pieces,
    pub(super) sources: &'a [Source],
    pub(super) results: &'a [FlowResult],
    /// Least emulated delays from member to member.
    pub(super) delays: &'a [Vec<Option<Span>>],
    pub(super) at: Time,
    pub(super) tolerance: Span,
}

/// Enters it, and judges whether the run is to be trusted.
pub(super) fn enter(record: &mut RunRecord, found: &Found<'_>) {
    let endings: Vec<&Ending> =
        found.sources.iter().filter_map(|source| source.ending.as_deref()).collect();
    let failure = found.pieces.failure.clone();
    let failure = failure.or_else(|| endings.iter().find_map(|ending| ending.failure.clone()));
    record.status = status(found.pieces, &endings, failure.is_some());
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
        tolerance_ns: found.tolerance.as_nanos(),
        histogram: lateness,
    };
    record.host = faults(&endings);
    record.load = load(&endings);
    let cluster = cluster(found, record.status);
    record.notice_delay = cluster.notice_delay;
    let machines: Vec<MachineSeen<'_>> =
        found.pieces.members.iter().zip(found.sources).filter_map(seen).collect();
    let unsent = found.results.iter().filter_map(|result| result.datagrams);
    record.verdict = Some(verdict::judge(&verdict::Seen {
        machines: &machines,
        cluster: Some(&cluster),
        unsent: unsent.map(|counts| counts.skipped).sum(),
        elapsed: found.at.as_secs_f64(),
        tolerance: found.tolerance,
    }));
    record.cluster = Some(Box::new(cluster));
}

/// How the run ended: as the coordinator says, or as the gravest of its pieces did.
fn status(pieces: &Pieces, endings: &[&Ending], failed: bool) -> Status {
    let any = |status| endings.iter().any(|ending| ending.status == status);
    if failed || any(Status::Failed) {
        return Status::Failed;
    }
    if let Some(status) = pieces.status {
        return status;
    }
    match endings {
        [] => Status::Killed,
        _ if any(Status::Interrupted) => Status::Interrupted,
        _ => Status::Finished,
    }
}

fn seen<'a>((member, source): (&'a Joined, &'a Source)) -> Option<MachineSeen<'a>> {
    let ending = source.ending.as_deref()?;
    Some(MachineSeen {
        name: &member.name,
        lateness: &ending.lateness,
        ingress: &ending.ingress,
        cpu: ending.cpu,
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

/// All machines as one.
fn machine(endings: &[&Ending]) -> Option<Machine> {
    let first = endings.first()?;
    Some(Machine {
        kernel: several(endings, |ending| &ending.machine.kernel),
        cpu: several(endings, |ending| &ending.machine.cpu),
        cores: endings.iter().fold(0, |sum: u32, e| sum.saturating_add(e.machine.cores)),
        memory_bytes: endings.iter().map(|e| e.machine.memory_bytes).sum(),
        realtime: first.machine.realtime && endings.iter().all(|e| e.machine.realtime),
    })
}

fn engine(endings: &[&Ending]) -> Option<Engine> {
    let first = endings.first()?;
    let name = several(endings, |ending| &ending.engine.name);
    Some(Engine { name, ..first.engine.clone() })
}

/// What there is of different words, in order.
fn several<'a>(endings: &[&'a Ending], pick: fn(&'a Ending) -> &'a String) -> String {
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

/// Times add up; of shares and counts the largest is told.
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

fn cluster(found: &Found<'_>, status: Status) -> Cluster {
    let Found { pieces, sources, .. } = found;
    let endings: Vec<&Ending> = sources.iter().filter_map(|s| s.ending.as_deref()).collect();
    let notices = sum(&endings, |ending| &ending.notices);
    Cluster {
        sharing: pieces.sharing.clone(),
        encrypted: pieces.encrypted,
        on_agent_loss: pieces.on_agent_loss.clone(),
        members: (0..sources.len()).map(|at| member(found, at, status)).collect(),
        trunks: trunks(found),
        notice_delay: notices.distribution(),
        notice_delays: notices,
    }
}

fn member(found: &Found<'_>, at: usize, status: Status) -> Member {
    let (joined, plan) = (&found.pieces.members[at], found.plan);
    let is_here = |node: base::NodeId| {
        let owner = found.pieces.owners.get(node.index()).copied().flatten();
        owner.is_some_and(|owner| usize::from(owner) == at)
    };
    let nodes = plan.nodes.iter().enumerate();
    let hosts =
        nodes.filter(|(id, node)| node.kind == Role::Host && is_here(base::NodeId::at(*id)));
    let programs = plan.programs.iter().filter(|program| is_here(program.node));
    let flows = plan.flows.iter().filter(|flow| is_here(flow.from)).count() as u32;
    let mut member = Member {
        name: joined.name.clone(),
        version: joined.version.clone(),
        status: Status::Killed,
        hosts: hosts.map(|(_, node)| node.name.clone()).collect(),
        programs: programs.map(|program| program.name.clone()).collect(),
        flows,
        clock_offset_ns: joined.clock_offset_ns,
        outages: joined.outages.clone(),
        ..Member::default()
    };
    let Some(ending) = &found.sources[at].ending else { return member };
    // Those that were told to end do not know why.
    member.status = match ending.status {
        Status::Interrupted => status,
        own => own,
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

/// All pairs of members between which anything went, as the receiver tells it; what was sent, as
/// the sender does.
fn trunks(found: &Found<'_>) -> Vec<Trunk> {
    let mut trunks = Vec::new();
    let told = |at: usize, peer: usize| {
        let peers: &[Peer] = &found.sources[at].peers;
        peers.iter().find(|told| usize::from(told.peer) == peer)
    };
    let members = &found.pieces.members;
    for from in 0..members.len() {
        for to in (0..members.len()).filter(|to| *to != from) {
            let (sent, received) = (told(from, to), told(to, from));
            let count = |peer: Option<&Peer>, pick: fn(&Peer) -> u64| peer.map_or(0, pick);
            let carried = count(sent, |peer| peer.sent_datagrams + peer.refused)
                + count(received, |peer| peer.datagrams + peer.forged + peer.lost);
            if carried == 0 {
                continue;
            }
            let late = received.map_or_else(Histogram::new, |peer| peer.late.clone());
            let delays = received.map_or_else(Histogram::new, |peer| peer.delay.clone());
            let within = late.share_within(found.tolerance.as_nanos());
            trunks.push(Trunk {
                from: members[from].name.clone(),
                to: members[to].name.clone(),
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
                path_delay_ns: found.delays[from][to].map(Span::as_nanos),
            });
        }
    }
    trunks
}
