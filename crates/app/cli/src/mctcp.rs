//! `mctcp`: MCTCP server and proxy.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use mctcp::acceptor::Limits;
use mctcp_live::Config;
use mctcp_proxy::connect::{self, Connect, Summary};
use mctcp_proxy::policy::{Policy, Users};
use mctcp_proxy::proxy::{self, Proxy};
use mctcp_proxy::redirect::{Own, Redirection};
use mctcp_proxy::serve::{self, Serve};
use mctcp_proxy::status::{self, Board};
use mctcp_proxy::tls::{self, Identity};
use mctcp_proxy::{Error, Event, Peer, Stop};
use serde_json::{Value, json};
use sys::confine::Capabilities;

use crate::args::{Status, Watch, mctcp as args};
use crate::terminal::{Style, Terminal};
use crate::{Failure, Verdict, daemon, interrupts, status as watch};
use run::Exit;

pub(crate) fn mctcp(args: &args::Mctcp, terminal: &Terminal) -> Verdict {
    match &args.command {
        args::MctcpCommand::Serve(args) => serve(args, terminal),
        args::MctcpCommand::Proxy(args) => proxy(args, terminal),
        args::MctcpCommand::Connect(args) => connect(args, terminal),
        args::MctcpCommand::Status(args) => show(args, terminal),
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
        board: Board::default(),
    };
    let default = watch::socket("mctcp", Some(&daemon))?;
    serve.policy().map_err(|e| failure(&e))?;
    warn_unauthenticated(&args.sessions, serve.tls.is_some(), terminal);
    daemon.drop_privileges(needed_capabilities(&args.sessions), true)?;
    let stop = stop()?;
    let _server = serve_status(&serve.board, &args.watch, default, terminal)?;
    serve::run(&serve, &stop, &mut |event| report(event, terminal)).map_err(|e| failure(&e))?;
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
                terminal.note("# nft -f - <<END");
                terminal.note(redirection.lines(false).trim_end());
                terminal.note("# END");
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
        max_clients: args.max_clients.get() as usize,
        board: Board::default(),
    };
    let default = watch::socket("mctcp", Some(&daemon))?;
    proxy.check().map_err(|e| failure(&e))?;
    warn_unauthenticated(&args.sessions, proxy.peer.tls.is_some(), terminal);
    let mut keep = needed_capabilities(&args.sessions);
    if proxy.redirect.is_some() {
        // To mark its own connections, and to add and remove rules.
        keep = keep.and(Capabilities::NET_ADMIN);
    }
    daemon.drop_privileges(keep, true)?;
    let stop = stop()?;
    let _server = serve_status(&proxy.board, &args.watch, default, terminal)?;
    proxy::run(&proxy, &stop, &mut |event| report(event, terminal)).map_err(|e| failure(&e))?;
    Ok(Exit::Ok)
}

