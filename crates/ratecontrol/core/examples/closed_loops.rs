//! How RCP, PIQI-RCP and ERICA reach their rates: convergence, overshoot, queues, control packets;
//! on an ideal network, where queues delay neither control packets nor data.
//!
//! Prints for one bottleneck: when the last rate came within 12 % of the oracle's (targets are 95 %
//! of a link, and ERICA tolerates an overload of 10 %), the highest load, the time for which it was
//! above 105 %, the queue of a fluid, errors at the end as mean (10th, 90th percentile) in percent,
//! and control packets per session in the last second.
//!
//! `cargo run --release -p netarium-ratecontrol-core --example closed_loops`
#![expect(clippy::print_stdout)]

use base::{Bandwidth, RandomStream, Span, Time};
use ratecontrol::exchange::{Exchange, Wire};
use ratecontrol::{MAX_RATE, Protocol, RateController, Result, Settings, Visitor};

const NO_LIMIT: Bandwidth = Bandwidth::from_bits_per_sec(MAX_RATE);
const STEP: u64 = 5;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn wire(mbits: u64, micros: u64) -> Wire {
    Wire::new(Bandwidth::from_mbits_per_sec(mbits), Span::from_micros(micros))
}

/// A network and its sessions: join time, path, and leave time of each.
struct Scenario {
    name: String,
    wires: Vec<Wire>,
    sessions: Vec<(u64, Vec<u32>, Option<u64>)>,
    /// Milliseconds from the start.
    from: u64,
    until: u64,
}

/// Errors of all sessions at one instant, in percent.
fn errors<R: RateController>(net: &Exchange<R>) -> Vec<f64> {
    let fair = net.fair_rates().into_iter();
    let with_rate = fair.filter_map(|(id, fair)| Some((net.rate(id)?, fair)));
    let mut errors: Vec<f64> =
        with_rate.map(|(rate, fair)| (rate.bits_per_sec() as f64 / fair - 1.0) * 100.0).collect();
    errors.sort_unstable_by(f64::total_cmp);
    errors
}

/// Mean, 10th and 90th percentile.
fn summary(errors: &[f64]) -> String {
    let Some(last) = errors.len().checked_sub(1) else { return String::new() };
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let percentile = |share: usize| errors[last * share / 10];
    format!("{mean:.1} ({:.1}, {:.1})", percentile(1), percentile(9))
}

/// Runs protocols on a scenario with one bottleneck, link 0.
struct Settle<'a>(&'a Scenario);

impl Visitor for Settle<'_> {
    type Output = Result<String>;

    fn visit<R: RateController>(self) -> Self::Output {
        let Scenario { wires, sessions, from, until, .. } = self.0;
        let mut net = Exchange::<R>::try_new(&Settings::default(), wires)?;
        for (join, path, _) in sessions {
            net.join(at(*join), path, NO_LIMIT)?;
        }
        let capacity = wires[0].capacity.bits_per_sec() as f64;
        let (mut peak, mut over, mut settled) = (0.0_f64, 0, *from);
        let (mut queue, mut longest, mut packets) = (0.0_f64, 0.0_f64, 0);
        net.run_until(at(*from))?;
        for now in (*from..*until).step_by(STEP as usize) {
            net.run_until(at(now))?;
            let crossing = net.present().filter(|id| sessions[id.0 as usize].1.contains(&0));
            let rates = crossing.map(|id| net.rate(id).unwrap_or_default().bits_per_sec());
            let load = rates.sum::<u64>() as f64 / capacity;
            peak = peak.max(load);
            over += u64::from(load > 1.05) * STEP;
            queue = (queue + (load - 1.0) * STEP as f64).max(0.0);
            longest = longest.max(queue);
            let errors = errors(&net);
            if errors.len() < sessions.len() || errors.iter().any(|error| error.abs() > 12.0) {
                settled = now + STEP;
            }
            if now < until - 1000 {
                packets = net.counters().cycles;
            }
        }
        let settled = if settled < *until { format!("{}", settled - from) } else { "-".into() };
        let rate = (net.counters().cycles - packets) / sessions.len() as u64;
        Ok(format!(
            "settled {settled:>6} ms  peak {:>6.0} %  over {over:>6} ms  queue {longest:>7.0} ms  \
             errors {:<22}  {rate:>4} packets/s",
            peak * 100.0,
            summary(&errors(&net)),
        ))
    }
}

