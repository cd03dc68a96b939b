//! Random networks in which links and nodes fail: the paths that kernels take with the routes of a
//! lab, compared with those of the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::result::Result;
use std::sync::Arc;

use proptest::prelude::*;
use run::Schedule;
use sim::Engine as _;
use sys::netlink::MAIN_TABLE;

use super::changes::KernelChanges;
use super::routes::{FIRST_TABLE, Node as KernelNode, Subnets, addresses, contains, network};
use super::*;
use base::{Span, Time};
use lab::plan::Role;
use lab::routes::Routes;

/// A network, and the failures in it.
#[derive(Clone, Debug)]
struct Case {
    routing: &'static str,
    /// The neighbour of each router except the first. The last "router" is a switch.
    parents: Vec<prop::sample::Index>,
    /// Further links between routers.
    links: Vec<(prop::sample::Index, prop::sample::Index)>,
    /// The one or two routers of each host.
    hosts: Vec<(prop::sample::Index, prop::sample::Index)>,
    /// Routers with kernels.
    kernels: Vec<bool>,
    /// Numbers by which the links' delays are ordered.
    ranks: Vec<u16>,
    /// Whether a link or a node changes its state each second, and which.
    changes: Vec<(bool, prop::sample::Index)>,
    ipv6: bool,
}

fn cases() -> impl Strategy<Value = Case> {
    let index = any::<prop::sample::Index>;
    (
        prop::sample::select(vec!["delay", "hops", "metric"]),
        prop::collection::vec(index(), 1..6),
        prop::collection::vec((index(), index()), 0..5),
        prop::collection::vec((index(), index()), 2..5),
        prop::collection::vec(any::<bool>(), 6),
        prop::collection::vec(any::<u16>(), 24),
        prop::collection::vec((prop::bool::weighted(0.75), index()), 1..6),
        any::<bool>(),
    )
        .prop_map(|(routing, parents, links, hosts, kernels, ranks, changes, ipv6)| Case {
            routing,
            parents,
            links,
            hosts,
            kernels,
            ranks,
            changes,
            ipv6,
        })
}

impl Case {
    fn routers(&self) -> usize {
        self.parents.len() + 1
    }

    /// The ends of all links, as numbers of nodes: routers, then hosts.
    fn ends(&self) -> Vec<(usize, usize)> {
        let routers = self.routers();
        let mut ends = BTreeSet::new();
        for (child, parent) in (1..).zip(&self.parents) {
            // No router is behind the switch.
            ends.insert((parent.index(child), child));
        }
        for (a, b) in &self.links {
            let (a, b) = (a.index(routers - 1), b.index(routers - 1));
            if a != b {
                ends.insert((a.min(b), a.max(b)));
            }
        }
        for (host, (a, b)) in (routers..).zip(&self.hosts) {
            ends.insert((a.index(routers), host));
            ends.insert((b.index(routers), host));
        }
        ends.into_iter().collect()
    }

    fn name(&self, node: usize) -> String {
        match node.checked_sub(self.routers()) {
            Some(host) => format!("h{host}"),
            None => format!("r{node}"),
        }
    }

    /// A lab in which each pair of hosts exchanges datagrams between the changes. The sum of the
    /// delays of a path names its links.
    fn lab(&self) -> String {
        let ends = self.ends();
        let mut text = format!(
            "[lab]\nname = \"failures\"\nduration = \"{} s\"\nrouting = \"{}\"\n\
             overhead = \"none\"\n",
            self.changes.len() + 1,
            self.routing
        );
        for node in 0..self.routers() + self.hosts.len() {
            let kind = match node {
                _ if node >= self.routers() => "host",
                _ if node == self.routers() - 1 => "switch",
                _ => "router",
            };
            writeln!(text, "[node.{}]\nkind = \"{kind}\"", self.name(node)).unwrap();
        }
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by_key(|link| self.ranks[*link]);
        for (link, (a, b)) in ends.iter().enumerate() {
            let exponent = order.iter().position(|at| *at == link).unwrap();
            let (a, b, delay, metric) = (self.name(*a), self.name(*b), 1 << exponent, 1 + link % 2);
            writeln!(
                text,
                "[[link]]\nname = \"l{link}\"\nends = [\"{a}\", \"{b}\"]\n\
                 delay = \"{delay} us\"\nmetric = {metric}"
            )
            .unwrap();
        }
        self.write_changes(&mut text, ends.len());
        self.write_flows(&mut text);
        text
    }

