//! A plan: a checked lab with every name resolved, every default filled in and every address
//! assigned. Drivers take plans and nothing else.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use base::{
    Bandwidth, Bytes, Direction, FlowId, IfaceId, LinkId, MirrorId, NodeId, ProgramId, Ratio, Span,
    Time,
};
use fabric::{Collapsed, LinkConfig, Network, NodeKind, Wire};
use transport::workload::{Arrivals, Pattern, Sizes, Think};

use crate::expect::Expectation;

mod bundle;
mod cluster;
mod control;
mod multipath;
mod pause;

pub use bundle::{BoxAction, Bundle, BundleControl, BundleState, Feedback, Marking, Mode};
pub use cluster::{Cluster, OnLoss, Spread, Wishes};
pub use control::{Control, Drawing, Population, Session};
pub use multipath::{Multipath, MultipathKind, Path};
pub use pause::{Pause, Pausing};

/// One run's worth of a lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// `[lab] name`.
    pub name: String,
    /// Keys every random stream.
    pub seed: u64,
    /// `[lab] start_jitter`, which starts of flows already include; `None` where it is not given.
    pub start_jitter: Option<Span>,
    /// The run ends now at the latest; sooner when everything finite has finished.
    pub duration: Span,
    /// How links are emulated.
    pub model: Model,
    /// Bytes that each packet costs on a wire beyond layer 3.
    pub overhead: Bytes,
    /// Who computes routes.
    pub routing: Routing,
    /// How deadlines are met.
    pub precision: Precision,
    /// Ask for real-time scheduling.
    pub realtime: bool,
    /// Release grid: packets leave at the first multiple at or after their deadline. `None`: as
    /// the links' rates suggest (see `fidelity` in the book).
    pub tick: Option<Span>,
    /// A run is trusted while its p99.9 lateness stays within
    /// max(`tolerance_floor`, `tolerance_share` × the shortest path's delay).
    pub tolerance_floor: Span,
    /// See `tolerance_floor`.
    pub tolerance_share: Ratio,
    /// How often counters are sampled.
    pub interval: Span,
    /// Give hosts the machine's own network through pasta.
    pub uplink: bool,
    /// Hosts, routers, switches; `NodeId` is the position.
    pub nodes: Vec<Node>,
    /// Links; `LinkId` is the position.
    pub links: Vec<Link>,
    /// Interfaces; `IfaceId` is the position: link *l* has `2l` and `2l + 1`.
    pub ifaces: Vec<Iface>,
    /// Real programs.
    pub programs: Vec<Program>,
    /// Built-in flows.
    pub flows: Vec<Flow>,
    /// `[control]`, if it is there or any traffic asks for it.
    pub control: Option<Control>,
    /// Populations of rate-controlled sessions.
    pub sessions: Vec<Population>,
    /// Bundles, in the order of their names.
    pub bundles: Vec<Bundle>,
    /// What happens when, in time order.
    pub events: Vec<Event>,
    /// Mirror sessions.
    pub mirrors: Vec<Mirror>,
    /// Interfaces whose packets are written to pcapng files.
    pub captures: Vec<IfaceId>,
    /// Record what enters the fabric, so that `netarium replay` can repeat the run (wall clock).
    pub record: bool,
    /// Where a run on the virtual clock ends with an error.
    pub limits: Limits,
    /// What the lab asks of the machines that it is spread over.
    pub cluster: Cluster,
    /// What must hold at the end.
    pub expectations: Vec<Expectation>,
    /// The values that a sweep chose for this plan: `("link.core.delay", "10 ms")`.
    pub sweep: Vec<(String, String)>,
}

/// How links are emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Every packet crosses every link's queue.
    Hop,
    /// Every packet crosses its whole path at once, at the flow's present share.
    Collapsed(Collapsed),
    /// Flows are rates and queues are integrated between events (virtual clock only).
    Fluid,
}

/// Where a run on the virtual clock ends with an error; what was measured so far is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most events.
    pub events: u64,
    /// Most memory for packets, flows and pending events.
    pub memory: Bytes,
}

impl Default for Limits {
    fn default() -> Self {
        Self { events: 1_000_000_000_000, memory: Bytes::new(8 << 30) }
    }
}

