//! Valid lab files and their plans.

use std::path::Path;

use base::{Bandwidth, Bytes, LinkId, Span, Time};
use fabric::{
    Collapsed, Discipline, JitterShape, Loss, NodeKind, QueueLimit, Rate, Sharing, Window,
};
use lab::plan::{Action, Command, Metric, MirrorTarget, Model, Plan, Ready, Routing, Traffic};
use lab::{Overrides, TEMPLATES, parse_with, resolved, template};

fn trusting() -> Overrides {
    Overrides { trust_programs: true, ..Overrides::default() }
}

fn read_with(text: &str, overrides: &Overrides) -> Vec<Plan> {
    match parse_with("test.toml", text, Path::new("."), overrides) {
        Ok(lab) => lab.plans,
        Err(errors) => panic!("{:#?}", errors.list()),
    }
}

fn read(text: &str) -> Plan {
    read_with(text, &trusting()).remove(0)
}

/// Removes the fields that a resolved lab does not contain: positions and swept paths.
fn stripped(mut plan: Plan) -> Plan {
    plan.nodes.iter_mut().for_each(|node| node.declared = (0, 0));
    plan.sweep.clear();
    plan
}

fn round_trip(plan: &Plan) {
    let text = resolved(plan);
    let again = match parse_with("resolved.toml", &text, Path::new("."), &trusting()) {
        Ok(mut lab) => lab.plans.remove(0),
        Err(errors) => panic!("{text}\n{:#?}", errors.list()),
    };
    assert_eq!(stripped(again), stripped(plan.clone()), "{text}");
}

const EVERYTHING: &str = r#"
[lab]
name = "everything"
duration = "30 s"
seed = 7
routing = "metric"
overhead = "18 B"
precision = "high"
realtime = true
tick = "100 us"
tolerance = { floor = "2 ms", delay = "10 %" }
interval = "50 ms"
uplink = true
capture = ["alice", "r1.eth1"]

[node.alice]
address = ["10.9.0.1/24", "fd00:9::1/64"]
[node.bob]
[node.carol]
[node.r1]
kind = "router"
[node.r2]
kind = "router"
[node.s]
kind = "switch"

[[link]]
ends = ["alice", "r1"]
rate = "100 Mbit/s"
delay = "1 ms"
jitter = { distribution = "pareto", mean = "1 ms", shape = 2.5, correlation = "25 %" }
[[link]]
name = "core"
ends = ["r1", "r2"]
rate = "10 Mbit/s"
delay = "25 ms"
jitter = "1 ms"
loss = { model = "gilbert-elliott", p = "1 %", r = "50 %", loss_bad = "90 %" }
reorder = { probability = "1 %", by = "3 ms" }
duplicate = "0.1 %"
corrupt = "1 ppm"
mtu = "1400 B"
queue = { kind = "red", limit = "2 bdp", ecn = true }
metric = 3
addresses = { r1 = "192.168.1.1/30" }
down = { rate = "2 Mbit/s", queue = "codel", loss = "0.5 %" }
[[link]]
ends = ["r2", "s"]
trace = { opportunities = ["0 ms", "1 ms", "1 ms"], period = "2 ms" }
[[link]]
ends = ["s", "bob"]
queue = "fq-codel"
jitter = { distribution = "table", table = ["0 ms", "1 ms", "4 ms"] }
[[link]]
ends = ["s", "carol"]
state = "down"
queue = { kind = "drr", quanta = ["1500 B", "3000 B"], limit = "64 KiB" }
loss = "0.1 %"

[[program]]
node = "bob"
name = "server"
run = "iperf3 -s -1"
ready = "port 5201"
env = { A = "b \"c\"" }
exit = [0, 1]
[[program]]
node = "alice"
run = ["iperf3", "-c", "bob"]
after = ["server"]
start = "1 s"
restart = "on-failure"
exit = "any"
dir = "x"

[[flow]]
from = "alice"
to = "bob"
control = "cubic"
size = "50 MB"
streams = 2
[[flow]]
from = "alice"
to = "bob"
transport = "udp"
rate = "1 Mbit/s"
family = "ipv6"
dscp = 46
[[flow]]
name = "calls"
from = ["alice", "carol"]
to = "bob"
request = "100 B"
count = 5

