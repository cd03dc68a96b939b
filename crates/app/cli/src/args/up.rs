//! Arguments of the subcommands for labs that stay up.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::{Changes, Engine, assignment, metrics_address};

#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    pub(crate) changes: Changes,
    /// Folder for run folders
    #[arg(long, value_name = "DIR", default_value = "runs")]
    #[arg(env = "NETARIUM_RUNS", hide_env = true)]
    pub(crate) runs: PathBuf,
    /// Datapath engine; default: the fastest that works on this machine
    #[arg(long, env = "NETARIUM_ENGINE", hide_env = true)]
    pub(crate) engine: Option<Engine>,
    /// Write no report.html
    #[arg(long)]
    pub(crate) no_report: bool,
    /// Serve the live view, as `netarium watch`, until Ctrl-C; the lab stays up
    #[arg(long)]
    pub(crate) watch: bool,
    /// Serve metrics of the running lab over HTTP, for Prometheus; PORT alone: on 127.0.0.1
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = metrics_address)]
    pub(crate) metrics: Option<SocketAddr>,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Name or identifier of a running lab
    pub(crate) lab: String,
    /// Property of a link as in the lab file: link.NAME.KEY, link.NAME.up.KEY or link.NAME.down.KEY
    /// for one direction, link.NAME.state; or program.NAME=stop, =start, =kill
    #[arg(required = true, value_name = "FIELD=VALUE", value_parser = assignment)]
    pub(crate) fields: Vec<(String, String)>,
}

#[derive(Debug, Args)]
pub(crate) struct Mark {
    /// Name or identifier of a running lab
    pub(crate) lab: String,
    /// A line of text, at most 200 characters
    #[arg(value_parser = emu::control::mark_text)]
    pub(crate) text: String,
}

#[derive(Debug, Args)]
pub(crate) struct Down {
    /// Names or identifiers of running labs
    #[arg(required_unless_present = "all", value_name = "LAB")]
    pub(crate) labs: Vec<String>,
    /// End all labs of this user
    #[arg(long, conflicts_with = "labs")]
    pub(crate) all: bool,
}
