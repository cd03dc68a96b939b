//! A plan: a checked lab with all names resolved, all defaults inserted and all addresses assigned.
//! The engines take only plans as input.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;

use base::{
    Bandwidth, Bytes, Direction, FlowId, IfaceId, LinkId, MirrorId, NodeId, ProgramId, Ratio, Span,
    Time,
};
use fabric::{Collapsed, LinkConfig, Network, NodeKind, Wire};
pub use workload::Pause;
use workload::{Pattern, Queries, Requests, Rpc, Transfers};

use crate::expect::Expectation;
use crate::fields::Words;

mod bundle;
mod cluster;
mod control;
mod multipath;

pub use bundle::{
    BoxAction, Bundle, BundleConstant, BundleConstants, BundleControl, BundleState, Feedback,
    Marking, Mode,
};
pub use cluster::{Cluster, OnLoss, PlacementRequirements, Spread};
pub use control::{Control, Drawing, Population, Session};
pub use multipath::{Multipath, MultipathKind, Path};

/// A plan for one run of a lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// `[lab] name`.
    pub name: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// `[lab] start_jitter`, already included in the start times of flows; `None` if not given.
    pub start_jitter: Option<Span>,
    /// Maximum duration; the run ends earlier if all finite work has ended.
    pub duration: Span,
    /// The emulation model of links.
    pub model: Model,
    /// Bytes on the wire per packet, beyond layer 3.
    pub overhead: Bytes,
    /// The method of routing.
    pub routing: Routing,
    /// The precision of deadlines.
    pub precision: Precision,
    /// Request real-time scheduling.
    pub realtime: bool,
    /// Release grid: packets leave at the first multiple at or after their deadline. `None`:
    /// selected from the links' rates (see `fidelity` in the book).
    pub tick: Option<Span>,
    /// Maximum effect of the host on the results of a trusted run.
    pub tolerance: Tolerance,
    /// Sampling interval of counters.
    pub interval: Span,
    /// The connection to the host system's network.
    pub uplink: Uplink,
    /// Hosts, routers, switches; `NodeId` is the position.
    pub nodes: Vec<Node>,
    /// Links; `LinkId` is the position.
    pub links: Vec<Link>,
    /// Interfaces; `IfaceId` is the position: link *l* has `2l` and `2l + 1`.
    pub ifaces: Vec<Iface>,
    /// Real programs on nodes.
    pub programs: Vec<Program>,
    /// Built-in flows.
    pub flows: Vec<Flow>,
    /// `[control]`, if the lab has it or any traffic needs it.
    pub control: Option<Control>,
    /// Session generators and their sessions.
    pub sessions: Vec<Population>,
    /// Bundles, sorted by name.
    pub bundles: Vec<Bundle>,
    /// Lab events in time order.
    pub events: Vec<Event>,
    /// Mirror sessions of links.
    pub mirrors: Vec<Mirror>,
    /// Interfaces whose packets are written to pcapng files.
    pub captures: Vec<IfaceId>,
    /// Flows whose TCP variables are recorded with each change (virtual clock).
    pub tcp_events: Vec<FlowId>,
    /// Record the packets that enter the fabric, so that `netarium replay` can repeat
    /// the run (wall clock).
    pub record: bool,
    /// Folders of the machine that programs may change, beside those that they always may.
    pub writable: Vec<PathBuf>,
    /// Limits at which a run on the virtual clock ends with an error.
    pub limits: Limits,
    /// Requirements on the placement in a cluster.
    pub cluster: Cluster,
    /// Conditions that must hold at the end.
    pub expectations: Vec<Expectation>,
    /// The values that a sweep chose for this plan: `("link.core.delay", "10 ms")`.
    pub sweep: Vec<(String, String)>,
}

/// The connection of a lab to the host system's network, through pasta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uplink {
    /// The lab has no connection.
    None,
    /// Each host has a connection beside the emulated network.
    Hosts,
    /// This router has the connection; the emulated network leads to it.
    Router(NodeId),
}

/// The emulation model of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Every packet crosses every link's queue.
    Hop,
    /// Every packet crosses its whole path at once, at the flow's current share.
    Collapsed(Collapsed),
    /// Flows are rates and queues are integrated between events (virtual clock only).
    Fluid,
}

impl Model {
    /// The lab file's word for how flows share links; empty if they share queues.
    pub fn sharing(self) -> &'static str {
        match self {
            Self::Collapsed(law) => law.sharing.word(),
            Self::Hop | Self::Fluid => "",
        }
    }
}

/// Limits at which a run on the virtual clock ends with an error; results so far are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of events.
    pub events: u64,
    /// Maximum memory for packets, flows and pending events.
    pub memory: Bytes,
}

