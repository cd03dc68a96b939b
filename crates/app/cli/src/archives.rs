//! `collect show`, `collect convert`, `collect check`.

use std::ops::ControlFlow;
use std::path::Path;

use base::Time;
use bgp::Asn;
use collector_live::convert::{self, Target};
use collector_live::query::{self, Archives, Question, UpdateFilter, UpdateKind, UpdateText};
use collector_live::{check, pipeline};
use serde_json::json;

use crate::args::collect::{
    Archive, CheckArchive, CollectCommand, Convert, ConvertTo, Show, ShowCommand, ShowRib,
    ShowUpdates, UpdateType,
};
use crate::collect::failure;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, interrupts};
use run::Exit;

pub(crate) fn archives(command: &CollectCommand, terminal: &Terminal) -> Verdict {
    match command {
        CollectCommand::Show(Show { command: ShowCommand::Peers(args) }) => peers(args, terminal),
        CollectCommand::Show(Show { command: ShowCommand::Gaps(args) }) => gaps(args, terminal),
        CollectCommand::Show(Show { command: ShowCommand::Updates(args) }) => {
            updates(args, terminal)
        }
        CollectCommand::Show(Show { command: ShowCommand::Rib(args) }) => rib(args, terminal),
        CollectCommand::Convert(args) => convert(args, terminal),
        CollectCommand::Check(args) => check(args, terminal),
    }
}

fn open(args: &Archive) -> Result<Archives, Failure> {
    Archives::open(&args.archives).map_err(|e| failure(&e))
}

fn warn(what: impl std::fmt::Display, terminal: &Terminal) {
    terminal.note(format!("{} {what}", terminal.paint_note(Style::Warn, "note:")));
}

fn peers(args: &Archive, terminal: &Terminal) -> Verdict {
    let peers = query::peers(&open(args)?, args.peer).map_err(|e| failure(&e))?;
    if terminal.json {
        terminal.object(&peers.json())?;
    } else {
        terminal.data(peers.table())?;
        peers.troubles().for_each(|trouble| warn(trouble, terminal));
        if let Some(peer) = args.peer.filter(|_| peers.is_empty()) {
            warn(format!("this archive has no data of peer {peer}"), terminal);
        }
    }
    Ok(Exit::Ok)
}

fn gaps(args: &Archive, terminal: &Terminal) -> Verdict {
    let gaps = query::gaps(&open(args)?, args.peer).map_err(|e| failure(&e))?;
    if terminal.json {
        terminal.object(&gaps.json())?;
    } else {
        terminal.data(gaps.table())?;
    }
    Ok(Exit::Ok)
}

fn time(option: &str, text: Option<&str>) -> Result<Option<Time>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let time = query::moment(text);
    time.map(Some).ok_or_else(|| {
        Failure::usage(format!("--{option}: invalid time `{text}`")).help(
            "write it in UTC, as 2026-11-21T12:00:00Z, '2026-11-21 12:00' or seconds since 1970",
        )
    })
}

