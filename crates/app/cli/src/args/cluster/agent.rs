//! Arguments of `netarium agent`, and arguments that name a cluster.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use base::{Bandwidth, Bytes, Span};
use clap::Args;
use cluster_live::enrol::Invitation;

use crate::daemon::Privileges;

#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// Name in the cluster, which must be in its certificate; default: the certificate's name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Address to listen at, HOST or HOST:PORT; repeatable
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0", env = "NETARIUM_LISTEN")]
    #[arg(value_delimiter = ',', hide_env = true)]
    pub(crate) listen: Vec<String>,
    /// Another agent, HOST or HOST:PORT; repeatable. One is enough: agents exchange addresses
    #[arg(long, value_name = "ADDRESS", env = "NETARIUM_JOIN")]
    #[arg(value_delimiter = ',', hide_env = true)]
    pub(crate) join: Vec<String>,
    /// Address for the labs' packets; default: that of --listen, or the machine's first
    #[arg(long, value_name = "IP")]
    pub(crate) trunk_address: Option<IpAddr>,
    /// UDP ports for the labs' packets, one per lab, for example 40000-40099; default: any free
    /// port
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub(crate) trunk_ports: Option<RangeInclusive<u16>>,
    /// Folder for shards of labs and their results; default: a folder in the temporary folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Maximum size of results that have not been fetched
    #[arg(long, value_name = "BYTES", default_value = "4 GiB")]
    pub(crate) keep: Bytes,
    /// Time without heartbeats of this agent after which others treat it as lost, from 1 s to
    /// 1 min. Increase it if the machine or its network is slow
    #[arg(long, value_name = "TIME", default_value = "2 s", env = "NETARIUM_SILENCE_TIMEOUT")]
    #[arg(hide_env = true)]
    pub(crate) silence_timeout: Span,
    #[command(flatten)]
    pub(crate) access: Access,
    /// Invitation printed by `netarium cluster invite`; used to enrol if there are no credentials
    #[arg(long, value_name = "INVITATION")]
    pub(crate) invitation: Option<Invitation>,
    #[command(flatten)]
    pub(crate) allowed: Allowed,
    #[command(flatten)]
    pub(crate) watch: super::super::Watch,
    #[command(flatten)]
    pub(crate) privileges: Privileges,
}

/// Limits of the resources for labs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Resources for labs")]
pub(crate) struct Allowed {
    /// Maximum number of cores; default: all
    #[arg(long, value_name = "N")]
    pub(crate) cores: Option<f64>,
    /// Maximum memory; default: the free memory
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory: Option<Bytes>,
    /// Rate of the interface for the labs' packets; default: as reported by its driver
    #[arg(long, value_name = "RATE")]
    pub(crate) nic: Option<Bandwidth>,
    /// Maximum emulated traffic, in and out together; default: what the cores can carry
    #[arg(long, value_name = "RATE")]
    pub(crate) traffic: Option<Bandwidth>,
    /// Maximum number of emulated hosts
    #[arg(long, value_name = "N")]
    pub(crate) hosts: Option<u32>,
}

/// The credentials of this command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Access {
    /// Folder with ca.pem, cert.pem, key.pem and, if certificates are revoked, crl.pem; default:
    /// netarium/credentials in the user's configuration folder
    #[arg(long, value_name = "DIR", env = "NETARIUM_CREDENTIALS", hide_env_values = true)]
    pub(crate) credentials: Option<PathBuf>,
}

/// The arguments that select a cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// The cluster: the address of an agent, HOST or HOST:PORT, or a file with several (.toml)
    #[arg(long, value_name = "AGENTS", env = "NETARIUM_CLUSTER", hide_env = true)]
    pub(crate) cluster: Option<String>,
    #[command(flatten)]
    pub(crate) access: Access,
}

impl Target {
    /// The name of the cluster; an empty variable counts as none.
    pub(crate) fn name(&self) -> Option<&str> {
        self.cluster.as_deref().filter(|name| !name.is_empty())
    }
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let parsed = text.split_once('-').and_then(|(first, last)| {
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (0 < first && first <= last).then_some(first..=last)
    });
    parsed.ok_or_else(|| "write FIRST-LAST, for example 40000-40099".to_owned())
}
