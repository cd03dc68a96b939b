//! The `netarium` command: arguments, terminal output, exit codes. No logic.
//!
//! Most files depend on each other: `args` has the options of all commands, and each command reads
//! its own and names the ones that it starts in messages.
#![forbid(unsafe_code)]

mod archives;
mod args;
mod bundle;
#[cfg_attr(not(feature = "cluster"), path = "no_cluster.rs")]
mod cluster;
mod collect;
mod daemon;
mod diff;
mod doctor;
mod export;
mod files;
mod foreign_text;
mod generated;
mod interrupts;
mod jobs;
mod labs;
mod link;
mod mctcp;
mod measure;
mod metrics;
mod progress;
mod repeat;
mod replay;
mod reproduce;
mod results;
mod run;
mod set;
mod simulate;
mod status;
mod summary;
mod sweep;
mod terminal;
mod top;
mod up;
mod watch;

use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use serde_json::{Value, json};

use ::run::Exit;
use args::Command;
use terminal::{Style, Terminal};

#[global_allocator]
static ALLOCATOR: sys::memory::Allocator = sys::memory::Allocator;

/// The error of a subcommand.
#[derive(Debug)]
struct Failure {
    exit: Exit,
    message: String,
    help: Option<String>,
}

impl Failure {
    fn new(exit: Exit, message: impl Display) -> Self {
        Self { exit, message: message.to_string(), help: None }
    }

    /// An error with its causes, unless its own text contains them.
    fn caused(exit: Exit, error: &dyn std::error::Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        Self::new(exit, message)
    }

    /// The error has been reported.
    fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    fn usage(message: impl Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    fn machine(message: impl Display) -> Self {
        Self::new(Exit::Machine, message)
    }

    fn as_json(&self) -> Value {
        json!({
            "schema": "netarium.error/1",
            "message": self.message,
            "help": self.help,
            "exit_code": self.exit.code(),
        })
    }

    fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::machine(format!("cannot write the result: {error}"))
    }
}

type Verdict = Result<Exit, Failure>;

/// The error of a subcommand or option that needs a feature which this build does not have.
#[cfg(not(feature = "cluster"))]
fn needs_feature(feature: &str) -> Verdict {
    let message = format!("this build of netarium lacks the feature `{feature}`");
    Err(Failure::machine(message)
        .help("build it with `cargo build --release`, which includes all features"))
}

fn main() -> ExitCode {
    sys::memory::before_exhausted_end(::run::save_records_without_memory);
    emu::program::init_main();
    if let Some(code) = hidden_roles() {
        return code;
    }
    let cli = generated::parse();
    let terminal = Terminal::new(&cli.global);
    let result = panic::catch_unwind(AssertUnwindSafe(|| dispatch(&cli.command, &terminal)));
    daemon::report_stopping();
    match result {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(failure)) => report_failure(&failure, &terminal),
        Err(_) => {
            terminal.error(
                "internal error: this is a bug; please report it with the text above, the lab file \
                 and the output of `netarium doctor --json`",
            );
            Exit::Internal.into()
        }
    }
}

/// The binary also runs as probe of `doctor` and as shard of an agent.
fn hidden_roles() -> Option<ExitCode> {
    let first = std::env::args_os().nth(1)?;
    if first == emu::doctor::PROBE_ARGUMENT {
        let exit = emu::doctor::probe_main().map_or(Exit::Machine, |()| Exit::Ok);
        return Some(exit.into());
    }
    cluster::shard(&first)
}

fn dispatch(command: &Command, terminal: &Terminal) -> Verdict {
    match command {
        Command::Run(args) => run::run(args, terminal),
        Command::Sim(args) => simulate::sim(args, terminal),
        Command::Sweep(args) => sweep::sweep(args, terminal),
        Command::Replay(args) => replay::replay(args, terminal),
        Command::Reproduce(args) => reproduce::reproduce(args, terminal),
        Command::Measure(args) => measure::measure(args, terminal),
        Command::Collect(args) => collect::collect(args, terminal),
        Command::Bundle(args) => bundle::bundle(args, terminal),
        Command::Mctcp(args) => mctcp::mctcp(args, terminal),
        Command::Agent(args) => cluster::agent(args, terminal),
        Command::Cluster(args) => cluster::cluster(args, terminal),
        Command::Status(args) => status::status(args, terminal),
        Command::Check(args) => files::check(args, terminal),
        Command::Ps => labs::ps(terminal),
        Command::Link(args) => link::link(args, terminal),
        Command::Exec(args) => labs::exec(args, terminal),
        Command::Shell(args) => labs::shell(args, terminal),
        Command::Up(args) => up::up(args, terminal),
        Command::Set(args) => up::set(args, terminal),
        Command::Mark(args) => up::mark(args, terminal),
        Command::Watch(args) => watch::watch(args, terminal),
        Command::Top(args) => top::top(args, terminal),
        Command::Down(args) => up::down(args, terminal),
        Command::Clean(args) => labs::clean(args, terminal),
        Command::Doctor(args) => doctor::doctor(args, terminal),
        Command::New(args) => files::new(args, terminal),
        Command::Report(args) => summary::report(args, terminal),
        Command::Diff(args) => diff::diff(args, terminal),
        Command::Export(args) => export::export(args, terminal),
        Command::Schema => generated::schema(terminal),
        Command::Completions(args) => generated::completions(args, terminal),
        Command::Man(args) => generated::man(args, terminal),
    }
}

fn report_failure(failure: &Failure, terminal: &Terminal) -> ExitCode {
    if failure.message.is_empty() {
        return failure.exit.into();
    }
    if terminal.json {
        // If writing the error fails, nothing can report it.
        let _ = terminal.object(&failure.as_json());
    } else {
        let head = terminal.paint_note(Style::Bad, "error:");
        terminal.error(format!("{head} {}", failure.message));
        if let Some(help) = &failure.help {
            let head = terminal.paint_note(Style::Strong, "help:");
            terminal.error(format!("{head} {help}"));
        }
    }
    failure.exit.into()
}
