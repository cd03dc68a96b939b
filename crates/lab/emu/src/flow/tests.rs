mod two_engines;

use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base::{Bandwidth, Bytes, NodeId, Time};
use lab::plan::{Family, Multipath, Tcp};
use sys::netlink::{self, Batch, LinkSettings, Veth};
use workload::{
    Arrivals, DatagramTrace, Lengths, OnOff, Pattern, Queries, Requests, Rpc, Sizes, Think,
    Transfers,
};

use super::*;

/// Two network namespaces joined by a veth pair.
struct Pair {
    netns: [OwnedFd; 2],
}

/// Upper bound of a datagram's delay on a busy host, and lower bound of the offset of two clocks.
const MAX_DELAY_NANOS: u64 = 60_000_000_000;

const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2)];
const V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd6e, 0x6574, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0xfd6e, 0x6574, 0, 0, 0, 0, 0, 2),
];

impl Pair {
    /// Prints a note and returns `None` if the system does not permit namespaces.
    fn new(test: &str) -> Option<Self> {
        Self::try_new()
            .inspect_err(|error| {
                eprintln!("SKIPPED {test}: no namespaces of our own here: {error}");
                assert!(std::env::var_os("CI").is_none(), "CI must be able to run this");
            })
            .ok()
    }

    fn try_new() -> sys::Result<Self> {
        let fresh = || {
            let thread = std::thread::spawn(|| {
                namespace::unshare(Kinds::NET)?;
                namespace::current_net()
            });
            thread.join().unwrap()
        };
        let netns = [fresh()?, fresh()?];
        namespace::in_net(netns[0].as_fd(), || {
            let mut batch = Batch::new();
            batch.add_veth(&Veth {
                name: "eth0",
                address: [2, 0, 0, 0, 0, 1],
                peer_name: "eth0",
                peer_address: [2, 0, 0, 0, 0, 2],
                peer_net: netns[1].as_fd(),
                mtu: 1500,
            });
            netlink::Socket::open()?.submit(batch)
        })??;
        let pair = Self { netns };
        for end in 0..2 {
            pair.set_up(end, true)?;
            namespace::in_net(pair.netns[end].as_fd(), || {
                let index = netlink::index_of("eth0")?;
                let mut batch = Batch::new();
                batch.add_address(index, V4[end].into(), 30);
                batch.add_address(index, V6[end].into(), 64);
                netlink::Socket::open()?.submit(batch)
            })??;
        }
        pair.wait_for_links();
        Ok(pair)
    }

    /// The kernel drops packets before it has detected that a new link is up.
    fn wait_for_links(&self) {
        for addresses in [V4.map(IpAddr::from), V6.map(IpAddr::from)] {
            let ends = [0, 1].map(|end: usize| {
                let bind = || UdpSocket::bind((addresses[end], 60_000)).unwrap();
                let socket = namespace::in_net(self.netns[end].as_fd(), bind).unwrap();
                socket.set_nonblocking(true).unwrap();
                socket
            });
            for (from, to) in [(0, 1), (1, 0)] {
                wait_until("a datagram", || {
                    // A send reports the error of an earlier datagram.
                    let _ = ends[from].send_to(b"up", (addresses[to], 60_000));
                    ends[to].recv_from(&mut [0; 2]).is_ok()
                });
            }
        }
    }

    fn set_up(&self, end: usize, up: bool) -> sys::Result<()> {
        namespace::in_net(self.netns[end].as_fd(), || {
            let index = netlink::index_of("eth0")?;
            let mut batch = Batch::new();
            batch.set_link(index, &LinkSettings { up: Some(up), ..LinkSettings::default() });
            netlink::Socket::open()?.submit(batch)
        })?
    }

