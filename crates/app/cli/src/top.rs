//! `top`: the live view in a terminal.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use ::top::{Ended, Error};
use run::Exit;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::top::Top;
use crate::terminal::Terminal;
use crate::{Failure, Verdict, interrupts, watch};

pub(crate) fn top(args: &Top, terminal: &Terminal) -> Verdict {
    needs_terminal(terminal)?;
    let (_, run) = watch::find(&args.run, args.read_only, terminal)?;
    let stop = stop()?;
    match ::top::show(&run, terminal.color, &stop) {
        Ok(Ended::Quit) => Ok(Exit::Ok),
        Ok(Ended::Stopped) => Ok(Exit::Interrupted),
        Err(Error::Run(error)) => Err(Failure::usage(error)),
        Err(error) => Err(Failure::machine(error)),
    }
}

fn needs_terminal(terminal: &Terminal) -> Result<(), Failure> {
    let help = "use `netarium ps` for the list of labs, `netarium watch` for a page, and `netarium \
                report` for the tables of a run";
    let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    let why = if terminal.json {
        "top has no JSON output".to_owned()
    } else if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        "top needs a terminal as standard input and output".to_owned()
    } else if is_dumb {
        "top needs a terminal with a cursor, and TERM is `dumb`".to_owned()
    } else {
        return Ok(());
    };
    Err(Failure::usage(why).help(help))
}

/// A flag that is set by the first SIGINT or SIGTERM. The second one, or SIGHUP, restores the
/// terminal and exits immediately: reading from a terminal that is gone may never return.
fn stop() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let exit = || {
        ::top::restore();
        std::process::exit(i32::from(Exit::Interrupted.code()));
    };
    interrupts::each_of(&[SIGINT, SIGTERM], move || {
        if flag.swap(true, SeqCst) {
            exit();
        }
    })?;
    interrupts::each_of(&[SIGHUP], exit)?;
    Ok(stop)
}
