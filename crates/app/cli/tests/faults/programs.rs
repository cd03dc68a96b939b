//! Programs that fail: exit code 5, the reason, and the results so far.

use super::bench::{Bench, Run, requires_labs, until};

fn lab(program: &str) -> String {
    format!(
        "[lab]\nname = \"failing\"\nduration = \"20 s\"\n[node.a]\n[node.b]\n\
         [[link]]\nends = [\"a\", \"b\"]\n\
         [[flow]]\nname = \"beside\"\nfrom = \"a\"\nto = \"b\"\ntransport = \"udp\"\n\
         rate = \"1 Mbit/s\"\n[[program]]\nname = \"p\"\nnode = \"a\"\n{program}\n"
    )
}

/// Description, program, and the expected parts of the message.
const ROWS: &[(&str, &str, &[&str])] = &[
    (
        "port never ready",
        "run = \"echo no port today >&2; exec sleep 60\"\nready = \"port 80\"\n\
         ready_timeout = \"700 ms\"",
        &["program p was not ready (TCP port 80) after 700 ms", "no port today"],
    ),
    (
        "output never comes",
        "run = \"echo hallo; exec sleep 60\"\nready = 'output \"hello\"'\n\
         ready_timeout = \"700 ms\"",
        &["program p was not ready"],
    ),
    (
        "ends before it is ready",
        "run = \"echo cannot bind >&2; exit 3\"\nready = \"port 80\"",
        &["program p ended", "3", "before it was ready", "cannot bind"],
    ),
    ("wrong status", "run = \"sleep 0.3; exit 4\"", &["p"]),
    ("another status than expected", "run = \"sleep 0.3\"\nexit = 1", &["p"]),
    ("a signal", "run = \"sleep 0.3; kill -SEGV $$\"", &["p"]),
    ("a shell that finds nothing", "run = \"sleep 0.3 && no-such-program\"", &["p"]),
    ("a script without a shell", "run = [\"./script\"]", &["./script"]),
];

#[test]
fn failing_programs_end_the_run_with_code_5() {
    requires_labs!();
    let bench = Bench::new();
    let script = bench.write("script", "#!/no/such/interpreter\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(script, mode).unwrap();
    // Several labs run in parallel, because they mostly sleep.
    let runs: Vec<_> = ROWS
        .chunks(3)
        .flat_map(|rows| {
            let started: Vec<_> =
                rows.iter().map(|(_, program, _)| bench.start(&lab(program), &[])).collect();
            started.into_iter().map(super::bench::Running::finish).collect::<Vec<Run>>()
        })
        .collect();
    let mut wrong = Vec::new();
    for ((what, _, expected), run) in ROWS.iter().zip(runs) {
        let dump = run.dump();
        // Some failures are detected before the lab starts; the other labs keep their results.
        let began = run.records[0]["schema"] == "netarium.run/1";
        let kept = !began || {
            let record = run.record();
            run.folder().join("flows.parquet").is_file()
                && record["exit_code"] == 5
                && record["status"] != "running"
        };
        if run.code != Some(5) || !kept || !expected.iter().all(|part| dump.contains(part)) {
            wrong.push(format!("{what}: expected {expected:?}\n{dump}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n-----\n"));
    assert!(bench.ps().is_empty());
}

#[test]
fn second_interrupt_does_not_wait_for_programs() {
    requires_labs!();
    let bench = Bench::new();
    let stubborn =
        "run = \"trap '' INT TERM; touch deaf; while :; do sleep 0.1; done\"\ngrace = \"600 s\"";
    let mut running = bench.start(&lab(stubborn), &[]);
    until("the program to be deaf", || bench.path().join("deaf").exists().then_some(()));
    // Two signals may arrive as one while the command waits for a CPU. Without the second one the
    // run would last for the grace time.
    until("the run to end", || {
        running.signal("-TERM");
        std::thread::sleep(std::time::Duration::from_millis(500));
        running.is_over().then_some(())
    });
    let run = running.finish();
    assert_eq!(run.code, Some(130), "{}", run.dump());
    assert_eq!(run.record()["status"], "killed", "{}", run.dump());
    assert!(bench.ps().is_empty());
}

#[test]
fn failed_expectation_exits_with_code_1() {
    requires_labs!();
    let bench = Bench::new();
    let lab = lab("run = \"sleep 0.5\"")
        + "[[expect]]\nthat = \"flow.beside.goodput.mean >= 5 Mbit/s\"\n\
           [[expect]]\nthat = \"program.p.exit == 0\"\n";
    let run = bench.run(&lab);
    assert_eq!(run.code, Some(1), "{}", run.dump());
    let outcomes: Vec<_> = run.record()["expectations"].as_array().unwrap().iter().collect();
    assert_eq!(outcomes[0]["outcome"], "failed");
    assert_eq!(outcomes[1]["outcome"], "passed");
}