    fn spec(&self, id: u32, family: Family, traffic: Traffic) -> FlowSpec<'_> {
        let flow = Flow {
            name: format!("flow{id}"),
            from: NodeId(0),
            to: NodeId(1),
            family,
            start: Time::ZERO,
            duration: None,
            traffic,
            dscp: 0,
        };
        let [from_addr, to_addr]: [IpAddr; 2] = match family {
            Family::V4 => V4.map(IpAddr::from),
            Family::V6 => V6.map(IpAddr::from),
        };
        let [from_netns, to_netns] = [0, 1].map(|end: usize| Some(self.netns[end].as_fd()));
        FlowSpec {
            id: FlowId(id),
            flow,
            from_netns,
            to_netns,
            from_addr,
            to_addr,
            port: 61_000 + 2 * id as u16,
            ideal: None,
            paths: Vec::new(),
        }
    }
}

type Samples = Arc<Mutex<Vec<FlowSample>>>;

fn spawn(specs: Vec<FlowSpec<'_>>) -> (Result<FlowEngine>, Samples) {
    spawn_at(specs, LabClock::new(sys::clock::monotonic() + 1_000_000))
}

fn spawn_at(specs: Vec<FlowSpec<'_>>, clock: LabClock) -> (Result<FlowEngine>, Samples) {
    let samples = Samples::default();
    let sink = samples.clone();
    let options = FlowOptions { clock, interval: Span::from_millis(20), seed: 1, waits: None };
    let sink = Box::new(move |seen| {
        if let Observation::Sample(sample) = seen {
            sink.lock().unwrap().push(*sample);
        }
    });
    (FlowEngine::spawn(specs, options, sink), samples)
}

