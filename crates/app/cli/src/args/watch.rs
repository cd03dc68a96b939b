//! Arguments of `watch`.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Watch {
    /// Name or identifier of a running lab, or the folder of a run
    #[arg(value_name = "LAB|RUN")]
    pub(crate) run: String,
    /// Address of the page, on loopback; default: 127.0.0.1 with a free port
    #[arg(long, value_name = "ADDR:PORT", default_value_t = LOOPBACK, hide_default_value = true)]
    pub(crate) listen: SocketAddr,
    /// Refuse changes of the lab, and terminals on its hosts
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Print the URL only; without this option, a browser is opened in a graphical session
    #[arg(long)]
    pub(crate) no_open: bool,
}

/// Any free port of this machine.
pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::V4(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
