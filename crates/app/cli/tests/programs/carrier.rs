//! Carriers of interfaces whose links go down.

use super::bench::{Bench, Run, conclusive, requires_labs};

const LAB: &str = include_str!("../field/c13-carrier/lab.toml");

/// Maximum time from an event to the change of a carrier, in seconds.
const MAX_DELAY_S: f64 = 0.1;

#[test]
fn link_outage_toggles_carrier_at_both_ends() {
    let test = "link_outage_toggles_carrier_at_both_ends";
    requires_labs!("ip", "ping");
    let bench = Bench::new();
    // The time stamps of the monitors are comparable with those of the ping.
    let monitor = "timeout 11 ip -o -ts monitor link; true";
    let lab = LAB.replace("timeout 11 ip -o -t monitor link; true", monitor)
        + &format!("[[program]]\nname = \"mon-b-link\"\nnode = \"b\"\nrun = \"{monitor}\"\n");
    let attempt = || {
        let run = bench.run(&lab).passed();
        let printed = run.stdout("mon-b");
        let mut carriers: Vec<&str> =
            printed.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        carriers.dedup();
        assert_eq!(carriers, ["1", "0", "1"], "{printed}");
        for monitor in ["mon-a", "mon-b-link"] {
            let states = states(&run, monitor);
            let states: Vec<bool> = states.iter().map(|(_, carrier)| *carrier).collect();
            assert_eq!(states, [false, true], "{}", run.dump());
        }
        let ping = run.stdout("ping");
        assert!(ping.contains("time=10.") && !ping.contains(" 0% packet loss"), "{ping}");
        run
    };
    conclusive(test, attempt, changes_are_prompt);
}

/// Times and directions of the changes of a carrier since its loss, in seconds of the minute.
fn states(run: &Run, monitor: &str) -> Vec<(f64, bool)> {
    let printed = run.stdout(monitor);
    let state = |line: &str| {
        let stamp = line.strip_prefix('[')?.split(']').next()?;
        let seconds: f64 = stamp.rsplit(':').next()?.parse().ok()?;
        Some((seconds, !line.contains("NO-CARRIER")))
    };
    let states = printed.lines().filter_map(state);
    let mut states: Vec<(f64, bool)> = states.skip_while(|(_, carrier)| *carrier).collect();
    states.dedup_by_key(|(_, carrier)| *carrier);
    states
}

/// Whether both ends change at the same time, and 4 s apart.
fn changes_are_prompt(run: &Run) -> Result<(), String> {
    let [a, b] = ["mon-a", "mon-b-link"].map(|monitor| states(run, monitor));
    let apart = |from: f64, to: f64| (to - from).rem_euclid(60.0);
    let outage = apart(a[0].0, a[1].0);
    let skew = [0, 1].map(|at| apart(a[at].0, b[at].0).min(apart(b[at].0, a[at].0)));
    if (outage - 4.0).abs() > MAX_DELAY_S || skew.iter().any(|skew| *skew > MAX_DELAY_S) {
        return Err(format!("an outage of {outage} s, {skew:?} s apart at both ends"));
    }
    Ok(())
}
