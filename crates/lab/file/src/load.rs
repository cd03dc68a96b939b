//! Loads a file and compiles it to plans.

use std::path::Path;

use base::Span;

use crate::code::Code;
use crate::compile::{Input, compile, fit_for_a_label};
use crate::diagnostic::{Diagnostic, Diagnostics, Sink};
use crate::files::{Files, read_bounded};
use crate::plan::Plan;
use crate::tree::{self, Data, Table, Value};
use crate::{sweep, validate};

/// Maximum number of nodes and links of all runs of a sweep together: about 2 GB.
const MAX_SWEEP_ELEMENTS: usize = 2_000_000;

/// A lab, ready to run.
#[derive(Debug)]
pub struct Lab {
    /// One plan for each combination of swept values, at least one.
    pub plans: Vec<Plan>,
    /// The patterns of nodes in `[[program]]`, from the last plan.
    pub patterns: Vec<PatternMatch>,
    /// Warnings; may be empty.
    pub warnings: Diagnostics,
    /// The lab file's text.
    pub source: String,
}

/// A pattern for the hosts of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternMatch {
    /// Text of the pattern.
    pub pattern: String,
    /// Number of matching hosts.
    pub hosts: usize,
    /// The first matching nodes that are not hosts, each with its kind; no program runs there.
    pub skipped: Vec<String>,
    /// Number of matching nodes that are not hosts.
    pub skipped_count: usize,
    /// Its line and column in the file, from 1.
    pub position: (u32, u32),
}

/// Values from the command line, with priority over the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// `[lab] seed`.
    pub seed: Option<u64>,
    /// Offset added to any seed: the number of a replication.
    pub seed_offset: u64,
    /// `[lab] duration`.
    pub duration: Option<Span>,
    /// `[lab] name`.
    pub name: Option<String>,
    /// Any other value, by its path: `("link.core.delay", "10 ms")`.
    pub set: Vec<(String, String)>,
    /// Assume that programs are installed, for a lab that runs on another host.
    pub trust_programs: bool,
    /// Maximum number of nodes, links, sessions, flows and so on, each, for files of
    /// unknown origin: time and memory are proportional to them. Without it the limits are
    /// those of the lab file.
    pub max_items: Option<usize>,
}

/// Reads and checks a lab file. Paths in it are relative to its folder; programs are looked up on
/// `PATH`.
pub fn load(path: &Path, overrides: &Overrides) -> Result<Lab, Diagnostics> {
    let name = path.display().to_string();
    let text = match read_bounded(path) {
        Ok(text) => text,
        Err(why) => {
            let unreadable = Diagnostic {
                code: Code::Unreadable,
                message: format!("cannot read {name}: {why}"),
                help: Some("`netarium new dumbbell` writes a lab file to begin with".to_owned()),
                labels: Vec::new(),
                position: (0, 0),
            };
            return Err(Diagnostics::new(&name, "", vec![unreadable]));
        }
    };
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    parse_with(&name, &text, folder, overrides).map_err(|found| found.of_file(path))
}

/// Checks the text of a lab file whose paths are relative to `base_dir`.
pub fn parse(source_name: &str, text: &str, base_dir: &Path) -> Result<Lab, Diagnostics> {
    parse_with(source_name, text, base_dir, &Overrides::default())
}

