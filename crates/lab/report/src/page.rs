//! The HTML page: one self-contained file.

mod head;

use std::fmt::Write as _;

use run::RunRecord;
use run::record::{Clock, HostLoad, Outcome};

use crate::figure::LINES;
use crate::format::{self, escape};
use crate::plot::{self, Plot};
use crate::series::{
    Fold, Grid, Samples, Series, assign_distinct_styles, largest, link_key, styled,
};
use crate::{Document, bundle, cluster, control, multipath, terminal, topology};

/// The resolved lab is truncated to this size.
pub(crate) const MAX_LAB_BYTES: u64 = 1 << 20;
/// Maximum number of rows of a table in the page.
const MAX_ROWS: usize = 200;

pub(crate) fn render(record: &RunRecord, samples: &Samples, lab: Option<&str>) -> String {
    let word = terminal::outcome_word(record);
    let title = format!("{} {word}: Netarium run {}", record.name, record.id);
    let mut page = Document::new(&title);
    page.push(&head::render(record));
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
    page.section("Links", &table(terminal::link_rows(record), terminal::LINK_NUMBERS));
    page.section("Machines", &cluster::section(record, table));
    page.section("Events", &events(record));
    page.section("Run details", &provenance(record));
    if let Some(lab) = lab {
        let lab = format!(
            "<details><summary>The resolved lab, with all defaults</summary>\
             <pre>{}</pre></details>",
            escape(lab)
        );
        page.section("Lab", &lab);
    }
    page.finish(&record.version)
}

