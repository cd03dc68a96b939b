//! Verbs about lab files.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lab::plan::{Model, Plan};
use lab::{Diagnostic, Lab, Overrides, PatternMatch};
use miette::{GraphicalReportHandler, GraphicalTheme};
use serde_json::{Value, json};

use crate::args::{Changes, Check, New};
use crate::exit::Exit;
use crate::terminal::Terminal;
use crate::{Failure, Verdict, repeat};

/// Reads and checks a lab; all that is wrong with it has been said when this fails.
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

/// [`load`] of a lab whose programs are installed elsewhere.
pub(crate) fn load_elsewhere(changes: &Changes, terminal: &Terminal) -> Result<Lab, Failure> {
    load_with(changes, terminal, true, 0)
}

fn load_with(
    changes: &Changes,
    terminal: &Terminal,
    trust_programs: bool,
    seed_offset: u64,
) -> Result<Lab, Failure> {
    let overrides = Overrides {
        seed: changes.edits.seed,
        seed_offset,
        duration: changes.edits.duration,
        name: changes.edits.name.clone(),
        set: changes.edits.set.clone(),
        trust_programs,
        max_items: None,
    };
    match lab::load(&changes.lab, &overrides) {
        Ok(lab) => {
            // Other replications have the same warnings.
            if !lab.warnings.is_empty() && seed_offset == 0 {
                terminal.talk(draw(&lab.warnings, terminal));
            }
            for PatternMatch { pattern, hosts, position } in &lab.patterns {
                let plural = if *hosts == 1 { "" } else { "s" };
                let line = position.0;
                terminal.talk(format!("line {line}: `{pattern}` matches {hosts} host{plural}"));
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

/// Diagnostics as they are shown to people.
pub(crate) fn draw(
    diagnostics: &(impl miette::Diagnostic + std::fmt::Display),
    terminal: &Terminal,
) -> String {
    let color = terminal.color_talk();
    let theme = if color { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(100);
    let mut text = String::new();
    match handler.render_report(&mut text, diagnostics) {
        Ok(()) => text,
        Err(_) => diagnostics.to_string(),
    }
}

fn as_json(diagnostic: &Diagnostic) -> Value {
    let (line, column) = diagnostic.position;
    json!({
        "code": diagnostic.code.as_str(),
        "message": diagnostic.message,
        "help": diagnostic.help,
        "line": line,
        "column": column,
    })
}

pub(crate) fn check(args: &Check, terminal: &Terminal) -> Verdict {
    let lab = load(&args.changes, terminal)?;
    if args.resolved {
        for plan in &lab.plans {
            terminal.data(lab::resolved(plan))?;
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
            json!({"pattern": found.pattern, "hosts": found.hosts, "line": line, "column": column})
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
    parts.push(format!("{} at most", first.duration));
    if lab.plans.len() > 1 {
        parts.push(format!("{} runs", lab.plans.len()));
    }
    terminal.data(format!("{} is fine: {}", args.changes.lab.display(), parts.join(", ")))?;
    terminal.talk(next(first, &args.changes.lab));
    Ok(Exit::Ok)
}

/// What can be done with a lab file.
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
        return Err(Failure::usage(format!("there is no template `{name}`")).help(help));
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
        terminal.talk(format!("wrote {}; {}", file.display(), next.unwrap_or_default()));
    }
    Ok(Exit::Ok)
}

fn write_new(file: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true);
    if force {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let result = options.open(file).and_then(|mut out| out.write_all(text.as_bytes()));
    result.map_err(|e| match e.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("{} exists", file.display())).help("--force replaces it")
        }
        _ => Failure::machine(format!("cannot write {}: {e}", file.display())),
    })
}
