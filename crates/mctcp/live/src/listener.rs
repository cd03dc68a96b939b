//! A listener for sessions at several addresses.

mod pending;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use mctcp::acceptor::{Acceptor, ConnectionId, Verdict};
use mctcp::frame::{Frame, Hello, HelloAck};
use mctcp::secret::SessionKey;
use mctcp::session::Session;
use quota::{Admission, Quota};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::config::{Config, ListenerConfig};
use crate::descriptors::{CHECK_INTERVAL, Descriptors};
use crate::driver::{Arrival, Driver, Role, Server};
use crate::error::{Error, Result};
use crate::shared::Shared;
use crate::socket;
use crate::stream::MctcpStream;
use crate::subflow::Subflow;
use crate::system;

/// Maximum number of clients queued for the application, in addition to the maximum of sessions.
const MAX_EXTRA_CLIENTS: usize = 256;
/// Maximum delay until a queued connection is offered to the acceptor again.
const RETRY_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);
/// Maximum number of subflows queued for their session's driver.
const MAX_QUEUED_SUBFLOWS: usize = 8;

/// A new client.
#[derive(Debug)]
pub enum Accepted {
    /// An MCTCP client.
    Session(MctcpStream),
    /// A client of another protocol.
    Plain(Plain),
}

/// A connection with a protocol other than MCTCP.
#[derive(Debug)]
pub struct Plain {
    /// The TCP connection, still open.
    pub stream: TcpStream,
    /// Bytes that were already read from it.
    pub head: Bytes,
}

/// Counters of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerStatistics {
    /// Accepted TCP connections.
    pub connections: u64,
    /// Connections closed because too many of their source were queued.
    pub refused: u64,
    /// Connections of other protocols.
    pub plain: u64,
    /// Connections that were closed without a session: silent, invalid or refused.
    pub failed: u64,
    /// Sessions opened by a HELLO.
    pub sessions: u64,
    /// Further subflows of sessions.
    pub joins: u64,
    /// Clients dropped because the queue for the application was full.
    pub dropped: u64,
}

/// A listener for sessions. Sessions continue when it is dropped, but get no further subflows.
#[derive(Debug)]
pub struct MctcpListener {
    hub: Arc<Hub>,
    accepted: mpsc::Receiver<Accepted>,
    addresses: Vec<SocketAddr>,
    /// Tasks that accept connections, and handshakes in progress.
    _tasks: JoinSet<()>,
}

impl MctcpListener {
    /// Listens at all these addresses.
    ///
    /// # Errors
    /// [`Error::Connect`] if it cannot listen at one of them.
    pub fn bind(addresses: &[SocketAddr], config: ListenerConfig) -> Result<Self> {
        let open = |address: &SocketAddr| socket::listen(*address, &config.session);
        let sockets = addresses.iter().map(open).collect::<io::Result<_>>();
        Self::with(sockets.map_err(|error| Error::Connect(Arc::new(error)))?, config)
    }

    /// Listens with existing sockets, for example of another network namespace.
    ///
    /// # Errors
    /// [`Error::Connect`] if one of them cannot be used, [`Error::NoPath`] if there are none.
    pub fn with(sockets: Vec<std::net::TcpListener>, config: ListenerConfig) -> Result<Self> {
        let failed = |error: io::Error| Error::Connect(Arc::new(error));
        if sockets.is_empty() {
            return Err(Error::NoPath);
        }
        let mut listeners = Vec::new();
        for socket in sockets {
            socket::prepare(&socket, &config.session).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            listeners.push(TcpListener::from_std(socket).map_err(failed)?);
        }
        let addresses: Vec<_> = listeners.iter().filter_map(|it| it.local_addr().ok()).collect();
        let ready = config.limits.sessions.saturating_add(MAX_EXTRA_CLIENTS);
        let (sender, accepted) = mpsc::channel(ready.min(tokio::sync::Semaphore::MAX_PERMITS));
        let hub = Arc::new(Hub::new(config, &addresses, sender));
        let mut tasks = JoinSet::new();
        for listener in listeners {
            tasks.spawn(Arc::clone(&hub).listen(listener));
        }
        Ok(Self { hub, accepted, addresses, _tasks: tasks })
    }

