//! `bundle`: Bundler gateways on this machine.

use std::path::{Path, PathBuf};

use bundler_live::config::{Common, Diagnostics, Receive, STATUS_FOLDER, Send};
use bundler_live::status::{self, Board};
use bundler_live::{Changes, Control, Error, receive, send};
use serde_json::{Value, json};
use sys::confine::Capabilities;

use crate::args::Status;
use crate::args::bundle::{Bundle, BundleCommand, Run};
use crate::files::{as_json, draw};
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, daemon, interrupts, status as watch};
use run::Exit;

pub(crate) fn bundle(args: &Bundle, terminal: &Terminal) -> Verdict {
    match &args.command {
        BundleCommand::Send(args) => run_send(args, terminal),
        BundleCommand::Receive(args) => run_receive(args, terminal),
        BundleCommand::Status(args) => show(args, terminal),
    }
}

fn run_send(args: &Run, terminal: &Terminal) -> Verdict {
    let load = || config_or_failure(Send::load(&args.config), terminal);
    let mut config = load()?;
    if args.check {
        return print_check(args, config.bundles.iter().map(|it| it.name.as_str()), terminal);
    }
    let configured = config.common.status.clone();
    drop_privileges(args, &mut config.common.status)?;
    let (stop, reload) = interrupts::flags()?;
    let status = config.common.status.clone();
    let mut load = || {
        let mut config = reloaded(load(), terminal)?;
        if config.common.status == configured {
            config.common.status.clone_from(&status);
        }
        Some(config)
    };
    let mut report = |event: &send::Event| match event {
        send::Event::Ready { device, mtu } => {
            let socket = status.display();
            let text = format!("sending through {device} (MTU {mtu}); status at {socket}");
            daemon::report_ready(&text);
            print_event(terminal, &text, &json!({"event": "ready", "device": device, "mtu": mtu}));
        }
        send::Event::Transition { bundle, transition } => {
            let (from, to) = (transition.from.to_string(), transition.to.to_string());
            let why = transition.cause.as_str();
            let text = format!("{bundle}: {from} → {to}: {why}");
            let event = "transition";
            print_event(
                terminal,
                &text,
                &json!({"event": event, "bundle": bundle, "from": from, "to": to, "why": why}),
            );
        }
        send::Event::Reloaded(changes) => print_changes(changes, terminal),
        send::Event::Rejected(error) => print_rejected(&failure(error), terminal),
        _ => {}
    };
    let board = Board::new("send");
    let _server = serve_status(&board, &config.common)?;
    let mut control = Control { stop: &stop, reload: &reload, load: &mut load };
    send::run(config, &board, &mut control, &mut report).map_err(|e| failure(&e))?;
    Ok(Exit::Ok)
}

fn run_receive(args: &Run, terminal: &Terminal) -> Verdict {
    let load = || config_or_failure(Receive::load(&args.config), terminal);
    let mut config = load()?;
    if args.check {
        return print_check(args, config.bundles.iter().map(|it| it.name.as_str()), terminal);
    }
    let configured = config.common.status.clone();
    drop_privileges(args, &mut config.common.status)?;
    let (stop, reload) = interrupts::flags()?;
    let (status, listen) = (config.common.status.clone(), config.common.listen);
    let mut load = || {
        let mut config = reloaded(load(), terminal)?;
        if config.common.status == configured {
            config.common.status.clone_from(&status);
        }
        Some(config)
    };
    let mut report = |event: &receive::Event| match event {
        receive::Event::Ready { interfaces } => {
            let socket = status.display();
            let at = if interfaces.is_empty() { listen.to_string() } else { interfaces.join(", ") };
            let text = format!("receiving at {at}; status at {socket}");
            daemon::report_ready(&text);
            print_event(terminal, &text, &json!({"event": "ready", "interfaces": interfaces}));
        }
        receive::Event::Reloaded(changes) => print_changes(changes, terminal),
        receive::Event::Rejected(error) => print_rejected(&failure(error), terminal),
        _ => {}
    };
    let board = Board::new("receive");
    let _server = serve_status(&board, &config.common)?;
    let mut control = Control { stop: &stop, reload: &reload, load: &mut load };
    receive::run(config, &board, &mut control, &mut report).map_err(|e| failure(&e))?;
    Ok(Exit::Ok)
}

