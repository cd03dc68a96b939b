//! Built-in flows: traffic by the kernel's own sockets, without a program.
//!
//! One thread drives all flows of a lab. It makes each flow's sockets inside the namespaces of the
//! two hosts and then waits for all of them at once, so that a flow costs two descriptors a stream
//! and no process. Both ends of a flow are in this thread: what was sent, received, lost and
//! overtaken is known exactly and on one clock.
//!
//! | kind | sender | receiver | ends |
//! |---|---|---|---|
//! | bulk | writes as fast as TCP takes it | discards without copying | receiver saw the end |
//! | paced | numbered, stamped datagrams by the flow's pattern | delay, loss, order | all there, or 2 s of silence |
//! | transfers | a connection for each | discards | receivers saw the end of each |
//! | RPC | a request, then waits | answers each | last response |

mod bulk;
mod content;
pub mod datagram;
mod driver;
mod mctcp;
mod mptcp;
mod offer;
mod pace;
mod paced;
mod queries;
mod requests;
mod rpc;
mod traffic;
mod transfers;

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use base::{Bytes, FlowId, LinkId, Span};
use lab::plan::{Flow, MultipathKind, Tcp, Traffic};
use outcome::Ideal;
use record::{FlowSample, SubflowSample, Transfer};
use rustix::event::{EventfdFlags, eventfd};
use sys::namespace::{self, Kinds};
use sys::netlink::mptcp as kernel;
use sys::socket::{self, TcpOptions};
use transport::workload::{Pattern, Sizes};

use crate::{Error, Result};
use driver::{Command, Driver};

pub use outcome::{Datagrams, FlowResult, Outcome};

/// One flow, where it runs, and between which addresses.
#[derive(Clone, Debug)]
pub struct FlowSpec<'fd> {
    /// Its number in the plan; results and samples carry it.
    pub id: FlowId,
    /// What it does.
    pub flow: Flow,
    /// The network namespace of the sender (of the client).
    pub from_netns: BorrowedFd<'fd>,
    /// The network namespace of the receiver (of the server).
    pub to_netns: BorrowedFd<'fd>,
    /// The sender's address.
    pub from_addr: IpAddr,
    /// The receiver's address.
    pub to_addr: IpAddr,
    /// What its transfers could do alone, where that is known.
    pub ideal: Option<Ideal>,
    /// Its paths, if it is one with several.
    pub paths: Vec<FlowPath>,
}

/// A path of a multipath flow, by the addresses of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowPath {
    /// The sender's link.
    pub link: LinkId,
    /// The sender's address.
    pub from: IpAddr,
    /// The receiver's address.
    pub to: IpAddr,
    /// To be used only while no other path works.
    pub backup: bool,
}

/// When time began and how often to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOptions {
    /// `CLOCK_MONOTONIC` in nanoseconds at the start of the run; may lie ahead.
    pub origin: u64,
    /// How often samples are taken.
    pub interval: Span,
    /// Keys the flows' random streams.
    pub seed: u64,
}

/// What a flow tells while it runs.
#[derive(Clone, Debug)]
pub enum Observation {
    /// What it counted in an interval.
    Sample(Box<FlowSample>),
    /// What one of its subflows counted in an interval.
    Subflow(SubflowSample),
    /// A transfer that has ended.
    Transfer(Transfer),
}

/// Takes each observation as it is made; called from the flows' thread, so it must not block.
pub type FlowSink = Box<dyn FnMut(Observation) + Send>;

/// All built-in flows of a lab, running. Flows start and end by themselves as the plan says.
/// Dropped, it ends them without results.
#[derive(Debug)]
pub struct FlowEngine {
    thread: Option<JoinHandle<Vec<FlowResult>>>,
    commands: Sender<Command>,
    waker: Arc<OwnedFd>,
    pending: Arc<AtomicUsize>,
}

/// A flow with its own hold on its namespaces.
struct Placed {
    id: FlowId,
    flow: Flow,
    netns: [Arc<OwnedFd>; 2],
    addresses: [IpAddr; 2],
    ideal: Option<Ideal>,
    /// The first is used first.
    paths: Vec<FlowPath>,
}

impl FlowEngine {
    /// Checks all flows, then starts the thread that drives them. Nothing is sent before the
    /// origin of `options` and each flow's own start.
    ///
    /// # Errors
    /// When a flow asks for what the kernel does not have (a congestion control) or what makes no
    /// sense (a datagram too short for its header), before any traffic.
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

    /// Starts a flow now: for the first time, or again. A flow that runs goes on running.
    pub fn start(&self, flow: FlowId) {
        self.send(Command::Start(flow));
    }

    /// Stops a flow now: TCP connections are reset, queued data is dropped.
    pub fn stop(&self, flow: FlowId) {
        self.send(Command::Stop(flow));
    }

    /// How many flows with an end of their own (a size, a count, a duration) have not come to it.
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    /// Stops what still runs, takes the last sample and answers what each flow achieved, in the
    /// order of the specs.
    pub fn finish(mut self) -> Vec<FlowResult> {
        self.end()
    }

