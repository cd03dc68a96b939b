//! `reproduce`.

use std::path::{Path, PathBuf};

use reproduce::{Clock, FigureResult, Model, Options, Outcome, Paper, Tone, papers};
use serde_json::{Value, json};

use crate::args::{Reproduce, WhichClock, WhichModel};
use crate::progress::Line;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, interrupts, repeat};
use run::Exit;

pub(crate) fn reproduce(args: &Reproduce, terminal: &Terminal) -> Verdict {
    let paper = args.paper.as_deref().map(named).transpose()?;
    let mut figures = match paper {
        Some(paper) => chosen(paper, &args.figures)?,
        None => Vec::new(),
    };
    let (Some(paper), false) = (paper, args.list) else {
        return list(paper, terminal);
    };
    let options = Options {
        program: std::env::current_exe()
            .map_err(|e| Failure::machine(format!("cannot find the netarium executable: {e}")))?,
        out: args.out.clone().unwrap_or_else(|| format!("reproduce-{}", paper.name).into()),
        clocks: clocks(args.clock, terminal)?,
        models: match args.model {
            WhichModel::Hop => vec![Model::Hop],
            WhichModel::Collapsed => vec![Model::Collapsed],
            // Only collapsed labs can run on a cluster.
            WhichModel::Both if args.cluster.is_some() => vec![Model::Collapsed],
            WhichModel::Both => vec![Model::Hop, Model::Collapsed],
        },
        cluster: args.cluster.clone(),
        short: args.short,
        words: words(args),
    };
    if args.figures.is_empty() {
        figures = for_clocks(figures, &options.clocks, terminal);
    }
    let stop = interrupts::count()?;
    let line = Line::new(terminal.progress() && !args.no_progress);
    let result = ::reproduce::reproduce(
        paper,
        &figures,
        &options,
        &stop,
        &mut |progress| line.show_figure(progress),
        &mut |figure| {
            line.hide(|| print_figure(figure, terminal));
        },
    );
    line.clear();
    let outcome = result.map_err(|e| Failure::new(e.exit_code(), e.text()))?;
    finish(&outcome, &options.out, terminal)
}

fn named(name: &str) -> Result<&'static Paper, Failure> {
    Paper::named(name).ok_or_else(|| {
        let names: Vec<&str> = papers().iter().map(|paper| paper.name).collect();
        Failure::usage(format!("unknown paper `{name}`"))
            .help(format!("papers: {}", names.join(", ")))
    })
}

fn chosen(paper: &Paper, ids: &[String]) -> Result<Vec<&'static reproduce::Figure>, Failure> {
    if ids.is_empty() {
        return Ok(paper.figures.iter().collect());
    }
    let mut figures: Vec<&'static reproduce::Figure> = Vec::new();
    for id in ids {
        let figure = paper.figure(id).ok_or_else(|| {
            let ids: Vec<&str> = paper.figures.iter().map(|figure| figure.id).collect();
            Failure::usage(format!("`{}` has no figure `{id}`", paper.name))
                .help(format!("figures: {}", ids.join(", ")))
        })?;
        if !figures.iter().any(|other| other.id == figure.id) {
            figures.push(figure);
        }
    }
    Ok(figures)
}

/// The figures for these clocks; reports the skipped ones.
fn for_clocks(
    figures: Vec<&'static reproduce::Figure>,
    clocks: &[Clock],
    terminal: &Terminal,
) -> Vec<&'static reproduce::Figure> {
    let (selected, skipped): (Vec<_>, Vec<_>) =
        figures.into_iter().partition(|figure| figure.suits(clocks));
    if !skipped.is_empty() {
        let skipped: Vec<&str> = skipped.iter().map(|figure| figure.id).collect();
        terminal.note(format!("skipped, because they need another clock: {}", skipped.join(", ")));
    }
    selected
}