fn expectations(record: &RunRecord) -> String {
    let mut expectations: Vec<_> = record.expectations.iter().collect();
    expectations.sort_by_key(|e| e.outcome == Outcome::Passed);
    let rows = expectations.into_iter().map(|e| {
        let (class, word) = match e.outcome {
            Outcome::Passed => ("good", "✓ passed"),
            Outcome::Failed => ("bad", "✗ failed"),
            Outcome::Unmeasured => ("bad", "✗ not measured"),
            Outcome::Undecided => ("warn", "! undecided"),
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

/// The section about bundles: lines, state changes and plots.
fn bundles(record: &RunRecord, samples: &Samples) -> String {
    let mut out = String::new();
    for (_, line) in bundle::lines(record) {
        let _ = write!(out, "<p>{}.</p>", escape(&line));
    }
    out.push_str(&table(bundle::changes(record), 0..1));
    out + &bundle::figures(record, samples.bundles.as_ref())
}

/// The section about multipath flows: lines, a table and plots.
fn paths(record: &RunRecord, samples: &Samples) -> String {
    let mut out = String::new();
    for (_, line) in multipath::lines(record) {
        let _ = write!(out, "<p>{}.</p>", escape(&line));
    }
    out.push_str(&table(multipath::path_rows(record), 2..7));
    out + &multipath::figures(record, samples.flows.as_ref(), samples.subflows.as_ref())
}

/// The note of a plot: description, time step and number of omitted series.
fn note(text: &str, grid: Grid, omitted: usize) -> String {
    let step = format::seconds(grid.step_s);
    let rest = match omitted {
        0 => String::new(),
        n => format!(" The {LINES} largest; {n} more are in the table."),
    };
    format!("{text}; each point covers {step}.{rest}")
}

/// Names of link directions, sorted by sent bytes, largest first.
fn busiest_links(record: &RunRecord) -> Vec<String> {
    let mut links: Vec<_> = record.links.iter().collect();
    links.sort_by_key(|link| std::cmp::Reverse(link.sent_bytes));
    links.into_iter().map(|link| link_key(&link.name, &link.direction)).collect()
}

/// Names link directions by their ends, with the link's name if that is not made of its ends.
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
        let (mut series, omitted) = largest(series, LINES);
        assign_distinct_styles(&mut series, LINES);
        let note = note(text, grid, omitted);
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
    add("Goodput of flows", "Payload received", format::RATE, received);
    let shares = samples.shares().map(|c| c.series(grid, Fold::Mean, 1.0)).unwrap_or_default();
    let text = "Maximum wire rate of the flows between two nodes, by the collapsed model";
    add("Shares", text, format::RATE, shares);
    let sent = busy(link("sent_bytes", Fold::PerSecond, 8.0));
    add("Throughput of links", "Wire bytes, overhead included", format::RATE, sent);
    let rtt = flow("rtt_ns", Fold::Mean, 1e-9);
    add("Round-trip time", "Smoothed RTT of the sender's TCP", format::TIME, rtt);
    let delay = flow("delay_p50_ns", Fold::Mean, 1e-9);
    add("One-way delay", "Median of received datagrams", format::TIME, delay);
    let latency = flow("latency_p50_ns", Fold::Mean, 1e-9);
    let (title, text) = latency_title(record);
    add(title, text, format::TIME, latency);
    let queue = busy(link("queue_max_bytes", Fold::Max, 1.0));
    add("Queues", "Maximum queue length of a link, in wire bytes", format::DATA, queue);
    let wait = busy(link("queue_delay_max_ns", Fold::Max, 1e-9));
    add("Queueing delay", "Maximum queueing delay of a packet", format::TIME, wait);
    let window = flow("cwnd_bytes", Fold::Mean, 1.0);
    add("Congestion window", "Sum over a flow's connections", format::DATA, window);
    let reasons = run::DropReason::ALL.map(|reason| reason.as_str().to_owned());
    let drops = styled(samples.drops(grid), &reasons);
    add("Drops by cause", "Packets that the network dropped", &[(1.0, "packets/s")], drops);
    let lost = busy(flow("lost", Fold::PerSecond, 1.0));
    add("Loss of flows", "Datagrams that never arrived", &[(1.0, "datagrams/s")], lost);
    let again = busy(flow("retransmits", Fold::PerSecond, 1.0));
    add("Retransmissions", "Retransmitted TCP segments", &[(1.0, "segments/s")], again);
    out.push_str(&plot::lateness(&record.lateness));
    if out.ends_with("\"plots\">") { String::new() } else { out + "</div>" }
}

/// Title and note of the latency plot.
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
    let shown = &rows[..rows.len().min(MAX_ROWS)];
    let mut out = Document::table(&heads, shown, numbers);
    if rows.len() > MAX_ROWS {
        let _ = write!(out, "<p>{} more rows are in run.json.</p>", rows.len() - MAX_ROWS);
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
    let mut out = table(terminal::program_rows(record), terminal::PROGRAM_NUMBERS);
    // Those of failed programs are at the start of the page.
    let others = record.programs.iter().filter(|p| p.as_expected && !p.last_stderr.is_empty());
    for program in others {
        let _ = write!(
            out,
            "<details><summary>Last lines of standard error of {}</summary>\
             <pre>{}</pre></details>",
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
        rows.push(("rejected engine", format!("{}: {}", engine.name, engine.reason)));
    }
    if let Some(verdict) = &record.verdict {
        let word = if verdict.trusted { "trusted" } else { "untrusted" };
        rows.push(("trust", format!("{word}: {}", verdict.reasons.join("; "))));
    }
    let machine = &record.machine;
    rows.push((
        "machine",
        format!("{}, {}", machine.cpu, format::plural(machine.cores as usize, "core")),
    ));
    rows.push(("memory", format::bytes(machine.memory_bytes)));
    rows.push(match (record.clock, machine.realtime) {
        (Clock::Virtual, _) => ("kernel", machine.kernel.clone()),
        (Clock::Wall, true) => ("kernel", format!("{}, real-time scheduling", machine.kernel)),
        (Clock::Wall, false) => ("kernel", format!("{}, normal scheduling", machine.kernel)),
    });
    rows.extend(terminal::simulation(record).into_iter().filter(|(name, _)| *name != "seed"));
    if record.clock == Clock::Wall {
        host_rows(&mut rows, record);
    }
    if let Some(code) = record.exit_code {
        rows.push(("exit code", code.code().to_string()));
    }
    facts(record, &rows)
}

/// Rows about the host, for a run on the wall clock.
fn host_rows(rows: &mut Vec<(&str, String)>, record: &RunRecord) {
    let host = &record.host;
    rows.push(("CPU time of the emulation", format::seconds(host.cpu_s)));
    rows.push(("CPU steal", format::seconds(host.steal_s)));
    if let Some(load) = &record.load {
        load_rows(rows, load);
    }
    rows.push((
        "dropped by the machine",
        format!("{} packets", format::count(host.dropped_packets)),
    ));
    rows.push((
        "missing records",
        format!(
            "{} captured packets, {} samples",
            format::count(host.capture_drops),
            format::count(host.records_lost)
        ),
    ));
}

/// Rows about the CPU load.
fn load_rows(rows: &mut Vec<(&str, String)>, load: &HostLoad) {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let seconds = |time: Option<f64>| time.map(format::seconds).unwrap_or_default();
    let (busy, busiest) = (percent(load.busy), percent(load.busiest));
    rows.push(("CPU utilisation", format!("{busy}, {busiest} in the busiest second")));
    rows.push(("other labs in parallel", load.other_labs.to_string()));
    rows.push(("CPU time of flows and recording", format::seconds(load.flows_cpu_s)));
    rows.push(("CPU time of programs", seconds(load.programs_cpu_s)));
    rows.push(("wait for a CPU", seconds(load.cpu_wait_s)));
    if load.suspended_s > 0.0 {
        rows.push(("without real-time priority", format::seconds(load.suspended_s)));
    }
    rows.push(("wait for memory", seconds(load.memory_stall_s)));
}

fn facts(record: &RunRecord, rows: &[(&str, String)]) -> String {
    let mut out = String::from("<dl class=\"facts\">");
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(value));
    }
    let _ = write!(
        out,
        "</dl><p>To repeat the run:</p><pre class=\"repeat\">{}</pre>",
        escape(&record.repeat)
    );
    out
}
