//! Explicit rate control in lab files: session generators, their sessions and hosts.

use std::collections::BTreeSet;
use std::path::Path;

use base::{Bandwidth, Bytes, Direction, Ratio, Span, Time};
use fabric::{QueueLimit, Rate};
use lab::plan::{Plan, Population, Role, Session, Traffic};
use lab::routes::{Pair, Paths};
use lab::{Code, Overrides, parse_with, resolved};
use ratecontrol::Protocol;

fn read(text: &str) -> Plan {
    let lab = parse_with("lab.toml", text, Path::new("."), &Overrides::default());
    lab.unwrap_or_else(|errors| panic!("{text}\n{:#?}", errors.list())).plans.remove(0)
}

fn codes(text: &str) -> Vec<(Code, String)> {
    let list = match parse_with("lab.toml", text, Path::new("."), &Overrides::default()) {
        Ok(lab) => lab.warnings.list().to_vec(),
        Err(errors) => errors.list().to_vec(),
    };
    list.into_iter().map(|d| (d.code, d.message)).collect()
}

const RING: &str = "
    [lab]
    duration = \"2 s\"
    [[generate]]
    kind = \"ring\"
    routers = 5
    link = { rate = \"1 Gbit/s\", delay = \"2 ms\" }
";

const FIRST: &str = "
    [[sessions]]
    name = \"first\"
    count = 40
    routers = \"r*\"
    hosts = 12
    host_rate = \"50 Mbit/s\"
    host_delay = \"3 us\"
    start = [\"100 ms\", \"500 ms\"]
    leave = [\"500 ms\", \"700 ms\"]
    leave_count = 15
    size = { pareto = \"600 kB\", shape = 4 }
    demand = [\"1 Mbit/s\", \"10 Mbit/s\"]
    packet = \"2000 B\"
";

const SECOND: &str = "
    [[sessions]]
    name = \"another\"
    count = 20
    routers = [\"r1\", \"r2\"]
    hosts = 12
    host_rate = \"50 Mbit/s\"
    host_delay = \"3 us\"
";

fn named(plan: &Plan, population: &Population) -> Vec<(String, String, Session)> {
    let name = |node: base::NodeId| plan.nodes[node.index()].name.clone();
    population.sessions.iter().map(|s| (name(s.from), name(s.to), *s)).collect()
}

/// Names of the ends, start, leave, size.
type Drawn = (String, String, Time, Option<Time>, Option<Bytes>);

/// The generated sessions, independent of node numbers.
fn drawn(plan: &Plan, name: &str) -> Vec<Drawn> {
    let population = plan.sessions.iter().find(|p| p.name == name).expect("it is in the lab");
    let all = named(plan, population).into_iter();
    all.map(|(from, to, s)| (from, to, s.start, s.leave, s.size)).collect()
}

#[test]
fn a_population_keeps_within_its_bounds() {
    let plan = read(&format!("{RING}{FIRST}"));
    let [population] = &plan.sessions[..] else { panic!() };
    assert_eq!((population.sessions.len(), population.packet), (40, Bytes::new(2000)));
    let ms = |ms| Time::ZERO + Span::from_millis(ms);
    let rate = Bandwidth::from_mbits_per_sec;
    for s in &population.sessions {
        assert!(s.from != s.to && (ms(100)..=ms(500)).contains(&s.start));
        assert!(s.leave.is_none_or(|leave| (ms(500)..=ms(700)).contains(&leave)));
        assert!((rate(1)..=rate(10)).contains(&s.demand.unwrap()));
        // The minimum of the Pareto distribution is mean × (shape − 1) / shape.
        assert!(s.size.unwrap() >= Bytes::new(450_000));
    }
    assert_eq!(population.sessions.iter().filter(|s| s.leave.is_some()).count(), 15);
    let sources: BTreeSet<_> = population.sessions.iter().map(|s| s.from).collect();
    assert_eq!(sources.len(), 40, "each place is the source of one session");
}

#[test]
fn used_places_become_hosts_with_one_link() {
    let plan = read(&format!("{RING}{FIRST}"));
    let ends = plan.sessions[0].sessions.iter().flat_map(|s| [s.from, s.to]);
    let used: BTreeSet<_> = ends.collect();
    let hosts: Vec<_> = plan.nodes.iter().filter(|node| node.kind == Role::Host).collect();
    assert_eq!(hosts.len(), used.len(), "no place without a session is a node");
    for host in hosts {
        let [iface] = host.ifaces[..] else { panic!("{}", host.name) };
        let link = &plan.links[iface.index() / 2];
        assert!(plan.ifaces[iface.index()].v4.is_some());
        assert!(host.name.starts_with(&plan.nodes[link.ends[1].index()].name));
        for config in Direction::BOTH.map(|direction| &link.directions[direction.index()]) {
            assert_eq!(config.rate, Rate::Constant(Bandwidth::from_mbits_per_sec(50)));
            assert_eq!(
                (config.delay, config.queue.limit),
                (Span::from_micros(3), QueueLimit::UNLIMITED)
            );
        }
    }
}

#[test]
fn draws_depend_on_names_and_not_on_order() {
    let one = read(&format!("{RING}{FIRST}{SECOND}"));
    let other = read(&format!("{RING}{SECOND}{FIRST}"));
    for name in ["first", "another"] {
        assert_eq!(drawn(&one, name), drawn(&other, name));
    }
    let both: Vec<_> = one.sessions.iter().flat_map(|p| &p.sessions).map(|s| s.from).collect();
    assert_eq!(both.iter().collect::<BTreeSet<_>>().len(), 60, "places of sources are shared");
    // `another` is generated first, whether `first` exists or not.
    let alone = read(&format!("{RING}{SECOND}"));
    assert_eq!(drawn(&alone, "another"), drawn(&one, "another"));
    let seed = RING.replace("duration", "seed = 2\nduration");
    assert_ne!(drawn(&read(&format!("{seed}{FIRST}")), "first"), drawn(&one, "first"));
    // Every key has a separate random stream.
    let later = FIRST.replace("\"100 ms\"", "\"200 ms\"");
    let ends = |plan: &Plan| -> Vec<_> {
        drawn(plan, "first").into_iter().map(|(from, to, _, _, size)| (from, to, size)).collect()
    };
    let moved = read(&format!("{RING}{later}"));
    assert_eq!(ends(&moved), ends(&read(&format!("{RING}{FIRST}"))));
}

#[test]
fn all_places_can_be_sources() {
    let all = FIRST.replace("count = 40", "count = 60");
    let plan = read(&format!("{RING}{all}"));
    let sources: BTreeSet<_> = plan.sessions[0].sessions.iter().map(|s| s.from).collect();
    assert_eq!(sources.len(), 60);
    let more = FIRST.replace("count = 40", "count = 61");
    let found = codes(&format!("{RING}{more}"));
    assert_eq!(found, [(Code::TooFewPlaces, "61 sources, but only 60 places".to_owned())]);
    let found = codes(&format!("{RING}{all}{SECOND}"));
    assert!(found[0].1.contains("other sessions leave 40 of 60 places"), "{found:?}");
}

#[test]
fn resolved_lab_gives_the_same_plan() {
    let text = format!(
        "{RING}{FIRST}{SECOND}
        [control]
        protocol = \"bfyz\"
        share = \"2 %\"
        packet = \"80 B\"
        pause = \"0 %\"
        loss = \"1 %\"
        [[link]]
        ends = [\"r1\", \"r3\"]
        queue = {{ kind = \"drophead\", limit = \"unlimited\" }}
        [[flow]]
        from = \"r1\"
        to = \"r4\"
        transport = \"udp\"
        control = \"bfyz\"
        rate = \"7 Mbit/s\"
        size = \"1 MB\"
        packet = \"1000 B\"
        [[sessions]]
        name = \"listed\"
        each = [
            {{ from = \"r1\", to = \"r2\" }},
            {{ from = \"r3\", to = \"r2\", start = \"1 s\", leave = \"1.5 s\", size = \"1 MB\",
               demand = \"3 Mbit/s\" }},
        ]"
    );
    let plan = read(&text);
    let control = plan.control.as_ref().unwrap();
    assert_eq!((control.protocol, control.settings.packet), (Protocol::Bfyz, Bytes::new(80)));
    assert_eq!(control.loss, Ratio::from_parts_per_billion(10_000_000));
    assert!(matches!(plan.flows[0].traffic, Traffic::Controlled { demand: Some(_), .. }));
    assert_eq!(plan.sessions[2].sessions[1].leave, Some(Time::ZERO + Span::from_millis(1500)));
    let mut again = read(&resolved(&plan));
    for (node, original) in again.nodes.iter_mut().zip(&plan.nodes) {
        node.declared = original.declared;
    }
    assert_eq!(again, plan);
}

#[test]
fn flows_name_the_protocol_and_access_routers_change_plain_ones() {
    let flow = "[[flow]]\nfrom = \"r1\"\nto = \"r3\"\n";
    let udp = format!("{RING}{flow}transport = \"udp\"\ncontrol = \"rcp\"\n");
    let plan = read(&udp);
    assert_eq!(plan.control.as_ref().unwrap().protocol, Protocol::Rcp);
    assert!(plan.is_rate_controlled());
    let traffic = Traffic::Controlled { demand: None, packet: Bytes::new(1472), size: None };
    assert_eq!(plan.flows[0].traffic, traffic);
    // Both take the same bytes on the wire, which labs with sessions require.
    for (overhead, frame) in [("", 1538), ("overhead = \"none\"\n[[generate]]", 1500)] {
        let ring =
            if overhead.is_empty() { RING.into() } else { RING.replace("[[generate]]", overhead) };
        let plan =
            read(&format!("{ring}[[sessions]]\nname = \"all\"\ncount = 5\nrouters = \"r*\"\n"));
        assert_eq!(plan.sessions[0].packet, Bytes::new(frame));
        assert_eq!(plan.overhead + Bytes::new(28 + 1472), Bytes::new(frame));
    }
    let access = read(&format!("{RING}{flow}[control]\naccess = [\"r1\", \"r?\"]\n"));
    assert_eq!(access.control.as_ref().unwrap().access.len(), 5);
    assert!(access.is_rate_controlled());
    assert!(!read(&format!("{RING}{flow}control = \"cubic\"\n")).is_rate_controlled());
}

#[test]
fn impossible_session_generators_are_rejected() {
    let with = |from: &str, to: &str| codes(&format!("{RING}{}", FIRST.replace(from, to)));
    let first = |found: Vec<(Code, String)>| found.first().cloned().unwrap().0;
    assert_eq!(first(with("routers = \"r*\"", "routers = \"x*\"")), Code::UnknownName);
    assert_eq!(first(with("leave_count = 15", "leave_count = 41")), Code::OutOfRange);
    assert_eq!(first(with("\"500 ms\", \"700 ms\"", "\"400 ms\", \"700 ms\"")), Code::Schedule);
    assert_eq!(first(with("\"700 ms\"", "\"3 s\"")), Code::Schedule);
    assert_eq!(first(with("\"100 ms\", \"500 ms\"", "\"500 ms\", \"100 ms\"")), Code::OutOfRange);
    assert_eq!(first(with("\"1 Mbit/s\"", "\"0 Mbit/s\"")), Code::OutOfRange);
    assert_eq!(first(with("\"1 Mbit/s\"", "\"20 Mbit/s\"")), Code::OutOfRange);
    assert_eq!(first(with("count = 40", "count = 9000000")), Code::Limit);
    let wide = RING.replace("routers = 5", "routers = 11");
    let vast = format!("{wide}{}", FIRST.replace("hosts = 12", "hosts = 1000000"));
    assert_eq!(first(codes(&vast)), Code::Limit);
    let all = FIRST.replace("count = 40", "count = 60");
    assert_eq!(first(codes(&format!("[node.r1-p1]\n{RING}{all}"))), Code::Duplicate);
    let alone = "count = 1\nrouters = \"r1\"\nhosts = 1\n";
    let found = codes(&format!("{RING}[[sessions]]\nname = \"x\"\n{alone}"));
    assert_eq!(first(found), Code::TooFewPlaces);
    let thin = SECOND.replace("50 Mbit/s", "40 Mbit/s");
    assert_eq!(first(codes(&format!("{RING}{FIRST}{thin}"))), Code::Conflict);
    assert_eq!(first(codes(&format!("{RING}{FIRST}{FIRST}"))), Code::Duplicate);
    let apart = "[node.r9]\nkind = \"router\"\n[node.h]\n[[link]]\nends = [\"h\", \"r9\"]\n";
    assert_eq!(first(codes(&format!("{RING}{apart}{FIRST}"))), Code::Unreachable);
}

/// Routers of a Topology Zoo file, with hosts at every router.
#[test]
fn imported_routers_have_places() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let text = "
        [[import]]
        file = \"files/backbone.gml\"
        link = { rate = \"1 Gbit/s\", queue = \"unlimited\" }
        [[sessions]]
        name = \"all\"
        count = 11
        routers = \"*\"
        hosts = 1
    ";
    let plan =
        parse_with("lab.toml", text, &folder, &Overrides::default()).unwrap().plans.remove(0);
    let routers = plan.nodes.iter().filter(|node| node.kind == Role::Router).count();
    assert_eq!((routers, plan.nodes.len()), (11, 22));
    assert!(plan.node("kansas-city-p1").is_some());
    let pair = |s: &Session| Pair { from: s.from, to: s.to, hash: 0 };
    let pairs: Vec<Pair> = plan.sessions[0].sessions.iter().map(pair).collect();
    let paths = Paths::compute(&plan, &vec![true; plan.links.len()], &pairs);
    assert!(paths.iter().all(|path| path.len() >= 3), "two hosts' links and the backbone's");
}

#[test]
fn max_items_bounds_sessions_nodes_places_and_generators() {
    let limits = |text: &str, max_items| {
        let overrides = Overrides { max_items: Some(max_items), ..Overrides::default() };
        match parse_with("lab.toml", text, Path::new("."), &overrides) {
            Ok(lab) => Ok(lab.plans[0].nodes.len()),
            Err(errors) => {
                assert!(errors.list().iter().all(|error| error.code == Code::Limit), "{errors:?}");
                Err(errors.list().iter().map(|error| error.message.clone()).collect::<Vec<_>>())
            }
        }
    };
    let text = format!("{RING}{FIRST}");
    assert!(limits(&text, 1_000).is_ok());
    assert_eq!(limits(&text, 39), Err(vec!["40 sessions".to_owned()]));
    assert_eq!(limits(&text, 59), Err(vec!["these are 60 places for hosts".to_owned()]));
    let large = RING.replace("routers = 5", "routers = 1001");
    assert_eq!(
        limits(&large, 1_000),
        Err(vec!["`routers` is above the maximum of 1000".to_owned()])
    );
    // A ring has 5 routers; the file names the hosts.
    let hosts = format!("{RING}\n[node.a]\n[node.b]\n");
    assert_eq!(limits(&hosts, 5), Err(vec!["more than 5 nodes".to_owned()]));
}
