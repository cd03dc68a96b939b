//! Effects of lost control packets on SLBN: plain, and with epochs.
//!
//! 400 sessions on a network of hosts, edge routers and a ring of core routers join within 500 ms;
//! from then on 20 leave and 20 others join per second. Each crossing of a link loses a control
//! packet with the probability of the row. From 2 s to 12 s rates are compared with the oracle's
//! every 50 ms; a session without a rate has an error of 100 %. Numbers and bytes are those of the
//! link with the most. Then loss and churn end, and one source in ten fails without Leave.
//!
//! `cargo run --release -p netarium-ratecontrol-core --example control_loss`
#![expect(clippy::print_stdout)]

use base::{Bandwidth, RandomStream, Ratio, Span, Time};
use ratecontrol::exchange::{Exchange, Wire};
use ratecontrol::slbn::{Epochs, Link, Slbn, epochs};
use ratecontrol::{RateController, Result, SessionId, Settings};

const CORES: u32 = 4;
const EDGES: u32 = 16;
const HOSTS: u32 = 800;
const SESSIONS: u32 = 400;
const CHURN: u64 = 20;
/// Milliseconds from the start.
const FROM: u64 = 2_000;
const UNTIL: u64 = 12_000;
const STEP: u64 = 50;
const TIMEOUT: u64 = 20_000;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Directed links: to and from each host, to and from each edge router, around the core
/// in both directions.
struct Network {
    wires: Vec<Wire>,
}

impl Network {
    fn draw(rng: &mut RandomStream) -> Self {
        let mut wires = Vec::new();
        let mut pair = |count: u32, mbits: u64, delay: &mut dyn FnMut() -> u64| {
            for _ in 0..count {
                let delay = Span::from_micros(delay());
                let wire = Wire::new(Bandwidth::from_mbits_per_sec(mbits), delay);
                wires.extend([wire, wire]);
            }
        };
        pair(HOSTS, 100, &mut || 1);
        pair(EDGES, 1_000, &mut || 1_000 + rng.below(9_000));
        pair(CORES, 2_000, &mut || 1_000 + rng.below(9_000));
        Self { wires }
    }

    /// Path from host `from` to host `to`.
    fn path(from: u32, to: u32) -> Vec<u32> {
        let edge = |host: u32| host % EDGES;
        let core = |host: u32| edge(host) % CORES;
        let mut path = vec![2 * from + 1];
        if edge(from) != edge(to) {
            path.push(2 * (HOSTS + edge(from)) + 1);
            let ahead = (core(to) + CORES - core(from)) % CORES;
            let mut now = core(from);
            for _ in 0..ahead.min(CORES - ahead) {
                let back = (now + CORES - 1) % CORES;
                let (link, next) = if ahead <= CORES / 2 {
                    (2 * (HOSTS + EDGES + now), (now + 1) % CORES)
                } else {
                    (2 * (HOSTS + EDGES + back) + 1, back)
                };
                path.push(link);
                now = next;
            }
            path.push(2 * (HOSTS + edge(to)));
        }
        path.push(2 * to);
        path
    }
}

/// Links that report the number of sessions that they count.
trait Counting {
    fn sessions(&self) -> i64;
}

impl<F: ratecontrol::slbn::Form> Counting for Link<F> {
    fn sessions(&self) -> i64 {
        self.integers().2 as i64
    }
}

impl Counting for epochs::Link {
    fn sessions(&self) -> i64 {
        self.integers().2
    }
}

/// A run and its measurements.
struct Run<R: RateController> {
    exchange: Exchange<R>,
    rng: RandomStream,
    /// |error| of each session at each sample, as a share of its fair rate.
    errors: Vec<f64>,
    /// Sum of the errors: negative if rates are too low on average.
    bias: f64,
    /// Number of sampled links in use, and of those overbooked by more than 5 %.
    links: (u64, u64),
}

impl<R: RateController> Run<R> {
    fn new(loss: Ratio) -> Result<Self> {
        let mut rng = RandomStream::new(7, "control loss");
        let network = Network::draw(&mut rng);
        let mut exchange = Exchange::try_new(&Settings::default(), &network.wires)?;
        exchange.lose(loss, 7);
        let mut run = Self { exchange, rng, errors: Vec::new(), bias: 0.0, links: (0, 0) };
        for _ in 0..SESSIONS {
            let start = at(run.rng.below(500));
            run.join(start)?;
        }
        Ok(run)
    }

    fn join(&mut self, start: Time) -> Result<()> {
        let from = self.rng.below(u64::from(HOSTS)) as u32;
        let to = (from + 1 + self.rng.below(u64::from(HOSTS) - 1) as u32) % HOSTS;
        // Half of the sessions request at most a few Mbit/s.
        let demand = match self.rng.below(2) {
            0 => Bandwidth::from_bits_per_sec(u64::MAX),
            _ => Bandwidth::from_bits_per_sec(1_000_000 + self.rng.below(9_000_000)),
        };
        self.exchange.join(start, &Network::path(from, to), demand)?;
        Ok(())
    }

