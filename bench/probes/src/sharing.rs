//! Running time of the solver of fair shares for one system of links and flows.

use std::hint::black_box;
use std::io::Read;
use std::str::SplitAsciiWhitespace;
use std::time::Instant;

use ::sharing::{FlowKey, LinkKey, Solver};

use crate::{Outcome, print};

/// Reads a system from standard input (for its format see `bench/peers/sharing.cc`), and prints the
/// time to solve it from scratch, after one flow joins, and after it leaves.
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
    let add = |solver: &mut Solver, path: &[LinkKey]| solver.add_flow(path, 1.0, f64::INFINITY);
    for flow in first {
        add(&mut solver, flow);
    }
    let (scratch, ()) = timed(&mut solver, |_| ());
    let load: f64 = (0..links).map(|link| solver.load(LinkKey(link))).sum();
    let (mut joins, joined): (Vec<f64>, Vec<FlowKey>) =
        later.iter().map(|flow| timed(&mut solver, |solver| add(solver, flow))).unzip();
    let leave = |flow| timed(&mut solver, |solver| solver.remove_flow(flow)).0;
    let mut leaves: Vec<f64> = joined.into_iter().map(leave).collect();
    let (join, leave) = (median(&mut joins), median(&mut leaves));
    print(&format!(
        "{{\"scratch_s\":{scratch:.9},\"join_s\":{join:.9},\"leave_s\":{leave:.9},\
         \"load\":{load:e}}}"
    ));
    Ok(())
}

/// Time of a change and of the following solution in seconds, and its result.
fn timed<T>(solver: &mut Solver, change: impl FnOnce(&mut Solver) -> T) -> (f64, T) {
    let began = Instant::now();
    let given = change(solver);
    black_box(solver.solve().len());
    (began.elapsed().as_secs_f64(), given)
}

/// The median, for an even number the upper one; 0 for an empty slice.
fn median(seconds: &mut [f64]) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied().unwrap_or_default()
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
