//! MCTCP on the wall clock: the sessions of flows, on real sockets in the
//! namespaces of their hosts.
//!
//! The crate `mctcp-live` drives the sessions in its own thread. It sets a flow's signal, a
//! descriptor that the flow thread waits for, when one of the flow's sessions can make progress.

mod bulk;
mod streams;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::{Wake, Waker};

use base::{Bytes, LinkId, Span};
use lab::plan::Tcp;
use mctcp::Settings;
use mctcp::frame::Priority;
use mctcp::session::SubflowState;
use mctcp_live::{
    Accepted, Config, Connecting, Dial, ListenerConfig, MctcpListener, MctcpStream, Observer,
    PathSpec, Runtime,
};
use run::{FlowCounters, Subflow};
use rustix::event::{EventfdFlags, eventfd};
use sys::namespace;
use sys::socket::{self, Interest, TcpOptions};

use super::traffic::Scope;
use super::{FlowPath, Placed, enter};

pub(super) use bulk::Bulk;
pub(super) use streams::Streams;

/// The slot of a flow's signal, its only descriptor.
const SIGNAL_SLOT: u32 = 0;

/// Minimum buffer of a session in each direction.
const MIN_BUFFER: Bytes = Bytes::new(64 << 10);

/// The MCTCP runtime of all flows, created on first use.
#[derive(Debug, Default)]
pub(super) struct Sessions(Option<Arc<Runtime>>);

impl Sessions {
    fn runtime(&mut self) -> sys::Result<Arc<Runtime>> {
        if let Some(runtime) = &self.0 {
            return Ok(Arc::clone(runtime));
        }
        let started = Runtime::start("mctcp", 1).map(Arc::new).map_err(failed)?;
        self.0 = Some(Arc::clone(&started));
        Ok(started)
    }
}

/// An eventfd that is readable when a session can make progress.
#[derive(Debug)]
struct EventSignal(OwnedFd);

impl EventSignal {
    fn set(&self) {
        // With a full counter, the eventfd is readable already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn clear(&self) {
        // An earlier read may have reset it.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl Wake for EventSignal {
    fn wake(self: Arc<Self>) {
        self.set();
    }
}

/// The addresses and listener of a flow's sessions.
struct Site {
    runtime: Arc<Runtime>,
    signal: Arc<EventSignal>,
    waker: Waker,
    listener: MctcpListener,
    paths: Vec<PathSpec>,
    config: Config,
}

impl Site {
    /// Starts listening at the receiver, and adds the flow's signal to the event queue.
    fn open(placed: &Placed, tcp: &Tcp, scope: &mut Scope<'_>) -> sys::Result<Self> {
        let runtime = scope.sessions.runtime()?;
        let signal = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| sys::Error::from_errno("eventfd", e.raw_os_error()))?;
        scope.add(&signal, SIGNAL_SLOT, Interest::Read)?;
        let signal = Arc::new(EventSignal(signal));
        let config = config(placed, tcp);
        let ports = listen(placed)?;
        let at: BTreeMap<IpAddr, SocketAddr> = ports.iter().map(|(_, at)| (at.ip(), *at)).collect();
        let sockets = ports.into_iter().map(|(socket, _)| TcpListener::from(socket)).collect();
        let listening = ListenerConfig {
            session: Config { dial: None, ..config.clone() },
            advertise: Some(Vec::new()),
            ..ListenerConfig::default()
        };
        let listener = runtime.listen(sockets, listening).map_err(failed)?;
        let paths = paths(placed, &at);
        let waker = Waker::from(Arc::clone(&signal));
        Ok(Self { runtime, signal, waker, listener, paths, config })
    }

    fn connect(&self, target: &str) -> Connecting {
        self.runtime.connect(self.paths.clone(), target, self.config.clone())
    }

    /// The next accepted session.
    fn accept(&mut self) -> sys::Result<Option<MctcpStream>> {
        while let Some(accepted) = self.listener.try_accept(&self.waker) {
            if let Accepted::Session(stream) = accepted.map_err(failed)? {
                return Ok(Some(stream));
            }
        }
        Ok(None)
    }
}

/// A listening socket for each of the receiver's addresses, in the namespace's own port range.
fn listen(placed: &Placed) -> sys::Result<Vec<(OwnedFd, SocketAddr)>> {
    enter(placed.netns_of(1))?;
    let mut addresses: Vec<IpAddr> = placed.paths.iter().map(|path| path.to).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let options = TcpOptions { dscp: placed.flow.dscp, ..TcpOptions::default() };
    addresses.into_iter().map(|address| socket::listen(address, options)).collect()
}

/// The flow's paths, repeated if it wants more subflows than paths.
fn paths(placed: &Placed, at: &BTreeMap<IpAddr, SocketAddr>) -> Vec<PathSpec> {
    let subflows = placed.flow.multipath().map_or(1, |multipath| multipath.subflows);
    let count = placed.paths.len().max(usize::from(subflows));
    let path = |path: &FlowPath| {
        let priority = Priority { backup: path.backup, ..Priority::default() };
        let remote = *at.get(&path.to)?;
        let device = Some(path.device.to_string());
        Some(PathSpec { remote, local: Some(path.from), device, priority })
    };
    placed.paths.iter().cycle().take(count).filter_map(path).collect()
}

