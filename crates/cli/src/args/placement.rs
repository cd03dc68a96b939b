//! What `netarium cluster plan` and `netarium cluster manifest` accept.

use std::path::PathBuf;

use base::Span;
use clap::Args;

use super::Changes;
use super::agent::Target;

#[derive(Debug, Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Do not connect: machines are what the file's [machine.NAME] say
    #[arg(long, value_name = "HOSTS.TOML", conflicts_with = "cluster")]
    pub(crate) offline: Option<PathBuf>,
    /// With --offline: one-way delay between the machines
    #[arg(long, value_name = "TIME", default_value = "50 us", requires = "offline")]
    pub(crate) between: Span,
    /// Plan it though the worst case exceeds what the machines can carry
    #[arg(long)]
    pub(crate) overcommit: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

#[derive(Debug, Args)]
pub(crate) struct Manifest {
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Container image with netarium and what the lab's programs need
    #[arg(long, value_name = "IMAGE", default_value = "netarium:latest")]
    pub(crate) image: String,
    /// Put before the names of all objects
    #[arg(long, value_name = "NAME", default_value = "netarium")]
    pub(crate) prefix: String,
    /// Where the objects belong; by default as kubectl is told
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// So many agents, each on another node, instead of one on every node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    #[arg(conflicts_with = "node_selector")]
    pub(crate) agents: Option<u32>,
    /// Agents only on nodes with this label; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) node_selector: Vec<(String, String)>,
    /// Secret with the agents' ca.pem, cert.pem and key.pem
    #[arg(long, value_name = "NAME", default_value = "netarium-agent")]
    pub(crate) agent_secret: String,
    /// Secret with those of the job, which is a coordinator
    #[arg(long, value_name = "NAME", default_value = "netarium-coordinator")]
    pub(crate) coordinator_secret: String,
    /// Nodes have no `AppArmor`: agents' pods name no profile
    #[arg(long)]
    pub(crate) no_apparmor: bool,
    /// Agents use the nodes' network instead of the pods'
    #[arg(long)]
    pub(crate) host_network: bool,
    /// Cores of each agent, such as 4
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) cpu: Option<u32>,
    /// Memory of each agent, such as 8Gi
    #[arg(long, value_name = "QUANTITY", value_parser = memory)]
    pub(crate) memory: Option<String>,
    /// Claim of the volume that gets the results; without it they end with the job's pod
    #[arg(long, value_name = "CLAIM")]
    pub(crate) results: Option<String>,
    /// More for `netarium run`, after `--`
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<String>,
}

fn label(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
    parts
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| "write a label and its value, such as pool=labs".to_owned())
}

/// Whole numbers with Kubernetes' suffixes, so that labs can be told the same in MiB.
fn memory(text: &str) -> Result<String, String> {
    let number = ["Mi", "Gi", "Ti"].iter().find_map(|unit| text.strip_suffix(unit));
    let fine = number.and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n > 0);
    if fine { Ok(text.to_owned()) } else { Err("a whole number and Mi, Gi or Ti: 8Gi".to_owned()) }
}
