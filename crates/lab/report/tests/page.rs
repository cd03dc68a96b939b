//! Tests of reports of a synthetic run. `REPORT_FIXTURE=<folder>` keeps the rendered pages.
#![allow(clippy::unwrap_used)]

mod fixture;
mod summary;

use std::fs;
use std::path::PathBuf;

use base::{Bytes, FlowId, Span, Time};
use report::Layout;
use report::diff::{Choice, Side, compare};
use report::summary::Summary;
use run::record::{
    Clock, HostFaults, Lateness, LinkSummary, NodeRole, SCHEMA, Simulation, Slowdown, Topology,
    TopologyLink, TopologyNode, Verdict,
};
use run::{Recorder, RecorderOptions, RunFolder, RunRecord, Transfer};

/// The folder for pages, and the guard that removes it unless `REPORT_FIXTURE` is set.
fn page_folder() -> (PathBuf, Option<tempfile::TempDir>) {
    if let Some(path) = std::env::var_os("REPORT_FIXTURE") {
        return (path.into(), None);
    }
    let temporary = tempfile::tempdir().expect("a temporary folder");
    (temporary.path().to_owned(), Some(temporary))
}

#[test]
fn page_has_all_sections_and_loads_nothing() {
    let (parent, _guard) = page_folder();
    for trusted in [true, false] {
        let folder = fixture::make(&parent, trusted);
        let page = fs::read_to_string(report::write_html(&folder).unwrap()).unwrap();
        // An expectation and a program failed, which comes before trust.
        assert!(!page.contains("class=\"verdict good\""), "a failed run has a green banner");
        assert_eq!(page.contains("<li>untrusted: p99.9 lateness is above"), !trusted);
        let expected = [
            "class=\"verdict bad\"><span class=\"mark\" aria-hidden=\"true\">✗</span>\
             <div><h1><strong>Failed</strong> dumbbell</h1>",
            "<li>expected flow.carol-dave",
            "Goodput of flows",
            "Throughput of links",
            "Round-trip time",
            "One-way delay",
            "Request latency",
            "Queues",
            "Drops by cause",
            "Retransmissions",
            "Lateness",
            "returned error: 404",
            "netarium run dumbbell.toml --seed 42",
            "with all defaults",
            "✗ failed",
            "time in s",
            ">Mbit/s</text>",
        ];
        for text in expected {
            assert!(page.contains(text), "the page lacks {text:?}");
        }
        for loader in ["src=", "href=", "@import", "url(", "fetch("] {
            assert!(!page.contains(loader), "the page loads something: {loader}");
        }
        assert!(page.len() < 600_000, "{} B", page.len());
    }
}

fn elements<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let (start, end) = (format!("<{name}"), format!("</{name}>"));
    let parts = page.split(&start).skip(1).filter_map(|part| part.split(&end).next());
    parts.collect()
}

#[test]
fn page_of_crashed_program_begins_with_its_failure() {
    let (parent, _guard) = page_folder();
    let page = fs::read_to_string(report::write_html(&fixture::make(&parent, true)).unwrap());
    let page = page.unwrap();
    let body = page.split("<main>").nth(1).unwrap();
    let order = [
        "<strong>Failed</strong> dumbbell",
        "program carol.curl on carol exited with status 22",
        "<div class=\"failure\"><p><strong>carol.curl</strong> on carol: exit 22 at 20.4 s</p>",
        "$ curl -sf http://dave/\ncurl: (22) The requested URL returned error: 404</pre>",
        "<dt>goodput</dt>",
        "<dt>RTT</dt>",
        "<dt>dropped on links</dt>",
        "class=\"topology\"",
    ];
    let places = order.map(|text| body.find(text).unwrap_or_else(|| panic!("no {text:?}: {body}")));
    assert!(places.is_sorted(), "{places:?}");
    assert!(body.find("<strong>Failed").unwrap() < 200, "{body}");
    for name in ["h1", "h2", "h3", "strong", "title"] {
        for text in elements(&page, name) {
            let text = text.to_lowercase();
            assert!(!text.contains("trusted") && !text.contains("passed"), "{name}: {text}");
        }
    }
    assert_eq!(page.matches("error: 404").count(), 1, "standard error is shown once");
}

