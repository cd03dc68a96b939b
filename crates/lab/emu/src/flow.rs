//! Built-in flows: traffic over the kernel's sockets, without a program.
//!
//! One thread drives all flows of a lab. It creates each flow's sockets inside the namespaces of
//! the two hosts and waits for all sockets at once, so that a flow costs two descriptors per stream
//! and no process. If both ends of a flow are in this thread, sent, received, lost and reordered
//! data are known exactly and on one clock. An end on another agent is driven by a flow engine
//! there; each engine counts what it observes ([`FlowResult::join`]).
//!
//! | kind | sender | receiver | ends |
//! |---|---|---|---|
//! | bulk | writes as fast as TCP accepts | discards without copying | receiver reached the end |
//! | paced | numbered, stamped datagrams by the flow's pattern | delay, loss, order | all received, or 2 s without any |
//! | transfers | a connection for each | discards | receivers reached the end of each |
//! | RPC | a request, then waits | answers each | last response |
//! | requests | an open loop | answers each | last response |
//! | queries | a datagram, then waits | answers each | last answer, or its timeout |
//!
//! Modules that depend on each other: this one and all others, for the flow that they open;
//! `traffic` and `mctcp`, for the context of a call and its sessions; `rendezvous`, `paced` and
//! `queries`, for socket buffer sizes.
//!
//! If the ends are on different agents, each connection of bulk flows and transfers ends with 16
//! bytes from the receiver, and paced flows exchange, after the last datagram, 24 bytes in each
//! direction until they are answered.

mod bulk;
mod content;
mod driver;
mod mctcp;
mod mptcp;
mod paced;
mod queries;
mod rendezvous;
mod streams;
mod traffic;

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use base::{Bytes, FlowId, Histogram, LinkId, Span};
use lab::plan::{Flow, MultipathKind, Tcp, Tolerance, Traffic};
use run::Ideal;
use run::waits::HostWaits;
use run::{FlowSample, SubflowSample, Transfer};
use rustix::event::{EventfdFlags, eventfd};
use sys::namespace::{self, Kinds};
use sys::netlink::mptcp as kernel;
use sys::socket::{self, TcpOptions};
use workload::{Pattern, Sizes, datagram};

use crate::clock::LabClock;
use crate::{Error, Result};
use driver::{Command, Driver};

pub use run::{Datagrams, FlowEnds, FlowResult, Outcome};

/// A flow, and the namespaces and addresses of its ends.
#[derive(Clone, Debug)]
pub struct FlowSpec<'fd> {
    /// Its identifier in the plan, which results and samples contain.
    pub id: FlowId,
    pub flow: Flow,
    /// The network namespace of the sender (or client); `None`: it is on another agent.
    pub from_netns: Option<BorrowedFd<'fd>>,
    /// The network namespace of the receiver (or server); `None`: it is on another agent.
    pub to_netns: Option<BorrowedFd<'fd>>,
    /// The sender's address.
    pub from_addr: IpAddr,
    /// The receiver's address.
    pub to_addr: IpAddr,
    /// If the ends are on different agents, their runs use this port and the next.
    pub port: u16,
    /// Completion times of its transfers without other traffic, if known.
    pub ideal: Option<Ideal>,
    pub paths: Vec<FlowPath>,
}

/// A path of a multipath flow, by the addresses of its ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPath {
    /// The sender's link.
    pub link: LinkId,
    /// The name of the sender's interface, which all packets of the path use.
    pub device: Arc<str>,
    /// The sender's address.
    pub from: IpAddr,
    /// The receiver's address.
    pub to: IpAddr,
    /// Used only while no other path works.
    pub backup: bool,
}

#[derive(Clone, Debug)]
pub struct FlowOptions {
    /// The lab clock; the start may lie in the future.
    pub clock: LabClock,
    pub interval: Span,
    /// Seed of the flows' random streams.
    pub seed: u64,
    /// The waits of the threads that all packets pass, and the tolerance of the lab.
    pub waits: Option<(HostWaits, Tolerance)>,
}

/// A report of a running flow.
#[derive(Clone, Debug)]
pub enum Observation {
    /// Its counters in an interval.
    Sample(Box<FlowSample>),
    /// The counters of one of its subflows in an interval.
    Subflow(SubflowSample),
    Transfer(Transfer),
}

