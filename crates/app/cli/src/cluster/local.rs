//! `cluster local`: a cluster on one machine for one command.

use cluster_live::local::{self, run_local};

use report::format::shell_word;

use super::failure;
use crate::args::cluster::Local;
use crate::terminal::Terminal;
use crate::{Failure, Verdict, labs};
use run::Exit;

/// The command line without the command to run.
fn repeat(args: &Local) -> String {
    let mut words = vec!["netarium cluster local".to_owned()];
    match args.agents {
        Some(agents) => words.push(agents.to_string()),
        None => words.push(format!("--names {}", args.names.join(","))),
    }
    words.extend(args.rate.map(|rate| format!("--rate {}", shell_word(&rate.to_string()))));
    words.extend(args.restart.then(|| "--restart".to_owned()));
    words.push("--".to_owned());
    words.join(" ")
}

pub(crate) fn local(args: &Local, terminal: &Terminal) -> Verdict {
    let count = args.agents.unwrap_or(0);
    let names: Vec<String> = match count {
        0 => args.names.clone(),
        count => (1..=count).map(|at| format!("m{at}")).collect(),
    };
    let mut command = args.command.clone();
    if command.is_empty() {
        command.push(labs::user_shell());
        let list = names.join(", ");
        terminal.note(format!("a cluster of {list}; `exit` ends it"));
    }
    let program = std::env::current_exe()
        .map_err(|e| Failure::machine(format!("cannot find the own executable: {e}")))?;
    let repeat = repeat(args);
    let status = run_local(&local::Local {
        names,
        rate: args.rate,
        restart: args.restart,
        log: args.log.clone(),
        program,
        repeat,
        command,
    });
    let status = status.map_err(|e| failure(&e))?;
    // A process cannot have a status outside of 0 to 255.
    Ok(u8::try_from(status).map_or(Exit::Internal, Exit::Status))
}
