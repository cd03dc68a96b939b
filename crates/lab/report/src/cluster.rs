//! Agents and the network between them: lines for the terminal, and tables and plots for the page.

use std::fmt::Write as _;

use base::Histogram;
use run::RunRecord;
use run::record::cluster::{Cluster, Member, Trunk};

use crate::axes::Axis;
use crate::figure::{Figure, Line};
use crate::format;

/// Only the trunks with the longest delays are plotted.
const MAX_CURVES: usize = 8;

/// Numeric columns of the table of agents.
pub(crate) const AGENT_NUMBERS: std::ops::Range<usize> = 2..12;

/// Numeric columns of the table of trunks.
pub(crate) const TRUNK_NUMBERS: std::ops::Range<usize> = 1..10;

/// Lines for the terminal and the page.
pub(crate) fn lines(record: &RunRecord) -> Vec<(&'static str, String)> {
    let Some(cluster) = &record.cluster else { return Vec::new() };
    let mut lines = vec![("cluster", agents(cluster)), ("", trunks(cluster))];
    lines.extend(notices(cluster).map(|text| ("", text)));
    lines.extend(clocks(cluster).map(|text| ("", text)));
    lines
}

fn agents(cluster: &Cluster) -> String {
    let one = |member: &Member| {
        format!("{} ({})", member.name, format::plural(member.hosts.len(), "host"))
    };
    let agents: Vec<String> = cluster.members.iter().map(one).collect();
    format!("{}: {}", format::plural(agents.len(), "agent"), agents.join(", "))
}

fn trunks(cluster: &Cluster) -> String {
    let sum = |pick: fn(&Trunk) -> u64| cluster.trunks.iter().map(pick).sum::<u64>();
    let (datagrams, lost) = (sum(|trunk| trunk.datagrams), sum(|trunk| trunk.lost));
    if datagrams + lost == 0 {
        return "no packets between agents".to_owned();
    }
    let mut text = format!(
        "{} datagrams between agents, {} lost, {} out of order, {} packets late",
        format::count(datagrams),
        format::count(lost),
        format::count(sum(|trunk| trunk.reordered)),
        format::count(sum(|trunk| trunk.late))
    );
    let delays = cluster.trunks.iter().filter_map(|trunk| Some((trunk, trunk.delay?)));
    if let Some((trunk, delay)) = delays.max_by_key(|(_, delay)| delay.p999_ns) {
        let _ = write!(
            text,
            "; slowest {} → {}: {} at p50, {} at p99.9",
            trunk.from,
            trunk.to,
            format::nanos(delay.p50_ns),
            format::nanos(delay.p999_ns)
        );
    }
    text
}

fn notices(cluster: &Cluster) -> Option<String> {
    let delay = cluster.notice_delay?;
    let sum = |pick: fn(&Member) -> u64| cluster.members.iter().map(pick).sum::<u64>();
    Some(format!(
        "notice delay {} at p50, {} at p99, {} at p99.9; {} messages, {}",
        format::nanos(delay.p50_ns),
        format::nanos(delay.p99_ns),
        format::nanos(delay.p999_ns),
        format::count(sum(|member| member.messages_sent)),
        format::bytes(sum(|member| member.message_bytes_sent))
    ))
}

fn clocks(cluster: &Cluster) -> Option<String> {
    let bounds = cluster.members.iter().filter_map(|m| Some((m, m.clock_bound_ns?)));
    let (member, bound) = bounds.max_by_key(|(_, bound)| *bound)?;
    Some(format!("clocks differ by at most {}, on {}", format::nanos(bound), member.name))
}

/// The section of the page: lines, tables, and plots of delays.
pub(crate) fn section(
    record: &RunRecord,
    table: impl Fn((Vec<&'static str>, Vec<Vec<String>>), std::ops::Range<usize>) -> String,
) -> String {
    let Some(cluster) = &record.cluster else { return String::new() };
    let mut out = String::new();
    for (_, line) in lines(record) {
        let _ = write!(out, "<p>{}.</p>", format::escape(&line));
    }
    out.push_str(&table(agent_rows(cluster), AGENT_NUMBERS));
    out.push_str(&table(trunk_rows(cluster), TRUNK_NUMBERS));
    let figures: String =
        [delays(cluster), notice_delays(cluster)].iter().flatten().map(Figure::html).collect();
    if !figures.is_empty() {
        let _ = write!(out, "<div class=\"plots\">{figures}</div>");
    }
    out
}

fn nanos(value: Option<u64>) -> String {
    value.map_or_else(|| "–".to_owned(), format::nanos)
}

/// A time with its sign.
fn signed(value: Option<i64>) -> String {
    let text = |nanos: i64| {
        let sign = if nanos < 0 { "−" } else { "" };
        format!("{sign}{}", format::nanos(nanos.unsigned_abs()))
    };
    value.map_or_else(|| "–".to_owned(), text)
}

fn agent_rows(cluster: &Cluster) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let heads = vec![
        "agent",
        "status",
        "cores",
        "hosts",
        "programs",
        "flows",
        "CPU time",
        "lateness p99.9",
        "notice delay p99",
        "messages sent",
        "clock offset",
        "max clock error",
    ];
    let row = |member: &Member| {
        let mut status = crate::format::status(member.status).to_owned();
        for outage in &member.outages {
            let _ = write!(status, "; lost at {}", format::seconds(outage.at_s));
        }
        vec![
            member.name.clone(),
            status,
            member.machine.cores.to_string(),
            member.hosts.len().to_string(),
            member.programs.len().to_string(),
            member.flows.to_string(),
            format::seconds(member.host.cpu_s),
            nanos(member.lateness.map(|d| d.p999_ns)),
            nanos(member.notice_delay.map(|d| d.p99_ns)),
            format!(
                "{}, {}",
                format::count(member.messages_sent),
                format::bytes(member.message_bytes_sent)
            ),
            signed(member.clock_offset_ns),
            nanos(member.clock_bound_ns),
        ]
    };
    (heads, cluster.members.iter().map(row).collect())
}

fn trunk_rows(cluster: &Cluster) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let heads = vec![
        "trunk",
        "datagrams",
        "lost",
        "out of order",
        "packets",
        "late",
        "delay p50",
        "p99",
        "p99.9",
        "shortest path",
    ];
    let row = |trunk: &Trunk| {
        let delay = trunk.delay;
        vec![
            format!("{} → {}", trunk.from, trunk.to),
            format::count(trunk.datagrams),
            format::count(trunk.lost),
            format::count(trunk.reordered),
            format::count(trunk.packets),
            format::count(trunk.late),
            nanos(delay.map(|d| d.p50_ns)),
            nanos(delay.map(|d| d.p99_ns)),
            nanos(delay.map(|d| d.p999_ns)),
            nanos(trunk.path_delay_ns),
        ]
    };
    (heads, cluster.trunks.iter().map(row).collect())
}