/// Receives each observation; called from the flow thread, so it must not block.
pub type FlowSink = Box<dyn FnMut(Observation) + Send>;

/// All built-in flows of a lab. Flows start and end according to the plan. Dropping the engine ends
/// them without results.
#[derive(Debug)]
pub struct FlowEngine {
    thread: Option<JoinHandle<FlowResults>>,
    commands: Sender<Command>,
    waker: Arc<OwnedFd>,
    pending: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
pub struct FlowResults {
    /// The result of each flow, in the order of the specs.
    pub results: Vec<FlowResult>,
    /// Time in nanoseconds for which the flow thread waited for a CPU before each of its events.
    pub waits: Histogram,
}

/// A flow with its own descriptors of its namespaces.
struct Placed {
    id: FlowId,
    flow: Flow,
    /// Namespaces of its ends on this agent: at least one.
    netns: [Option<Arc<OwnedFd>>; 2],
    addresses: [IpAddr; 2],
    port: u16,
    ideal: Option<Ideal>,
    /// The first path is used first.
    paths: Vec<FlowPath>,
}

impl Placed {
    /// Which of its ends are on this agent.
    fn local_ends(&self) -> FlowEnds {
        match &self.netns {
            [Some(_), None] => FlowEnds::Opening,
            [None, Some(_)] => FlowEnds::Accepting,
            _ => FlowEnds::Both,
        }
    }

    /// Whether one of its ends is on another agent.
    fn is_split(&self) -> bool {
        self.local_ends() != FlowEnds::Both
    }

    /// The namespace of an end of a multipath flow.
    fn netns_of(&self, end: usize) -> &Arc<OwnedFd> {
        self.netns[end].as_ref().expect("flows with several paths have both ends here: `check`")
    }

    /// Whether the flow's goodput is counted on this agent: at the receiver, or at the client
    /// if the responses count.
    fn counts_goodput(&self) -> bool {
        match self.flow.traffic {
            Traffic::Rpc { .. } | Traffic::Requests { .. } | Traffic::Queries { .. } => {
                self.local_ends() != FlowEnds::Accepting
            }
            _ => self.local_ends() != FlowEnds::Opening,
        }
    }
}

impl FlowEngine {
    /// Checks all flows, then starts the thread that drives them. No flow sends before the origin
    /// of `options` and its own start.
    ///
    /// # Errors
    /// If a flow needs a feature that the kernel lacks (a congestion controller), or its settings
    /// are invalid (a datagram shorter than its header); no traffic has been sent then.
    pub fn spawn(specs: Vec<FlowSpec<'_>>, options: FlowOptions, sink: FlowSink) -> Result<Self> {
        for spec in &specs {
            check(spec)?;
        }
        negotiate_ecn(&specs)?;
        let flows = place(specs)?;
        let pending = Arc::new(AtomicUsize::new(0));
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let waker =
            eventfd(0, flags).map_err(|e| sys::Error::from_errno("eventfd", e.raw_os_error()))?;
        let waker = Arc::new(waker);
        let (commands, inbox) = channel();
        let driver = Driver::try_new(flows, options, sink, inbox, waker.clone(), pending.clone())?;
        let thread = std::thread::Builder::new()
            .name("flows".to_owned())
            .spawn(move || driver.run())
            .map_err(|cause| sys::Error::Call { call: "clone", cause })?;
        Ok(Self { thread: Some(thread), commands, waker, pending })
    }

    /// Starts a flow now, for the first time or again. An active flow continues.
    pub fn start(&self, flow: FlowId) {
        self.send(Command::Start(flow));
    }

    /// Stops a flow now: TCP connections are reset, queued data is dropped.
    pub fn stop(&self, flow: FlowId) {
        self.send(Command::Stop(flow));
    }

    /// Handles the loss of the agent with a flow's other end: an active flow fails unless the agent
    /// returns within 10 s.
    pub fn on_agent_lost(&self, flow: FlowId) {
        self.send(Command::AgentLost(flow));
    }

    /// The agent with a flow's other end has returned.
    pub fn on_agent_restored(&self, flow: FlowId) {
        self.send(Command::AgentRestored(flow));
    }

    /// Number of finite flows (with a size, a count or a duration) that have not ended. A flow with
    /// ends on different agents is counted by the sender's agent.
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    /// Stops all active flows, takes the last sample and returns the results.
    pub fn finish(mut self) -> FlowResults {
        self.end()
    }

