//! `bundle`: the boxes of Bundler on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bundler_live::config::{Mistakes, Receive, STATUS_FOLDER, Send};
use bundler_live::{Error, receive, send, status};
use serde_json::{Value, json};
use sys::confine::Capabilities;

use crate::args::bundle::{Bundle, BundleVerb, Run, Status};
use crate::daemon;
use crate::exit::Exit;
use crate::files::draw;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, interrupts};

pub(crate) fn bundle(args: &Bundle, terminal: &Terminal) -> Verdict {
    match &args.verb {
        BundleVerb::Send(args) => run_send(args, terminal),
        BundleVerb::Receive(args) => run_receive(args, terminal),
        BundleVerb::Status(args) => show(args, terminal),
    }
}

fn run_send(args: &Run, terminal: &Terminal) -> Verdict {
    let mut config = loaded(Send::load(&args.config), terminal)?;
    if args.check {
        return checked(args, config.bundles.iter().map(|it| it.name.as_str()), terminal);
    }
    drop_privileges(args, &mut config.common.status)?;
    let stop = stop()?;
    let mut tell = |event: &send::Event| match event {
        send::Event::Ready { device, mtu } => {
            let socket = config.common.status.display();
            let text = format!("sending through {device} (MTU {mtu}); status at {socket}");
            said(terminal, &text, &json!({"event": "ready", "device": device, "mtu": mtu}));
        }
        send::Event::Transition { bundle, transition } => {
            let (from, to) = (transition.from.to_string(), transition.to.to_string());
            let why = transition.cause.as_str();
            let text = format!("{bundle}: {from} → {to}: {why}");
            let event = "transition";
            said(
                terminal,
                &text,
                &json!({"event": event, "bundle": bundle, "from": from, "to": to, "why": why}),
            );
        }
        _ => {}
    };
    send::run(&config, &stop, &mut tell).map_err(|e| failure(&e))?;
    Ok(Exit::Ok)
}

fn run_receive(args: &Run, terminal: &Terminal) -> Verdict {
    let mut config = loaded(Receive::load(&args.config), terminal)?;
    if args.check {
        return checked(args, config.bundles.iter().map(|it| it.name.as_str()), terminal);
    }
    drop_privileges(args, &mut config.common.status)?;
    let stop = stop()?;
    let mut tell = |event: &receive::Event| {
        if let receive::Event::Ready { interfaces } = event {
            let socket = config.common.status.display();
            let at = if interfaces.is_empty() {
                config.common.listen.to_string()
            } else {
                interfaces.join(", ")
            };
            let text = format!("receiving at {at}; status at {socket}");
            said(terminal, &text, &json!({"event": "ready", "interfaces": interfaces}));
        }
    };
    receive::run(&config, &stop, &mut tell).map_err(|e| failure(&e))?;
    Ok(Exit::Ok)
}

fn loaded<T>(result: bundler_live::Result<T>, terminal: &Terminal) -> Result<T, Failure> {
    match result {
        Ok(config) => Ok(config),
        Err(Error::Config(mistakes)) => Err(wrong(&mistakes, terminal)?),
        Err(error @ Error::File { .. }) => Err(Failure::usage(error)),
        Err(error) => Err(failure(&error)),
    }
}

/// Says what is wrong with a configuration.
fn wrong(mistakes: &Mistakes, terminal: &Terminal) -> std::io::Result<Failure> {
    if terminal.json {
        let list = mistakes.list().iter().map(|mistake| {
            let (line, column) = mistake.position;
            let (message, help) = (&mistake.message, &mistake.help);
            json!({"message": message, "help": help, "line": line, "column": column})
        });
        let errors: Vec<Value> = list.collect();
        let file = mistakes.source_name();
        let schema = "netarium.bundle.check/1";
        terminal.object(&json!({"schema": schema, "ok": false, "file": file, "errors": errors}))?;
    } else {
        terminal.error(draw(mistakes, terminal));
    }
    Ok(Failure::silent(Exit::Usage))
}

fn checked<'a>(args: &Run, bundles: impl Iterator<Item = &'a str>, terminal: &Terminal) -> Verdict {
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

/// What is set when the box is to end; who asks twice does not wait.
fn stop() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    interrupts::each(move || {
        if asked.swap(true, Ordering::SeqCst) {
            std::process::exit(Exit::Interrupted.code().into());
        }
    })?;
    Ok(stop)
}

