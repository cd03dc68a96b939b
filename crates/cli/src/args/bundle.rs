//! What `netarium bundle` accepts.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::daemon::Privileges;

#[derive(Debug, Args)]
pub(crate) struct Bundle {
    #[command(subcommand)]
    pub(crate) verb: BundleVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BundleVerb {
    /// Run the sendbox of a site's bundles on its gateway
    #[command(after_help = "Examples:\n  netarium bundle send --config send.toml --check\n  \
                            netarium bundle send --config send.toml")]
    Send(Run),
    /// Run the receivebox of a site's bundles on its gateway
    #[command(
        after_help = "Examples:\n  netarium bundle receive --config receive.toml --check\n  \
                            netarium bundle receive --config receive.toml"
    )]
    Receive(Run),
    /// Say how the boxes of this machine do
    #[command(after_help = "Examples:\n  netarium bundle status\n  \
                            netarium bundle status /run/netarium/send.sock --json")]
    Status(Status),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Check the configuration only
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) privileges: Privileges,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Status sockets of boxes; by default those in /run/netarium
    #[arg(value_name = "SOCKET")]
    pub(crate) sockets: Vec<PathBuf>,
}
