//! Limits of machines, and the cost of hosts.
//!
//! The costs of emulated traffic were measured on two cores (AMD EPYC, Zen 4, Linux 6.18), with the
//! data path, the hosts' kernels and the programs on the same cores. The benchmark's `dumbbell` row
//! uses 0.66 to 0.72 cores for 1 Gbit/s of full-size packets on one machine; these constants give
//! 0.76.

use base::{Bandwidth, Bytes, NodeId};
use lab::plan::Plan;

use super::atoms::Atoms;
use super::demand::{Demand, NO_LIMIT, full_size};
use super::model::{Bound, Machine, Share, Terms};
use super::network::Network;
use cluster::Resources;

/// Core seconds per end of a packet on a machine: the read from its sender or the write to its
/// receiver, with the work of the kernel.
pub const PACKET_END: f64 = 4.0e-6;
/// Core seconds per byte and end: 0.9 s per gigabyte from end to end.
pub const BYTE_END: f64 = 0.45e-9;
/// Additional core seconds per packet to or from another machine (1.13 to 1.51 µs for both agents
/// with batches, of which 0.39 to 0.62 are both ends).
pub const TRUNK_END: f64 = 0.5e-6;
/// Fraction of the cores that may be busy in the worst case; above it packets are late.
pub const HEADROOM: f64 = 0.7;
/// Bytes on the physical wire per byte of emulated traffic: IP, UDP, the trunk's header and tag,
/// and padding of partly filled datagrams.
pub const TRUNK_OVERHEAD: f64 = 1.08;
/// Memory of a host without programs: 0.2 to 0.4 MB in the kernel, 0.1 MB in the emulator.
pub const HOST_MEMORY: Bytes = Bytes::new(512 << 10);
/// Fixed memory of the emulation on each machine.
pub const SHARD_MEMORY: Bytes = Bytes::new(48 << 20);
/// Memory per node and link of the whole lab, on each machine.
const ELEMENT_MEMORY: u64 = 4 << 10;
/// Max maximum-flow computations of a search. After that it uses an upper bound, the sum of the
/// hosts' rates.
const MAX_FLOW_COMPUTATIONS: u32 = 4_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    Hosts,
    Memory,
    Cores,
    /// Interface rate, egress.
    NicOut,
    /// Interface rate, ingress.
    NicIn,
    Traffic,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shortage {
    pub(super) resource: Resource,
    pub(super) needed: f64,
    pub(super) available: f64,
}

/// The sum of the needs of some hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    pub(super) hosts: u32,
    pub(super) programs: u32,
    pub(super) cpus: f64,
    pub(super) memory: u64,
    pub(super) send: u64,
    pub(super) receive: u64,
    pub(super) small_packets: f64,
}

impl Load {
    pub(super) fn add(&mut self, other: &Self) {
        self.hosts += other.hosts;
        self.programs += other.programs;
        self.cpus += other.cpus;
        self.memory = self.memory.saturating_add(other.memory);
        self.send = self.send.saturating_add(other.send);
        self.receive = self.receive.saturating_add(other.receive);
        self.small_packets += other.small_packets;
    }
}

/// Worst-case emulated traffic of a machine, bit/s; `None`: unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Traffic {
    pub(super) out: Option<u64>,
    pub(super) into: Option<u64>,
    pub(super) inside: Option<u64>,
    /// From its hosts to all hosts, and to its hosts from all hosts.
    pub(super) sent: Option<u64>,
    pub(super) received: Option<u64>,
    /// Whether declared flows bound `out` and `into` more than links do.
    pub(super) by_flows: [bool; 2],
}

impl Traffic {
    fn is_bounded(&self) -> bool {
        self.sent.is_some() && self.received.is_some()
    }
}

#[derive(Debug)]
pub(super) struct Limits<'a> {
    pub(super) machines: &'a [Machine],
    demand: &'a Demand,
    pub(super) loads: Vec<Load>,
    atom_of: &'a [Option<u32>],
    network: Network,
    pub(super) shard_memory: u64,
    full_size: f64,
    /// Whether too much traffic is only a warning.
    overcommit: bool,
    flows_left: u32,
}

