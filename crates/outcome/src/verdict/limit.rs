//! The limit of a machine that a run met.

use super::{MachineSeen, Seen};

/// From this share of its CPUs on a machine counts as full.
pub const FULL: f64 = 0.9;

/// Steal above this share of the run explains why packets were late.
const GRAVE_STEAL: f64 = 0.05;

/// Waiting for a CPU or for memory is worth a word above this share of the run.
const NOTABLE_WAIT: f64 = 0.01;

/// Names the limit of the machine that a run met, from nothing but what was measured.
pub(super) fn limit(seen: &Seen<'_>, machine: &MachineSeen<'_>) -> String {
    let MachineSeen { load, cpus, .. } = *machine;
    let elapsed = seen.elapsed.max(1e-9);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let datapath = machine.cpu.as_secs_f64() / elapsed;
    let own = datapath + (load.flows_cpu_s + load.programs_cpu_s.unwrap_or(0.0)) / elapsed;
    let full = load.busiest >= FULL;
    let mut facts = Vec::new();
    let noun = if cpus == 1 { "CPU was" } else { "CPUs were" };
    let whose = match machine.name {
        "" => "the machine's".to_owned(),
        name => format!("{name}'s"),
    };
    facts.push(if load.busy >= FULL || !full {
        format!("{whose} {cpus} {noun} {} busy", percent(load.busy))
    } else {
        let (most, mean) = (percent(load.busiest), percent(load.busy));
        format!("{whose} {cpus} {noun} {most} busy in the busiest second, {mean} on average")
    });
    facts.push(match load.other_labs {
        0 => "no other lab ran".to_owned(),
        1 => "1 other lab ran".to_owned(),
        labs => format!("{labs} other labs ran"),
    });
    facts.push(format!("this lab used {own:.2} CPUs"));
    if datapath >= FULL {
        facts.push(format!("its data path {} of the one that it can use", percent(datapath)));
    }
    if let Some(wait) = load.cpu_wait_s.filter(|wait| *wait / elapsed > NOTABLE_WAIT) {
        facts.push(format!("its data path waited {wait:.2} s for a CPU"));
    }
    let stall = load.memory_stall_s.filter(|stall| *stall / elapsed > NOTABLE_WAIT);
    if let Some(stall) = stall {
        facts.push(format!("programs waited {stall:.2} s for memory"));
    }
    let most = load.busiest * cpus as f64 / 2.0;
    let advice = if datapath >= FULL {
        "the network carries more packets than one CPU can move: lower its rates"
    } else if machine.faults.steal_s / elapsed > GRAVE_STEAL {
        "the hypervisor gave the CPUs to others: run it when the machine's own host is quieter"
    } else if full && own * (f64::from(load.other_labs) + 1.0) < most {
        // Even where all labs are like this one.
        "end what else runs on the machine"
    } else if full && load.other_labs > 0 {
        "run fewer labs at once"
    } else if full {
        "lower the lab's rates or its number of programs, or use a machine with more CPUs"
    } else if stall.is_some() {
        "give the machine more memory"
    } else {
        "none of this explains it: it takes a machine with a steadier clock, or more tolerance"
    };
    format!("{}; {advice}", facts.join(", "))
}