fn said(terminal: &Terminal, text: &str, event: &Value) {
    if terminal.json {
        // A box does its work whether or not somebody listens.
        let _ = terminal.object(event);
    } else {
        terminal.talk(text);
    }
}

fn failure(error: &Error) -> Failure {
    let failure = Failure::caused(Exit::Machine, error);
    match error.help() {
        Some(help) => failure.help(help),
        None => failure,
    }
}

fn show(args: &Status, terminal: &Terminal) -> Verdict {
    let found = if args.sockets.is_empty() { sockets()? } else { args.sockets.clone() };
    let mut boxes = Vec::new();
    for path in &found {
        match status::ask(path) {
            Ok(status) => boxes.push(status),
            // A box that was killed leaves its socket.
            Err(error) if args.sockets.is_empty() => terminal.talk(format!("note: {error}")),
            Err(error) => return Err(failure(&error).help("no box runs there")),
        }
    }
    if terminal.json {
        terminal.object(&json!({"schema": "netarium.bundle.status/1", "boxes": boxes}))?;
    } else if boxes.is_empty() {
        terminal.talk("no box runs on this machine");
    } else {
        for status in &boxes {
            terminal.data(table(status, terminal))?;
        }
    }
    Ok(Exit::Ok)
}

fn sockets() -> Result<Vec<PathBuf>, Failure> {
    let own = PathBuf::from(STATUS_FOLDER);
    daemon::sockets([own].into_iter().chain(daemon::status_folders("bundle")))
}

/// Drops all privileges but those for devices, routes and packets.
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

/// A box and its bundles.
fn table(status: &Value, terminal: &Terminal) -> String {
    let is_sendbox = status["role"] == "send";
    let (role, heads): (_, &[_]) = if is_sendbox {
        let heads = [
            "bundle",
            "state",
            "mode",
            "rate",
            "sends",
            "arrives",
            "round trip",
            "in queues",
            "waiting",
            "lost",
            "dropped",
        ];
        ("sendbox", &heads.clone())
    } else {
        let heads = ["bundle", "heard", "packets", "bytes", "acks", "one of", "refused"];
        ("receivebox", &heads.clone())
    };
    let bundles = status["bundles"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rows: Vec<Vec<String>> = vec![heads.iter().map(|head| (*head).to_owned()).collect()];
    rows.extend(bundles.iter().map(|it| if is_sendbox { outgoing(it) } else { incoming(it) }));
    let widths: Vec<usize> = (0..heads.len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = format!(
        "{} {} up {}\n",
        terminal.paint(Style::Strong, role),
        status["device"].as_str().unwrap_or_default(),
        seconds(&status["uptime_s"]),
    );
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let style = if number == 0 { Style::Dim } else { Style::Strong };
        let line = line.trim_end();
        text += &if number == 0 { terminal.paint(style, line) } else { line.to_owned() };
        text.push('\n');
    }
    text
}

fn outgoing(bundle: &Value) -> Vec<String> {
    let proposed = &bundle["proposed_bit_s"];
    let rate = match bundle["rate_bit_s"].is_null() {
        true if bundle["mode"] == "dry-run" && !proposed.is_null() => {
            format!("({})", bits(proposed))
        }
        true => "free".to_owned(),
        false => bits(&bundle["rate_bit_s"]),
    };
    vec![
        word(&bundle["name"]),
        word(&bundle["state"]),
        word(&bundle["mode"]),
        rate,
        bits(&bundle["send_rate_bit_s"]),
        bits(&bundle["receive_rate_bit_s"]),
        millis(&bundle["rtt_s"]),
        millis(&bundle["queueing_s"]),
        format!("{} packets", bundle["backlog_packets"].as_f64().unwrap_or(0.0)),
        bundle["loss_ratio"].as_f64().map_or_else(dash, |it| format!("{:.2} %", it * 100.0)),
        bundle["dropped_packets"].to_string(),
    ]
}

fn incoming(bundle: &Value) -> Vec<String> {
    let heard = &bundle["heartbeat_age_s"];
    vec![
        word(&bundle["name"]),
        if heard.is_null() { "never".to_owned() } else { format!("{} ago", seconds(heard)) },
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

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn bits(value: &Value) -> String {
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