[[at]]
time = "10 s"
link = ["r2", "r1"]
set = { delay = "100 ms", down = { loss = "0 %" } }
[[at]]
time = "5 s"
link = "core"
down = true
[[at]]
time = "6 s"
link = "core"
up = true
[[at]]
time = "12 s"
program = "server"
kill = true
[[at]]
time = "13 s"
flow = "calls"
stop = true
[[at]]
time = "14 s"
node = "r2"
down = true

[[mirror]]
link = "core"
direction = "up"
filter = "tcp port 179 and host bob"
to = "carol"
[[mirror]]
link = "core"

[[expect]]
that = "flow.alice-bob.2.loss <= 1 % between \"5 s\" and \"10 s\""
"#;

#[test]
fn everything_is_read() {
    let plan = read(EVERYTHING);
    assert_eq!((plan.name.as_str(), plan.seed), ("everything", 7));
    assert_eq!(plan.routing, Routing::Shortest(Metric::Metric));
    assert_eq!(plan.overhead, Bytes::new(18));
    assert_eq!(plan.captures.len(), 2);
    let core = &plan.links[1];
    assert_eq!((core.name.as_str(), core.metric), ("core", 3));
    let [up, down] = &core.directions;
    assert_eq!(up.rate, Rate::Constant(Bandwidth::from_mbits_per_sec(10)));
    assert_eq!(down.rate, Rate::Constant(Bandwidth::from_mbits_per_sec(2)));
    assert!(matches!(up.loss, Loss::GilbertElliott { .. }));
    assert!(matches!(down.loss, Loss::Bernoulli(_)));
    assert!(matches!(down.queue.discipline, Discipline::CoDel { .. }));
    // 10 Mbit/s × 2 × 25 ms = 62.5 kB, twice.
    assert_eq!(up.queue.limit, QueueLimit::Bytes(Bytes::new(125_000)));
    assert!(up.queue.ecn && up.mtu == Bytes::new(1400));
    assert!(!plan.links[4].up);
    assert!(matches!(
        &plan.links[0].directions[1].jitter.as_ref().unwrap().shape,
        JitterShape::Pareto { shape_milli: 2500, .. }
    ));
    let server = &plan.programs[0];
    assert_eq!(server.ready, Some(Ready::Port(5201)));
    assert!(server.service && server.exit == Some(vec![0, 1]));
    assert_eq!(plan.programs[1].name, "alice.iperf3");
    assert!(matches!(&plan.programs[1].command, Command::Exec(words) if words.len() == 3));
    assert!(!plan.programs[1].service && plan.programs[1].after == [base::ProgramId(0)]);
    let names: Vec<&str> = plan.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["alice-bob", "alice-bob.2", "calls.alice-bob", "calls.carol-bob"]);
    // The minimum MTU of the lab minus IPv6 and UDP headers.
    let Traffic::Paced { packet, .. } = plan.flows[1].traffic else { panic!() };
    assert_eq!(packet, Bytes::new(1400 - 48));
    assert!(matches!(plan.mirrors[0].to, MirrorTarget::Node(_)));
    assert_eq!(plan.mirrors[1].name, "core.mirror.2");
}

#[test]
fn events_are_in_time_order_and_changes_add_up() {
    let plan = read(EVERYTHING);
    let texts: Vec<&str> = plan.events.iter().map(|event| event.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "link core goes down",
            "link core comes up",
            "link core up: delay 100 ms",
            "link core down: delay 100 ms, loss 0 %",
            "program server is killed",
            "flow calls.alice-bob stops",
            "flow calls.carol-bob stops",
            "node r2 goes down",
        ]
    );
    assert_eq!(plan.events[0].at, Time::ZERO + Span::from_secs(5));
    let Action::Set { link, config, .. } = &plan.events[2].action else { panic!() };
    assert_eq!((*link, config.delay), (LinkId(1), Span::from_millis(100)));
    // Unset properties stay unchanged, including the limit of the queue.
    assert_eq!(config.queue, plan.links[1].directions[0].queue);
}

#[test]
fn segments_get_subnets_around_fixed_addresses() {
    let plan = read(EVERYTHING);
    let v4: Vec<String> = plan
        .ifaces
        .iter()
        .map(|iface| iface.v4.map_or("-".to_owned(), |(a, p)| format!("{a}/{p}")))
        .collect();
    assert_eq!(
        v4,
        [
            "10.9.0.1/24",
            "10.9.0.2/24",
            "192.168.1.1/30",
            "192.168.1.2/30",
            // A single segment around the switch: r2, bob, carol.
            "10.0.0.1/29",
            "-",
            "-",
            "10.0.0.2/29",
            "-",
            "10.0.0.3/29",
        ]
    );
    let v6 = |iface: usize| plan.ifaces[iface].v6.unwrap().0.to_string();
    assert_eq!((v6(0), v6(1)), ("fd00:9::1".to_owned(), "fd00:9::2".to_owned()));
    assert_eq!((v6(2), v6(9)), ("fd6e:6574:0:1::1".to_owned(), "fd6e:6574:0:2::3".to_owned()));
}

