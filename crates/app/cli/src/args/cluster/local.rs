//! Arguments of `netarium cluster local`.

use std::ffi::OsString;
use std::path::PathBuf;

use base::Bandwidth;
use clap::Args;

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
