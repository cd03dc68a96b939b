//! Arguments of `netarium cluster plan`.

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
