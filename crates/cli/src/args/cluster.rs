//! What `netarium cluster` accepts, and `netarium run` of a cluster.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::agent::Target;
use super::local::Local;
use super::placement::{Manifest, Plan};

#[derive(Debug, Args)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    pub(crate) verb: ClusterVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterVerb {
    /// List the agents: what they can hold, what runs on them, and how they hear each other
    #[command(after_help = "Examples:\n  netarium cluster status --cluster 192.0.2.1\n  \
                            netarium cluster status --cluster hosts.toml --json")]
    Status(Target),
    /// Show which machine would have which hosts, and what it would carry at worst
    #[command(after_help = "Examples:\n  netarium cluster plan wan.toml --cluster hosts.toml\n  \
                            netarium cluster plan wan.toml --offline hosts.toml --json")]
    Plan(Plan),
    /// Write a cluster and a lab as a Kubernetes manifest
    #[command(after_help = "Examples:\n  \
                            netarium cluster manifest wan.toml | kubectl apply -f -\n  \
                            netarium cluster manifest wan.toml --agents 4 --memory 16Gi\n  \
                            netarium cluster manifest wan.toml --cpu 8 -- --seed 7")]
    Manifest(Manifest),
    /// Fetch the results of a lab whose coordinator went away
    #[command(after_help = "Examples:\n  netarium cluster collect wan\n  \
                            netarium cluster collect 48f0bec08466676d --stop")]
    Collect(Collect),
    /// Run a command beside agents of its own, on this machine, in namespaces
    #[command(after_help = "Examples:\n  netarium cluster local 3\n  \
                            netarium cluster local 2 -- netarium run wan.toml\n  \
                            netarium cluster local --names left,right --rate '1 Gbit/s'")]
    Local(Local),
}

#[derive(Debug, Args)]
pub(crate) struct Collect {
    /// Name or identifier of the lab, as `netarium cluster status` has it
    pub(crate) lab: String,
    /// End the lab where it still runs
    #[arg(long)]
    pub(crate) stop: bool,
    /// Folder that the run folder is made in
    #[arg(
        long,
        value_name = "DIR",
        default_value = "runs",
        env = "NETARIUM_RUNS",
        hide_env = true
    )]
    pub(crate) runs: PathBuf,
    /// Write no report.html
    #[arg(long)]
    pub(crate) no_report: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// How a lab is run on a cluster.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "On several machines")]
pub(crate) struct Spread {
    /// Do not encrypt packets between machines, only authenticate them
    #[arg(long)]
    pub(crate) clear: bool,
    /// Run it though the worst case exceeds what the machines can carry
    #[arg(long)]
    pub(crate) overcommit: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}
