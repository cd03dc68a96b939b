//! The collapsed model with simulated TCP: shares compared with the solver, and resulting rates.

use std::fmt::Write as _;
use std::path::Path;

use base::{Bandwidth, RandomStream, Span, Time};
use fabric::Share;
use lab::Overrides;
use lab::plan::{Model, Plan};
use lab::routes::Routes;
use sharing::{Demand, Problem, Sharing};
use sim::{Engine as _, Simulation};

use super::labs;

/// Payload of a full segment per wire byte: time stamps, TCP, IPv4, Ethernet.
const PAYLOAD: f64 = 1448.0 / 1538.0;

/// Two routers with three hosts each; RTTs of 24, 44 and 64 ms.
fn dumbbell(settings: &str, flows: &str) -> Plan {
    let mut text = format!("[lab]\nmodel = \"collapsed\"\nduration = \"20 s\"\n{settings}\n");
    text += "[node.west]\nkind = \"router\"\n[node.east]\nkind = \"router\"\n\
             [[link]]\nends = [\"west\", \"east\"]\nrate = \"12 Mbit/s\"\ndelay = \"10 ms\"\n";
    for (host, delay) in [("a", 1), ("b", 11), ("c", 21)] {
        for (side, router) in [("0", "west"), ("1", "east")] {
            let delay = if side == "0" { delay } else { 1 };
            write!(
                text,
                "[node.{host}{side}]\n[[link]]\nends = [\"{host}{side}\", \"{router}\"]\n\
                 rate = \"100 Mbit/s\"\ndelay = \"{delay} ms\"\n"
            )
            .unwrap();
        }
    }
    labs::plan(&(text + flows))
}

fn bulk(host: &str) -> String {
    format!(
        "[[flow]]\nname = \"{host}\"\nfrom = \"{host}0\"\nto = \"{host}1\"\n\
         control = \"cubic\"\n"
    )
}

/// Mean goodput over the second half, in wire Mbit/s.
fn rates(plan: &Plan) -> Vec<f64> {
    let ran = labs::run(plan);
    let half = Time::from_nanos(plan.duration.as_nanos() / 2);
    let rate = |flow: &run::FlowResult| {
        let samples = ran.samples.iter().filter(|s| s.flow == flow.id && s.at > half);
        let bytes: u64 = samples.map(|sample| sample.received_bytes).sum();
        bytes as f64 * 8.0 / (plan.duration.as_secs_f64() / 2.0) / 1e6 / PAYLOAD
    };
    ran.results.iter().map(rate).collect()
}

#[test]
fn streams_get_shares_in_inverse_proportion_to_their_round_trips() {
    let flows = ["a", "b", "c"].map(bulk).concat();
    let weights = [1.0 / 24.0, 1.0 / 44.0, 1.0 / 64.0];
    let sum: f64 = weights.iter().sum();
    for (rate, weight) in rates(&dumbbell("", &flows)).iter().zip(weights) {
        assert!((rate / (12.0 * weight / sum) - 1.0).abs() < 0.02, "{rate}");
    }
    for rate in rates(&dumbbell("sharing = \"max-min\"", &flows)) {
        assert!((rate / 4.0 - 1.0).abs() < 0.02, "{rate}");
    }
    for rate in rates(&dumbbell("sharing = \"slbn\"", &flows)) {
        assert!((rate / 4.0 - 1.0).abs() < 0.02, "{rate}");
    }
    for rate in rates(&dumbbell("sharing = \"none\"", &flows)) {
        assert!((rate / 12.0 - 1.0).abs() < 0.02, "{rate}");
    }
    let capped = rates(&dumbbell("window = \"16 KiB\"", &flows));
    for (rate, round_trip) in capped.iter().zip([24.0f64, 44.0, 64.0]) {
        let cap = 16_384.0 * 8.0 / round_trip / 1e3;
        let share = cap.min(12.0 * (1.0 / round_trip) / sum);
        assert!((rate / share - 1.0).abs() < 0.02, "{rate} of {share}");
    }
}