#[test]
fn routers_with_work_have_namespaces() {
    let text = r#"
        [node]
        a = {}
        r1 = { kind = "router" }
        r2 = { kind = "router" }
        b = {}
        [[link]]
        ends = ["a", "r1"]
        [[link]]
        ends = ["r1", "r2"]
        [[link]]
        ends = ["r2", "b"]
        [[program]]
        node = "r1"
        run = "true"
    "#;
    let kinds = |plan: &Plan| plan.nodes.iter().map(|node| node.fabric).collect::<Vec<_>>();
    let (edge, router) = (NodeKind::Edge, NodeKind::Router);
    assert_eq!(kinds(&read(text)), [edge, edge, router, edge]);
    let none = Overrides { set: vec![("lab.routing".into(), "none".into())], ..trusting() };
    assert_eq!(kinds(&read_with(text, &none)[0]), [edge; 4]);
}

#[test]
fn defaults_are_those_of_the_book() {
    let plan = read("[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"b\"]\nrate = \"1 Gbit/s\"");
    assert_eq!((plan.name.as_str(), plan.seed), ("test", 1));
    assert_eq!(plan.duration, Span::from_secs(60));
    assert_eq!(plan.overhead, Bytes::new(38));
    let link = &plan.links[0];
    assert_eq!((link.name.as_str(), link.up), ("a-b", true));
    assert_eq!(link.directions[0].mtu, Bytes::new(1500));
    assert_eq!(link.directions[0].queue.limit, QueueLimit::Packets(100));
    assert_eq!(plan.ifaces[0].name, "eth0");
    let far = read(
        "[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"b\"]\nrate = \"1 Gbit/s\"\ndelay = \"5 ms\"",
    );
    let limit = far.links[0].directions[0].queue.limit;
    assert_eq!(limit, QueueLimit::Bytes(Bytes::new(1_250_000)));
}

#[test]
fn the_collapsed_model_has_settings() {
    let text = "[lab]\nmodel = \"collapsed\"\n[[generate]]\nkind = \"star\"\nhosts = 2";
    assert_eq!(read(text).model, Model::Collapsed(Collapsed::default()));
    let set = |pairs: &[(&str, &str)]| {
        let set = pairs.iter().map(|(key, value)| (format!("lab.{key}"), (*value).to_owned()));
        let plans = read_with(text, &Overrides { set: set.collect(), ..trusting() });
        plans.iter().for_each(round_trip);
        plans.into_iter().map(|plan| plan.model).collect::<Vec<_>>()
    };
    let sizes = "{ sweep = [\"off\", \"64 KiB\"] }";
    let swept = set(&[("sharing", "{ sweep = [\"max-min\", \"none\"] }"), ("window", sizes)]);
    let law = |sharing, window| Model::Collapsed(Collapsed { sharing, window, acks: false });
    let size = Window::Fixed(Bytes::new(65_536));
    assert_eq!(
        swept,
        [
            law(Sharing::MaxMin, Window::Off),
            law(Sharing::MaxMin, size),
            law(Sharing::None, Window::Off),
            law(Sharing::None, size),
        ]
    );
    let acks = Collapsed { acks: true, window: Window::Auto, sharing: Sharing::RttMaxMin };
    assert_eq!(
        set(&[("acks", "true"), ("window", "auto"), ("sharing", "rtt-max-min")]),
        [Model::Collapsed(acks)]
    );
}

#[test]
fn sweeps_make_a_plan_for_each_combination() {
    let plans = read_with(template("sweep").unwrap(), &trusting());
    assert_eq!(plans.len(), 9);
    let chosen = |plan: &Plan| plan.sweep.iter().map(|(_, v)| v.clone()).collect::<Vec<_>>();
    assert_eq!(plans[0].sweep[0].0, "link.slow.delay");
    assert_eq!(chosen(&plans[0]), ["1 ms", "0.25 bdp"]);
    assert_eq!(chosen(&plans[1]), ["1 ms", "1 bdp"]);
    assert_eq!(chosen(&plans[8]), ["100 ms", "codel"]);
    assert_eq!(plans[4].links[1].directions[0].delay, Span::from_millis(10));
}

