//! What `netarium cluster` accepts, and `netarium run` of a cluster.

use std::path::PathBuf;

use base::Span;
use clap::{Args, Subcommand, ValueEnum};
use cluster_live::enrol::Invitation;

use super::agent::{Access, Target};
use super::local::Local;
use super::placement::{Manifest, Plan};

#[derive(Debug, Args)]
pub(crate) struct Cluster {
    #[command(subcommand)]
    pub(crate) verb: ClusterVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterVerb {
    /// Make an authority, and certificates for agents and coordinators
    #[command(after_help = "Examples:\n  \
                            netarium cluster init --agent one --agent two\n  \
                            netarium cluster init --dir pki --coordinator ci --days 30")]
    Init(Init),
    /// Let one machine enrol over the network, with a code that is valid once
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

/// What a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    /// Runs parts of labs, and obeys coordinators
    Agent,
    /// Runs labs on agents
    Coordinator,
}

/// Where the authority is.
#[derive(Debug, Args)]
pub(crate) struct Authority {
    /// Folder of the authority
    #[arg(long, value_name = "DIR", default_value = "netarium-authority")]
    pub(crate) dir: PathBuf,
}

/// How certificates are signed.
#[derive(Debug, Args)]
pub(crate) struct Signing {
    #[command(flatten)]
    pub(crate) authority: Authority,
    /// Days that the certificate is valid
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
    /// Name of a coordinator; repeatable. With a new authority, by default `coordinator`
    #[arg(long = "coordinator", value_name = "NAME")]
    pub(crate) coordinators: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Revoke {
    /// Name of an agent or a coordinator
    pub(crate) name: String,
    /// Which of both, where the name has two roles
    #[arg(long, value_enum)]
    pub(crate) role: Option<Role>,
    #[command(flatten)]
    pub(crate) authority: Authority,
}

#[derive(Debug, Args)]
pub(crate) struct Invite {
    #[command(flatten)]
    pub(crate) signing: Signing,
    /// What the machine becomes
    #[arg(long, value_enum, default_value_t = Role::Agent)]
    pub(crate) role: Role,
    /// Name in the certificate; by default the one that the machine asks for, which must be new
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0")]
    pub(crate) listen: String,
    /// Address in the invitation; by default the one of --listen, or the machine's first
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,
    /// Time in which the machine must enrol
    #[arg(long, value_name = "TIME", default_value = "10 min")]
    pub(crate) expires: Span,
}

#[derive(Debug, Args)]
pub(crate) struct Enrol {
    /// What `netarium cluster invite` printed
    pub(crate) invitation: Invitation,
    /// Name to ask for; by default the host's
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) access: Access,
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