/// The cumulative distribution: (microseconds, percent).
fn curve(histogram: &Histogram) -> Vec<(f64, f64)> {
    let all = histogram.count().max(1) as f64;
    let mut sum = 0;
    let points = histogram.buckets().map(|(low, high, count)| {
        sum += count;
        // The logarithmic axis begins at 0.1 µs.
        let micros = f64::midpoint(low as f64, high as f64).max(100.0) / 1e3;
        (micros, sum as f64 * 100.0 / all)
    });
    let first = (histogram.min().max(100) as f64 / 1e3, 0.0);
    std::iter::once(first).chain(points).collect()
}

fn distribution(title: &str, note: &str, lines: Vec<Line>) -> Option<Figure> {
    if lines.is_empty() {
        return None;
    }
    let y = Axis::linear("cumulative share, %").from(0.0);
    let mut figure = Figure::new(title, Axis::log("time, µs"), y);
    figure.lines = lines;
    note.clone_into(&mut figure.note);
    Some(figure)
}

fn delays(cluster: &Cluster) -> Option<Figure> {
    let mut trunks: Vec<&Trunk> =
        cluster.trunks.iter().filter(|trunk| trunk.delays.count() > 0).collect();
    trunks.sort_by_key(|trunk| std::cmp::Reverse(trunk.delays.percentile(0.999)));
    let line =
        |trunk: &&Trunk| Line::new(format!("{} → {}", trunk.from, trunk.to), curve(&trunk.delays));
    let lines = trunks.iter().take(MAX_CURVES).map(line).collect();
    let note = match trunks.len().saturating_sub(MAX_CURVES) {
        0 => "Of datagrams, by the lab clock".to_owned(),
        more => format!("Of datagrams, by the lab clock; {more} faster trunks are not shown"),
    };
    distribution("Delay between agents", &note, lines)
}

fn notice_delays(cluster: &Cluster) -> Option<Figure> {
    let delays = &cluster.notice_delays;
    let line = (delays.count() > 0).then(|| Line::new("all agents", curve(delays)));
    let note =
        "From the announcement of a flow's start, end or rate until another agent processed it";
    distribution("Delay of notices", note, line.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use run::record::cluster::Outage;

    use super::*;

    fn record() -> RunRecord {
        let mut delays = Histogram::new();
        delays.record_many(80_000, 999);
        delays.record_many(900_000, 1);
        let member = |name: &str, hosts: &[&str]| Member {
            name: name.to_owned(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            clock_bound_ns: Some(30_000),
            ..Member::default()
        };
        let mut second = member("m<2>", &["b", "c"]);
        second.clock_offset_ns = Some(-1_500);
        second.outages.push(Outage { at_s: 3.0, until_s: None });
        let trunk = Trunk {
            from: "m1".to_owned(),
            to: "m<2>".to_owned(),
            datagrams: 1000,
            lost: 2,
            delay: delays.distribution(),
            delays: delays.clone(),
            ..Trunk::default()
        };
        let cluster = Cluster {
            members: vec![member("m1", &["a"]), second],
            trunks: vec![trunk],
            notice_delay: delays.distribution(),
            notice_delays: delays,
            ..Cluster::default()
        };
        RunRecord { cluster: Some(Box::new(cluster)), ..RunRecord::default() }
    }

    #[test]
    fn lines_summarise_agents_and_trunks() {
        assert!(lines(&RunRecord::default()).is_empty());
        let text: String = lines(&record()).into_iter().map(|(_, line)| line + "\n").collect();
        for part in [
            "2 agents: m1 (1 host), m<2> (2 hosts)",
            "1000 datagrams between agents, 2 lost",
            "slowest m1 → m<2>: 80",
            "notice delay 80",
            "clocks differ by at most 30",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn section_has_tables_and_plots() {
        let table = |(heads, rows): (Vec<&'static str>, Vec<Vec<String>>), _| {
            assert!(rows.iter().all(|row| row.len() == heads.len()));
            rows.concat().join("|")
        };
        let html = section(&record(), table);
        for part in ["lost at 3 s", "−1.5 µs", "Delay between agents", "Delay of notices"] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(section(&RunRecord::default(), table).is_empty());
        let mut quiet = record();
        let cluster = quiet.cluster.as_mut().unwrap();
        cluster.trunks.clear();
        cluster.notice_delays = Histogram::new();
        assert!(!section(&quiet, table).contains("class=\"plots\""));
    }
}