#[test]
fn other_streams_use_capacity_lost_to_loss() {
    let flows = ["a", "b"].map(bulk).concat();
    let mut plan = dumbbell("sharing = \"max-min\"", &flows);
    let access = plan.link("a0-west").unwrap();
    let lossy = fabric::Loss::Bernoulli("2 %".parse().unwrap());
    plan.links[access.index()].directions[0].loss = lossy;
    let rates = rates(&plan);
    // 6 of 12 Mbit/s each without losses; the square root law of Mathis gives 4.4 to
    // the lossy flow.
    assert!((2.0..5.5).contains(&rates[0]), "{rates:?}");
    assert!((10.5..12.1).contains(&(rates[0] + rates[1])), "{rates:?}");
}

#[test]
fn parallel_connections_are_flows_of_their_own() {
    let plan = dumbbell("", &(bulk("a") + "streams = 3\n" + &bulk("b").replace("b0", "a0")));
    let rates = rates(&plan);
    assert!((rates[0] / rates[1] / 3.0 - 1.0).abs() < 0.05, "{rates:?}");
}

/// The egress interfaces on a flow's path.
fn hops(plan: &Plan, routes: &Routes, share: &Share) -> Vec<u32> {
    let dest = plan.ifaces[share.to.index()].node;
    let mut hops = vec![share.from];
    loop {
        let last = hops[hops.len() - 1];
        let iface = &plan.ifaces[last.index()];
        let node = plan.links[iface.link.index()].ends[1 - iface.sends.index()];
        if node == dest {
            return hops.into_iter().map(|hop| hop.0).collect();
        }
        let next = routes.next(node, share.to);
        hops.push(match next.len() {
            1 => next[0],
            several => next[fabric::ecmp(share.flow, node, several)],
        });
    }
}

/// Reference: the shares computed from scratch.
fn from_scratch(plan: &Plan, routes: &Routes, shares: &[Share]) -> Vec<f64> {
    let delay = |hop: &u32| {
        let iface = &plan.ifaces[*hop as usize];
        plan.links[iface.link.index()].directions[iface.sends.index()].delay
    };
    let rate = |direction: usize| match &plan.links[direction / 2].directions[direction % 2].rate {
        fabric::Rate::Constant(rate) => rate.bits_per_sec() as f64,
        _ => f64::INFINITY,
    };
    let flows = shares.iter().map(|share| {
        let path = hops(plan, routes, share);
        let there = path.iter().map(delay).fold(Span::ZERO, |a, b| a + b);
        let weight = match plan.model {
            Model::Collapsed(law) if law.sharing == Sharing::Slbn => 1.0,
            _ => sharing::tcp::weight(sharing::tcp::round_trip(there, there)),
        };
        let most = |rate: Bandwidth| rate.bits_per_sec() as f64;
        Demand { path, weight, cap: share.most.map_or(f64::INFINITY, most) }
    });
    Problem { flows: flows.collect(), capacities: (0..plan.links.len() * 2).map(rate).collect() }
        .solve()
}

/// A tree of routers with hosts, and transfers that start and end.
fn churn(seed: u64) -> Plan {
    let mut random = RandomStream::new(seed, "lab");
    let mut draw = |below: f64| (random.unit() * below) as u64;
    let mut text = format!("[lab]\nmodel = \"collapsed\"\nduration = \"4 s\"\nseed = {seed}\n");
    for router in 0..8u64 {
        write!(text, "[node.r{router}]\nkind = \"router\"\n[node.h{router}]\n").unwrap();
        let mut links = vec![(format!("h{router}"), 20 + draw(80.0))];
        if router > 0 {
            links.push((format!("r{}", draw(router as f64)), 5 + draw(20.0)));
        }
        for (end, rate) in links {
            let delay = 1 + draw(20.0);
            write!(
                text,
                "[[link]]\nends = [\"{end}\", \"r{router}\"]\nrate = \"{rate} Mbit/s\"\n\
                 delay = \"{delay} ms\"\n"
            )
            .unwrap();
        }
    }
    for flow in 0..30 {
        let (from, step) = (draw(8.0), 1 + draw(7.0));
        let (start, size) = (draw(3_000.0), 20 + draw(2_000.0));
        write!(
            text,
            "[[flow]]\nname = \"f{flow}\"\nfrom = \"h{from}\"\nto = \"h{}\"\nstart = \"{start} ms\"\
             \ncontrol = \"cubic\"\nsize = \"{size} kB\"\n",
            (from + step) % 8
        )
        .unwrap();
    }
    labs::plan(&text)
}

