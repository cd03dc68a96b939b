//! Interactive commands on hosts of a lab.

use super::bench::{Bench, is_root, requires_labs};

const LAB: &str = r#"
lab = { name = "terminals", duration = "200 s" }
[node.a]
[node.b]
[[link]]
ends = ["a", "b"]
[[program]]
node = "a"
run = "sleep 200"
"#;

/// Runs a Python script that starts commands on pseudoterminals.
#[track_caller]
pub(super) fn run_on_terminal(bench: &Bench, script: &str, args: &[&str]) {
    bench.write("session.py", include_str!("session.py"));
    bench.write("script.py", script);
    let mut python = std::process::Command::new("python3");
    bench.prepare(&mut python);
    python.args(["-B", "script.py", super::bench::NETARIUM]).args(args);
    let output = python.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn gives_interactive_commands_a_terminal_of_the_lab() {
    requires_labs!("python3");
    let bench = Bench::new();
    let run = bench.start(LAB, &[]);
    bench.wait_for("terminals");
    run_on_terminal(&bench, include_str!("terminal.py"), is_root().then_some("--root").as_slice());
    run.signal("-INT");
    run.finish();
}
