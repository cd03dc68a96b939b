//! Parallel labs of one command leave no resources after any end of the command.

use super::bench::{Bench, Running, until};
use super::cell::{self, Inventory};

const LAB: &str = r#"
lab = { name = "crowd", duration = "60 s" }
node.a = {}
node.b = {}
link = [{ ends = ["a", "b"], rate = "10 Mbit/s" }]
[[program]]
node = "b"
run = "setsid sleep 71717 & sleep 71717"
grace = "100 ms"
"#;

#[test]
fn stopping_several_labs_leaves_no_resources() {
    cell::run("stopping_several_labs_leaves_no_resources", "faults::together::end_all");
}

#[test]
#[ignore = "runs in a cell, started by stopping_several_labs_leaves_no_resources"]
fn end_all() {
    if !cell::is_inside() {
        return;
    }
    let bench = Bench::new();
    bench.write("crowd.toml", LAB);
    let before = Inventory::take(&bench);
    for (signals, built) in [
        (&["-INT"][..], true),
        (&["-TERM"], false),
        (&["-INT", "-INT"], true),
        (&["-KILL"], true),
        (&["-KILL"], false),
    ] {
        let args = ["run", "crowd.toml", "crowd.toml", "--no-progress", "--json"];
        let running = Running::spawn(&mut bench.command(&args));
        if built {
            until("both labs", || (bench.ps().len() == 2).then_some(()));
        } else {
            // Its first job is being created, and signals are handled.
            let folders = || std::fs::read_dir(bench.path().join("runs")).map(Iterator::count);
            let had = folders().unwrap_or(0);
            until("a job", || folders().is_ok_and(|now| now > had).then_some(()));
        }
        for signal in signals {
            running.signal(signal);
        }
        let output = running.output();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        match (signals, output.status.code()) {
            (["-KILL"], None) | (["-INT" | "-TERM"] | ["-INT", "-INT"], Some(130)) => {}
            (_, code) => panic!("{signals:?}: {code:?} {printed}"),
        }
        until("the labs to end", || bench.ps().is_empty().then_some(()));
        before.returns(&bench, &format!("by {signals:?}, built: {built}"));
    }
}
