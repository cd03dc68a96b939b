//! What figures work with, and how they are made one after the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant, SystemTime};

use run::RunFolder;
use run::supervisor::{Event, Supervisor};
use serde::{Deserialize, Serialize};

/// The clock of a run.
pub use run::record::Clock;

use crate::child::Child;
use crate::results::replace;
use crate::{Error, Figure, FigureResult, Paper, Plot, Ran, Result, Results, Run, Status};

/// Progress is shown, and interrupts are noticed, this often.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// A run on the wall clock that is not trusted is made again, so many times in all: stalls of a
/// machine pass.
const TRIES: u32 = 3;

/// How a network is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// Packets cross every queue.
    Hop,
    /// Packets cross their whole path at once, at their flow's share of it.
    Collapsed,
}

impl Model {
    /// The word in lab files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hop => "hop",
            Self::Collapsed => "collapsed",
        }
    }
}

/// What figures are to be made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// This program.
    pub program: PathBuf,
    /// Folder for the results.
    pub out: PathBuf,
    /// Wanted clocks.
    pub clocks: Vec<Clock>,
    /// Wanted models.
    pub models: Vec<Model>,
    /// Machines for the runs on the wall clock, as `run --cluster` takes them; `None`: this one.
    pub cluster: Option<String>,
    /// Smaller sizes, to see that all works.
    pub short: bool,
    /// The options that were given, for the command that repeats a figure.
    pub words: String,
}

/// How far a figure is.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// The figure.
    pub figure: &'a str,
    /// Runs that are over.
    pub finished: usize,
    /// Runs that are known to be made.
    pub total: usize,
    /// What runs now.
    pub running: Vec<&'a str>,
    /// Since the figure was begun.
    pub elapsed: Duration,
}

/// A run to be made.
#[derive(Clone, Debug)]
pub struct Job {
    lab: &'static str,
    name: String,
    clock: Clock,
    model: Option<Model>,
    set: Vec<(String, String)>,
}

impl Job {
    /// A lab (its path below the folder `labs`, one of the figure's files) on a clock. The name
    /// tells it from the figure's other jobs.
    pub fn new(lab: &'static str, name: impl Into<String>, clock: Clock) -> Self {
        Self { lab, name: name.into(), clock, model: None, set: Vec::new() }
    }

    /// With this model instead of the lab's; the name says so too.
    #[must_use]
    pub fn model(mut self, model: Model) -> Self {
        self.model = Some(model);
        self.set("lab.model", model.as_str())
    }

    /// With another value for a field, such as `link.core.delay`.
    #[must_use]
    pub fn set(mut self, field: impl Into<String>, value: impl Into<String>) -> Self {
        self.set.push((field.into(), value.into()));
        self
    }

    /// The name of the run: the job's, its model and its clock.
    fn run_name(&self) -> String {
        let model = self.model.map(|model| format!("-{}", model.as_str())).unwrap_or_default();
        let clock = if self.clock == Clock::Wall { "wall" } else { "virtual" };
        format!("{}{model}-{clock}", self.name)
    }

    fn words(&self, options: &Options, runs: &Path) -> Vec<String> {
        let verb = if self.clock == Clock::Wall { "run" } else { "sim" };
        let lab = options.out.join("labs").join(self.lab).display().to_string();
        let runs = runs.display().to_string();
        let mut words = vec![verb.to_owned(), lab, "--runs".to_owned(), runs];
        words.extend(["--name".to_owned(), self.run_name()]);
        for (field, value) in &self.set {
            words.extend(["--set".to_owned(), format!("{field}={value}")]);
        }
        if let (Clock::Wall, Some(cluster)) = (self.clock, &options.cluster) {
            words.extend(["--cluster".to_owned(), cluster.clone()]);
        }
        words.extend(["--json", "--quiet", "--no-progress"].map(str::to_owned));
        words
    }
}

/// What a figure works with.
pub struct Stage<'a> {
    figure: &'a Figure,
    options: &'a Options,
    /// Interrupts so far.
    stop: &'a AtomicUsize,
    show: &'a mut dyn FnMut(&Progress<'_>),
    begun: Instant,
    ran: Vec<Ran>,
    total: usize,
}