/// Runs flows until all finite flows have ended.
fn run(specs: Vec<FlowSpec<'_>>) -> (Vec<FlowResult>, Vec<FlowSample>) {
    let (engine, samples) = spawn(specs);
    let engine = engine.unwrap();
    wait_until("the flows' end", || engine.pending() == 0);
    let results = engine.finish().results;
    let samples = std::mem::take(&mut *samples.lock().unwrap());
    (results, samples)
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(60), "no {what} within 60 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a stopped flow no longer receives data. Before its stop it sends without pause.
fn wait_until_no_data(received: impl Fn() -> u64) {
    wait_until("silence", || {
        let before = received();
        std::thread::sleep(Duration::from_millis(200));
        received() == before
    });
}

fn bulk(size: Option<u64>, streams: u32, message: Option<u64>) -> Traffic {
    let control = Some("reno".to_owned());
    Traffic::Bulk {
        size: size.map(Bytes::new),
        rate: None,
        pause: None,
        tcp: Tcp { control, ..Tcp::default() },
        streams,
        message: message.map(Bytes::new),
    }
}

fn paced(mbits: u64, packet: u64, size: Option<u64>) -> Traffic {
    let (rate, packet) = (Bandwidth::from_mbits_per_sec(mbits), Bytes::new(packet));
    Traffic::Paced { rate, packet, size: size.map(Bytes::new), pattern: Pattern::Constant }
}

fn rpc(count: Option<u64>, interval: Span) -> Traffic {
    let (request, response) = (Bytes::new(700), Bytes::new(300_000));
    let spec = Rpc {
        request: Sizes::Fixed(request),
        response: Sizes::Fixed(response),
        count,
        interval,
        think: Think::Fixed(Span::ZERO),
    };
    Traffic::Rpc { spec: Arc::new(spec), tcp: Tcp::default() }
}

#[test]
fn bulk_delivers_every_byte_once() {
    let Some(pair) = Pair::new("bulk_delivers_every_byte_once") else { return };
    let kinds = [
        (Family::V4, bulk(Some(20_000_001), 1, None)),
        (Family::V6, bulk(Some(20_000_003), 8, None)),
        (Family::V4, bulk(Some(1_000_001), 3, Some(1_000))),
        (Family::V6, bulk(Some(0), 2, None)),
    ];
    let sizes = [20_000_001, 20_000_003, 1_000_001, 0];
    let specs = kinds.into_iter().zip(0..).map(|((f, t), id)| pair.spec(id, f, t)).collect();
    let (results, samples) = run(specs);
    for ((result, size), id) in results.iter().zip(sizes).zip(0..) {
        assert!(matches!(result.outcome, Outcome::Completed), "{result:?}");
        assert_eq!((result.id, result.sent_bytes, result.received_bytes), (FlowId(id), size, size));
        let of_flow = samples.iter().filter(|sample| sample.flow == result.id);
        let (sent, received) = of_flow
            .fold((0, 0), |sum, sample| (sum.0 + sample.sent_bytes, sum.1 + sample.received_bytes));
        assert_eq!((sent, received), (size, size));
        assert_eq!(result.completion, Some(result.active));
        assert!(result.retransmits.is_some() && result.datagrams.is_none());
    }
    assert!(results[0].mean_goodput() > 1e6 && results[0].rtt.count() > 0);
}

#[test]
fn paced_arrives_in_order_at_its_rate() {
    let Some(pair) = Pair::new("paced_arrives_in_order_at_its_rate") else { return };
    // 100 datagrams of 1,000 B and one of 17 B; 8 Mbit/s is one datagram per millisecond.
    let first = pair.spec(0, Family::V4, paced(8, 1000, Some(100_017)));
    let second = pair.spec(1, Family::V6, paced(80, 200, Some(100_000)));
    let (results, samples) = run(vec![first, second]);
    let first = &results[0];
    assert!(matches!(first.outcome, Outcome::Completed), "{first:?}");
    assert_eq!((first.sent_bytes, first.received_bytes), (100_017, 100_017));
    let datagrams = first.datagrams.unwrap();
    assert_eq!((datagrams.sent, datagrams.received, datagrams.lost), (101, 101, 0));
    assert_eq!((datagrams.reordered, datagrams.duplicates, datagrams.damaged), (0, 0, 0));
    // The last datagram is due after 100 ms and is not sent early.
    assert!(first.active >= Span::from_millis(100), "{first:?}");
    assert_eq!(first.delay.count(), 101);
    assert!(first.delay.percentile(0.5) < MAX_DELAY_NANOS, "delays are on one clock");
    assert_eq!(results[1].datagrams.unwrap().received, 500);
    let distributions = samples.iter().filter_map(|sample| sample.delay);
    assert_eq!(distributions.map(|delay| delay.count).sum::<u64>(), 601);
}

#[test]
fn loss_is_counted_exactly() {
    let Some(pair) = Pair::new("loss_is_counted_exactly") else { return };
    let (engine, samples) = spawn(vec![pair.spec(0, Family::V4, paced(16, 200, None))]);
    let engine = engine.unwrap();
    let received = || samples.lock().unwrap().iter().map(|s| s.received_bytes).sum::<u64>();
    let lost = || samples.lock().unwrap().iter().filter_map(|s| s.lost).sum::<u64>();
    wait_until("datagrams", || received() > 20_000);
    // The sender may wait for a CPU while the link is down.
    wait_until("a gap", || {
        pair.set_up(1, false).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        pair.set_up(1, true).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        lost() > 0
    });
    let results = engine.finish().results;
    let datagrams = results[0].datagrams.unwrap();
    assert!(matches!(results[0].outcome, Outcome::Stopped), "{results:?}");
    assert_eq!(datagrams.lost, lost(), "{datagrams:?}");
    // The last datagrams may have been in flight at the end.
    let unaccounted = datagrams.sent - datagrams.received - datagrams.lost;
    assert!(unaccounted <= 64, "{datagrams:?}");
}

#[test]
fn requests_are_answered_one_by_one() {
    let Some(pair) = Pair::new("requests_are_answered_one_by_one") else { return };
    let first = pair.spec(0, Family::V6, rpc(Some(50), Span::ZERO));
    let second = pair.spec(1, Family::V4, rpc(Some(5), Span::from_millis(20)));
    let (results, samples) = run(vec![first, second]);
    for (result, count) in results.iter().zip([50, 5]) {
        assert!(matches!(result.outcome, Outcome::Completed), "{result:?}");
        assert_eq!(result.responses, Some(count));
        assert_eq!(result.sent_bytes, 700 * count);
        assert_eq!(result.received_bytes, 300_000 * count);
        assert_eq!(result.latency.count(), count);
        let of_flow = samples.iter().filter(|sample| sample.flow == result.id);
        assert_eq!(of_flow.filter_map(|sample| sample.responses).sum::<u64>(), count);
    }
    assert!(results[1].active >= Span::from_millis(80), "{results:?}");
}

fn transfers(sizes: Sizes, arrivals: Arrivals, count: Option<u64>) -> Traffic {
    let spec = Arc::new(Transfers { sizes, arrivals, count });
    Traffic::Transfers { spec, tcp: Tcp::default() }
}

#[test]
fn requests_use_random_sizes_and_think_times() {
    let Some(pair) = Pair::new("requests_use_random_sizes_and_think_times") else { return };
    let spec = Rpc {
        request: Sizes::Exponential(Bytes::new(5000)),
        response: Sizes::Pareto { mean: Bytes::new(20_000), shape_milli: 1500, limit: None },
        count: Some(20),
        interval: Span::ZERO,
        think: Think::Fixed(Span::from_millis(2)),
    };
    let tcp = Tcp { window: Some(Bytes::new(64 << 10)), ..Tcp::default() };
    let traffic = Traffic::Rpc { spec: Arc::new(spec), tcp };
    let (results, _) = run(vec![pair.spec(0, Family::V4, traffic)]);
    let result = &results[0];
    assert!(matches!(result.outcome, Outcome::Completed), "{result:?}");
    assert_eq!((result.responses, result.latency.count()), (Some(20), 20));
    // The sizes are those of the flow's random streams.
    let sum = |what: &str, sizes: Sizes| -> u64 {
        let mut random = base::RandomStream::new(1, &format!("flow/flow0/{what}"));
        (0..20).map(|_| sizes.draw(&mut random)).sum()
    };
    assert_eq!(result.sent_bytes, sum("requests", Sizes::Exponential(Bytes::new(5000))));
    let response = Sizes::Pareto { mean: Bytes::new(20_000), shape_milli: 1500, limit: None };
    assert_eq!(result.received_bytes, sum("responses", response));
    assert!(result.active >= Span::from_millis(38), "{result:?}");
}

#[test]
fn each_transfer_uses_a_separate_connection() {
    let Some(pair) = Pair::new("each_transfer_uses_a_separate_connection") else { return };
    let sizes = || Sizes::Exponential(Bytes::new(30_000));
    let open = transfers(sizes(), Arrivals::Poisson(Span::from_micros(200)), Some(300));
    let closed = Arrivals::Closed(Think::Fixed(Span::ZERO));
    let closed = transfers(Sizes::Fixed(Bytes::new(100_000)), closed, Some(50));
    let endless = transfers(sizes(), Arrivals::Every(Span::from_millis(1)), None);
    let mut endless = pair.spec(2, Family::V4, endless);
    endless.flow.duration = Some(Span::from_millis(100));
    let specs = vec![pair.spec(0, Family::V6, open), pair.spec(1, Family::V4, closed), endless];
    let (results, _) = run(specs);
    for (result, count) in results.iter().zip([300, 50]) {
        assert!(matches!(result.outcome, Outcome::Completed), "{result:?}");
        let transfers = result.transfers.as_ref().unwrap();
        assert_eq!((transfers.started, transfers.completed), (count, count));
        assert_eq!(transfers.completion.count(), count);
        assert_eq!(result.sent_bytes, result.received_bytes);
    }
    assert_eq!(results[1].received_bytes, 50 * 100_000);
    assert!(matches!(results[2].outcome, Outcome::Expired), "{:?}", results[2]);
    assert!(results[2].transfers.as_ref().unwrap().completed <= 101);
}

#[test]
fn requests_share_connections_that_stay_open() {
    let Some(pair) = Pair::new("requests_share_connections_that_stay_open") else { return };
    let spec = |count| Requests {
        request: Sizes::Fixed(Bytes::new(40)),
        response: Sizes::Exponential(Bytes::new(30_000)),
        arrivals: Arrivals::Poisson(Span::from_micros(500)),
        count,
        streams: 4,
    };
    let requests = |count| Traffic::Requests { spec: Arc::new(spec(count)), tcp: Tcp::default() };
    let mut endless = pair.spec(1, Family::V6, requests(None));
    endless.flow.duration = Some(Span::from_millis(100));
    let (results, _) = run(vec![pair.spec(0, Family::V4, requests(Some(300))), endless]);
    let result = &results[0];
    assert!(matches!(result.outcome, Outcome::Completed), "{result:?}");
    let transfers = result.transfers.as_ref().unwrap();
    assert_eq!((transfers.started, transfers.completed), (300, 300));
    assert_eq!(result.sent_bytes, 300 * 40);
    let mut random = base::RandomStream::new(1, "flow/flow0/responses");
    let sizes = Sizes::Exponential(Bytes::new(30_000));
    assert_eq!(result.received_bytes, (0..300).map(|_| sizes.draw(&mut random)).sum::<u64>());
    assert!(matches!(results[1].outcome, Outcome::Expired), "{:?}", results[1]);
    let started = results[1].started.unwrap();
    // A flow that is opened later than this begins its schedule when it is opened.
    assert!(started == Time::ZERO || started > Time::ZERO + Span::from_millis(100), "{started}");
}

#[test]
fn queries_are_answered_one_by_one() {
    let Some(pair) = Pair::new("queries_are_answered_one_by_one") else { return };
    let spec = |count| Queries {
        request: Bytes::new(40),
        response: Bytes::new(100),
        count,
        interval: Span::ZERO,
        think: Think::Fixed(Span::from_micros(100)),
        timeout: Span::from_secs(30),
    };
    let queries = |count| Traffic::Queries(Arc::new(spec(count)));
    let (results, samples) = run(vec![
        pair.spec(0, Family::V4, queries(Some(50))),
        pair.spec(1, Family::V6, queries(Some(50))),
    ]);
    for result in &results {
        assert!(matches!(result.outcome, Outcome::Completed), "{result:?}");
        assert_eq!((result.sent_bytes, result.received_bytes), (50 * 40, 50 * 100));
        assert_eq!((result.responses, result.latency.count()), (Some(50), 50));
        let of_flow = samples.iter().filter(|sample| sample.flow == result.id);
        assert_eq!(of_flow.filter_map(|sample| sample.responses).sum::<u64>(), 50);
    }
}

#[test]
fn datagrams_follow_their_pattern() {
    let Some(pair) = Pair::new("datagrams_follow_their_pattern") else { return };
    let (rate, packet) = (Bandwidth::from_mbits_per_sec(8), Bytes::new(1000));
    let paced = |pattern, size| Traffic::Paced { rate, packet, size: Some(size), pattern };
    let at = Span::from_millis;
    let datagrams = vec![(at(0), Bytes::new(100)), (at(5), Bytes::new(300))];
    let trace = Arc::new(DatagramTrace { datagrams, period: at(10) });
    let (on, off) = (at(10), at(30));
    let on_off = Pattern::OnOff(OnOff { on, off, lengths: Lengths::Constant });
    let kinds = [
        paced(Pattern::Poisson, Bytes::new(50_000)),
        paced(on_off, Bytes::new(30_000)),
        paced(Pattern::Trace(trace), Bytes::new(2000)),
    ];
    let specs = kinds.into_iter().zip(0..).map(|(t, id)| pair.spec(id, Family::V4, t)).collect();
    let (results, _) = run(specs);
    for (result, (count, size)) in results.iter().zip([(50, 50_000), (30, 30_000), (10, 2000)]) {
        assert!(matches!(result.outcome, Outcome::Completed), "{result:?}");
        assert_eq!(result.datagrams.unwrap().received, count);
        assert_eq!(result.received_bytes, size);
    }
    // 10 ms on, 30 ms off, and so on: the last datagram of the third burst is due after 89 ms.
    assert!(results[1].active >= at(89), "{:?}", results[1]);
    assert!(results[2].active >= at(45), "{:?}", results[2]);
}

#[test]
fn ecn_setting_applies_to_host() {
    let Some(pair) = Pair::new("ecn_setting_applies_to_host") else { return };
    let ecn = |ecn| Traffic::Bulk {
        size: Some(Bytes::new(1000)),
        rate: None,
        pause: None,
        tcp: Tcp { ecn, ..Tcp::default() },
        streams: 1,
        message: None,
    };
    let asked = || {
        namespace::in_net(pair.netns[0].as_fd(), || sys::sysctl::read("net/ipv4/tcp_ecn"))
            .unwrap()
            .unwrap()
    };
    assert_ne!(asked(), "1");
    let (results, _) = run(vec![pair.spec(0, Family::V4, ecn(true))]);
    assert!(matches!(results[0].outcome, Outcome::Completed), "{results:?}");
    assert_eq!(asked(), "1");
    let both = vec![pair.spec(0, Family::V4, ecn(true)), pair.spec(1, Family::V4, ecn(false))];
    let error = spawn(both).0.unwrap_err();
    assert!(error.to_string().contains("netarium sim"), "{error}");
}

#[test]
fn flows_stop_and_start_again() {
    let Some(pair) = Pair::new("flows_stop_and_start_again") else { return };
    let mut expiring = pair.spec(1, Family::V4, paced(8, 1000, None));
    expiring.flow.duration = Some(Span::from_millis(50));
    let mut never = pair.spec(2, Family::V4, rpc(None, Span::ZERO));
    never.flow.start = Time::MAX;
    let endless = pair.spec(0, Family::V4, bulk(None, 2, None));
    let (engine, samples) = spawn(vec![endless, expiring, never]);
    let engine = engine.unwrap();
    let received = || {
        let samples = samples.lock().unwrap();
        samples.iter().filter(|s| s.flow == FlowId(0)).map(|s| s.received_bytes).sum::<u64>()
    };
    wait_until("data", || received() > 0);
    assert!(engine.pending() <= 1);
    engine.stop(FlowId(0));
    wait_until_no_data(received);
    let before = received();
    engine.start(FlowId(0));
    wait_until("more data", || received() > before);
    wait_until("the duration's end", || engine.pending() == 0);
    let results = engine.finish().results;
    assert!(matches!(results[0].outcome, Outcome::Stopped), "{:?}", results[0]);
    assert!(matches!(results[1].outcome, Outcome::Expired), "{:?}", results[1]);
    let datagrams = results[1].datagrams.unwrap();
    assert_eq!((datagrams.lost, datagrams.received + datagrams.skipped), (0, 50), "{datagrams:?}");
    assert!(datagrams.received > 0);
    assert!(matches!(results[2].outcome, Outcome::NotStarted), "{:?}", results[2]);
    assert_eq!(results[2].started, None);
}

#[test]
fn reports_missing_kernel_features_before_start() {
    let Some(pair) = Pair::new("reports_missing_kernel_features_before_start") else {
        return;
    };
    let control = Some("nonesuch".to_owned());
    let bulk = Traffic::Bulk {
        size: None,
        rate: None,
        pause: None,
        tcp: Tcp { control, ..Tcp::default() },
        streams: 1,
        message: None,
    };
    let error = spawn(vec![pair.spec(0, Family::V6, bulk)]).0.unwrap_err();
    let Error::UnknownControl { control, available, .. } = &error else { panic!("{error}") };
    assert_eq!(control, "nonesuch");
    assert!(available.iter().any(|name| name == "reno"), "{error}");
    let short = pair.spec(0, Family::V4, paced(8, 15, None));
    assert!(matches!(spawn(vec![short]).0, Err(Error::ImpossibleFlow { .. })));
}

#[test]
fn reports_kernel_without_multipath_tcp() {
    let Some(pair) = Pair::new("reports_kernel_without_multipath_tcp") else { return };
    let switch = |value| {
        let switched = namespace::in_net(pair.netns[1].as_fd(), || {
            sys::sysctl::write("net/mptcp/enabled", value)
        });
        switched.unwrap()
    };
    if switch("0").is_err() {
        return eprintln!("SKIPPED: this kernel never had Multipath TCP");
    }
    let paths = Vec::new();
    let (kind, scheduler) = (MultipathKind::Mptcp, ::mctcp::scheduler::SchedulerKind::default());
    let multipath = Some(Multipath { kind, paths, scheduler, subflows: 1 });
    let mut traffic = bulk(Some(1000), 1, None);
    if let Traffic::Bulk { tcp, .. } = &mut traffic {
        tcp.multipath = multipath;
    }
    let error = spawn(vec![pair.spec(0, Family::V4, traffic.clone())]).0.unwrap_err();
    assert!(
        matches!(error, Error::NoMptcp { .. }) && error.exit_code() == run::Exit::Machine,
        "{error}"
    );
    switch("1").unwrap();
    let (results, _) = run(vec![pair.spec(0, Family::V4, traffic)]);
    assert!(matches!(results[0].outcome, Outcome::Completed), "{results:?}");
    assert_eq!(results[0].received_bytes, 1000);
}

#[test]
fn failure_affects_only_its_flow() {
    let Some(pair) = Pair::new("failure_affects_only_its_flow") else { return };
    let mut homeless = pair.spec(0, Family::V4, bulk(Some(1), 1, None));
    homeless.from_addr = IpAddr::from([10, 9, 9, 9]);
    let healthy = pair.spec(1, Family::V4, bulk(Some(1000), 1, None));
    let (results, _) = run(vec![homeless, healthy]);
    let Outcome::Failed(error) = &results[0].outcome else { panic!("{results:?}") };
    assert!(error.starts_with("bind"), "{error}");
    assert!(matches!(results[1].outcome, Outcome::Completed), "{results:?}");
}

#[test]
fn flows_fail_or_wait_while_link_is_down() {
    let Some(pair) = Pair::new("flows_fail_or_wait_while_link_is_down") else { return };
    let mut unsent = pair.spec(2, Family::V4, paced(8, 1000, None));
    unsent.flow.start = Time::from_nanos(20_000_000);
    unsent.flow.duration = Some(Span::from_millis(20));
    // The sender has no route, so its kernel fails the connection immediately.
    pair.set_up(0, false).unwrap();
    let bulk = bulk(Some(1000), 1, None);
    let (results, _) = run(vec![pair.spec(0, Family::V4, bulk.clone()), unsent]);
    assert!(matches!(results[0].outcome, Outcome::Failed(_)), "{results:?}");
    assert!(matches!(results[1].outcome, Outcome::Failed(_)), "{results:?}");
    // The receiver is unreachable, so the sender's kernel retransmits the SYN until it is answered.
    pair.set_up(0, true).unwrap();
    pair.set_up(1, false).unwrap();
    let (engine, _) = spawn(vec![pair.spec(0, Family::V4, bulk)]);
    let engine = engine.unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(engine.pending(), 1);
    pair.set_up(1, true).unwrap();
    wait_until("the second SYN", || engine.pending() == 0);
    let results = engine.finish().results;
    assert!(matches!(results[0].outcome, Outcome::Completed), "{results:?}");
    assert_eq!(results[0].received_bytes, 1000);
}