    /// Waits for the next client.
    ///
    /// # Errors
    /// [`Error::Gone`] if the runtime has shut down.
    pub async fn accept(&mut self) -> Result<Accepted> {
        self.accepted.recv().await.ok_or(Error::Gone)
    }

    /// The next client, as [`accept`](Self::accept) waits for.
    pub(crate) fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<Result<Accepted>> {
        self.accepted.poll_recv(cx).map(|accepted| accepted.ok_or(Error::Gone))
    }

    /// Addresses of the listener.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Counters since the start.
    pub fn stats(&self) -> ListenerStatistics {
        self.hub.lock().statistics
    }
}

/// Result of queueing a connection; its number in the queue.
enum Enqueued {
    Yes(u64),
    Full,
    SourceFull,
}

/// State shared by the connections of a listener and the drivers of its sessions.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    config: ListenerConfig,
    session: Arc<Config>,
    advertised: Vec<SocketAddr>,
    accepted: mpsc::Sender<Accepted>,
    /// A connection has left the acceptor's table.
    freed: Notify,
}

#[derive(Debug)]
struct State {
    acceptor: Acceptor,
    /// Connections above the limits of the acceptor.
    queued: Quota<u64>,
    /// Handshakes in progress.
    pending: BTreeMap<ConnectionId, mpsc::UnboundedSender<Verdict>>,
    sessions: BTreeMap<u64, mpsc::Sender<Arrival>>,
    statistics: ListenerStatistics,
}

impl Hub {
    fn new(
        config: ListenerConfig,
        addresses: &[SocketAddr],
        accepted: mpsc::Sender<Accepted>,
    ) -> Self {
        let session = &config.session;
        let settings = &session.settings;
        let grants = settings.limits(session.psk.is_some());
        // The session announces its credit in HELLO_ACK.
        let credit = settings.receive_buffer.count();
        let psk = session.psk.as_deref().map(Box::from);
        let acceptor = Acceptor::new(config.limits.clone(), grants, credit, psk, system::seed());
        let specific = addresses.iter().copied().filter(|address| !address.ip().is_unspecified());
        let advertised = config.advertise.clone().unwrap_or_else(|| specific.collect());
        let statistics = ListenerStatistics::default();
        let (pending, sessions) = (BTreeMap::new(), BTreeMap::new());
        let queued = Quota::new(config.limits.silent, config.limits.silent_per_source);
        let state = State { acceptor, queued, pending, sessions, statistics };
        Self {
            state: Mutex::new(state),
            freed: Notify::new(),
            session: Arc::new(config.session.clone()),
            config,
            advertised,
            accepted,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and passes the resulting verdicts to the handshakes in progress.
    fn update<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        while let Some(verdict) = state.acceptor.poll() {
            if let Some(sender) = state.pending.get(&verdict.connection()) {
                // A closed connection needs no verdict.
                let _ = sender.send(verdict);
            }
        }
        result
    }

    /// Accepts connections in an endless loop.
    async fn listen(self: Arc<Self>, listener: TcpListener) {
        let mut pending = JoinSet::new();
        let descriptors = self.config.reserve_descriptors.then(Descriptors::of_process);
        loop {
            if let Some(descriptors) = descriptors {
                // Descriptors become free again: silent connections end after
                // the handshake timeout.
                descriptors.wait(&listener).await;
            }
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = pending.join_next() => continue,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(&mut pending, stream, peer.ip()).await,
                // The peer has closed the connection, or no descriptor is free.
                Err(_) => tokio::time::sleep(CHECK_INTERVAL).await,
            }
        }
    }

    /// Begins a handshake, or queues a connection above the limits. While the queue is full, this
    /// waits, and further connections wait in the listener's backlog.
    async fn admit(self: &Arc<Self>, pending: &mut JoinSet<()>, stream: TcpStream, source: IpAddr) {
        self.lock().statistics.connections += 1;
        if let Some((id, verdicts)) = self.open(source) {
            pending.spawn(pending::open(Arc::clone(self), id, verdicts, stream));
            return;
        }
        let number = loop {
            let freed = self.freed.notified();
            match self.enqueue(source) {
                Enqueued::Yes(number) => break number,
                // Closes the connection: waiting would delay other sources.
                Enqueued::SourceFull => return,
                Enqueued::Full => {
                    let _ = tokio::time::timeout(RETRY_INTERVAL, freed).await;
                }
            }
        };
        let hub = Arc::clone(self);
        pending.spawn(async move {
            let (id, verdicts) = loop {
                let freed = hub.freed.notified();
                if let Some(opened) = hub.open(source) {
                    break opened;
                }
                let _ = tokio::time::timeout(RETRY_INTERVAL, freed).await;
            };
            hub.lock().queued.give_back(source, number);
            pending::open(hub, id, verdicts, stream).await;
        });
    }

