//! Random sizes and arrivals of flows: parsing, and writing back without changes.

use std::path::Path;
use std::sync::Arc;

use base::{Bandwidth, Bytes, Ratio, Span};
use lab::plan::{Limits, Model, Pause, Plan, Tcp, Traffic};
use lab::{parse, resolved};
use proptest::prelude::*;
use workload::{
    Arrivals, DatagramTrace, Lengths, OnOff, Pattern, Queries, Requests, Rpc, SizeTable, Sizes,
    Think, Transfers,
};

const NETWORK: &str = r#"
[node.a]
[node.b]
[node.r]
kind = "router"
[[link]]
ends = ["a", "r"]
[[link]]
name = "core"
ends = ["r", "b"]
rate = "10 Mbit/s"
"#;

fn read(text: &str) -> Plan {
    match parse("test.toml", text, Path::new(env!("CARGO_MANIFEST_DIR"))) {
        Ok(mut lab) => lab.plans.remove(0),
        Err(errors) => panic!("{text}\n{:#?}", errors.list()),
    }
}

/// The traffic of a flow from `a` to `b` with these keys.
fn traffic(keys: &str) -> Traffic {
    let text = format!("{NETWORK}[[flow]]\nfrom = \"a\"\nto = \"b\"\n{keys}\n");
    read(&text).flows.remove(0).traffic
}

fn transfers(keys: &str) -> (Sizes, Arrivals, Option<u64>) {
    let Traffic::Transfers { spec, .. } = traffic(keys) else {
        panic!("{keys} makes no transfers")
    };
    (spec.sizes.clone(), spec.arrivals.clone(), spec.count)
}

#[test]
fn keys_decide_the_kind_of_a_flow() {
    let is_bulk = |keys| matches!(traffic(keys), Traffic::Bulk { .. });
    let is_rpc = |keys| matches!(traffic(keys), Traffic::Rpc { .. });
    let is_transfers = |keys| matches!(traffic(keys), Traffic::Transfers { .. });
    assert!(is_bulk("") && is_bulk("size = \"1 MB\"\nstreams = 3"));
    assert!(is_transfers("size = { exponential = \"1 kB\" }"));
    assert!(is_transfers("size = \"1 kB\"\ncount = 3"));
    assert!(is_transfers("size = \"1 kB\"\narrivals = { every = \"1 ms\" }"));
    assert!(is_rpc("count = 3") && is_rpc("think = \"1 ms\"") && is_rpc("request = \"1 kB\""));
    assert!(is_rpc("response = { pareto = \"1 kB\" }\nthink = { exponential = \"1 s\" }"));
    let is_requests = |keys| matches!(traffic(keys), Traffic::Requests { .. });
    assert!(is_requests("response = \"1 kB\"\narrivals = { every = \"1 ms\" }"));
    let is_queries = |keys| matches!(traffic(keys), Traffic::Queries { .. });
    assert!(is_queries("transport = \"udp\"\nrequest = \"40 B\"\ntimeout = \"2 s\""));
}

#[test]
fn requests_that_do_not_wait_have_their_load_in_responses() {
    let keys = "request = \"40 B\"\nresponse = \"10 kB\"\nstreams = 20\n\
                arrivals = { load = \"80 %\", of = \"core\" }";
    let Traffic::Requests { spec, .. } = traffic(keys) else { panic!() };
    assert_eq!((spec.streams, &spec.response), (20, &Sizes::Fixed(Bytes::new(10_000))));
    // 10 kB at 80 % of the link.
    assert_eq!(spec.arrivals, Arrivals::Poisson(Span::from_millis(10)));
}