#[test]
fn swept_tables_are_told_so_that_the_command_line_takes_them_back() {
    let sweep = "{ sweep = [{ kind = \"codel\", target = \"2 ms\" }, \"sfq\"] }";
    let set = |value: &str| Overrides {
        set: vec![
            ("link.slow.queue".into(), value.into()),
            ("link.slow.delay".into(), "1 ms".into()),
        ],
        ..trusting()
    };
    let plans = read_with(template("sweep").unwrap(), &set(sweep));
    let (path, value) = &plans[0].sweep[0];
    assert_eq!(
        (path.as_str(), value.as_str()),
        ("link.slow.queue", "{ kind = \"codel\", target = \"2 ms\" }")
    );
    let again = read_with(template("sweep").unwrap(), &set(value));
    assert_eq!(again[0].links, plans[0].links);
}

#[test]
fn the_command_line_goes_before_the_file() {
    let overrides = Overrides {
        seed: Some(9),
        duration: Some(Span::from_secs(3)),
        name: Some("mine".into()),
        set: vec![
            ("link.slow.delay".into(), "7 ms".into()),
            ("link.slow.queue".into(), "{ sweep = [\"codel\", \"sfq\"] }".into()),
            ("flow.a-b.streams".into(), "3".into()),
            ("node.r.kind".into(), "switch".into()),
        ],
        ..trusting()
    };
    let plans = read_with(template("sweep").unwrap(), &overrides);
    assert_eq!(plans.len(), 2);
    assert_eq!((plans[0].seed, plans[0].name.as_str()), (9, "mine"));
    assert_eq!(plans[1].links[1].directions[1].delay, Span::from_millis(7));
    assert!(matches!(plans[1].links[1].directions[0].queue.discipline, Discipline::Sfq { .. }));
    assert!(matches!(plans[0].flows[0].traffic, Traffic::Bulk { streams: 3, .. }));
}

#[test]
fn templates_are_right_and_resolved_labs_are_the_same_labs() {
    for (name, _) in TEMPLATES {
        let plans = read_with(template(name).unwrap(), &trusting());
        assert_eq!(plans[0].name, *name);
        for plan in &plans {
            round_trip(plan);
        }
    }
    round_trip(&read(EVERYTHING));
    assert_eq!(template("nonsense"), None);
}

#[test]
fn generated_networks_take_the_properties_of_their_links() {
    let plan = read(
        r#"
        [[generate]]
        kind = "transit-stub"
        hosts = 1
        prefix = "x"
        link = { queue = "codel", rate = "1 Mbit/s" }
        access = { delay = "5 ms", up = { loss = "1 %" } }
        [[generate]]
        kind = "dumbbell"
        left = 2
        right = 2
        link = { rate = "10 Mbit/s" }
        core = { rate = "1 Mbit/s", delay = "10 ms" }
        [[flow]]
        from = "l*"
        to = "r?"
        "#,
    );
    let core = plan.link("core").unwrap();
    let config = &plan.links[core.index()].directions[0];
    assert_eq!(config.rate, Rate::Constant(Bandwidth::from_mbits_per_sec(1)));
    assert_eq!(config.delay, Span::from_millis(10));
    let stub = &plan.links[0].directions[0];
    assert!(matches!(stub.queue.discipline, Discipline::CoDel { .. }));
    assert_ne!(stub.rate, Rate::Constant(Bandwidth::from_mbits_per_sec(1)));
    let host = plan.nodes.iter().find(|node| node.name.starts_with("xh")).unwrap();
    let access = &plan.links[plan.ifaces[host.ifaces[0].index()].link.index()];
    assert_eq!(access.directions[0].delay, Span::from_millis(5));
    assert_ne!(access.directions[0].loss, access.directions[1].loss);
    let names: Vec<&str> = plan.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["l1-r1", "l2-r2"]);
    round_trip(&plan);
}

#[test]
fn without_routing_by_daemons_a_thousand_hosts_are_read_quickly_enough_to_test() {
    let plan = read(
        "[[generate]]\nkind = \"star\"\nhosts = 1000\nlink = { rate = \"1 Gbit/s\" }\n\
         [[program]]\nnode = \"h*\"\nrun = \"ping hub\"",
    );
    assert_eq!((plan.nodes.len(), plan.programs.len()), (1001, 1000));
    // A single segment: 1,000 interfaces and two reserved addresses fit into a /22.
    assert_eq!(plan.ifaces[0].v4.unwrap().1, 22);
}