/// The fixture as a simulated run, with a flow of transfers.
fn simulated(parent: &std::path::Path) -> RunFolder {
    let wall = fixture::make(parent, true).read_record().expect("the fixture can be written");
    let folder = RunFolder::create(parent, "virtual").expect("the fixture can be written");
    let options = RecorderOptions { flows: vec!["web".to_owned()], ..RecorderOptions::default() };
    let recorder = Recorder::start(&folder, &options).expect("the fixture can be written");
    for n in 1..=500u64 {
        let size = Bytes::new(1000 + n * n * 40);
        let ideal = Span::from_micros(20_000 + size.count() / 10);
        let completion = Span::from_nanos(ideal.as_nanos() * (20 + n * 7 % 31) / 20);
        recorder.handle().transfer(Transfer {
            flow: FlowId(0),
            start: Time::ZERO + Span::from_millis(n),
            size,
            completion: Some(completion),
            ideal: Some(ideal),
            retransmits: Some(n % 3),
        });
    }
    assert!(recorder.finish().error.is_none());
    let mut web = wall.flows[0].clone();
    web.name = "web".into();
    web.kind = "transfers, TCP cubic".into();
    (web.transfers_started, web.transfers_completed) = (Some(502), Some(500));
    web.completion = web.rtt;
    web.slowdown = Some(Slowdown { mean: 1.75, p50: 1.7, p99: 2.5, ..Slowdown::default() });
    let record = RunRecord {
        clock: Clock::Virtual,
        simulation: Some(Simulation {
            model: "hop".to_owned(),
            events: 3_000_000,
            packet_hops: 2_000_000,
            wall_s: 0.5,
            events_per_s: 6e6,
            speed_factor: 60.0,
            peak_memory_bytes: Some(12_000_000),
        }),
        trace_hash: Some("00c0ffee00c0ffee".to_owned()),
        flows: vec![wall.flows[0].clone(), web],
        lateness: Lateness::default(),
        host: HostFaults::default(),
        programs: Vec::new(),
        verdict: Some(Verdict {
            trusted: true,
            machine_fit: true,
            reasons: vec!["by construction".to_owned()],
        }),
        ..wall
    };
    folder.write_record(&record).expect("the fixture can be written");
    folder
}

#[test]
fn page_of_virtual_run_has_speed_and_transfers_but_no_lateness() {
    let (parent, _guard) = page_folder();
    let folder = simulated(&parent);
    let page = fs::read_to_string(report::write_html(&folder).unwrap()).unwrap();
    let expected = [
        "virtual clock",
        "6 M events/s",
        "00c0ffee00c0ffee",
        "Completion of transfers",
        "Slowdown by size",
        "500 of 502",
    ];
    for text in expected {
        assert!(page.contains(text), "the page lacks {text:?}");
    }
    for text in ["ateness", "hypervisor", "scheduling"] {
        assert!(!page.contains(text), "the page contains {text:?}");
    }
    let table = report::table(&folder.read_record().unwrap(), &Layout::default());
    for line in ["60 x real time", "6 M per second", "trace    00c0ffee", "seed     42"] {
        assert!(table.contains(line), "the table lacks {line:?}:\n{table}");
    }
    assert!(!table.contains("lateness"), "{table}");
}

#[test]
fn diff_of_both_clocks_has_their_names() {
    let (parent, _guard) = page_folder();
    let wall = side(fixture::make(&parent, true).read_record().unwrap());
    let simulated = side(simulated(&parent).read_record().unwrap());
    let diff = compare(&wall, &simulated, &Choice::default()).unwrap();
    let text = diff.text(true);
    let heads = text.lines().next().unwrap();
    assert!(heads.contains("wall clock  virtual clock"), "{text}");
    assert!(!text.contains("lateness"), "{text}");
    assert!(diff.changes.iter().any(|c| c.metric == "link.core.up.queue.max"), "{text}");
    assert!(diff.only_second.iter().any(|m| m == "flow.web.slowdown.p99"), "{text}");
}

#[test]
fn unfinished_run_has_a_page() {
    let (parent, _guard) = page_folder();
    let mut folder = RunFolder::create(&parent, "cut<short>").unwrap();
    let schema = SCHEMA.to_owned();
    let name = "cut<short>".to_owned();
    let record = RunRecord { schema, name, ..RunRecord::default() };
    folder.write_beginning("", &record).unwrap();
    let page = fs::read_to_string(report::write_html(&folder).unwrap()).unwrap();
    assert!(page.contains("<strong>Running") && page.contains("cut&lt;short&gt;"));
    assert!(!page.contains("cut<short>"));
    let path = folder.path().to_owned();
    drop(folder);
    let page = report::write_html(&RunFolder::open(&path).unwrap()).unwrap();
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<strong>Failed") && page.contains("Status: killed"));
}

#[test]
fn page_of_large_network_has_bounded_size() {
    let (parent, _guard) = page_folder();
    let folder = RunFolder::create(&parent, "large").unwrap();
    let mut topology = Topology::default();
    let mut links = Vec::new();
    for index in 0..1100u32 {
        let angle = f64::from(index) * 2.399_963;
        let radius = f64::from(index).sqrt() / 70.0;
        let (x, y) = (0.5 + radius * angle.cos(), 0.5 + radius * angle.sin());
        let name = format!("r{index}");
        let role = if index % 3 == 0 { NodeRole::Router } else { NodeRole::Host };
        topology.nodes.push(TopologyNode { name, role, x, y, addresses: vec![] });
        let (name, other) = (format!("l{index}"), index / 3);
        topology.links.push(TopologyLink {
            name: name.clone(),
            ends: [format!("r{other}"), format!("r{index}")],
            text: [String::new(), String::new()],
            rate_bit_per_s: [Some(100_000_000); 2],
            delay_ns: [1_000_000; 2],
        });
        let utilisation = Some(f64::from(index % 100) / 100.0);
        let direction = "up".to_owned();
        links.push(LinkSummary {
            name,
            direction,
            utilisation,
            sent_packets: 1,
            ..Default::default()
        });
    }
    let record = RunRecord {
        schema: SCHEMA.to_owned(),
        name: "large".to_owned(),
        topology,
        links,
        ..Default::default()
    };
    folder.write_record(&record).unwrap();
    let page = fs::read(report::write_html(&folder).unwrap()).unwrap();
    assert!(page.len() < 2_500_000, "{} B", page.len());
}

