//! `mctcp`: sessions over several paths for programs that know nothing of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use mctcp::acceptor::Limits;
use mctcp_live::Config;
use mctcp_live::front::connect::{self, Connect, Summary};
use mctcp_live::front::policy::{Policy, Users};
use mctcp_live::front::proxy::{self, Proxy};
use mctcp_live::front::redirect::{Own, Redirection};
use mctcp_live::front::serve::{self, Serve};
use mctcp_live::front::tls::{self, Identity};
use mctcp_live::front::{self, Error, Event, Peer, Stop, Watch, status};
use serde_json::{Value, json};
use sys::confine::Capabilities;

use crate::args::mctcp as args;
use crate::daemon::{self, Daemon};
use crate::exit::Exit;
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, interrupts};

pub(crate) fn mctcp(args: &args::Mctcp, terminal: &Terminal) -> Verdict {
    match &args.verb {
        args::MctcpVerb::Serve(args) => serve(args, terminal),
        args::MctcpVerb::Proxy(args) => proxy(args, terminal),
        args::MctcpVerb::Connect(args) => connect(args, terminal),
        args::MctcpVerb::Status(args) => show(args, terminal),
    }
}

fn serve(args: &args::Serve, terminal: &Terminal) -> Verdict {
    let daemon = args.privileges.daemon()?;
    let config = sessions(&args.sessions)?;
    let clients = args.tls_ca.as_deref();
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificates), Some(key)) => {
            let own = Identity { certificates, key };
            Some((tls::server(own, clients).map_err(|e| failure(&e))?, clients.is_some()))
        }
        _ => None,
    };
    let allow = (!args.allow.is_empty()).then(|| Policy { allow: args.allow.clone() });
    let serve = Serve {
        listen: args.listen.clone(),
        advertise: args.advertise.clone(),
        to: args.to.clone(),
        fallback: !args.no_fallback,
        allow,
        config,
        tls,
        limits: Limits {
            sessions: args.max_sessions.get() as usize,
            unproven_sessions: args.max_handshakes.get() as usize,
            unproven_sessions_per_source: args.max_handshakes_per_source.get() as usize,
            silent: args.max_handshakes.get() as usize,
            silent_per_source: args.max_handshakes_per_source.get() as usize,
            ..Limits::default()
        },
        watch: watch(&args.watch, &daemon)?,
    };
    serve.policy().map_err(|e| failure(&e))?;
    unproven(&args.sessions, serve.tls.is_some(), terminal);
    daemon.drop_privileges(kept(&args.sessions), true)?;
    let stop = stop()?;
    serve::run(&serve, &stop, &mut |event| told(event, terminal)).map_err(|e| failure(&e))?;
    Ok(Exit::Ok)
}

fn proxy(args: &args::Proxy, terminal: &Terminal) -> Verdict {
    let daemon = args.privileges.daemon()?;
    let redirect = match args.redirect {
        Some(listen) => {
            let own = Own::detect().map_err(|e| failure(&e))?;
            let redirection =
                Redirection::new(listen, &args.capture, own).map_err(|e| failure(&e))?;
            if !args.install {
                terminal.talk("# nft -f - <<END");
                terminal.talk(redirection.lines(false).trim_end());
                terminal.talk("# END");
            }
            Some((redirection, args.install))
        }
        None => None,
    };
    let users = args.users.as_deref().map(Users::load).transpose().map_err(|e| failure(&e))?;
    let proxy = Proxy {
        peer: peer(&args.peer, &args.sessions)?,
        socks: args.socks.clone(),
        http: args.http.clone(),
        redirect,
        forwards: args.forward.clone(),
        users,
        clients: args.clients.clone(),
        most_clients: args.max_clients.get() as usize,
        watch: watch(&args.watch, &daemon)?,
    };
    proxy.check().map_err(|e| failure(&e))?;
    unproven(&args.sessions, proxy.peer.tls.is_some(), terminal);
    let mut keep = kept(&args.sessions);
    if proxy.redirect.is_some() {
        // To mark its own connections, and to add and remove rules.
        keep = keep.and(Capabilities::NET_ADMIN);
    }
    daemon.drop_privileges(keep, true)?;
    let stop = stop()?;
    proxy::run(&proxy, &stop, &mut |event| told(event, terminal)).map_err(|e| failure(&e))?;
    Ok(Exit::Ok)
}

