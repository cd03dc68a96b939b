//! Arguments of `netarium collect`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::daemon::Privileges;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Collect {
    #[command(flatten)]
    pub(crate) run: CollectRun,
    #[command(subcommand)]
    pub(crate) command: Option<CollectCommand>,
}

#[derive(Debug, Args)]
pub(crate) struct CollectRun {
    /// Files to read, `-` for standard input: pcap, pcapng, MRT or BMP, also compressed; several
    /// captures are merged by time
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "interface")]
    pub(crate) read: Vec<PathBuf>,
    /// Wait for more data at the end of the last file
    #[arg(long, requires = "read")]
    pub(crate) follow: bool,
    /// Interface that receives the mirrored packets; repeatable
    #[arg(long, value_name = "IF")]
    pub(crate) interface: Vec<String>,
    /// Share the interface's connections with other collectors of this group on this machine, each
    /// with a different --name
    #[arg(long, value_name = "GROUP", requires = "interface")]
    pub(crate) fanout: Option<u16>,
    /// Use hardware timestamps of the interface if it has them
    #[arg(long, requires = "interface")]
    pub(crate) hardware_time: bool,
    /// Merge all mirror streams: a segment mirrored by two routers counts once
    #[arg(long)]
    pub(crate) merge: bool,
    /// Address to listen at for mirrored packets in VXLAN (port 4789) or TZSP (port 37008)
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Decapsulate tunnels received at the interface
    #[arg(long, requires = "interface")]
    pub(crate) tunnels: bool,
    /// Folder of the archive
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of this collector in the archive and in protocols
    #[arg(long, value_name = "NAME", default_value = "netarium")]
    pub(crate) name: String,
    /// Layout and time intervals of the archive's files
    #[arg(long, value_name = "LAYOUT", default_value = "ris")]
    pub(crate) layout: Layout,
    /// Time covered by one file of the archive; default: that of the layout
    #[arg(long, value_name = "TIME")]
    pub(crate) rotate: Option<String>,
    /// Time between snapshots of all routes, for example `30 min`; 0 for none; default: that of
    /// the layout
    #[arg(long, value_name = "TIME")]
    pub(crate) snapshot: Option<String>,
    /// Compression of the archive's files; default: that of the layout
    #[arg(long, value_name = "HOW")]
    pub(crate) compress: Option<Compress>,
    /// Serve the collected data over WebSocket and HTTP, and metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) serve: Option<SocketAddr>,
    /// BMP station to which all data is sent; repeatable
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) bmp: Vec<String>,
    /// Router whose view is archived, with its AS if its own messages are not mirrored; repeatable
    #[arg(long, value_name = "ADDRESS[=AS]", value_parser = router)]
    pub(crate) router: Vec<(IpAddr, Option<u32>)>,
    /// TCP port of BGP; repeatable
    #[arg(long, value_name = "PORT", default_value = "179")]
    pub(crate) port: Vec<u16>,
    /// Also archive the router's own messages
    #[arg(long)]
    pub(crate) local_messages: bool,
    /// Accept segments with wrong checksums
    #[arg(long)]
    pub(crate) no_checksums: bool,
    /// Exit with status 1 if data is missing
    #[arg(long)]
    pub(crate) strict: bool,
    /// Stop after this time
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Maximum memory for out-of-order data of streams with gaps
    #[arg(long, value_name = "SIZE", default_value = "256 MiB")]
    pub(crate) memory: String,
    #[command(flatten)]
    pub(crate) watch: super::Watch,
    #[command(flatten)]
    pub(crate) privileges: Privileges,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// Updates per 5 minutes, tables every 8 hours, gzip
    Ris,
    /// Updates per 15 minutes, tables every 2 hours, bzip2
    Routeviews,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compress {
    None,
    Gz,
    Bz2,
    Zst,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CollectCommand {
    /// Query an archive: peers, missing data, updates and routes
    #[command(after_help = "Examples:\n  netarium collect show peers archive\n  \
                            netarium collect show updates archive --prefix 193.0.0.0/21\n  \
                            netarium collect show updates span.pcap --type withdraw\n  \
                            netarium collect show rib all archive\n  \
                            netarium collect show rib 193.0.0.0/21 archive \
                            --at 2026-11-21T12:00:00Z\n\n\
                            An archive is the folder of `netarium collect --out`, or MRT files of \
                            RIPE RIS and\nRouteViews. For other programs: netarium collect \
                            convert updates.mrt.gz - --to bgpdump")]
    Show(Show),
    /// Convert a capture or an archive file to another format
    #[command(after_help = "Examples:\n  netarium collect convert span.pcap updates.mrt.gz\n  \
                            netarium collect convert updates.mrt.gz - --to bgpdump | head")]
    Convert(Convert),
    /// Check the integrity of all files of an archive
    #[command(after_help = "Examples:\n  netarium collect check archive\n  \
                            netarium collect check archive --json")]
    Check(CheckArchive),
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(subcommand)]
    pub(crate) command: ShowCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ShowCommand {
    /// Show peers with times and message counts
    Peers(Archive),
    /// Show missing data per hour
    Gaps(Archive),
    /// Show announcements, withdrawals and changes of sessions, also of a capture
    Updates(ShowUpdates),
    /// Show routes to a prefix or an address, or all routes
    Rib(ShowRib),
}

#[derive(Debug, Args)]
pub(crate) struct ShowUpdates {
    /// Folders or files of archives, or captures
    #[arg(value_name = "ARCHIVE", required = true)]
    pub(crate) archives: Vec<PathBuf>,
    /// Only this peer
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) peer: Option<IpAddr>,
    /// Only routes to this prefix and to more specific ones, or to prefixes with this address
    #[arg(long, value_name = "PREFIX")]
    pub(crate) prefix: Option<String>,
    /// Only paths with this AS, and withdrawals and states of peers in it
    #[arg(long = "as", value_name = "AS")]
    pub(crate) asn: Option<u32>,
    /// Only from this time on, in UTC
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only until this time, in UTC
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only updates of this type; repeatable
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) kinds: Vec<UpdateType>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UpdateType {
    Announce,
    Withdraw,
    /// Changes of sessions, End-of-RIB and route refreshes
    State,
}

