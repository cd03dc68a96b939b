//! What the command line accepts.

pub(crate) mod agent;
pub(crate) mod bundle;
pub(crate) mod cluster;
pub(crate) mod collect;
pub(crate) mod local;
pub(crate) mod mctcp;
pub(crate) mod placement;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Real programs on an emulated network, in user space.
#[derive(Debug, Parser)]
#[command(
    name = "netarium",
    version,
    about = "An Internet in a box: real programs on an emulated network, in user space",
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Exit codes: 0 ok · 1 an expectation failed · 2 usage or lab error · \
                  3 finished but not trusted ·\n4 the machine lacks something · 5 a program \
                  failed · 70 a bug of netarium · 130 interrupted\n\n\
                  Start with `netarium doctor`, then `netarium new dumbbell`."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every verb.
#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Print one JSON object (or one a line) instead of text
    #[arg(long, global = true, env = "NETARIUM_JSON", hide_env = true)]
    pub(crate) json: bool,
    /// Print results only, no talk
    #[arg(short, long, global = true, env = "NETARIUM_QUIET", hide_env = true)]
    pub(crate) quiet: bool,
    /// When to colour the output; `NO_COLOR` is heeded
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true,
        env = "NETARIUM_COLOR",
        hide_env = true
    )]
    pub(crate) color: Color,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run labs: start their networks and programs, record, judge
    #[command(after_help = "Examples:\n  netarium run wan.toml ring.toml --copies 2\n  \
                            netarium run wan.toml --seed 7 --set link.core.delay='100 ms'")]
    Run(Run),
    /// Run a lab of built-in flows on the virtual clock: exact, repeatable, fast
    #[command(after_help = "Examples:\n  netarium sim dumbbell.toml\n  \
                            netarium sim wan.toml --seed 7 --set link.core.delay='100 ms'")]
    Sim(Sim),
    /// Run all combinations of a swept lab on the virtual clock, on all cores
    #[command(after_help = "Examples:\n  netarium sweep buffers.toml\n  \
                            netarium sweep buffers.toml --repeat 10 --jobs 4 --out results")]
    Sweep(Sweep),
    /// Repeat a recorded run's network on the virtual clock and compare the traces
    #[command(after_help = "Examples:\n  netarium replay runs/dumbbell-1a2b3c\n  \
                            netarium replay runs/dumbbell-1a2b3c --json")]
    Replay(Replay),
    /// Make the figures of a published evaluation and compare them with what was printed
    #[command(after_help = "Examples:\n  netarium reproduce --list\n  \
                            netarium reproduce splaynet 3.5 3.6b --clock virtual")]
    Reproduce(Reproduce),
    /// Collect BGP passively from cloned packets, and archive it
    #[command(after_help = "Examples:\n  netarium collect --read span.pcap --out archive\n  \
                            netarium collect --interface eth1 --out archive \
                            --serve 127.0.0.1:8080")]
    Collect(Box<collect::Collect>),
    /// Move the queue between two sites to the sending one: the boxes of Bundler
    #[command(after_help = "Examples:\n  netarium bundle send --config send.toml\n  \
                            netarium bundle status --json")]
    Bundle(bundle::Bundle),
    /// Carry connections over several paths at once, for programs that know nothing of it
    #[command(after_help = "Examples:\n  netarium mctcp serve --listen 0.0.0.0 \
                            --key-file mctcp.key\n  \
                            netarium mctcp proxy --server gate.example.org \
                            --key-file mctcp.key --socks 127.0.0.1:1080")]
    Mctcp(mctcp::Mctcp),
    /// Give this machine to a cluster: hold hosts of labs that run on several machines
    #[command(after_help = "Examples:\n  netarium agent --listen 192.0.2.1\n  \
                            netarium agent --listen 192.0.2.2 --join 192.0.2.1 --cores 8")]
    Agent(Box<agent::Agent>),
    /// Look at a cluster, or make one on this machine
    #[command(after_help = "Examples:\n  netarium cluster local 3\n  \
                            netarium cluster status --cluster hosts.toml")]
    Cluster(cluster::Cluster),
    /// Check a lab file without starting anything
    #[command(after_help = "Examples:\n  netarium check dumbbell.toml\n  \
                            netarium check wan.toml --resolved")]
    Check(Check),
    /// List the labs that run
    #[command(after_help = "Examples:\n  netarium ps\n  netarium ps --json")]
    Ps,
    /// Run a command on a host of a running lab
    #[command(after_help = "Examples:\n  netarium exec dumbbell alice -- ping -c 3 bob\n  \
                            netarium exec dumbbell bob -- ss -tin")]
    Exec(Exec),
    /// Open a shell on a host of a running lab
    #[command(after_help = "Examples:\n  netarium shell dumbbell alice\n  \
                            SHELL=/bin/zsh netarium shell dumbbell alice")]
    Shell(Shell),
    /// End running labs; their results are kept
    #[command(after_help = "Examples:\n  netarium stop dumbbell\n  netarium stop --all")]
    Stop(Stop),
    /// Remove what killed runs left behind
    #[command(after_help = "Examples:\n  netarium clean\n  netarium clean --dry-run")]
    Clean(Clean),
    /// Say what this machine can do, and the line that mends what it cannot
    #[command(after_help = "Examples:\n  netarium doctor\n  netarium doctor --json")]
    Doctor,
    /// Write a commented lab file to start from
    #[command(after_help = "Examples:\n  netarium new dumbbell\n  \
                            netarium new star my-lab.toml")]
    New(New),
    /// Print a run's tables and write its report.html
    #[command(after_help = "Examples:\n  netarium report runs/dumbbell-1a2b3c\n  \
                            netarium report runs/dumbbell-1a2b3c --json")]
    Report(Report),
    /// Compare two runs
    #[command(after_help = "Examples:\n  netarium diff runs/before-1a2b3c runs/after-4d5e6f\n  \
                            netarium diff A B --tolerance '5 %'")]
    Diff(Diff),
    /// Print the JSON schema of lab files
    #[command(after_help = "Examples:\n  netarium schema > lab.schema.json\n  \
                            netarium schema | jq .properties.link")]
    Schema,
    /// Print the completion script of a shell
    #[command(after_help = "Examples:\n  netarium completions bash > \
                            ~/.local/share/bash-completion/completions/netarium\n  \
                            netarium completions zsh > ~/.zfunc/_netarium")]
    Completions(Completions),
    /// Print the manual page, or write the pages of all verbs
    #[command(after_help = "Examples:\n  netarium man | man -l -\n  \
                            netarium man ~/.local/share/man/man1")]
    Man(Man),
}