fn connect(args: &args::Connect, terminal: &Terminal) -> Verdict {
    let connect = Connect {
        target: args.target.clone(),
        peer: peer(&args.peer, &args.sessions)?,
        watch: Watch { status: args.watch.status.clone(), metrics: args.watch.metrics },
    };
    let stop = stop()?;
    let mut tell = |event: &Event| {
        // Standard output is the connection's.
        if !terminal.json {
            terminal.talk(words(event));
        }
    };
    let summary = match connect::run(&connect, &stop, &mut tell).map_err(|e| failure(&e)) {
        Ok(Some(summary)) => summary,
        Ok(None) => return Ok(Exit::Interrupted),
        Err(failure) if terminal.json => {
            let (message, help) = (&failure.message, &failure.help);
            let schema = "netarium.error/1";
            let code = failure.exit.code();
            terminal.error(json!({
                "schema": schema, "message": message, "help": help, "exit_code": code,
            }));
            return Err(Failure::silent(failure.exit));
        }
        Err(failure) => return Err(failure),
    };
    if terminal.json {
        terminal.error(summary_object(&summary));
    }
    Ok(Exit::Ok)
}

fn summary_object(summary: &Summary) -> Value {
    json!({
        "schema": "netarium.mctcp.connect/1",
        "via": summary.via,
        "fallback": summary.fallback,
        "sent_bytes": summary.sent,
        "received_bytes": summary.received,
        "reinjected_bytes": summary.reinjected,
        "subflows": summary.subflows,
        "seconds": summary.seconds,
    })
}

/// Capabilities that servers and proxies need.
fn kept(args: &args::Sessions) -> Capabilities {
    let low_ports = Capabilities::NET_BIND_SERVICE;
    // Buffers above `net.core.wmem_max`.
    if args.socket_buffer.is_some() { low_ports.and(Capabilities::NET_ADMIN) } else { low_ports }
}

fn sessions(args: &args::Sessions) -> Result<Config, Failure> {
    let mut config = Config::default();
    let settings = &mut config.settings;
    settings.scheduler = args.scheduler;
    settings.max_subflows = args.subflows;
    if let Some(buffer) = args.buffer {
        front::check_buffer(buffer).map_err(|e| failure(&e))?;
        settings.send_buffer = buffer;
        settings.receive_buffer = buffer;
    }
    settings.resume = args.resume.unwrap_or(settings.resume);
    settings.idle = args.idle.unwrap_or(settings.idle);
    if let Some(name) = &args.congestion {
        front::check_congestion(name).map_err(|e| failure(&e))?;
        config.congestion = Some(name.clone());
    }
    config.send_buffer = args.socket_buffer;
    config.receive_buffer = args.socket_buffer;
    if let Some(path) = &args.key_file {
        config.psk = Some(tls::load_key(path).map_err(|e| failure(&e))?);
    }
    Ok(config)
}

fn peer(args: &args::Peer, session: &args::Sessions) -> Result<Peer, Failure> {
    let own = match (&args.tls_cert, &args.tls_key) {
        (Some(certificates), Some(key)) => Some(Identity { certificates, key }),
        _ => None,
    };
    let tls = match &args.tls_ca {
        Some(trusted) => {
            let name =
                args.tls_name.as_deref().map(tls::name).transpose().map_err(|e| failure(&e))?;
            Some((tls::client(trusted, own).map_err(|e| failure(&e))?, name))
        }
        None => None,
    };
    Ok(Peer {
        servers: args.server.clone(),
        paths: args.path.clone(),
        config: sessions(session)?,
        tls,
        fallback: !args.no_fallback,
        allow_plain: args.allow_plain,
        max_plain: args.max_plain.get() as usize,
    })
}