    fn end(&mut self) -> Vec<FlowResult> {
        let Some(thread) = self.thread.take() else { return Vec::new() };
        self.send(Command::Finish);
        match thread.join() {
            Ok(results) => results,
            // A panic over there is our bug as much as one here.
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    fn send(&self, command: Command) {
        // The receiver lives until `Finish`, and after that nobody can call this.
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

/// Gives each flow descriptors of its own, one for each namespace.
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
        let netns = [hold(spec.from_netns)?, hold(spec.to_netns)?];
        let mut paths = spec.paths;
        // The kernel's first subflow cannot stand by.
        if let Some(first) = paths.iter().position(|path| !path.backup) {
            paths[..=first].rotate_right(1);
        }
        let ends = paths.first().map(|path| [path.from, path.to]);
        let addresses = ends.unwrap_or([spec.from_addr, spec.to_addr]);
        Ok(Placed { id: spec.id, flow: spec.flow, netns, addresses, ideal: spec.ideal, paths })
    };
    specs.into_iter().map(place).collect()
}

/// Whether the flow can be what it asks to be.
fn check(spec: &FlowSpec<'_>) -> Result<()> {
    let name = || spec.flow.name.clone();
    let refuse = |why| Err(Error::ImpossibleFlow { flow: name(), why });
    if spec.from_addr.is_ipv4() != spec.to_addr.is_ipv4() {
        return refuse("its ends are of different address families");
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
        Traffic::Queries { request, response, .. } => {
            let short = |size: &Bytes| size.count() < datagram::LENGTH as u64;
            if short(request) || short(response) {
                return refuse("a datagram must have 16 B of payload");
            }
            Ok(())
        }
        Traffic::Controlled { .. } => {
            refuse("explicit rate control needs the virtual clock: `netarium sim`")
        }
        Traffic::Rpc { request, response, tcp, .. } => {
            let empty = |sizes: &Sizes| matches!(sizes, Sizes::Fixed(Bytes::ZERO));
            if empty(request) || empty(response) {
                return refuse("requests and responses must have at least 1 byte");
            }
            check_tcp(spec, tcp)
        }
    }
}

/// How the kernel is asked for what a flow wants of TCP. ECN is not the socket's business.
fn tcp_options(tcp: &Tcp, no_delay: bool, dscp: u8) -> TcpOptions<'_> {
    let window = tcp.window.map(|window| window.count() as usize);
    let kind = tcp.multipath.as_ref().map(|multipath| multipath.kind);
    let multipath = kind == Some(MultipathKind::Mptcp);
    TcpOptions { congestion: tcp.control.as_deref(), no_delay, dscp, window, multipath }
}

/// Listens at the receiver of a flow. The thread is in its namespace.
fn listen(placed: &Placed, options: TcpOptions<'_>) -> sys::Result<(OwnedFd, SocketAddr)> {
    let address = placed.addresses[1];
    if !options.multipath {
        return socket::listen(address, options);
    }
    // Further subflows come to other addresses, at the same port.
    let any = if address.is_ipv4() { IpAddr::from([0; 4]) } else { [0; 16].into() };
    let (listener, at) = socket::listen(any, options)?;
    Ok((listener, SocketAddr::new(address, at.port())))
}

/// Asks the kernel, inside the sender's namespace, for the congestion control and the window.
fn check_tcp(spec: &FlowSpec<'_>, tcp: &Tcp) -> Result<()> {
    if tcp_options(tcp, false, 0).multipath {
        for netns in [spec.from_netns, spec.to_netns] {
            if !namespace::in_net(netns, kernel::is_supported)? {
                return Err(Error::NoMptcp { flow: spec.flow.name.clone() });
            }
        }
    }
    let try_options = |options: TcpOptions<'_>| {
        namespace::in_net(spec.from_netns, || {
            // Loopback addresses exist in every namespace; nothing is sent.
            let any = if spec.from_addr.is_ipv4() { IpAddr::from([0; 4]) } else { [0; 16].into() };
            socket::listen(any, options).map(drop).map_err(|e| (e, socket::congestion_controls()))
        })
    };
    if tcp.window.is_some() {
        let options = TcpOptions { congestion: None, ..tcp_options(tcp, false, 0) };
        if let Err((cause, _)) = try_options(options)? {
            let why = "its window is above net.core.rmem_max or wmem_max, which this user may not \
                       exceed; `netarium sim` knows no such limit";
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

/// Lets hosts ask for ECN where their flows want it. The kernel knows that by host only, so the
/// TCP flows that a host opens have to be of one mind.
fn negotiate_ecn(specs: &[FlowSpec<'_>]) -> Result<()> {
    let wish = |flow: &Flow| match &flow.traffic {
        Traffic::Bulk { tcp, .. }
        | Traffic::Transfers { tcp, .. }
        | Traffic::Rpc { tcp, .. }
        | Traffic::Requests { tcp, .. } => Some(tcp.ecn),
        Traffic::Paced { .. } | Traffic::Controlled { .. } | Traffic::Queries { .. } => None,
    };
    let mut wishes = std::collections::BTreeMap::new();
    for spec in specs {
        let Some(ecn) = wish(&spec.flow) else { continue };
        match wishes.insert(spec.flow.from, ecn) {
            None if ecn => {
                let write = || sys::sysctl::write("net/ipv4/tcp_ecn", "1");
                namespace::in_net(spec.from_netns, write)??;
            }
            Some(other) if other != ecn => {
                let why = "other TCP flows from its host differ in `ecn`, which a kernel has for \
                           all or none; `netarium sim` has it for each";
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