    fn end(&mut self) -> FlowResults {
        let Some(thread) = self.thread.take() else { return FlowResults::default() };
        self.send(Command::Finish);
        match thread.join() {
            Ok(ended) => ended,
            // A panic in the flow thread is a bug as well.
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn send(&self, command: Command) {
        // The receiver exists until `Finish`, which consumes this engine.
        if self.commands.send(command).is_ok() {
            let _ = rustix::io::write(&*self.waker, &1_u64.to_ne_bytes());
        }
    }
}

impl Drop for FlowEngine {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

/// Gives each flow its own descriptors, one per namespace.
fn place(specs: Vec<FlowSpec<'_>>) -> Result<Vec<Placed>> {
    let mut held = std::collections::BTreeMap::new();
    let mut hold = |fd: BorrowedFd<'_>| -> Result<Arc<OwnedFd>> {
        use std::collections::btree_map::Entry;
        match held.entry(std::os::fd::AsRawFd::as_raw_fd(&fd)) {
            Entry::Occupied(known) => Ok(Arc::clone(known.get())),
            Entry::Vacant(new) => {
                let copy = fd.try_clone_to_owned();
                let copy = copy.map_err(|cause| sys::Error::Call { call: "dup", cause })?;
                Ok(Arc::clone(new.insert(Arc::new(copy))))
            }
        }
    };
    let place = |spec: FlowSpec<'_>| {
        let [from, to] = [spec.from_netns, spec.to_netns].map(|netns| netns.map(&mut hold));
        let netns = [from.transpose()?, to.transpose()?];
        let mut paths = spec.paths;
        // The kernel's first subflow cannot be a backup.
        if let Some(first) = paths.iter().position(|path| !path.backup) {
            paths[..=first].rotate_right(1);
        }
        let ends = paths.first().map(|path| [path.from, path.to]);
        let addresses = ends.unwrap_or([spec.from_addr, spec.to_addr]);
        let FlowSpec { id, flow, port, ideal, .. } = spec;
        Ok(Placed { id, flow, netns, addresses, port, ideal, paths })
    };
    specs.into_iter().map(place).collect()
}

/// Checks that the flow's settings can be satisfied.
fn check(spec: &FlowSpec<'_>) -> Result<()> {
    let name = || spec.flow.name.clone();
    let refuse = |why| Err(Error::ImpossibleFlow { flow: name(), why });
    if spec.from_addr.is_ipv4() != spec.to_addr.is_ipv4() {
        return refuse("its ends are of different address families");
    }
    if spec.flow.multipath().is_some() && (spec.from_netns.is_none() || spec.to_netns.is_none()) {
        return refuse("a flow over several paths must have both ends on one machine");
    }
    match &spec.flow.traffic {
        Traffic::Bulk { streams, message, tcp, .. } => {
            if !(1..=bulk::MAX_STREAMS).contains(streams) {
                return refuse("it must have 1 to 1024 streams");
            }
            if message.is_some_and(|message| message.count() == 0) {
                return refuse("a message must have at least 1 byte");
            }
            check_tcp(spec, tcp)
        }
        Traffic::Transfers { tcp, .. } | Traffic::Requests { tcp, .. } => check_tcp(spec, tcp),
        Traffic::Paced { rate, packet, pattern, .. } => {
            let most = if spec.from_addr.is_ipv4() { 65_507 } else { 65_527 };
            if packet.count() < datagram::LENGTH as u64 || packet.count() > most {
                return refuse("a datagram must have 16 B of payload, and at most 65507 B");
            }
            if !rate.is_positive() && !matches!(pattern, Pattern::Trace(_)) {
                return refuse("its rate must not be zero");
            }
            Ok(())
        }
        Traffic::Queries(spec) => {
            if spec.request.min(spec.response).count() < datagram::LENGTH as u64 {
                return refuse("a datagram must have 16 B of payload");
            }
            Ok(())
        }
        Traffic::Controlled { .. } => {
            refuse("explicit rate control needs the virtual clock: `netarium sim`")
        }
        Traffic::Rpc { spec: rpc, tcp } => {
            let empty = |sizes: &Sizes| matches!(sizes, Sizes::Fixed(Bytes::ZERO));
            if empty(&rpc.request) || empty(&rpc.response) {
                return refuse("requests and responses must have at least 1 byte");
            }
            check_tcp(spec, tcp)
        }
    }
}

/// The socket options for a flow's TCP settings. ECN is not a socket option.
fn tcp_options(tcp: &Tcp, no_delay: bool, dscp: u8) -> TcpOptions<'_> {
    let window = tcp.window.map(|window| window.count() as usize);
    let kind = tcp.multipath.as_ref().map(|multipath| multipath.kind);
    let multipath = kind == Some(MultipathKind::Mptcp);
    TcpOptions { congestion: tcp.control.as_deref(), no_delay, dscp, window, multipath }
}

/// Checks in the sender's namespace that the kernel supports the congestion controller and the
/// window; if the sender is on another agent, in the receiver's namespace.
fn check_tcp(spec: &FlowSpec<'_>, tcp: &Tcp) -> Result<()> {
    let ends = || [spec.from_netns, spec.to_netns].into_iter().flatten();
    let Some(near) = ends().next() else { return Ok(()) };
    if tcp_options(tcp, false, 0).multipath {
        for netns in ends() {
            if !namespace::in_net(netns, kernel::is_supported)? {
                return Err(Error::NoMptcp { flow: spec.flow.name.clone() });
            }
        }
    }
    let try_options = |options: TcpOptions<'_>| {
        namespace::in_net(near, || {
            // Loopback addresses exist in every namespace; no packet is sent.
            let any = if spec.from_addr.is_ipv4() { IpAddr::from([0; 4]) } else { [0; 16].into() };
            socket::listen(any, options).map(drop).map_err(|e| (e, socket::congestion_controls()))
        })
    };
    if tcp.window.is_some() {
        let options = TcpOptions { congestion: None, ..tcp_options(tcp, false, 0) };
        if let Err((cause, _)) = try_options(options)? {
            let why = "its window is above net.core.rmem_max or wmem_max, which this user may not \
                       exceed; `netarium sim` has no such limit";
            let flow = spec.flow.name.clone();
            let denied = cause.is_denied();
            return Err(if denied { Error::ImpossibleFlow { flow, why } } else { cause.into() });
        }
    }
    let Some(control) = tcp.control.as_deref() else { return Ok(()) };
    let options = TcpOptions { congestion: Some(control), ..TcpOptions::default() };
    let Err((cause, known)) = try_options(options)? else { return Ok(()) };
    let (available, allowed) = known?;
    let (flow, control) = (spec.flow.name.clone(), control.to_owned());
    if !available.contains(&control) {
        return Err(Error::UnknownControl { flow, control, available });
    }
    if cause.is_denied() {
        return Err(Error::DeniedControl { flow, control, allowed });
    }
    Err(cause.into())
}