impl Stage<'_> {
    /// The wanted clocks that the figure makes sense on.
    pub fn clocks(&self) -> Vec<Clock> {
        let wanted = self.options.clocks.iter().copied();
        wanted.filter(|clock| self.figure.clocks.contains(clock)).collect()
    }

    /// The wanted models.
    pub fn models(&self) -> Vec<Model> {
        self.options.models.clone()
    }

    /// Every wanted clock with every wanted model.
    pub fn settings(&self) -> Vec<(Clock, Model)> {
        let clocks = self.clocks();
        let models = &self.options.models;
        clocks.iter().flat_map(|clock| models.iter().map(|model| (*clock, *model))).collect()
    }

    /// This program, for programs of labs that call it.
    pub fn program(&self) -> &Path {
        &self.options.program
    }

    /// A folder of the figure's own beside its runs, absolute and made if it is not there.
    pub fn scratch(&self, name: &str) -> Result<PathBuf> {
        let folder = runs_of(&self.options.out, self.figure).join(name);
        fs::create_dir_all(&folder).map_err(|e| Error::io("create", &folder, e))?;
        folder.canonicalize().map_err(|e| Error::io("find", &folder, e))
    }

    /// A file of the figure's, as it was written beside the results.
    pub fn file(&self, path: &str) -> PathBuf {
        self.options.out.join("labs").join(path)
    }

    /// Whether smaller sizes are enough, to see that all works.
    pub fn short(&self) -> bool {
        self.options.short
    }

    /// The paper's size, or the short one.
    pub fn size<T>(&self, full: T, short: T) -> T {
        if self.options.short { short } else { full }
    }

    /// Whether the user wants an end: for figures that compute in process.
    pub fn check(&self) -> Result<()> {
        if self.stop.load(SeqCst) > 0 { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Makes runs: those on the virtual clock on all cores, then those on the wall clock one after
    /// the other. Results are in the order of the jobs.
    pub fn run(&mut self, jobs: &[Job]) -> Result<Vec<Run>> {
        self.run_at_once(jobs, 1, TRIES)
    }

    /// The same with so many runs on the wall clock at a time: for those that leave the machine
    /// mostly idle.
    pub fn run_some(&mut self, jobs: &[Job], at_once: usize) -> Result<Vec<Run>> {
        self.run_at_once(jobs, at_once, TRIES)
    }

    /// The same with all runs on the wall clock at the same time: for those that leave the machine
    /// mostly idle. They begin when all networks stand.
    pub fn run_together(&mut self, jobs: &[Job]) -> Result<Vec<Run>> {
        self.run_at_once(jobs, usize::MAX, TRIES)
    }

    /// The same with whatever comes of it, trusted or not: for runs that are about being many.
    pub fn run_together_once(&mut self, jobs: &[Job]) -> Result<Vec<Run>> {
        self.run_at_once(jobs, usize::MAX, 1)
    }

    /// Takes runs for what they were made for: to meet the machine's limit. That they are not
    /// trusted does not count against the figure.
    pub fn met_the_limit(&mut self, runs: &[Run]) {
        let met = |ran: &Ran| runs.iter().any(|run| run.name == ran.name);
        self.ran.iter_mut().filter(|ran| met(ran)).for_each(|ran| ran.beyond_limit = true);
    }

    fn run_at_once(&mut self, jobs: &[Job], at_once: usize, tries: u32) -> Result<Vec<Run>> {
        self.total += jobs.len();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let mut runs: Vec<Option<Run>> = vec![None; jobs.len()];
        for (clock, limit) in [(Clock::Virtual, cores), (Clock::Wall, at_once)] {
            let of: Vec<usize> = (0..jobs.len()).filter(|i| jobs[*i].clock == clock).collect();
            self.batch(jobs, &of, limit, &mut runs)?;
        }
        for again in 2..=tries {
            let late = |run: &Option<Run>| {
                run.as_ref().is_some_and(|run| run.clock == Clock::Wall && !run.trusted())
            };
            let of: Vec<usize> = (0..jobs.len()).filter(|at| late(&runs[*at])).collect();
            self.total += of.len();
            let old: Vec<Option<Run>> = of.iter().map(|at| runs[*at].take()).collect();
            self.batch(jobs, &of, at_once, &mut runs)?;
            for run in old.into_iter().flatten() {
                let folder = run.folder.path();
                fs::remove_dir_all(folder).map_err(|e| Error::io("remove", folder, e))?;
            }
            for at in of {
                if let Some(run) = &mut runs[at] {
                    run.tries = again;
                }
            }
        }
        let runs: Vec<Run> = runs.into_iter().flatten().collect();
        self.ran.extend(runs.iter().map(Ran::from));
        Ok(runs)
    }

    /// Makes some of the jobs, at most `limit` at a time. When one fails the others are stopped.
    fn batch(
        &mut self,
        jobs: &[Job],
        of: &[usize],
        limit: usize,
        runs: &mut [Option<Run>],
    ) -> Result<()> {
        let mut waiting = of.iter().copied();
        let together = limit > jobs.len() && of.iter().all(|at| jobs[*at].clock == Clock::Wall);
        let supervisor = if together { Supervisor::together() } else { Supervisor::new() };
        let mut batch = Batch { supervisor, children: Vec::new(), failed: None };
        loop {
            let interrupts = self.stop.load(SeqCst);
            let stops = interrupts.max(usize::from(batch.failed.is_some()));
            batch.supervisor.stop(stops);
            while stops == 0 && batch.failed.is_none() && batch.supervisor.running().count() < limit
            {
                let Some(index) = waiting.next() else { break };
                let started = self.start(&jobs[index], index, &mut batch);
                batch.failed = started.err();
            }
            if !batch.supervisor.is_running() {
                return batch.failed.map_or_else(|| self.check(), Err);
            }
            batch.collect(jobs, runs)?;
            let finished = self.ran.len() + runs.iter().flatten().count();
            (self.show)(&Progress {
                figure: self.figure.id,
                finished,
                total: self.total,
                running: batch.running().map(|index| jobs[index].name.as_str()).collect(),
                elapsed: self.begun.elapsed(),
            });
        }
    }

    fn start(&self, job: &Job, index: usize, batch: &mut Batch) -> Result<()> {
        let runs = runs_of(&self.options.out, self.figure);
        fs::create_dir_all(&runs).map_err(|e| Error::io("create", &runs, e))?;
        let words = job.words(self.options, &runs);
        // A run on the wall clock notices by its control socket when this process is killed.
        let hold = job.clock == Clock::Wall;
        let program = &self.options.program;
        let (child, mut command) = Child::new(program, &words, hold);
        let started = batch.supervisor.start(&mut command, hold);
        started.map_err(|e| Error::io("start", program, e))?;
        batch.children.push((index, Some(child)));
        Ok(())
    }
}

/// Runs that are made side by side.
struct Batch {
    supervisor: Supervisor,
    /// By the supervisor's numbers: the job's position, and what its run has printed.
    children: Vec<(usize, Option<Child>)>,
    /// The first error.
    failed: Option<Error>,
}

impl Batch {
    /// Positions of the jobs that are running.
    fn running(&self) -> impl Iterator<Item = usize> + '_ {
        self.supervisor.running().map(|number| self.children[number].0)
    }

    /// Waits for events, and takes in the runs that have ended.
    fn collect(&mut self, jobs: &[Job], runs: &mut [Option<Run>]) -> Result<()> {
        let wait = |e| Error::io("wait for runs of", Path::new("this figure"), e);
        for event in self.supervisor.wait(PROGRESS_INTERVAL).map_err(wait)? {
            match event {
                Event::Ready(_) => {}
                Event::Output(number, line) => {
                    self.children[number].1.iter_mut().for_each(|child| child.output(line.clone()));
                }
                Event::Log(number, line) => {
                    self.children[number].1.iter_mut().for_each(|child| child.log(line.clone()));
                }
                Event::Ended(number, status) => {
                    let (index, child) = &mut self.children[number];
                    let Some(child) = child.take() else { continue };
                    match read(&jobs[*index], child, status) {
                        Ok(run) => runs[*index] = Some(run),
                        Err(error) => {
                            self.failed.get_or_insert(error);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

fn read(job: &Job, child: Child, status: ExitStatus) -> Result<Run> {
    let folder = RunFolder::open(&child.finish(status)?)?;
    let record = folder.read_record()?;
    let (name, clock, model) = (job.name.clone(), job.clock, job.model);
    Ok(Run { name, clock, model, tries: 1, record, folder })
}

fn runs_of(out: &Path, figure: &Figure) -> PathBuf {
    out.join("runs").join(figure.id)
}

/// What came of figures.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Those that were asked for, in their order, as far as they were begun.
    pub figures: Vec<FigureResult>,
    /// Whether the user ended it before all were made.
    pub interrupted: bool,
}

/// Makes figures of a paper, one after the other, and keeps their results in `options.out`, where
/// earlier results of other figures stay. `done` hears of each. A figure that cannot be made does
/// not keep the others from it; `stop` counts the user's interrupts.
pub fn reproduce(
    paper: &Paper,
    figures: &[&Figure],
    options: &Options,
    stop: &AtomicUsize,
    show: &mut dyn FnMut(&Progress<'_>),
    done: &mut dyn FnMut(&FigureResult),
) -> Result<Outcome> {
    let out = &options.out;
    let mut results = Results::read(out, paper)?;
    env!("CARGO_PKG_VERSION").clone_into(&mut results.version);
    fs::create_dir_all(out).map_err(|e| Error::io("create", out, e))?;
    results.write(out, paper)?;
    let mut outcome = Outcome::default();
    for figure in figures {
        let Some(result) = make(paper, figure, options, stop, show)? else {
            outcome.interrupted = true;
            break;
        };
        write_plots(out, figure.id, &result.evidence.plots)?;
        results.figures.insert(figure.id.to_owned(), result.clone());
        results.write(out, paper)?;
        done(&result);
        outcome.figures.push(result);
    }
    Ok(outcome)
}

/// Makes one figure; `None` if the user ended it.
fn make(
    paper: &Paper,
    figure: &Figure,
    options: &Options,
    stop: &AtomicUsize,
    show: &mut dyn FnMut(&Progress<'_>),
) -> Result<Option<FigureResult>> {
    let out = &options.out;
    let old = runs_of(out, figure);
    if old.exists() {
        fs::remove_dir_all(&old).map_err(|e| Error::io("remove", &old, e))?;
    }
    write_files(out, figure)?;
    let made = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let begun = Instant::now();
    let mut stage = Stage { figure, options, stop, show, begun, ran: Vec::new(), total: 0 };
    let evidence = if figure.suits(&options.clocks) {
        (figure.make)(&mut stage)
    } else {
        Err(Error::Refused("it makes sense on another clock only".to_owned()))
    };
    let ran = stage.ran;
    let mut result = FigureResult {
        id: figure.id.to_owned(),
        title: figure.title.to_owned(),
        short: options.short,
        made_unix_ms: made.as_millis() as u64,
        took_s: begun.elapsed().as_secs_f64(),
        repeat: format!("netarium reproduce {} {}{}", paper.name, figure.id, options.words),
        runs: ran.into_iter().map(|run| relative(run, out)).collect(),
        ..FigureResult::default()
    };
    match evidence {
        Ok(evidence) => {
            result.evidence = evidence;
            result.judge();
        }
        Err(Error::Interrupted) => return Ok(None),
        // A run that is told to end before it has well begun may say so in any way.
        Err(_) if stop.load(SeqCst) > 0 => return Ok(None),
        Err(error) => {
            result.error = Some(error.text());
            result.exit_code = error.exit_code();
            result.status = Status::Failed;
        }
    }
    result.doubt();
    Ok(Some(result))
}

fn relative(mut run: Ran, out: &Path) -> Ran {
    if let Ok(out) = out.canonicalize()
        && let Ok(below) = Path::new(&run.folder).strip_prefix(out)
    {
        run.folder = below.display().to_string();
    }
    run
}

fn write_files(out: &Path, figure: &Figure) -> Result<()> {
    for file in figure.files {
        let path = out.join("labs").join(file.path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
        }
        fs::write(&path, file.bytes).map_err(|e| Error::io("write", &path, e))?;
    }
    Ok(())
}

/// `figure-3.7.svg`, `figure-3.7-2.svg` …, and the points of all in `figure-3.7.csv` and
/// `figure-3.7.parquet`.
fn write_plots(out: &Path, id: &str, plots: &[Plot]) -> Result<()> {
    let name = |index: usize| match index {
        0 => format!("figure-{id}.svg"),
        _ => format!("figure-{id}-{}.svg", index + 1),
    };
    for (index, plot) in plots.iter().enumerate() {
        replace(&out.join(name(index)), plot.svg().as_bytes())?;
    }
    // An earlier figure may have had more.
    for index in plots.len()..plots.len() + 20 {
        let _ = fs::remove_file(out.join(name(index)));
    }
    let points = out.join(format!("figure-{id}.csv"));
    let table = out.join(format!("figure-{id}.parquet"));
    if plots.is_empty() {
        let _ = fs::remove_file(points);
        let _ = fs::remove_file(table);
        return Ok(());
    }
    replace(&points, Plot::csv(plots).as_bytes())?;
    Ok(crate::points::table(plots).write(&table)?)
}