fn watch(args: &args::Watch, daemon: &Daemon) -> Result<Watch, Failure> {
    let status = match (&args.status, daemon.status_folder("mctcp")?) {
        (None, Some(folder)) => Some(folder.join(format!("{}.sock", std::process::id()))),
        (given, _) => given.clone(),
    };
    Ok(Watch { status, metrics: args.metrics })
}

/// Without a key, sessions are protected from those alone who do not see their traffic.
fn unproven(args: &args::Sessions, tls: bool, terminal: &Terminal) {
    if args.key_file.is_none() && !tls {
        terminal
            .talk("note: without --key-file or TLS, whoever sees a session's traffic can join it");
    }
}

/// What is told to stop; who asks twice does not wait.
fn stop() -> Result<Stop, Failure> {
    let stop = Stop::default();
    let (asked, twice) = (stop.clone(), AtomicBool::new(false));
    interrupts::each(move || {
        if twice.swap(true, Ordering::SeqCst) {
            std::process::exit(Exit::Interrupted.code().into());
        }
        asked.ask();
    })?;
    Ok(stop)
}

fn failure(error: &Error) -> Failure {
    let exit = if error.is_usage() { Exit::Usage } else { Exit::Machine };
    let failure = Failure::caused(exit, error);
    match error.help() {
        Some(help) => failure.help(help),
        None => failure,
    }
}

fn told(event: &Event, terminal: &Terminal) {
    if terminal.json {
        // It does its work whether or not somebody listens.
        let _ = terminal.object(&object(event));
    } else if !matches!(event, Event::Opened { .. } | Event::Closed { why: None, .. }) {
        terminal.talk(words(event));
    }
}

fn words(event: &Event) -> String {
    match event {
        Event::Ready(at) => {
            let list = at.iter().map(|(front, at)| format!("{front} at {at}"));
            format!("ready: {}", list.collect::<Vec<_>>().join(", "))
        }
        Event::Unwatched(why) => format!("note: no status: {why}"),
        Event::Installed => "netfilter's rules are in force".to_owned(),
        Event::Opened { client, target, via } => format!("{client} -> {target} ({via})"),
        Event::Fallback { target, why } => format!("{target}: in plain TCP: {why}"),
        Event::Refused { client, target, why } => {
            let target = target.as_ref().map(|it| format!(" -> {it}")).unwrap_or_default();
            format!("{client}{target}: refused: {why}")
        }
        Event::Failed { client, target, why } => format!("{client} -> {target}: failed: {why}"),
        Event::Closed { client, target, sent, received, why } => {
            let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{client} -> {target}: ended after {sent} B and {received} B{why}")
        }
        _ => String::new(),
    }
}

fn object(event: &Event) -> Value {
    match event {
        Event::Ready(at) => {
            let list = at.iter().map(|(front, at)| json!({"front": front, "at": at}));
            json!({"event": "ready", "listens": list.collect::<Vec<_>>()})
        }
        Event::Unwatched(why) => json!({"event": "unwatched", "why": why}),
        Event::Installed => json!({"event": "installed"}),
        Event::Opened { client, target, via } => {
            json!({"event": "opened", "client": client, "target": target, "via": via})
        }
        Event::Fallback { target, why } => {
            json!({"event": "fallback", "target": target, "why": why})
        }
        Event::Refused { client, target, why } => {
            json!({"event": "refused", "client": client, "target": target, "why": why})
        }
        Event::Failed { client, target, why } => {
            json!({"event": "failed", "client": client, "target": target, "why": why})
        }
        Event::Closed { client, target, sent, received, why } => json!({
            "event": "closed",
            "client": client,
            "target": target,
            "sent_bytes": sent,
            "received_bytes": received,
            "why": why,
        }),
        _ => Value::Null,
    }
}