/// A lab file, and what is changed in it without editing it.
#[derive(Clone, Debug, Args)]
pub(crate) struct Changes {
    /// The lab file
    pub(crate) lab: PathBuf,
    #[command(flatten)]
    pub(crate) edits: Edits,
}

/// What may be changed in a lab file without editing it.
#[derive(Clone, Debug, Args)]
pub(crate) struct Edits {
    /// Seed of every random choice, instead of the file's
    #[arg(long, value_name = "N", env = "NETARIUM_SEED", hide_env = true)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Length of the run, instead of the file's
    #[arg(long, value_name = "TIME", env = "NETARIUM_DURATION", hide_env = true)]
    pub(crate) duration: Option<base::Span>,
    /// Name of the lab, instead of the file's
    #[arg(long, value_name = "NAME", env = "NETARIUM_NAME", hide_env = true)]
    pub(crate) name: Option<String>,
    /// Another value for a field, such as link.core.delay='10 ms'; repeatable
    #[arg(long, value_name = "FIELD=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The lab file; several run at the same time, each on its own
    #[arg(required = true, value_name = "LAB")]
    pub(crate) labs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) edits: Edits,
    /// Run each lab so many times at once
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true)]
    pub(crate) copies: std::num::NonZeroU16,
    /// Folder that the run folders are made in
    #[arg(
        long,
        value_name = "DIR",
        default_value = "runs",
        env = "NETARIUM_RUNS",
        hide_env = true
    )]
    pub(crate) runs: PathBuf,
    /// Datapath engine; by default the best that the machine allows
    #[arg(long, env = "NETARIUM_ENGINE", hide_env = true)]
    pub(crate) engine: Option<Engine>,
    /// Keep the lab up until the end of its duration, even when all programs have ended
    #[arg(long)]
    pub(crate) stay: bool,
    /// Show no progress line
    #[arg(long, env = "NETARIUM_NO_PROGRESS", hide_env = true)]
    pub(crate) no_progress: bool,
    /// Write no report.html
    #[arg(long)]
    pub(crate) no_report: bool,
    /// Standard input is a socket that says when the lab begins
    #[arg(long, hide = true)]
    pub(crate) await_start: bool,
    #[command(flatten)]
    pub(crate) spread: cluster::Spread,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// TUN devices with virtio-net headers
    Tun,
    /// veth pairs and packet sockets
    Packet,
}

