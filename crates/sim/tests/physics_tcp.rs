//! Golden physics of TCP: lab in, table out.

use std::fmt::Write;
use std::path::Path;

use base::{Span, Time};
use sim::Simulation;

/// Bulk flows over one bottleneck, each started a tenth of a second after the one before.
struct Bottleneck {
    kbits: u64,
    rtt_ms: u64,
    buffer: &'static str,
    loss: &'static str,
    controls: Vec<&'static str>,
    /// Measured from the first to the second of these moments.
    seconds: (u64, u64),
    seed: u64,
}

/// What the flows got, all in the same interval.
struct Measured {
    /// Payload in bit/s of each flow.
    goodput: Vec<f64>,
    /// Segments sent again, of all flows.
    retransmits: u64,
    timeouts: u64,
    /// Milliseconds that packets waited in the bottleneck's queue, since the start.
    queue_mean: f64,
    queue_p99: f64,
}

impl Default for Bottleneck {
    fn default() -> Self {
        Self {
            kbits: 10_000,
            rtt_ms: 40,
            buffer: "1 bdp",
            loss: "0 %",
            controls: vec!["cubic"],
            seconds: (3, 15),
            seed: 1,
        }
    }
}

impl Bottleneck {
    fn lab(&self) -> String {
        let Self { kbits, rtt_ms, buffer, loss, seconds, seed, .. } = self;
        let mut lab = format!(
            r#"
            [lab]
            name = "physics"
            seed = {seed}
            duration = "{} s"
            [node.a]
            [node.b]
            [[link]]
            ends = ["a", "b"]
            delay = "{} us"
            up = {{ rate = "{kbits} kbit/s", loss = "{loss}", queue = "{buffer}" }}
            down = {{ rate = "1 Gbit/s", queue = "1000 packets" }}
            "#,
            seconds.1,
            rtt_ms * 500
        );
        for (n, control) in self.controls.iter().enumerate() {
            write!(
                lab,
                r#"
                [[flow]]
                name = "f{n:02}"
                from = "a"
                to = "b"
                transport = "tcp"
                start = "{} ms"
                control = "{control}"
                "#,
                n * 100
            )
            .unwrap();
        }
        lab
    }

    fn run(&self) -> Measured {
        let lab = lab::parse("physics.toml", &self.lab(), Path::new("")).unwrap();
        let mut simulation = Simulation::try_new(&lab.plans[0]).unwrap();
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        simulation.advance(at(self.seconds.0));
        simulation.sample(|_| ());
        simulation.advance(at(self.seconds.1));
        let mut measured = Measured {
            goodput: Vec::new(),
            retransmits: 0,
            timeouts: 0,
            queue_mean: 0.0,
            queue_p99: 0.0,
        };
        let span = (self.seconds.1 - self.seconds.0) as f64;
        simulation.sample(|sample| {
            measured.goodput.push(sample.received_bytes as f64 * 8.0 / span);
            measured.retransmits += sample.retransmits.unwrap_or(0);
        });
        let waits = &simulation.queue_delays()[0];
        measured.queue_mean = waits.mean() / 1e6;
        measured.queue_p99 = waits.percentile(0.99) as f64 / 1e6;
        measured.timeouts = simulation.results().iter().filter_map(|flow| flow.timeouts).sum();
        measured
    }
}

impl Measured {
    fn total(&self) -> f64 {
        self.goodput.iter().sum()
    }

    /// Jain's index of fairness.
    fn fairness(&self) -> f64 {
        let squares: f64 = self.goodput.iter().map(|rate| rate * rate).sum();
        self.total().powi(2) / (self.goodput.len() as f64 * squares)
    }
}

#[test]
fn explore() {
    for control in ["reno", "cubic", "bbr", "bbr3"] {
        for loss in ["0 %", "0.1 %", "1 %"] {
            for rtt_ms in [10, 80] {
                for buffer in ["0.25 bdp", "1 bdp", "4 bdp"] {
                    let m = Bottleneck {
                        rtt_ms,
                        buffer,
                        loss,
                        controls: vec![control],
                        ..Bottleneck::default()
                    }
                    .run();
                    println!(
                        "{control} {loss} {rtt_ms} {buffer}: {:.3} Mbit/s retr {} to {} q {:.1} p99 {:.1}",
                        m.total() / 1e6,
                        m.retransmits,
                        m.timeouts,
                        m.queue_mean,
                        m.queue_p99
                    );
                }
            }
        }
    }
}
#[test]
fn explore_fair() {
    for control in ["reno", "cubic", "bbr", "bbr3"] {
        for n in [2, 8, 32] {
            for buffer in ["0.5 bdp", "2 bdp"] {
                let m = Bottleneck {
                    kbits: 40_000,
                    rtt_ms: 40,
                    seconds: (10, 40),
                    buffer,
                    controls: vec![control; n],
                    ..Bottleneck::default()
                }
                .run();
                println!(
                    "{control} {n} {buffer}: {:.3} Mbit/s retr {} to {} q {:.1} p99 {:.1} jain {:.3} min {:.2} max {:.2}",
                    m.total() / 1e6,
                    m.retransmits,
                    m.timeouts,
                    m.queue_mean,
                    m.queue_p99,
                    m.fairness(),
                    m.goodput.iter().copied().fold(f64::MAX, f64::min) / 1e6,
                    m.goodput.iter().copied().fold(0.0, f64::max) / 1e6
                );
            }
        }
    }
}
#[test]
fn explore_mathis() {
    for loss in [0.03, 0.1, 0.3, 1.0, 3.0_f64] {
        for rtt_ms in [20, 100] {
            let mut sum = 0.0;
            let mut to = 0;
            for seed in 1..=3 {
                let name: &'static str = format!("{loss} %").leak();
                let m = Bottleneck {
                    kbits: 1_000_000,
                    rtt_ms,
                    seconds: (2, 60),
                    loss: name,
                    buffer: "2000 packets",
                    seed,
                    controls: vec!["reno"],
                    ..Bottleneck::default()
                }
                .run();
                sum += m.total() / 3.0;
                to += m.timeouts;
            }
            let mathis = 1448.0 * 8.0 / (rtt_ms as f64 / 1e3) * (1.5 / (loss / 100.0)).sqrt();
            println!(
                "{loss} {rtt_ms}: {:.3} Mbit/s mathis {:.3} ratio {:.3} to {to}",
                sum / 1e6,
                mathis / 1e6,
                sum / mathis
            );
        }
    }
}