impl<'a> Limits<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        machines: &'a [Machine],
        terms: &Terms,
        atoms: &'a Atoms,
        demand: &'a Demand,
        network: Network,
    ) -> Self {
        let loads = atoms.list.iter().map(|atom| {
            let mut load = Load::default();
            for node in &atom.hosts {
                load.add(&host_load(demand, &network, *node));
            }
            load
        });
        let elements = (plan.nodes.len() + plan.links.len()) as u64;
        Self {
            machines,
            demand,
            loads: loads.collect(),
            atom_of: &atoms.of,
            shard_memory: SHARD_MEMORY.count() + elements * ELEMENT_MEMORY,
            network,
            full_size: full_size(plan).count() as f64,
            overcommit: terms.overcommit,
            flows_left: MAX_FLOW_COMPUTATIONS,
        }
    }

    /// The first limit that `load` exceeds without its traffic.
    pub(super) fn lacks_room(&self, machine: usize, load: &Load) -> Option<Shortage> {
        let offered = &self.machines[machine].resources;
        let shortage = |resource, needed: f64, available: f64| {
            (needed > available).then_some(Shortage { resource, needed, available })
        };
        let memory = load.memory.saturating_add(self.shard_memory) as f64;
        shortage(Resource::Hosts, f64::from(load.hosts), f64::from(offered.hosts))
            .or_else(|| shortage(Resource::Memory, memory, offered.memory.count() as f64))
            .or_else(|| shortage(Resource::Cores, load.cpus, offered.cores))
    }

    /// The first limit that the traffic of the machine's atoms exceeds. Computes maximum flows
    /// only if the sums of the hosts' rates exceed a limit or are unbounded.
    pub(super) fn traffic_shortage(
        &mut self,
        machine: usize,
        load: &Load,
        owner: &[Option<usize>],
    ) -> Option<Shortage> {
        if self.overcommit {
            return None;
        }
        let sums = sums(load);
        let short = self.shortage(machine, load, &sums);
        if self.flows_left < 5 || (short.is_none() && sums.is_bounded()) {
            return short;
        }
        self.flows_left -= 5;
        let traffic = self.traffic(machine, owner);
        self.shortage(machine, load, &traffic)
    }

    /// As [`Self::traffic_shortage`], with maximum flows even when the search has used its number.
    pub(super) fn verify(
        &mut self,
        machine: usize,
        load: &Load,
        owner: &[Option<usize>],
    ) -> Option<Shortage> {
        self.flows_left = self.flows_left.max(5);
        self.traffic_shortage(machine, load, owner)
    }

    /// The number of complete assignments to check; smaller in larger networks.
    pub(super) fn max_checks(&self) -> u32 {
        (200_000 / self.network.size()).clamp(50, 5_000) as u32
    }

    /// Emulated traffic of `machine`, each part at its own worst case.
    pub(super) fn traffic(&mut self, machine: usize, owner: &[Option<usize>]) -> Traffic {
        let atom_of = self.atom_of;
        let is_here = |node: NodeId| {
            atom_of[node.index()].is_some_and(|atom| owner[atom as usize] == Some(machine))
        };
        let is_there = |node: NodeId| !is_here(node);
        let hosts = (0..atom_of.len()).filter(|node| is_here(NodeId::at(*node))).take(2).count();
        let by_links = Traffic {
            out: self.network.flow(is_here, is_there),
            into: self.network.flow(is_there, is_here),
            inside: if hosts > 1 { self.network.flow(is_here, is_here) } else { Some(0) },
            sent: self.network.flow(is_here, |_| true),
            received: self.network.flow(|_| true, is_here),
            by_flows: [false; 2],
        };
        if self.demand.is_declared { self.declared(by_links, is_here) } else { by_links }
    }

    /// Applies the bounds of declared flows.
    fn declared(&self, by_links: Traffic, is_here: impl Fn(NodeId) -> bool) -> Traffic {
        let [mut out, mut into, mut inside] = [0u64; 3];
        for flow in &self.demand.flows {
            let (there, back) = (flow.there, flow.back);
            let add = |sum: &mut u64, rate: u64| *sum = sum.saturating_add(rate).min(NO_LIMIT);
            match (is_here(flow.from), is_here(flow.to)) {
                (true, true) => add(&mut inside, there.saturating_add(back)),
                (true, false) => {
                    add(&mut out, there);
                    add(&mut into, back);
                }
                (false, true) => {
                    add(&mut out, back);
                    add(&mut into, there);
                }
                (false, false) => {}
            }
        }
        let least = |links: Option<u64>, flows: u64| {
            let flows = (flows < NO_LIMIT).then_some(flows);
            match (links, flows) {
                (Some(links), Some(flows)) => Some(links.min(flows)),
                (links, flows) => links.or(flows),
            }
        };
        let is_less = |links: Option<u64>, flows: u64| {
            flows < NO_LIMIT && links.is_none_or(|links| flows <= links)
        };
        Traffic {
            out: least(by_links.out, out),
            into: least(by_links.into, into),
            inside: least(by_links.inside, inside),
            sent: least(by_links.sent, out.saturating_add(inside)),
            received: least(by_links.received, into.saturating_add(inside)),
            by_flows: [is_less(by_links.out, out), is_less(by_links.into, into)],
        }
    }

    /// The first limit that `traffic` exceeds. Unbounded traffic exceeds none; it causes a warning.
    pub(super) fn shortage(
        &self,
        machine: usize,
        load: &Load,
        traffic: &Traffic,
    ) -> Option<Shortage> {
        let offered = &self.machines[machine].resources;
        let shortage = |resource, needed: Option<f64>, available: Option<f64>| {
            let (needed, available) = (needed?, available?);
            (needed > available).then_some(Shortage { resource, needed, available })
        };
        let rate = |rate: Option<Bandwidth>| rate.map(|rate| rate.bits_per_sec() as f64);
        let wire = |bits: Option<u64>| bits.map(|bits| bits as f64 * TRUNK_OVERHEAD);
        let nic = rate(offered.nic);
        let cores = self.cores(load, traffic).map(|cores| load.cpus + cores / HEADROOM);
        let carried = carried_bits(traffic).map(|bits| bits as f64);
        shortage(Resource::NicOut, wire(traffic.out), nic)
            .or_else(|| shortage(Resource::NicIn, wire(traffic.into), nic))
            .or_else(|| shortage(Resource::Traffic, carried, rate(offered.traffic)))
            .or_else(|| shortage(Resource::Cores, cores, Some(offered.cores)))
    }

    /// Cores for the emulation of `traffic`.
    pub(super) fn cores(&self, load: &Load, traffic: &Traffic) -> Option<f64> {
        let bytes = |bits: Option<u64>| bits.map(|bits| bits as f64 / 8.0);
        let ends = bytes(traffic.sent)? + bytes(traffic.received)?;
        let crossing = bytes(traffic.out)? + bytes(traffic.into)?;
        let small = load.small_packets * PACKET_END;
        let packets = ends / self.full_size * PACKET_END + crossing / self.full_size * TRUNK_END;
        Some(packets + ends * BYTE_END + small)
    }
}