#[test]
fn pattern_of_a_program_matches_hosts_only_and_is_counted() {
    let text = "[node.h1]\n[node.h2]\n[node.hub]\nkind = \"router\"\n\
        [[link]]\nends = [\"h1\", \"hub\"]\n[[link]]\nends = [\"h2\", \"hub\"]\n\
        [[program]]\nnode = \"h*\"\nrun = [\"true\"]\n";
    let lab = parse_with("test.toml", text, Path::new("."), &trusting()).unwrap();
    let plan = &lab.plans[0];
    let nodes: Vec<&str> = plan
        .programs
        .iter()
        .map(|program| plan.nodes[program.node.index()].name.as_str())
        .collect();
    assert_eq!(nodes, ["h1", "h2"]);
    let [found] = &lab.patterns[..] else { panic!("{:?}", lab.patterns) };
    assert_eq!((found.pattern.as_str(), found.hosts, found.position), ("h*", 2, (10, 8)));
    let named = text.replace("h*", "hub");
    let lab = parse_with("test.toml", &named, Path::new("."), &trusting()).unwrap();
    assert_eq!(lab.plans[0].programs.len(), 1, "a router that is named runs programs");
}

/// CPU time of this thread in seconds (proc(5), `schedstat`), independent of other load.
fn cpu_seconds() -> f64 {
    // The kernel brings the account up to date when the thread gives up its CPU.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|first| first.parse::<f64>().ok());
    nanos.expect("the first number of schedstat is the CPU time in ns") / 1e9
}

/// Seconds for the check of a lab with `count` entries of each kind, the minimum of three attempts.
fn seconds_to_check(count: usize, entry: impl Fn(usize) -> String) -> f64 {
    let mut text = "[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"b\"]\n".to_owned();
    (0..count).for_each(|number| text += &entry(number));
    let check = || {
        let begin = cpu_seconds();
        assert!(parse_with("test.toml", &text, Path::new("."), &trusting()).is_ok());
        cpu_seconds() - begin
    };
    [check(), check(), check()].into_iter().fold(f64::MAX, f64::min)
}

#[test]
fn time_to_check_grows_in_proportion_to_links_programs_and_flows() {
    let link = |_| "[[link]]\nends = [\"a\", \"b\"]\n".to_owned();
    let program = |number: usize| {
        // Each program waits for the next one, the worst order for the detection of cycles.
        let after = format!("after = [\"p{}\"]\n", number + 1);
        let last = if number % 500 == 499 { String::new() } else { after };
        format!("[[program]]\nnode = \"a\"\nrun = [\"true\"]\nname = \"p{number}\"\n{last}")
    };
    let flow = |_| "[[flow]]\nfrom = \"a\"\nto = \"b\"\n".to_owned();
    let entries: [(&str, &dyn Fn(usize) -> String); 3] =
        [("links", &link), ("programs", &program), ("flows", &flow)];
    for (what, entry) in entries {
        let [few, many] = [1_000, 8_000].map(|count| seconds_to_check(count, entry));
        assert!(many < few * 8.0 * 3.0, "{what}: {few:.3} s for 1,000, {many:.3} s for 8,000");
    }
}

#[test]
fn an_event_lifts_a_limit_of_the_rate() {
    let text = "[lab]\nname = \"lift\"\nduration = \"9 s\"\n[node.a]\n[node.b]\n[[link]]\n\
                name = \"l\"\nends = [\"a\", \"b\"]\nrate = \"10 Mbit/s\"\n[[at]]\ntime = \"3 s\"\n\
                link = \"l\"\nset = { rate = \"unlimited\" }\n";
    let plan = |text: &str| lab::parse("lab.toml", text, Path::new("")).unwrap().plans.remove(0);
    let first = plan(text);
    let rates = |plan: &Plan| -> Vec<Rate> {
        let rate = |event: &lab::plan::Event| match &event.action {
            Action::Set { config, .. } => config.rate.clone(),
            other => panic!("{other:?}"),
        };
        plan.events.iter().map(rate).collect()
    };
    assert_eq!(rates(&first), [Rate::Unlimited, Rate::Unlimited]);
    assert_eq!(first.events[0].text, "link l up: rate unlimited");
    assert_eq!(rates(&plan(&resolved(&first))), rates(&first));
}
