//! What `netarium mctcp` accepts.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::daemon::Privileges;
use mctcp::scheduler::SchedulerKind;
use mctcp_live::front::policy::Rule;
use mctcp_live::front::proxy::Forward;
use mctcp_live::front::target::{Target, TargetError};
use mctcp_live::front::{self, IpNet, PathOption};

#[derive(Debug, Args)]
pub(crate) struct Mctcp {
    #[command(subcommand)]
    pub(crate) verb: MctcpVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MctcpVerb {
    /// Take sessions, and connect them with their targets
    #[command(after_help = "Examples:\n  \
                            netarium mctcp serve --listen 0.0.0.0 --key-file mctcp.key\n  \
                            netarium mctcp serve --listen 198.51.100.7 --listen 203.0.113.7 \
                            --to 127.0.0.1:80")]
    Serve(Box<Serve>),
    /// Take programs' connections, and carry them in sessions
    #[command(after_help = "Examples:\n  \
                            netarium mctcp proxy --server gate.example.org --key-file mctcp.key \
                            --socks 127.0.0.1:1080\n  \
                            netarium mctcp proxy --server gate.example.org --key-file mctcp.key \
                            --forward 5000=files.example.org:80\n  \
                            netarium mctcp proxy --server 198.51.100.7 --key-file mctcp.key \
                            --redirect 127.0.0.1:1081 --capture 10.2.0.0/16 --install")]
    Proxy(Box<Proxy>),
    /// Connect standard input and output with a target, as netcat does
    #[command(after_help = "Examples:\n  \
                            netarium mctcp connect files.example.org:8684 < photos.tar\n  \
                            ssh -o ProxyCommand='netarium mctcp connect --server gate.example.org \
                            --key-file mctcp.key %h:%p' inside.example.org")]
    Connect(Box<Connect>),
    /// Say how the servers and proxies of this machine do
    #[command(after_help = "Examples:\n  netarium mctcp status\n  \
                            netarium mctcp status --json | jq '.fronts[].fallbacks_total'")]
    Status(Status),
}

/// How sessions behave.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sessions")]
pub(crate) struct Sessions {
    /// Which connection takes the next piece: earliest, min-rtt, round-robin, weighted,
    /// redundant, backup, blest, ecf
    #[arg(long, value_name = "NAME", default_value = "earliest", hide_default_value = true)]
    pub(crate) scheduler: SchedulerKind,
    /// Most connections of a session at once, 1 to 8
    #[arg(long, value_name = "N", default_value = "8", hide_default_value = true)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) subflows: u8,
    /// Congestion control of the connections, such as cubic; by default the kernel's
    #[arg(long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    /// Most data that a session keeps for each direction, 4 MiB by default
    #[arg(long, value_name = "SIZE")]
    pub(crate) buffer: Option<base::Bytes>,
    /// Send and receive buffer of each connection; by default the kernel tunes them
    #[arg(long, value_name = "SIZE")]
    pub(crate) socket_buffer: Option<base::Bytes>,
    /// Keep a session that has lost all connections for this long, 30 s by default
    #[arg(long, value_name = "TIME")]
    pub(crate) resume: Option<base::Span>,
    /// End a session on which nothing is heard for this long, 60 s by default
    #[arg(long, value_name = "TIME")]
    pub(crate) idle: Option<base::Span>,
    /// A key that both ends have, 16 bytes or more; each proves to know it
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}

/// How a front is watched.
#[derive(Debug, Args)]
#[command(next_help_heading = "Status")]
pub(crate) struct Watch {
    /// Socket for `mctcp status`; by default one of this process in /run/netarium/mctcp
    #[arg(long, value_name = "SOCKET")]
    pub(crate) status: Option<PathBuf>,
    /// Serve metrics for Prometheus here, at /metrics
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) metrics: Option<SocketAddr>,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen, once for each address of the machine that clients are to use; port 8684
    /// unless it says otherwise
    #[arg(long, required = true, value_name = "ADDR[:PORT]", value_parser = address)]
    pub(crate) listen: Vec<SocketAddr>,
    /// Tell clients of this address; by default of those it listens at, if they are specific
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = address)]
    pub(crate) advertise: Vec<SocketAddr>,
    /// Connect sessions that name no target with this one
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) to: Option<Target>,
    /// Refuse clients that do not speak MCTCP, instead of connecting them with --to in plain TCP
    #[arg(long)]
    pub(crate) no_fallback: bool,
    /// What sessions may name: CIDR, HOST, *.DOMAIN or `any`, with or without `:PORT` or
    /// `:FIRST-LAST`. By default everything for clients that prove themselves, nothing with --to
    #[arg(long, value_name = "RULE")]
    pub(crate) allow: Vec<Rule>,
    /// Max sessions at once; clients above it wait up to 2 s
    #[arg(long, value_name = "N", default_value = "16384")]
    pub(crate) max_sessions: std::num::NonZeroU32,
    /// Max clients in their handshake, in all; others wait
    #[arg(long, value_name = "N", default_value = "4096")]
    pub(crate) max_handshakes: std::num::NonZeroU32,
    /// The same for each source, an IPv4 address or an IPv6 /64
    #[arg(long, value_name = "N", default_value = "2048")]
    pub(crate) max_handshakes_per_source: std::num::NonZeroU32,
    /// TLS on every connection, with this certificate (PEM, its chain behind it)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Take only clients with a certificate by one of these authorities (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_ca: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sessions: Sessions,
    #[command(flatten)]
    pub(crate) watch: Watch,
    #[command(flatten)]
    pub(crate) privileges: Privileges,
}

