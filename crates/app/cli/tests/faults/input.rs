//! Invalid lab files: exit code 2, before anything starts.

use super::bench::Bench;

/// A lab of two hosts with additional text.
fn pair(rest: &str) -> String {
    format!(
        "[lab]\nduration = \"5 s\"\n[node.a]\n[node.b]\n[[link]]\nends = [\"a\", \"b\"]\n{rest}\n"
    )
}

/// Description of the error, the lab, and the expected parts of the message.
type Row = (&'static str, String, &'static [&'static str]);

fn network_rows() -> Vec<Row> {
    vec![
        ("unknown key", pair("dellay = \"5 ms\""), &["E0002", "dellay", "delay"]),
        ("unknown section", pair("[[flows]]\nfrom = \"a\""), &["E0002", "flow"]),
        ("missing unit", pair("delay = 5"), &["E0005", "5"]),
        ("missing unit in a text", pair("rate = \"10\""), &["E0005", "unit"]),
        ("zero rate", pair("rate = \"0 Mbit/s\""), &["E0006"]),
        ("excessive rate", pair("rate = \"900000 Tbit/s\""), &["rate"]),
        ("excessive delay", pair("delay = \"90000000 s\""), &["delay"]),
        ("loss above one", pair("loss = \"120 %\""), &["loss"]),
        ("negative", pair("delay = \"-5 ms\""), &["E0005"]),
        ("tiny MTU", pair("mtu = \"20 B\""), &["E0006"]),
        ("unknown node", pair("[[program]]\nnode = \"c\"\nrun = \"true\""), &["E0010", "`c`"]),
        (
            "hosts without a way",
            "node.a = {}\nnode.b = {}\nflow = [{ from = \"a\", to = \"b\" }]".to_owned(),
            &["E0015", "no route from `a` to `b`"],
        ),
        (
            "hosts do not forward",
            "node.a = {}\nnode.b = {}\nnode.c = {}\nlink = [{ ends = [\"a\", \"b\"] }, \
             { ends = [\"b\", \"c\"] }]\nflow = [{ from = \"a\", to = \"c\" }]"
                .to_owned(),
            &["E0015", "no route from `a` to `c`"],
        ),
    ]
}

fn naming_rows() -> Vec<Row> {
    vec![
        (
            "program not found",
            pair("[[program]]\nnode = \"a\"\nrun = \"no-such-program -x\""),
            &["E0019", "no-such-program"],
        ),
        (
            "program in a list not found",
            pair("[[program]]\nnode = \"a\"\nrun = [\"./no-such\", \"-x\"]"),
            &["E0019", "./no-such"],
        ),
        ("duplicate node", "[node.a]\n[node.a]\n".to_owned(), &["E0001", "a"]),
        (
            "duplicate program",
            pair(
                "[[program]]\nname = \"p\"\nnode = \"a\"\nrun = \"true\"\n\
                 [[program]]\nname = \"p\"\nnode = \"b\"\nrun = \"true\"",
            ),
            &["E0008", "`p`"],
        ),
        (
            "duplicate flow",
            pair(
                "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n\
                 [[flow]]\nname = \"f\"\nfrom = \"b\"\nto = \"a\"",
            ),
            &["E0008"],
        ),
        ("no host name", "[node.\"a b\"]".to_owned(), &["E0009"]),
        (
            "address twice",
            pair("addresses = { a = \"10.1.0.1/24\", b = \"10.1.0.1/24\" }"),
            &["E0014"],
        ),
    ]
}

fn file_and_schedule_rows() -> Vec<Row> {
    vec![
        ("trace missing", pair("trace = \"none.trace\""), &["E0021", "none.trace"]),
        ("trace cut short", pair("trace = \"cut.trace\""), &["E0020", "cut.trace"]),
        ("trace empty", pair("trace = \"empty.trace\""), &["E0020"]),
        ("trace runs backwards", pair("trace = \"back.trace\""), &["E0020", "3"]),
        ("import cut short", "[[import]]\nfile = \"cut.gml\"".to_owned(), &["E0022"]),
        (
            "event after the end",
            pair("[[at]]\ntime = \"6 s\"\nlink = [\"a\", \"b\"]\ndown = true"),
            &["E0016"],
        ),
        (
            "programs in a circle",
            pair(
                "[[program]]\nname = \"p\"\nnode = \"a\"\nrun = \"true\"\nafter = \"q\"\n\
                 [[program]]\nname = \"q\"\nnode = \"b\"\nrun = \"true\"\nafter = \"p\"",
            ),
            &["E0028"],
        ),
        ("bad expectation", pair("[[expect]]\nthat = \"all is well\""), &["E0017"]),
        (
            "unknown metric",
            pair("[[expect]]\nthat = \"link.a-b.up.colour == 1\""),
            &["E0018", "colour"],
        ),
        ("bad filter", pair("[[mirror]]\nlink = \"a-b\"\nfilter = \"tcp prot 1\""), &["E0029"]),
        ("too many", "[[generate]]\nkind = \"star\"\nhosts = 2000000".to_owned(), &["E0006"]),
        (
            "sweep of too many runs",
            pair("delay = { range = \"1 ms..1 s\", steps = 900000 }"),
            &["lab::E00"],
        ),
        ("not TOML", "[lab\nname = ".to_owned(), &["E0001"]),
    ]
}

#[test]
fn invalid_labs_exit_with_code_2() {
    let bench = Bench::new();
    bench.write("cut.trace", "1\n2\n3\n4x");
    bench.write("empty.trace", "");
    bench.write("back.trace", "1\n5\n3\n");
    bench.write("cut.gml", "graph [ node [ id 0 label \"a\" ] node [ id 1");
    let mut wrong = Vec::new();
    for (what, lab, expected) in [network_rows(), naming_rows(), file_and_schedule_rows()].concat()
    {
        bench.write("wrong.toml", &lab);
        let output = bench.netarium(&["run", "wrong.toml"]);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        let fits = expected.iter().all(|part| printed.contains(part));
        // The position: the file, or the position in a text that is not valid TOML.
        let placed = printed.contains("wrong.toml:");
        if output.status.code() != Some(2) || !fits || !placed || !output.stdout.is_empty() {
            wrong.push(format!("{what}: {:?}, expected {expected:?}:\n{printed}", output.status));
        }
        let check = bench.netarium(&["check", "wrong.toml"]);
        assert_eq!(check.status.code(), Some(2), "check of {what}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n----\n"));
    assert!(!bench.path().join("runs").exists(), "something had started");
}

#[test]
fn reports_all_errors_at_once() {
    let bench = Bench::new();
    bench.write(
        "many.toml",
        &pair(
            "delay = 5\nrat = \"1 Mbit/s\"\nloss = \"200 %\"\n[[flow]]\nfrom = \"a\"\nto = \"z\"\n\
             [[program]]\nnode = \"a\"\nrun = \"no-such-program\"\nreay = \"port 1\"",
        ),
    );
    let output = bench.netarium(&["run", "many.toml", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let errors = printed["errors"].as_array().unwrap();
    let lines: Vec<_> = errors.iter().map(|e| e["line"].as_u64().unwrap()).collect();
    for line in [7, 8, 9, 12, 15, 16] {
        assert!(lines.contains(&line), "nothing about line {line}: {printed:#}");
    }
}

#[test]
fn rejects_files_that_are_not_labs() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join("folder.toml")).unwrap();
    std::fs::write(bench.path().join("binary.toml"), [0xff, 0xfe, 0, 1, 2]).unwrap();
    let large = std::fs::File::create(bench.path().join("large.toml")).unwrap();
    // Only zeros, without a block on the disk.
    large.set_len(4 << 30).unwrap();
    for file in ["missing.toml", "folder.toml", "binary.toml", "large.toml", "/dev/zero"] {
        let output = bench.netarium(&["run", file]);
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{file}: {printed}");
        assert!(printed.contains(file), "{file}: {printed}");
    }
}