    fn write_changes(&self, text: &mut String, links: usize) {
        let mut down = BTreeSet::new();
        for (second, (is_link, index)) in (1..).zip(&self.changes) {
            let (key, name) = match is_link {
                true => ("link", format!("l{}", index.index(links))),
                // Not the switch.
                false => ("node", self.name(index.index(self.routers() - 1))),
            };
            let goes_up = down.remove(&name);
            let state = if goes_up { "up" } else { "down" };
            writeln!(text, "[[at]]\ntime = \"{second} s\"\n{key} = \"{name}\"\n{state} = true")
                .unwrap();
            if !goes_up {
                down.insert(name);
            }
        }
    }

    fn write_flows(&self, text: &mut String) {
        let hosts = self.routers()..self.routers() + self.hosts.len();
        let family = if self.ipv6 { "ipv6" } else { "ipv4" };
        for second in 0..=self.changes.len() {
            for from in hosts.clone() {
                for to in hosts.clone().filter(|to| *to != from) {
                    let (from, to) = (self.name(from), self.name(to));
                    writeln!(
                        text,
                        "[[flow]]\nname = \"{second}-{from}-{to}\"\nfrom = \"{from}\"\n\
                         to = \"{to}\"\ntransport = \"udp\"\nrate = \"1 Mbit/s\"\n\
                         packet = \"100 B\"\nsize = \"100 B\"\nstart = \"{second}.2 s\"\n\
                         family = \"{family}\""
                    )
                    .unwrap();
                }
            }
        }
    }

    /// The plan in which routers with kernels are not part of the fabric.
    fn with_kernels(&self, plan: &Plan) -> Plan {
        let mut plan = plan.clone();
        for (at, node) in plan.nodes.iter_mut().enumerate() {
            if node.kind == Role::Router && self.kernels[at] {
                node.fabric = NodeKind::Edge;
            }
        }
        plan
    }
}

/// The delay of a path in µs; `None` if packets do not arrive.
type Outcome = Option<u64>;

/// A network between two changes.
struct State<'a> {
    plan: &'a Plan,
    link_up: Vec<bool>,
    routes: Arc<Routes>,
    ipv6: bool,
}

impl State<'_> {
    fn address(&self, iface: IfaceId) -> IpAddr {
        let iface = &self.plan.ifaces[iface.index()];
        if self.ipv6 { iface.v6.unwrap().0.into() } else { iface.v4.unwrap().0.into() }
    }

    fn peer(&self, iface: IfaceId) -> NodeId {
        self.plan.ifaces[iface.index() ^ 1].node
    }

    fn is_up(&self, iface: IfaceId) -> bool {
        self.link_up[iface.index() / 2]
    }

    /// The outcomes for packets that leave a node through one of the interfaces `first`, if each
    /// other node sends them through one of `next(node)`.
    fn outcomes(
        &self,
        first: &[IfaceId],
        to: IfaceId,
        next: &dyn Fn(NodeId) -> Vec<IfaceId>,
    ) -> BTreeSet<Outcome> {
        let mut found = BTreeSet::new();
        let mut open: Vec<(u64, usize, Vec<IfaceId>)> = vec![(0, 0, first.to_vec())];
        while let Some((delay, hops, ways)) = open.pop() {
            if ways.is_empty() || hops > self.plan.nodes.len() {
                found.insert(None);
            }
            for way in ways.into_iter().filter(|_| hops <= self.plan.nodes.len()) {
                let iface = &self.plan.ifaces[way.index()];
                let link = &self.plan.links[iface.link.index()];
                let delay = delay + link.directions[iface.sends.index()].delay.as_nanos() / 1_000;
                let peer = self.peer(way);
                if !self.is_up(way) {
                    found.insert(None);
                } else if peer == self.plan.ifaces[to.index()].node {
                    found.insert(Some(delay));
                } else if self.plan.nodes[peer.index()].kind == Role::Host {
                    found.insert(None);
                } else {
                    open.push((delay, hops + 1, next(peer)));
                }
            }
        }
        found
    }

    /// The outcomes with the lab's routes. Packets with the address of interface `source` leave
    /// through it while it leads to their destination.
    fn expected(&self, from: NodeId, source: Option<IfaceId>, to: IfaceId) -> BTreeSet<Outcome> {
        let next = |node| self.routes.next(node, to).to_vec();
        let first = match source {
            Some(source) if self.routes.leads(source, to) => vec![source],
            _ => next(from),
        };
        self.outcomes(&first, to, &next)
    }
}