/// Who computes routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Shortest paths by a metric, equal-cost paths shared by flow hash.
    Shortest(Metric),
    /// Nobody: routers are namespaces, and programs in them do it.
    None,
}

/// What a shortest path minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The sum of the links' delays (a hop breaks ties).
    Delay,
    /// The number of links.
    Hops,
    /// The sum of the links' `metric` fields.
    Metric,
}

/// How deadlines are met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Sleep until the deadline.
    Normal,
    /// Sleep until shortly before it and spin for the rest.
    High,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name, unique in the lab, fit for a host name.
    pub name: String,
    /// What the lab file calls it.
    pub kind: Role,
    /// How the fabric treats it: a router with programs or `routing = "none"` is an `Edge`.
    pub fabric: NodeKind,
    /// Its interfaces, in the order of the links.
    pub ifaces: Vec<IfaceId>,
    /// Where it is in the lab file, for messages: (line, column), 1-based; (0, 0) when generated.
    pub declared: (u32, u32),
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Runs programs, does not forward.
    Host,
    /// Forwards at layer 3.
    Router,
    /// Forwards unseen: its links are one subnet.
    Switch,
    /// Forwards at layer 3, and holds back the bundles that it sends.
    SendBox,
    /// Forwards at layer 3, and acknowledges the bundles that it receives.
    ReceiveBox,
}

impl Role {
    /// Whether it is one of the two ends of bundles.
    pub const fn is_box(self) -> bool {
        matches!(self, Self::SendBox | Self::ReceiveBox)
    }
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Iface {
    /// The node that has it.
    pub node: NodeId,
    /// The link that it is an end of.
    pub link: LinkId,
    /// The direction in which this end sends.
    pub sends: Direction,
    /// `eth0`, `eth1`, … in the node's order.
    pub name: String,
    /// IPv4 address and prefix length; switches have none.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// IPv6 address and prefix length; switches have none.
    pub v6: Option<(Ipv6Addr, u8)>,
}

/// A link.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Its name: given, or `a-b` from its ends (`a-b.2` for the second between the same).
    pub name: String,
    /// First and second end.
    pub ends: [NodeId; 2],
    /// Properties from the first end to the second (`up`) and back (`down`).
    pub directions: [LinkConfig; 2],
    /// Cost for `routing = "metric"`.
    pub metric: u32,
    /// Whether it starts in service.
    pub up: bool,
}

/// A real program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Its name: given, or the node's and the command's (`alice.iperf3`).
    pub name: String,
    /// The node in whose namespace it runs.
    pub node: NodeId,
    /// What runs.
    pub command: Command,
    /// Not started before.
    pub start: Time,
    /// Started once these are ready (or, without a ready condition, have started).
    pub after: Vec<ProgramId>,
    /// When it counts as ready.
    pub ready: Option<Ready>,
    /// How long readiness may take.
    pub ready_timeout: Span,
    /// What happens when it ends by itself.
    pub restart: Restart,
    /// Added to the environment.
    pub env: BTreeMap<String, String>,
    /// Working directory; relative to the lab file's folder.
    pub dir: Option<PathBuf>,
    /// Services do not keep the run going and are stopped at its end.
    pub service: bool,
    /// Exit statuses that are fine; `None`: any.
    pub exit: Option<Vec<i32>>,
    /// Between SIGTERM and SIGKILL.
    pub grace: Span,
    /// Neither its capabilities in the lab's user namespace nor its system calls are limited.
    pub privileged: bool,
    /// Bytes of standard output and error that are kept, both together.
    pub output: Bytes,
}

/// What a program entry runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A line for `/bin/sh -c`.
    Shell(String),
    /// A program and its arguments, no shell.
    Exec(Vec<String>),
}

/// When a program counts as ready.
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
    /// This shell command, run beside it, exits with 0.
    Command(String),
}

/// What happens when a program ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Nothing.
    Never,
    /// It starts again unless it exited as expected.
    OnFailure,
    /// It starts again.
    Always,
}

