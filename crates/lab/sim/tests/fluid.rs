//! The fluid engine compared with the packet engine on the same small labs.

use std::path::Path;

use base::{Direction, Histogram, Span, Time};
use lab::plan::{Model, Plan};
use run::FlowResult;
use sim::Engine as _;

/// The results of an engine.
struct Ran {
    flows: Vec<FlowResult>,
    /// Wire bytes of each direction of each link.
    bytes: Vec<u64>,
    /// Queueing delays of each direction of each link.
    waits: Vec<Histogram>,
    hash: u64,
}

impl Ran {
    fn flow(&self, name: &str) -> &FlowResult {
        self.flows.iter().find(|flow| flow.name == name).unwrap()
    }

    fn goodput(&self, name: &str) -> f64 {
        self.flow(name).mean_goodput() / 1e6
    }

    /// Mean completion time of transfers, in ms.
    fn completion(&self, name: &str) -> f64 {
        let transfers = self.flow(name).transfers.as_ref().unwrap();
        transfers.completion.distribution().unwrap().mean_ns / 1e6
    }

    fn link(&self, plan: &Plan, name: &str, direction: Direction) -> f64 {
        self.bytes[plan.link(name).unwrap().index() * 2 + direction.index()] as f64
    }
}

fn plan(text: &str) -> Plan {
    let lab = lab::parse("fluid.toml", text, Path::new(""));
    lab.unwrap_or_else(|errors| panic!("{errors:?}")).plans.remove(0)
}

macro_rules! run {
    ($plan:expr, $engine:ty) => {{
        let mut sim = <$engine>::try_new($plan).unwrap();
        let end = Time::ZERO + $plan.duration;
        while sim.now() < end && !sim.is_done() {
            sim.advance((sim.now() + Span::from_millis(100)).min(end));
            sim.sample(&mut |_| {});
        }
        sim.stop();
        let bytes = sim.link_counters(&[]).iter().map(|(_, stats, _)| stats.sent_bytes).collect();
        let hash = sim.trace_hash();
        let waits = sim.take_queue_delays();
        Ran { bytes, waits, hash, flows: sim.results() }
    }};
}

fn both(text: &str) -> (Plan, Ran, Ran) {
    let mut plan = plan(text);
    let packets = run!(&plan, sim::Simulation);
    plan.model = Model::Fluid;
    let rates = run!(&plan, sim::fluid::Simulation);
    (plan, packets, rates)
}

#[track_caller]
fn near(what: &str, packets: f64, rates: f64, tolerance: f64) {
    let error = rates / packets - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {packets} and {rates}: {:+.1} %", error * 100.0);
}

/// Two hosts and their routers: `a`, `c` — r1 — r2 — `b`, `d`.
fn dumbbell(core: &str, rest: &str) -> String {
    let mut text = format!(
        "[lab]\nname = \"dumbbell\"\nduration = \"30 s\"\n\
         [node.r1]\nkind = \"router\"\n[node.r2]\nkind = \"router\"\n\
         [[link]]\nname = \"core\"\nends = [\"r1\", \"r2\"]\n{core}\n"
    );
    for (host, router, delay) in [("a", "r1", 1), ("c", "r1", 20), ("b", "r2", 1), ("d", "r2", 1)] {
        let ends = format!("[node.{host}]\n[[link]]\nends = [\"{host}\", \"{router}\"]\n");
        text += &ends;
        let wire = format!("rate = \"1 Gbit/s\"\ndelay = \"{delay} ms\"\n");
        text += &wire;
    }
    text + rest
}

const CORE: &str = "rate = \"20 Mbit/s\"\ndelay = \"10 ms\"\n\
                    queue = { kind = \"droptail\", limit = \"60 packets\" }";

fn bulk(name: &str, from: &str, to: &str, rest: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{rest}\n")
}

#[test]
fn long_flows_get_the_same_goodput() {
    for control in ["reno", "cubic", "bbr"] {
        for count in [1, 4] {
            let rest = format!("control = \"{control}\"\nduration = \"20 s\"");
            let flows = (0..count).map(|i| bulk(&format!("f{i}"), "a", "b", &rest));
            let (plan, packets, rates) = both(&dumbbell(CORE, &flows.collect::<String>()));
            let sum = |ran: &Ran| ran.flows.iter().map(FlowResult::mean_goodput).sum::<f64>();
            near(&format!("{control} x {count}"), sum(&packets), sum(&rates), 0.03);
            let link = |ran: &Ran| ran.link(&plan, "core", Direction::Up);
            near("the link's bytes", link(&packets), link(&rates), 0.03);
        }
    }
}