#[derive(Debug, Args)]
pub(crate) struct Archive {
    /// Folders or files of archives
    #[arg(value_name = "ARCHIVE", required = true)]
    pub(crate) archives: Vec<PathBuf>,
    /// Only this peer
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) peer: Option<IpAddr>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowRib {
    /// A prefix, an address for its longest match, or `all` for all routes of all families
    #[arg(value_name = "PREFIX")]
    pub(crate) prefix: String,
    #[command(flatten)]
    pub(crate) archive: Archive,
    /// Time in UTC; default: the end of the archive
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// Show changes from `--at` until this time
    #[arg(long, value_name = "TIME", requires = "at")]
    pub(crate) diff: Option<String>,
    /// Include more specific prefixes
    #[arg(long)]
    pub(crate) more: bool,
    /// Include less specific prefixes
    #[arg(long)]
    pub(crate) less: bool,
    /// Only routes whose AS path matches, as on routers: `_` matches a boundary of numbers
    #[arg(long, value_name = "REGEX")]
    pub(crate) path: Option<String>,
    /// Only routes with this community
    #[arg(long, value_name = "AS:VALUE")]
    pub(crate) community: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// Input file, or `-` for standard input: pcap, pcapng, MRT or BMP
    #[arg(value_name = "FROM")]
    pub(crate) from: PathBuf,
    /// Output file, or `-` for standard output
    #[arg(value_name = "TO")]
    pub(crate) into: PathBuf,
    /// Output format; default: by the file name of TO
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<ConvertTo>,
    /// TCP port of BGP in a capture; repeatable
    #[arg(long, value_name = "PORT", default_value = "179")]
    pub(crate) port: Vec<u16>,
    /// Router in a capture, whose view is converted; repeatable
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) router: Vec<IpAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConvertTo {
    Mrt,
    Json,
    Bgpdump,
    Bmp,
    Pcap,
    Pcapng,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArchive {
    /// Folders or files of archives
    #[arg(value_name = "ARCHIVE", required = true)]
    pub(crate) archives: Vec<PathBuf>,
}

fn router(text: &str) -> Result<(IpAddr, Option<u32>), String> {
    let (address, number) = match text.split_once('=') {
        Some((address, number)) => (address, Some(number)),
        None => (text, None),
    };
    let expected = "an address, or an address and its AS, for example 192.0.2.1=64500";
    let address =
        address.parse().map_err(|_| format!("invalid address `{address}`; expected {expected}"))?;
    let number = number
        .map(|number| number.trim_start_matches("AS").parse())
        .transpose()
        .map_err(|_| format!("invalid AS number after `=`; expected {expected}"))?;
    Ok((address, number))
}
