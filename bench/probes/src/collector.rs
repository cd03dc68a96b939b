//! Stages of the route collector without files: captures and archives are in memory.

mod appearing;
mod decode;
mod pass;
mod population;
mod routes;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use collector::Frame;
use collector::capture::{Reader, Step};
use collector_live::input::{Fill, Input};

use crate::{Outcome, print};

type Failure = Box<dyn std::error::Error>;

/// Runs the subcommand in `words`.
pub(crate) fn run(words: &[&str]) -> Outcome {
    match words {
        ["unpack", from, to] => unpack(Path::new(from), Path::new(to)),
        ["mrt", capture, rounds] => pass::records(&read(capture)?, rounds.parse()?),
        ["archive", capture, folder, how, seconds] => {
            pass::archive(&read(capture)?, Path::new(folder), how, seconds.parse()?)
        }
        ["decode", archive, rounds] => decode::ours(&read(archive)?, rounds.parse()?),
        ["bgpkit", archive, rounds] => decode::bgpkit(&read(archive)?, rounds.parse()?),
        ["text", archive, rounds] => decode::text(&read(archive)?, rounds.parse()?),
        ["routes", capture, "same"] => routes::of(&read(capture)?, false),
        ["routes", capture, "different"] => routes::of(&read(capture)?, true),
        ["population", folder, peers, prefixes, seconds] => {
            let size = population::Size { peers: peers.parse()?, prefixes: prefixes.parse()? };
            population::run(Path::new(folder), size, seconds.parse()?)
        }
        ["appearing", folder] => appearing::watch(Path::new(folder)),
        _ => Err(crate::USAGE.into()),
    }
}

fn read(path: &str) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| format!("{path}: {error}").into())
}

/// Decompresses a file into another one.
fn unpack(from: &Path, to: &Path) -> Outcome {
    let (mut input, mut out) = (Input::open(from, false)?, File::create(to)?);
    loop {
        out.write_all(input.unread())?;
        input.consume(input.unread().len());
        if input.is_ended() || input.fill(1, Duration::from_secs(1))? == Fill::End {
            return Ok(());
        }
    }
}

/// Calls a function for each packet of a capture file in memory.
fn frames(bytes: &[u8], mut each: impl FnMut(&Frame<'_>)) -> Outcome {
    let (mut reader, mut at) = (Reader::new(), 0);
    while at < bytes.len() {
        match reader.next(&bytes[at..], true)? {
            Step::Frame { frame, used } => {
                at += used;
                each(&frame);
            }
            Step::Skip { used } | Step::Dropped { used, .. } => at += used,
            _ => break,
        }
    }
    Ok(())
}

/// Runs `work` several times. Returns the CPU times in nanoseconds, ascending.
fn times(rounds: usize, mut work: impl FnMut() -> Outcome) -> Result<Vec<u64>, Failure> {
    let mut found = Vec::with_capacity(rounds);
    for _ in 0..rounds.max(1) {
        let before = sys::clock::thread_cpu();
        work()?;
        found.push(sys::clock::thread_cpu() - before);
    }
    found.sort_unstable();
    Ok(found)
}

/// Prints the median and minimum of `times`, and `more`.
fn print_times(times: &[u64], more: &str) {
    print(&format!("{{\"cpu_ns\":{},\"least_ns\":{},{more}}}", times[times.len() / 2], times[0]));
}
