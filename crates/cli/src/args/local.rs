//! What `netarium cluster local` accepts.

use std::ffi::OsString;
use std::path::PathBuf;

use base::Bandwidth;
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Local {
    /// How many agents
    #[arg(value_name = "AGENTS", value_parser = clap::value_parser!(u8).range(1..))]
    #[arg(required_unless_present = "names")]
    pub(crate) agents: Option<u8>,
    /// Their names, instead of m1, m2, …
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "agents")]
    pub(crate) names: Vec<String>,
    /// What each agent's cable carries each way, such as '1 Gbit/s'; by default all it can
    #[arg(long)]
    pub(crate) rate: Option<Bandwidth>,
    /// Start agents that have ended again, a second later
    #[arg(long)]
    pub(crate) restart: bool,
    /// Folder for the agents' output, NAME.log; by default it goes with the cluster
    #[arg(long, value_name = "DIR")]
    pub(crate) log: Option<PathBuf>,
    /// The command to run and its arguments; by default your shell
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