fn updates(args: &ShowUpdates, terminal: &Terminal) -> Verdict {
    let mut filter = UpdateFilter::default();
    filter.peer = args.peer;
    filter.asn = args.asn.map(Asn);
    filter.since = time("since", args.since.as_deref())?.unwrap_or(filter.since);
    filter.until = time("until", args.until.as_deref())?.unwrap_or(filter.until);
    if filter.until < filter.since {
        return Err(Failure::usage("--until is before --since"));
    }
    if let Some(prefix) = &args.prefix {
        filter.prefix(prefix).map_err(|e| failure(&e))?;
    }
    filter.kinds.extend(args.kinds.iter().map(|kind| match kind {
        UpdateType::Announce => UpdateKind::Announce,
        UpdateType::Withdraw => UpdateKind::Withdraw,
        UpdateType::State => UpdateKind::State,
    }));
    let (mut text, mut count, mut written) = (UpdateText::default(), 0_u64, Ok(()));
    let notes = query::updates(&args.archives, &filter, &mut |update| {
        count += 1;
        written =
            if terminal.json { terminal.object(update) } else { terminal.data(text.line(update)) };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let notes = notes.map_err(|e| failure(&e))?;
    written?;
    for note in notes {
        warn(note, terminal);
    }
    if !terminal.json {
        terminal.note(format!("{count} update{}", if count == 1 { "" } else { "s" }));
    }
    Ok(Exit::Ok)
}

fn rib(args: &ShowRib, terminal: &Terminal) -> Verdict {
    let mut question = Question::new(&args.prefix).map_err(|e| failure(&e))?;
    (question.more, question.less, question.peer) = (args.more, args.less, args.archive.peer);
    question.at = time("at", args.at.as_deref())?;
    question.diff = time("diff", args.diff.as_deref())?;
    if let Some((at, until)) = question.at.zip(question.diff).filter(|(at, until)| until < at) {
        let (at, until) = (query::moment_text(at), query::moment_text(until));
        let words = format!("--diff: {until} is before {at}, the time of --at");
        return Err(Failure::usage(words).help("--at must be earlier than --diff"));
    }
    if let Some(pattern) = &args.path {
        question.path(pattern).map_err(|e| failure(&e))?;
    }
    if let Some(community) = &args.community {
        question.community(community).map_err(|e| failure(&e))?;
    }
    let routes = query::routes(&open(&args.archive)?, &question).map_err(|e| failure(&e))?;
    if terminal.json {
        terminal.object(&routes.json())?;
    } else {
        terminal.data(routes.table())?;
        routes.notes().for_each(|note| warn(note, terminal));
    }
    Ok(Exit::Ok)
}

fn target(args: &Convert) -> Result<Target, Failure> {
    let Some(to) = args.to else {
        return Target::of_name(&args.into).ok_or_else(|| {
            let name = args.into.display();
            Failure::usage(format!("cannot derive the format from the file name `{name}`"))
                .help("give --to mrt, json, bgpdump, bmp, pcap or pcapng")
        });
    };
    Ok(match to {
        ConvertTo::Mrt => Target::Mrt,
        ConvertTo::Json => Target::Json,
        ConvertTo::Bgpdump => Target::Bgpdump,
        ConvertTo::Bmp => Target::Bmp,
        ConvertTo::Pcap => Target::Pcap,
        ConvertTo::Pcapng => Target::Pcapng,
    })
}

fn convert(args: &Convert, terminal: &Terminal) -> Verdict {
    let target = target(args)?;
    let stop = interrupts::flag()?;
    let mut settings = pipeline::Settings::default();
    settings.decapsulate.ports.clone_from(&args.port);
    settings.sessions.routers.clone_from(&args.router);
    let done = convert::convert(&args.from, &args.into, target, settings, &stop);
    let summary = done.map_err(|e| failure(&e))?;
    if summary.stopped {
        return Ok(Exit::Interrupted);
    }
    for trouble in &summary.troubles {
        warn(trouble, terminal);
    }
    if let rest @ 1.. = summary.trouble_count - summary.troubles.len() as u64 {
        warn(format!("{rest} more warnings of this kind"), terminal);
    }
    let sessions = match summary.guessed {
        0 => String::new(),
        1 => "a session".to_owned(),
        many => format!("{many} sessions"),
    };
    if !sessions.is_empty() {
        let text = "the routes may be the router's own: state it with --router ADDRESS";
        warn(format!("the router's end of {sessions} was guessed; {text}"), terminal);
    }
    if summary.gaps > 0 {
        let found = if summary.gaps == 1 { "gap was" } else { "gaps were" };
        let text = format!("{} {found} found; only the json format records gaps", summary.gaps);
        warn(text, terminal);
    }
    let is_data = args.into == Path::new("-");
    if terminal.json && !is_data {
        terminal.object(&json!({
            "schema": "netarium.convert/1",
            "file": args.into,
            "read": summary.read,
            "bytes": summary.written,
            "gaps": summary.gaps,
            "guessed": summary.guessed,
            "troubles": summary.troubles,
            "trouble_count": summary.trouble_count,
        }))?;
    } else if !is_data {
        let (into, written) = (args.into.display(), summary.written);
        terminal.note(format!("{into}: {written} bytes before compression"));
    }
    Ok(if summary.trouble_count > 0 { Exit::Untrusted } else { Exit::Ok })
}

fn check(args: &CheckArchive, terminal: &Terminal) -> Verdict {
    let report = check::check(&args.archives).map_err(|e| failure(&e))?;
    if terminal.json {
        terminal.object(&report.json())?;
    } else {
        terminal.data(report.table())?;
        report.notes.iter().for_each(|note| warn(note, terminal));
    }
    Ok(if report.is_right() { Exit::Ok } else { Exit::Expectation })
}