fn show(args: &args::Status, terminal: &Terminal) -> Verdict {
    let found = if args.sockets.is_empty() { sockets()? } else { args.sockets.clone() };
    let mut fronts = Vec::new();
    for path in &found {
        match status::ask(path) {
            Ok(status) => fronts.push(status),
            // A process that was killed leaves its socket.
            Err(error) if args.sockets.is_empty() => terminal.talk(format!("note: {error}")),
            Err(error) => return Err(failure(&error).help("nothing of mctcp runs there")),
        }
    }
    if terminal.json {
        terminal.object(&json!({"schema": "netarium.mctcp.status/1", "fronts": fronts}))?;
    } else if fronts.is_empty() {
        terminal.talk("nothing of mctcp runs on this machine");
    } else {
        for status in &fronts {
            terminal.data(table(status, terminal))?;
        }
    }
    Ok(Exit::Ok)
}

fn sockets() -> Result<Vec<PathBuf>, Failure> {
    let folders = status::folder().into_iter().chain(daemon::status_folders("mctcp"));
    daemon::sockets(folders)
}

/// A front, its connections, and their subflows below them.
fn table(status: &Value, terminal: &Terminal) -> String {
    let listens = status["listens"].as_array().into_iter().flatten();
    let listens = listens.map(|it| format!("{} at {}", word(&it["front"]), word(&it["at"])));
    let mut text = format!(
        "{} {} up {:.0} s: {} sessions, {} in all; {} fallbacks, {} refused, {} failed\n",
        terminal.paint(Style::Strong, &word(&status["role"])),
        listens.collect::<Vec<_>>().join(", "),
        status["uptime_s"].as_f64().unwrap_or(0.0),
        status["sessions"],
        status["sessions_total"],
        status["fallbacks_total"],
        status["refused_total"],
        status["failed_total"],
    );
    let heads = ["connection", "via", "state", "sends", "receives", "sent", "received", "rtt"];
    let mut rows = vec![heads.map(str::to_owned)];
    for row in status["list"].as_array().into_iter().flatten() {
        let name = format!("{} -> {}", word(&row["client"]), word(&row["target"]));
        rows.push(cells(row, name, word(&row["via"]), String::new()));
        for subflow in row["subflows"].as_array().into_iter().flatten() {
            let name = format!("  {} - {}", word(&subflow["local"]), word(&subflow["remote"]));
            let backup = if subflow["backup"] == true { "backup" } else { "" };
            rows.push(cells(subflow, name, backup.to_owned(), word(&subflow["state"])));
        }
    }
    if rows.len() == 1 {
        return text;
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..heads.len()).map(|column| width(column).unwrap_or(0)).collect();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let line = line.trim_end();
        let style = if number == 0 { Some(Style::Dim) } else { None };
        text += &style.map_or_else(|| line.to_owned(), |style| terminal.paint(style, line));
        text.push('\n');
    }
    text
}

fn cells(row: &Value, name: String, via: String, state: String) -> [String; 8] {
    let rate = |value: &Value| {
        value.as_f64().map_or_else(|| "-".to_owned(), |rate| format!("{:.3} Mbit/s", rate / 1e6))
    };
    let size = |value: &Value| format!("{:.3} MB", value.as_f64().unwrap_or(0.0) / 1e6);
    let rtt = row["srtt_s"].as_f64().map_or_else(String::new, |it| format!("{:.1} ms", it * 1e3));
    [
        name,
        via,
        state,
        rate(&row["send_rate_bit_s"]),
        rate(&row["receive_rate_bit_s"]),
        size(&row["sent_bytes"]),
        size(&row["received_bytes"]),
        rtt,
    ]
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