#[test]
fn shares_are_those_of_the_solver_at_every_moment() {
    let mut seen = 0;
    for seed in 0..4 {
        let plan = churn(seed);
        let up = vec![true; plan.links.len()];
        let routes = Routes::compute(&plan, &up);
        let mut simulation = Simulation::try_new(&plan).unwrap();
        for step in 1..200 {
            simulation.advance(Time::ZERO + Span::from_millis(20) * step);
            let shares = simulation.shares();
            for (share, exact) in shares.iter().zip(from_scratch(&plan, &routes, &shares)) {
                let given = share.share.unwrap().bits_per_sec() as f64;
                assert!((given - exact).abs() <= 1e-6 * exact + 1.0, "{given} for {exact}");
                seen += 1;
            }
        }
    }
    assert!(seen > 2_000, "{seen}");
}

/// Number of shares within 1 % of the reference, and number of all shares; once for samples at
/// least 100 ms after the lab's last change, once for all samples.
fn near(plan: &Plan, step: Span) -> [(usize, usize); 2] {
    let routes = Routes::compute(plan, &vec![true; plan.links.len()]);
    let mut simulation = Simulation::try_new(plan).unwrap();
    let (mut calm, mut all) = ((0, 0), (0, 0));
    let mut demands = Vec::new();
    let mut changed = Time::ZERO;
    while simulation.now() < Time::ZERO + plan.duration && !simulation.is_done() {
        let at = simulation.now() + step;
        simulation.advance(at);
        let shares = simulation.shares();
        let asked: Vec<_> = shares.iter().map(|s| (s.from, s.to, s.flow, s.most)).collect();
        if asked != demands {
            (demands, changed) = (asked, at);
        }
        for (share, exact) in shares.iter().zip(from_scratch(plan, &routes, &shares)) {
            let given = share.share.unwrap().bits_per_sec() as f64;
            let is_near = usize::from((given - exact).abs() <= exact / 100.0);
            all = (all.0 + is_near, all.1 + 1);
            if at.since(changed) >= Span::from_millis(100) {
                calm = (calm.0 + is_near, calm.1 + 1);
            }
        }
    }
    [calm, all]
}

#[test]
fn members_that_probe_agree_on_max_min_fair_shares() {
    let mut calm = 0;
    for seed in 0..4 {
        let mut plan = churn(seed);
        let Model::Collapsed(law) = &mut plan.model else { panic!("the lab is collapsed") };
        law.sharing = Sharing::Slbn;
        let [(near_then, then), (near, all)] = near(&plan, Span::from_millis(10));
        assert_eq!(near_then, then, "{seed}");
        // The demands of flows change continuously.
        assert!(near * 100 >= all * 85, "{seed}: {near} of {all}");
        calm += then;
    }
    assert!(calm > 500, "{calm}");
}

#[test]
fn the_labs_of_splaynet_are_shared_max_min_fairly_by_probes() {
    for (name, window) in
        [("dumbbell", "auto"), ("fan-in", "auto"), ("fan-out", "auto"), ("worked-example", "off")]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../labs/splaynet");
        let path = path.join(name).with_extension("toml");
        let settings =
            [("lab.model", "collapsed"), ("lab.sharing", "slbn"), ("lab.window", window)];
        let set = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let overrides = Overrides { set, ..Overrides::default() };
        let mut plan = lab::load(&path, &overrides).unwrap().plans.remove(0);
        plan.duration = Span::from_secs(40);
        let [calm, _] = near(&plan, Span::from_millis(50));
        assert!(calm.1 > 500 && calm.0 == calm.1, "{name}: {calm:?}");
    }
}