/// [`parse`] with values from the command line.
pub fn parse_with(
    source_name: &str,
    text: &str,
    base_dir: &Path,
    overrides: &Overrides,
) -> Result<Lab, Diagnostics> {
    let mut sink = Sink::default();
    let Some(mut root) = tree(text, &mut sink) else {
        return Err(Diagnostics::new(source_name, text, sink.list));
    };
    if root.entries.is_empty() {
        sink.report(Code::Empty, &(0..0), "the file is empty")
            .help("`netarium new dumbbell` writes a lab");
        return Err(Diagnostics::new(source_name, text, sink.list));
    }
    apply(&mut root, overrides, &mut sink);
    let search = (!overrides.trust_programs).then(|| std::env::var_os("PATH").unwrap_or_default());
    let mut files = Files::new(base_dir, search);
    let default_name = default_name(source_name);
    let (mut plans, mut patterns) = (Vec::new(), Vec::new());
    let mut elements = 0;
    let combinations = sweep::expand(&root, &mut sink);
    let runs = combinations.len();
    for (tree, chosen) in combinations {
        validate::file(&tree, &mut sink);
        let seed_offset = overrides.seed_offset;
        let default_name = &default_name;
        let max_items = overrides.max_items.unwrap_or(usize::MAX);
        let input =
            Input { root: &tree, text, default_name, sweep: chosen, seed_offset, max_items };
        let (plan, found) = compile(&input, &mut files, &mut sink);
        elements += plan.nodes.len() + plan.links.len();
        if runs > 1 && elements > MAX_SWEEP_ELEMENTS && !sink.has_errors() {
            let message = format!(
                "{} of {runs} runs have {elements} nodes and links; the limit of all runs \
                 together is {MAX_SWEEP_ELEMENTS}",
                plans.len() + 1,
            );
            sink.report(Code::Limit, &(0..0), message)
                .help("sweep fewer values, or choose values with --set");
        }
        plans.push(plan);
        patterns = found;
        // Other combinations would mostly repeat the errors.
        if sink.has_errors() {
            break;
        }
    }
    let found = Diagnostics::new(source_name, text, sink.list);
    if found.list().iter().any(|diagnostic| !diagnostic.code.is_warning()) {
        return Err(found);
    }
    Ok(Lab { plans, patterns, warnings: found, source: text.to_owned() })
}

/// Parses the text as a tree; `None` if it is not valid TOML.
pub(crate) fn tree(text: &str, sink: &mut Sink) -> Option<Table> {
    let errors = match tree::read(text) {
        Ok(root) => return Some(root),
        Err(errors) => errors,
    };
    if let Some(format) = other_format(text) {
        sink.report(Code::Syntax, &(0..0), format!("this file is {format}, not TOML"))
            .help("a lab is a TOML file; `netarium new dumbbell` writes an example");
        return None;
    }
    for error in errors {
        let at = error.at.unwrap_or(0..0);
        sink.report(Code::Syntax, &at, error.message).help(Code::Syntax.explanation());
    }
    None
}

/// The name of the format if the text looks like JSON or YAML.
fn other_format(text: &str) -> Option<&'static str> {
    let mut lines = text.lines().map(str::trim_end).filter(|line| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with('#')
    });
    let first = lines.next()?;
    let is_yaml_key = |line: &str| {
        line.split_once(':').is_some_and(|(key, rest)| {
            (rest.is_empty() || rest.starts_with(' '))
                && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_ \"'".contains(c))
        })
    };
    match first.chars().next()? {
        '{' => Some("JSON"),
        '[' if !first.ends_with(']') => Some("JSON"),
        _ if first == "---" || first.starts_with("%YAML") || is_yaml_key(first) => Some("YAML"),
        _ => None,
    }
}

fn apply(root: &mut Table, overrides: &Overrides, sink: &mut Sink) {
    for (path, value) in &overrides.set {
        sweep::set(root, path, value, sink);
    }
    let own = [
        ("seed", overrides.seed.and_then(|seed| i64::try_from(seed).ok()).map(Data::Whole)),
        ("duration", overrides.duration.map(|duration| Data::Text(duration.to_string()))),
        ("name", overrides.name.clone().map(Data::Text)),
    ];
    for (key, data) in own {
        let Some(data) = data else { continue };
        if root.get("lab").is_none() {
            let data = Data::Table(Table::default());
            root.put("lab", Value { at: 0..0, data });
        }
        let lab = root.entries.iter_mut().find(|entry| entry.key == "lab");
        if let Some(Data::Table(lab)) = lab.map(|entry| &mut entry.value.data) {
            lab.put(key, Value { at: 0..0, data });
        }
    }
}

/// The file's name without its extension, reduced to valid characters.
fn default_name(source_name: &str) -> String {
    let stem = Path::new(source_name).file_stem().and_then(|stem| stem.to_str()).unwrap_or("lab");
    let name: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .take(63)
        .collect();
    if fit_for_a_label(&name) { name } else { "lab".to_owned() }
}
