//! The host of a run, and its effect on the results.

use base::{Distribution, Histogram};
use serde::{Deserialize, Serialize};

/// The host on which a run was executed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel name and release.
    pub kernel: String,
    pub cpu: String,
    /// CPUs available to the run.
    pub cores: u32,
    /// Memory of the host.
    pub memory_bytes: u64,
    /// Whether real-time scheduling was in force.
    pub realtime: bool,
}

/// The engine that exchanges packets between the network and the programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engine {
    pub name: String,
    pub why: String,
    /// Preferred engines that could not be used.
    #[serde(default)]
    pub rejected: Vec<RejectedEngine>,
}

/// An engine that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedEngine {
    pub name: String,
    /// Why it could not be used.
    pub reason: String,
}

/// Whether the results of a run are trusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub trusted: bool,
    /// Whether the hosts were fast enough: no packet left late or waited too long, none was dropped
    /// by the hosts, and built-in flows sent all datagrams. The hosts of an untrusted run, such as
    /// one with a lost agent, may have been fast enough. False in records of older versions.
    #[serde(default)]
    pub machine_fit: bool,
    /// The reasons why the results are not trusted, or the checks that passed.
    pub reasons: Vec<String>,
}

/// Lateness of packets that left the emulated network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Percentiles; `None` if no packet left.
    pub distribution: Option<Distribution>,
    /// Maximum p99.9 of a trusted run.
    pub tolerance_ns: u64,
    /// Lateness of every packet.
    pub histogram: Histogram,
}

/// Faults of the host during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostFaults {
    /// CPU time that the hypervisor gave to other guests (steal).
    pub steal_s: f64,
    /// Packets that the host dropped between programs and the network.
    pub dropped_packets: u64,
    /// Packets missing from captures.
    pub capture_drops: u64,
    /// Samples and log lines dropped because the disk was too slow.
    pub records_lost: u64,
    /// CPU time of the emulation itself, user and system.
    pub cpu_s: f64,
}

/// The CPU load of the host during a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostLoad {
    /// Mean CPU utilisation of the host, 0 to 1.
    pub busy: f64,
    /// CPU utilisation in the busiest second.
    pub busiest: f64,
    /// CPU time of built-in flows, recording and supervision.
    pub flows_cpu_s: f64,
    /// CPU time of the lab's programs; `None` if the system does not report it.
    pub programs_cpu_s: Option<f64>,
    /// Time for which the emulation was runnable but waited for a CPU; `None` if the system
    /// does not report this.
    pub cpu_wait_s: Option<f64>,
    /// Time for which the emulation gave up its real-time priority for other processes.
    pub suspended_s: f64,
    /// Maximum number of other labs of the same user that ran at the same time.
    pub other_labs: u32,
    /// Time for which any program on the host waited for memory; `None` if the system
    /// does not report this.
    pub memory_stall_s: Option<f64>,
}