/// All queries about a state: the host, its address or none, and the destination.
fn queries(plan: &Plan) -> impl Iterator<Item = (NodeId, Option<IfaceId>, IfaceId)> {
    let is_host = |node: NodeId| plan.nodes[node.index()].kind == Role::Host;
    let hosts = (0..plan.nodes.len()).map(NodeId::at).filter(move |node| is_host(*node));
    hosts.flat_map(move |from| {
        let others = (0..plan.ifaces.len()).map(IfaceId::at);
        let others = others.filter(move |to| {
            let node = plan.ifaces[to.index()].node;
            node != from && plan.nodes[node.index()].kind != Role::Switch
        });
        others.flat_map(move |to| {
            let own = plan.nodes[from.index()].ifaces.iter().copied().map(Some);
            own.chain([None]).map(move |source| (from, source, to))
        })
    })
}

/// The next interfaces of a node with a kernel for packets with this source to this destination.
type Kernels<'a> = dyn Fn(NodeId, Option<IfaceId>, IfaceId) -> Vec<IfaceId> + 'a;

/// Compares the paths of kernels with the lab's routes, and with a simulation.
fn compare(
    state: &State<'_>,
    kernels: &Kernels<'_>,
    simulated: &dyn Fn(NodeId, NodeId) -> Outcome,
) -> Result<(), TestCaseError> {
    for (from, source, to) in queries(state.plan) {
        let next = |node: NodeId| match state.plan.nodes[node.index()].fabric {
            NodeKind::Edge => kernels(node, None, to),
            _ => state.routes.next(node, to).to_vec(),
        };
        let found = state.outcomes(&kernels(from, source, to), to, &next);
        let expected = state.expected(from, source, to);
        prop_assert_eq!(&found, &expected, "{:?} {:?} {:?} {:?}", from, source, to, state.link_up);
        // Flows are between the first addresses of their ends.
        let peer = state.plan.ifaces[to.index()].node;
        let first = |node: NodeId| state.plan.nodes[node.index()].ifaces[0];
        let is_host = state.plan.nodes[peer.index()].kind == Role::Host;
        if is_host && source == Some(first(from)) && to == first(peer) {
            let flow = simulated(from, peer);
            prop_assert!(
                found.contains(&flow),
                "simulated {:?} {:?}: {:?}, not {:?} {:?}",
                from,
                peer,
                flow,
                found,
                state.link_up
            );
        }
    }
    Ok(())
}

/// The outcomes of the flows in a simulation.
fn simulate(case: &Case, plan: &Plan) -> impl Fn(usize, NodeId, NodeId) -> Outcome + use<> {
    let mut simulation = sim::Simulation::try_new(plan).unwrap_or_else(|error| panic!("{error}"));
    simulation.advance(Time::ZERO + plan.duration);
    simulation.stop();
    let results = simulation.results();
    let (routers, hosts) = (case.routers(), case.hosts.len());
    move |second, from, to| {
        let (from, to) = (from.index() - routers, to.index() - routers);
        let place = to - usize::from(to > from);
        let result = &results[(second * hosts + from) * (hosts - 1) + place];
        assert_eq!(result.name, format!("{second}-h{from}-h{to}"));
        assert_eq!(result.datagrams.unwrap().sent, 1);
        result.delay.distribution().map(|delay| delay.min_ns / 1_000)
    }
}

/// Calls `change` for each change of links, and `check` for the states before, between and after.
fn each_state(
    plan: &Plan,
    ipv6: bool,
    mut change: impl FnMut(&run::Change),
    mut check: impl FnMut(usize, &State<'_>) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let link_up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
    let routes = Arc::new(Routes::compute(plan, &link_up));
    let mut state = State { plan, link_up, routes, ipv6 };
    let mut schedule = Schedule::new(Arc::new(plan.clone()));
    check(0, &state)?;
    for second in 1.. {
        let until = Time::ZERO + Span::from_secs(second);
        if until >= Time::ZERO + plan.duration {
            break;
        }
        for made in schedule.changes(until) {
            let run::ChangeKind::LinkState { links, up, forwarding } = &made.kind else {
                panic!("{made:?}")
            };
            for link in links {
                state.link_up[link.index()] = *up;
            }
            state.routes = Arc::clone(forwarding.as_ref().unwrap());
            change(&made);
        }
        check(second as usize, &state)?;
    }
    Ok(())
}

/// The routing tables and rules of a node, as its kernel uses them.
struct Tables<'a> {
    plan: &'a Plan,
    node: NodeId,
    routes: super::routes::Routes,
}

