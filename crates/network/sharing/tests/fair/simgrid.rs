//! Comparison with `SimGrid` (Casanova et al., JPDC 2014): its model CM02 without corrections uses
//! weighted max-min sharing too.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::instances::{Kind, draw};
use super::oracle::difference;

/// The Python interpreter that the distribution's package `python3-simgrid` supports.
const PYTHON: &str = "/usr/bin/python3";
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fair/shares.py");
const INSTANCES: usize = 1_000;

/// Whether `SimGrid` is installed. If not, the test prints a note and is skipped; in CI it fails.
#[expect(clippy::disallowed_methods, reason = "CI tells by its environment that it is CI")]
fn present(test: &str) -> bool {
    let probe = Command::new(PYTHON).args(["-c", "import simgrid"]).output();
    if probe.is_ok_and(|output| output.status.success()) {
        return true;
    }
    let why = format!("{test}: SimGrid is not here: apt-get install python3-simgrid");
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
    eprintln!("SKIPPED {why}");
    false
}

/// All instances in one network, side by side, in `SimGrid`'s input format.
fn network() -> (String, Vec<f64>) {
    let (mut links, mut flows, mut ours) = (String::new(), String::new(), Vec::new());
    let mut first = 0;
    for number in 0..INSTANCES {
        let problem = draw(Kind::Network, number);
        for capacity in &problem.capacities {
            writeln!(links, "{capacity}").unwrap();
        }
        for flow in &problem.flows {
            let cap = if flow.cap.is_finite() { flow.cap } else { 0.0 };
            write!(flows, "{} {cap} {}", flow.weight, flow.path.len()).unwrap();
            for link in &flow.path {
                write!(flows, " {}", first + *link as usize).unwrap();
            }
            flows.push('\n');
        }
        first += problem.capacities.len();
        ours.extend(problem.solve());
    }
    (format!("{first} {}\n{links}{flows}", ours.len()), ours)
}

#[test]
fn simgrid_gives_the_same_shares() {
    if !present("simgrid_gives_the_same_shares") {
        return;
    }
    let (input, ours) = network();
    let mut child = Command::new(PYTHON)
        .arg(PROGRAM)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It reads all input before it writes.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: Vec<f64> = said.lines().map(|line| line.parse().unwrap()).collect();
    let difference = difference(&ours, &theirs);
    eprintln!(
        "{INSTANCES} instances, {} flows, relative difference up to {difference:.1e}",
        ours.len()
    );
    assert!(difference <= 1e-6, "{difference}");
}
