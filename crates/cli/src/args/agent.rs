//! What `netarium agent` accepts, and how clusters are named and entered.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use base::{Bandwidth, Bytes};
use clap::Args;
use cluster_live::enrol::Invitation;

use crate::daemon::Privileges;

#[derive(Debug, Args)]
pub(crate) struct Agent {
    /// Its name in the cluster, which its certificate must have; by default the one there
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Where it listens, HOST or HOST:PORT; repeatable
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0", env = "NETARIUM_LISTEN")]
    #[arg(value_delimiter = ',', hide_env = true)]
    pub(crate) listen: Vec<String>,
    /// Another agent, HOST or HOST:PORT; repeatable. One is enough: agents tell of each other
    #[arg(long, value_name = "ADDRESS", env = "NETARIUM_JOIN")]
    #[arg(value_delimiter = ',', hide_env = true)]
    pub(crate) join: Vec<String>,
    /// Address for the labs' packets; by default that of --listen, or the machine's first
    #[arg(long, value_name = "IP")]
    pub(crate) trunk_address: Option<IpAddr>,
    /// UDP ports for them, one a lab, such as 40000-40099; by default whatever is free
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    pub(crate) trunk_ports: Option<RangeInclusive<u16>>,
    /// Folder for pieces of labs and their results; by default one in the temporary folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Results that nobody has fetched, at most
    #[arg(long, value_name = "BYTES", default_value = "4 GiB")]
    pub(crate) keep: Bytes,
    #[command(flatten)]
    pub(crate) access: Access,
    /// What `netarium cluster invite` printed: get the credentials first, if there are none
    #[arg(long, value_name = "INVITATION")]
    pub(crate) invitation: Option<Invitation>,
    #[command(flatten)]
    pub(crate) allowed: Allowed,
    #[command(flatten)]
    pub(crate) privileges: Privileges,
}

/// What the machine gives at most.
#[derive(Debug, Args)]
#[command(next_help_heading = "What labs get at most")]
pub(crate) struct Allowed {
    /// Processors; by default all
    #[arg(long, value_name = "N")]
    pub(crate) cores: Option<f64>,
    /// Memory; by default what is free
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory: Option<Bytes>,
    /// Rate of the interface for the labs' packets; by default as its driver says
    #[arg(long, value_name = "RATE")]
    pub(crate) nic: Option<Bandwidth>,
    /// Emulated traffic, in and out together; by default what the processors can carry
    #[arg(long, value_name = "RATE")]
    pub(crate) traffic: Option<Bandwidth>,
    /// Hosts
    #[arg(long, value_name = "N")]
    pub(crate) hosts: Option<u32>,
}

/// The own certificate.
#[derive(Clone, Debug, Args)]
pub(crate) struct Access {
    /// Folder with ca.pem, cert.pem, key.pem and, where certificates are revoked, crl.pem; by
    /// default netarium/credentials in the folder of the user's configuration
    #[arg(long, value_name = "DIR", env = "NETARIUM_CREDENTIALS", hide_env_values = true)]
    pub(crate) credentials: Option<PathBuf>,
}

/// Which cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct Target {
    /// The cluster: the address of an agent, HOST or HOST:PORT, or a file with several (.toml)
    #[arg(long, value_name = "AGENTS", env = "NETARIUM_CLUSTER", hide_env = true)]
    pub(crate) cluster: Option<String>,
    #[command(flatten)]
    pub(crate) access: Access,
}

impl Target {
    /// What was named; a variable that is empty names nothing.
    pub(crate) fn name(&self) -> Option<&str> {
        self.cluster.as_deref().filter(|name| !name.is_empty())
    }
}

fn ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let parsed = text.split_once('-').and_then(|(first, last)| {
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (0 < first && first <= last).then_some(first..=last)
    });
    parsed.ok_or_else(|| "write FIRST-LAST, such as 40000-40099".to_owned())
}
