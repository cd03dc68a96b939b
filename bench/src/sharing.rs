//! The time of the solver of fair shares on one system of links and flows.

use std::hint::black_box;
use std::io::Read;
use std::str::SplitAsciiWhitespace;
use std::time::Instant;

use ::sharing::{LinkKey, Solver};

use crate::{Outcome, print};

/// Reads a system from standard input (its format is told in `bench/peers/sharing.cc`), and prints
/// how long its shares take from scratch, and when one flow joins.
pub(crate) fn solve() -> Outcome {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut words = text.split_ascii_whitespace();
    let (links, flows, joins): (u32, usize, usize) =
        (next(&mut words)?, next(&mut words)?, next(&mut words)?);
    let mut solver = Solver::new();
    for _ in 0..links {
        solver.add_link(next(&mut words)?);
    }
    let flows = (0..flows).map(|_| path(&mut words)).collect::<Result<Vec<_>, _>>()?;
    let (first, later) = flows.split_at(flows.len().saturating_sub(joins));
    let add = |solver: &mut Solver, path: &[LinkKey]| {
        solver.add_flow(path, 1.0, f64::INFINITY);
    };
    for flow in first {
        add(&mut solver, flow);
    }
    let scratch = timed(&mut solver, |_| ());
    let load: f64 = (0..links).map(|link| solver.load(LinkKey(link))).sum();
    let mut joins: Vec<f64> =
        later.iter().map(|flow| timed(&mut solver, |solver| add(solver, flow))).collect();
    joins.sort_by(f64::total_cmp);
    let join = joins.get(joins.len() / 2).copied().unwrap_or_default();
    print(&format!("{{\"scratch_s\":{scratch:.9},\"join_s\":{join:.9},\"load\":{load:e}}}"));
    Ok(())
}

/// Seconds that a change and the shares after it take.
fn timed(solver: &mut Solver, change: impl FnOnce(&mut Solver)) -> f64 {
    let began = Instant::now();
    change(solver);
    black_box(solver.solve().len());
    began.elapsed().as_secs_f64()
}

fn next<T: std::str::FromStr>(
    words: &mut SplitAsciiWhitespace<'_>,
) -> Result<T, Box<dyn std::error::Error>>
where
    T::Err: std::error::Error + 'static,
{
    Ok(words.next().ok_or("the system is not complete")?.parse()?)
}

fn path(words: &mut SplitAsciiWhitespace<'_>) -> Result<Vec<LinkKey>, Box<dyn std::error::Error>> {
    let hops: usize = next(words)?;
    (0..hops).map(|_| next(words).map(LinkKey)).collect()
}
