//! Arguments of `agent`, `cluster` and `run --cluster` in a build without clusters, which rejects
//! them with a message.

use std::ffi::OsString;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Agent {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Cluster {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<OsString>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Spread {
    #[arg(long, value_name = "AGENTS", env = "NETARIUM_CLUSTER", hide = true)]
    cluster: Option<String>,
}

impl Spread {
    pub(crate) fn cluster(&self) -> Option<&str> {
        self.cluster.as_deref().filter(|name| !name.is_empty())
    }
}