/// The method of routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Shortest paths by a metric, equal-cost paths shared by flow hash.
    Shortest(Metric),
    /// Programs in the routers' namespaces set routes.
    None,
}

/// The path cost that routing minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The sum of the links' delays (the number of hops breaks ties).
    Delay,
    /// The number of links.
    Hops,
    /// The sum of the links' `metric` fields.
    Metric,
}

/// The precision of deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Sleep until the deadline.
    Normal,
    /// Sleep until shortly before the deadline, then spin.
    High,
}

/// A node of the lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Unique name in the lab, valid as a host name.
    pub name: String,
    /// The role in the lab file.
    pub kind: Role,
    /// The role in the fabric: a router with programs or with `routing = "none"` is an `Edge`.
    pub fabric: NodeKind,
    /// Its interfaces, in the order of the links.
    pub ifaces: Vec<IfaceId>,
    /// The user of its programs and commands; `None`: that of the run.
    pub user: Option<Box<User>>,
    /// The private files of its programs.
    pub files: Option<Box<PrivateFiles>>,
    /// Position in the lab file for messages: (line, column), 1-based; (0, 0) if generated.
    pub declared: (u32, u32),
}

/// A user of the machine that runs a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name of the account on the host.
    pub name: String,
    /// Position in the lab file for messages: (line, column), 1-based.
    pub declared: (u32, u32),
}

/// A copy-on-write view of files, which ends with the lab.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateFiles {
    /// The private folders; `None`: all files.
    pub folders: Option<Vec<PathBuf>>,
    /// Maximum size of changed and new files.
    pub size: Bytes,
}

/// Whether files are shared with other nodes and the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileScope {
    /// Shared with other nodes and the machine.
    Shared,
    /// A view of the machine's files with private changes.
    Private,
}

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs programs, does not forward.
    Host,
    /// Forwards at layer 3.
    Router,
    /// Forwards at layer 2: its links are one subnet.
    Switch,
    /// Forwards at layer 3, and paces the bundles that it sends.
    SendBox,
    /// Forwards at layer 3, and acknowledges the bundles that it receives.
    ReceiveBox,
}

impl Role {
    /// Whether it is a Bundler gateway.
    pub const fn is_box(self) -> bool {
        matches!(self, Self::SendBox | Self::ReceiveBox)
    }
}

/// An interface: one end of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Iface {
    /// The node of the interface.
    pub node: NodeId,
    /// The link of the interface.
    pub link: LinkId,
    /// The direction of the link in which the interface sends.
    pub sends: Direction,
    /// `eth0`, `eth1`, … in the node's order.
    pub name: String,
    /// IPv4 address and prefix length; switches have none.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// IPv6 address and prefix length; switches have none.
    pub v6: Option<(Ipv6Addr, u8)>,
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Name: given, or `a-b` from its ends (`a-b.2` for the second link between them).
    pub name: String,
    /// First and second end.
    pub ends: [NodeId; 2],
    /// Properties from the first end to the second (`up`) and back (`down`).
    pub directions: [LinkConfig; 2],
    /// Cost for `routing = "metric"`.
    pub metric: u32,
    /// Whether it is up at the start.
    pub up: bool,
}

/// A real program on a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Name: given, or from node and command (`alice.iperf3`).
    pub name: String,
    /// The node in whose namespace it runs.
    pub node: NodeId,
    /// Command line or argument vector.
    pub command: Command,
    /// Earliest start time.
    pub start: Time,
    /// Start after these programs are ready (or, without a readiness condition, have started).
    pub after: Vec<ProgramId>,
    /// The readiness condition.
    pub ready: Option<Ready>,
    /// Timeout of readiness.
    pub ready_timeout: Span,
    /// The restart policy.
    pub restart: Restart,
    /// Additional environment variables.
    pub env: BTreeMap<String, String>,
    /// Working directory; relative to the lab file's folder.
    pub dir: Option<PathBuf>,
    /// Its user; `None`: that of the run.
    pub user: Option<User>,
    /// Whether it is a service: a service does not keep the run going and is stopped at its end.
    pub service: bool,
    /// Accepted exit statuses; `None`: any.
    pub exit: Option<Vec<i32>>,
    /// Time between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Run without limits on its capabilities in the lab's user namespace and on its system calls.
    pub privileged: bool,
    /// Maximum stored bytes of standard output and error together.
    pub output: Bytes,
}

/// The command of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A line for `/bin/sh -c`.
    Shell(String),
    /// A program and its arguments, without a shell.
    Exec(Vec<String>),
}

/// The readiness condition of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It listens on this TCP port (any address of its node).
    Port(u16),
    /// It has bound this UDP port.
    UdpPort(u16),
    /// A line of its output contains this text.
    Output(String),
    /// This file exists.
    File(PathBuf),
    /// It has run for this long.
    After(Span),
    /// This shell command, run beside the program, exits with 0.
    Command(String),
}

