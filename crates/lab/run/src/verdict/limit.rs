//! Describes the limit of the host that a run reached.

use super::{MachineStats, REPORTED_STEAL_SHARE};

/// CPU utilisation from which a host counts as fully loaded.
pub const FULL_CPU_SHARE: f64 = 0.9;

/// Share of the run from which steal time explains late packets, independent of other load.
const HIGH_STEAL_SHARE: f64 = 0.05;

/// Share of the run above which waits for a CPU or for memory are reported.
const REPORTED_WAIT_SHARE: f64 = 0.01;

/// Describes the limit of the host that the run reached, from measurements.
pub(super) fn limit(elapsed: f64, machine: &MachineStats<'_>) -> String {
    let MachineStats { load, cpus, .. } = *machine;
    let elapsed = elapsed.max(1e-9);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let datapath = machine.cpu.as_secs_f64() / elapsed;
    let lab_cpus = datapath + (load.flows_cpu_s + load.programs_cpu_s.unwrap_or(0.0)) / elapsed;
    let is_full = load.busiest >= FULL_CPU_SHARE;
    let mut facts = Vec::new();
    let noun = if cpus == 1 { "CPU was" } else { "CPUs were" };
    let owner = match machine.name {
        "" => "the machine's".to_owned(),
        name => format!("{name}'s"),
    };
    facts.push(if load.busy >= FULL_CPU_SHARE || !is_full {
        format!("{owner} {cpus} {noun} {} busy", percent(load.busy))
    } else {
        let (peak, mean) = (percent(load.busiest), percent(load.busy));
        format!("{owner} {cpus} {noun} {peak} busy in the busiest second, {mean} on average")
    });
    facts.push(match load.other_labs {
        0 => "no other lab ran".to_owned(),
        1 => "1 other lab ran".to_owned(),
        labs => format!("{labs} other labs ran"),
    });
    facts.push(format!("this lab used {lab_cpus:.2} CPUs"));
    if datapath >= FULL_CPU_SHARE {
        facts.push(format!("its data path used {} of its one CPU", percent(datapath)));
    }
    if let Some(wait) = load.cpu_wait_s.filter(|wait| *wait / elapsed > REPORTED_WAIT_SHARE) {
        facts.push(format!("its data path waited {wait:.2} s for a CPU"));
    }
    let stall = load.memory_stall_s.filter(|stall| *stall / elapsed > REPORTED_WAIT_SHARE);
    if let Some(stall) = stall {
        facts.push(format!("programs waited {stall:.2} s for memory"));
    }
    let peak = load.busiest * cpus as f64 / 2.0;
    let steal = machine.faults.steal_s / elapsed;
    let hypervisor =
        "the hypervisor gave the CPUs to other guests: run it when the physical host is less busy";
    let advice = if datapath >= FULL_CPU_SHARE {
        "the network carries more packets than one CPU can move: lower its rates"
    } else if steal > HIGH_STEAL_SHARE {
        hypervisor
    } else if is_full && lab_cpus * (f64::from(load.other_labs) + 1.0) < peak {
        // Even if every other lab uses as many CPUs as this one.
        "stop other programs on the machine"
    } else if is_full && load.other_labs > 0 {
        "run fewer labs at once"
    } else if is_full {
        "lower the lab's rates or its number of programs, or use a machine with more CPUs"
    } else if stall.is_some() {
        "give the machine more memory"
    } else if steal > REPORTED_STEAL_SHARE {
        hypervisor
    } else {
        "none of this explains it: a hypervisor can stop a virtual machine for milliseconds \
         without reporting it; run it again or on a physical machine, or raise the tolerance"
    };
    format!("{}; {advice}", facts.join(", "))
}
