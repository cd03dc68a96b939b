//! From a file to plans.

use std::path::Path;

use base::Span;

use crate::code::Code;
use crate::compile::{Input, compile, fit_for_a_label};
use crate::diagnostic::{Diagnostic, Diagnostics, Sink};
use crate::files::{Files, read_bounded};
use crate::plan::Plan;
use crate::tree::{self, Data, Table, Value};
use crate::{sweep, validate};

/// A lab, ready to run.
#[derive(Debug)]
pub struct Lab {
    /// One for each combination of swept values, at least one.
    pub plans: Vec<Plan>,
    /// The patterns for nodes in `[[program]]`, as of the last plan.
    pub patterns: Vec<PatternMatch>,
    /// What is fine but suspicious; may be empty.
    pub warnings: Diagnostics,
    /// The lab file's text.
    pub source: String,
}

/// A pattern for the nodes of a program, which stands for hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternMatch {
    /// The pattern.
    pub pattern: String,
    /// How many hosts it matches.
    pub hosts: usize,
    /// Its line and column in the file, from 1.
    pub position: (u32, u32),
}

/// What the command line says about a lab; it goes before what the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// `[lab] seed`.
    pub seed: Option<u64>,
    /// Added to the seed, whatever it is: the number of a replication.
    pub seed_offset: u64,
    /// `[lab] duration`.
    pub duration: Option<Span>,
    /// `[lab] name`.
    pub name: Option<String>,
    /// Any other value, by its path: `("link.core.delay", "10 ms")`.
    pub set: Vec<(String, String)>,
    /// Take it on trust that programs are installed, as for a lab that runs elsewhere.
    pub trust_programs: bool,
    /// Max nodes, links, sessions, flows and so on, each, for files of unknown origin: time and
    /// memory are proportional to them. Without it the limits are those of the lab file.
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
    parse_with(&name, &text, folder, overrides)
}

/// Checks the text of a lab file whose paths are relative to `base_dir`.
pub fn parse(source_name: &str, text: &str, base_dir: &Path) -> Result<Lab, Diagnostics> {
    parse_with(source_name, text, base_dir, &Overrides::default())
}

/// [`parse`], with what the command line says.
pub fn parse_with(
    source_name: &str,
    text: &str,
    base_dir: &Path,
    overrides: &Overrides,
) -> Result<Lab, Diagnostics> {
    let mut sink = Sink::default();
    let mut root = match tree::read(text) {
        Ok(root) => root,
        Err(errors) => {
            for error in errors {
                let at = error.at.unwrap_or(0..0);
                sink.report(Code::Syntax, &at, error.message).help(Code::Syntax.explanation());
            }
            return Err(Diagnostics::new(source_name, text, sink.list));
        }
    };
    apply(&mut root, overrides, &mut sink);
    let search = (!overrides.trust_programs).then(|| std::env::var_os("PATH").unwrap_or_default());
    let mut files = Files::new(base_dir, search);
    let default_name = default_name(source_name);
    let (mut plans, mut patterns) = (Vec::new(), Vec::new());
    for (tree, chosen) in sweep::expand(&root, &mut sink) {
        validate::file(&tree, &mut sink);
        let seed_offset = overrides.seed_offset;
        let default_name = &default_name;
        let max_items = overrides.max_items.unwrap_or(usize::MAX);
        let input =
            Input { root: &tree, text, default_name, sweep: chosen, seed_offset, max_items };
        let (plan, found) = compile(&input, &mut files, &mut sink);
        plans.push(plan);
        patterns = found;
        // One combination is enough to learn from.
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

/// The file's name without its ending, as far as it is fit for a name.
fn default_name(source_name: &str) -> String {
    let stem = Path::new(source_name).file_stem().and_then(|stem| stem.to_str()).unwrap_or("lab");
    let name: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .take(63)
        .collect();
    if fit_for_a_label(&name) { name } else { "lab".to_owned() }
}
