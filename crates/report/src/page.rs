//! The page: one file, no network, no framework.

use std::fmt::Write as _;

use record::run::{Clock, HostLoad, Outcome, RunOutcome, Status};
use record::{RunRecord, run};

use crate::format::{self, escape};
use crate::plot::{self, LINES, Plot};
use crate::series::{Fold, Grid, Samples, Series, largest, link_key, styled, told_apart};
use crate::{Document, bundle, cluster, control, multipath, terminal, topology};

/// What is shown of the resolved lab at most, in bytes.
pub(crate) const LAB_LIMIT: u64 = 1 << 20;
pub(crate) const STYLE: &str =
    concat!(include_str!("page/style.css"), include_str!("page/plot.css"));
/// The part of it that plots need.
pub(crate) const PLOT_STYLE: &str = include_str!("page/plot.css");
pub(crate) const SCRIPT: &str = include_str!("page/script.js");
/// Rows of a table in the page.
const ROWS: usize = 200;

pub(crate) fn render(record: &RunRecord, samples: &Samples, lab: Option<&str>) -> String {
    let mut page = Document::new(&format!("{}: Netarium run {}", record.name, record.id));
    let mut head = String::new();
    header(&mut head, record);
    page.push(&head);
    page.section("Expectations", &expectations(record));
    page.section("Network", &topology::render(record));
    let control = control::figures(samples.control.as_ref(), samples.sessions.as_ref());
    let mut words = String::new();
    for (_, line) in control::lines(record) {
        let _ = write!(words, "<p>{}.</p>", escape(&line));
    }
    page.section("Rate control", &(words + &control));
    page.section("Bundles", &bundles(record, samples));
    page.section("Paths", &paths(record, samples));
    page.section("Over time", &plots(record, samples));
    let flows = table(terminal::flow_rows(record), terminal::FLOW_NUMBERS);
    page.section("Flows", &flows);
    page.section("Transfers", &transfers(record, samples));
    page.section("Programs", &programs(record));
    page.section("Links", &table(terminal::link_rows(record), 2..8));
    page.section("Machines", &cluster::section(record, table));
    page.section("Events", &events(record));
    page.section("How it was run", &provenance(record));
    if let Some(lab) = lab {
        let lab = format!(
            "<details><summary>The lab as it ran, every default written out</summary>\
             <pre>{}</pre></details>",
            escape(lab)
        );
        page.section("Lab", &lab);
    }
    page.finish(&record.version)
}

fn header(out: &mut String, record: &RunRecord) {
    let mut sweep = String::new();
    for value in &record.sweep {
        let _ = write!(sweep, " · {} = {}", escape(&value.parameter), escape(&value.value));
    }
    let _ = write!(
        out,
        "<header><p class=\"kicker\">Netarium run {}{}</p><h1>{}</h1><p>{}{sweep}</p></header>",
        escape(&record.id),
        if record.clock == Clock::Virtual { " · virtual clock" } else { "" },
        escape(&record.name),
        format::utc(record.started_unix_ms)
    );
    outcome(out, record);
    let tile = |out: &mut String, name: &str, value: &str, note: &str| {
        let (value, note) = (escape(value), escape(note));
        let _ = write!(out, "<div><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>");
    };
    out.push_str("<dl class=\"tiles\">");
    let planned = format!("of {} planned", format::seconds(record.planned_s));
    tile(out, "duration", &format::seconds(record.elapsed_s), &planned);
    let size = format!("{} links", format::count(record.topology.links.len() as u64));
    let nodes = format!("{} nodes", format::count(record.topology.nodes.len() as u64));
    tile(out, "network", &nodes, &size);
    if !record.flows.is_empty() {
        let sum = record.flows.iter().map(|f| f.received_bytes).sum();
        let flows = format!("by {} flows", record.flows.len());
        tile(out, "payload received", &format::bytes(sum), &flows);
    }
    let sent = record.links.iter().map(|l| l.sent_packets).sum::<u64>();
    let dropped = record.links.iter().map(run::LinkSummary::dropped).sum::<u64>();
    let share = dropped as f64 / (sent + dropped).max(1) as f64;
    let note = format!("{} of packets on links", format::share(share));
    tile(out, "dropped", &format::count(dropped), &note);
    if let Some(d) = record.lateness.distribution {
        let note = format!("p99.9; median {}", format::nanos(d.p50_ns));
        tile(out, "lateness", &format::nanos(d.p999_ns), &note);
    }
    if let Some(took) = &record.simulation {
        let note = format!("real time; {} events/s", format::large(took.events_per_s));
        tile(out, "speed", &format::times(took.speed_factor), &note);
    }
    let _ = write!(out, "</dl>");
}