#[test]
fn terminal_text_begins_with_failures_and_has_aligned_tables() {
    let (parent, _guard) = page_folder();
    let record = fixture::make(&parent, true).read_record().unwrap();
    let text = report::table(&record, &Layout::default());
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("outcome  failed: program carol.curl "), "{text}");
    let order = [
        "carol.curl on carol: exit 22 at 20.4 s",
        "$ curl -sf http://dave/",
        "| curl: (22)",
        "expected flow.carol-dave.delay.p99 <= 150 ms, measured 181 ms",
        "trust    trusted: ",
        "flow ",
    ];
    let places = order.map(|text_part| text.find(text_part).unwrap_or_else(|| panic!("{text}")));
    assert!(places.is_sorted(), "{text}");
    let head = lines.iter().position(|line| line.starts_with("flow ")).unwrap();
    let end = lines[head].find("goodput").unwrap() + "goodput".len();
    let row: String = lines[head + 1].chars().take(end).collect();
    assert!(row.ends_with("bit/s"), "goodput is not right-aligned:\n{text}");
}

#[test]
fn labs_table_has_a_row_per_lab() {
    let (parent, _guard) = page_folder();
    let record = fixture::make(&parent, false).read_record().unwrap();
    let row = |name: &str, record, ended: &str| report::LabRow {
        name: name.to_owned(),
        record,
        ended: ended.to_owned(),
    };
    let mut labs = vec![row("a-2", None, "could not start")];
    labs.extend((0..30).map(|_| row("a", Some(record.clone()), "not trusted")));
    let text = report::labs_table(&labs, &Layout { width: 120, ..Layout::default() });
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("lab ") && lines[0].ends_with("run"), "{text}");
    assert!(lines[1].starts_with("a-2 ") && lines[1].contains("could not start"), "{text}");
    assert!(lines[31].ends_with(&format!("{}-{}", record.name, record.id)), "{text}");
    assert_eq!(text.matches("a:       failed: program ").count(), 30, "{text}");
}

#[test]
fn sweep_table_has_delays_and_sums_of_many_flows() {
    let (parent, _guard) = page_folder();
    let mut record = fixture::make(&parent, true).read_record().unwrap();
    let line = |record: &RunRecord, at: usize| {
        let text = report::sweep_table(std::slice::from_ref(record), &Layout::default());
        text.lines().nth(at).unwrap().to_owned()
    };
    let flow = record.flows[0].clone();
    record.flows = vec![flow.clone(); 3];
    assert!(line(&record, 0).contains("alice-bob goodput  RTT p99"), "{}", line(&record, 0));
    record.flows[2].goodput_bit_per_s = 1e6;
    record.flows = [0; 100].iter().flat_map(|_| record.flows.clone()).collect();
    let [heads, row] = [0, 1].map(|at| line(&record, at));
    assert!(heads.contains("goodput of 300") && heads.contains("highest p99"), "{heads}");
    assert!(row.contains("1 Mbit/s") && row.chars().count() < 120, "{row}");
}

#[test]
fn diff_names_changed_metrics() {
    let (parent, _guard) = page_folder();
    let first = fixture::make(&parent, true).read_record().unwrap();
    let mut second = first.clone();
    second.flows[0].goodput_bit_per_s *= 0.9;
    second.flows[0].retransmits = Some(0);
    second.flows.pop();
    second.seed = 43;
    let (first, second) = (side(first), side(second));
    assert!(compare(&first, &first, &Choice::default()).unwrap().is_unchanged());
    let tolerances = vec!["5 %".parse().unwrap()];
    let diff = compare(&first, &second, &Choice { tolerances, ..Choice::default() }).unwrap();
    let changed: Vec<&str> = diff.changed().map(|change| change.metric.as_str()).collect();
    assert_eq!(changed, ["flow.alice-bob.goodput.mean", "flow.alice-bob.retransmits.sum"]);
    assert!(diff.only_first.iter().any(|m| m == "flow.rpc.goodput.mean"));
    let text = diff.text(false);
    assert!(text.contains("-10.0 %") && text.contains("the seeds differ: 42 and 43"), "{text}");
    assert!(text.contains("differ by chance"), "{text}");
}

fn side(record: RunRecord) -> Side {
    Side { summary: Summary::of(&[record], "").unwrap(), lab: None, is_stored: false }
}
