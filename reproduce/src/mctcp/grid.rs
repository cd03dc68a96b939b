//! Labs with each of those that can carry the stream.

use crate::{Clock, Job, Result, Run, Stage};

/// Labs of these rates use a tenth of a processor each.
const AT_ONCE: usize = 6;
/// How late packets may be on the wall clock: less than a fifth of the least queue that is full.
const TOLERANCE: &str = "5 ms";
/// The seed's socket buffers.
pub(super) const BUFFERS: &str = "262144 B";

/// Who carries the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    Mctcp,
    /// The kernel's; on the wall clock only.
    Mptcp,
    /// One connection, on the path of this number, from 0.
    Tcp(usize),
}

impl Rival {
    pub(super) fn label(self) -> String {
        match self {
            Self::Mctcp => "MCTCP".to_owned(),
            Self::Mptcp => "kernel MPTCP".to_owned(),
            Self::Tcp(path) => format!("TCP, path {}", path + 1),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Mctcp => "mctcp".to_owned(),
            Self::Mptcp => "mptcp".to_owned(),
            Self::Tcp(path) => format!("tcp{}", path + 1),
        }
    }
}

/// What a lab is run with.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) lab: &'static str,
    /// What tells its runs from others.
    pub(super) name: String,
    /// What it is called in print.
    pub(super) label: String,
    pub(super) rivals: Vec<Rival>,
    /// The links at the server, one for each path of the lab, and how many are used.
    ways: &'static [&'static str],
    used: usize,
    set: Vec<(String, String)>,
    /// Holds for MCTCP alone.
    own: Vec<(String, String)>,
    /// The flow begins by so many ms later with each seed.
    step_ms: u64,
}

impl Case {
    pub(super) fn new(
        (lab, ways): (&'static str, &'static [&'static str]),
        used: usize,
        name: impl Into<String>,
        label: impl Into<String>,
    ) -> Self {
        Self {
            lab,
            name: name.into(),
            label: label.into(),
            rivals: vec![Rival::Mctcp, Rival::Mptcp],
            ways,
            used,
            set: Vec::new(),
            own: Vec::new(),
            step_ms: 0,
        }
    }

    #[must_use]
    pub(super) fn rivals(mut self, rivals: &[Rival]) -> Self {
        self.rivals = rivals.to_vec();
        self
    }

    /// Beside MCTCP and the kernel's MPTCP one TCP connection on each path, one at a time.
    #[must_use]
    pub(super) fn each_alone(mut self) -> Self {
        self.rivals.extend((0..self.used).map(Rival::Tcp));
        self
    }

    #[must_use]
    pub(super) fn set(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.set.push((field.into(), value.into()));
        self
    }

    /// A setting that only MCTCP has.
    #[must_use]
    pub(super) fn own(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.own.push((field.into(), value.into()));
        self
    }

    /// Begins by so much later with each seed, so that events meet the flow at other moments.
    #[must_use]
    pub(super) fn stepped(mut self, ms: u64) -> Self {
        self.step_ms = ms;
        self
    }

    fn job(&self, rival: Rival, clock: Clock, seed: u64) -> Job {
        let name = format!("{}-{}-{seed}", self.name, rival.name());
        let mut job = Job::new(self.lab, name, clock).set("lab.seed", seed.to_string());
        if clock == Clock::Wall {
            job = job.set("lab.tolerance", TOLERANCE);
        }
        if self.step_ms > 0 {
            job = job.set("flow.bulk.start", format!("{} ms", self.step_ms * seed));
        }
        let transport = match rival {
            Rival::Mctcp => "mctcp",
            Rival::Mptcp => "mptcp",
            Rival::Tcp(_) => "tcp",
        };
        job = job.set("flow.bulk.transport", transport);
        let open = |at: usize| match rival {
            Rival::Tcp(path) => at == path,
            _ => at < self.used,
        };
        let shut = self.ways.iter().enumerate().filter(|(at, _)| !open(*at));
        for (_, way) in shut {
            job = job.set(format!("link.{way}.state"), "down");
        }
        if !matches!(rival, Rival::Tcp(_)) && !self.ways.is_empty() {
            let used: Vec<String> =
                self.ways.iter().take(self.used).map(|way| format!("\"{way}\"")).collect();
            job = job.set("flow.bulk.via", format!("[{}]", used.join(", ")));
        }
        let own = self.own.iter().filter(|_| rival == Rival::Mctcp);
        self.set.iter().chain(own).fold(job, |job, (field, value)| job.set(field, value))
    }
}

/// The runs of one case with one rival on one clock, by seed.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) case: usize,
    pub(super) rival: Rival,
    pub(super) clock: Clock,
    pub(super) runs: Vec<Run>,
}

/// All cells, in the order of the cases.
#[derive(Clone, Debug, Default)]
pub(super) struct Grid(pub(super) Vec<Cell>);

impl Grid {
    pub(super) fn of(&self, case: usize, rival: Rival, clock: Clock) -> Option<&[Run]> {
        let is = |cell: &&Cell| cell.case == case && cell.rival == rival && cell.clock == clock;
        Some(&self.0.iter().find(is)?.runs)
    }
}

/// How often each is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) simulated: u64,
    pub(super) wall: u64,
}

impl Times {
    /// As often as the seed's experiments.
    pub(super) const FIVE: Self = Self { simulated: 5, wall: 5 };
}

/// Runs every case with each of its rivals on the wanted clocks.
pub(super) fn grid(stage: &mut Stage<'_>, cases: &[Case], times: Times) -> Result<Grid> {
    let mut jobs = Vec::new();
    let mut cells = Vec::new();
    for clock in stage.clocks() {
        let times = if clock == Clock::Wall { times.wall } else { times.simulated };
        let times = stage.size(times, times.min(1));
        for (at, case) in cases.iter().enumerate() {
            for rival in &case.rivals {
                let simulated = clock == Clock::Virtual && *rival == Rival::Mptcp;
                if simulated || times == 0 {
                    continue;
                }
                jobs.extend((1..=times).map(|seed| case.job(*rival, clock, seed)));
                cells.push((Cell { case: at, rival: *rival, clock, runs: Vec::new() }, times));
            }
        }
    }
    let mut runs = stage.run_some(&jobs, AT_ONCE)?.into_iter();
    let cells = cells.into_iter().map(|(mut cell, times)| {
        cell.runs = runs.by_ref().take(times as usize).collect();
        cell
    });
    Ok(Grid(cells.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_carrier_has_its_paths_and_no_other() {
        let ways = &["path1", "path2", "path3"];
        let case = Case::new(("mctcp/paths.toml", ways), 2, "a", "A")
            .set("flow.bulk.window", "1 MiB")
            .own("flow.bulk.scheduler", "ecf")
            .each_alone();
        let said = |rival| format!("{:?}", case.job(rival, Clock::Virtual, 7));
        let ours = said(Rival::Mctcp);
        for part in ["path3.state", "[\\\"path1\\\", \\\"path2\\\"]", "1 MiB", "ecf", "a-mctcp-7"] {
            assert!(ours.contains(part), "{part} in {ours}");
        }
        assert!(!ours.contains("path2.state"));
        let kernel = said(Rival::Mptcp);
        assert!(!kernel.contains("ecf") && kernel.contains("\"mptcp\""), "{kernel}");
        let second = said(Rival::Tcp(1));
        for part in ["path1.state", "path3.state", "\"tcp\"", "1 MiB"] {
            assert!(second.contains(part), "{part} in {second}");
        }
        assert!(!second.contains("path2.state") && !second.contains("via"));
        assert_eq!(case.rivals.len(), 4);
    }
}
