//! Reports of a synthetic run. `REPORT_FIXTURE=<folder>` keeps the rendered pages for a look.
#![forbid(unsafe_code)]

mod fixture;

use std::fs;
use std::path::PathBuf;

use base::{Bytes, FlowId, Span, Time};
use record::run::{
    Clock, HostFaults, Lateness, LinkSummary, NodeRole, SCHEMA, Simulation, Slowdown, Topology,
    TopologyLink, TopologyNode, Verdict,
};
use record::{Recorder, RecorderOptions, RunFolder, RunRecord, Transfer};

/// Where pages go, and what removes them afterwards if nobody asked to keep them.
fn place() -> (PathBuf, Option<tempfile::TempDir>) {
    if let Some(path) = std::env::var_os("REPORT_FIXTURE") {
        return (path.into(), None);
    }
    let temporary = tempfile::tempdir().expect("a temporary folder");
    (temporary.path().to_owned(), Some(temporary))
}

#[test]
fn the_page_shows_everything_and_needs_no_network() {
    let (parent, _guard) = place();
    for trusted in [true, false] {
        let folder = fixture::make(&parent, trusted);
        let page = fs::read_to_string(report::write_html(&folder).unwrap()).unwrap();
        // An expectation and a program failed, which comes before trust.
        assert!(!page.contains("class=\"verdict good\""), "a failed run has a green banner");
        let expected = [
            "class=\"verdict bad\"><span class=\"mark\" aria-hidden=\"true\">✗</span>\
             <div><strong>Failed</strong>",
            if trusted { "<li>numbers trusted: " } else { "<li>expected flow.carol-dave" },
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
            "every default written out",
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

/// The fixture as if it had been simulated, with a flow of transfers.
fn simulated(parent: &std::path::Path) -> RunFolder {
    let wall = fixture::make(parent, true).read_record().expect("the fixture can be written");
    let folder = RunFolder::create(parent, "virtual").expect("the fixture can be written");
    let options = RecorderOptions { flows: vec!["web".to_owned()], ..RecorderOptions::default() };
    let recorder = Recorder::start(&folder, &options).expect("the fixture can be written");
    for n in 1..=500u64 {
        let size = Bytes::new(1000 + n * n * 40);
        let ideal = Span::from_micros(20_000 + size.count() / 10);
        let took = Span::from_nanos(ideal.as_nanos() * (20 + n * 7 % 31) / 20);
        recorder.handle().transfer(Transfer {
            flow: FlowId(0),
            start: Time::ZERO + Span::from_millis(n),
            size,
            completion: Some(took),
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
        verdict: Some(Verdict { trusted: true, reasons: vec!["by construction".to_owned()] }),
        ..wall
    };
    folder.write_record(&record).expect("the fixture can be written");
    folder
}

#[test]
fn a_virtual_run_shows_its_speed_and_transfers_and_no_lateness() {
    let (parent, _guard) = place();
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
        assert!(!page.contains(text), "the page tells of {text:?}");
    }
    let table = report::table(&folder.read_record().unwrap());
    for line in ["60 x real time", "6 M a second", "trace    00c0ffee", "seed     42"] {
        assert!(table.contains(line), "the table lacks {line:?}:\n{table}");
    }
    assert!(!table.contains("lateness"), "{table}");
}

#[test]
fn both_clocks_stand_side_by_side() {
    let (parent, _guard) = place();
    let wall = fixture::make(&parent, true).read_record().unwrap();
    let diff = report::diff(&wall, &simulated(&parent).read_record().unwrap());
    let text = diff.to_string();
    let heads = text.lines().next().unwrap();
    assert!(heads.contains("wall clock   virtual clock"), "{text}");
    assert!(!text.contains("lateness"), "{text}");
    assert!(diff.changes.iter().any(|c| c.metric == "link.core.up.queue.max"), "{text}");
    assert!(diff.only_second.iter().any(|m| m == "flow.web.slowdown.p99"), "{text}");
}

#[test]
fn a_run_that_was_cut_short_still_has_a_page() {
    let (parent, _guard) = place();
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
fn a_large_network_makes_a_page_of_bounded_size() {
    let (parent, _guard) = place();
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
fn the_terminal_table_aligns_and_ends_with_the_verdict() {
    let (parent, _guard) = place();
    let record = fixture::make(&parent, true).read_record().unwrap();
    let text = report::table(&record);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("outcome  FAILED: program "), "{text}");
    let head = lines[1];
    assert!(head.starts_with("flow ") && head.ends_with("lost or resent"), "{text}");
    let end = head.find("goodput").unwrap() + "goodput".len();
    let row: String = lines[2].chars().take(end).collect();
    assert!(row.ends_with("bit/s"), "goodput is not right-aligned:\n{text}");
    assert!(text.contains("FAILED flow.carol-dave.delay.p99 <= 150 ms  [181 ms]"), "{text}");
    assert!(text.contains("carol.curl: curl: (22)"), "{text}");
    assert!(lines.last().unwrap().starts_with("verdict  trusted: "), "{text}");
}

#[test]
fn labs_that_ran_at_once_have_a_row_each() {
    let (parent, _guard) = place();
    let record = fixture::make(&parent, false).read_record().unwrap();
    let row = |name: &str, record, ended: &str| report::LabRow {
        name: name.to_owned(),
        record,
        ended: ended.to_owned(),
    };
    let mut labs = vec![row("a-2", None, "could not start")];
    labs.extend((0..30).map(|_| row("a", Some(record.clone()), "not trusted")));
    let text = report::labs_table(&labs);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("lab ") && lines[0].ends_with("run"), "{text}");
    assert!(lines[1].starts_with("a-2 ") && lines[1].contains("could not start"), "{text}");
    assert!(lines[31].ends_with(&format!("{}-{}", record.name, record.id)), "{text}");
    assert_eq!(text.matches("a: FAILED: program ").count(), 30, "{text}");
}

#[test]
fn a_sweep_shows_delays_and_sums_up_many_flows() {
    let (parent, _guard) = place();
    let mut record = fixture::make(&parent, true).read_record().unwrap();
    let line = |record: &RunRecord, at: usize| {
        let text = report::sweep_table(std::slice::from_ref(record));
        text.lines().nth(at).unwrap().to_owned()
    };
    let flow = record.flows[0].clone();
    record.flows = vec![flow.clone(); 3];
    assert!(line(&record, 0).contains("alice-bob goodput  round trip p99"), "{}", line(&record, 0));
    record.flows[2].goodput_bit_per_s = 1e6;
    record.flows = [0; 100].iter().flat_map(|_| record.flows.clone()).collect();
    let [heads, row] = [0, 1].map(|at| line(&record, at));
    assert!(heads.contains("goodput of 300") && heads.contains("highest p99"), "{heads}");
    assert!(row.contains("1 Mbit/s") && row.chars().count() < 120, "{row}");
}

#[test]
fn a_difference_names_what_changed() {
    let (parent, _guard) = place();
    let first = fixture::make(&parent, true).read_record().unwrap();
    let mut second = first.clone();
    assert_eq!(report::diff(&first, &second).beyond(0.0).count(), 0);
    second.flows[0].goodput_bit_per_s *= 0.9;
    second.flows[0].retransmits = Some(0);
    second.flows.pop();
    second.seed = 43;
    let diff = report::diff(&first, &second);
    let beyond: Vec<&str> = diff.beyond(0.05).map(|c| c.metric.as_str()).collect();
    assert_eq!(beyond, ["flow.alice-bob.goodput.mean", "flow.alice-bob.retransmits.sum"]);
    assert_eq!(diff.beyond(0.2).count(), 1);
    assert!(diff.only_first.iter().any(|m| m == "flow.rpc.goodput.mean"));
    let text = diff.to_string();
    assert!(text.contains("-10.0 %") && text.contains("the seeds differ: 42 and 43"), "{text}");
}