/// The clocks to run on. Default: both if this machine can run labs, else virtual.
fn clocks(wanted: Option<WhichClock>, terminal: &Terminal) -> Result<Vec<Clock>, Failure> {
    if wanted == Some(WhichClock::Virtual) {
        return Ok(vec![Clock::Virtual]);
    }
    let facts = emu::doctor::Facts::collect()
        .map_err(|e| Failure::machine(format!("cannot examine this machine: {e}")))?;
    if emu::doctor::choose(&facts, None).is_err() {
        if wanted.is_some() {
            return Err(Failure::machine("this machine cannot run labs on the wall clock").help(
                "`netarium doctor` shows what is missing; `--clock virtual` does not need it",
            ));
        }
        terminal.note(
            "virtual clock only: this machine cannot run labs on the wall clock \
             (`netarium doctor` shows why)",
        );
        return Ok(vec![Clock::Virtual]);
    }
    Ok(match wanted {
        Some(WhichClock::Wall) => vec![Clock::Wall],
        _ => vec![Clock::Wall, Clock::Virtual],
    })
}

/// The options of this command.
fn words(args: &Reproduce) -> String {
    let mut words = String::new();
    let mut add = |word: &str| {
        words.push(' ');
        words.push_str(word);
    };
    match args.clock {
        Some(WhichClock::Wall) => add("--clock wall"),
        Some(WhichClock::Virtual) => add("--clock virtual"),
        Some(WhichClock::Both) => add("--clock both"),
        None => {}
    }
    match args.model {
        WhichModel::Hop => add("--model hop"),
        WhichModel::Collapsed => add("--model collapsed"),
        WhichModel::Both => {}
    }
    if let Some(cluster) = &args.cluster {
        add(&format!("--cluster {}", repeat::quote_path(Path::new(cluster))));
    }
    if args.short {
        add("--short");
    }
    if let Some(out) = &args.out {
        add(&format!("--out {}", repeat::quote_path(out)));
    }
    words
}

fn print_figure(figure: &FigureResult, terminal: &Terminal) {
    if terminal.json {
        return;
    }
    let paint = |tone, word: &str| {
        let style = match tone {
            Tone::Head => Style::Strong,
            Tone::Good => Style::Good,
            Tone::Bad => Style::Bad,
            Tone::Aside => Style::Dim,
        };
        terminal.paint(style, word)
    };
    // A closed standard output does not stop the run: the files are still written.
    let _ = terminal.data(figure.text(&paint));
}

fn finish(outcome: &Outcome, out: &std::path::Path, terminal: &Terminal) -> Verdict {
    if terminal.json {
        let figures: Vec<Value> = outcome.figures.iter().map(object).collect();
        terminal.object(&json!({
            "schema": "netarium.reproduce/1",
            "folder": out,
            "interrupted": outcome.interrupted,
            "figures": figures,
        }))?;
    }
    let page: PathBuf = out.join("index.html");
    terminal.note(format!("figures: {}", page.display()));
    let exits = outcome.figures.iter().map(|figure| figure.exit_code);
    let worst = exits.max().unwrap_or(Exit::Ok);
    if outcome.interrupted {
        terminal.note("interrupted; finished figures are kept");
        return Ok(Exit::Interrupted);
    }
    Ok(worst)
}

/// A figure without its points, which are in `results.json`.
fn object(figure: &FigureResult) -> Value {
    let mut value = serde_json::to_value(figure).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        fields.remove("plots");
    }
    value
}

fn list(paper: Option<&Paper>, terminal: &Terminal) -> Verdict {
    let wanted = |other: &&Paper| paper.is_none_or(|paper| paper.name == other.name);
    let listed = papers().iter().filter(wanted);
    if terminal.json {
        let papers: Vec<Value> = listed.map(paper_object).collect();
        terminal.object(&json!({"schema": "netarium.papers/1", "papers": papers}))?;
        return Ok(Exit::Ok);
    }
    for paper in listed {
        let name = terminal.paint(Style::Strong, paper.name);
        terminal.data(format!("{name}  {}\n{}", paper.title, paper.citation))?;
        let width = paper.figures.iter().map(|figure| figure.id.len()).max().unwrap_or(0);
        for figure in paper.figures {
            let (id, title, takes) = (figure.id, figure.title, figure.takes);
            terminal.data(format!("  {id:width$}  {title} ({takes})"))?;
        }
    }
    Ok(Exit::Ok)
}

fn paper_object(paper: &Paper) -> Value {
    let figures: Vec<Value> = paper
        .figures
        .iter()
        .map(|figure| {
            json!({
                "id": figure.id, "title": figure.title, "takes": figure.takes,
                "clocks": figure.clocks,
            })
        })
        .collect();
    json!({
        "name": paper.name, "title": paper.title, "citation": paper.citation, "figures": figures,
    })
}