/// The configuration that was read again; a wrong one is reported.
fn reloaded<T>(result: Result<T, Failure>, terminal: &Terminal) -> Option<T> {
    result.inspect_err(|failure| print_rejected(failure, terminal)).ok()
}

fn print_rejected(failure: &Failure, terminal: &Terminal) {
    let why = if failure.message.is_empty() { "it has errors" } else { &failure.message };
    let help = failure.help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
    if terminal.json {
        print_event(terminal, "", &json!({"event": "rejected", "why": why}));
    } else {
        terminal.error(format!("warning: the new configuration is not used: {why}{help}"));
    }
}

fn print_changes(changes: &Changes, terminal: &Terminal) {
    let Changes { added, changed, removed } = changes;
    let event =
        json!({"event": "reloaded", "added": added, "changed": changed, "removed": removed});
    print_event(terminal, &format!("configuration read again: {changes}"), &event);
}

fn config_or_failure<T>(
    result: bundler_live::Result<T>,
    terminal: &Terminal,
) -> Result<T, Failure> {
    match result {
        Ok(config) => Ok(config),
        Err(Error::Config(errors)) => Err(report_errors(&errors, terminal)?),
        Err(error @ Error::File { .. }) => Err(Failure::usage(error)),
        Err(error) => Err(failure(&error)),
    }
}

fn report_errors(errors: &Diagnostics, terminal: &Terminal) -> std::io::Result<Failure> {
    if terminal.json {
        let file = errors.source_name();
        let errors: Vec<Value> = errors.list().iter().map(as_json).collect();
        let schema = "netarium.bundle.check/1";
        terminal.object(&json!({"schema": schema, "ok": false, "file": file, "errors": errors}))?;
    } else {
        terminal.error(draw(errors, terminal));
    }
    Ok(Failure::silent(Exit::Usage))
}

fn print_check<'a>(
    args: &Run,
    bundles: impl Iterator<Item = &'a str>,
    terminal: &Terminal,
) -> Verdict {
    let bundles: Vec<&str> = bundles.collect();
    if terminal.json {
        let schema = "netarium.bundle.check/1";
        terminal.object(&json!({"schema": schema, "ok": true, "bundles": bundles}))?;
    } else {
        let plural = if bundles.len() == 1 { "" } else { "s" };
        let (file, list) = (args.config.display(), bundles.join(", "));
        terminal.data(format!("{file}: {} bundle{plural}: {list}", bundles.len()))?;
    }
    Ok(Exit::Ok)
}

fn print_event(terminal: &Terminal, text: &str, event: &Value) {
    if terminal.json {
        // A closed standard output does not stop the gateway.
        let _ = terminal.object(event);
    } else {
        terminal.note(text);
    }
}

fn failure(error: &Error) -> Failure {
    Failure { help: error.help(), ..Failure::caused(Exit::Machine, error) }
}

fn serve_status(board: &Board, common: &Common) -> Result<ops::Server, Failure> {
    let source = watch::Watched {
        prefix: "netarium_bundle",
        board: board.clone(),
        status: Board::json,
        metrics: Board::metrics,
        is_healthy: Board::is_healthy,
    };
    watch::serve(source, Some(&common.status), common.metrics)
}

fn show(args: &Status, terminal: &Terminal) -> Verdict {
    let kind = watch::Kind {
        schema: status::SCHEMA,
        list: ("netarium.bundle.status/1", "boxes"),
        none: "no Bundler gateway runs there",
        table,
    };
    let folders = [PathBuf::from(STATUS_FOLDER)].into_iter().chain(watch::folders("bundle"));
    watch::show(&kind, &args.sockets, folders, terminal)
}

