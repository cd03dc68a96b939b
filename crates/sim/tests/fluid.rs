//! Rates against packets: the same small labs on both engines.

use std::path::Path;

use base::{Direction, Span, Time};
use lab::plan::{Model, Plan};
use outcome::FlowResult;

/// What an engine makes of a lab.
struct Ran {
    flows: Vec<FlowResult>,
    /// Wire bytes of each direction of each link.
    bytes: Vec<u64>,
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
            sim.sample(|_| {});
        }
        sim.stop();
        let bytes = sim.link_counters().iter().map(|(stats, _)| stats.sent_bytes).collect();
        let hash = sim.trace_hash();
        Ran { bytes, hash, flows: sim.results() }
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
    println!("{what}: packets {packets:.4}, rates {rates:.4}: {:+.1} %", error * 100.0);
    assert!(error.abs() <= tolerance, "{what}: {packets} and {rates}");
}

/// Two hosts and their routers: `a`, `c` — r1 — r2 — `b`, `d`.
fn dumbbell(core: &str, rest: &str) -> String {
    let mut text = format!(
        "[lab]\nname = \"dumbbell\"\nduration = \"30 s\"\n\
         [node.r1]\nkind = \"router\"\n[node.r2]\nkind = \"router\"\n\
         [[link]]\nname = \"core\"\nends = [\"r1\", \"r2\"]\n{core}\n"
    );
    for (host, router, delay) in [("a", "r1", 1), ("c", "r1", 20), ("b", "r2", 1), ("d", "r2", 1)] {
        text += &format!(
            "[node.{host}]\n[[link]]\nends = [\"{host}\", \"{router}\"]\n\
             rate = \"1 Gbit/s\"\ndelay = \"{delay} ms\"\n"
        );
    }
    text + rest
}

const CORE: &str = "rate = \"20 Mbit/s\"\ndelay = \"10 ms\"\nqueue = { kind = \"droptail\", limit = \"60 packets\" }";

fn bulk(name: &str, from: &str, to: &str, rest: &str) -> String {
    format!("[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\n{rest}\n")
}

#[test]
fn long_flows_get_the_same_goodput() {
    for control in ["reno", "cubic", "bbr"] {
        let rest = format!("control = \"{control}\"");
        let text = dumbbell(CORE, &bulk("f", "a", "b", &rest));
        let (plan, packets, rates) = both(&text);
        near(control, packets.goodput("f"), rates.goodput("f"), 5.05);
        let link = |ran: &Ran| ran.link(&plan, "core", Direction::Up);
        near("core", link(&packets), link(&rates), 5.05);
        for count in [2, 4] {
            let flows = (0..count).map(|i| bulk(&format!("f{i}"), "a", "b", &rest));
            let (_, packets, rates) = both(&dumbbell(CORE, &flows.collect::<String>()));
            let sum = |ran: &Ran| ran.flows.iter().map(FlowResult::mean_goodput).sum::<f64>();
            near(&format!("{control} x {count}"), sum(&packets), sum(&rates), 5.05);
        }
    }
}
#[test]
fn rtts() {
    for control in ["reno", "cubic", "bbr"] {
        let rest = format!("control = \"{control}\"");
        let text = dumbbell(CORE, &(bulk("near", "a", "b", &rest) + &bulk("far", "c", "d", &rest)));
        let text = text.replace("30 s", "120 s");
        let (_, packets, rates) = both(&text);
        near(&format!("{control} near"), packets.goodput("near"), rates.goodput("near"), 5.05);
        near(&format!("{control} far"), packets.goodput("far"), rates.goodput("far"), 5.05);
    }
}
#[test]
fn transfers() {
    for size in ["1 kB", "10 kB", "50 kB", "200 kB", "1 MB", "5 MB"] {
        let rest = format!("size = \"{size}\"\ncount = 20\nthink = \"100 ms\"\n");
        let text = dumbbell(CORE, &bulk("f", "a", "b", &rest)).replace("30 s", "300 s");
        let (_, packets, rates) = both(&text);
        near(size, packets.completion("f"), rates.completion("f"), 5.15);
    }
}