#[test]
fn short_round_trips_win() {
    // The result depends on the losses of two flows: only its sign is certain.
    let flows = bulk("near", "a", "b", "") + &bulk("far", "c", "d", "");
    let (_, packets, rates) = both(&dumbbell(CORE, &flows).replace("30 s", "60 s"));
    for ran in [&packets, &rates] {
        let ratio = ran.goodput("near") / ran.goodput("far");
        assert!((1.2..6.0).contains(&ratio), "{ratio}");
    }
    near("near", packets.goodput("near"), rates.goodput("near"), 0.15);
}

#[test]
fn transfers_take_the_same_time() {
    for (size, tolerance) in
        [("1 kB", 0.03), ("10 kB", 0.03), ("50 kB", 0.03), ("200 kB", 0.03), ("2 MB", 0.03)]
    {
        let rest = format!("size = \"{size}\"\ncount = 10\nthink = \"50 ms\"");
        let (_, packets, rates) = both(&dumbbell(CORE, &bulk("f", "a", "b", &rest)));
        assert_eq!(packets.flow("f").received_bytes, rates.flow("f").received_bytes);
        near(size, packets.completion("f"), rates.completion("f"), tolerance);
    }
}

#[test]
fn transfers_among_others_take_about_the_same_time() {
    for (seed, control) in [(1, "cubic"), (2, "reno")] {
        let rest = format!(
            "control = \"{control}\"\nsize = {{ pareto = \"100 kB\", limit = \"5 MB\" }}\n\
             count = 1500\narrivals = {{ load = \"30 %\", of = \"core\" }}"
        );
        let flows = bulk("there", "a", "b", &rest) + &bulk("far", "c", "d", &rest);
        let text = dumbbell(CORE, &flows).replace("\"30 s\"", &format!("\"400 s\"\nseed = {seed}"));
        let (plan, packets, rates) = both(&text);
        for name in ["there", "far"] {
            near(name, packets.completion(name), rates.completion(name), 0.15);
            let part = |ran: &Ran| ran.flow(name).retransmits.unwrap() as f64;
            near("retransmissions", part(&packets), part(&rates), 0.70);
        }
        let core = plan.link("core").unwrap().index() * 2;
        let mean = |ran: &Ran| ran.waits[core].distribution().unwrap().mean_ns;
        near("mean wait", mean(&packets), mean(&rates), 0.4);
    }
}

#[test]
fn queues_are_as_long() {
    // Relative differences of mean and p99 between the engines.
    let codel = CORE.replace("kind = \"droptail\"", "kind = \"codel\"");
    let cases = [
        ("reno", CORE, 1, 0.15),
        ("cubic", CORE, 1, 0.15),
        ("cubic", CORE, 4, 0.15),
        ("cubic", &codel, 4, 0.40),
    ];
    for (control, core, count, tolerance) in cases {
        let rest = format!("control = \"{control}\"");
        let flows: String = (0..count).map(|i| bulk(&format!("f{i}"), "a", "b", &rest)).collect();
        let (plan, packets, rates) = both(&dumbbell(core, &flows));
        let link = plan.link("core").unwrap().index() * 2;
        let waits = |ran: &Ran| ran.waits[link].distribution().unwrap();
        let (packets, rates) = (waits(&packets), waits(&rates));
        let what = format!("{control} x {count}");
        near(&what, packets.mean_ns, rates.mean_ns, tolerance);
        // CoDel's queue is constant in the fluid engine.
        let high = if core == codel { rates.mean_ns } else { packets.p99_ns as f64 };
        near(&what, high, rates.p99_ns as f64, tolerance);
        near(&what, packets.count as f64, rates.count as f64, 0.03);
    }
}

#[test]
fn retransmits_lost_segments() {
    let lossy = CORE.replace("delay", "loss = \"1 %\"\ndelay");
    for (core, control, count, tolerance) in
        [(&*lossy, "reno", 1, 0.25), (&*lossy, "cubic", 1, 0.25), (CORE, "reno", 8, 0.5)]
    {
        let rest = format!("control = \"{control}\"");
        let flows: String = (0..count).map(|i| bulk(&format!("f{i}"), "a", "b", &rest)).collect();
        let (_, packets, rates) = both(&dumbbell(core, &flows));
        let sum = |ran: &Ran| ran.flows.iter().map(|flow| flow.retransmits.unwrap()).sum::<u64>();
        let again = |ran: &Ran| sum(ran) as f64;
        near(control, again(&packets), again(&rates), tolerance);
    }
}

#[test]
fn requests_are_answered_as_fast() {
    let text = dumbbell(
        CORE,
        &bulk("ask", "a", "b", "request = \"300 B\"\nresponse = \"30 kB\"\ncount = 100"),
    );
    let (_, packets, rates) = both(&text);
    let latency = |ran: &Ran| ran.flow("ask").latency.distribution().unwrap().mean_ns;
    assert_eq!(packets.flow("ask").responses, rates.flow("ask").responses);
    near("latency", latency(&packets), latency(&rates), 0.10);
}