/// The outcome with its reasons, and below whether the machine distorted the numbers.
fn outcome(out: &mut String, record: &RunRecord) {
    let conclusion = record.conclusion();
    let (class, mark, word) = match conclusion.as_ref().map(|conclusion| conclusion.outcome) {
        Some(RunOutcome::Passed) => ("good", "✓", "Passed"),
        Some(RunOutcome::Untrusted) => ("bad", "!", "Not trusted"),
        Some(RunOutcome::Failed) => ("bad", "✗", "Failed"),
        None => ("open", "?", "Running"),
    };
    let _ = write!(
        out,
        "<div class=\"verdict {class}\"><span class=\"mark\" aria-hidden=\"true\">{mark}</span>\
         <div><strong>{word}</strong>"
    );
    if record.status != Status::Finished {
        let _ = write!(out, " <span>Status: {}.</span>", terminal::status(record.status));
    }
    let mut reasons = conclusion.map(|conclusion| conclusion.reasons).unwrap_or_default();
    if let Some(verdict) = record.verdict.as_ref().filter(|verdict| verdict.trusted) {
        reasons.push(format!("numbers trusted: {}", verdict.reasons.join("; ")));
    }
    let warnings = record.warnings.iter().filter(|warning| !reasons.contains(warning));
    out.push_str("<ul>");
    for reason in reasons.iter().chain(warnings) {
        let _ = write!(out, "<li>{}</li>", escape(reason));
    }
    out.push_str("</ul></div></div>");
}

