//! `collect`: the BGP collector.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{Bytes, QuantityError, Span};
use bgp::Asn;
use collector::decapsulate::{Tunnels, Verify};
use collector::filter::Wanted;
use collector_live::archive::{self, Compression};
use collector_live::input::{Captures, Format, Input};
use collector_live::job::{self, Settings, Summary};
use collector_live::live::{Interface, RingOptions, Source, Tunnel};
use collector_live::{Error, feed};
use serde_json::json;
use sys::confine::Capabilities;

use crate::args::collect::{Collect, CollectRun, Compress, Layout};
use crate::progress::Line;
use crate::terminal::Terminal;
use crate::{Failure, Verdict, archives, daemon, interrupts, status};
use run::Exit;

pub(crate) fn collect(args: &Collect, terminal: &Terminal) -> Verdict {
    match &args.command {
        None => run(&args.run, terminal),
        Some(command) => archives::archives(command, terminal),
    }
}

/// The failure for an error of the collector; missing permissions are not a usage error.
pub(crate) fn failure(error: &Error) -> Failure {
    if error.is_denied() {
        return Failure::caused(Exit::Machine, error).help(
            "capturing needs CAP_NET_RAW: run as root, or \
             `setcap cap_net_raw+ep $(command -v netarium)`",
        );
    }
    let exit = if error.is_machine() { Exit::Machine } else { Exit::Usage };
    Failure::caused(exit, error)
}

fn quantity<T: FromStr>(option: &str, text: &str) -> Result<T, Failure>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|e| Failure::usage(format!("--{option}: {e}")))
}

/// A time with a unit, or 0.
fn time(option: &str, text: &str) -> Result<Span, Failure> {
    let text = text.trim();
    if text == "0" {
        return Ok(Span::ZERO);
    }
    text.parse().map_err(|e| {
        let number = text.trim_end_matches(char::is_alphabetic).trim_end();
        let help = match &e {
            QuantityError::UnknownUnit { unit, .. } if unit == "m" => {
                format!("for minutes write `{number} min`, for milliseconds `{number} ms`")
            }
            QuantityError::MissingUnit { units, .. } | QuantityError::UnknownUnit { units, .. } => {
                format!("units are {units}; for example `{number} min`")
            }
            _ => "write a time like `5 min` or `8 h`".to_owned(),
        };
        Failure::usage(format!("--{option}: {e}")).help(help)
    })
}

fn run(args: &CollectRun, terminal: &Terminal) -> Verdict {
    if args.read.is_empty() && args.interface.is_empty() && args.listen.is_empty() {
        return Err(Failure::usage("nothing to collect from").help(
            "give --read FILE, --interface IF or --listen ADDRESS:PORT, as in \
             `netarium collect --read span.pcap --out archive`",
        ));
    }
    let mut settings = settings(args)?;
    settings.on_start = Some(|| daemon::report_ready("collecting"));
    let socket = drop_privileges(args)?;
    // A second signal exits without compressing files; the next collector finishes them.
    let stop = interrupts::flag()?;
    let server = serve(args, &mut settings, terminal)?;
    let stations = stations(args, &mut settings)?;
    // With files as input, the status is served only if the options ask for it.
    let live = args.read.is_empty();
    let watched = if live || args.watch.status.is_some() || args.watch.metrics.is_some() {
        let source = serve::Watched::new(&args.name, settings.board.clone());
        Some(status::watch(source, &args.watch, socket.filter(|_| live), terminal)?)
    } else {
        None
    };
    let (line, board) = (Line::new(terminal.progress()), settings.board.clone());
    let over = Arc::new(AtomicBool::new(false));
    let watch = watch(args, &stop, &over, move || line.show_collected(&board.status()))?;
    let summary = if live {
        from_network(args, settings, &stop).map_err(|e| failure(&e))
    } else {
        from_files(args, settings, &stop)
    };
    over.store(true, Ordering::SeqCst);
    let _ = watch.join();
    let undelivered = stations.map(serve::Stations::finish).unwrap_or_default();
    drop((server, watched));
    let summary = summary?;
    report(&summary, args, terminal)?;
    for failure in &undelivered {
        terminal.error(format!("warning: {failure}"));
    }
    let interrupted = stop.load(Ordering::SeqCst) && !live && args.duration.is_none();
    let is_missing = !summary.missing().is_empty() || !undelivered.is_empty();
    Ok(match (interrupted, args.strict && is_missing) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Expectation,
        (false, false) => Exit::Ok,
    })
}

