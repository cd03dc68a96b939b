//! Subcommands for lab files.

use std::fmt::Write as _;
use std::fs::{self, File, FileType};
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use lab::plan::{Model, Plan};
use lab::{Diagnostic, Lab, Overrides, PatternMatch};
use miette::{GraphicalReportHandler, GraphicalTheme};
use serde_json::{Value, json};

use crate::args::{Changes, Check, New};
use crate::terminal::Terminal;
use crate::{Failure, Verdict, repeat, summary};
use run::Exit;

/// Reads and checks a lab. On failure, the errors have already been reported.
pub(crate) fn load(changes: &Changes, terminal: &Terminal) -> Result<Lab, Failure> {
    load_with(changes, terminal, false, 0)
}

/// [`load`] with the seed of a replication: the lab's, increased by `seed_offset`.
pub(crate) fn load_replication(
    changes: &Changes,
    seed_offset: u64,
    terminal: &Terminal,
) -> Result<Lab, Failure> {
    load_with(changes, terminal, false, seed_offset)
}

/// [`load`] of a lab whose programs are installed on other machines.
pub(crate) fn load_elsewhere(changes: &Changes, terminal: &Terminal) -> Result<Lab, Failure> {
    load_with(changes, terminal, true, 0)
}

fn overrides(changes: &Changes, trust_programs: bool, seed_offset: u64) -> Overrides {
    Overrides {
        seed: changes.edits.seed,
        seed_offset,
        duration: changes.edits.duration,
        name: changes.edits.name.clone(),
        set: changes.edits.set.clone(),
        trust_programs,
        max_items: None,
    }
}

fn load_with(
    changes: &Changes,
    terminal: &Terminal,
    trust_programs: bool,
    seed_offset: u64,
) -> Result<Lab, Failure> {
    match lab::load(&changes.lab, &overrides(changes, trust_programs, seed_offset)) {
        Ok(lab) => {
            // The warnings of other replications are the same.
            if !lab.warnings.is_empty() && seed_offset == 0 {
                terminal.note(draw(&lab.warnings, terminal));
            }
            for found in &lab.patterns {
                terminal.note(pattern_note(found));
            }
            Ok(lab)
        }
        Err(diagnostics) => {
            if terminal.json {
                let errors: Vec<Value> = diagnostics.list().iter().map(as_json).collect();
                let file = diagnostics.source_name();
                terminal.object(&json!({
                    "schema": "netarium.check/1",
                    "ok": false,
                    "file": file,
                    "errors": errors,
                }))?;
            } else {
                terminal.error(draw(&diagnostics, terminal));
            }
            Err(Failure::silent(Exit::Usage))
        }
    }
}

/// What a pattern of a program matches, and the nodes that it skips.
fn pattern_note(found: &PatternMatch) -> String {
    let PatternMatch { pattern, hosts, skipped, skipped_count, position: (line, _) } = found;
    let plural = if *hosts == 1 { "" } else { "s" };
    let mut note = format!("line {line}: `{pattern}` matches {hosts} host{plural}");
    if !skipped.is_empty() {
        let more = skipped_count - skipped.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = write!(note, ", and skips {}{more}", skipped.join(", "));
    }
    note
}

/// Formats diagnostics for a terminal.
pub(crate) fn draw(
    diagnostics: &(impl miette::Diagnostic + std::fmt::Display),
    terminal: &Terminal,
) -> String {
    let width = terminal.layout().width;
    terminal.rendered_note(|color| {
        let theme =
            if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(width);
        let mut text = String::new();
        match handler.render_report(&mut text, diagnostics) {
            Ok(()) => text,
            Err(_) => diagnostics.to_string(),
        }
    })
}

pub(crate) fn as_json(diagnostic: &Diagnostic) -> Value {
    let (line, column) = diagnostic.position;
    json!({
        "code": diagnostic.code.as_str(),
        "message": diagnostic.message,
        "help": diagnostic.help,
        "line": line,
        "column": column,
    })
}

/// `check --annotate`: errors and warnings as annotations of GitHub Actions, and nothing else.
fn annotate(changes: &Changes, terminal: &Terminal) -> Verdict {
    let (found, exit) = match lab::load(&changes.lab, &overrides(changes, false, 0)) {
        Ok(lab) => (lab.warnings, Exit::Ok),
        Err(errors) => (errors, Exit::Usage),
    };
    terminal.document(&summary::github_check(&found))?;
    Ok(exit)
}

