//! Arguments of `netarium cluster` and `netarium agent`, and of `netarium run` on a cluster.

use std::ffi::OsString;
use std::path::PathBuf;

use base::{Bandwidth, Span};
use clap::{Args, Subcommand, ValueEnum};
use cluster_live::enrol::Invitation;

pub(crate) mod agent;
#[cfg(test)]
mod kubernetes;

use super::Changes;
pub(crate) use agent::Agent;
use agent::{Access, Target};

#[derive(Debug, Args)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    pub(crate) command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Create a certificate authority, and certificates for agents and coordinators
    #[command(after_help = "Examples:\n  \
                            netarium cluster init --agent one --agent two\n  \
                            netarium cluster init --dir pki --coordinator ci --days 30")]
    Init(Init),
    /// Let one machine enrol over the network with a one-time code
    #[command(after_help = "Examples:\n  netarium cluster invite\n  \
                            netarium cluster invite --name three --expires 5min\n  \
                            netarium cluster invite --role coordinator --host 192.0.2.9")]
    Invite(Invite),
    /// Revoke the certificates of a name
    #[command(after_help = "Examples:\n  netarium cluster revoke three\n  \
                            netarium cluster revoke ci --role coordinator --dir pki")]
    Revoke(Revoke),
    /// Get credentials with an invitation
    #[command(after_help = "Examples:\n  netarium cluster enrol 192.0.2.9:7448/CODE\n  \
                            netarium cluster enrol 192.0.2.9:7448/CODE --name me")]
    Enrol(Enrol),
    /// Show the agents, their resources, labs, clocks and connections
    #[command(after_help = "Examples:\n  netarium cluster status --cluster 192.0.2.1\n  \
                            netarium cluster status --cluster hosts.toml --json")]
    Status(Target),
    /// Show the placement of a lab on machines and their worst-case load, without running it
    #[command(after_help = "Examples:\n  netarium cluster plan wan.toml --cluster hosts.toml\n  \
                            netarium cluster plan wan.toml --offline hosts.toml --json")]
    Plan(Plan),
    /// Fetch the results of a lab whose coordinator was lost
    #[command(after_help = "Examples:\n  netarium cluster collect wan\n  \
                            netarium cluster collect 48f0bec08466676d --stop")]
    Collect(Collect),
    /// Run a command with local agents in network namespaces of this machine
    #[command(after_help = "Examples:\n  netarium cluster local 3\n  \
                            netarium cluster local 2 -- netarium run wan.toml\n  \
                            netarium cluster local --names left,right --rate '1 Gbit/s'")]
    Local(Local),
}

/// The role in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Runs shards of labs for coordinators
    Agent,
    /// Runs labs on agents
    Coordinator,
}

/// The certificate authority.
#[derive(Debug, Args)]
pub(crate) struct Authority {
    /// Folder of the authority
    #[arg(long, value_name = "DIR", default_value = "netarium-authority")]
    pub(crate) dir: PathBuf,
}

/// Options of signing.
#[derive(Debug, Args)]
pub(crate) struct Signing {
    #[command(flatten)]
    pub(crate) authority: Authority,
    /// Validity of the certificate in days
    #[arg(long, value_name = "N", default_value_t = 365)]
    pub(crate) days: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    #[command(flatten)]
    pub(crate) signing: Signing,
    /// Name of an agent; repeatable. `NAME*` permits all names with this prefix, for agents that
    /// share a certificate
    #[arg(long = "agent", value_name = "NAME")]
    pub(crate) agents: Vec<String>,
    /// Name of a coordinator; repeatable. Default with a new authority: `coordinator`
    #[arg(long = "coordinator", value_name = "NAME")]
    pub(crate) coordinators: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// Name of an agent or a coordinator
    pub(crate) name: String,
    /// The role, if the name has both
    #[arg(long, value_enum)]
    pub(crate) role: Option<Role>,
    #[command(flatten)]
    pub(crate) authority: Authority,
}

#[derive(Debug, Args)]
pub(crate) struct Invite {
    #[command(flatten)]
    pub(crate) signing: Signing,
    /// Role of the new machine
    #[arg(long, value_enum, default_value_t = Role::Agent)]
    pub(crate) role: Role,
    /// Name in the certificate; default: the name that the machine requests, which must be new
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Address to listen at
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub(crate) listen: String,
    /// Address in the invitation; default: that of --listen, or the machine's first
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Validity of the invitation
    #[arg(long, value_name = "TIME", default_value = "10 min")]
    pub(crate) expires: Span,
}

#[derive(Debug, Args)]
pub(crate) struct Enrol {
    /// Invitation printed by `netarium cluster invite`
    pub(crate) invitation: Invitation,
    /// Name to request; default: the host name
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) access: Access,
}

#[derive(Debug, Args)]
pub(crate) struct Collect {
    /// Name or identifier of the lab, as shown by `netarium cluster status`
    pub(crate) lab: String,
    /// Stop the lab if it is still running
    #[arg(long)]
    pub(crate) stop: bool,
    /// Folder for run folders
    #[arg(long, value_name = "DIR", default_value = "runs")]
    #[arg(env = "NETARIUM_RUNS", hide_env = true)]
    pub(crate) runs: PathBuf,
    /// Write no report.html
    #[arg(long)]
    pub(crate) no_report: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// Options of a run on a cluster.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "On a cluster")]
pub(crate) struct Spread {
    /// Authenticate packets between machines, but do not encrypt them
    #[arg(long)]
    pub(crate) clear: bool,
    /// Run the lab even if its worst case exceeds the resources of the machines
    #[arg(long)]
    pub(crate) overcommit: bool,
    #[command(flatten)]
    pub(crate) target: Target,
}

impl Spread {
    /// The name of the cluster; `None` for a run on this machine.
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.target.name()
    }
}

#[derive(Debug, Args)]
pub(crate) struct Local {
    /// Number of agents
    #[arg(value_name = "AGENTS", value_parser = clap::value_parser!(u8).range(1..))]
    #[arg(required_unless_present = "names")]
    pub(crate) agents: Option<u8>,
    /// Names of the agents; default: m1, m2, …
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "agents")]
    pub(crate) names: Vec<String>,
    /// Rate of each agent's link per direction, for example '1 Gbit/s'; default: unlimited
    #[arg(long)]
    pub(crate) rate: Option<Bandwidth>,
    /// Restart agents one second after they have ended
    #[arg(long)]
    pub(crate) restart: bool,
    /// Folder for the agents' output, NAME.log; default: a temporary folder
    #[arg(long, value_name = "DIR")]
    pub(crate) log: Option<PathBuf>,
    /// The command and its arguments; default: your shell
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

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
