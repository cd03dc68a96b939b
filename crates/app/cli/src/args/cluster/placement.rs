//! Arguments of `netarium cluster plan` and `netarium cluster manifest`.

use std::path::PathBuf;

use base::Span;
use clap::Args;

use super::super::Changes;
use super::agent::Target;

#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Do not connect; use the machines in the file's [machine.NAME] tables
    #[arg(long, value_name = "HOSTS.TOML", conflicts_with = "cluster")]
    pub(crate) offline: Option<PathBuf>,
    /// With --offline: one-way delay between the machines
    #[arg(long, value_name = "TIME", default_value = "50 us", requires = "offline")]
    pub(crate) between: Span,
    /// Plan the lab even if its worst case exceeds the resources of the machines
    #[arg(long)]
    pub(crate) overcommit: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Manifest {
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Container image with netarium and the lab's programs
    #[arg(long, value_name = "IMAGE", default_value = "netarium:latest")]
    pub(crate) image: String,
    /// Prefix of the names of all objects
    #[arg(long, value_name = "NAME", default_value = "netarium")]
    pub(crate) prefix: String,
    /// Namespace of the objects; default: that of kubectl
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Number of agents, each on a different node; default: one on every node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(conflicts_with = "node_selector")]
    pub(crate) agents: Option<u32>,
    /// Run agents only on nodes with this label; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) node_selector: Vec<(String, String)>,
    /// Secret with the agents' ca.pem, cert.pem and key.pem
    #[arg(long, value_name = "NAME", default_value = "netarium-agent")]
    pub(crate) agent_secret: String,
    /// Secret with the coordinator's ca.pem, cert.pem and key.pem, for the job
    #[arg(long, value_name = "NAME", default_value = "netarium-coordinator")]
    pub(crate) coordinator_secret: String,
    /// For nodes without `AppArmor`: agents' pods have no profile
    #[arg(long)]
    pub(crate) no_apparmor: bool,
    /// Agents use the nodes' network instead of the pod network
    #[arg(long)]
    pub(crate) host_network: bool,
    /// Cores of each agent, for example 4
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cpu: Option<u32>,
    /// Memory of each agent, for example 8Gi
    #[arg(long, value_name = "QUANTITY", value_parser = memory)]
    pub(crate) memory: Option<String>,
    /// Persistent volume claim for the results; without it they are lost with the job's pod
    #[arg(long, value_name = "CLAIM")]
    pub(crate) results: Option<String>,
    /// Further arguments of `netarium run`
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<String>,
}

fn label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
    parts
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| "write a label and its value, for example pool=labs".to_owned())
}

/// Whole numbers with Kubernetes' suffixes, which can be converted to MiB for labs.
fn memory(text: &str) -> Result<String, String> {
    let number = ["Mi", "Gi", "Ti"].iter().find_map(|unit| text.strip_suffix(unit));
    let is_valid = number.and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n > 0);
    if is_valid {
        Ok(text.to_owned())
    } else {
        Err("write a whole number with Mi, Gi or Ti, for example 8Gi".to_owned())
    }
}