/// The restart policy of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The program is not restarted.
    Never,
    /// It is restarted unless it exited as expected.
    OnFailure,
    /// It is always restarted.
    Always,
}

/// A flow of built-in traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Name: given, or `from-to` (`from-to.2` for the second flow between them).
    pub name: String,
    /// The node that opens the connection.
    pub from: NodeId,
    /// The node that accepts it.
    pub to: NodeId,
    /// Address family of its packets.
    pub family: Family,
    /// Start time of the flow.
    pub start: Time,
    /// The flow ends after this time even if it has more to send.
    pub duration: Option<Span>,
    /// The traffic of the flow.
    pub traffic: Traffic,
    /// DSCP value of its packets, 0–63.
    pub dscp: u8,
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The IPv4 family.
    V4,
    /// The IPv6 family.
    V6,
}

/// The traffic of a built-in flow.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// TCP as fast as possible, from `from` to `to`.
    Bulk {
        /// Payload to send; `None`: until the end of the flow.
        size: Option<Bytes>,
        /// Rate at which the application offers payload, over all connections; payload that the
        /// network does not accept yet is queued. `None`: as fast as possible.
        rate: Option<Bandwidth>,
        /// Period in which the receiver does not read.
        pause: Option<Pause>,
        /// TCP settings of its connections.
        tcp: Tcp,
        /// Parallel connections, at least 1.
        streams: u32,
        /// Disable Nagle's algorithm and write messages of this size.
        message: Option<Bytes>,
    },
    /// Many transfers, each over a separate TCP connection.
    Transfers {
        /// Sizes and arrivals of the transfers.
        spec: Arc<Transfers>,
        /// TCP settings of their connections.
        tcp: Tcp,
    },
    /// Paced UDP datagrams.
    Paced {
        /// Rate of UDP payload (in on periods).
        rate: Bandwidth,
        /// Payload of a datagram (at least 16 B: sequence number and time stamp).
        packet: Bytes,
        /// Total payload to send; `None`: until the end of the flow.
        size: Option<Bytes>,
        /// Spacing of the datagrams.
        pattern: Pattern,
    },
    /// Datagrams at the rate that the lab's rate control assigns (virtual clock only).
    Controlled {
        /// Maximum usable rate; `None`: unlimited.
        demand: Option<Bandwidth>,
        /// Payload of a datagram.
        packet: Bytes,
        /// Total payload to send; `None`: until the end of the flow.
        size: Option<Bytes>,
    },
    /// Requests over one TCP connection, each answered before the next is sent.
    Rpc {
        /// Sizes and number of the requests.
        spec: Arc<Rpc>,
        /// TCP settings of the connection.
        tcp: Tcp,
    },
    /// Requests that do not wait for earlier responses, over persistent TCP connections.
    Requests {
        /// Sizes and arrivals of the requests.
        spec: Arc<Requests>,
        /// TCP settings of the connections.
        tcp: Tcp,
    },
    /// Requests in UDP datagrams, each answered or timed out before the next is sent.
    Queries(Arc<Queries>),
}

/// Maximum effect of the host on a result of a trusted run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tolerance {
    /// Absolute tolerance of delays.
    pub floor: Span,
    /// Tolerance of a delay, relative to it. The larger of both applies.
    pub delay: Ratio,
    /// Tolerance of a rate, relative to it.
    pub rate: Ratio,
}

impl Tolerance {
    /// The tolerance of a delay: max(`floor`, `delay` × `value`).
    pub fn of_delay(&self, value: Span) -> Span {
        self.floor.max(Span::from_nanos(self.delay.of(value.as_nanos())))
    }
}

/// TCP settings of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Congestion controller of both ends: `reno`, `cubic`, `bbr`, … `None`: the kernel's default
    /// on the wall clock, CUBIC on the virtual one.
    pub control: Option<String>,
    /// Negotiate explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Receive and send buffer of both ends, in the meaning of the socket options: the kernel
    /// doubles the values. With MCTCP each subflow has these buffers, and the session has twice as
    /// much. `None`: autotuned by the kernel, or 6 MiB on the virtual clock.
    pub window: Option<Bytes>,
    /// Multipath settings; `None`: plain TCP.
    pub multipath: Option<Multipath>,
}

/// A timed event of the lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time of the event.
    pub at: Time,
    /// Effect of the event.
    pub action: Action,
    /// Text of the event for the log.
    pub text: String,
}