/// Built-in traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its name: given, or `from-to` (`from-to.2` for the second between the same).
    pub name: String,
    /// The node that opens the connection.
    pub from: NodeId,
    /// The node that accepts it.
    pub to: NodeId,
    /// Over which address family.
    pub family: Family,
    /// When it starts.
    pub start: Time,
    /// It ends after this even if it has more to send.
    pub duration: Option<Span>,
    /// What it does.
    pub traffic: Traffic,
    /// DSCP value of its packets, 0–63.
    pub dscp: u8,
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// What a built-in flow does.
#[derive(Clone, Debug, PartialEq)]
pub enum Traffic {
    /// TCP as fast as it goes, from `from` to `to`.
    Bulk {
        /// Payload to send; `None`: until the end.
        size: Option<Bytes>,
        /// Rate at which the application offers payload, over all connections; what the network
        /// does not take at once waits and follows. `None`: as fast as it goes.
        rate: Option<Bandwidth>,
        /// When the receiver does not read.
        pause: Option<Pause>,
        /// How its connections behave.
        tcp: Tcp,
        /// Parallel connections, at least 1.
        streams: u32,
        /// Disable Nagle's algorithm and write messages of this many bytes.
        message: Option<Bytes>,
    },
    /// Many transfers, each over a TCP connection of its own.
    Transfers {
        /// Payload of each.
        sizes: Sizes,
        /// When they start.
        arrivals: Arrivals,
        /// How many; `None`: until the end.
        count: Option<u64>,
        /// How their connections behave.
        tcp: Tcp,
    },
    /// UDP datagrams.
    Paced {
        /// Rate of UDP payload (while on).
        rate: Bandwidth,
        /// Payload of a datagram (16 B at least: sequence number and time stamp).
        packet: Bytes,
        /// Payload to send in all; `None`: until the end.
        size: Option<Bytes>,
        /// How they are spaced.
        pattern: Pattern,
    },
    /// Datagrams at the rate that the lab's rate control assigns (virtual clock only).
    Controlled {
        /// The most that it can use; `None`: whatever it gets.
        demand: Option<Bandwidth>,
        /// Payload of a datagram.
        packet: Bytes,
        /// Payload to send in all; `None`: until the end.
        size: Option<Bytes>,
    },
    /// Requests over one TCP connection, each answered before the next is sent.
    Rpc {
        /// Payload of a request.
        request: Sizes,
        /// Payload of a response.
        response: Sizes,
        /// Number of requests; `None`: until the end.
        count: Option<u64>,
        /// From one request to the next at least; zero: at once.
        interval: Span,
        /// From a response to the next request.
        think: Think,
        /// How the connection behaves.
        tcp: Tcp,
    },
    /// Requests that come whether or not those before have been answered, over TCP connections
    /// that stay open: each takes the one that has been idle longest, or a new one.
    Requests {
        /// Payload of a request.
        request: Sizes,
        /// Payload of a response.
        response: Sizes,
        /// When requests come; an open loop.
        arrivals: Arrivals,
        /// Number of requests; `None`: until the end.
        count: Option<u64>,
        /// Connections that are opened at the start.
        streams: u32,
        /// How the connections behave.
        tcp: Tcp,
    },
    /// Requests in UDP datagrams, each answered or given up before the next is sent.
    Queries {
        /// Payload of a request (16 B at least).
        request: Bytes,
        /// Payload of a response (16 B at least).
        response: Bytes,
        /// Number of requests; `None`: until the end.
        count: Option<u64>,
        /// From one request to the next at least; zero: at once.
        interval: Span,
        /// From a response to the next request.
        think: Think,
        /// After this a request counts as lost.
        timeout: Span,
    },
}

/// How a TCP connection behaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Congestion control of both ends: `reno`, `cubic`, `bbr`, … `None`: the kernel's default on
    /// the wall clock, CUBIC on the virtual one.
    pub control: Option<String>,
    /// Negotiate explicit congestion notification (RFC 3168).
    pub ecn: bool,
    /// Receive and send buffer of both ends, as a socket asks for them: a kernel doubles that. With
    /// MCTCP each subflow has them, and the session has twice as much. `None`: as the kernel tunes
    /// it, 6 MiB on the virtual clock.
    pub window: Option<Bytes>,
    /// Several paths at once; `None`: plain TCP.
    pub multipath: Option<Multipath>,
}

