//! What `netarium collect` accepts.

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
    pub(crate) verb: Option<CollectVerb>,
}

#[derive(Debug, Args)]
pub(crate) struct CollectRun {
    /// Captures to read, `-` for the standard input: pcap, pcapng, MRT or BMP, also compressed;
    /// several are merged by time
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "interface")]
    pub(crate) read: Vec<PathBuf>,
    /// Wait for more at the end of the last file
    #[arg(long, requires = "read")]
    pub(crate) follow: bool,
    /// Interface that the clones arrive at; may be repeated
    #[arg(long, value_name = "IF")]
    pub(crate) interface: Vec<String>,
    /// Share the interface's connections with the other collectors of this group on this machine,
    /// each of which has a --name of its own
    #[arg(long, value_name = "GROUP", requires = "interface")]
    pub(crate) fanout: Option<u16>,
    /// Take the times of packets from the interface's clock where it has one
    #[arg(long, requires = "interface")]
    pub(crate) hardware_time: bool,
    /// Take all streams of clones for one: a segment that two routers cloned counts once
    #[arg(long)]
    pub(crate) merge: bool,
    /// Address to listen at for clones in VXLAN (port 4789) or TZSP (port 37008)
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Look into tunnels that arrive at the interface
    #[arg(long, requires = "interface")]
    pub(crate) tunnels: bool,
    /// Folder of the archive
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Name of this collector, in the archive and on the wire
    #[arg(long, value_name = "NAME", default_value = "netarium")]
    pub(crate) name: String,
    /// How the archive's files are laid out and timed
    #[arg(long, value_name = "LAYOUT", default_value = "ris")]
    pub(crate) layout: Layout,
    /// Time that one file of the archive covers [default: as the layout has it]
    #[arg(long, value_name = "TIME")]
    pub(crate) rotate: Option<String>,
    /// Time between snapshots of all routes, like `30 min`; 0 for none [default: as the layout has
    /// it]
    #[arg(long, value_name = "TIME")]
    pub(crate) snapshot: Option<String>,
    /// How the archive's files are compressed [default: as the layout has it]
    #[arg(long, value_name = "HOW")]
    pub(crate) compress: Option<Compress>,
    /// Serve what is collected: WebSocket, HTTP, metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) serve: Option<SocketAddr>,
    /// BMP station to send everything to; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) bmp: Vec<String>,
    /// The router whose view is archived, with its AS where its own messages are not cloned; may be
    /// repeated
    #[arg(long, value_name = "ADDRESS[=AS]", value_parser = router)]
    pub(crate) router: Vec<(IpAddr, Option<u32>)>,
    /// TCP port of BGP; may be repeated
    #[arg(long, value_name = "PORT", default_value = "179")]
    pub(crate) port: Vec<u16>,
    /// Archive the router's own messages too
    #[arg(long)]
    pub(crate) local_messages: bool,
    /// Take segments with wrong checksums as they are
    #[arg(long)]
    pub(crate) no_checksums: bool,
    /// Exit with status 1 if anything is missing
    #[arg(long)]
    pub(crate) strict: bool,
    /// End after this time
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Memory for what waits for its turn in streams with holes
    #[arg(long, value_name = "SIZE", default_value = "256 MiB")]
    pub(crate) memory: String,
    #[command(flatten)]
    pub(crate) privileges: Privileges,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// updates of 5 minutes, tables each 8 hours, gzip
    Ris,
    /// updates of 15 minutes, tables each 2 hours, bzip2
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
pub(crate) enum CollectVerb {
    /// Ask an archive
    #[command(after_help = "Examples:\n  netarium collect show peers archive\n  \
                            netarium collect show rib 193.0.0.0/21 archive \
                            --at 2026-11-21T12:00:00Z")]
    Show(Show),
    /// Turn a capture or an archive file into another format
    #[command(after_help = "Examples:\n  netarium collect convert span.pcap updates.mrt.gz\n  \
                            netarium collect convert updates.mrt.gz - --to bgpdump | head")]
    Convert(Convert),
    /// Check that all files of an archive are whole
    #[command(after_help = "Examples:\n  netarium collect check archive\n  \
                            netarium collect check archive --json")]
    Check(CheckArchive),
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(subcommand)]
    pub(crate) what: ShowWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ShowWhat {
    /// Who is there, since when, and how much came
    Peers(Archive),
    /// What is missing, hour by hour
    Gaps(Archive),
    /// Routes to a prefix or an address
    Rib(ShowRib),
}

#[derive(Debug, Args)]
pub(crate) struct Archive {
    /// Folders of archives, or files of them
    #[arg(value_name = "ARCHIVE", required = true)]
    pub(crate) archives: Vec<PathBuf>,
    /// Only this peer
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) peer: Option<IpAddr>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowRib {
    /// A prefix, or an address for its longest match
    #[arg(value_name = "PREFIX")]
    pub(crate) prefix: String,
    #[command(flatten)]
    pub(crate) archive: Archive,
    /// The instant, in UTC [default: the end of the archive]
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
    /// What changed from `--at` until then
    #[arg(long, value_name = "TIME", requires = "at")]
    pub(crate) diff: Option<String>,
    /// More specific prefixes too
    #[arg(long)]
    pub(crate) more: bool,
    /// Less specific prefixes too
    #[arg(long)]
    pub(crate) less: bool,
    /// Only routes whose AS path matches, as on routers: `_` is a border of numbers
    #[arg(long, value_name = "REGEX")]
    pub(crate) path: Option<String>,
    /// Only routes with this community
    #[arg(long, value_name = "AS:VALUE")]
    pub(crate) community: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    /// A file, or `-` for the standard input: pcap, pcapng, MRT, BMP or JSON Lines
    #[arg(value_name = "FROM")]
    pub(crate) from: PathBuf,
    /// A file, or `-` for the standard output
    #[arg(value_name = "TO")]
    pub(crate) into: PathBuf,
    /// The format [default: as TO is named]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<ConvertTo>,
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
    /// Folders or files
    #[arg(value_name = "ARCHIVE", required = true)]
    pub(crate) archives: Vec<PathBuf>,
}

fn router(text: &str) -> Result<(IpAddr, Option<u32>), String> {
    let (address, number) = match text.split_once('=') {
        Some((address, number)) => (address, Some(number)),
        None => (text, None),
    };
    let right = "an address, or an address and its AS, like 192.0.2.1=64500";
    let address =
        address.parse().map_err(|_| format!("`{address}` is no address; write {right}"))?;
    let number = number
        .map(|number| number.trim_start_matches("AS").parse())
        .transpose()
        .map_err(|_| format!("what follows `=` is no AS number; write {right}"))?;
    Ok((address, number))
}
