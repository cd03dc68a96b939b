//! For any lab and machines, a placement is within the limits, respects the constraints, and is
//! near the optimum.

use std::fmt::Write;

use lab::plan::Spread;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::super::limits::Limits;
use super::super::search::Graph;
use super::super::{affinity, atoms, demand, limits, network, search};
use super::oracle::Oracle;
use super::*;

/// A lab in the collapsed model: a tree of routers with hosts, flows and programs.
#[derive(Clone, Debug)]
struct Lab {
    /// The parent of each router but the first, and the link's rate in Mbit/s.
    routers: Vec<(prop::sample::Index, Option<u32>)>,
    /// The router of each host, the link's rate, whether it has a program, its cores in eighths.
    hosts: Vec<(prop::sample::Index, Option<u32>, bool, u32)>,
    flows: Vec<(prop::sample::Index, prop::sample::Index, Option<u32>)>,
    apart: Vec<(prop::sample::Index, prop::sample::Index)>,
    together: Vec<(prop::sample::Index, prop::sample::Index)>,
    pins: Vec<(prop::sample::Index, usize)>,
    pack: bool,
}

fn rate() -> impl Strategy<Value = Option<u32>> {
    prop::option::weighted(0.85, prop::sample::select(vec![1, 5, 10, 100, 500, 1000]))
}

fn any_lab(hosts: usize) -> impl Strategy<Value = Lab> {
    let index = any::<prop::sample::Index>;
    (
        prop::collection::vec((index(), rate()), 0..4),
        prop::collection::vec((index(), rate(), prop::bool::weighted(0.3), 0..5u32), 2..=hosts),
        prop::collection::vec((index(), index(), rate()), 0..10),
        prop::collection::vec((index(), index()), 0..2),
        prop::collection::vec((index(), index()), 0..2),
        prop::collection::vec((index(), 0..3usize), 0..2),
        any::<bool>(),
    )
        .prop_map(|(routers, hosts, flows, apart, together, pins, pack)| Lab {
            routers,
            hosts,
            flows,
            apart,
            together,
            pins,
            pack,
        })
}

fn any_machines() -> impl Strategy<Value = Vec<Machine>> {
    let one = (
        prop::sample::select(vec![1.0, 2.0, 8.0]),
        prop::sample::select(vec![49u64, 50, 64, 1024]),
        prop::option::of(prop::sample::select(vec![10u64, 100, 1_000, 10_000])),
        prop::option::of(prop::sample::select(vec![20u64, 1_000, 20_000])),
        1..9u32,
    );
    prop::collection::vec(one, 1..4).prop_map(|list| {
        let machine = |(index, (cores, mib, nic, traffic, hosts)): (usize, (f64, u64, _, _, _))| {
            let rate = |mbits: Option<u64>| mbits.map(Bandwidth::from_mbits_per_sec);
            Machine {
                name: format!("m{index}"),
                resources: Resources {
                    cores,
                    memory: Bytes::new(mib << 20),
                    nic: rate(nic),
                    traffic: rate(traffic),
                    hosts,
                },
            }
        };
        list.into_iter().enumerate().map(machine).collect()
    })
}