#[derive(Debug, Args)]
pub(crate) struct Sim {
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Folder that the run folders are made in
    #[arg(
        long,
        value_name = "DIR",
        default_value = "runs",
        env = "NETARIUM_RUNS",
        hide_env = true
    )]
    pub(crate) runs: PathBuf,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Show no progress line
    #[arg(long, env = "NETARIUM_NO_PROGRESS", hide_env = true)]
    pub(crate) no_progress: bool,
    /// Write no report.html
    #[arg(long)]
    pub(crate) no_report: bool,
}

/// Where a run on the virtual clock ends with an error.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    /// End a run with an error after so many events, instead of the file's limit
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_events: Option<u64>,
    /// End a run with an error when it needs more memory, instead of the file's limit
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_memory: Option<base::Bytes>,
}

#[derive(Debug, Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Folder for the runs and their list, sweeps/NAME by default; what it has is not run again
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Runs at the same time; by default as many as there are cores
    #[arg(short, long, value_name = "N")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,
    /// Run each combination with N seeds: the lab's and those that follow it. Flows then start
    /// up to 100 ms (1 % of a run below 10 s) later, at random; `--set lab.start_jitter='0 s'`
    /// switches this off
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true)]
    pub(crate) repeat: std::num::NonZeroU32,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Show no progress line
    #[arg(long, env = "NETARIUM_NO_PROGRESS", hide_env = true)]
    pub(crate) no_progress: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The folder of a run with `record = true`
    pub(crate) run: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// The paper
    #[arg(required_unless_present = "list")]
    pub(crate) paper: Option<String>,
    /// Its figures; all without any
    #[arg(value_name = "FIGURE")]
    pub(crate) figures: Vec<String>,
    /// List figures, what they show, and about how long they take
    #[arg(long)]
    pub(crate) list: bool,
    /// `wall`, `virtual` or `both`; by default both where the machine runs labs, else virtual
    #[arg(long, hide_possible_values = true)]
    pub(crate) clock: Option<WhichClock>,
    /// `hop`, `collapsed` or, by default, `both`
    #[arg(long, default_value = "both", hide_default_value = true, hide_possible_values = true)]
    pub(crate) model: WhichModel,
    /// Spread the runs on the wall clock over the agents of a cluster: address of one of them, or a
    /// hosts.toml that lists them
    #[arg(long, value_name = "CLUSTER", env = "NETARIUM_CLUSTER", hide_env = true)]
    pub(crate) cluster: Option<String>,
    /// Reduced sizes: to see that all works, not what the paper shows
    #[arg(long)]
    pub(crate) short: bool,
    /// Folder for the results, reproduce-PAPER by default; other figures in it are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Show no progress line
    #[arg(long, env = "NETARIUM_NO_PROGRESS", hide_env = true)]
    pub(crate) no_progress: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhichClock {
    /// The machine's: real kernels and programs
    Wall,
    /// The simulator's
    Virtual,
    /// Each run on both
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhichModel {
    /// Packets cross every queue
    Hop,
    /// Packets cross their path at once, at their flow's share
    Collapsed,
    /// Each run with both
    Both,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Print the lab with every default and address written out
    #[arg(long)]
    pub(crate) resolved: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Name or identifier of the running lab
    pub(crate) lab: String,
    /// The host
    pub(crate) host: String,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Shell {
    /// Name or identifier of the running lab
    pub(crate) lab: String,
    /// The host
    pub(crate) host: String,
}

#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// Names or identifiers of running labs
    #[arg(required_unless_present = "all", value_name = "LAB")]
    pub(crate) labs: Vec<String>,
    /// All labs of this user
    #[arg(long, conflicts_with = "labs")]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Clean {
    /// List only
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// Name of the template; without it the templates are listed
    pub(crate) template: Option<String>,
    /// File to write; TEMPLATE.toml by default, `-` for standard output
    pub(crate) file: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The run folder
    pub(crate) run: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// A run folder
    pub(crate) before: PathBuf,
    /// The run folder to compare it with
    pub(crate) after: PathBuf,
    /// Exit with 1 where a number changed by more than this share
    #[arg(long, value_name = "SHARE", default_value = "0 %", hide_default_value = true)]
    pub(crate) tolerance: base::Ratio,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder to write one page for each verb to
    pub(crate) dir: Option<PathBuf>,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((field, value)) if !field.trim().is_empty() => {
            Ok((field.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write FIELD=VALUE, such as link.core.delay='10 ms'".to_owned()),
    }
}