    fn churn(&mut self) -> Result<()> {
        for _ in 0..CHURN * STEP / 1_000 {
            let present: Vec<SessionId> = self.exchange.present().collect();
            let leaver = present[self.rng.below(present.len() as u64) as usize];
            self.exchange.leave(self.exchange.now(), leaver)?;
            self.join(self.exchange.now())?;
        }
        Ok(())
    }

    fn sample(&mut self) {
        let mut load = vec![0.0; self.exchange.links()];
        for (session, fair) in self.exchange.fair_rates() {
            let rate = self.exchange.rate(session).map_or(0.0, |rate| rate.bits_per_sec() as f64);
            self.errors.push((rate / fair - 1.0).abs());
            self.bias += rate / fair - 1.0;
            for link in self.exchange.path_of(session).unwrap_or_default() {
                load[*link as usize] += rate;
            }
        }
        for (link, load) in load.iter().enumerate().filter(|(_, load)| **load > 0.0) {
            let mbits = match link as u32 / 2 {
                ..HOSTS => 100.0,
                link if link < HOSTS + EDGES => 1_000.0,
                _ => 2_000.0,
            };
            self.links.0 += 1;
            self.links.1 += u64::from(*load > mbits * 1.05e6);
        }
    }

    /// Milliseconds until each link counts exactly the existing sessions.
    fn reclaim(&mut self) -> Result<Option<u64>>
    where
        R::Link: Counting,
    {
        self.exchange.lose(Ratio::ZERO, 0);
        let present: Vec<SessionId> = self.exchange.present().collect();
        for session in present.iter().step_by(10) {
            self.exchange.kill(*session)?;
        }
        let mut truth = vec![0; self.exchange.links()];
        for session in self.exchange.present() {
            for link in self.exchange.path_of(session).unwrap_or_default() {
                truth[*link as usize] += 1;
            }
        }
        for waited in (0..TIMEOUT).step_by(10) {
            self.exchange.run_until(at(UNTIL + waited))?;
            // A link without sessions is skipped.
            let mut links = (0..).zip(&truth).filter(|(_, truth)| **truth > 0);
            if links.all(|(link, truth)| {
                self.exchange.link(link).is_some_and(|link| link.sessions() == *truth)
            }) {
                return Ok(Some(waited));
            }
        }
        Ok(None)
    }
}

fn row<R: RateController>(name: &str, loss: u64) -> Result<()>
where
    R::Link: Counting,
{
    let probability = Ratio::from_parts_per_billion(loss * 10_000_000);
    let mut run = Run::<R>::new(probability)?;
    run.exchange.run_until(at(500))?;
    let mut before = 0;
    for now in (500..UNTIL).step_by(STEP as usize) {
        run.exchange.run_until(at(now))?;
        if now == FROM {
            before = run.exchange.counters().crossings;
        }
        if now >= FROM {
            run.sample();
        }
        run.churn()?;
    }
    run.exchange.run_until(at(UNTIL))?;
    let sent = run.exchange.counters().crossings - before;
    let states: Vec<_> = (0..run.exchange.links() as u32)
        .filter_map(|link| Some(ratecontrol::Link::state(run.exchange.link(link)?)))
        .map(|state| (state.numbers, state.bytes))
        .collect();
    let (numbers, bytes) = states.into_iter().max().unwrap_or_default();
    let reclaimed = run.reclaim()?.map_or("never".into(), |millis| format!("{millis} ms"));
    run.errors.sort_unstable_by(f64::total_cmp);
    let count = run.errors.len() as f64;
    let percentile = |share: f64| run.errors[(count * share) as usize - 1] * 100.0;
    println!(
        "| {loss} % | {name} | {:.2} % | {:+.2} % | {:.1} % | {:.0} % | {:.2} % | {:.0} | \
         {numbers} | {bytes} | {reclaimed} |",
        run.errors.iter().sum::<f64>() / count * 100.0,
        run.bias / count * 100.0,
        percentile(0.95),
        percentile(1.0),
        run.links.1 as f64 / run.links.0 as f64 * 100.0,
        sent as f64 / f64::from(SESSIONS) / ((UNTIL - FROM) as f64 / 1_000.0),
    );
    Ok(())
}

fn main() -> Result<()> {
    println!(
        "| loss | SLBN | mean error | bias | 95th percentile | worst | links > 5 % over | \
         crossings per session and s | numbers per link | bytes per link | dead reclaimed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for loss in [0, 1, 5, 20] {
        row::<Slbn>("plain", loss)?;
        row::<Epochs>("epochs", loss)?;
    }
    Ok(())
}