impl Lab {
    /// `None` if the constraints contradict each other.
    fn plan(&self) -> Option<Plan> {
        let mut text = "[lab]\nmodel = \"collapsed\"\n[node.r0]\nkind = \"router\"\n".to_owned();
        let link = |a: &str, b: &str, rate: Option<u32>| {
            let rate = rate.map_or(String::new(), |rate| format!("rate = \"{rate} Mbit/s\"\n"));
            format!("[[link]]\nends = [\"{a}\", \"{b}\"]\ndelay = \"1 ms\"\n{rate}")
        };
        let mut links = String::new();
        for (index, (parent, rate)) in self.routers.iter().enumerate() {
            writeln!(text, "[node.r{}]\nkind = \"router\"", index + 1).unwrap();
            let parent = format!("r{}", parent.index(index + 1));
            links += &link(&parent, &format!("r{}", index + 1), *rate);
        }
        let hosts = self.hosts.len();
        for (index, (router, rate, has_program, eighths)) in self.hosts.iter().enumerate() {
            writeln!(text, "[node.h{index}]\ncpus = {}", f64::from(*eighths) / 8.0).unwrap();
            links += &link(
                &format!("h{index}"),
                &format!("r{}", router.index(self.routers.len() + 1)),
                *rate,
            );
            if *has_program {
                let other = (index + 1) % hosts;
                writeln!(links, "[[program]]\nnode = \"h{index}\"\nrun = \"x h{other}\"").unwrap();
            }
        }
        text += &links;
        for (from, to, rate) in &self.flows {
            let (from, to) = (from.index(hosts), to.index(hosts));
            if from == to {
                continue;
            }
            writeln!(text, "[[flow]]\nfrom = \"h{from}\"\nto = \"h{to}\"").unwrap();
            if let Some(rate) = rate {
                writeln!(text, "transport = \"udp\"\nrate = \"{rate} Mbit/s\"").unwrap();
            }
        }
        let spread = if self.pack { Spread::Pack } else { Spread::Even };
        writeln!(text, "[cluster]\nspread = \"{}\"", spread.as_str()).unwrap();
        let groups = |pairs: &[(prop::sample::Index, prop::sample::Index)]| {
            let pair = |(a, b): &(prop::sample::Index, prop::sample::Index)| {
                let (a, b) = (a.index(hosts), b.index(hosts));
                (a != b).then(|| format!("[\"h{a}\", \"h{b}\"]"))
            };
            pairs.iter().filter_map(pair).collect::<Vec<_>>().join(", ")
        };
        writeln!(text, "apart = [{}]", groups(&self.apart)).unwrap();
        writeln!(text, "together = [{}]", groups(&self.together)).unwrap();
        let pins = self.pins.iter().map(|(host, machine)| (machine, host.index(hosts)));
        let pins: std::collections::BTreeMap<_, _> = pins.collect();
        let pins = pins.iter().map(|(machine, host)| format!("m{machine} = \"h{host}\""));
        writeln!(text, "machines = {{ {} }}", pins.collect::<Vec<_>>().join(", ")).unwrap();
        let overrides = Overrides { trust_programs: true, ..Overrides::default() };
        parse_with("any.toml", &text, Path::new("."), &overrides)
            .ok()
            .map(|mut lab| lab.plans.remove(0))
    }
}

/// Checks a placement independently of the search.
fn check(plan: &Plan, machines: &[Machine], placement: &Placement) {
    let owner = |node: NodeId| placement.assignment.owner(node);
    let cluster = &plan.cluster;
    let mut hosts = vec![0u32; placement.machines.len()];
    for index in 0..plan.nodes.len() {
        let node = NodeId::at(index);
        match (owner(node), plan.nodes[index].kind) {
            (Some(agent), lab::plan::Role::Host) => hosts[agent.index()] += 1,
            (None, lab::plan::Role::Router) => {}
            (owner, kind) => panic!("{kind:?} {owner:?}"),
        }
    }
    for (node, wishes) in &cluster.nodes {
        if let Some(machine) = &wishes.machine {
            assert_eq!(&placement.machines[owner(*node).unwrap().index()].name, machine);
        }
    }
    for group in &cluster.together {
        assert!(group.iter().all(|node| owner(*node) == owner(group[0])));
    }
    for group in &cluster.apart {
        let mut owners: Vec<_> = group.iter().map(|node| owner(*node)).collect();
        owners.sort_unstable();
        owners.dedup();
        assert_eq!(owners.len(), group.len());
    }
    let oracle = Oracle::of(plan);
    for (index, share) in placement.machines.iter().enumerate() {
        let offered = &machines[share.machine].resources;
        assert_eq!(
            (share.hosts.len() as u32, &share.name),
            (hosts[index], &machines[share.machine].name)
        );
        assert!(hosts[index] <= offered.hosts && hosts[index] > 0);
        assert!(share.memory <= offered.memory);
        let here = |node: NodeId| owner(node) == Some(AgentId::at(index));
        let [out, into] = [oracle.flow(here, |n| !here(n)), oracle.flow(|n| !here(n), here)];
        let bits = |bound: Bound| bound.rate.map(Bandwidth::bits_per_sec);
        for (ours, exact) in [(bits(share.out), out), (bits(share.into), into)] {
            match (ours, exact) {
                // The bound of declared flows may be below that of the links.
                (Some(ours), Some(exact)) => assert!(ours <= exact, "{ours} {exact}"),
                (None, Some(exact)) => panic!("not bounded, but {exact}"),
                _ => {}
            }
            if !oracle.is_declared {
                assert_eq!(ours, exact);
            }
            if let (Some(ours), Some(nic)) = (ours, offered.nic) {
                assert!(ours as f64 * TRUNK_OVERHEAD <= nic.bits_per_sec() as f64);
            }
        }
        let cpus: f64 = share.hosts.iter().filter_map(|node| cluster.wishes(*node).cpus).sum();
        assert!((share.program_cores - cpus).abs() < 1e-9);
        assert!(share.program_cores <= offered.cores);
        if let Some(cores) = share.traffic_cores {
            assert!(share.program_cores + cores / HEADROOM <= offered.cores + 1e-9);
        }
        let needs = share.needs(offered);
        assert!(needs.cores <= offered.cores + 1e-9 && needs.memory <= offered.memory);
    }
}

