//! The command-line parser, and its derivatives: completions, manual pages and the reference page.

use std::io::{self, Write as _};

use clap::{CommandFactory, FromArgMatches};
use clap_mangen::Man as Page;

use crate::args::{Cli, Completions, Man};
use crate::foreign_text::{has_unsafe, visible};
use crate::terminal::Terminal;
use crate::{Failure, Verdict, files};
use run::Exit;

/// The parser. All subcommands accept the global options, but only `netarium --help` lists them.
pub(crate) fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command.mut_subcommands(hide_global_options)
}

fn hide_global_options(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| if arg.is_global_set() { arg.hide(true) } else { arg })
        .mut_subcommands(hide_global_options)
}

pub(crate) fn parse() -> Cli {
    // Only `--version` prints the commit: pages must not change with each one.
    let matches = command().long_version(env!("NETARIUM_VERSION")).try_get_matches();
    let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| end(&error))
}

/// Prints an error of the command line, or the help, and ends. Arguments may be names of untrusted
/// files (`netarium check *`).
fn end(error: &clap::Error) -> ! {
    let words = std::env::args_os();
    if words.into_iter().all(|word| !has_unsafe(&word.to_string_lossy())) {
        error.exit();
    }
    // Without the styles of the parser, which cannot be distinguished from foreign ones.
    let text = error.render().to_string();
    // If writing to stderr fails, nothing can report it.
    let _ = writeln!(io::stderr(), "{}", visible(text.trim_end()));
    std::process::exit(error.exit_code())
}

pub(crate) fn schema(terminal: &Terminal) -> Verdict {
    let schema = lab::schema();
    let text = serde_json::to_string_pretty(&schema).map_err(io::Error::from)?;
    terminal.data(text)?;
    Ok(Exit::Ok)
}

pub(crate) fn completions(args: &Completions, terminal: &Terminal) -> Verdict {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "netarium", &mut text);
    terminal.data(String::from_utf8_lossy(&text))?;
    Ok(Exit::Ok)
}

pub(crate) fn man(args: &Man, terminal: &Terminal) -> Verdict {
    let Some(dir) = &args.dir else {
        terminal.data(page(Cli::command())?)?;
        return Ok(Exit::Ok);
    };
    std::fs::create_dir_all(dir)
        .map_err(|e| Failure::machine(format!("cannot create {}: {e}", dir.display())))?;
    let command = command();
    let write = |name: &str, text: String| files::write(&dir.join(format!("{name}.1")), &text);
    write("netarium", page(command.clone())?)?;
    let mut count = 1;
    for subcommand in documented(&command) {
        let name = format!("netarium-{}", subcommand.get_name());
        // `Command::name` needs a `'static` name; leaking a few names is harmless.
        let subcommand =
            subcommand.clone().name(&*name.clone().leak()).bin_name(name.replacen('-', " ", 1));
        write(&name, page(subcommand)?)?;
        count += 1;
    }
    terminal.note(format!("wrote {count} pages to {}", dir.display()));
    Ok(Exit::Ok)
}

/// The subcommands that users need.
fn documented(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command.get_subcommands().filter(|of| of.get_name() != "help" && !of.is_hide_set())
}

fn page(command: clap::Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    Page::new(command).render(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The help of all subcommands, recursively.
    fn sections(command: &clap::Command, before: &str, text: &mut String) {
        for subcommand in documented(command) {
            let name = format!("{before}{}", subcommand.get_name());
            let help = subcommand.clone().term_width(98).render_help().to_string();
            text.push_str(&["\n## ", &name, "\n\n```text\n", help.trim_end(), "\n```\n"].concat());
            sections(subcommand, &format!("{name} "), text);
        }
    }

    /// The reference page of the book.
    fn reference() -> String {
        let mut text = String::from(
            "# Command line\n\n\
             Results go to standard output, log output to standard error. An environment variable\n\
             can set each option that takes one value: `NETARIUM_RUNS` sets `--runs`.\n\n\
             All subcommands accept these options:\n\n\
             | option | effect |\n|---|---|\n",
        );
        let command = command();
        for option in command.get_arguments().filter(|arg| arg.is_global_set()) {
            let long = option.get_long().unwrap_or_default();
            let help = option.get_help().map(ToString::to_string).unwrap_or_default();
            writeln!(text, "| `--{long}` | {help} |").unwrap();
        }
        sections(&command, "", &mut text);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }

    #[test]
    fn reference_page_is_up_to_date() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/src/reference/cli.md");
        let expected = reference();
        if std::env::var_os("NETARIUM_GENERATE").is_some() {
            fs::write(&page, &expected).unwrap();
        }
        let found = fs::read_to_string(&page).unwrap_or_default();
        assert_eq!(
            found, expected,
            "out of date; update it with NETARIUM_GENERATE=1 cargo test -p netarium"
        );
    }

    #[test]
    fn parser_is_consistent() {
        Cli::command().debug_assert();
    }
}
