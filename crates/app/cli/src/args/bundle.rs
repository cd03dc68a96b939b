//! Arguments of `netarium bundle`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::daemon::Privileges;

#[derive(Debug, Args)]
pub(crate) struct Bundle {
    #[command(subcommand)]
    pub(crate) command: BundleCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BundleCommand {
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
    /// Show the status of local Bundler gateways
    #[command(after_help = "Examples:\n  netarium bundle status\n  \
                            netarium bundle status /run/netarium/send.sock --json")]
    Status(super::Status),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Configuration file; SIGHUP makes the gateway read it again
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Only check the configuration
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) privileges: Privileges,
}