fn expectations(record: &RunRecord) -> String {
    let rows = record.expectations.iter().map(|e| {
        let (class, word) = match e.outcome {
            Outcome::Passed => ("good", "✓ held"),
            Outcome::Failed => ("bad", "✗ failed"),
            Outcome::Unmeasured => ("bad", "✗ not measured"),
        };
        format!(
            "<tr><td class=\"{class}\">{word}</td><td><code>{}</code></td><td>{}</td></tr>",
            escape(&e.text),
            escape(e.measured.as_deref().unwrap_or("–"))
        )
    });
    let rows: String = rows.collect();
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>outcome</th><th>expected</th>\
         <th>measured</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

/// What bundles did, in words, plots and changes of state.
fn bundles(record: &RunRecord, samples: &Samples) -> String {
    let mut out = String::new();
    for (_, line) in bundle::lines(record) {
        let _ = write!(out, "<p>{}.</p>", escape(&line));
    }
    out.push_str(&table(bundle::changes(record), 0..1));
    out + &bundle::figures(record, samples.bundles.as_ref())
}

/// What flows over several paths did, in words, a table and plots.
fn paths(record: &RunRecord, samples: &Samples) -> String {
    let mut out = String::new();
    for (_, line) in multipath::lines(record) {
        let _ = write!(out, "<p>{}.</p>", escape(&line));
    }
    out.push_str(&table(multipath::path_rows(record), 2..7));
    out + &multipath::figures(record, samples.flows.as_ref(), samples.subflows.as_ref())
}

/// A note on how the values came about, and on what is not shown.
fn note(text: &str, grid: Grid, left_out: usize) -> String {
    let step = format::seconds(grid.step_s);
    let rest = match left_out {
        0 => String::new(),
        n => format!(" The {LINES} largest; {n} more are in the table."),
    };
    format!("{text}, each point over {step}.{rest}")
}

/// Names of the links' directions, the one that carried most first.
fn busiest_links(record: &RunRecord) -> Vec<String> {
    let mut links: Vec<_> = record.links.iter().collect();
    links.sort_by_key(|link| std::cmp::Reverse(link.sent_bytes));
    links.into_iter().map(|link| link_key(&link.name, &link.direction)).collect()
}

/// Calls the directions of links by their ends, and by the link's name where that says more.
fn named(mut series: Vec<Series>, record: &RunRecord) -> Vec<Series> {
    for link in &record.links {
        let key = link_key(&link.name, &link.direction);
        let Some(line) = series.iter_mut().find(|s| s.name == key) else { continue };
        let (from, to) = (&link.from, &link.to);
        let plain = [format!("{from}-{to}"), format!("{to}-{from}")].contains(&link.name);
        let ends = format!("{from} → {to}");
        line.name = if plain { ends } else { format!("{}: {ends}", link.name) };
    }
    series
}

fn plots(record: &RunRecord, samples: &Samples) -> String {
    let grid = Grid::of(record);
    let mut out = String::from("<div class=\"plots\">");
    let mut add = |title: &str, text: &str, steps: &[format::Step], series: Vec<Series>| {
        let (mut series, left_out) = largest(series, LINES);
        told_apart(&mut series, LINES);
        let note = note(text, grid, left_out);
        let plot = Plot { title, note, steps, grid, series, events: &record.events };
        out.push_str(&plot.render());
    };
    let flow_order: Vec<String> = record.flows.iter().map(|f| f.name.clone()).collect();
    let flow = |column: &str, fold, scale| {
        let series = samples.flow(column).map(|c| c.series(grid, fold, scale));
        styled(series.unwrap_or_default(), &flow_order)
    };
    let link_order = busiest_links(record);
    let link = |column: &str, fold, scale| {
        let series = samples.link(column).map(|c| c.series(grid, fold, scale));
        named(styled(series.unwrap_or_default(), &link_order), record)
    };
    let busy = |series: Vec<Series>| -> Vec<Series> {
        let busy = |s: &Series| s.values.iter().flatten().any(|v| *v > 0.0);
        series.into_iter().filter(busy).collect()
    };
    let received = flow("received_bytes", Fold::PerSecond, 8.0);
    add("Goodput of flows", "Payload that the receiver got", format::RATE, received);
    let shares = samples.shares().map(|c| c.series(grid, Fold::Mean, 1.0)).unwrap_or_default();
    let text = "What each flow between two nodes may send on the wire, by the collapsed model";
    add("Shares", text, format::RATE, shares);
    let sent = busy(link("sent_bytes", Fold::PerSecond, 8.0));
    add("Throughput of links", "Wire bytes, overhead included", format::RATE, sent);
    let rtt = flow("rtt_ns", Fold::Mean, 1e-9);
    add("Round-trip time", "As the sender's TCP smooths it", format::TIME, rtt);
    let delay = flow("delay_p50_ns", Fold::Mean, 1e-9);
    add("One-way delay", "Median of the datagrams that arrived", format::TIME, delay);
    let latency = flow("latency_p50_ns", Fold::Mean, 1e-9);
    let (title, text) = latency_title(record);
    add(title, text, format::TIME, latency);
    let queue = busy(link("queue_max_bytes", Fold::Max, 1.0));
    add("Queues", "Most wire bytes that waited in front of a link", format::DATA, queue);
    let wait = busy(link("queue_delay_max_ns", Fold::Max, 1e-9));
    add("Waiting time", "Longest time that a packet spent in a queue", format::TIME, wait);
    let window = flow("cwnd_bytes", Fold::Mean, 1.0);
    add("Congestion window", "Sum over a flow's connections", format::DATA, window);
    let reasons = record::DropReason::ALL.map(|reason| reason.as_str().to_owned());
    let drops = styled(samples.drops(grid), &reasons);
    add("Drops by cause", "Packets that the network dropped", &[(1.0, "packets/s")], drops);
    let lost = busy(flow("lost", Fold::PerSecond, 1.0));
    add("Loss of flows", "Datagrams that never arrived", &[(1.0, "datagrams/s")], lost);
    let again = busy(flow("retransmits", Fold::PerSecond, 1.0));
    add("Retransmissions", "TCP segments sent again", &[(1.0, "segments/s")], again);
    out.push_str(&plot::lateness(&record.lateness));
    if out.ends_with("\"plots\">") { String::new() } else { out + "</div>" }
}

/// What the latency of a run's flows is.
fn latency_title(record: &RunRecord) -> (&'static str, &'static str) {
    let transfers = record.flows.iter().any(|flow| flow.completion.is_some());
    let requests = record.flows.iter().any(|flow| flow.latency.is_some());
    match (transfers, requests) {
        (true, false) => ("Completion time", "Median of transfers that completed"),
        (true, true) => (
            "Request latency, completion time",
            "Median from request to response, and of transfers that completed",
        ),
        _ => ("Request latency", "Median from request to response"),
    }
}

fn table(
    (heads, rows): (Vec<&'static str>, Vec<Vec<String>>),
    numbers: std::ops::Range<usize>,
) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let shown = &rows[..rows.len().min(ROWS)];
    let mut out = Document::table(&heads, shown, numbers);
    if rows.len() > ROWS {
        let _ = write!(out, "<p>{} more are in run.json.</p>", rows.len() - ROWS);
    }
    out
}

fn transfers(record: &RunRecord, samples: &Samples) -> String {
    let out = table(terminal::transfer_rows(record), 1..9);
    let flows: Vec<String> = record.flows.iter().map(|flow| flow.name.clone()).collect();
    let transfers = samples.transfers();
    let plots = plot::completion(&transfers, &flows) + &plot::slowdown(&transfers);
    if plots.is_empty() { out } else { format!("{out}<div class=\"plots\">{plots}</div>") }
}

fn programs(record: &RunRecord) -> String {
    let mut out = table(terminal::program_rows(record), 3..5);
    for program in record.programs.iter().filter(|p| !p.last_stderr.is_empty()) {
        let _ = write!(
            out,
            "<details{}><summary>Last lines of {} on standard error</summary>\
             <pre>{}</pre></details>",
            if program.as_expected { "" } else { " open" },
            escape(&program.name),
            escape(&program.last_stderr.join("\n"))
        );
    }
    out
}

fn events(record: &RunRecord) -> String {
    let rows = record.events.iter().map(|e| vec![format::seconds(e.at_s), e.text.clone()]);
    table((vec!["time", "event"], rows.collect()), 0..1)
}

fn provenance(record: &RunRecord) -> String {
    let mut rows: Vec<(&str, String)> = vec![
        ("seed", record.seed.to_string()),
        ("plan hash", record.plan_hash.clone()),
        ("engine", format!("{}: {}", record.engine.name, record.engine.why)),
    ];
    for engine in &record.engine.rejected {
        rows.push(("not possible", format!("{}: {}", engine.name, engine.reason)));
    }
    let machine = &record.machine;
    rows.push(("machine", format!("{}, {} cores", machine.cpu, machine.cores)));
    rows.push(("machine's memory", format::bytes(machine.memory_bytes)));
    rows.push(match (record.clock, machine.realtime) {
        (Clock::Virtual, _) => ("kernel", machine.kernel.clone()),
        (Clock::Wall, true) => ("kernel", format!("{}, real-time scheduling", machine.kernel)),
        (Clock::Wall, false) => ("kernel", format!("{}, ordinary scheduling", machine.kernel)),
    });
    rows.extend(terminal::simulation(record).into_iter().filter(|(name, _)| *name != "seed"));
    if record.clock == Clock::Wall {
        host_rows(&mut rows, record);
    }
    if let Some(code) = record.exit_code {
        rows.push(("exit code", code.to_string()));
    }
    facts(record, &rows)
}

/// What the machine did to a run on the wall clock.
fn host_rows(rows: &mut Vec<(&str, String)>, record: &RunRecord) {
    let host = &record.host;
    rows.push(("processor time used", format::seconds(host.cpu_s)));
    rows.push(("stolen by the hypervisor", format::seconds(host.steal_s)));
    if let Some(load) = &record.load {
        load_rows(rows, load);
    }
    rows.push((
        "dropped by the machine",
        format!("{} packets", format::count(host.dropped_packets)),
    ));
    rows.push((
        "missing from records",
        format!(
            "{} captured packets, {} samples",
            format::count(host.capture_drops),
            format::count(host.records_lost)
        ),
    ));
}

/// How busy the machine was, and with what.
fn load_rows(rows: &mut Vec<(&str, String)>, load: &HostLoad) {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let seconds = |time: Option<f64>| time.map(format::seconds).unwrap_or_default();
    let (busy, busiest) = (percent(load.busy), percent(load.busiest));
    rows.push(("machine busy", format!("{busy}, {busiest} in the busiest second")));
    rows.push(("other labs at once", load.other_labs.to_string()));
    rows.push(("used by flows and records", format::seconds(load.flows_cpu_s)));
    rows.push(("used by programs", seconds(load.programs_cpu_s)));
    rows.push(("waited for a processor", seconds(load.cpu_wait_s)));
    if load.suspended_s > 0.0 {
        rows.push(("without real-time priority", format::seconds(load.suspended_s)));
    }
    rows.push(("programs waited for memory", seconds(load.memory_stall_s)));
}

fn facts(record: &RunRecord, rows: &[(&str, String)]) -> String {
    let mut out = String::from("<dl class=\"facts\">");
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(value));
    }
    let _ = write!(
        out,
        "</dl><p>Run it again:</p><pre class=\"repeat\">{}</pre>",
        escape(&record.repeat)
    );
    out
}
