//! The text of finished runs in terminals of 80 and 120 columns.

mod records;

use report::Layout;
use run::RunRecord;
use std::fmt::Write as _;

fn layout(width: usize) -> Layout {
    Layout { width, run: "runs/lab-1a2b3c".to_owned(), ..Layout::default() }
}

/// The text at both widths.
fn text(record: &RunRecord) -> String {
    let at = |width| format!("---- {width} columns\n{}", report::table(record, &layout(width)));
    at(80) + &at(120)
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn passed_run() {
    insta::assert_snapshot!(text(&records::passed()));
}

#[test]
fn failed_expectations() {
    insta::assert_snapshot!(text(&records::failed_expectations()));
}

#[test]
fn crashed_program_of_twelve() {
    insta::assert_snapshot!(text(&records::crashed_program()));
}

#[test]
fn untrusted_run() {
    insta::assert_snapshot!(text(&records::untrusted()));
}

#[test]
fn run_without_packets() {
    insta::assert_snapshot!(text(&records::no_packets()));
}

#[test]
fn traceroute_is_no_drop() {
    let text = text(&records::traceroute());
    assert!(!text.contains("ttl exceeded"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn large_network() {
    insta::assert_snapshot!(text(&records::large()));
}

#[test]
fn sweeps_and_parallel_labs() {
    let records = records::all();
    let mut text = String::new();
    for width in [80, 120] {
        let labs = records.iter().map(|record| report::LabRow {
            name: record.name.clone(),
            record: Some(record.clone()),
            ended: record.exit_code.unwrap_or_default().words().to_owned(),
        });
        let labs: Vec<_> = labs.collect();
        writeln!(text, "---- {width} columns").unwrap();
        text += &report::labs_table(&labs, &layout(width));
        text += &report::sweep_table(&records::sweep(), &layout(width));
        assert!(widest(&text) <= width, "{text}");
    }
    insta::assert_snapshot!(text);
}

#[test]
fn no_line_exceeds_the_terminal() {
    for record in records::all() {
        for width in [60, 80, 100, 120] {
            let text = report::table(&record, &layout(width));
            assert!(widest(&text) <= width, "{} at {width} columns:\n{text}", record.name);
        }
    }
}

#[test]
fn no_line_is_printed_twice() {
    for record in records::all() {
        let text = report::table(&record, &layout(80));
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        for (at, line) in lines.iter().enumerate() {
            assert!(!lines[..at].contains(line), "{line:?} twice in:\n{text}");
        }
    }
}

#[test]
fn details_show_all_rows_and_columns() {
    let record = records::large();
    let text = report::table(&record, &Layout { detail: true, ..layout(80) });
    assert!(!text.contains('…'), "{text}");
    let rows = text.lines().filter(|line| line.starts_with("backbone-link-")).count();
    assert_eq!(rows, record.links.len(), "{text}");
    for part in ["marked", "restarts", "engine ", "lateness "] {
        assert!(text.contains(part) || record.programs.is_empty(), "{part} in {text}");
    }
}

#[test]
fn outcome_and_failures_are_coloured() {
    let coloured = |record| report::table(&record, &Layout { color: true, ..layout(80) });
    let text = coloured(records::passed());
    assert!(text.starts_with("outcome  \x1b[32mpassed\x1b[0m"), "{text}");
    assert_eq!(text.matches('\x1b').count(), 2, "only the outcome has a colour:\n{text}");
    assert!(coloured(records::untrusted()).starts_with("outcome  \x1b[33muntrusted\x1b[0m: "));
    let text = coloured(records::crashed_program());
    assert!(text.starts_with("outcome  \x1b[31mfailed\x1b[0m: program "), "{text}");
    assert!(text.contains("  \x1b[31mworker.9 on site9: exit 1 at 4.2 s\x1b[0m\n"), "{text}");
}

#[test]
fn output_of_programs_cannot_change_the_terminal() {
    let mut record = records::crashed_program();
    record.programs[8].last_stderr = vec!["\x1b[2J\x07".to_owned()];
    let text = report::table(&record, &layout(80));
    assert!(text.contains("| \u{fffd}[2J\u{fffd}\n"), "{text}");
}
