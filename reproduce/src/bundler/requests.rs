//! How long requests took, as the paper counts it.

use crate::{Line, Result, Run, Style, quantile};

/// What the path could do alone: its rate in bytes a second and its round trip in seconds.
const RATE: f64 = 12e6;
const ROUND_TRIP_S: f64 = 0.05;

/// The definition that goes with the numbers.
pub(super) const DEFINITION: &str = "Slowdown: the time from a request to its whole response over \
     (size / 12 MB/s + 50 ms). Requests of all seeds are pooled before quantiles are taken; one \
     that is not answered when a run ends is slower than all others.";

/// Requests of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    All,
    /// Responses up to 10 kB.
    Small,
    /// Up to 1 MB.
    Medium,
    Large,
}

impl Class {
    pub(super) const EACH: [Self; 4] = [Self::All, Self::Small, Self::Medium, Self::Large];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Small => "up to 10 kB",
            Self::Medium => "10 kB to 1 MB",
            Self::Large => "above 1 MB",
        }
    }

    fn has(self, bytes: f64) -> bool {
        match self {
            Self::All => true,
            Self::Small => bytes <= 1e4,
            Self::Medium => bytes > 1e4 && bytes <= 1e6,
            Self::Large => bytes > 1e6,
        }
    }
}

/// A request that was answered or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Request {
    /// When it was made, in seconds.
    pub(super) start: f64,
    pub(super) bytes: f64,
    /// Infinite without an answer.
    pub(super) slowdown: f64,
}

/// The requests of some runs that differ by their seeds alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    /// Those of each run.
    pub(super) runs: Vec<Vec<Request>>,
}

impl Requests {
    /// Reads what a flow asked.
    pub(super) fn read(runs: &[Run], flow: &str) -> Result<Self> {
        let runs = runs.iter().map(|run| one(run, flow)).collect::<Result<_>>()?;
        Ok(Self { runs })
    }

    /// Those that were made between two times, in seconds.
    pub(super) fn between(&self, from: f64, until: f64) -> Self {
        let within = |request: &&Request| (from..until).contains(&request.start);
        let of = |run: &Vec<Request>| run.iter().filter(within).copied().collect();
        Self { runs: self.runs.iter().map(of).collect() }
    }

    /// Slowdowns of a class, all runs together.
    pub(super) fn slowdowns(&self, class: Class) -> Vec<f64> {
        let all = self.runs.iter().flatten().filter(|request| class.has(request.bytes));
        all.map(|request| request.slowdown).collect()
    }

    /// A quantile of the slowdowns of a class; infinite where there are none.
    pub(super) fn quantile(&self, class: Class, share: f64) -> f64 {
        quantile(&self.slowdowns(class), share).unwrap_or(f64::INFINITY)
    }

    pub(super) fn median(&self, class: Class) -> f64 {
        self.quantile(class, 0.5)
    }

    /// The least and largest median of any run.
    pub(super) fn medians(&self, class: Class) -> (f64, f64) {
        let of = |run: &Vec<Request>| {
            let one = Self { runs: vec![run.clone()] };
            one.median(class)
        };
        let each = self.runs.iter().map(of);
        each.fold((f64::INFINITY, 0.0), |(low, high), one| (low.min(one), high.max(one)))
    }

    /// Their distribution as a line of few points.
    pub(super) fn line(&self, label: &str) -> Line {
        let mut values = self.slowdowns(Class::All);
        values.sort_by(f64::total_cmp);
        let last = values.len().saturating_sub(1) as f64;
        let at = |share: f64| values.get((share * last) as usize).copied().unwrap_or(f64::NAN);
        // Finer where the tail is.
        let shares = (0..100).map(|n| f64::from(n) / 100.0);
        let tail = (0..=40).map(|n| 0.99 + f64::from(n) / 4000.0);
        let points = shares.chain(tail).map(|share| (at(share), share * 100.0));
        Line::new(label, points.collect()).style(Style::Line)
    }
}

fn one(run: &Run, flow: &str) -> Result<Vec<Request>> {
    let table = run.table("transfers")?;
    let flows = table.texts("flow").unwrap_or_default();
    let starts = run.integers(&table, "start_ns")?;
    let sizes = run.integers(&table, "size_bytes")?;
    let times = run.integers(&table, "completion_ns")?;
    let request = |row: usize| {
        if flows[row] != flow {
            return None;
        }
        let bytes = sizes[row]? as f64;
        let seconds = times[row].map_or(f64::INFINITY, |nanos| nanos as f64 / 1e9);
        let slowdown = seconds / (bytes / RATE + ROUND_TRIP_S);
        Some(Request { start: starts[row]? as f64 / 1e9, bytes, slowdown })
    };
    Ok((0..flows.len()).filter_map(request).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run of small requests with these slowdowns, one a second.
    pub(in super::super) fn small(slowdowns: &[f64]) -> Requests {
        let request = |(at, slowdown): (usize, &f64)| Request {
            start: at as f64,
            bytes: 1000.0,
            slowdown: *slowdown,
        };
        Requests { runs: vec![slowdowns.iter().enumerate().map(request).collect()] }
    }

    #[test]
    fn classes_and_times_are_told_apart() {
        let mut requests = small(&[1.0, 2.0, 3.0, 4.0]);
        requests.runs[0][3].bytes = 2e6;
        assert!((requests.median(Class::Small) - 2.0).abs() < 1e-9);
        assert!((requests.median(Class::Large) - 4.0).abs() < 1e-9);
        assert!(requests.median(Class::Medium).is_infinite());
        assert!((requests.between(2.0, 9.0).median(Class::All) - 3.0).abs() < 1e-9);
        let line = requests.line("all");
        assert_eq!(line.points.last(), Some(&(4.0, 100.0)));
    }
}
