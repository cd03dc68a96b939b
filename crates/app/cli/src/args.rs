//! The command-line arguments.

pub(crate) mod bundle;
#[cfg_attr(not(feature = "cluster"), path = "args/no_cluster.rs")]
pub(crate) mod cluster;
pub(crate) mod collect;
pub(crate) mod diff;
pub(crate) mod export;
pub(crate) mod link;
pub(crate) mod mctcp;
pub(crate) mod measure;
pub(crate) mod report;
pub(crate) mod top;
pub(crate) mod up;
pub(crate) mod watch;

use std::net::{Ipv4Addr, SocketAddr};
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
    after_help = "Exit codes: 0 passed · 1 an expectation failed · 2 usage or lab error · \
                  3 not trusted ·\n4 a capability is missing · 5 a program failed · 70 internal \
                  error · 130 interrupted\n\n\
                  Start with `netarium doctor`, then `netarium new dumbbell`."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every subcommand.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Print JSON instead of text: one object, or one per line
    #[arg(long, global = true, env = "NETARIUM_JSON", hide_env = true)]
    pub(crate) json: bool,
    /// Suppress progress and notes
    #[arg(short, long, global = true, env = "NETARIUM_QUIET", hide_env = true)]
    pub(crate) quiet: bool,
    /// Show all rows, columns and reasons; -vv also prints the log of the run
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When to use colour: auto, always or never; respects `NO_COLOR`
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(hide_default_value = true, hide_possible_values = true, env = "NETARIUM_COLOR")]
    #[arg(hide_env = true)]
    pub(crate) color: Color,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command behind one emulated link, without a lab file
    #[command(after_help = "Examples:\n  netarium link --rate '10 Mbit/s' --delay '20 ms' -- \
                            curl https://example.org\n  netarium link --loss '1 %' \
                            --to 'python3 -m http.server 80' --ready 'port 80' -- curl peer")]
    Link(Box<link::Link>),
    /// Run labs on the wall clock, with real programs
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
    /// Reproduce the figures of a paper and compare them with the published values
    #[command(after_help = "Examples:\n  netarium reproduce --list\n  \
                            netarium reproduce splaynet 3.5 3.6b --clock virtual")]
    Reproduce(Reproduce),
    #[command(hide = true)]
    Measure(measure::Measure),
    /// Collect BGP passively from mirrored packets and archive it
    #[command(after_help = "Examples:\n  netarium collect --read span.pcap --out archive\n  \
                            netarium collect --interface eth1 --out archive \
                            --serve 127.0.0.1:8080")]
    Collect(Box<collect::Collect>),
    /// Run a Bundler gateway, which moves the queue between two sites to the sending site
    #[command(after_help = "Examples:\n  netarium bundle send --config send.toml\n  \
                            netarium bundle status --json")]
    Bundle(bundle::Bundle),
    /// Run an MCTCP server or proxy: connections over several paths, for unmodified programs
    #[command(after_help = "Examples:\n  netarium mctcp serve --listen 0.0.0.0 \
                            --key-file mctcp.key\n  \
                            netarium mctcp proxy --server gate.example.org \
                            --key-file mctcp.key --socks 127.0.0.1:1080")]
    Mctcp(mctcp::Mctcp),
    /// Run a cluster agent, which runs shards of labs on this machine
    #[command(after_help = "Examples:\n  netarium agent --listen 192.0.2.1\n  \
                            netarium agent --listen 192.0.2.2 --join 192.0.2.1 --cores 8")]
    Agent(Box<cluster::Agent>),
    /// Show or administer a cluster, or start one on this machine
    #[command(after_help = "Examples:\n  netarium cluster local 3\n  \
                            netarium cluster status --cluster hosts.toml")]
    Cluster(cluster::Cluster),
    /// Show the status of local collectors, gateways, servers, proxies, agents and labs
    #[command(after_help = "Examples:\n  netarium status\n  netarium status --json")]
    Status(Status),
    /// Check a lab file without starting anything
    #[command(after_help = "Examples:\n  netarium check dumbbell.toml\n  \
                            netarium check wan.toml --resolved")]
    Check(Check),
    /// List running labs
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
    /// Start a lab that stays up until `netarium down`, and wait until its programs are ready
    #[command(after_help = "Examples:\n  netarium up dumbbell.toml\n  \
                            netarium up wan.toml --name wan-2 --set link.core.delay='100 ms'")]
    Up(up::Up),
    /// Change links of a running lab, stop and start its programs
    #[command(after_help = "Examples:\n  netarium set dumbbell link.core.up.rate='1 Mbit/s' \
                            link.alice-r1.state=down\n  \
                            netarium set dumbbell program.server=stop")]
    Set(up::Set),
    /// Add a text with the time to the events of a running lab
    #[command(after_help = "Examples:\n  netarium mark dumbbell 'deployed version 2'\n  \
                            netarium mark dumbbell 'second test' --json")]
    Mark(up::Mark),
    /// Show a running lab or a finished run as a web page on this machine
    #[command(after_help = "Examples:\n  netarium watch dumbbell\n  \
                            netarium watch runs/dumbbell-1a2b3c --no-open")]
    Watch(watch::Watch),
    /// Show a running lab or a finished run in the terminal, change its links and programs
    #[command(after_help = "Examples:\n  netarium top dumbbell\n  \
                            netarium top runs/dumbbell-1a2b3c")]
    Top(top::Top),
    /// End running labs, keep their results and print their outcomes
    #[command(after_help = "Examples:\n  netarium down dumbbell\n  netarium down --all")]
    Down(up::Down),
    /// Remove registry entries of killed runs
    #[command(after_help = "Examples:\n  netarium clean\n  netarium clean --dry-run")]
    Clean(Clean),
    /// Show what this machine supports, and the command that fixes each gap
    #[command(after_help = "Examples:\n  netarium doctor\n  netarium doctor --quick --json")]
    Doctor(Doctor),
    /// Write a commented lab file from a template
    #[command(after_help = "Examples:\n  netarium new dumbbell\n  \
                            netarium new star my-lab.toml")]
    New(New),
    /// Print the tables of runs and write their report.html, or summarise them for CI
    #[command(after_help = "Examples:\n  netarium report runs/dumbbell-1a2b3c\n  \
                            netarium report runs/* --format markdown >> $GITHUB_STEP_SUMMARY")]
    Report(report::Report),
    /// Compare two runs, sets of repeated runs, or a run and a stored baseline
    #[command(after_help = "Examples:\n  netarium diff runs/before-1a2b3c runs/after-4d5e6f \
                            --metric 'flow.*.goodput'\n  \
                            netarium diff --baseline baseline.json runs/lab-1a2b3c \
                            --tolerance '5 %'")]
    Diff(diff::Diff),
    /// Print a table of a run as CSV, JSON Lines or Arrow, or list its tables
    #[command(after_help = "Examples:\n  netarium export runs/dumbbell-1a2b3c\n  \
                            netarium export runs/dumbbell-1a2b3c links --output links.csv")]
    Export(export::Export),
    /// Print the JSON schema of lab files
    #[command(after_help = "Examples:\n  netarium schema > lab.schema.json\n  \
                            netarium schema | jq .properties.link")]
    Schema,
    /// Print the completion script of a shell
    #[command(after_help = "Examples:\n  netarium completions bash > \
                            ~/.local/share/bash-completion/completions/netarium\n  \
                            netarium completions zsh > ~/.zfunc/_netarium")]
    Completions(Completions),
    /// Print the manual page, or write the pages of all subcommands
    #[command(after_help = "Examples:\n  netarium man | man -l -\n  \
                            netarium man ~/.local/share/man/man1")]
    Man(Man),
}

/// Monitoring of a long-running command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Status")]
pub(crate) struct Watch {
    /// Unix socket for `netarium status`; default: a socket of this process in /run/netarium
    #[arg(long, value_name = "SOCKET")]
    pub(crate) status: Option<PathBuf>,
    /// Serve /metrics, /health and /status over HTTP at this address
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Status sockets; default: all in /run/netarium
    #[arg(value_name = "SOCKET")]
    pub(crate) sockets: Vec<PathBuf>,
}

/// A lab file, with changes from the command line.
#[derive(Clone, Debug, Args)]
pub(crate) struct Changes {
    /// The lab file
    pub(crate) lab: PathBuf,
    #[command(flatten)]
    pub(crate) edits: Edits,
}

/// Changes of a lab file from the command line.
#[derive(Clone, Debug, Args)]
pub(crate) struct Edits {
    /// Seed of all random numbers; overrides the file
    #[arg(long, value_name = "N", env = "NETARIUM_SEED", hide_env = true)]
    #[arg(allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// Duration of the run; overrides the file
    #[arg(long, value_name = "TIME", env = "NETARIUM_DURATION", hide_env = true)]
    pub(crate) duration: Option<base::Span>,
    /// Name of the lab; overrides the file
    #[arg(long, value_name = "NAME", env = "NETARIUM_NAME", hide_env = true)]
    pub(crate) name: Option<String>,
    /// Override a field, for example link.core.delay='10 ms'; repeatable
    #[arg(long, value_name = "FIELD=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Lab files; several run at the same time as separate runs
    #[arg(required = true, value_name = "LAB")]
    pub(crate) labs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) edits: Edits,
    /// Run N copies of each lab at the same time
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true)]
    pub(crate) copies: std::num::NonZeroU16,
    /// Run the lab N times one after the other, as a set: mean and interval of each metric
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true)]
    #[arg(conflicts_with = "copies")]
    pub(crate) repeat: std::num::NonZeroU16,
    /// Folder for run folders
    #[arg(long, value_name = "DIR", default_value = "runs")]
    #[arg(env = "NETARIUM_RUNS", hide_env = true)]
    pub(crate) runs: PathBuf,
    /// Datapath engine; default: the fastest that works on this machine
    #[arg(long, env = "NETARIUM_ENGINE", hide_env = true)]
    pub(crate) engine: Option<Engine>,
    /// Continue until the end of the duration, even when all programs have ended
    #[arg(long)]
    pub(crate) stay: bool,
    /// Show no progress line
    #[arg(long, env = "NETARIUM_NO_PROGRESS", hide_env = true)]
    pub(crate) no_progress: bool,
    /// Write no report.html
    #[arg(long)]
    pub(crate) no_report: bool,
    /// Serve the live view, as `netarium watch`; in a terminal, until Ctrl-C after the run
    #[arg(long, conflicts_with_all = ["copies", "repeat"])]
    pub(crate) watch: bool,
    /// Serve metrics of the running lab over HTTP, for Prometheus; PORT alone: on 127.0.0.1
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = metrics_address)]
    #[arg(conflicts_with_all = ["copies", "repeat"])]
    pub(crate) metrics: Option<SocketAddr>,
    /// Standard input is a socket of the run supervisor, which starts the lab
    #[arg(long, hide = true)]
    pub(crate) await_start: bool,
    /// Standard input is a socket of `netarium up`
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
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
    /// Folder for run folders
    #[arg(long, value_name = "DIR", default_value = "runs")]
    #[arg(env = "NETARIUM_RUNS", hide_env = true)]
    pub(crate) runs: PathBuf,
    /// Run with N consecutive seeds in parallel, as a set: mean and interval of each metric
    #[arg(long, value_name = "N", default_value = "1", hide_default_value = true)]
    pub(crate) seeds: std::num::NonZeroU16,
    /// Number of parallel runs of --seeds; default: number of cores
    #[arg(short, long, value_name = "N")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,
    #[command(flatten)]
    pub(crate) limits: Limits,
    /// Show no progress line
    #[arg(long, env = "NETARIUM_NO_PROGRESS", hide_env = true)]
    pub(crate) no_progress: bool,
    /// Write no report.html
    #[arg(long)]
    pub(crate) no_report: bool,
    /// Serve the live view, which sets the pace; a page starts the run
    #[arg(long, conflicts_with = "seeds")]
    pub(crate) watch: bool,
    /// Serve metrics of the run over HTTP, for Prometheus; PORT alone: on 127.0.0.1
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = metrics_address)]
    #[arg(conflicts_with_all = ["seeds", "watch"])]
    pub(crate) metrics: Option<SocketAddr>,
}

/// Parses an address and port, or a port of 127.0.0.1.
fn metrics_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| "expected a port or ADDR:PORT, for example 9105".to_owned())
}

/// Limits of a run on the virtual clock.
#[derive(Debug, Args)]
pub(crate) struct Limits {
    /// Maximum number of events; a run that exceeds it fails; overrides the file
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_events: Option<u64>,
    /// Maximum memory; a run that exceeds it fails; overrides the file
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_memory: Option<base::Bytes>,
}

#[derive(Debug, Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Folder for the runs; default: sweeps/NAME. Runs that it already has are skipped
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Number of parallel runs; default: number of cores
    #[arg(short, long, value_name = "N")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,
    /// Run each combination with N consecutive seeds, beginning with the lab's. Flows start up to
    /// 100 ms (1 % of runs below 10 s) later at random; `--set lab.start_jitter='0 s'` prevents it
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
    /// Name of the paper
    #[arg(required_unless_present = "list")]
    pub(crate) paper: Option<String>,
    /// Figures; default: all of the paper
    #[arg(value_name = "FIGURE")]
    pub(crate) figures: Vec<String>,
    /// List figures with description and approximate duration
    #[arg(long)]
    pub(crate) list: bool,
    /// `wall`, `virtual` or `both`; default: both if this machine can run labs, else virtual
    #[arg(long, hide_possible_values = true)]
    pub(crate) clock: Option<WhichClock>,
    /// `hop`, `collapsed` or `both`; default: both
    #[arg(long, default_value = "both", hide_default_value = true, hide_possible_values = true)]
    pub(crate) model: WhichModel,
    /// Run on the agents of a cluster (wall clock): address of an agent, or a hosts.toml
    #[arg(long, value_name = "CLUSTER", env = "NETARIUM_CLUSTER", hide_env = true)]
    pub(crate) cluster: Option<String>,
    /// Reduced sizes: a check of the procedure, not of the paper's values
    #[arg(long)]
    pub(crate) short: bool,
    /// Folder for the results; default: reproduce-PAPER. Other figures in it are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Show no progress line
    #[arg(long, env = "NETARIUM_NO_PROGRESS", hide_env = true)]
    pub(crate) no_progress: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhichClock {
    /// Wall clock: real kernels and programs
    Wall,
    /// Virtual clock
    Virtual,
    /// Each run on both clocks
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhichModel {
    /// Packets cross every queue
    Hop,
    /// Packets cross the whole path at once, at the fair share of their flow
    Collapsed,
    /// Each run with both models
    Both,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Print the lab with all defaults and addresses
    #[arg(long)]
    pub(crate) resolved: bool,
    /// Print errors and warnings as annotations of GitHub Actions
    #[arg(long, conflicts_with = "resolved")]
    pub(crate) annotate: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Name or identifier of a running lab
    pub(crate) lab: String,
    /// Name of the host
    pub(crate) host: String,
    /// User of the command instead of the host's; `root` is the user of the run
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Shell {
    /// Name or identifier of a running lab
    pub(crate) lab: String,
    /// Name of the host
    pub(crate) host: String,
    /// User of the shell instead of the host's; `root` is the user of the run
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Clean {
    /// List the entries, remove nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Do not measure the timers, which takes 5 s
    #[arg(long)]
    pub(crate) quick: bool,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// Name of the template; without a name, list the templates
    pub(crate) template: Option<String>,
    /// File to write; default: TEMPLATE.toml; `-` is standard output
    pub(crate) file: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder for one page per subcommand
    pub(crate) dir: Option<PathBuf>,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((field, value)) if !field.trim().is_empty() => {
            Ok((field.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write FIELD=VALUE, for example link.core.delay='10 ms'".to_owned()),
    }
}