fn config(placed: &Placed, tcp: &Tcp) -> Config {
    let mut settings = Settings::default();
    if let Some(multipath) = &tcp.multipath {
        settings.scheduler = multipath.scheduler;
        settings.max_subflows = multipath.subflows;
    }
    if let Some(window) = tcp.window {
        // The kernel doubles the requested size for its own sockets.
        let buffer = Bytes::new(window.count() * 2).max(MIN_BUFFER);
        (settings.send_buffer, settings.receive_buffer) = (buffer, buffer);
        settings.autotune = false;
    }
    Config {
        settings,
        congestion: tcp.control.clone(),
        send_buffer: tcp.window,
        receive_buffer: tcp.window,
        dial: Some(dial(placed)),
        follow: false,
        ..Config::default()
    }
}

/// Creates sockets in the sender's namespace.
fn dial(placed: &Placed) -> Dial {
    let (netns, dscp) = (Arc::clone(placed.netns_of(0)), placed.flow.dscp);
    Arc::new(move |path| {
        let address = path.remote.ip();
        let socket = namespace::in_net(netns.as_fd(), || {
            let socket = socket::tcp_socket(address)?;
            socket::set_dscp(&socket, address, dscp)?;
            Ok(socket)
        });
        socket.and_then(|made| made).map_err(io::Error::other)
    })
}

/// Converts an error of a session to the flow's error.
fn failed(cause: impl std::error::Error + Send + Sync + 'static) -> sys::Error {
    sys::Error::Call { call: "MCTCP", cause: io::Error::other(cause) }
}

/// Reads the counters of a session's subflows.
#[derive(Debug)]
struct Meter {
    links: BTreeMap<IpAddr, LinkId>,
    client: Option<Observer>,
    server: Option<Observer>,
    known: BTreeMap<u32, Subflow>,
}

impl Meter {
    fn new(placed: &Placed) -> Self {
        let links = placed.paths.iter().map(|path| (path.from, path.link)).collect();
        Self { links, client: None, server: None, known: BTreeMap::new() }
    }

    fn observe(&mut self, counters: &mut FlowCounters) {
        let Some(client) = &self.client else { return };
        for subflow in self.known.values_mut() {
            subflow.state = "closed";
        }
        let (mut srtt, mut count, mut window) = (0, 0, 0);
        for seen in client.subflows() {
            let (status, id) = (&seen.status, seen.status.id.0);
            let link = seen.local.and_then(|local| self.links.get(&local.ip()));
            let received = self.known.get(&id).map_or(0, |known| known.received);
            let Some(path) = link.copied().or_else(|| Some(self.known.get(&id)?.path)) else {
                continue;
            };
            let measured = status.info.srtt.is_some();
            let cwnd = status.info.cwnd.count();
            self.known.insert(
                id,
                Subflow {
                    id,
                    path,
                    sent: status.sent.count(),
                    received,
                    retransmits: status.info.retransmits,
                    srtt: status.info.srtt,
                    window_bytes: measured.then_some(cwnd),
                    state: state_text(status.state),
                },
            );
            if let (Some(one), true) = (status.info.srtt, status.state == SubflowState::Active) {
                (srtt, count, window) = (srtt + one.as_nanos(), count + 1, window + cwnd);
            }
        }
        for seen in self.server.iter().flat_map(Observer::subflows) {
            if let Some(subflow) = self.known.get_mut(&seen.status.id.0) {
                subflow.received = seen.status.received.count().max(subflow.received);
            }
        }
        for subflow in self.known.values() {
            counters.observe_subflow(*subflow);
        }
        if let Some(mean) = srtt.checked_div(count) {
            counters.srtt = Some(Span::from_nanos(mean));
            counters.window_bytes = Some(window);
        }
        let sent = client.stats();
        let retransmits = self.known.values().map(|subflow| subflow.retransmits).sum();
        counters.retransmits = counters.retransmits.max(retransmits);
        counters.observe_reinjected(sent.reinjected);
        if let Some(server) = &self.server {
            let received = server.stats();
            counters.observe_reorder(received.reorder_peak);
            counters.observe_buffered(received.buffered);
        }
    }
}

/// Retransmissions of a session's TCP connections.
fn retransmits(session: &MctcpStream) -> u64 {
    let subflows = session.subflows();
    let now: u64 = subflows.iter().map(|subflow| subflow.status.info.retransmits).sum();
    session.stats().retransmits + now
}

const fn state_text(state: SubflowState) -> &'static str {
    match state {
        SubflowState::Opening => "connecting",
        SubflowState::Active => "active",
        SubflowState::Stale => "stale",
        SubflowState::Draining => "closing",
    }
}
