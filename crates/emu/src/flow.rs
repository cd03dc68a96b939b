//! Built-in flows: traffic by the kernel's own sockets, without a program.
//!
//! One thread drives all flows of a lab. It makes each flow's sockets inside the namespaces of the
//! two hosts and then waits for all of them at once, so that a flow costs two descriptors a stream
//! and no process. Where both ends of a flow are in this thread, what was sent, received, lost and
//! overtaken is known exactly and on one clock. An end on another machine is driven by another
//! engine there; each half counts what it sees ([`FlowResult::join`]).
//!
//! | kind | sender | receiver | ends |
//! |---|---|---|---|
//! | bulk | writes as fast as TCP takes it | discards without copying | receiver saw the end |
//! | paced | numbered, stamped datagrams by the flow's pattern | delay, loss, order | all there, or 2 s of silence |
//! | transfers | a connection for each | discards | receivers saw the end of each |
//! | RPC | a request, then waits | answers each | last response |
//! | requests | come by themselves | answers each | last response |
//! | queries | a datagram, then waits | answers each | last answer, or its timeout |
//!
//! Between machines, bulk flows and transfers have 16 bytes from the receiver at the end of each
//! connection, and paced ones, after the last datagram, 24 bytes each way until they are answered.

mod bulk;
mod content;
pub mod datagram;
mod driver;
mod mctcp;
mod meeting;
mod mptcp;
mod offer;
mod pace;
mod paced;
mod queries;
mod requests;
mod rpc;
mod traffic;
mod transfers;

use std::net::IpAddr;
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

use crate::clock::LabClock;
use crate::{Error, Result};
use driver::{Command, Driver};

pub use outcome::{Datagrams, FlowResult, Half, Outcome};

/// One flow, where it runs, and between which addresses.
#[derive(Clone, Debug)]
pub struct FlowSpec<'fd> {
    /// Its number in the plan; results and samples carry it.
    pub id: FlowId,
    /// What it does.
    pub flow: Flow,
    /// The network namespace of the sender (of the client); `None`: it is on another machine.
    pub from_netns: Option<BorrowedFd<'fd>>,
    /// The network namespace of the receiver (of the server); `None`: it is on another machine.
    pub to_netns: Option<BorrowedFd<'fd>>,
    /// The sender's address.
    pub from_addr: IpAddr,
    /// The receiver's address.
    pub to_addr: IpAddr,
    /// Ends on different machines meet at this port and the next.
    pub port: u16,
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
#[derive(Clone, Debug)]
pub struct FlowOptions {
    /// The lab's time; its start may lie ahead.
    pub clock: LabClock,
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
    /// Of its ends that are here: one at least.
    netns: [Option<Arc<OwnedFd>>; 2],
    addresses: [IpAddr; 2],
    port: u16,
    ideal: Option<Ideal>,
    /// The first is used first.
    paths: Vec<FlowPath>,
}

impl Placed {
    /// Which of its ends are here.
    fn half(&self) -> Half {
        match &self.netns {
            [Some(_), None] => Half::Opening,
            [None, Some(_)] => Half::Accepting,
            _ => Half::Whole,
        }
    }

    /// Whether one of its ends is on another machine.
    fn is_split(&self) -> bool {
        self.half() != Half::Whole
    }

    /// The namespace of an end of a flow with several paths.
    fn own(&self, end: usize) -> &Arc<OwnedFd> {
        self.netns[end].as_ref().expect("flows with several paths have both ends here: `check`")
    }

    /// Whether the flow's goodput is counted here: at the receiver, or at the client if it is the
    /// responses that count.
    fn counts_goodput(&self) -> bool {
        match self.flow.traffic {
            Traffic::Rpc { .. } | Traffic::Requests { .. } | Traffic::Queries { .. } => {
                self.half() != Half::Accepting
            }
            _ => self.half() != Half::Opening,
        }
    }
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

    /// The machine with a flow's other end is lost: a flow that runs has failed, unless that
    /// machine returns within ten seconds.
    pub fn lose(&self, flow: FlowId) {
        self.send(Command::Lose(flow));
    }

    /// The machine with a flow's other end is there again.
    pub fn regain(&self, flow: FlowId) {
        self.send(Command::Regain(flow));
    }

    /// How many flows with an end of their own (a size, a count, a duration) have not come to it.
    /// A flow whose ends are on different machines is counted by its sender's.
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
        let [from, to] = [spec.from_netns, spec.to_netns].map(|netns| netns.map(&mut hold));
        let netns = [from.transpose()?, to.transpose()?];
        let mut paths = spec.paths;
        // The kernel's first subflow cannot stand by.
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

/// Whether the flow can be what it asks to be.
fn check(spec: &FlowSpec<'_>) -> Result<()> {
    let name = || spec.flow.name.clone();
    let refuse = |why| Err(Error::ImpossibleFlow { flow: name(), why });
    if spec.from_addr.is_ipv4() != spec.to_addr.is_ipv4() {
        return refuse("its ends are of different address families");
    }
    if spec.flow.multipath().is_some() && (spec.from_netns.is_none() || spec.to_netns.is_none()) {
        return refuse("a flow over several paths has both ends on one machine");
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

/// Asks the kernel, inside the sender's namespace, for the congestion control and the window; if
/// the sender is on another machine, inside the receiver's.
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
        let (Some(ecn), Some(netns)) = (wish(&spec.flow), spec.from_netns) else { continue };
        match wishes.insert(spec.flow.from, ecn) {
            None if ecn => {
                let write = || sys::sysctl::write("net/ipv4/tcp_ecn", "1");
                namespace::in_net(netns, write)??;
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