fn connect(args: &args::Connect, terminal: &Terminal) -> Verdict {
    let connect = Connect {
        target: args.target.clone(),
        peer: peer(&args.peer, &args.sessions)?,
        board: Board::default(),
    };
    let stop = stop()?;
    let _server =
        serve_status(&connect.board, &args.watch, watch::socket("mctcp", None)?, terminal)?;
    let mut report = |event: &Event| {
        // Standard output carries the data of the connection.
        if !terminal.json {
            terminal.note(event_text(event));
        }
    };
    let summary = match connect::run(&connect, &stop, &mut report).map_err(|e| failure(&e)) {
        Ok(Some(summary)) => summary,
        Ok(None) => return Ok(Exit::Interrupted),
        Err(failure) if terminal.json => {
            terminal.error_object(&failure.as_json());
            return Err(Failure::silent(failure.exit));
        }
        Err(failure) => return Err(failure),
    };
    if terminal.json {
        terminal.error_object(&summary_object(&summary));
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
fn needed_capabilities(args: &args::Sessions) -> Capabilities {
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
        mctcp_proxy::check_buffer(buffer).map_err(|e| failure(&e))?;
        settings.send_buffer = buffer;
        settings.receive_buffer = buffer;
    }
    settings.resume = args.resume.unwrap_or(settings.resume);
    settings.idle = args.idle.unwrap_or(settings.idle);
    if let Some(name) = &args.congestion {
        mctcp_proxy::check_congestion(name).map_err(|e| failure(&e))?;
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

fn serve_status(
    board: &Board,
    args: &Watch,
    default: Option<PathBuf>,
    terminal: &Terminal,
) -> Result<ops::Server, Failure> {
    let source = watch::Watched {
        prefix: "netarium_mctcp",
        board: board.clone(),
        status: Board::json,
        metrics: Board::metrics,
        is_healthy: |_| true,
    };
    watch::watch(source, args, default, terminal)
}

/// Warns if sessions have neither a key nor TLS: then they are only protected from off-path
/// attackers.
fn warn_unauthenticated(args: &args::Sessions, tls: bool, terminal: &Terminal) {
    if args.key_file.is_none() && !tls {
        terminal.note("note: without --key-file or TLS, an eavesdropper can join sessions");
    }
}

/// Stops on the first signal; the second one exits at once.
fn stop() -> Result<Stop, Failure> {
    let stop = Stop::default();
    let (requested, twice) = (stop.clone(), AtomicBool::new(false));
    interrupts::each(move || {
        if twice.swap(true, Ordering::SeqCst) {
            std::process::exit(Exit::Interrupted.code().into());
        }
        requested.ask();
    })?;
    Ok(stop)
}

fn failure(error: &Error) -> Failure {
    let exit = if error.is_usage() { Exit::Usage } else { Exit::Machine };
    Failure { help: error.help(), ..Failure::caused(exit, error) }
}

fn report(event: &Event, terminal: &Terminal) {
    if matches!(event, Event::Ready(_)) {
        daemon::report_ready(&event_text(event));
    }
    if terminal.json {
        // A closed output does not stop the proxy.
        let _ = terminal.object(&event_json(event));
    } else if !matches!(event, Event::Opened { .. } | Event::Closed { why: None, .. }) {
        terminal.note(event_text(event));
    }
}

fn event_text(event: &Event) -> String {
    match event {
        Event::Ready(at) => {
            let list = at.iter().map(|(front, at)| format!("{front} at {at}"));
            format!("ready: {}", list.collect::<Vec<_>>().join(", "))
        }
        Event::Installed => "netfilter rules installed".to_owned(),
        Event::Opened { client, target, via } => format!("{client} -> {target} ({via})"),
        Event::Fallback { target, why } => format!("{target}: fallback to plain TCP: {why}"),
        Event::Refused { client, target, why } => {
            let target = target.as_ref().map(|it| format!(" -> {it}")).unwrap_or_default();
            format!("{client}{target}: rejected: {why}")
        }
        Event::Failed { client, target, why } => format!("{client} -> {target}: failed: {why}"),
        Event::Closed { client, target, sent, received, why } => {
            let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("{client} -> {target}: closed, sent {sent} B, received {received} B{why}")
        }
        _ => String::new(),
    }
}

fn event_json(event: &Event) -> Value {
    match event {
        Event::Ready(at) => {
            let list = at.iter().map(|(front, at)| json!({"front": front, "at": at}));
            json!({"event": "ready", "listens": list.collect::<Vec<_>>()})
        }
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

fn show(args: &Status, terminal: &Terminal) -> Verdict {
    let kind = watch::Kind {
        schema: status::SCHEMA,
        list: ("netarium.mctcp.status/1", "fronts"),
        none: "no MCTCP server or proxy runs there",
        table,
    };
    watch::show(&kind, &args.sockets, watch::folders("mctcp"), terminal)
}

/// The table of a server or proxy, its connections and their subflows.
fn table(status: &Value, terminal: &Terminal) -> String {
    let listens = status["listens"].as_array().into_iter().flatten();
    let listens = listens
        .map(|it| format!("{} at {}", watch::string(&it["front"]), watch::string(&it["at"])));
    let mut text = format!(
        "{} {} up {:.0} s: {} sessions, {} in total; {} fallbacks, {} rejected, {} failed\n",
        terminal.paint(Style::Strong, &watch::string(&status["role"])),
        listens.collect::<Vec<_>>().join(", "),
        status["uptime_s"].as_f64().unwrap_or(0.0),
        status["sessions"],
        status["sessions_total"],
        status["fallbacks_total"],
        status["refused_total"],
        status["failed_total"],
    );
    let heads =
        ["connection", "via", "state", "send rate", "receive rate", "sent", "received", "RTT"];
    let mut rows = Vec::new();
    for row in status["list"].as_array().into_iter().flatten() {
        let name =
            format!("{} -> {}", watch::string(&row["client"]), watch::string(&row["target"]));
        rows.push(cells(row, name, watch::string(&row["via"]), String::new()));
        for subflow in row["subflows"].as_array().into_iter().flatten() {
            let name = format!(
                "  {} - {}",
                watch::string(&subflow["local"]),
                watch::string(&subflow["remote"])
            );
            let backup = if subflow["backup"] == true { "backup" } else { "" };
            rows.push(cells(subflow, name, backup.to_owned(), watch::string(&subflow["state"])));
        }
    }
    if !rows.is_empty() {
        text += &terminal.table(&heads, &rows);
        text.push('\n');
    }
    text
}

fn cells(row: &Value, name: String, via: String, state: String) -> Vec<String> {
    let rate = |value: &Value| {
        value.as_f64().map_or_else(|| "-".to_owned(), |rate| format!("{:.3} Mbit/s", rate / 1e6))
    };
    let size = |value: &Value| format!("{:.3} MB", value.as_f64().unwrap_or(0.0) / 1e6);
    let rtt = row["srtt_s"].as_f64().map_or_else(String::new, |it| format!("{:.1} ms", it * 1e3));
    vec![
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
