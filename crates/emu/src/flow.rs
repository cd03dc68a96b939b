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
//! | paced | numbered, stamped datagrams at a constant rate | delay, loss, order | all there, or 2 s of silence |
//! | RPC | a request, then waits | answers each | last response |

mod bulk;
pub mod datagram;
mod driver;
mod pace;
mod paced;
mod rpc;
mod traffic;

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use base::{FlowId, Span};
use lab::plan::{Flow, Traffic};
use record::FlowSample;
use rustix::event::{EventfdFlags, eventfd};
use sys::namespace::{self, Kinds};
use sys::socket::{self, TcpOptions};
use transport::workload::Sizes;

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
}

/// When time began and how often to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowOptions {
    /// `CLOCK_MONOTONIC` in nanoseconds at the start of the run; may lie ahead.
    pub origin: u64,
    /// How often samples are taken.
    pub interval: Span,
}

/// Takes each sample as it is made; called from the flows' thread, so it must not block.
pub type SampleSink = Box<dyn FnMut(FlowSample) + Send>;

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
}

impl FlowEngine {
    /// Checks all flows, then starts the thread that drives them. Nothing is sent before the
    /// origin of `options` and each flow's own start.
    ///
    /// # Errors
    /// When a flow asks for what the kernel does not have (a congestion control) or what makes no
    /// sense (a datagram too short for its header), before any traffic.
    pub fn spawn(specs: Vec<FlowSpec<'_>>, options: FlowOptions, sink: SampleSink) -> Result<Self> {
        for spec in &specs {
            check(spec)?;
        }
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
        let addresses = [spec.from_addr, spec.to_addr];
        Ok(Placed { id: spec.id, flow: spec.flow, netns, addresses })
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
            check_control(spec, tcp.control.as_deref())
        }
        Traffic::Transfers { .. } => {
            refuse("it makes a connection for each transfer; run it with `netarium sim`")
        }
        Traffic::Paced { rate, packet, .. } => {
            let most = if spec.from_addr.is_ipv4() { 65_507 } else { 65_527 };
            if packet.count() < datagram::LENGTH as u64 || packet.count() > most {
                return refuse("a datagram must have 16 B of payload, and at most 65507 B");
            }
            if !rate.is_positive() {
                return refuse("its rate must not be zero");
            }
            Ok(())
        }
        Traffic::Rpc {
            request: Sizes::Fixed(request),
            response: Sizes::Fixed(response),
            tcp,
            ..
        } => {
            if !request.is_positive() || !response.is_positive() {
                return refuse("requests and responses must have at least 1 byte");
            }
            check_control(spec, tcp.control.as_deref())
        }
        Traffic::Rpc { .. } => refuse("its sizes are drawn; run it with `netarium sim`"),
    }
}

/// Asks the kernel, inside the sender's namespace, for the congestion control.
fn check_control(spec: &FlowSpec<'_>, control: Option<&str>) -> Result<()> {
    let Some(control) = control else { return Ok(()) };
    let options = TcpOptions { congestion: Some(control), ..TcpOptions::default() };
    let tried = namespace::in_net(spec.from_netns, || {
        // Loopback addresses exist in every namespace; nothing is sent.
        let any = if spec.from_addr.is_ipv4() { IpAddr::from([0; 4]) } else { [0; 16].into() };
        socket::listen(any, options).map(drop).map_err(|e| (e, socket::congestion_controls()))
    })?;
    let Err((cause, known)) = tried else { return Ok(()) };
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

/// Moves the calling thread into a namespace.
fn enter(netns: &OwnedFd) -> sys::Result<()> {
    namespace::enter(netns.as_fd(), Kinds::NET)
}

#[cfg(test)]
mod tests;