/// The other end.
#[derive(Debug, Args)]
#[command(next_help_heading = "Other end")]
pub(crate) struct Peer {
    /// The server, once for each address of it; port 8684 unless it says otherwise. Without it
    /// each target is taken for one that speaks MCTCP itself
    #[arg(long, value_name = "HOST[:PORT]", value_parser = server)]
    pub(crate) server: Vec<Target>,
    /// Use this address of this machine, and how: `ADDR[,backup][,weight=N][,dev=NAME]`. By
    /// default all that have a route to the server
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<PathOption>,
    /// Connect to targets in plain TCP where there is no session, although there is a key or TLS:
    /// such connections are in clear text. Without a key and TLS this is the default
    #[arg(long, alias = "fallback", conflicts_with = "no_fallback")]
    pub(crate) allow_plain: bool,
    /// Fail where there is no session
    #[arg(long)]
    pub(crate) no_fallback: bool,
    /// Max plain connections at once; one target gets a quarter of them
    #[arg(long, value_name = "N", default_value = "512")]
    pub(crate) max_plain: std::num::NonZeroU32,
    /// TLS on every connection, with servers that one of these authorities knows (PEM)
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The server's name in its certificate; by default the host of --server
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    pub(crate) tls_name: Option<String>,
    /// The certificate to show (PEM, its chain behind it)
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Proxy {
    /// Speak SOCKS5 here
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) socks: Vec<SocketAddr>,
    /// Take HTTP's CONNECT here
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) http: Vec<SocketAddr>,
    /// Carry connections to this port, of 127.0.0.1 unless it says otherwise, to a target
    #[arg(long, value_name = "[ADDR:]PORT=HOST:PORT")]
    pub(crate) forward: Vec<Forward>,
    /// Take connections here that netfilter redirects; prints the rules for nft
    #[arg(long, value_name = "ADDR:PORT", requires = "capture")]
    pub(crate) redirect: Option<SocketAddr>,
    /// Connections to redirect
    #[arg(long, value_name = "CIDR[:PORT]", requires = "redirect")]
    pub(crate) capture: Vec<Rule>,
    /// Install the rules with nft; they go when the proxy ends, however it ends
    #[arg(long, requires = "redirect")]
    pub(crate) install: bool,
    /// Users of SOCKS5 and HTTP, a line NAME:PASSWORD each
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// Take clients of these addresses only
    #[arg(long, value_name = "CIDR")]
    pub(crate) clients: Vec<IpNet>,
    /// Most clients at once; those that come then wait
    #[arg(long, value_name = "N", default_value = "1024")]
    pub(crate) max_clients: std::num::NonZeroU32,
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) sessions: Sessions,
    #[command(flatten)]
    pub(crate) watch: Watch,
    #[command(flatten)]
    pub(crate) privileges: Privileges,
}

#[derive(Debug, Args)]
pub(crate) struct Connect {
    /// Where to
    #[arg(value_name = "HOST:PORT")]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) peer: Peer,
    #[command(flatten)]
    pub(crate) sessions: Sessions,
    #[command(flatten)]
    pub(crate) watch: Watch,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Status sockets; by default those in /run/netarium/mctcp
    #[arg(value_name = "SOCKET")]
    pub(crate) sockets: Vec<PathBuf>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = text.parse().ok();
    let address = address.or_else(|| Some(SocketAddr::new(bare.parse().ok()?, front::PORT)));
    address.ok_or_else(|| "write ADDR or ADDR:PORT, such as 0.0.0.0 or [::1]:8684".to_owned())
}

fn server(text: &str) -> Result<Target, TargetError> {
    match text.parse() {
        Err(TargetError::NoPort(_)) => {
            let with_port = format!("{text}:{}", front::PORT).parse();
            let bracketed = || format!("[{text}]:{}", front::PORT).parse();
            with_port.or_else(|error| bracketed().map_err(|_: TargetError| error))
        }
        other => other,
    }
}