/// Runs protocols on a scenario of many links and prints errors over time.
struct Churn<'a>(&'a Scenario);

impl Visitor for Churn<'_> {
    type Output = Result<String>;

    fn visit<R: RateController>(self) -> Self::Output {
        let Scenario { wires, sessions, until, .. } = self.0;
        let mut net = Exchange::<R>::try_new(&Settings::default(), wires)?;
        for (join, path, leave) in sessions {
            let id = net.join(at(*join), path, NO_LIMIT)?;
            if let Some(leave) = leave {
                net.leave(at(*leave), id)?;
            }
        }
        let mut lines = vec![String::new()];
        for now in [200, 300, 500, 700, 900, 1200, 2000, 4000, 8000] {
            if now <= *until {
                net.run_until(at(now))?;
                lines.push(format!("    {now:>5} ms  {}", summary(&errors(&net))));
            }
        }
        let crossings = net.counters().crossings as f64 / 1e6;
        Ok(format!("{crossings:.1} M crossings of control packets{}", lines.join("\n")))
    }
}

fn one_bottleneck() -> Vec<Scenario> {
    let mut all = Vec::new();
    for count in [2, 10, 100] {
        all.push(Scenario {
            name: format!("{count} sessions, 80 ms, 100 Mbit/s"),
            wires: vec![wire(100, 40_000)],
            sessions: (0..count).map(|id| (id * 7 % 100, vec![0], None)).collect(),
            from: 0,
            until: 30_000,
        });
    }
    all.push(Scenario {
        name: "12 sessions, 2 to 200 ms, 100 Mbit/s".into(),
        wires: vec![wire(100, 100), wire(1000, 900), wire(1000, 9_900), wire(1000, 99_900)],
        sessions: (0..12).map(|id| (0, vec![0, 1 + id % 3], None)).collect(),
        from: 0,
        until: 30_000,
    });
    let long = (0..2).map(|_| (0, vec![0, 1, 2], None));
    let short = (0..9).map(|id| (0, vec![id % 3], None));
    all.push(Scenario {
        name: "parking lot, 60, 100, 100 Mbit/s, 20 ms a link".into(),
        wires: vec![wire(60, 10_000), wire(100, 10_000), wire(100, 10_000)],
        sessions: long.chain(short).collect(),
        from: 0,
        until: 30_000,
    });
    all.push(Scenario {
        name: "100 join 1 at once, 80 ms, 100 Mbit/s".into(),
        wires: vec![wire(100, 40_000)],
        sessions: (0..=100).map(|id| (id.min(1) * 10_000, vec![0], None)).collect(),
        from: 10_000,
        until: 60_000,
    });
    all
}

/// A small version of experiment 1a of the SLBN paper: 2,000 sessions join within 500 ms, then 400
/// leave and 400 join within 200 ms; paths of 8 out of 60 links of 1 Gbit/s between links of hosts
/// of 100 Mbit/s.
fn churn() -> Scenario {
    let mut rng = RandomStream::new(1, "closed_loops");
    let mut wires: Vec<_> = (0..60).map(|_| wire(1000, 1000 + rng.below(9000))).collect();
    let mut sessions = Vec::new();
    for id in 0..2400_u64 {
        let mut path = vec![wires.len() as u32];
        while path.len() < 9 {
            let link = rng.below(60) as u32;
            if !path.contains(&link) {
                path.push(link);
            }
        }
        path.push(wires.len() as u32 + 1);
        wires.extend([wire(100, 1), wire(100, 1)]);
        let join = if id < 2000 { rng.below(500) } else { 500 + rng.below(200) };
        sessions.push((join, path, (id < 400).then(|| 500 + rng.below(200))));
    }
    Scenario { name: "1a in small".into(), wires, sessions, from: 0, until: 8000 }
}

fn main() -> Result<()> {
    let protocols = [Protocol::Rcp, Protocol::PiqiRcp, Protocol::Erica];
    for scenario in one_bottleneck() {
        println!("{}", scenario.name);
        for protocol in protocols {
            let text = protocol.run(Settle(&scenario))?;
            println!("  {:<9} {text}", protocol.name());
        }
    }
    let scenario = churn();
    println!("{}: errors in %, mean (10th, 90th percentile)", scenario.name);
    for protocol in protocols {
        let text = protocol.run(Churn(&scenario))?;
        println!("  {:<9} {text}", protocol.name());
    }
    Ok(())
}