/// Something that happens at a set time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When.
    pub at: Time,
    /// What.
    pub action: Action,
    /// The entry in words, for the log.
    pub text: String,
}

/// What an event does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// The link's properties become these; what is queued stays queued.
    Set {
        /// The link.
        link: LinkId,
        /// One direction's new properties, complete.
        direction: Direction,
        /// See `direction`.
        config: Box<LinkConfig>,
    },
    /// The link goes out of service; what is on it is lost.
    LinkDown(LinkId),
    /// The link comes back.
    LinkUp(LinkId),
    /// A program and its descendants get SIGTERM, and SIGKILL after its grace time.
    Stop(ProgramId),
    /// A program and its descendants get SIGKILL.
    Kill(ProgramId),
    /// A stopped, killed or ended program starts again.
    Start(ProgramId),
    /// All interfaces of a node go down, and its programs are killed.
    NodeDown(NodeId),
    /// A node that was down comes back, with its programs.
    NodeUp(NodeId),
    /// A flow starts (again).
    FlowStart(FlowId),
    /// A flow stops.
    FlowStop(FlowId),
    /// Something happens to the process of a box.
    Box(NodeId, BoxAction),
}

/// A copy of some of a link's packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Mirror {
    /// Its name.
    pub name: String,
    /// The link.
    pub link: LinkId,
    /// Directions that are copied: `[up, down]`.
    pub directions: [bool; 2],
    /// Which packets.
    pub filter: Filter,
    /// Where the copies go.
    pub to: MirrorTarget,
}

/// Where mirrored packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorTarget {
    /// The first interface of a node, at once and without crossing a link (a SPAN port).
    Node(NodeId),
    /// A pcapng file in the run folder, `<name>.pcapng`.
    File,
}

/// A packet filter: what is set must match. `tcp port 179`, `host alice and udp`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// IP protocol number.
    pub protocol: Option<u8>,
    /// Either port.
    pub port: Option<u16>,
    /// Source port.
    pub src_port: Option<u16>,
    /// Destination port.
    pub dst_port: Option<u16>,
    /// Either address belongs to this node.
    pub host: Option<NodeId>,
    /// The source address belongs to this node.
    pub src_host: Option<NodeId>,
    /// The destination address belongs to this node.
    pub dst_host: Option<NodeId>,
    /// IP version, 4 or 6.
    pub version: Option<u8>,
}

impl Flow {
    /// Whether it comes to an end by itself.
    pub fn is_finite(&self) -> bool {
        let amount = match &self.traffic {
            Traffic::Bulk { size, .. }
            | Traffic::Paced { size, .. }
            | Traffic::Controlled { size, .. } => size.is_some(),
            Traffic::Transfers { count, .. }
            | Traffic::Rpc { count, .. }
            | Traffic::Requests { count, .. }
            | Traffic::Queries { count, .. } => count.is_some(),
        };
        amount || self.duration.is_some()
    }
}

impl Plan {
    /// The node called `name`.
    pub fn node(&self, name: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| n.name == name).map(NodeId::at)
    }

    /// The link called `name`.
    pub fn link(&self, name: &str) -> Option<LinkId> {
        self.links.iter().position(|l| l.name == name).map(LinkId::at)
    }

    /// Whether any traffic is under explicit rate control.
    pub fn is_rate_controlled(&self) -> bool {
        let controlled = |flow: &Flow| matches!(flow.traffic, Traffic::Controlled { .. });
        let access = self.control.as_ref().is_some_and(|control| !control.access.is_empty());
        access || !self.sessions.is_empty() || self.flows.iter().any(controlled)
    }

    /// The bundle called `name`.
    pub fn bundle(&self, name: &str) -> Option<usize> {
        self.bundles.iter().position(|bundle| bundle.name == name)
    }

    /// The network as the fabric takes it; positions are the plan's.
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

    /// The mirror's identifier at a position.
    pub fn mirror_ids(&self) -> impl Iterator<Item = MirrorId> {
        (0..self.mirrors.len()).map(MirrorId::at)
    }
}
