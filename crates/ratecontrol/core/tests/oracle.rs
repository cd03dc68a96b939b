//! SLBN on random instances compared with the central solver.
#![allow(clippy::unwrap_used)]

use ratecontrol::slbn::Slbn;
use ratecontrol::trial::Trial;

/// About 300 small instances or, with `NETARIUM_LONG=1`, the 100,000 that the corrected
/// form must solve.
#[expect(clippy::disallowed_methods, reason = "how long tests take is up to who runs them")]
fn trials() -> impl Iterator<Item = (u64, Trial)> {
    let long = std::env::var_os("NETARIUM_LONG").is_some_and(|v| v == "1");
    let (seeds, steps) = if long { (0..100_000, usize::MAX) } else { (0..450, 60) };
    let drawn = seeds.map(|seed| (seed, Trial::draw(seed)));
    drawn.filter(move |(_, trial)| trial.steps.len() <= steps)
}

#[test]
fn slbn_reaches_the_oracle_s_rates() {
    let (mut wrong, mut count, mut slowest) = (Vec::new(), 0, (0, 0));
    for (seed, trial) in trials() {
        let outcome = trial.run::<Slbn>().unwrap();
        if !outcome.right {
            wrong.push(seed);
        }
        count += 1;
        slowest = slowest.max((outcome.rounds, seed));
    }
    assert!(wrong.is_empty(), "seeds {wrong:?}");
    assert!(count >= 250, "{count}");
    // The slowest of the 100,000 takes 29 rounds.
    assert!(slowest.0 <= 40, "{} rounds at seed {}", slowest.0, slowest.1);
}
