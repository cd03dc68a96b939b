//! Arguments of `measure`.

use base::Span;
use clap::{Args, Subcommand, ValueEnum};

use super::Changes;

/// Measurements for figures of papers, as JSON.
#[derive(Debug, Args)]
pub(crate) struct Measure {
    #[command(subcommand)]
    pub(crate) measurement: Measurement,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Measurement {
    /// Names of the rate control protocols
    Protocols,
    /// State that a link keeps for its sessions, once each has a rate
    LinkState(LinkState),
    /// Messages of the agreement on rates, on the virtual clock
    Agreement(Agreement),
    /// Deviation of waits from their deadline
    Timers(Timers),
    /// Tuned constants of Bundler
    BundleConstants,
}

#[derive(Debug, Args)]
pub(crate) struct LinkState {
    #[arg(long)]
    pub(crate) protocol: String,
    /// Sessions that join the link at once
    #[arg(long, value_name = "N")]
    pub(crate) sessions: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Agreement {
    #[command(flatten)]
    pub(crate) changes: Changes,
    #[arg(long)]
    pub(crate) sharing: Sharing,
    /// Agents, over which the hosts are spread
    #[arg(long, value_name = "N")]
    pub(crate) agents: std::num::NonZeroUsize,
    /// Concurrent flows between random hosts
    #[arg(long, value_name = "N")]
    pub(crate) flows: usize,
    /// Starts and ends of flows per second; with --delays, their number
    #[arg(long = "changes", value_name = "N")]
    pub(crate) flow_changes: u32,
    /// Measure the time from each change until all shares are right
    #[arg(long)]
    pub(crate) delays: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sharing {
    RttMaxMin,
    Slbn,
}

#[derive(Debug, Args)]
pub(crate) struct Timers {
    /// Length of a wait; repeatable
    #[arg(long, value_name = "TIME", required = true)]
    pub(crate) expected: Vec<Span>,
    /// Time for the waits of each length and method, which are at least 3 and at most 500
    #[arg(long, value_name = "TIME")]
    pub(crate) each: Span,
    /// Use real-time scheduling
    #[arg(long)]
    pub(crate) real_time: bool,
}