#[test]
fn distributions_and_arrivals_are_read() {
    let (sizes, arrivals, count) = transfers(
        "size = { pareto = \"100 kB\", shape = 1.2, limit = \"10 MB\" }\n\
         arrivals = { poisson = \"10 ms\" }\ncount = 7",
    );
    let (mean, limit) = (Bytes::new(100_000), Some(Bytes::new(10_000_000)));
    assert_eq!(sizes, Sizes::Pareto { mean, shape_milli: 1200, limit });
    assert_eq!((arrivals, count), (Arrivals::Poisson(Span::from_millis(10)), Some(7)));
    let (sizes, arrivals, count) = transfers(
        "size = { table = [[\"1 kB\", \"50 %\"], [\"1 MB\", \"100 %\"]] }\nthink = \"1 ms\"",
    );
    let points = vec![(Bytes::new(1000), 500_000_000), (Bytes::new(1_000_000), 1_000_000_000)];
    assert_eq!(sizes, Sizes::Table(Arc::new(SizeTable { points })));
    assert_eq!(arrivals, Arrivals::Closed(Think::Fixed(Span::from_millis(1))));
    assert_eq!(count, None);
    let (sizes, ..) = transfers("size = { cdf = \"tests/files/mice.cdf\" }");
    assert!(matches!(sizes, Sizes::Table(table) if table.points.len() == 4));
}

#[test]
fn a_load_is_shared_by_the_flows_of_an_entry() {
    // 50 % of 10 Mbit/s are 625 kB/s: 62.5 transfers/s of 10 kB, one per 16 ms.
    let load = "size = \"10 kB\"\narrivals = { load = \"50 %\", of = \"core\" }";
    assert_eq!(transfers(load).1, Arrivals::Poisson(Span::from_millis(16)));
    let text = format!("{NETWORK}[[flow]]\nfrom = [\"a\", \"r\"]\nto = \"b\"\n{load}\n");
    for flow in read(&text).flows {
        let Traffic::Transfers { spec, .. } = flow.traffic else { panic!() };
        assert_eq!(spec.arrivals, Arrivals::Poisson(Span::from_millis(32)));
    }
}

#[test]
fn datagrams_have_patterns() {
    let pattern = |keys: &str| match traffic(&format!("transport = \"udp\"\n{keys}")) {
        Traffic::Paced { pattern, rate, packet, .. } => (pattern, rate, packet),
        other => panic!("{other:?}"),
    };
    let rate = "rate = \"1 Mbit/s\"\n";
    assert_eq!(pattern(rate).0, Pattern::Constant);
    assert_eq!(pattern(&format!("{rate}pattern = \"poisson\"")).0, Pattern::Poisson);
    let (on, off) = (Span::from_secs(1), Span::from_millis(500));
    assert_eq!(
        pattern(&format!(
            "{rate}pattern = {{ on = \"1 s\", off = \"500 ms\", exponential = true }}"
        ))
        .0,
        Pattern::OnOff(OnOff { on, off, lengths: Lengths::Exponential })
    );
    assert_eq!(
        pattern(&format!("{rate}pattern = {{ on = \"1 s\", off = \"500 ms\", pareto = 1.5 }}")).0,
        Pattern::OnOff(OnOff { on, off, lengths: Lengths::Pareto { shape_milli: 1_500 } })
    );
    let (traced, rate, packet) = pattern("pattern = { trace = \"tests/files/few.datagrams\" }");
    assert!(matches!(traced, Pattern::Trace(trace) if trace.period == Span::from_millis(60)));
    // 400 B in 60 ms.
    assert_eq!((rate, packet), (Bandwidth::from_bits_per_sec(53_333), Bytes::new(200)));
}

#[test]
fn settings_of_the_virtual_clock_are_read() {
    let plan = read(&format!(
        "[lab]\nmodel = \"fluid\"\nrecord = true\n\
         limits = {{ events = 1000000, memory = \"2 GiB\" }}\n{NETWORK}[[flow]]\nfrom = \"a\"\n\
         to = \"b\"\necn = true\nwindow = \"4 MiB\"\ncontrol = \"bbr\"\n"
    ));
    assert_eq!((plan.model, plan.record), (Model::Fluid, true));
    assert_eq!(plan.limits, Limits { events: 1_000_000, memory: Bytes::new(2 << 30) });
    let Traffic::Bulk { tcp, .. } = &plan.flows[0].traffic else { panic!() };
    let window = Some(Bytes::new(4 << 20));
    assert_eq!(*tcp, Tcp { control: Some("bbr".to_owned()), ecn: true, window, multipath: None });
}