/// Drops privileges if the collector is a daemon: it captures or listens.
fn drop_privileges(args: &CollectRun) -> Result<Option<PathBuf>, Failure> {
    if !args.read.is_empty() && args.serve.is_none() && args.privileges.user.is_none() {
        return Ok(None);
    }
    let daemon = args.privileges.daemon()?;
    let socket = status::socket("collect", Some(&daemon))?;
    if let Some(folder) = &args.out {
        daemon.own_folder(folder)?;
    }
    let mut keep = Capabilities::NET_BIND_SERVICE;
    if !args.interface.is_empty() {
        keep = keep.and(Capabilities::NET_RAW);
    }
    if args.hardware_time {
        keep = keep.and(Capabilities::NET_ADMIN);
    }
    daemon.drop_privileges(keep, true)?;
    Ok(socket)
}

/// Stops the collector after its duration, and shows the progress.
fn watch(
    args: &CollectRun,
    stop: &Arc<AtomicBool>,
    over: &Arc<AtomicBool>,
    show: impl Fn() + Send + 'static,
) -> Result<std::thread::JoinHandle<()>, Failure> {
    let limit = args.duration.as_deref().map(|text| time("duration", text));
    let limit = limit.transpose()?.map(Span::to_std);
    let (stop, over, start) = (Arc::clone(stop), Arc::clone(over), std::time::Instant::now());
    let work = move || {
        while !over.load(Ordering::SeqCst) {
            if limit.is_some_and(|limit| start.elapsed() >= limit) {
                stop.store(true, Ordering::SeqCst);
            }
            if start.elapsed() > Duration::from_secs(2) {
                show();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let thread = std::thread::Builder::new().name("watch".to_owned());
    thread.spawn(work).map_err(|e| Failure::machine(format!("cannot start a thread: {e}")))
}

fn settings(args: &CollectRun) -> Result<Settings, Failure> {
    let (interval, tables, compression) = match args.layout {
        Layout::Ris => ("5 min", "8 h", Compression::Gzip(6)),
        Layout::Routeviews => ("15 min", "2 h", Compression::Bzip2),
    };
    let mut settings = Settings::default();
    let pipeline = &mut settings.pipeline;
    pipeline.decapsulate.ports.clone_from(&args.port);
    if args.no_checksums {
        pipeline.decapsulate.verify = Verify::Never;
    }
    pipeline.decapsulate.merge = args.merge;
    let memory: Bytes = quantity("memory", &args.memory)?;
    pipeline.reassembly.memory = memory;
    pipeline.sessions.routers = args.router.iter().map(|(address, _)| *address).collect();
    let systems = args.router.iter().filter_map(|(address, asn)| Some((*address, Asn((*asn)?))));
    pipeline.sessions.systems = systems.collect();
    if !args.read.is_empty() {
        pipeline.learn = 256;
        // A file may contain segments that were captured late.
        pipeline.reassembly.acknowledged_timeout = pipeline.reassembly.gap_timeout;
    }
    settings.records.local_messages = args.local_messages;
    settings.routes = args.serve.is_some() || !args.bmp.is_empty();
    if let Some(folder) = &args.out {
        let options = archive::Options {
            collector: args.name.clone(),
            layout: match args.layout {
                Layout::Ris => archive::Layout::Ris,
                Layout::Routeviews => archive::Layout::RouteViews,
            },
            interval: time("rotate", args.rotate.as_deref().unwrap_or(interval))?,
            compression: match args.compress {
                None => compression,
                Some(Compress::None) => Compression::None,
                Some(Compress::Gz) => Compression::Gzip(6),
                Some(Compress::Bz2) => Compression::Bzip2,
                Some(Compress::Zst) => Compression::Zstd(3),
            },
            ..archive::Options::default()
        };
        settings.archive = Some((folder.clone(), options));
        settings.snapshots = time("snapshot", args.snapshot.as_deref().unwrap_or(tables))?;
    }
    Ok(settings)
}

fn serve(
    args: &CollectRun,
    settings: &mut Settings,
    terminal: &Terminal,
) -> Result<Option<serve::Server>, Failure> {
    let Some(address) = args.serve else { return Ok(None) };
    let clients = max_clients(args)?;
    let (feed, watch) = feed::feed();
    let server = serve::Server::start(address, &args.name, watch, settings.board.clone(), clients)
        .map_err(|e| Failure::caused(Exit::Machine, &e))?;
    terminal.note(format!("serving at http://{0}/ (RIS Live at ws://{0}/v1/ws/)", server.address));
    settings.feeds.push(feed);
    Ok(Some(server))
}

/// Maximum number of connected clients. File descriptors for inputs, BMP stations and the archive
/// are reserved first.
fn max_clients(args: &CollectRun) -> Result<usize, Failure> {
    const MAX_CLIENTS: usize = 1024;
    /// For clients that are being rejected, and for reconnecting stations.
    const SPARE: usize = ops::MAX_REFUSED + 1 + 8;
    let limit = archive::max_open_files().map_err(|e| failure(&e))?;
    let folder = std::fs::read_dir("/proc/self/fd");
    let open = folder.map_err(|e| Failure::machine(format!("/proc/self/fd: {e}")))?.count();
    let inputs = args.read.len() + args.interface.len() + args.listen.len();
    let reserve = open + inputs + 2 * args.bmp.len() + archive::OPEN_FILES + SPARE;
    match limit.checked_sub(reserve) {
        Some(clients @ 1..) => Ok(clients.min(MAX_CLIENTS)),
        _ => Err(Failure::machine(format!(
            "--serve needs a limit of more than {reserve} open files; the limit is {limit}"
        ))
        .help("raise it, for example with `ulimit -n 1024`")),
    }
}

fn stations(
    args: &CollectRun,
    settings: &mut Settings,
) -> Result<Option<serve::Stations>, Failure> {
    if args.bmp.is_empty() {
        return Ok(None);
    }
    let (mut feed, watch) = feed::feed_with_removals();
    // Files can wait for slow stations, packets cannot.
    let is_file = |path: &PathBuf| path.is_file();
    let are_files = !args.read.is_empty() && !args.follow && args.read.iter().all(is_file);
    let delivery = if are_files { serve::Delivery::All } else { serve::Delivery::Live };
    if are_files {
        feed = feed.waiting();
    }
    let stations = serve::Stations::start(&args.bmp, &args.name, watch, &settings.board, delivery)
        .map_err(|e| Failure::caused(Exit::Machine, &e))?;
    settings.feeds.push(feed);
    Ok(Some(stations))
}

fn from_network(
    args: &CollectRun,
    mut settings: Settings,
    stop: &AtomicBool,
) -> collector_live::Result<Summary> {
    let tunnels = if args.tunnels { Tunnels::all() } else { Tunnels::none() };
    let wanted = Wanted { ports: args.port.clone(), tunnels, ..Wanted::default() };
    let options = RingOptions {
        fanout: args.fanout,
        hardware_time: args.hardware_time,
        ..RingOptions::default()
    };
    let mut sources = Vec::new();
    let listening = args.listen.iter().map(|address| format!("listening at {address}"));
    settings.pipeline.decapsulate.interfaces =
        args.interface.iter().cloned().chain(listening).collect();
    for name in &args.interface {
        let number = sources.len() as u32;
        sources.push(Source::Interface(Interface::open(name, number, &wanted, &options)?));
    }
    for address in &args.listen {
        sources.push(Source::Tunnel(Tunnel::bind(*address, sources.len() as u32)?));
    }
    job::packets(settings, sources, stop)
}

fn from_files(
    args: &CollectRun,
    settings: Settings,
    stop: &AtomicBool,
) -> Result<Summary, Failure> {
    let mut inputs = Vec::new();
    let mut records = 0;
    for path in &args.read {
        let mut input = Input::open(path, args.follow).map_err(|e| failure(&e))?;
        let format = input.await_format(stop).map_err(|e| failure(&e))?;
        if stop.load(Ordering::SeqCst) {
            break;
        }
        if let Some(cause) = format.refusal() {
            return Err(Failure::usage(format!("{}: {cause}", path.display())));
        }
        records += usize::from(matches!(format, Format::Mrt | Format::Bmp));
        inputs.push(input);
    }
    if args.follow && records > 0 && inputs.len() > 1 {
        return Err(Failure::usage("--follow takes one file of MRT or BMP"));
    }
    if records == inputs.len() {
        return job::records(settings, inputs, stop).map_err(|e| failure(&e));
    }
    if records > 0 {
        return Err(Failure::usage("captures and records cannot be merged by time")
            .help("collect them one after the other into the same --out"));
    }
    // A pipe cannot be reopened after its format has been detected.
    let are_files = args.read.iter().all(|path| path.is_file());
    let captures = if are_files {
        drop(inputs);
        Captures::open(&args.read, args.follow, false).map_err(|e| failure(&e))?
    } else {
        Captures::of(inputs)
    };
    job::packets(settings, vec![Source::Captures(captures)], stop).map_err(|e| failure(&e))
}

/// Prints the result: warnings and summary to stderr, the table to stdout.
fn report(summary: &Summary, args: &CollectRun, terminal: &Terminal) -> Result<(), Failure> {
    let status = &summary.status;
    for trouble in &summary.troubles {
        terminal.error(format!("warning: {trouble}"));
    }
    let more = summary.trouble_count - summary.troubles.len() as u64;
    if more > 0 {
        terminal.error(format!("warning: {more} more warnings of this kind"));
    }
    if status.streams.joined > 0 {
        terminal.note(format!(
            "sessions captured in parts, at several interfaces, files or VLANs, and joined by \
             their sequence numbers: {}",
            status.streams.joined
        ));
    }
    if let Some(text) = unverified(status.frames.unknown_checksums, status.frames.segments) {
        terminal.error(format!("warning: {text}"));
    }
    if summary.implausible_times > 0 {
        terminal.error(format!(
            "warning: packets with an implausible time, which the next packets contradict by more \
             than 1 h (they have the time of the packet before): {}",
            summary.implausible_times
        ));
    }
    for loss in &summary.recovered {
        terminal.error(format!(
            "note: recovered unfinished files of the previous run: {}",
            json!(loss)
        ));
    }
    if terminal.json {
        terminal.object(&result(summary, args))?;
        return Ok(());
    }
    terminal.data(&summary.table)?;
    if let (Some(folder), Some(archive)) = (&args.out, &summary.archive) {
        terminal.note(format!(
            "archived {} records in {} files under {folder}\nto query it: netarium collect show \
             peers {folder}, show updates {folder}, show rib all {folder}",
            archive.records,
            archive.files,
            folder = folder.display(),
        ));
    }
    terminal.note(closing_line(summary, args.out.as_deref()));
    Ok(())
}

fn result(summary: &Summary, args: &CollectRun) -> serde_json::Value {
    let status = &summary.status;
    let (streams, frames) = (&status.streams, &status.frames);
    let archive = summary.archive.as_ref().map(|archive| {
        json!({
            "folder": args.out,
            "records": archive.records,
            "bytes": archive.content,
            "files": archive.files,
            "compressed_bytes": archive.bytes,
            "lost_records": archive.lost,
            "waited_for_compression": archive.waited.as_secs_f64(),
        })
    });
    json!({
        "schema": "netarium.collect/1",
        "frames": frames.frames,
        "segments": frames.segments,
        "bad_checksums": frames.bad_checksums,
        "unverified_checksums": frames.unknown_checksums,
        "kernel_drops": status.kernel_drops,
        "connections": streams.connections,
        "messages": status.messages,
        "late_messages": status.late_messages,
        "implausible_times": summary.implausible_times,
        "stream_bytes": streams.payload_bytes,
        "duplicate_bytes": streams.duplicate_bytes,
        "conflicting_bytes": streams.conflicting_bytes,
        "missing_bytes": streams.missing_bytes,
        "skipped_bytes": streams.skipped_bytes,
        "gaps": summary.gaps,
        "undecodable": summary.undecodable,
        "streams_without_bgp": streams.foreign,
        "joined_mirrors": streams.joined,
        "one_sided": summary.one_sided,
        "complete": summary.missing().is_empty(),
        "missing": summary.missing(),
        "peerings": status.peerings.len(),
        "routes": status.routes.announced,
        "archive": archive,
        "integrity": summary.integrity,
        "troubles": summary.trouble_count,
    })
}

/// States that damage in segments with unverifiable checksums is not detected.
fn unverified(count: u64, segments: u64) -> Option<String> {
    (count > 0).then(|| {
        format!(
            "the TCP checksums of {count} of {segments} segments could not be verified (checksum \
             offload of the sender, truncation, or --no-checksums); damage in them is not detected"
        )
    })
}

/// The last line: what was collected, and whether anything is missing.
fn closing_line(summary: &Summary, archive: Option<&Path>) -> String {
    let status = &summary.status;
    let missing = summary.missing();
    let result = match (missing.is_empty(), archive) {
        (true, _) => "complete: nothing is missing".to_owned(),
        (false, None) => format!("incomplete: {}", missing.join(", ")),
        (false, Some(folder)) => format!(
            "incomplete: {}; see netarium collect show gaps {}",
            missing.join(", "),
            folder.display()
        ),
    };
    format!(
        "{} packets, {} messages of {} BGP sessions; {result}",
        status.frames.frames,
        status.messages,
        status.peerings.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_unverifiable_checksums() {
        assert_eq!(unverified(0, 9), None);
        let text = unverified(7, 9).unwrap();
        assert!(text.starts_with("the TCP checksums of 7 of 9 segments could not be verified"));
    }
}
