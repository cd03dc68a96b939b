//! Multipath flows: selected paths, and errors.

use std::path::Path;

use base::{Bandwidth, Bytes};
use lab::plan::{Multipath, MultipathKind, Pause, Plan, Traffic};
use lab::{Code, parse, resolved};
use mctcp::scheduler::SchedulerKind;

/// Two hosts with two links between them, and a third host that both reach through a router.
const TWO: &str = r#"
node = { client = {}, server = {}, far = {}, r = { kind = "router" } }
[[link]]
name = "left"
ends = ["client", "server"]
[[link]]
name = "right"
ends = ["server", "client"]
[[link]]
name = "up"
ends = ["client", "r"]
[[link]]
name = "over"
ends = ["r", "far"]
"#;

fn read(network: &str, keys: &str) -> Result<Plan, Vec<(Code, String)>> {
    let text = format!("{network}\n[[flow]]\n{keys}\n");
    match parse("test.toml", &text, Path::new(".")) {
        Ok(mut lab) => Ok(lab.plans.remove(0)),
        Err(errors) => {
            Err(errors.list().iter().map(|error| (error.code, error.message.clone())).collect())
        }
    }
}

fn flow(keys: &str) -> String {
    format!("from = \"client\"\nto = \"server\"\ntransport = \"mctcp\"\n{keys}")
}

fn multipath(plan: &Plan) -> &Multipath {
    plan.flows[0].multipath().expect("the flow has several paths")
}

/// The links of the paths at the sender and at the receiver; `*` marks backup paths.
fn paths(plan: &Plan) -> Vec<String> {
    let name = |iface: base::IfaceId| {
        let link = plan.ifaces[iface.index()].link;
        plan.links[link.index()].name.clone()
    };
    let paths = multipath(plan).paths.iter();
    paths
        .map(|path| {
            let mark = if path.backup { "*" } else { "" };
            format!("{}{mark}-{}", name(path.from), name(path.to))
        })
        .collect()
}

#[test]
fn all_links_that_lead_there_are_paths() {
    let plan = read(TWO, &flow("")).unwrap();
    assert_eq!(paths(&plan), ["left-left", "right-right"]);
    let found = multipath(&plan);
    assert_eq!((found.kind, found.subflows), (MultipathKind::Mctcp, 2));
    assert_eq!(found.scheduler, SchedulerKind::Earliest);
    let keys = "via = [\"right\", \"left\"]\nbackup = \"left\"\nsubflows = 4\nscheduler = \"ecf\"";
    let plan = read(TWO, &flow(keys)).unwrap();
    assert_eq!(paths(&plan), ["right-right", "left*-left"]);
    assert_eq!(multipath(&plan).subflows, 4);
    assert_eq!(multipath(&plan).scheduler, SchedulerKind::Ecf);
}

/// Two links of the sender and three of the receiver at one router, and a receiver with one link.
#[test]
fn a_path_ends_at_the_nearest_interface_that_is_free() {
    let network = r#"
        node = { client = {}, server = {}, one = {}, r = { kind = "router" } }
        link = [
            { name = "a", ends = ["client", "r"] },
            { name = "b", ends = ["client", "r"] },
            { name = "far", ends = ["r", "server"], delay = "9 ms" },
            { name = "near", ends = ["server", "r"], delay = "1 ms" },
            { name = "middle", ends = ["r", "server"], delay = "2 ms" },
            { name = "only", ends = ["r", "one"] },
        ]
    "#;
    assert_eq!(paths(&read(network, &flow("")).unwrap()), ["a-near", "b-middle"]);
    let shared = flow("").replace("server", "one");
    assert_eq!(paths(&read(network, &shared).unwrap()), ["a-only", "b-only"]);
}

#[test]
fn invalid_paths_are_rejected() {
    let refused = |keys: &str, code: Code, says: &str| {
        let errors = read(TWO, keys).expect_err(keys);
        let found = errors.iter().any(|(c, message)| *c == code && message.contains(says));
        assert!(found, "{keys}: {errors:?}");
    };
    refused(&flow("via = [\"left\", \"up\"]"), Code::Unreachable, "`up` has no path to `server`");
    refused(&flow("via = \"over\""), Code::Conflict, "`over` is not a link of `client`");
    refused(&flow("via = \"lfet\""), Code::UnknownName, "`lfet`");
    refused(&flow("via = [\"left\", \"left\"]"), Code::Duplicate, "`left` is named twice");
    refused(&flow("via = \"left\"\nbackup = \"right\""), Code::Conflict, "not one of the flow's");
    refused(&flow("backup = [\"left\", \"right\"]"), Code::Conflict, "all paths are in `backup`");
    refused(&flow("subflows = 9"), Code::OutOfRange, "");
    refused(&flow("streams = 2"), Code::Conflict, "`streams` has no effect on MCTCP");
    refused(&flow("packet = \"100 B\""), Code::Conflict, "`packet` has no effect");
    refused(&flow("scheduler = \"best\""), Code::UnknownWord, "");
    let arrivals = "request = \"1 kB\"\narrivals = { every = \"1 s\" }";
    refused(&flow(arrivals), Code::Conflict, "requests with `arrivals` do not go over MCTCP");
    let kernel = |keys: &str| flow(keys).replace("mctcp", "mptcp");
    refused(&kernel("subflows = 3"), Code::OutOfRange, "2 paths cannot have 3 subflows");
    refused(&kernel("scheduler = \"ecf\""), Code::Conflict, "one scheduler");
    let plain = |transport: &str, keys: &str| flow(keys).replace("mctcp", transport);
    refused(&plain("tcp", "via = \"left\""), Code::Conflict, "`via` is for flows over several");
    refused(&plain("udp", "rate = \"1 Mbit/s\"\nsubflows = 2"), Code::Conflict, "`subflows`");
    let router = "from = \"r\"\nto = \"far\"\ntransport = \"mctcp\"";
    refused(router, Code::Restricted, "`r` is not a host");
}