fn host_load(demand: &Demand, network: &Network, node: NodeId) -> Load {
    let host = &demand.hosts[node.index()];
    let port = network.port(node);
    Load {
        hosts: 1,
        programs: host.programs,
        cpus: host.cpus,
        memory: host.memory.count().saturating_add(HOST_MEMORY.count()),
        send: port.map_or(0, |port| port.send),
        receive: port.map_or(0, |port| port.receive),
        small_packets: host.small_packets,
    }
}

/// A simple bound: all traffic of the hosts crosses the interface.
fn sums(load: &Load) -> Traffic {
    let bounded = |bits: u64| (bits < NO_LIMIT).then_some(bits);
    let (sent, received) = (bounded(load.send), bounded(load.receive));
    Traffic { out: sent, into: received, inside: Some(0), sent, received, by_flows: [false; 2] }
}

/// Emulated traffic through a machine, each bit counted once.
pub(super) fn carried_bits(traffic: &Traffic) -> Option<u64> {
    let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
    let totals = [
        sum(sum(traffic.out, traffic.into), traffic.inside),
        sum(traffic.sent, traffic.into),
        sum(traffic.received, traffic.out),
    ];
    totals.into_iter().flatten().min()
}

/// Emulated traffic through a machine.
pub(super) fn carried(share: &Share) -> Option<Bandwidth> {
    let parts = [share.out, share.into, share.inside].map(|bound| bound.rate);
    let sum = |sum: Bandwidth, part: Option<Bandwidth>| Some(sum.saturating_add(part?));
    parts.into_iter().try_fold(Bandwidth::ZERO, sum)
}

/// The rate of emulated traffic on the physical wire.
pub(super) fn on_the_wire(rate: Bandwidth) -> Bandwidth {
    Bandwidth::from_bits_per_sec((rate.bits_per_sec() as f64 * TRUNK_OVERHEAD) as u64)
}

impl Share {
    /// The resources to reserve for the lab. Unbounded traffic reserves everything.
    pub fn needs(&self, offered: &Resources) -> Resources {
        let worst = |a: Bound, b: Bound| Some(a.rate?.max(b.rate?));
        let nic = worst(self.out, self.into).map(on_the_wire);
        let carried = carried(self);
        Resources {
            cores: self.traffic_cores.map_or(offered.cores, |traffic| {
                (self.program_cores + traffic / HEADROOM).min(offered.cores)
            }),
            memory: self.memory,
            nic: offered.nic.map(|all| nic.map_or(all, |part| part.min(all))),
            traffic: offered.traffic.map(|all| carried.map_or(all, |part| part.min(all))),
            hosts: self.hosts.len() as u32,
        }
    }
}
