//! Arguments of `netarium link`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::Engine;

/// Quantities are texts of the lab file, whose compiler checks them.
#[derive(Debug, Args)]
pub(crate) struct Link {
    /// Wire rate of each direction, for example '10 Mbit/s'; default: unlimited
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<String>,
    /// One-way delay, for example '20 ms'
    #[arg(long, value_name = "TIME")]
    pub(crate) delay: Option<String>,
    /// Random part of the delay: a standard deviation, or a table as in the lab file
    #[arg(long, value_name = "TIME")]
    pub(crate) jitter: Option<String>,
    /// Loss probability, for example '1 %', or a table as in the lab file
    #[arg(long, value_name = "SHARE")]
    pub(crate) loss: Option<String>,
    /// Queue: a kind (codel), a limit ('100 packets', unlimited), or a table as in the lab file
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
    /// Delivery opportunities instead of a rate: a file in Mahimahi's format
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<String>,
    /// Probability that a packet arrives twice
    #[arg(long, value_name = "SHARE")]
    pub(crate) duplicate: Option<String>,
    /// Probability that one bit of a packet is flipped
    #[arg(long, value_name = "SHARE")]
    pub(crate) corrupt: Option<String>,
    /// Delays some packets: { probability = "1 %", by = "5 ms" }
    #[arg(long, value_name = "TABLE")]
    pub(crate) reorder: Option<String>,
    /// Maximum layer-3 packet, for example '1400 B'
    #[arg(long, value_name = "SIZE")]
    pub(crate) mtu: Option<String>,
    /// Properties of the direction from COMMAND, for example 'rate=1 Mbit/s,loss=2 %'; repeatable
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(crate) up: Vec<String>,
    /// Properties of the direction to COMMAND; repeatable
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(crate) down: Vec<String>,
    /// Link to a second program, a line for /bin/sh, on the host `peer`, instead of the machine's
    /// network
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) to: Option<String>,
    /// Start COMMAND when PROGRAM is ready: 'port 80', 'output "text"', or another condition of the
    /// lab file
    #[arg(long, value_name = "CONDITION", requires = "to")]
    pub(crate) ready: Option<String>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<String>,
    /// Send SIGTERM to COMMAND after this time; default: 720 h
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Keep the run folder in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) runs: Option<PathBuf>,
    /// Write the summary to a file instead of standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Datapath engine; default: the fastest that works on this machine
    #[arg(long, env = "NETARIUM_ENGINE", hide_env = true)]
    pub(crate) engine: Option<Engine>,
    /// The command and its arguments; default: your shell
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
