//! Verbs that print what is derived from the program itself.

use std::fs;
use std::io;
use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man as Page;

use crate::args::{Cli, Completions, Man};
use crate::exit::Exit;
use crate::terminal::Terminal;
use crate::{Failure, Verdict};

/// The parser, with every argument of every verb in place.
pub(crate) fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
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
    fs::create_dir_all(dir).map_err(|e| cannot_write(dir, &e))?;
    let command = command();
    let write = |name: &str, text: String| {
        let file = dir.join(format!("{name}.1"));
        fs::write(&file, text).map_err(|e| cannot_write(&file, &e))
    };
    write("netarium", page(command.clone())?)?;
    let mut count = 1;
    for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
        let name = format!("netarium-{}", verb.get_name());
        // `Command::name` keeps a text of the program's lifetime; there are a dozen of these.
        let verb = verb.clone().name(&*name.clone().leak()).bin_name(name.replacen('-', " ", 1));
        write(&name, page(verb)?)?;
        count += 1;
    }
    terminal.talk(format!("wrote {count} pages to {}", dir.display()));
    Ok(Exit::Ok)
}

fn page(command: clap::Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    Page::new(command).render(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::machine(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The help of all verbs, and of theirs.
    fn sections(command: &clap::Command, before: &str, text: &mut String) {
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            let name = format!("{before}{}", verb.get_name());
            let help = verb.clone().term_width(98).render_long_help().to_string();
            text.push_str(&["\n## ", &name, "\n\n```text\n", help.trim_end(), "\n```\n"].concat());
            sections(verb, &format!("{name} "), text);
        }
    }

    /// The reference page of the book.
    fn reference() -> String {
        let mut text = String::from(
            "# Command line\n\n\
             Results go to standard output, talk to standard error. `--json` prints one object\n\
             with a `schema` field instead of text. Options of one value can also be set by\n\
             environment variables: `--runs` by `NETARIUM_RUNS`.\n",
        );
        sections(&command(), "", &mut text);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        lines.join("\n") + "\n"
    }

    #[test]
    fn the_reference_page_is_fresh() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/cli.md");
        let fresh = reference();
        if std::env::var_os("NETARIUM_BLESS").is_some() {
            fs::write(&page, &fresh).unwrap();
        }
        let found = fs::read_to_string(&page).unwrap_or_default();
        assert_eq!(found, fresh, "stale: NETARIUM_BLESS=1 cargo test -p netarium writes it anew");
    }

    #[test]
    fn the_parser_is_consistent() {
        Cli::command().debug_assert();
    }
}