/// The smallest cut of all assignments within the limits.
fn least_cut(graph: &Graph, limits: &mut Limits<'_>, machines: usize) -> Option<u64> {
    let vertices = graph.vertices.len();
    let mut least = None;
    for number in 0..machines.pow(vertices as u32) {
        let mut rest = number;
        let owner: Vec<Option<usize>> = (0..vertices)
            .map(|_| {
                let machine = rest % machines;
                rest /= machines;
                Some(machine)
            })
            .collect();
        let cut = graph.cut(&owner);
        if least.is_none_or(|least| cut < least) && search::keeps(graph, limits, &owner) {
            least = Some(cut);
        }
    }
    least
}

/// The cuts of the search, of the optimum, and of refinement alone.
fn compared(plan: &Plan, machines: &[Machine]) -> Option<[Option<u64>; 3]> {
    let terms = Terms::default();
    let atoms = atoms::atoms(plan, machines).ok()?;
    let demand = demand::Demand::of(plan);
    let network = network::Network::of(plan, &demand);
    let affinity = affinity::Affinity::of(plan, &demand, &atoms, &terms);
    let mut limits = limits::Limits::new(plan, machines, &terms, &atoms, &demand, network);
    let graph = Graph::of(&atoms, &affinity, &limits);
    let best = least_cut(&graph, &mut limits, machines.len());
    let refined = search::refined_cut(&graph, &mut limits);
    let found = search::search(Spread::Pack, &atoms, &affinity, &mut limits).ok();
    let found = found.map(|owner| {
        let owner: Vec<Option<usize>> = owner.into_iter().map(Some).collect();
        graph.cut(&owner)
    });
    Some([found, best, refined])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn placements_respect_limits_and_constraints(lab in any_lab(12), machines in any_machines()) {
        let Some(plan) = lab.plan() else { return Ok(()) };
        match place(&plan, &machines, &Terms::default()) {
            Ok(placement) => {
                check(&plan, &machines, &placement);
                let again = place(&plan, &machines, &Terms::default()).unwrap();
                prop_assert_eq!(placement, again);
            }
            Err(refusal) => {
                prop_assert!(!refusal.problems.is_empty());
                let text = refusal.to_string();
                prop_assert!(text.contains(|c: char| c.is_ascii_digit()), "{}", text);
            }
        }
    }

    #[test]
    fn small_labs_are_within_1_2_of_optimum(
        lab in any_lab(6),
        machines in any_machines(),
    ) {
        let Some(plan) = lab.plan() else { return Ok(()) };
        let Some([found, best, _]) = compared(&plan, &machines) else { return Ok(()) };
        match (found, best) {
            (Some(found), Some(best)) => {
                prop_assert!(found as f64 <= 1.2 * best as f64, "{} {}", found, best);
            }
            (found, best) => prop_assert_eq!(found.is_some(), best.is_some()),
        }
    }
}

#[test]
fn refinement_alone_is_mostly_within_1_2_of_optimum() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = (any_lab(6), any_machines());
    let [mut possible, mut found, mut good] = [0u32; 3];
    for _ in 0..300 {
        let (lab, machines) = strategy.new_tree(&mut runner).unwrap().current();
        let Some(plan) = lab.plan() else { continue };
        let Some([_, Some(best), refined]) = compared(&plan, &machines) else { continue };
        possible += 1;
        found += u32::from(refined.is_some());
        good += u32::from(refined.is_some_and(|cut| cut as f64 <= 1.2 * best as f64));
    }
    assert!(
        possible >= 50 && found * 100 >= possible * 95 && good * 100 >= possible * 85,
        "of {possible} labs that fit, {found} were placed, {good} within 1.2 of the best"
    );
}
