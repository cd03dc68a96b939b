//! Compares the fluid engine with the packet engine: transfers with Pareto-distributed sizes arrive
//! as a Poisson process and share one link. Prints a table.
#![expect(clippy::print_stdout, reason = "its table is what it is for")]

use std::error::Error;
use std::path::Path;

use base::{Histogram, Span, Time};
use lab::plan::{Model, Plan};
use run::Transfer;
use sim::Engine as _;

struct Ran {
    transfers: Vec<Transfer>,
    again: u64,
    waits: Histogram,
}

impl Ran {
    /// Mean completion time of transfers with a size in `range`, in ms.
    fn completion(&self, range: [u64; 2]) -> f64 {
        let within = |t: &&Transfer| (range[0]..range[1]).contains(&t.size.count());
        let times = self.transfers.iter().filter(within).filter_map(|t| t.completion);
        let (sum, count) =
            times.fold((0.0, 0.0), |(sum, count), t| (sum + t.as_secs_f64(), count + 1.0));
        1e3 * sum / count
    }
}

macro_rules! run {
    ($plan:expr, $engine:ty) => {{
        let mut sim = <$engine>::try_new($plan)?;
        let end = Time::ZERO + $plan.duration;
        let mut transfers = Vec::new();
        while sim.now() < end && !sim.is_done() {
            sim.advance((sim.now() + Span::from_millis(100)).min(end));
            sim.sample(&mut |_| {});
            transfers.extend(sim.transfers());
        }
        sim.stop();
        let waits = sim.take_queue_delays().swap_remove(0);
        let again = sim.results().iter().filter_map(|flow| flow.retransmits).sum();
        Ran { transfers, again, waits }
    }};
}

/// One sender and one bottleneck; the RTT without queueing is 24 ms.
fn plan(mbit: u32, packets: u32, load: u32, control: &str, seed: u32) -> Result<Plan, String> {
    let wire = "rate = \"1 Gbit/s\"\ndelay = \"1 ms\"";
    let text = format!(
        r#"
        [lab]
        name = "agreement"
        duration = "1000 s"
        seed = {seed}
        [node]
        a = {{}}
        b = {{}}
        r = {{ kind = "router" }}
        s = {{ kind = "router" }}
        [[link]]
        name = "core"
        ends = ["r", "s"]
        rate = "{mbit} Mbit/s"
        delay = "10 ms"
        queue = {{ kind = "droptail", limit = "{packets} packets" }}
        [[link]]
        ends = ["a", "r"]
        {wire}
        [[link]]
        ends = ["s", "b"]
        {wire}
        [[flow]]
        name = "transfers"
        from = "a"
        to = "b"
        control = "{control}"
        size = {{ pareto = "100 kB", limit = "5 MB" }}
        count = 5000
        arrivals = {{ load = "{load} %", of = "core" }}
        "#
    );
    let mut lab = lab::parse("agreement.toml", &text, Path::new(""))
        .map_err(|errors| format!("{errors:?}"))?;
    Ok(lab.plans.remove(0))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("| link, queue, load | size | packets | fluid | |\n|---|---|--:|--:|--:|");
    let cases = [
        (20, 60, 30, "cubic"),
        (20, 60, 60, "cubic"),
        (20, 60, 60, "reno"),
        (20, 60, 80, "cubic"),
        (20, 200, 60, "cubic"),
        (100, 60, 60, "cubic"),
    ];
    for (mbit, limit, load, control) in cases {
        let mut plan = plan(mbit, limit, load, control, 1)?;
        let packets = run!(&plan, sim::Simulation);
        plan.model = Model::Fluid;
        let fluid = run!(&plan, sim::fluid::Simulation);
        let row = |what: &str, packets: f64, fluid: f64, unit: &str| {
            let error = 100.0 * (fluid / packets - 1.0);
            let case = format!("{control}, {mbit} Mbit/s, {limit} packets, {load} %");
            println!("| {case} | {what} | {packets:.1}{unit} | {fluid:.1}{unit} | {error:+.0} % |");
        };
        let classes = [
            ("below 40 kB", [0, 40_000]),
            ("to 100 kB", [40_000, 100_000]),
            ("to 300 kB", [100_000, 300_000]),
            ("above", [300_000, u64::MAX]),
            ("all", [0, u64::MAX]),
        ];
        for (what, range) in classes {
            row(what, packets.completion(range), fluid.completion(range), " ms");
        }
        row("segments sent again", packets.again as f64, fluid.again as f64, "");
        row("mean wait", packets.waits.mean() / 1e6, fluid.waits.mean() / 1e6, " ms");
    }
    Ok(())
}