#[test]
fn paths_are_written_back() {
    for keys in [
        flow("via = [\"right\", \"left\"]\nbackup = \"left\"\nsubflows = 5\nwindow = \"262144 B\""),
        flow("rate = \"10 Mbit/s\"\nsize = \"1 MB\"").replace("mctcp", "mptcp"),
        flow("size = \"1 MB\"\npause = [\"0 s\", \"1500 ms\"]"),
        flow("size = \"10 kB\"\ncount = 3\nscheduler = \"redundant\""),
        flow("request = \"10 kB\"\ncount = 3"),
    ] {
        let plan = read(TWO, &keys).unwrap();
        let text = resolved(&plan);
        let again = parse("test.toml", &text, Path::new(".")).unwrap_or_else(|e| panic!("{e:?}"));
        let (mut old, mut new) = (plan.flows, again.plans[0].flows.clone());
        for flow in old.iter_mut().chain(&mut new) {
            flow.start = base::Time::ZERO;
        }
        assert_eq!(old, new, "{text}");
    }
}

#[test]
fn bulk_flows_over_tcp_may_be_offered_at_a_rate() {
    let plan = read(TWO, "from = \"client\"\nto = \"server\"\nrate = \"3 Mbit/s\"").unwrap();
    let Traffic::Bulk { rate, tcp, .. } = &plan.flows[0].traffic else { panic!() };
    assert_eq!((*rate, tcp.window), (Some(Bandwidth::from_mbits_per_sec(3)), None::<Bytes>));
    let errors = read(TWO, "from = \"client\"\nto = \"server\"\nrate = \"3 Mbit/s\"\ncount = 1");
    assert_eq!(errors.unwrap_err()[0].0, Code::Conflict);
}

#[test]
fn receivers_of_bulk_flows_may_pause() {
    let keys = |keys: &str| read(TWO, &format!("from = \"client\"\nto = \"server\"\n{keys}"));
    let plan = keys("pause = [\"10 s\", \"40 s\"]").unwrap();
    let Traffic::Bulk { pause, .. } = &plan.flows[0].traffic else { panic!() };
    let (from, until) = (base::Span::from_secs(10), base::Span::from_secs(40));
    assert_eq!(*pause, Some(Pause { from, until }));
    let code = |text: &str| keys(text).unwrap_err()[0].0;
    assert_eq!(code("pause = [\"40 s\", \"10 s\"]"), Code::OutOfRange);
    assert_eq!(code("pause = [\"10 s\", \"10 s\"]"), Code::OutOfRange);
    assert_eq!(code("pause = [\"10 s\"]"), Code::WrongType);
    assert_eq!(code("pause = [\"1 s\", \"2 s\"]\nsize = \"1 kB\"\ncount = 3"), Code::Conflict);
    assert_eq!(code("pause = [\"1 s\", \"2 s\"]\nrequest = \"1 kB\""), Code::Conflict);
    let udp = "transport = \"udp\"\nrate = \"1 Mbit/s\"\npause = [\"1 s\", \"2 s\"]";
    assert_eq!(code(udp), Code::Conflict);
}

#[test]
fn expectations_know_subflows_and_paths() {
    let expect = |that: &str| {
        let keys = format!("{}\n[[expect]]\nthat = \"{that}\"", flow("name = \"f\""));
        read(TWO, &keys).map(|plan| plan.expectations.len())
    };
    for that in [
        "flow.f.gap.max <= 500 ms",
        "flow.f.gap <= 500 ms between 1 s and 2 s",
        "flow.f.reinjected < 1 MB",
        "flow.f.reorder.max < 1 MB",
        "flow.f.subflow.0.goodput.mean > 1 Mbit/s between 1 s and 2 s",
        "flow.f.path.left.goodput.mean > 1 Mbit/s",
        "flow.f.path.right.rtt.p99 < 1 s",
    ] {
        assert_eq!(expect(that), Ok(1), "{that}");
    }
    let code = |that: &str| expect(that).unwrap_err()[0].0;
    assert_eq!(code("flow.f.subflow.left.goodput > 1 Mbit/s"), Code::BadExpectation);
    assert_eq!(code("flow.f.path.0.goodput > 1 Mbit/s"), Code::UnknownName);
    assert_eq!(code("flow.f.path.left.gap > 1 s"), Code::UnknownMetric);
    assert_eq!(code("flow.f.gap.mean > 1 s"), Code::UnknownMetric);
}