fn bytes() -> impl Strategy<Value = Bytes> {
    (1..1u64 << 60).prop_map(Bytes::new)
}

fn span() -> impl Strategy<Value = Span> {
    (1..30 * 86_400 * 1_000_000_000u64).prop_map(Span::from_nanos)
}

fn pause() -> impl Strategy<Value = Pause> {
    (span(), span()).prop_filter_map("rising moments", |(one, other)| {
        (one != other).then(|| Pause { from: one.min(other), until: one.max(other) })
    })
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let points = prop::collection::btree_map(0..1u64 << 60, 0..=1_000_000_000u32, 1..20);
    let table = points.prop_filter_map("some size", |points| {
        let mut shares: Vec<u32> = points.values().copied().collect();
        shares.sort_unstable();
        *shares.last_mut()? = 1_000_000_000;
        let points = points.into_keys().map(Bytes::new).zip(shares).collect();
        Some(Sizes::Table(Arc::new(SizeTable::try_new(points).ok()?)))
    });
    prop_oneof![
        bytes().prop_map(Sizes::Fixed),
        bytes().prop_map(Sizes::Exponential),
        (bytes(), 1001..1_000_000u32, prop::option::of(bytes()))
            .prop_map(|(mean, shape_milli, limit)| Sizes::Pareto { mean, shape_milli, limit }),
        table,
    ]
}

fn think() -> impl Strategy<Value = Think> {
    prop_oneof![
        Just(Think::Fixed(Span::ZERO)),
        span().prop_map(Think::Fixed),
        span().prop_map(Think::Exponential),
    ]
}

fn arrivals() -> impl Strategy<Value = Arrivals> {
    // A billion transfers per minute are rejected.
    let gap = || (1_000..1u64 << 50).prop_map(Span::from_nanos);
    prop_oneof![
        gap().prop_map(Arrivals::Poisson),
        gap().prop_map(Arrivals::Every),
        think().prop_map(Arrivals::Closed),
    ]
}

/// Arrivals that do not wait for completions.
fn open() -> impl Strategy<Value = Arrivals> {
    arrivals().prop_filter("a closed loop", |arrivals| !arrivals.is_closed_loop())
}

fn tcp() -> impl Strategy<Value = Tcp> {
    let control = prop::option::of(prop::sample::select(&["bbr", "cubic", "reno", "vegas"][..]));
    let window = prop::option::of((4096..=1u64 << 30).prop_map(Bytes::new));
    (control, any::<bool>(), window).prop_map(|(control, ecn, window)| Tcp {
        control: control.map(str::to_owned),
        ecn,
        window,
        multipath: None,
    })
}

fn lengths() -> impl Strategy<Value = Lengths> {
    prop_oneof![
        Just(Lengths::Constant),
        Just(Lengths::Exponential),
        (1_001..=1_000_000u32).prop_map(|shape_milli| Lengths::Pareto { shape_milli }),
    ]
}

/// A rate, a packet size and the pattern; a trace defines its own rate and size.
fn paced() -> impl Strategy<Value = (Bandwidth, Bytes, Pattern)> {
    let free = prop_oneof![
        Just(Pattern::Constant),
        Just(Pattern::Poisson),
        (span(), span(), lengths()).prop_map(|(on, off, lengths)| Pattern::OnOff(OnOff {
            on,
            off,
            lengths
        })),
    ];
    let rate = (100..10_000_000_000_000u64).prop_map(Bandwidth::from_bits_per_sec);
    let packet = (16..=65_507u64).prop_map(Bytes::new);
    let datagrams = prop::collection::vec((0..1u64 << 50, 16..=65_507u64), 1..20);
    let trace = (datagrams, 1..1u64 << 50).prop_map(|(mut datagrams, rest)| {
        datagrams.sort_unstable();
        let period = Span::from_nanos(datagrams.last().expect("at least one").0 + rest);
        let sum: u64 = datagrams.iter().map(|d| d.1).sum();
        let bits = u128::from(sum) * 8 * 1_000_000_000 / u128::from(period.as_nanos());
        let packet = datagrams.iter().map(|d| d.1).max().expect("at least one");
        let datagrams =
            datagrams.into_iter().map(|d| (Span::from_nanos(d.0), Bytes::new(d.1))).collect();
        let trace = DatagramTrace::try_new(datagrams, period).expect("sorted, and a period");
        let rate = Bandwidth::from_bits_per_sec(u64::try_from(bits).expect("a short trace"));
        (rate, Bytes::new(packet), Pattern::Trace(Arc::new(trace)))
    });
    prop_oneof![(rate, packet, free), trace]
}

