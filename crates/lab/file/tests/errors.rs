//! One invalid lab for each error code, and its message.

use std::path::Path;

use lab::{Code, Diagnostics, Overrides, load, parse_with};
use miette::{GraphicalReportHandler, GraphicalTheme};

/// The lab that causes an error code, such as `tests/wrong/E0001.toml`, or another invalid lab.
fn case(name: &str) -> String {
    let path = format!("{}/tests/wrong/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn render(diagnostics: &Diagnostics) -> String {
    let mut out = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .with_width(100)
        .render_report(&mut out, diagnostics)
        .expect("writing to a String cannot fail");
    out.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

fn found(name: &str) -> Diagnostics {
    let set = if name == "E0031" {
        vec![("link.croe.delay".to_owned(), "1 ms".to_owned())]
    } else {
        Vec::new()
    };
    let overrides = Overrides { set, ..Overrides::default() };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    match parse_with("lab.toml", &case(name), folder, &overrides) {
        Ok(lab) => lab.warnings,
        Err(errors) => errors,
    }
}

#[test]
fn every_code_is_shown() {
    for code in Code::ALL {
        let name = code.as_str().replace("lab::", "");
        let found = found(&name);
        let codes: Vec<Code> = found.list().iter().map(|d| d.code).collect();
        assert!(codes.contains(code), "{code:?} is not among {codes:?}");
        insta::assert_snapshot!(name, render(&found));
    }
}

/// Errors that would end a run only after hours are reported before it.
#[test]
fn bad_input_is_refused_with_its_numbers() {
    let cases = [
        ("after-the-end", Code::Schedule),
        ("no-route", Code::Unreachable),
        ("no-route-hosts", Code::Unreachable),
        ("patterns-of-other-kinds", Code::Restricted),
        ("no-folder", Code::Unreadable),
        ("queue-of-nothing", Code::OutOfRange),
        ("bucket-of-nothing", Code::OutOfRange),
        ("no-numbers", Code::Quantity),
        ("a-million-runs", Code::Limit),
        ("a-million-values", Code::BadSweep),
        ("absurd-counts", Code::Limit),
        ("workloads-at-odds", Code::Conflict),
        ("broken-workload-files", Code::BadTrace),
        ("collapsed-settings", Code::UnknownWord),
        ("collapsed-without", Code::NoEffect),
        ("fluid-simplified", Code::NoEffect),
        ("collapsed-impossible", Code::Conflict),
        ("collapsed-events", Code::Conflict),
        ("slbn-recorded", Code::Conflict),
        ("populations", Code::UnknownWord),
        ("controlled-flows", Code::Conflict),
        ("controlled-collapsed", Code::Conflict),
        ("control-of-nothing", Code::NoEffect),
        ("cluster-contradictions", Code::Conflict),
        ("unknown-format", Code::BadImport),
        ("long-path", Code::NoEffect),
    ];
    for (name, code) in cases {
        let found = found(name);
        assert!(found.list().iter().any(|d| d.code == code), "{name}: {:?}", found.list());
        insta::assert_snapshot!(name, render(&found));
    }
}

#[test]
fn topologies_may_be_latin_1() {
    let folder = tempfile::tempdir().unwrap();
    let lab = "[[import]]\nfile = \"net.csv\"\n";
    let read = |bytes: &[u8]| {
        std::fs::write(folder.path().join("net.csv"), bytes).unwrap();
        parse_with("lab.toml", lab, folder.path(), &Overrides::default())
    };
    assert!(read("\u{feff}a,b\nKöln,Wien\n".as_bytes()).unwrap().warnings.is_empty());
    let latin = read(b"a,b\nK\xf6ln,Wien\n").unwrap();
    assert_eq!(latin.plans[0].nodes[0].name, "k-ln");
    let codes: Vec<Code> = latin.warnings.list().iter().map(|d| d.code).collect();
    assert_eq!(codes, [Code::PartlyRead]);
    for (bytes, why) in [(&b"\xff\xfea\0,\0b\0"[..], "it is UTF-16"), (b"\0\xff", "it is not text")]
    {
        let error = read(bytes).unwrap_err().list()[0].message.clone();
        assert!(error.contains(why), "{error}");
    }
}

/// Features that the collapsed model approximates or ignores are reported once for all links.
#[test]
fn effects_of_the_collapsed_model_are_reported_once() {
    let found = found("collapsed-simplified");
    let codes: Vec<Code> = found.list().iter().map(|d| d.code).collect();
    let (none, simpler) = (Code::NoEffect, Code::Approximated);
    assert_eq!(codes, [simpler, none, simpler, simpler]);
    insta::assert_snapshot!("collapsed-simplified", render(&found));
    // A distribution on only one link of each path is exact.
    let alone = r#"
        lab = { model = "collapsed" }
        node = { a = {}, b = {} }
        link = [{ ends = ["a", "b"], jitter = { distribution = "uniform", spread = "1 ms" },
                  loss = { model = "gilbert-elliott", p = "1 %", r = "50 %" },
                  reorder = { probability = "1 %", by = "1 ms" } }]
    "#;
    let lab = parse_with("lab.toml", alone, Path::new(""), &Overrides::default()).unwrap();
    assert!(lab.warnings.is_empty(), "{:?}", lab.warnings.list());
    // The hop model has no warnings for the same links.
    let hop = case("collapsed-simplified").replace("collapsed", "hop");
    let lab = parse_with("lab.toml", &hop, Path::new(""), &Overrides::default()).unwrap();
    assert!(lab.warnings.is_empty(), "{:?}", lab.warnings.list());
}

#[test]
fn windows_are_words_or_sizes() {
    let read = |window: &str| {
        let text = format!("lab = {{ model = \"collapsed\", window = {window} }}");
        parse_with("lab.toml", &text, Path::new(""), &Overrides::default())
    };
    for window in ["\"auto\"", "\"off\"", "\"64 B\"", "\"1 GiB\""] {
        assert!(read(window).is_ok(), "{window}");
    }
    let wrong = [
        ("\"tiny\"", Code::UnknownWord, "it takes an amount of data (`\"64 KiB\"`), or one of"),
        ("\"Off\"", Code::UnknownWord, "did you mean `off`?"),
        ("\"10 ms\"", Code::Quantity, "B"),
        ("65536", Code::Quantity, "`\"64 KiB\"`"),
        ("\"63 B\"", Code::OutOfRange, "from 64 B to 1 GiB"),
        ("\"2 GiB\"", Code::OutOfRange, "from 64 B to 1 GiB"),
        ("true", Code::WrongType, ""),
    ];
    for (window, code, help) in wrong {
        let errors = read(window).unwrap_err();
        let [error] = errors.list() else { panic!("{window}: {:?}", errors.list()) };
        let said = error.help.clone().unwrap_or_default();
        assert!(error.code == code && said.contains(help), "{window}: {error:?}");
    }
}

#[test]
fn a_missing_file_is_said_to_be_missing() {
    let errors = load(Path::new("no/such/lab.toml"), &Overrides::default()).unwrap_err();
    assert_eq!(errors.list()[0].code, Code::Unreadable);
    assert_eq!(errors.list()[0].message, "cannot read no/such/lab.toml: no such file");
}

#[test]
fn positions_count_lines_and_characters() {
    let text = "# ä\n[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"c\"]\n";
    let errors = parse_with("lab.toml", text, Path::new(""), &Overrides::default())
        .expect_err("the lab is invalid");
    assert_eq!(errors.list()[0].position, (5, 14));
}

#[test]
fn unknown_congestion_control_is_an_error_with_place_and_suggestion() {
    let lab = |control: &str| {
        format!(
            "[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"b\"]\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontrol = \"{control}\"\n"
        )
    };
    let check = |control| lab::parse("lab.toml", &lab(control), std::path::Path::new("."));
    for known in ["cubic", "bbr", "bbr3", "htcp", "dctcp"] {
        assert!(check(known).is_ok(), "{known}");
    }
    let errors = check("cubik").unwrap_err();
    let [error] = errors.list() else { panic!("{errors:?}") };
    assert_eq!(error.message, "`cubik` is not a known TCP congestion control");
    assert_eq!(error.help.as_deref(), Some("did you mean `cubic`?"));
    assert_eq!(error.position, (8, 11));
    let help = check("swift").unwrap_err().list()[0].help.clone().unwrap();
    assert!(help.starts_with("congestion controls: `bbr`"), "{help}");
}

fn errors(text: &str) -> Vec<String> {
    let found = parse_with("lab.toml", text, Path::new(""), &Overrides::default())
        .expect_err("the lab is invalid");
    found
        .list()
        .iter()
        .map(|d| format!("{} | {}", d.message, d.help.as_deref().unwrap_or("")))
        .collect()
}

#[test]
fn suggests_words_of_other_tools() {
    let link = |key: &str| format!("[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"b\"]\n{key}\n");
    let flow = |keys: &str| link(&format!("[[flow]]\n{keys}"));
    let cases = [
        (link("bandwidth = \"1 Mbit/s\""), "did you mean `rate`?"),
        (link("bw = \"1 Mbit/s\""), "did you mean `rate`?"),
        (link("latency = \"1 ms\""), "did you mean `delay`?"),
        (flow("src = \"a\"\nto = \"b\""), "did you mean `from`?"),
        (flow("from = \"a\"\ndst = \"b\""), "did you mean `to`?"),
        ("[nodes.a]".to_owned(), "did you mean `node`?"),
        ("[[links]]".to_owned(), "did you mean `link`?"),
        (link("rate = \"10 Mbps\""), "did you mean `Mbit/s`?"),
        (link("rate = \"1 Gb/s\""), "did you mean `Gbit/s`?"),
        (link("loss = 0.01"), "`\"1 %\"`"),
        (link("loss = 2"), "`\"2 %\"`"),
        (link("delay = 10"), "`\"10 ms\"`"),
        (link("rate = 10"), "`\"10 Mbit/s\"`"),
        (link("rate = 10_000_000"), "`\"10 Mbit/s\"`"),
        ("[lab]\nduration = 10".to_owned(), "`\"10 s\"`"),
    ];
    for (text, help) in cases {
        let found = errors(&text);
        assert!(found.iter().any(|error| error.contains(help)), "{text}\n{found:?}");
    }
}

#[test]
fn other_formats_are_one_error_that_names_the_format() {
    let yaml = "# lab\nnodes:\n  - a\n  - b\nlinks:\n  - [a, b]\n";
    let json = "{\n  \"nodes\": [\"a\", \"b\"]\n}\n";
    for (text, format) in [(yaml, "YAML"), (json, "JSON"), ("---\na: 1\n", "YAML")] {
        let found = errors(text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(&format!("this file is {format}, not TOML")), "{found:?}");
    }
}

#[test]
fn invalid_or_unknown_node_name_is_reported_once() {
    for name in ["web_server", "missing"] {
        let node = if name == "missing" { "x" } else { name };
        let found = errors(&format!(
            "[node.{node}]\n[node.b]\n[[link]]\nends = [\"{name}\", \"b\"]\n\
             [[flow]]\nfrom = \"{name}\"\nto = \"b\"\n[[flow]]\nfrom = \"b\"\nto = \"{name}\"\n"
        ));
        assert_eq!(found.len(), 1, "{found:?}");
    }
}

#[test]
fn file_without_sections_is_empty() {
    for text in ["", "\n \n", "# a comment\n"] {
        let found = errors(text);
        assert_eq!(found, ["the file is empty | `netarium new dumbbell` writes a lab"], "{text:?}");
    }
}

/// A lab of another machine may have other folders.
#[test]
fn folder_of_a_program_is_not_checked_for_another_machine() {
    let trusting = Overrides { trust_programs: true, ..Overrides::default() };
    let found = parse_with("lab.toml", &case("no-folder"), Path::new(""), &trusting);
    assert!(found.is_ok(), "{found:?}");
}

#[test]
fn pattern_names_the_nodes_that_it_skips() {
    let text = "[node]\na = {}\nb = {}\nr1 = { kind = \"router\" }\ns1 = { kind = \"switch\" }\n\
                [[link]]\nends = [\"a\", \"r1\"]\n[[link]]\nends = [\"r1\", \"s1\"]\n\
                [[link]]\nends = [\"s1\", \"b\"]\n[[program]]\nnode = \"*\"\nrun = \"true\"\n";
    let lab = lab::parse("lab.toml", text, Path::new("")).expect("it is valid");
    let [found] = &lab.patterns[..] else { panic!("{:?}", lab.patterns) };
    assert_eq!((found.hosts, found.skipped_count), (2, 2));
    assert_eq!(found.skipped, ["r1 (router)", "s1 (switch)"]);
}