/// Drops all privileges except those for devices, routes and packets.
fn drop_privileges(args: &Run, status: &mut PathBuf) -> Result<(), Failure> {
    let daemon = args.privileges.daemon()?;
    if let Some(folder) = daemon.status_folder("bundle")?
        && status.parent() == Some(Path::new(STATUS_FOLDER))
        && let Some(name) = status.file_name()
    {
        *status = folder.join(name);
    }
    let keep =
        Capabilities::NET_ADMIN.and(Capabilities::NET_RAW).and(Capabilities::NET_BIND_SERVICE);
    daemon.drop_privileges(keep, true)
}

/// The table of a gateway and its bundles.
fn table(status: &Value, terminal: &Terminal) -> String {
    let is_sendbox = status["role"] == "send";
    let (role, heads): (_, &[_]) = if is_sendbox {
        let heads = [
            "bundle",
            "state",
            "mode",
            "rate",
            "send rate",
            "receive rate",
            "RTT",
            "queueing",
            "backlog",
            "loss",
            "dropped",
        ];
        ("sendbox", &heads.clone())
    } else {
        let heads = ["bundle", "last message", "packets", "bytes", "ACKs", "epoch", "rejected"];
        ("receivebox", &heads.clone())
    };
    let bundles = status["bundles"].as_array().map(Vec::as_slice).unwrap_or_default();
    let row = if is_sendbox { sendbox_row } else { receivebox_row };
    format!(
        "{} {} up {}\n{}\n",
        terminal.paint(Style::Strong, role),
        status["device"].as_str().unwrap_or_default(),
        seconds(&status["uptime_s"]),
        terminal.table(heads, &bundles.iter().map(row).collect::<Vec<_>>()),
    )
}

fn sendbox_row(bundle: &Value) -> Vec<String> {
    let proposed = &bundle["proposed_bit_s"];
    let rate = match bundle["rate_bit_s"].is_null() {
        true if bundle["mode"] == "dry-run" && !proposed.is_null() => {
            format!("({})", rate_text(proposed))
        }
        true => "unpaced".to_owned(),
        false => rate_text(&bundle["rate_bit_s"]),
    };
    vec![
        watch::string(&bundle["name"]),
        watch::string(&bundle["state"]),
        watch::string(&bundle["mode"]),
        rate,
        rate_text(&bundle["send_rate_bit_s"]),
        rate_text(&bundle["receive_rate_bit_s"]),
        millis(&bundle["rtt_s"]),
        millis(&bundle["queueing_s"]),
        format!("{} packets", bundle["backlog_packets"].as_f64().unwrap_or(0.0)),
        bundle["loss_ratio"].as_f64().map_or_else(dash, |it| format!("{:.2} %", it * 100.0)),
        bundle["dropped_packets"].to_string(),
    ]
}

fn receivebox_row(bundle: &Value) -> Vec<String> {
    let age = &bundle["heartbeat_age_s"];
    vec![
        watch::string(&bundle["name"]),
        if age.is_null() { "never".to_owned() } else { format!("{} ago", seconds(age)) },
        bundle["received_packets"].to_string(),
        bundle["received_bytes"].to_string(),
        bundle["acks"].to_string(),
        bundle["period_packets"].as_f64().map_or_else(dash, |it| it.to_string()),
        bundle["rejected_messages"].to_string(),
    ]
}

fn dash() -> String {
    "-".to_owned()
}

fn rate_text(value: &Value) -> String {
    let Some(rate) = value.as_f64() else { return dash() };
    let (rate, unit) = match rate {
        1e9.. => (rate / 1e9, "Gbit/s"),
        1e6.. => (rate / 1e6, "Mbit/s"),
        _ => (rate / 1e3, "kbit/s"),
    };
    format!("{rate:.3} {unit}")
}

fn millis(value: &Value) -> String {
    value.as_f64().map_or_else(dash, |it| format!("{:.2} ms", it * 1e3))
}

fn seconds(value: &Value) -> String {
    value.as_f64().map_or_else(dash, |it| format!("{it:.0} s"))
}