impl<'a> Tables<'a> {
    fn of(state: &State<'a>, node: NodeId, subnets: &Subnets) -> Self {
        let plan = state.plan;
        let devices: Vec<u32> = (0..plan.nodes[node.index()].ifaces.len() as u32).collect();
        let kernel = KernelNode { plan, id: node, devices: &devices, ipv6: true };
        let mut routes = kernel.routes(&*state.routes, &state.link_up, subnets);
        for (device, iface) in (0..).zip(&plan.nodes[node.index()].ifaces) {
            for (address, length) in addresses(&plan.ifaces[iface.index()]) {
                let (block, length) = network(address, length);
                routes.0.insert((MAIN_TABLE, block, length), vec![device]);
            }
        }
        Self { plan, node, routes }
    }

    /// The interfaces for packets from `source` to `to`: those of the longest matching prefix in
    /// the table of the source, or else in the main table.
    fn find(&self, source: Option<IpAddr>, to: IpAddr) -> Vec<IfaceId> {
        let node = &self.plan.nodes[self.node.index()];
        let is_source = |iface: &IfaceId| {
            addresses(&self.plan.ifaces[iface.index()]).any(|(own, _)| Some(own) == source)
        };
        // Only hosts with several interfaces have routes in such a table.
        let of_source = node.ifaces.iter().position(is_source).map(|at| FIRST_TABLE + at as u32);
        let search = |table: u32| {
            let matches =
                self.routes.0.iter().filter(|((of, block, length), _)| {
                    *of == table && contains((*block, *length), to)
                });
            matches.max_by_key(|((_, _, length), _)| *length).map(|(_, devices)| devices)
        };
        let devices = of_source.and_then(search).or_else(|| search(MAIN_TABLE));
        devices.into_iter().flatten().map(|device| node.ifaces[*device as usize]).collect()
    }
}

