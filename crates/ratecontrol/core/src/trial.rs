//! Random instances on which a protocol must reach the oracle's rates.
//!
//! A [`Trial`] is a network and a schedule of sessions that join, leave and change their demands,
//! all generated from a seed. [`Trial::run`] runs a protocol on it over an [`Exchange`], until
//! after the last change every rate is correct and stays so.
//!
//! **Correct** means within a relative error of 10⁻⁶ and [`SLACK`] bit/s of the oracle's rate. The
//! slack covers integer division: a link's share is rounded down by less than 1 bit/s, but the
//! sessions at the next bottleneck share the rest.
//!
//! **Rounds.** Time is measured in asynchronous rounds: a round ends when every session has
//! completed a cycle that started in it.

mod network;
#[cfg(test)]
mod tests;

use base::{Bandwidth, Bytes, RandomStream, Ratio, Span, Time};

use crate::exchange::{Exchange, Wire};
use crate::{RateController, Result, SessionId, Settings};
use network::Network;

/// Maximum relative error of a rate.
pub const TOLERANCE: f64 = 1e-6;

/// Additional error because of integer division, in bit/s.
pub const SLACK: f64 = 16.0;

/// Number of rounds for which all rates must stay correct.
pub const STEADY: u32 = 5;

/// Maximum number of rounds.
pub const MAX_ROUNDS: u32 = 200;

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The next session joins.
    Join {
        /// The links of its path, as indices of the directed links.
        path: Vec<u32>,
        /// Its demand, at least 1 bit/s.
        demand: Bandwidth,
    },
    /// A session changes its demand.
    Change {
        /// The session, counted from 0 in the order of the joins in the schedule.
        session: u32,
        /// The new demand.
        demand: Bandwidth,
    },
    /// A session leaves.
    Leave {
        /// The leaving session.
        session: u32,
    },
}

/// A network with a schedule of sessions.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Settings of the protocol.
    pub settings: Settings,
    /// The unidirectional links.
    pub wires: Vec<Wire>,
    /// The events. Those of each session are in order.
    pub steps: Vec<(Time, Step)>,
}

/// Result of a protocol.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Whether all rates became correct and stayed so for [`STEADY`] rounds.
    pub right: bool,
    /// Number of sessions at the end.
    pub sessions: usize,
    /// Number of distinct oracle rates among them.
    pub levels: usize,
    /// Rounds after the last change until all rates were correct permanently.
    pub rounds: u32,
    /// Maximum number of cycles of a session until its own rate was correct permanently.
    pub cycles: u64,
    /// Time until all rates were correct, in units of the longest round trip.
    pub round_trips: f64,
    /// Largest relative error at the end.
    pub error: f64,
    /// Largest error at the end in bit/s.
    pub error_bits: f64,
    /// Number of crossings of links.
    pub crossings: u64,
}

impl Trial {
    /// Generates the trial of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut rng = RandomStream::new(seed, "trial");
        let network = Network::draw(&mut rng);
        let settings = draw_settings(seed, &mut rng);
        let mut trial = Self { settings, wires: network.wires.clone(), steps: Vec::new() };
        trial.draw_steps(&network, &mut rng);
        trial
    }

    /// Sessions join, at once or over some round trips; some leave or change in between.
    fn draw_steps(&mut self, network: &Network, rng: &mut RandomStream) {
        let sessions = 2 + (200.0_f64 / 2.0).powf(rng.unit()).mul_add(2.0, -2.0) as u32;
        let spread = [0, 1, 20][rng.below(3) as usize] * network.longest_delay().as_nanos() * 8;
        let churn = [0, 10, 40][rng.below(3) as usize];
        let demands = Demands::draw(network, rng);
        for session in 0..sessions {
            let from = rng.below(spread + 1);
            let demand = demands.one(rng);
            let path = network.path(rng);
            self.steps.push((Time::from_nanos(from), Step::Join { path, demand }));
            // The first session stays.
            if session == 0 || rng.below(100) >= churn {
                continue;
            }
            let mut at = from;
            for _ in 0..rng.below(4) {
                at += rng.below(spread + 1);
                let change = Step::Change { session, demand: demands.one(rng) };
                self.steps.push((Time::from_nanos(at), change));
            }
            if rng.below(2) == 0 {
                at += rng.below(spread + 1);
                self.steps.push((Time::from_nanos(at), Step::Leave { session }));
            }
        }
    }

    /// Time of the last change.
    pub fn settled(&self) -> Time {
        self.steps.iter().map(|(at, _)| *at).max().unwrap_or_default()
    }

    /// An exchange with all events scheduled.
    ///
    /// # Errors
    /// As those of [`Exchange`]; generated trials have none that SLBN rejects.
    pub fn exchange<R: RateController>(&self) -> Result<Exchange<R>> {
        let mut exchange = Exchange::try_new(&self.settings, &self.wires)?;
        for (at, step) in &self.steps {
            match step {
                Step::Join { path, demand } => {
                    exchange.join(*at, path, *demand)?;
                }
                Step::Change { session, demand } => {
                    exchange.change(*at, SessionId(*session), *demand)?;
                }
                Step::Leave { session } => exchange.leave(*at, SessionId(*session))?,
            }
        }
        Ok(exchange)
    }

    /// Runs a protocol until its rates stay correct, or for [`MAX_ROUNDS`].
    ///
    /// # Errors
    /// As [`Trial::exchange`].
    pub fn run<R: RateController>(&self) -> Result<Outcome> {
        let mut exchange = self.exchange::<R>()?;
        exchange.run_until(self.settled())?;
        let mut watch = Watch::new(&exchange);
        let end = self.settled() + Span::from_secs(36_000);
        while watch.goes_on() {
            let Some(session) = exchange.next_cycle(end)? else { break };
            watch.see(&exchange, session);
        }
        Ok(watch.outcome(&exchange, self))
    }

    /// The longest round trip of all sessions.
    fn longest_trip(&self) -> Span {
        let trip = |path: &Vec<u32>| {
            let there_and_back = |link: &u32| {
                let wire = &self.wires[*link as usize];
                wire.delay.as_nanos() + wire.back.as_nanos()
            };
            path.iter().map(there_and_back).sum()
        };
        let joins = self.steps.iter().filter_map(|(_, step)| match step {
            Step::Join { path, .. } => Some(path),
            _ => None,
        });
        Span::from_nanos(joins.map(trip).max().unwrap_or(1))
    }
}

