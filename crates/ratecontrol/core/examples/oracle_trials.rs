//! Runs a protocol on many random instances and compares its rates with the oracle's.
//!
//! `cargo run --release -p netarium-ratecontrol-core --example oracle_trials -- --count 100000
//! --protocol slbn --first 0 --pause '10 %'`
#![allow(clippy::print_stdout)] // what it is for

use base::Ratio;
use ratecontrol::trial::{Outcome, Trial};
use ratecontrol::{Protocol, RateController, Visitor};

struct Run {
    first: u64,
    count: u64,
    /// Replaces the pause of the trials.
    pause: Option<Ratio>,
}

struct Tally {
    outcomes: Vec<Outcome>,
    failed: Vec<u64>,
}

impl Visitor for Run {
    type Output = Result<Tally, ratecontrol::Error>;

    fn visit<R: RateController>(self) -> Self::Output {
        let mut tally = Tally { outcomes: Vec::new(), failed: Vec::new() };
        for seed in self.first..self.first.saturating_add(self.count) {
            let mut trial = Trial::draw(seed);
            trial.settings.pause = self.pause.unwrap_or(trial.settings.pause);
            let outcome = trial.run::<R>()?;
            if !outcome.right {
                tally.failed.push(seed);
            }
            tally.outcomes.push(outcome);
        }
        Ok(tally)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut protocol = Protocol::Slbn;
    let mut run = Run { first: 0, count: 1_000, pause: None };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or("every option takes a value")?;
        match name.as_str() {
            "--count" => run.count = value.parse()?,
            "--first" => run.first = value.parse()?,
            "--pause" => run.pause = Some(value.parse().map_err(|_| "no share")?),
            "--protocol" => protocol = value.parse().map_err(|()| "no such protocol")?,
            _ => return Err(format!("no option {name}").into()),
        }
    }
    let tally = protocol.run(run)?;
    report(protocol, &tally);
    Ok(())
}

fn report(protocol: Protocol, tally: &Tally) {
    let Tally { outcomes, failed } = tally;
    println!("{protocol}: {} of {} right", outcomes.len() - failed.len(), outcomes.len());
    let right: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.right).collect();
    let most = |value: fn(&Outcome) -> f64| right.iter().map(|o| value(o)).fold(0.0, f64::max);
    print("rounds", right.iter().map(|outcome| f64::from(outcome.rounds)).collect());
    print("cycles", right.iter().map(|outcome| outcome.cycles as f64).collect());
    print("round trips", right.iter().map(|outcome| outcome.round_trips).collect());
    let per_level = |o: &&Outcome| f64::from(o.rounds) / o.levels.max(1) as f64;
    print("rounds a level", right.iter().map(per_level).collect());
    print("levels", right.iter().map(|outcome| outcome.levels as f64).collect());
    print("crossings", right.iter().map(|outcome| outcome.crossings as f64).collect());
    print("sessions", right.iter().map(|outcome| outcome.sessions as f64).collect());
    println!("worst error: {:.2e}, {} bit/s", most(|o| o.error), most(|o| o.error_bits).ceil());
    println!("crossings in all: {}", outcomes.iter().map(|o| o.crossings).sum::<u64>());
    if !failed.is_empty() {
        println!("seeds that failed: {:?}", &failed[..failed.len().min(200)]);
    }
}

fn print(what: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let place = (values.len().saturating_sub(1)) as f64 * share;
        values.get(place as usize).copied().unwrap_or(f64::NAN)
    };
    println!(
        "{what}: p50 {:.2}, p90 {:.2}, p99 {:.2}, p99.9 {:.2}, max {:.2}",
        at(0.5),
        at(0.9),
        at(0.99),
        at(0.999),
        at(1.0)
    );
}