#[test]
fn datagrams_that_do_not_fit_are_lost() {
    let udp = "transport = \"udp\"\nrate = \"15 Mbit/s\"\npacket = \"1200 B\"\n\
               pattern = \"poisson\"\nduration = \"20 s\"";
    let text = dumbbell(CORE, &(bulk("one", "a", "b", udp) + &bulk("two", "c", "d", udp)));
    let (_, packets, rates) = both(&text);
    for name in ["one", "two"] {
        let part = |ran: &Ran| {
            let counts = ran.flow(name).datagrams.unwrap();
            counts.lost as f64 / counts.sent as f64
        };
        let (packets, rates) = (part(&packets), part(&rates));
        assert!((packets - rates).abs() < 0.08, "{name}: {packets} {rates}");
    }
    let lost = |ran: &Ran| ran.flows.iter().map(|f| f.datagrams.unwrap().lost).sum::<u64>() as f64;
    near("lost", lost(&packets), lost(&rates), 0.03);
}

#[test]
fn tcp_gets_what_datagrams_leave() {
    let udp = "transport = \"udp\"\nrate = \"8 Mbit/s\"\npacket = \"1200 B\"";
    let text = dumbbell(CORE, &(bulk("udp", "a", "b", udp) + &bulk("tcp", "a", "b", "")));
    let (_, packets, rates) = both(&text);
    near("tcp", packets.goodput("tcp"), rates.goodput("tcp"), 0.05);
    near("udp", packets.goodput("udp"), rates.goodput("udp"), 0.05);
}

#[test]
fn flows_follow_changes_of_the_network() {
    let events = "[[at]]\ntime = \"10 s\"\nlink = [\"r1\", \"r2\"]\nset = { rate = \"5 Mbit/s\" }\n\
                  [[at]]\ntime = \"20 s\"\nlink = [\"r1\", \"r2\"]\ndown = true\n\
                  [[at]]\ntime = \"21 s\"\nlink = [\"r1\", \"r2\"]\nup = true\n";
    let (_, packets, rates) = both(&dumbbell(CORE, &(bulk("f", "a", "b", "") + events)));
    near("goodput", packets.goodput("f"), rates.goodput("f"), 0.05);
}

#[test]
fn random_loss_limits_reno() {
    let core = CORE.replace("delay", "loss = \"1 %\"\ndelay");
    let (_, packets, rates) = both(&dumbbell(&core, &bulk("f", "a", "b", "control = \"reno\"")));
    near("goodput", packets.goodput("f"), rates.goodput("f"), 0.20);
}

#[test]
fn runs_repeat_whatever_the_order_of_the_lab_file() {
    let flows = [
        bulk("x", "a", "b", "size = { exponential = \"80 kB\" }\ncount = 200"),
        bulk("y", "c", "b", "size = \"3 MB\"\nstreams = 3"),
        bulk("z", "a", "d", "request = \"1 kB\"\nresponse = \"9 kB\"\ncount = 50"),
    ];
    let first = hash(&flows.concat());
    assert_eq!(first, hash(&flows.concat()));
    assert_eq!(first, hash(&flows.iter().rev().cloned().collect::<String>()));
}

fn hash(flows: &str) -> u64 {
    let mut plan = plan(&dumbbell(CORE, flows));
    plan.model = Model::Fluid;
    run!(&plan, sim::fluid::Simulation).hash
}

#[test]
fn the_trace_hash_tells_what_happened() {
    let udp = |rest: &str| {
        let traffic = "transport = \"udp\"\npacket = \"1200 B\"\n".to_owned() + rest;
        bulk("f", "a", "b", &traffic)
    };
    // None of these flows is finite, and the variants of a pair differ slightly.
    let runs = [
        String::new(),
        bulk("f", "a", "b", ""),
        bulk("f", "a", "b", "start = \"1 ms\""),
        bulk("f", "a", "b", "control = \"reno\"") + &bulk("g", "c", "d", ""),
        bulk("f", "a", "b", "") + &bulk("g", "c", "d", ""),
        bulk("f", "a", "b", "") + &bulk("g", "c", "d", "duration = \"5 s\""),
        udp("rate = \"15 Mbit/s\""),
        udp("rate = \"16 Mbit/s\""),
        udp("rate = \"16 Mbit/s\"\nduration = \"5 s\""),
    ];
    let hashes: Vec<u64> = runs.iter().map(|flows| hash(flows)).collect();
    for (at, one) in hashes.iter().enumerate() {
        assert!(!hashes[..at].contains(one), "run {at}: {hashes:x?}");
        assert_eq!(*one, hash(&runs[at]));
    }
}