/// The effect of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The link gets new properties; queued packets stay queued.
    Set {
        /// The changed link.
        link: LinkId,
        /// The direction whose properties change.
        direction: Direction,
        /// The complete new properties of the direction.
        config: Box<LinkConfig>,
    },
    /// The link goes down; packets on it are lost.
    LinkDown(LinkId),
    /// The link comes up.
    LinkUp(LinkId),
    /// A program and its descendants get SIGTERM, and SIGKILL after its grace time.
    Stop(ProgramId),
    /// A program and its descendants get SIGKILL.
    Kill(ProgramId),
    /// A stopped, killed or ended program starts again.
    Start(ProgramId),
    /// All interfaces of a node go down, and its programs are killed.
    NodeDown(NodeId),
    /// A node that was down comes up, and its programs start.
    NodeUp(NodeId),
    /// A flow starts (again).
    FlowStart(FlowId),
    /// A flow stops.
    FlowStop(FlowId),
    /// The process of a gateway stops or starts.
    Box(NodeId, BoxAction),
}

/// A mirror session: copies some of a link's packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// Name of the session.
    pub name: String,
    /// The mirrored link.
    pub link: LinkId,
    /// Mirrored directions: `[up, down]`.
    pub directions: [bool; 2],
    /// Filter for the packets.
    pub filter: Filter,
    /// Destination of the copies.
    pub to: MirrorTarget,
}

/// The destination of mirrored packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorTarget {
    /// The first interface of a node, immediately and without crossing a link (a SPAN port).
    Node(NodeId),
    /// A pcapng file in the run folder, `<name>.pcapng`.
    File,
}

/// A packet filter: all set fields must match. `tcp port 179`, `host alice and udp`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// IP protocol number.
    pub protocol: Option<u8>,
    /// Source or destination port.
    pub port: Option<u16>,
    /// TCP or UDP source port.
    pub src_port: Option<u16>,
    /// TCP or UDP destination port.
    pub dst_port: Option<u16>,
    /// The source or destination address belongs to this node.
    pub host: Option<NodeId>,
    /// The source address belongs to this node.
    pub src_host: Option<NodeId>,
    /// The destination address belongs to this node.
    pub dst_host: Option<NodeId>,
    /// IP version, 4 or 6.
    pub version: Option<u8>,
}

impl Flow {
    /// Whether the flow ends without a stop event.
    pub fn is_finite(&self) -> bool {
        self.traffic.is_finite() || self.duration.is_some()
    }
}

impl Traffic {
    /// Whether it has TCP connections.
    pub const fn is_over_tcp(&self) -> bool {
        !matches!(self, Self::Paced { .. } | Self::Controlled { .. } | Self::Queries(_))
    }

    /// Whether the traffic has a size or count after which the flow sends nothing more.
    pub fn is_finite(&self) -> bool {
        match self {
            Self::Bulk { size, .. } | Self::Paced { size, .. } | Self::Controlled { size, .. } => {
                size.is_some()
            }
            Self::Transfers { spec, .. } => spec.count.is_some(),
            Self::Rpc { spec, .. } => spec.count.is_some(),
            Self::Requests { spec, .. } => spec.count.is_some(),
            Self::Queries(spec) => spec.count.is_some(),
        }
    }
}

impl Plan {
    /// The node with this name.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).map(NodeId::at)
    }

    /// The link with this name.
    pub fn link(&self, name: &str) -> Option<LinkId> {
        self.links.iter().position(|l| l.name == name).map(LinkId::at)
    }

    /// Whether a lab with nodes has no programs, flows or sessions.
    pub fn has_no_traffic(&self) -> bool {
        let idle = self.programs.is_empty() && self.flows.is_empty() && self.sessions.is_empty();
        idle && !self.nodes.is_empty()
    }

    /// Whether any traffic is under explicit rate control.
    pub fn is_rate_controlled(&self) -> bool {
        let controlled = |flow: &Flow| matches!(flow.traffic, Traffic::Controlled { .. });
        let access = self.control.as_ref().is_some_and(|control| !control.access.is_empty());
        access || !self.sessions.is_empty() || self.flows.iter().any(controlled)
    }

    /// The index of the bundle with this name.
    pub fn bundle(&self, name: &str) -> Option<usize> {
        self.bundles.iter().position(|bundle| bundle.name == name)
    }

    /// The network in the fabric's format, with the same indices.
    pub fn network(&self) -> Network {
        let links = self.links.iter().map(|link| Wire {
            name: link.name.clone(),
            ends: link.ends,
            directions: link.directions.clone(),
            up: link.up,
        });
        Network {
            nodes: self.nodes.iter().map(|node| node.fabric).collect(),
            links: links.collect(),
            overhead: self.overhead,
            collapsed: match self.model {
                Model::Collapsed(law) => Some(law),
                Model::Hop | Model::Fluid => None,
            },
        }
    }

    /// The identifiers of all mirrors.
    pub fn mirror_ids(&self) -> impl Iterator<Item = MirrorId> {
        (0..self.mirrors.len()).map(MirrorId::at)
    }
}