fn any_traffic() -> impl Strategy<Value = Traffic> {
    let count = || prop::option::of(1..=1_000_000_000u64);
    let bulk = (
        prop::option::of(bytes()),
        prop::option::of((1..10_000_000_000_000u64).prop_map(Bandwidth::from_bits_per_sec)),
        prop::option::of(pause()),
        tcp(),
        1..=1024u32,
        prop::option::of(bytes()),
    )
        .prop_map(|(size, rate, pause, tcp, streams, message)| Traffic::Bulk {
            size,
            rate,
            pause,
            tcp,
            streams,
            message,
        });
    let transfers =
        (sizes(), arrivals(), count(), tcp()).prop_map(|(sizes, arrivals, count, tcp)| {
            Traffic::Transfers { spec: Arc::new(Transfers { sizes, arrivals, count }), tcp }
        });
    let paced = (paced(), prop::option::of(bytes()))
        .prop_map(|((rate, packet, pattern), size)| Traffic::Paced { rate, packet, size, pattern });
    let interval = prop_oneof![Just(Span::ZERO), span()];
    let rpc = (sizes(), sizes(), count(), interval, think(), tcp()).prop_map(
        |(request, response, count, interval, think, tcp)| Traffic::Rpc {
            spec: Arc::new(Rpc { request, response, count, interval, think }),
            tcp,
        },
    );
    let requests = (sizes(), sizes(), open(), count(), 1..=1024u32, tcp()).prop_map(
        |(request, response, arrivals, count, streams, tcp)| Traffic::Requests {
            spec: Arc::new(Requests { request, response, arrivals, count, streams }),
            tcp,
        },
    );
    let size = || (16..=1472u64).prop_map(Bytes::new);
    let interval = prop_oneof![Just(Span::ZERO), span()];
    let queries = (size(), size(), count(), interval, think(), span()).prop_map(
        |(request, response, count, interval, think, timeout)| {
            Traffic::Queries(Arc::new(Queries {
                request,
                response,
                count,
                interval,
                think,
                timeout,
            }))
        },
    );
    prop_oneof![bulk, transfers, paced, rpc, requests, queries]
}

proptest! {
    #[test]
    fn resolved_flows_are_the_same_flows(
        traffic in any_traffic(),
        fluid in any::<bool>(),
        record in any::<bool>(),
        events in 1..i64::MAX as u64,
        memory in 1u64 << 20..1u64 << 50,
    ) {
        let mut plan = read(&format!("{NETWORK}[[flow]]\nfrom = \"a\"\nto = \"b\"\n"));
        plan.flows[0].traffic = traffic;
        plan.model = if fluid { Model::Fluid } else { Model::Hop };
        plan.record = record;
        plan.limits = Limits { events, memory: Bytes::new(memory) };
        plan.nodes.iter_mut().for_each(|node| node.declared = (0, 0));
        let text = resolved(&plan);
        let mut again = read(&text);
        again.nodes.iter_mut().for_each(|node| node.declared = (0, 0));
        prop_assert_eq!(again, plan, "{}", text);
    }
}

#[test]
fn shares_have_the_precision_of_a_table() {
    let (sizes, ..) =
        transfers("size = { table = [[\"1 B\", \"0.0000001 %\"], [\"2 B\", \"100 %\"]] }");
    let Sizes::Table(table) = sizes else { panic!() };
    assert_eq!(u64::from(table.points[0].1), Ratio::from_parts_per_billion(1).parts_per_billion());
}