pub(crate) fn check(args: &Check, terminal: &Terminal) -> Verdict {
    if args.annotate {
        return annotate(&args.changes, terminal);
    }
    let lab = load(&args.changes, terminal)?;
    if args.resolved {
        for plan in &lab.plans {
            terminal.document(&lab::resolved(plan))?;
        }
        return Ok(Exit::Ok);
    }
    let plans: Vec<Value> = lab
        .plans
        .iter()
        .map(|plan| {
            json!({
                "name": plan.name,
                "seed": plan.seed,
                "duration_s": plan.duration.as_secs_f64(),
                "nodes": plan.nodes.len(),
                "links": plan.links.len(),
                "programs": plan.programs.len(),
                "flows": plan.flows.len(),
                "expectations": plan.expectations.len(),
                "sweep": plan.sweep,
            })
        })
        .collect();
    if terminal.json {
        let pattern = |found: &PatternMatch| {
            let (line, column) = found.position;
            json!({"pattern": found.pattern, "hosts": found.hosts,
                "skipped": found.skipped_count, "line": line, "column": column})
        };
        let patterns: Vec<Value> = lab.patterns.iter().map(pattern).collect();
        terminal.object(&json!({
            "schema": "netarium.check/1",
            "ok": true,
            "plans": plans,
            "patterns": patterns,
        }))?;
        return Ok(Exit::Ok);
    }
    let Some(first) = lab.plans.first() else { return Ok(Exit::Ok) };
    let mut parts: Vec<String> = [
        (first.nodes.len(), "node"),
        (first.links.len(), "link"),
        (first.programs.len(), "program"),
        (first.flows.len(), "flow"),
        (first.expectations.len(), "expectation"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, noun)| format!("{count} {noun}{}", if count == 1 { "" } else { "s" }))
    .collect();
    parts.push(format!("max duration {}", first.duration));
    if lab.plans.len() > 1 {
        parts.push(format!("{} runs", lab.plans.len()));
    }
    let text = format!("{} is valid: {}", args.changes.lab.display(), parts.join(", "));
    terminal.data(report::wrap(&text, terminal.layout().width).join("\n"))?;
    if first.has_no_traffic() {
        terminal.note(
            "note: the lab has no programs, flows or sessions; `netarium run` keeps the network up \
             for `netarium exec`, and `netarium sim` has nothing to do",
        );
    }
    terminal.note(next(first, &args.changes.lab));
    Ok(Exit::Ok)
}

/// A hint on how to run a lab file.
fn next(plan: &Plan, file: &Path) -> String {
    let file = repeat::quote_path(file);
    match (plan.model, plan.programs.is_empty()) {
        _ if plan.is_rate_controlled() => format!("next: netarium sim {file}"),
        (Model::Fluid, _) => format!("next: netarium sim {file}"),
        (Model::Hop | Model::Collapsed(_), true) => {
            format!("next: netarium sim {file}, or netarium run {file}")
        }
        (Model::Hop | Model::Collapsed(_), false) => format!("next: netarium run {file}"),
    }
}

pub(crate) fn new(args: &New, terminal: &Terminal) -> Verdict {
    let Some(name) = &args.template else {
        if terminal.json {
            let list: Vec<Value> = lab::TEMPLATES
                .iter()
                .map(|(name, about)| json!({"name": name, "about": about}))
                .collect();
            terminal.object(&json!({"schema": "netarium.new/1", "templates": list}))?;
        } else {
            let lines: Vec<String> =
                lab::TEMPLATES.iter().map(|(name, about)| format!("{name:14}  {about}")).collect();
            terminal.data(lines.join("\n"))?;
        }
        return Ok(Exit::Ok);
    };
    let Some(text) = lab::template(name) else {
        let names: Vec<&str> = lab::TEMPLATES.iter().map(|(name, _)| *name).collect();
        let help = format!("templates: {}", names.join(", "));
        return Err(Failure::usage(format!("unknown template `{name}`")).help(help));
    };
    let file = args.file.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.toml")));
    if file == Path::new("-") {
        terminal.data(text)?;
        return Ok(Exit::Ok);
    }
    write_new(&file, text, args.force)?;
    if terminal.json {
        terminal.object(&json!({"schema": "netarium.new/1", "file": file}))?;
    } else {
        let trusting = Overrides { trust_programs: true, ..Overrides::default() };
        let lab = lab::parse_with(name, text, Path::new(""), &trusting);
        let next = lab.ok().and_then(|lab| Some(next(lab.plans.first()?, &file)));
        terminal.note(format!("wrote {}\n{}", file.display(), next.unwrap_or_default()));
    }
    Ok(Exit::Ok)
}

fn write_new(file: &Path, text: &str, force: bool) -> Result<(), Failure> {
    if force {
        return write(file, text);
    }
    let result = File::create_new(file).and_then(|mut out| out.write_all(text.as_bytes()));
    result.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("{} already exists", file.display()))
                .help("use --force to replace it")
        }
        _ => cannot_write(file, &e),
    })
}

/// Writes a file with this name, as [`NewFile`].
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = NewFile::create(path)?;
    file.write_all(text.as_bytes()).map_err(|e| cannot_write(path, &e))?;
    file.commit()
}

pub(crate) fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::machine(format!("cannot write {}: {error}", path.display()))
}

/// A file that is written in parts, and replaces a file of the same name when it is complete. A
/// link of this name is replaced, not followed, because the folder may be untrusted. Pipes and
/// terminals are written directly.
pub(crate) struct NewFile<'a> {
    path: &'a Path,
    target: Target,
}

enum Target {
    Replacement(run::files::Replacement),
    Stream(File),
}

impl<'a> NewFile<'a> {
    pub(crate) fn create(path: &'a Path) -> Result<Self, Failure> {
        let is_stream = |kind: FileType| kind.is_fifo() || kind.is_char_device();
        let is_written = ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder))
            || fs::metadata(path).is_ok_and(|data| is_stream(data.file_type()));
        let replacement = || {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).canonicalize()?;
            run::files::Replacement::of(&folder.join(path.file_name().unwrap_or_default()))
        };
        let target = if is_written {
            File::create(path).map(Target::Stream)
        } else {
            replacement().map(Target::Replacement)
        };
        target.map(|target| Self { path, target }).map_err(|e| cannot_write(path, &e))
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.file().is_terminal()
    }

    fn file(&self) -> &File {
        match &self.target {
            Target::Replacement(replacement) => replacement.file(),
            Target::Stream(file) => file,
        }
    }

    pub(crate) fn commit(self) -> Result<(), Failure> {
        match self.target {
            Target::Replacement(replacement) => {
                replacement.commit().map_err(|e| cannot_write(self.path, &e))
            }
            Target::Stream(_) => Ok(()),
        }
    }
}

impl Write for NewFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}
