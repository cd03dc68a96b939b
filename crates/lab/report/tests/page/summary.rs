//! Summaries for CI: Markdown and `JUnit` XML, with hostile names and output of programs.

use quick_xml::events::Event;
use quick_xml::{Reader, XmlVersion};
use run::record::{Outcome, ProgramEnd, ProgramSummary, Status};
use run::{RunFolder, RunRecord};

use super::fixture;

/// Output that breaks out of code, tables, CDATA sections and attributes if it is not escaped.
const HOSTILE: &[&str] = &[
    "```\n# heading <img src=x onerror=alert(1)> | a | b |",
    "]]></failure><testcase name=\"x\"/>&amp;\u{0}\u{1b}[31mred\u{8}\u{fffe}",
    "@team #1 [link](https://example.org) `code` ````",
];

fn hostile(parent: &std::path::Path) -> (RunFolder, RunRecord) {
    let folder = fixture::make(parent, true);
    let mut record = folder.read_record().unwrap();
    record.programs = vec![ProgramSummary {
        name: "web`|`<b>".to_owned(),
        node: "dave".to_owned(),
        end: Some(ProgramEnd::Exit(22)),
        last_stderr: HOSTILE.iter().map(|line| (*line).to_owned()).collect(),
        ..ProgramSummary::default()
    }];
    (folder, record)
}

/// An element: its name, its attributes, and the text from it to the next element.
type Element = (String, Vec<(String, String)>, String);

/// All elements, as returned by an XML parser.
fn parsed(xml: &str) -> Vec<Element> {
    let mut reader = Reader::from_str(xml);
    let mut elements: Vec<Element> = Vec::new();
    loop {
        match reader.read_event().unwrap_or_else(|e| panic!("{e}\n{xml}")) {
            Event::Start(start) | Event::Empty(start) => {
                let name = start.name().as_ref().to_owned();
                let attributes = start.attributes().map(|attribute| {
                    let attribute = attribute.unwrap();
                    let key = attribute.key.as_ref().to_owned();
                    let value = attribute.normalized_value(XmlVersion::Implicit1_0).unwrap();
                    (key, value.into_owned())
                });
                elements.push((name, attributes.collect(), String::new()));
            }
            Event::Text(text) => {
                if let Some(last) = elements.last_mut() {
                    last.2.push_str(&text);
                }
            }
            Event::GeneralRef(entity) => {
                let character = match &*entity {
                    "amp" => '&',
                    "lt" => '<',
                    "gt" => '>',
                    "quot" => '"',
                    "#39" => '\'',
                    other => panic!("entity {other}"),
                };
                elements.last_mut().unwrap().2.push(character);
            }
            Event::Eof => return elements,
            _ => {}
        }
    }
}

fn attribute<'a>(element: &'a Element, name: &str) -> &'a str {
    let found = element.1.iter().find(|(key, _)| key == name);
    &found.unwrap_or_else(|| panic!("{element:?} has no {name}")).1
}

