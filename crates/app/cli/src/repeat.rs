//! The command that repeats a run.

use std::path::Path;

use lab::plan::Plan;
use report::format::shell_word;

use crate::args::{Changes, Edits};

/// The command that repeats a run: same file, seed, changes and sweep values. `more` has the
/// options of the subcommand.
pub(crate) fn command(
    subcommand: &str,
    changes: &Changes,
    plan: &Plan,
    runs: &Path,
    more: &[String],
) -> String {
    let mut words = vec!["netarium".to_owned(), subcommand.to_owned(), quote_path(&changes.lab)];
    let swept = |field: &str| plan.sweep.iter().any(|(name, _)| name == field);
    let unswept = changes.edits.set.iter().filter(|(field, _)| !swept(field));
    let set = unswept.chain(&plan.sweep).filter(|(field, _)| field != sim::sweep::SEED);
    words.extend(options(Some(plan.seed), &changes.edits, set));
    if runs != Path::new("runs") {
        words.extend(["--runs".to_owned(), quote_path(runs)]);
    }
    words.extend(more.iter().map(|word| shell_word(word)));
    words.join(" ")
}

/// The changes of the lab file as options.
pub(crate) fn changes(edits: &Edits) -> Vec<String> {
    options(edits.seed, edits, edits.set.iter())
}

fn options<'a>(
    seed: Option<u64>,
    edits: &Edits,
    set: impl Iterator<Item = &'a (String, String)>,
) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(seed) = seed {
        words.extend(["--seed".to_owned(), seed.to_string()]);
    }
    if let Some(duration) = edits.duration {
        words.extend(["--duration".to_owned(), shell_word(&duration.to_string())]);
    }
    if let Some(name) = &edits.name {
        words.extend(["--name".to_owned(), shell_word(name)]);
    }
    for (field, value) in set {
        words.extend(["--set".to_owned(), shell_word(&format!("{field}={value}"))]);
    }
    words
}

/// Quotes a path for a POSIX shell.
pub(crate) fn quote_path(path: &Path) -> String {
    shell_word(&path.display().to_string())
}