fn draw_settings(seed: u64, rng: &mut RandomStream) -> Settings {
    let mut settings = Settings { seed, ..Settings::default() };
    // Mostly cycles without gaps, so that round trips determine the order.
    if rng.below(8) != 0 {
        settings.packet = Bytes::new(1);
        settings.share = Ratio::from_parts_per_billion(500_000_000);
    }
    settings
}

/// Demands of the sessions of an instance.
struct Demands {
    scale: f64,
    finite: u64,
    steps: u64,
}

impl Demands {
    fn draw(network: &Network, rng: &mut RandomStream) -> Self {
        let finite = [0, 50, 100][rng.below(3) as usize];
        Self { scale: network.scale, finite, steps: 1 + rng.below(60) }
    }

    /// Unlimited, or near the capacities of the network.
    fn one(&self, rng: &mut RandomStream) -> Bandwidth {
        if rng.below(100) >= self.finite {
            return Bandwidth::from_bits_per_sec(u64::MAX);
        }
        let step = rng.below(self.steps) as f64 / self.steps as f64;
        Bandwidth::from_bits_per_sec((self.scale * 2.0 * 1e-3_f64.powf(step)) as u64)
    }
}

/// A session that exists at the end.
#[derive(Clone, Copy)]
struct Watched {
    fair: f64,
    wrong: bool,
    /// Round in which its current cycle started.
    began: u32,
    done: bool,
    cycles: u64,
    /// Number of these until the rate was correct permanently.
    needed: u64,
}

struct Watch {
    /// By session number.
    sessions: Vec<Option<Watched>>,
    present: usize,
    wrong: usize,
    round: u32,
    left: usize,
    right_since: (u32, Time),
}

impl Watch {
    fn new<R: RateController>(exchange: &Exchange<R>) -> Self {
        let fair = exchange.fair_rates();
        let last = fair.last().map_or(0, |(session, _)| session.0 as usize + 1);
        let mut sessions = vec![None; last];
        let mut wrong = 0;
        for (session, fair) in &fair {
            let off = !is_right(exchange.rate(*session), *fair);
            wrong += usize::from(off);
            // A cycle in flight started before the first round.
            let (began, done, cycles, needed) = (0, false, 0, 0);
            let watched = Watched { fair: *fair, wrong: off, began, done, cycles, needed };
            sessions[session.0 as usize] = Some(watched);
        }
        let right_since = (0, exchange.now());
        Self { sessions, present: fair.len(), wrong, round: 1, left: fair.len(), right_since }
    }

    fn goes_on(&self) -> bool {
        let steady = self.wrong == 0 && self.round > self.right_since.0 + STEADY;
        self.present > 0 && !steady && self.round <= MAX_ROUNDS
    }

    fn see<R: RateController>(&mut self, exchange: &Exchange<R>, session: SessionId) {
        let Some(Some(watched)) = self.sessions.get_mut(session.0 as usize) else { return };
        let wrong = !is_right(exchange.rate(session), watched.fair);
        watched.cycles += 1;
        if wrong || watched.wrong {
            watched.needed = watched.cycles;
            self.right_since = (self.round, exchange.now());
        }
        self.wrong = self.wrong + usize::from(wrong) - usize::from(watched.wrong);
        watched.wrong = wrong;
        if watched.began == self.round && !watched.done {
            watched.done = true;
            self.left -= 1;
        }
        watched.began = self.round;
        if self.left == 0 {
            self.round += 1;
            self.left = self.present;
            for watched in self.sessions.iter_mut().flatten() {
                watched.done = false;
            }
        }
    }

    fn outcome<R: RateController>(&self, exchange: &Exchange<R>, trial: &Trial) -> Outcome {
        let (mut error, mut error_bits) = (0.0_f64, 0.0_f64);
        let mut fair = Vec::new();
        for (id, watched) in self.sessions.iter().enumerate() {
            let Some(watched) = watched else { continue };
            let rate = exchange.rate(SessionId(id as u32)).unwrap_or_default();
            let off = (rate.bits_per_sec() as f64 - watched.fair).abs();
            error_bits = error_bits.max(off);
            error = error.max(off / watched.fair);
            fair.push(watched.fair);
        }
        fair.sort_by(f64::total_cmp);
        fair.dedup_by(|a, b| (*a - *b).abs() <= TOLERANCE * *b);
        let took = self.right_since.1.since(trial.settled());
        Outcome {
            right: self.wrong == 0,
            sessions: self.present,
            levels: fair.len(),
            rounds: self.right_since.0,
            cycles: self.sessions.iter().flatten().map(|of| of.needed).max().unwrap_or(0),
            round_trips: took.as_secs_f64() / trial.longest_trip().as_secs_f64(),
            error,
            error_bits,
            crossings: exchange.counters().crossings,
        }
    }
}

fn is_right(rate: Option<Bandwidth>, fair: f64) -> bool {
    let rate = rate.map_or(0.0, |rate| rate.bits_per_sec() as f64);
    (rate - fair).abs() <= TOLERANCE * fair + SLACK
}
