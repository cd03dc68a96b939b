//! `reproduce`: starts the Python package with the figures of papers.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::args::{Reproduce, WhichClock, WhichModel};
use crate::terminal::Terminal;
use crate::{Failure, Verdict};

const PACKAGE: &str = "netarium_papers";
/// Exits with 0 if the package is installed.
const PROBE: &str = "import importlib.util as u; exit(u.find_spec('netarium_papers') is None)";

pub(crate) fn reproduce(args: &Reproduce, terminal: &Terminal) -> Verdict {
    let program = std::env::current_exe()
        .map_err(|e| Failure::machine(format!("cannot find the netarium executable: {e}")))?;
    let python = python(&program);
    let mut probe = Command::new(&python);
    probe.args(["-c", PROBE]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !probe.status().is_ok_and(|status| status.success()) {
        let message = format!("the figures of papers are not installed for {}", python.display());
        return Err(Failure::machine(message).help(
            "pip install netarium-papers; in a clone of the repository: \
             pip install ./python ./reproduce",
        ));
    }
    let mut command = Command::new(&python);
    command.args(["-m", PACKAGE]).args(words(args, terminal)).env("NETARIUM_BINARY", &program);
    let error = command.exec();
    Err(Failure::machine(format!("cannot start {}: {error}", python.display())))
}

/// The Python of the environment that contains this program, else that of the `PATH`.
fn python(program: &Path) -> PathBuf {
    let beside = program.with_file_name("python3");
    if beside.is_file() { beside } else { PathBuf::from("python3") }
}

fn words(args: &Reproduce, terminal: &Terminal) -> Vec<String> {
    let mut words: Vec<String> = args.paper.iter().chain(&args.figures).cloned().collect();
    let clock = args.clock.map(|clock| match clock {
        WhichClock::Wall => "wall",
        WhichClock::Virtual => "virtual",
        WhichClock::Both => "both",
    });
    let model = match args.model {
        WhichModel::Hop => "hop",
        WhichModel::Collapsed => "collapsed",
        WhichModel::Both => "both",
    };
    let out = args.out.as_ref().map(|out| out.display().to_string());
    let options = [
        ("--clock", clock.map(str::to_owned)),
        ("--model", Some(model.to_owned())),
        ("--cluster", args.cluster.clone()),
        ("--out", out),
    ];
    for (name, value) in options {
        words.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
    }
    let flags = [
        ("--list", args.list),
        ("--short", args.short),
        ("--json", terminal.json),
        ("--quiet", terminal.quiet),
        ("--no-progress", args.no_progress),
    ];
    words.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| (*name).to_owned()));
    words
}