#[test]
fn markdown_begins_with_the_outcome_and_has_curves() {
    let parent = tempfile::tempdir().unwrap();
    let folder = fixture::make(parent.path(), true);
    let record = folder.read_record().unwrap();
    let text = report::markdown(&[(folder, record)]).unwrap();
    assert!(text.starts_with("### ❌ `dumbbell`: failed\n"), "{text}");
    let expected = [
        "program `carol.curl` on `carol`: exit 22 (unexpected)",
        "```text\ncurl: (22) The requested URL returned error: 404\n```",
        "| ❌ failed | `flow.carol-dave.delay.p99 <= 150 ms` | `181 ms` |",
        "| `alice-bob` | `TCP cubic` |",
        "repeat: `netarium run dumbbell.toml --seed 42`",
    ];
    for part in expected {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // The flow `carol-dave` starts at 5 s of 30 s, and then has a constant rate.
    let row = text.lines().find(|line| line.starts_with("| `carol-dave`")).unwrap();
    let curve: String = row.chars().filter(|c| ('▁'..='█').contains(c)).collect();
    assert_eq!(curve.chars().count(), 24);
    let (idle, busy) = curve.split_at(4 * '▁'.len_utf8());
    assert_eq!(idle, "▁▁▁▁");
    assert!(busy.chars().all(|c| c > '▁'), "{curve}");
}

#[test]
fn markdown_shows_output_of_programs_as_code_only() {
    let parent = tempfile::tempdir().unwrap();
    let text = report::markdown(&[hostile(parent.path())]).unwrap();
    // The block is closed by the fence that opened it: nothing in the output is as long.
    let fence = text.lines().find(|line| line.starts_with("`````text")).unwrap();
    let fence = fence.trim_end_matches("text");
    assert_eq!(text.lines().filter(|line| *line == fence).count(), 1, "{text}");
    assert!(text.contains("program ``web`|`<b>`` on `dave`"), "{text}");
    assert!(!text.contains('\u{1b}') && !text.contains('\u{0}'));
    // Text of the program appears only in the code block.
    let block = format!("{fence}text\n");
    let (before, rest) = text.split_once(&block).unwrap();
    let (_, after) = rest.split_once(&format!("\n{fence}\n")).unwrap();
    for part in ["<img", "@team", "# heading", "</failure>"] {
        assert!(!before.contains(part) && !after.contains(part), "{part}\n{text}");
    }
}

#[test]
fn several_runs_are_one_document_with_failures_first() {
    let parent = tempfile::tempdir().unwrap();
    let folder = fixture::make(parent.path(), true);
    let run = |passed: bool, name: &str| {
        let mut record = folder.read_record().unwrap();
        name.clone_into(&mut record.name);
        if passed {
            record.programs.clear();
            record.expectations.retain(|e| e.outcome == Outcome::Passed);
        }
        (folder.clone(), record)
    };
    let runs: Vec<_> = (0..25).map(|n| run(n % 5 != 4, &format!("lab-{n}"))).collect();
    let text = report::markdown(&runs).unwrap();
    assert!(text.starts_with("## ❌ 20 of 25 runs passed, 5 failed, 0 not trusted\n"), "{text}");
    let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("### ")).collect();
    assert_eq!(heads.len(), 20);
    assert!(heads[..5].iter().all(|head| head.starts_with("### ❌")), "{heads:?}");
    assert!(text.contains("5 more runs have no details here."), "{text}");
    let records: Vec<&RunRecord> = runs.iter().map(|(_, record)| record).collect();
    let elements = parsed(&report::junit(&records));
    let suites = elements.iter().filter(|element| element.0 == "testsuite");
    assert_eq!(suites.count(), 25);
}

#[test]
fn junit_has_one_test_per_expectation_program_and_run() {
    let parent = tempfile::tempdir().unwrap();
    for trusted in [true, false] {
        let folder = fixture::make(parent.path(), trusted);
        let record = folder.read_record().unwrap();
        let elements = parsed(&report::junit(&[&record]));
        let total = &elements[0];
        assert_eq!((total.0.as_str(), attribute(total, "tests")), ("testsuites", "7"));
        assert_eq!(attribute(total, "failures"), if trusted { "2" } else { "3" });
        assert_eq!(attribute(total, "errors"), "0");
        let cases: Vec<_> = elements.iter().filter(|element| element.0 == "testcase").collect();
        assert_eq!(cases.len(), 7);
        assert_eq!(attribute(cases[6], "classname"), "dumbbell.run");
        let failures: Vec<_> = elements.iter().filter(|element| element.0 == "failure").collect();
        assert_eq!(attribute(failures[0], "message"), "measured 181 ms");
        assert!(failures[1].2.contains("returned error: 404"), "{failures:?}");
    }
}

#[test]
fn junit_is_valid_with_any_output() {
    let parent = tempfile::tempdir().unwrap();
    let (_, record) = hostile(parent.path());
    let elements = parsed(&report::junit(&[&record]));
    let cases = elements.iter().filter(|element| element.0 == "testcase");
    assert_eq!(cases.count(), 4);
    let failure = elements.iter().rfind(|element| element.0 == "failure").unwrap();
    let shown = HOSTILE.join("\n").replace(['\u{0}', '\u{1b}', '\u{8}', '\u{fffe}'], "\u{fffd}");
    assert_eq!(failure.2.trim_end(), shown);
}

#[test]
fn junit_counts_a_run_that_did_not_end_as_error() {
    let parent = tempfile::tempdir().unwrap();
    let folder = fixture::make(parent.path(), true);
    let mut record = folder.read_record().unwrap();
    record.status = Status::Failed;
    record.warnings.push("disk <full>".to_owned());
    let elements = parsed(&report::junit(&[&record]));
    assert_eq!(attribute(&elements[0], "errors"), "1");
    let error = elements.iter().find(|element| element.0 == "error").unwrap();
    assert_eq!(attribute(error, "message"), "disk <full>");
}