/// Failed cases are not saved: each has the seed that repeats it.
fn bounded(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn parse(case: &Case) -> Plan {
    let text = case.lab();
    let lab = lab::parse("lab.toml", &text, Path::new("."));
    lab.unwrap_or_else(|errors| panic!("{text}\n{:#?}", errors.list())).plans.remove(0)
}

proptest! {
    #![proptest_config(bounded(192))]

    /// The routes that kernels have after each failure lead along the paths of the simulator.
    #[test]
    fn kernel_routes_agree_with_simulated_paths(case in cases()) {
        let plan = parse(&case);
        let simulated = simulate(&case, &plan);
        let plan = case.with_kernels(&plan);
        let subnets = Subnets::of(&plan);
        each_state(&plan, case.ipv6, |_| {}, |second, state| {
            let nodes = (0..plan.nodes.len()).map(NodeId::at);
            let tables: Vec<Tables<'_>> =
                nodes.map(|node| Tables::of(state, node, &subnets)).collect();
            let kernels = |node: NodeId, source: Option<IfaceId>, to: IfaceId| {
                let source = source.map(|source| state.address(source));
                tables[node.index()].find(source, state.address(to))
            };
            compare(state, &kernels, &|from, to| simulated(second, from, to))
        })?;
    }
}

proptest! {
    #![proptest_config(bounded(12))]

    /// The same with the kernels of this machine: their routes before the first change, and those
    /// that each change sets.
    #[test]
    fn kernels_agree_with_simulated_paths(case in cases()) {
        let plan = parse(&case);
        let simulated = simulate(&case, &plan);
        let plan = case.with_kernels(&plan);
        let checked = std::thread::scope(|scope| {
            let check = || match namespace::unshare(namespace::Kinds::NET) {
                Ok(()) => with_kernels(&plan, case.ipv6, &simulated),
                Err(cause) => Err(Refused::Denied(cause.to_string())),
            };
            scope.spawn(check).join().unwrap()
        });
        match checked {
            Ok(()) => {}
            Err(Refused::Denied(cause)) => {
                eprintln!("SKIPPED kernels_agree_with_simulated_paths: {cause}");
            }
            Err(Refused::Wrong(error)) => return Err(error),
        }
    }
}

enum Refused {
    Denied(String),
    Wrong(TestCaseError),
}

impl From<TestCaseError> for Refused {
    fn from(error: TestCaseError) -> Self {
        Self::Wrong(error)
    }
}

/// Builds the enclosure in the network namespace of this thread, and compares its kernels.
fn with_kernels(
    plan: &Plan,
    ipv6: bool,
    simulated: &dyn Fn(usize, NodeId, NodeId) -> Outcome,
) -> Result<(), Refused> {
    let link_up: Vec<bool> = plan.links.iter().map(|link| link.up).collect();
    let routes = Arc::new(Routes::compute(plan, &link_up));
    let enclosure = match build(plan, &*routes, Engine::Tun) {
        Ok(enclosure) => Arc::new(enclosure),
        Err(Error::Kernel(cause) | Error::Node { cause, .. }) if cause.is_denied() => {
            return Err(Refused::Denied(cause.to_string()));
        }
        Err(error) => panic!("{error}"),
    };
    let mut changes = KernelChanges::new(Arc::new(plan.clone()), Arc::clone(&enclosure), routes);
    let change = |change: &run::Change| {
        changes.prepare(change);
        let errors = changes.apply(change.at);
        assert!(errors.is_empty(), "{errors:?}");
    };
    each_state(plan, ipv6, change, |second, state| {
        let mut answers = BTreeMap::new();
        for host in &enclosure.hosts {
            query_routes(state, host, &mut answers);
        }
        let kernels = |node, source, to| answers[&(node, source, to)].clone();
        compare(state, &kernels, &|from, to| simulated(second, from, to))
    })?;
    Ok(())
}

/// Queries the kernel of a node for its routes to all addresses.
fn query_routes(
    state: &State<'_>,
    host: &HostNet,
    answers: &mut BTreeMap<(NodeId, Option<IfaceId>, IfaceId), Vec<IfaceId>>,
) {
    let node = &state.plan.nodes[host.node.index()];
    let sources = node.ifaces.iter().copied().map(Some).filter(|_| node.kind == Role::Host);
    let sources: Vec<Option<IfaceId>> = sources.chain([None]).collect();
    let others = (0..state.plan.ifaces.len()).map(IfaceId::at).filter(|to| {
        let to = state.plan.ifaces[to.index()].node;
        to != host.node && state.plan.nodes[to.index()].kind != Role::Switch
    });
    let mut text = String::new();
    let mut queries = Vec::new();
    for to in others {
        for source in &sources {
            write!(text, "route get fibmatch {}", state.address(to)).unwrap();
            if let Some(source) = source {
                write!(text, " from {}", state.address(*source)).unwrap();
            }
            text.push('\n');
            queries.push((host.node, *source, to));
        }
    }
    let run = || {
        let mut ip = Command::new("ip");
        ip.args(["-force", "-batch", "-"]).stdin(Stdio::piped());
        let mut ip = ip.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut input = ip.stdin.take().unwrap();
        input.write_all(text.as_bytes()).unwrap();
        drop(input);
        ip.wait_with_output().unwrap()
    };
    let output = namespace::in_net(host.netns.as_fd(), run).unwrap();
    let (routes, errors) = (String::from_utf8(output.stdout).unwrap(), output.stderr);
    let errors = String::from_utf8(errors).unwrap();
    let failed: BTreeSet<usize> = errors
        .lines()
        .filter_map(|line| line.strip_prefix("Command failed -:")?.parse().ok())
        .collect();
    // The first line of a route is not indented.
    let mut found: Vec<Vec<IfaceId>> = Vec::new();
    for line in routes.lines() {
        if !line.starts_with([' ', '\t']) {
            found.push(Vec::new());
        }
        let device = line.split(" dev ").nth(1).and_then(|rest| rest.split(' ').next());
        let is_device = |iface: &&IfaceId| Some(&*state.plan.ifaces[iface.index()].name) == device;
        found.last_mut().unwrap().extend(node.ifaces.iter().find(is_device));
    }
    assert_eq!(found.len() + failed.len(), queries.len(), "{text}{routes}{errors}");
    let mut found = found.into_iter();
    for (line, query) in (1..).zip(queries) {
        let route = if failed.contains(&line) { Vec::new() } else { found.next().unwrap() };
        answers.insert(query, route);
    }
}