    fn enqueue(&self, source: IpAddr) -> Enqueued {
        let mut state = self.lock();
        match state.queued.look(source) {
            Admission::Free => {
                let number = state.statistics.connections;
                state.queued.take(source, number);
                Enqueued::Yes(number)
            }
            Admission::SourceFull(_) => {
                state.statistics.refused += 1;
                Enqueued::SourceFull
            }
            Admission::Full | Admission::InsteadOf(_) => Enqueued::Full,
        }
    }

    fn open(&self, source: IpAddr) -> Option<(ConnectionId, mpsc::UnboundedReceiver<Verdict>)> {
        self.update(|state| {
            let id = state.acceptor.open(system::now(), source)?;
            // Unbounded, because a connection gets only a few verdicts.
            let (sender, verdicts) = mpsc::unbounded_channel();
            state.pending.insert(id, sender);
            Some((id, verdicts))
        })
    }

    fn on_frame(&self, id: ConnectionId, frame: Frame<Bytes>, exported: Option<&[u8]>) {
        self.update(|state| state.acceptor.on_frame(system::now(), id, frame, exported));
    }

    /// Removes a connection that was closed or assigned to a session.
    fn leave(&self, id: ConnectionId, count: impl FnOnce(&mut ListenerStatistics)) {
        self.update(|state| {
            state.pending.remove(&id);
            state.acceptor.on_lost(system::now(), id);
            count(&mut state.statistics);
        });
        self.freed.notify_waiters();
    }

    fn arrivals(&self, session: u64) -> Option<mpsc::Sender<Arrival>> {
        self.lock().sessions.get(&session).cloned()
    }

    pub(crate) fn mark_confirmed(&self, session: u64) {
        self.lock().acceptor.mark_confirmed(session);
    }

    pub(crate) fn mark_proven(&self, session: u64) {
        self.update(|state| state.acceptor.mark_proven(session));
    }

    pub(crate) fn remove(&self, session: u64) {
        self.update(|state| {
            state.sessions.remove(&session);
            state.acceptor.remove(session);
        });
    }

    /// Records that the session has closed without error.
    pub(crate) fn finish(&self, session: u64) {
        self.update(|state| {
            state.sessions.remove(&session);
            state.acceptor.finish(session);
        });
    }

    /// Passes a client to the application, or drops it if the queue is full.
    pub(crate) fn announce(&self, accepted: Accepted) {
        if self.accepted.try_send(accepted).is_err() {
            self.lock().statistics.dropped += 1;
        }
    }

    /// Starts a session.
    fn begin(self: &Arc<Self>, hello: &Hello, ack: &HelloAck, key: SessionKey, subflow: Subflow) {
        let number = ack.session;
        let proof = self.session.psk.is_some();
        let now = system::now();
        let settings = self.session.settings.clone();
        let mut session = Session::accept(now, settings, hello, ack, key, proof);
        let others = self.advertised.iter().filter(|address| Some(**address) != subflow.local);
        for (id, address) in (0..=u8::MAX).zip(others) {
            session.advertise(now, id, *address);
        }
        let (sender, arrivals) = mpsc::channel(MAX_QUEUED_SUBFLOWS);
        self.lock().sessions.insert(number, sender);
        let shared = Arc::new(Shared::new(session));
        shared.lock().is_connected = true;
        let stream = MctcpStream::new(Arc::clone(&shared), hello.target.clone());
        let (open, unproven) = if proof { (None, Some(stream)) } else { (Some(stream), None) };
        let server = Server::new(Arc::clone(self), number, arrivals, unproven);
        let role = Role::Server(server);
        let mut driver = Driver::new(Arc::clone(&shared), Arc::clone(&self.session), role);
        driver.add(&mut shared.lock(), subflow);
        driver.spawn();
        if let Some(stream) = open {
            self.announce(Accepted::Session(stream));
        }
    }
}
