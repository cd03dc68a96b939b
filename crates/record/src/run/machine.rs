//! The machine of a run, and what it did to the run.

use base::{Distribution, Histogram};
use serde::{Deserialize, Serialize};

/// The machine that a run took place on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel name and release.
    pub kernel: String,
    /// Processor model.
    pub cpu: String,
    /// Processors that the run could use.
    pub cores: u32,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Whether real-time scheduling was in force.
    pub realtime: bool,
}

/// Which engine moved packets between the network and the programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    /// Its name.
    pub name: String,
    /// Why it was chosen.
    pub why: String,
    /// Better ones that were not possible.
    #[serde(default)]
    pub rejected: Vec<RejectedEngine>,
}

/// An engine that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedEngine {
    /// Its name.
    pub name: String,
    /// What stood in the way.
    pub reason: String,
}

/// Whether a run's numbers are the lab's or the machine's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// No reason against it was found.
    pub trusted: bool,
    /// What was checked and found, in words; the reasons against trust where there are any.
    pub reasons: Vec<String>,
}

/// How late packets left the emulated network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// The usual percentiles; `None` when no packet left.
    pub distribution: Option<Distribution>,
    /// The p99.9 above which the run is not trusted.
    pub tolerance_ns: u64,
    /// Every packet.
    pub histogram: Histogram,
}

/// What the machine lost or was denied during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFaults {
    /// Processor time that the hypervisor gave to others.
    pub steal_s: f64,
    /// Packets that the machine dropped between a program and the network.
    pub dropped_packets: u64,
    /// Packets that passed but are missing from captures.
    pub capture_drops: u64,
    /// Samples and log lines that could not be written in time.
    pub records_lost: u64,
    /// Processor time that the emulation itself used, user and system.
    pub cpu_s: f64,
}

/// How busy the machine was during a run, and with what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostLoad {
    /// Share of the machine's processor time that anything used, 0 to 1.
    pub busy: f64,
    /// The same in the busiest second.
    pub busiest: f64,
    /// Processor time of built-in flows, of recording and of the lab's supervision.
    pub flows_cpu_s: f64,
    /// Processor time of the lab's programs; `None` where the system does not tell.
    pub programs_cpu_s: Option<f64>,
    /// How long the emulation waited for a processor though it could have run; `None` where the
    /// system does not tell.
    pub cpu_wait_s: Option<f64>,
    /// How long the emulation did without its real-time priority, so that others had their turn.
    pub suspended_s: f64,
    /// The most other labs of the same user that ran at once.
    pub other_labs: u32,
    /// How long some program of the machine waited for memory; `None` where the system does not
    /// tell.
    pub memory_stall_s: Option<f64>,
}
