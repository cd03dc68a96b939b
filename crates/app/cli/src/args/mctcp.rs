//! Arguments of `netarium mctcp`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::daemon::Privileges;
use mctcp::scheduler::SchedulerKind;
use mctcp_proxy::policy::Rule;
use mctcp_proxy::proxy::Forward;
use mctcp_proxy::target::{Target, TargetError};
use mctcp_proxy::{IpNet, PathOption};

#[derive(Debug, Args)]
pub(crate) struct Mctcp {
    #[command(subcommand)]
    pub(crate) command: MctcpCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MctcpCommand {
    /// Accept MCTCP sessions and connect them to their targets
    #[command(after_help = "Examples:\n  \
                            netarium mctcp serve --listen 0.0.0.0 --key-file mctcp.key\n  \
                            netarium mctcp serve --listen 198.51.100.7 --listen 203.0.113.7 \
                            --to 127.0.0.1:80")]
    Serve(Box<Serve>),
    /// Accept connections of programs and forward them in MCTCP sessions
    #[command(after_help = "Examples:\n  \
                            netarium mctcp proxy --server gate.example.org --key-file mctcp.key \
                            --socks 127.0.0.1:1080\n  \
                            netarium mctcp proxy --server gate.example.org --key-file mctcp.key \
                            --forward 5000=files.example.org:80\n  \
                            netarium mctcp proxy --server 198.51.100.7 --key-file mctcp.key \
                            --redirect 127.0.0.1:1081 --capture 10.2.0.0/16 --install")]
    Proxy(Box<Proxy>),
    /// Connect standard input and output to a target, like netcat
    #[command(after_help = "Examples:\n  \
                            netarium mctcp connect files.example.org:8684 < photos.tar\n  \
                            ssh -o ProxyCommand='netarium mctcp connect --server gate.example.org \
                            --key-file mctcp.key %h:%p' inside.example.org")]
    Connect(Box<Connect>),
    /// Show the status of local servers and proxies
    #[command(after_help = "Examples:\n  netarium mctcp status\n  \
                            netarium mctcp status --json | jq '.fronts[].fallbacks_total'")]
    Status(super::Status),
}

/// Options of sessions.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sessions")]
pub(crate) struct Sessions {
    /// Scheduler: earliest, min-rtt, round-robin, weighted, redundant, backup, blest or ecf
    #[arg(long, value_name = "NAME", default_value = "earliest", hide_default_value = true)]
    pub(crate) scheduler: SchedulerKind,
    /// Maximum number of connections of a session, 1 to 8
    #[arg(long, value_name = "N", default_value = "8", hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) subflows: u8,
    /// Congestion control of the connections, for example cubic; default: the kernel's
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// Maximum buffered data of a session per direction; default: 4 MiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) buffer: Option<base::Bytes>,
    /// Send and receive buffer of each connection; default: tuned by the kernel
    #[arg(long, value_name = "SIZE")]
    pub(crate) socket_buffer: Option<base::Bytes>,
    /// Timeout of a session that has lost all connections; default: 30 s
    #[arg(long, value_name = "TIME")]
    pub(crate) resume: Option<base::Span>,
    /// Idle timeout of a session; default: 60 s
    #[arg(long, value_name = "TIME")]
    pub(crate) idle: Option<base::Span>,
    /// File with the pre-shared key, at least 16 bytes, for mutual authentication
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}

/// Arguments of `mctcp serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address to listen at, once for each address that clients use; default port: 8684
    #[arg(long, required = true, value_name = "ADDR[:PORT]", value_parser = address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Address announced to clients; default: the addresses of --listen that are specific
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = address)]
    pub(crate) advertise: Vec<SocketAddr>,
    /// Target of sessions that name none
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) to: Option<Target>,
    /// Reject clients without MCTCP instead of connecting them to --to in plain TCP
    #[arg(long)]
    pub(crate) no_fallback: bool,
    /// Allowed targets: CIDR, HOST, *.DOMAIN or `any`, optionally with `:PORT` or `:FIRST-LAST`.
    /// Default: all for authenticated clients, none with --to
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<Rule>,
    /// Maximum number of sessions; further clients wait up to 2 s
    #[arg(long, value_name = "N", default_value = "16384")]
    pub(crate) max_sessions: std::num::NonZeroU32,
    /// Maximum number of clients in their handshake; further clients wait
    #[arg(long, value_name = "N", default_value = "4096")]
    pub(crate) max_handshakes: std::num::NonZeroU32,
    /// Maximum number of clients in their handshake per IPv4 address or IPv6 /64
    #[arg(long, value_name = "N", default_value = "2048")]
    pub(crate) max_handshakes_per_source: std::num::NonZeroU32,
    /// Use TLS with this certificate (PEM, followed by its chain)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate of one of these authorities (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sessions: Sessions,
    #[command(flatten)]
    pub(crate) watch: super::Watch,
    #[command(flatten)]
    pub(crate) privileges: Privileges,
}

