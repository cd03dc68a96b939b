//! Runs all combinations of a swept lab, on all cores; resumes an interrupted sweep.
//!
//! The folder of a sweep contains a folder for each run and a list of completed runs,
//! `sweep.jsonl`: one line each, written when the run's folder is complete. A sweep in a folder
//! with a list runs only the combinations that are not listed; the key is the plan's hash, its seed
//! and the version of this program.

mod list;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use lab::plan::Plan;
use run::Exit;
use run::record::{RunRecord, Status};

use crate::run::Options;
use crate::{Error, Result};
use list::{Key, List, folder};

/// Name of the seed among the swept values, if a sweep has several seeds.
pub const SEED: &str = "lab.seed";

/// Interval of progress reports while no run ends.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub total: usize,
    pub finished: usize,
    /// Number of these that an earlier sweep had completed.
    pub resumed: usize,
    /// Wall-clock time since the start.
    pub took: Duration,
}

impl Progress {
    /// Estimated time to the end, if it can be estimated.
    pub fn left(&self) -> Option<Duration> {
        let run = u32::try_from(self.finished - self.resumed).ok().filter(|run| *run > 0)?;
        let rest = u32::try_from(self.total - self.finished).ok()?;
        (self.took / run).checked_mul(rest)
    }
}

#[derive(Debug)]
pub struct Swept {
    /// Records of the completed runs, in the order of the plans.
    pub records: Vec<RunRecord>,
    /// The number of runs in the sweep.
    pub total: usize,
    /// Number of runs that an earlier sweep had completed.
    pub resumed: usize,
    /// Runs that could not start: swept values and error.
    pub refused: Vec<(Vec<(String, String)>, Error)>,
    /// Whether the stop flag was set.
    pub interrupted: bool,
}

/// Merges the plans of several seeds. Each list has the combinations of one seed; the result has
/// all replications of the first combination, then of the second, and so on.
pub fn replicated(mut replications: Vec<Vec<Plan>>) -> Vec<Plan> {
    if replications.len() == 1 {
        return replications.remove(0);
    }
    let combinations = replications.iter().map(Vec::len).min().unwrap_or(0);
    let mut lists: Vec<_> = replications.into_iter().map(Vec::into_iter).collect();
    let mut plans = Vec::with_capacity(combinations * lists.len());
    for _ in 0..combinations {
        plans.extend(lists.iter_mut().filter_map(Iterator::next).map(|mut plan| {
            plan.sweep.push((SEED.to_owned(), plan.seed.to_string()));
            plan
        }));
    }
    plans
}

/// The number of combinations whose replications with several seeds all gave the same trace, and
/// the number of combinations with several seeds.
pub fn identical_replications(records: &[RunRecord]) -> (usize, usize) {
    let mut traces: BTreeMap<Vec<(&str, &str)>, Vec<Option<&str>>> = BTreeMap::new();
    for record in records {
        let chosen = record.sweep.iter().filter(|value| value.parameter != SEED);
        let chosen = chosen.map(|v| (v.parameter.as_str(), v.value.as_str())).collect();
        traces.entry(chosen).or_default().push(record.trace_hash.as_deref());
    }
    let replicated = traces.values().filter(|traces| traces.len() > 1);
    let identical = |traces: &&Vec<Option<&str>>| {
        traces[0].is_some() && traces.iter().all(|trace| *trace == traces[0])
    };
    (replicated.clone().filter(identical).count(), replicated.count())
}

/// Runs all plans, `jobs` at a time; `repeat` returns the command line that repeats a run. If
/// `stop` is set, active runs are abandoned and completed runs are kept.
///
/// # Errors
/// If the sweep's folder cannot be read or written. A plan that cannot run is reported in
/// [`Swept::refused`].
pub fn sweep(
    plans: &[Plan],
    out: &Path,
    jobs: NonZeroUsize,
    repeat: &(dyn Fn(&Plan) -> String + Sync),
    progress: &mut dyn FnMut(&Progress),
    stop: &AtomicBool,
) -> Result<Swept> {
    let mut list = List::open(out)?;
    let keys: Vec<Key> = plans.iter().map(Key::of).collect();
    let mut over: BTreeMap<usize, RunRecord> = BTreeMap::new();
    for (at, key) in keys.iter().enumerate() {
        if let Some(record) = list.finished(key) {
            over.insert(at, record);
        }
    }
    let resumed = over.len();
    let todo: Vec<usize> = (0..plans.len()).filter(|at| !over.contains_key(at)).collect();
    let job = Job { plans, out, repeat, stop, todo: &todo, next: AtomicUsize::new(0) };
    let mut refused = Vec::new();
    let started = Instant::now();
    let mut failure = None;
    std::thread::scope(|scope| {
        let (sender, results) = channel();
        for _ in 0..jobs.get().min(todo.len()) {
            let (sender, job) = (sender.clone(), &job);
            scope.spawn(move || job.work(&sender));
        }
        drop(sender);
        loop {
            progress(&Progress {
                total: plans.len(),
                finished: over.len() + refused.len(),
                resumed,
                took: started.elapsed(),
            });
            let (at, result) = match results.recv_timeout(POLL_INTERVAL) {
                Ok(result) => result,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => continue,
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            };
            let entered = match result {
                Ok(record) if record.status == Status::Interrupted => discard(out, &record),
                Ok(record) => {
                    let entered = list.enter(&keys[at], &record);
                    over.insert(at, record);
                    entered
                }
                Err(error) if error.exit_code() == Exit::Usage => {
                    refused.push((plans[at].sweep.clone(), error));
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = entered {
                failure.get_or_insert(error);
                job.next.store(usize::MAX / 2, Ordering::Relaxed);
            }
        }
    });
    if let Some(error) = failure {
        return Err(error);
    }
    Ok(Swept {
        interrupted: over.len() + refused.len() < plans.len(),
        records: over.into_values().collect(),
        total: plans.len(),
        resumed,
        refused,
    })
}

/// Data shared by the threads of a sweep.
struct Job<'a> {
    plans: &'a [Plan],
    out: &'a Path,
    repeat: &'a (dyn Fn(&Plan) -> String + Sync),
    stop: &'a AtomicBool,
    /// Positions of the plans that have not run yet.
    todo: &'a [usize],
    next: AtomicUsize,
}

impl Job<'_> {
    fn work(&self, results: &Sender<(usize, Result<RunRecord>)>) {
        while !self.stop.load(Ordering::Relaxed) {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(at) = self.todo.get(next).copied() else { return };
            let plan = &self.plans[at];
            let options = Options {
                live: None,
                runs_dir: self.out.to_owned(),
                repeat: (self.repeat)(plan),
                alone: false,
            };
            let result = crate::run::run(plan, &options, &mut |_| {}, self.stop);
            if results.send((at, result)).is_err() {
                return;
            }
        }
    }
}

/// Removes the folder of an abandoned run, since the run will be repeated.
fn discard(out: &Path, record: &RunRecord) -> Result<()> {
    let folder = folder(out, &record.name, &record.id)?;
    std::fs::remove_dir_all(folder.path()).map_err(|cause| Error::Io {
        verb: "remove",
        path: folder.path().to_owned(),
        cause,
    })
}