/// Enables ECN on the hosts whose flows use it. ECN is a setting of the namespace, so all TCP flows
/// that a host opens must have the same setting.
fn negotiate_ecn(specs: &[FlowSpec<'_>]) -> Result<()> {
    let ecn_setting = |flow: &Flow| match &flow.traffic {
        Traffic::Bulk { tcp, .. }
        | Traffic::Transfers { tcp, .. }
        | Traffic::Rpc { tcp, .. }
        | Traffic::Requests { tcp, .. } => Some(tcp.ecn),
        Traffic::Paced { .. } | Traffic::Controlled { .. } | Traffic::Queries { .. } => None,
    };
    let mut ecn_settings = std::collections::BTreeMap::new();
    for spec in specs {
        let (Some(ecn), Some(netns)) = (ecn_setting(&spec.flow), spec.from_netns) else { continue };
        match ecn_settings.insert(spec.flow.from, ecn) {
            None if ecn => {
                let write = || sys::sysctl::write("net/ipv4/tcp_ecn", "1");
                namespace::in_net(netns, write)??;
            }
            Some(other) if other != ecn => {
                let why = "other TCP flows from its host have another `ecn`, and the kernel has \
                           one setting per host; `netarium sim` has one per flow";
                return Err(Error::ImpossibleFlow { flow: spec.flow.name.clone(), why });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Moves the calling thread into a namespace.
fn enter(netns: &OwnedFd) -> sys::Result<()> {
    namespace::enter(netns.as_fd(), Kinds::NET)
}

#[cfg(test)]
mod tests;
