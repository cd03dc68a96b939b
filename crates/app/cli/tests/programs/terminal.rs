//! Interactive commands on hosts of a lab.

use super::bench::{Bench, enclosed, installed, is_root};

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

#[test]
fn gives_interactive_commands_a_terminal_of_the_lab() {
    let test = "gives_interactive_commands_a_terminal_of_the_lab";
    if !enclosed(test) || !installed(test, &["python3"]) {
        return;
    }
    let bench = Bench::new();
    let run = bench.start(LAB, &[]);
    bench.wait_for("terminals");
    bench.write("terminal.py", include_str!("terminal.py"));
    let mut python = std::process::Command::new("python3");
    bench.dress(&mut python);
    python.args(["terminal.py", super::bench::NETARIUM]).args(is_root().then_some("--root"));
    let output = python.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    run.signal("-INT");
    run.finish();
}