/// Options of the server to connect to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct Peer {
    /// Address of the server, repeatable; default port: 8684. Without a server, targets must
    /// support MCTCP themselves
    #[arg(long, value_name = "HOST[:PORT]", value_parser = server)]
    pub(crate) server: Vec<Target>,
    /// Local address of a path: `ADDR[,backup][,weight=N][,dev=NAME]`; repeatable. Default: all
    /// addresses with a route to the server
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<PathOption>,
    /// Fall back to plain TCP if no session is possible, even with a key or TLS: such connections
    /// are in clear text. This is the default without a key and TLS
    #[arg(long, alias = "fallback", conflicts_with = "no_fallback")]
    pub(crate) allow_plain: bool,
    /// Fail if no session is possible
    #[arg(long)]
    pub(crate) no_fallback: bool,
    /// Maximum number of plain TCP connections; a quarter of them per target
    #[arg(long, value_name = "N", default_value = "512")]
    pub(crate) max_plain: std::num::NonZeroU32,
    /// Use TLS, and accept only servers with a certificate of one of these authorities (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Name in the server's certificate; default: the host of --server
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    pub(crate) tls_name: Option<String>,
    /// Client certificate (PEM, followed by its chain)
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Proxy {
    /// Address for SOCKS5
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) socks: Vec<SocketAddr>,
    /// Address for HTTP CONNECT
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) http: Vec<SocketAddr>,
    /// Forward connections to this port to a target; default address: 127.0.0.1
    #[arg(long, value_name = "[ADDR:]PORT=HOST:PORT")]
    pub(crate) forward: Vec<Forward>,
    /// Address for connections redirected by netfilter; prints the rules for nft
    #[arg(long, value_name = "ADDR:PORT", requires = "capture")]
    pub(crate) redirect: Option<SocketAddr>,
    /// Destinations of the connections to redirect
    #[arg(long, value_name = "CIDR[:PORT]", requires = "redirect")]
    pub(crate) capture: Vec<Rule>,
    /// Install the rules with nft; they are removed when the proxy ends
    #[arg(long, requires = "redirect")]
    pub(crate) install: bool,
    /// File with users of SOCKS5 and HTTP, one NAME:PASSWORD per line
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// Accept only clients with these addresses
    #[arg(long, value_name = "CIDR")]
    pub(crate) clients: Vec<IpNet>,
    /// Maximum number of clients; further clients wait
    #[arg(long, value_name = "N", default_value = "1024")]
    pub(crate) max_clients: std::num::NonZeroU32,
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) sessions: Sessions,
    #[command(flatten)]
    pub(crate) watch: super::Watch,
    #[command(flatten)]
    pub(crate) privileges: Privileges,
}

#[derive(Debug, Args)]
pub(crate) struct Connect {
    /// The target
    #[arg(value_name = "HOST:PORT")]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) sessions: Sessions,
    #[command(flatten)]
    pub(crate) watch: super::Watch,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = text.parse().ok();
    let address = address.or_else(|| Some(SocketAddr::new(bare.parse().ok()?, mctcp_proxy::PORT)));
    address.ok_or_else(|| "write ADDR or ADDR:PORT, for example 0.0.0.0 or [::1]:8684".to_owned())
}

fn server(text: &str) -> Result<Target, TargetError> {
    match text.parse() {
        Err(TargetError::NoPort(_)) => {
            let with_port = format!("{text}:{}", mctcp_proxy::PORT).parse();
            let bracketed = || format!("[{text}]:{}", mctcp_proxy::PORT).parse();
            with_port.or_else(|error| bracketed().map_err(|_: TargetError| error))
        }
        other => other,
    }
}
