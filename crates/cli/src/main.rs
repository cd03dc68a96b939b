//! The `netarium` command: arguments, terminal output, exit codes. No logic.
#![forbid(unsafe_code)]

mod agent;
mod archives;
mod args;
mod bundle;
mod cluster;
mod collect;
mod daemon;
mod exit;
mod files;
mod generated;
mod interrupts;
mod jobs;
mod labs;
mod local;
mod machine;
mod mctcp;
mod placement;
mod progress;
mod repeat;
mod replay;
mod reproduce;
mod results;
mod run;
mod simulate;
mod spread;
mod sweep;
mod terminal;

use std::fmt::Display;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;

use args::{Cli, Verb};
use exit::Exit;
use terminal::{Style, Terminal};

#[global_allocator]
static ALLOCATOR: sys::memory::Allocator = sys::memory::Allocator;

/// Why a verb could not do its work.
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

    /// An error with what led to it, as far as its own text does not say so.
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

    /// What is wrong has been said.
    fn silent(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    fn usage(message: impl Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    fn machine(message: impl Display) -> Self {
        Self::new(Exit::Machine, message)
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

fn main() -> ExitCode {
    sys::memory::before_exhausted_end(record::save_records_without_memory);
    emu::program::init_main();
    if let Some(code) = hidden_roles() {
        return code;
    }
    let cli = Cli::parse();
    let terminal = Terminal::new(&cli.global);
    match panic::catch_unwind(AssertUnwindSafe(|| dispatch(&cli.verb, &terminal))) {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(failure)) => report_failure(&failure, &terminal),
        Err(_) => {
            terminal.error(
                "this is a bug of netarium; please report it with the text above, the lab file \
                 and the output of `netarium doctor --json`",
            );
            Exit::Bug.into()
        }
    }
}

/// The binary is also its own probe, as it is its own init.
fn hidden_roles() -> Option<ExitCode> {
    let first = std::env::args_os().nth(1)?;
    if first == emu::doctor::PROBE_ARGUMENT {
        let exit = emu::doctor::probe_main().map_or(Exit::Machine, |()| Exit::Ok);
        return Some(exit.into());
    }
    if first == cluster_live::piece::ARGUMENT {
        return Some(cluster_live::piece::piece_main().into());
    }
    None
}

fn dispatch(verb: &Verb, terminal: &Terminal) -> Verdict {
    match verb {
        Verb::Run(args) => run::run(args, terminal),
        Verb::Sim(args) => simulate::sim(args, terminal),
        Verb::Sweep(args) => sweep::sweep(args, terminal),
        Verb::Replay(args) => replay::replay(args, terminal),
        Verb::Reproduce(args) => reproduce::reproduce(args, terminal),
        Verb::Collect(args) => collect::collect(args, terminal),
        Verb::Bundle(args) => bundle::bundle(args, terminal),
        Verb::Mctcp(args) => mctcp::mctcp(args, terminal),
        Verb::Agent(args) => agent::agent(args, terminal),
        Verb::Cluster(args) => cluster::cluster(args, terminal),
        Verb::Check(args) => files::check(args, terminal),
        Verb::Ps => labs::ps(terminal),
        Verb::Exec(args) => labs::exec(args, terminal),
        Verb::Shell(args) => labs::shell(args, terminal),
        Verb::Stop(args) => labs::stop(args, terminal),
        Verb::Clean(args) => labs::clean(args, terminal),
        Verb::Doctor => machine::doctor(terminal),
        Verb::New(args) => files::new(args, terminal),
        Verb::Report(args) => results::report(args, terminal),
        Verb::Diff(args) => results::diff(args, terminal),
        Verb::Schema => generated::schema(terminal),
        Verb::Completions(args) => generated::completions(args, terminal),
        Verb::Man(args) => generated::man(args, terminal),
    }
}

fn report_failure(failure: &Failure, terminal: &Terminal) -> ExitCode {
    if failure.message.is_empty() {
        return failure.exit.into();
    }
    if terminal.json {
        let object = json!({
            "schema": "netarium.error/1",
            "message": failure.message,
            "help": failure.help,
            "exit_code": failure.exit.code(),
        });
        // Nothing is left to tell, and nobody to tell it to.
        let _ = terminal.object(&object);
    } else {
        let head = terminal.paint_talk(Style::Bad, "error:");
        terminal.error(format!("{head} {}", failure.message));
        if let Some(help) = &failure.help {
            let head = terminal.paint_talk(Style::Strong, "help:");
            terminal.error(format!("{head} {help}"));
        }
    }
    failure.exit.into()
}
