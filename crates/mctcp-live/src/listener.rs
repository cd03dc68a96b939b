//! Listening for sessions at several addresses.

mod door;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use mctcp::acceptor::quota::{Admission, Quota};
use mctcp::acceptor::{Acceptor, ConnectionId, Verdict};
use mctcp::frame::{Frame, Hello, HelloAck};
use mctcp::secret::SessionKey;
use mctcp::session::Session;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::clock;
use crate::config::{Config, ListenerConfig};
use crate::descriptors::Descriptors;
use crate::driver::{Arrival, Driver, Role, Server};
use crate::error::{Error, Result};
use crate::random;
use crate::shared::Shared;
use crate::socket;
use crate::stream::MctcpStream;
use crate::subflow::Subflow;

/// Max clients that are ready and not yet accepted by the application, beside the sessions that
/// there may be.
const MAX_PLAIN: usize = 256;
/// A connection without a place asks again after this at the latest.
const RETRY_INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);
/// Subflows that may wait for their session's driver.
const ARRIVALS: usize = 8;
/// A listener that has no descriptor left tries again after this.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// Who has come.
#[derive(Debug)]
pub enum Accepted {
    /// A client that speaks MCTCP.
    Session(MctcpStream),
    /// One that does not.
    Plain(Plain),
}

/// A connection that speaks something else than MCTCP.
#[derive(Debug)]
pub struct Plain {
    /// The connection.
    pub stream: TcpStream,
    /// What has already been read of it.
    pub head: Bytes,
}

/// What a listener has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerStatistics {
    /// Connections accepted.
    pub connections: u64,
    /// Connections closed because too many of their source were waiting.
    pub refused: u64,
    /// Connections that spoke something else.
    pub plain: u64,
    /// Connections that led to nothing: silent, wrong, refused a session or a join.
    pub failed: u64,
    /// Sessions begun.
    pub sessions: u64,
    /// Further subflows of sessions.
    pub joins: u64,
    /// Sessions whose client did not prove itself, or that nobody accepted in time.
    pub dropped: u64,
}

/// Listens for sessions. Sessions go on when it is dropped, but get no further subflows.
#[derive(Debug)]
pub struct MctcpListener {
    hub: Arc<Hub>,
    accepted: mpsc::Receiver<Accepted>,
    addresses: Vec<SocketAddr>,
    /// What accepts connections, and what talks with them until they are somebody's.
    _tasks: JoinSet<()>,
}

impl MctcpListener {
    /// Listens at all of these addresses.
    ///
    /// # Errors
    /// [`Error::Connect`] if one of them cannot be listened at.
    pub fn bind(addresses: &[SocketAddr], config: ListenerConfig) -> Result<Self> {
        let open = |address: &SocketAddr| socket::listen(*address, &config.session);
        let sockets = addresses.iter().map(open).collect::<io::Result<_>>();
        Self::with(sockets.map_err(|error| Error::Connect(Arc::new(error)))?, config)
    }

    /// Listens with sockets that somebody else has made, perhaps in another network namespace.
    ///
    /// # Errors
    /// [`Error::Connect`] if one of them cannot be used, [`Error::NoPath`] if there are none.
    pub fn with(sockets: Vec<std::net::TcpListener>, config: ListenerConfig) -> Result<Self> {
        let wrong = |error: io::Error| Error::Connect(Arc::new(error));
        if sockets.is_empty() {
            return Err(Error::NoPath);
        }
        let mut listeners = Vec::new();
        for socket in sockets {
            socket::prepare(&socket, &config.session).map_err(wrong)?;
            socket.set_nonblocking(true).map_err(wrong)?;
            listeners.push(TcpListener::from_std(socket).map_err(wrong)?);
        }
        let at = |listener: &TcpListener| listener.local_addr();
        let addresses: Vec<_> = listeners.iter().filter_map(|l| at(l).ok()).collect();
        let ready = config.limits.sessions.saturating_add(MAX_PLAIN);
        let (sender, accepted) = mpsc::channel(ready.min(tokio::sync::Semaphore::MAX_PERMITS));
        let hub = Arc::new(Hub::new(config, &addresses, sender));
        let mut tasks = JoinSet::new();
        for listener in listeners {
            tasks.spawn(Arc::clone(&hub).listen(listener));
        }
        Ok(Self { hub, accepted, addresses, _tasks: tasks })
    }

    /// The next client.
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

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What it has seen so far.
    pub fn stats(&self) -> ListenerStatistics {
        self.hub.lock().statistics
    }
}

/// Whether a connection has a place in the queue.
enum Enqueued {
    Yes(u64),
    Full,
    SourceFull,
}

/// What the connections of a listener, and the drivers of its sessions, share.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
    config: ListenerConfig,
    session: Arc<Config>,
    advertised: Vec<SocketAddr>,
    accepted: mpsc::Sender<Accepted>,
    /// A connection has left the table of the acceptor, or the queue for it.
    freed: Notify,
}

#[derive(Debug)]
struct State {
    acceptor: Acceptor,
    /// Connections for which the acceptor has no place.
    queued: Quota<u64>,
    /// Where connections without verdict wait for one.
    doors: BTreeMap<ConnectionId, mpsc::UnboundedSender<Verdict>>,
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
        // The session's own machine tells its credit in HELLO_ACK.
        let credit = settings.receive_buffer.count();
        let psk = session.psk.as_deref().map(Box::from);
        let acceptor = Acceptor::new(config.limits.clone(), grants, credit, psk, random::seed());
        let specific = addresses.iter().copied().filter(|address| !address.ip().is_unspecified());
        let advertised = config.advertise.clone().unwrap_or_else(|| specific.collect());
        let statistics = ListenerStatistics::default();
        let (doors, sessions) = (BTreeMap::new(), BTreeMap::new());
        let queued = Quota::new(config.limits.silent, config.limits.silent_per_source);
        let state = State { acceptor, queued, doors, sessions, statistics };
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

    /// Accepts connections for ever.
    async fn listen(self: Arc<Self>, listener: TcpListener) {
        let mut doors = JoinSet::new();
        let descriptors = self.config.reserve_descriptors.then(Descriptors::new);
        loop {
            if let Some(descriptors) = descriptors {
                // Silent connections end after the handshake time.
                descriptors.wait(&listener).await;
            }
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = doors.join_next() => continue,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(&mut doors, stream, peer.ip()).await,
                // The peer is gone already, or there are no descriptors left.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Begins to talk with a connection, or queues it until there is a place. While the queue is
    /// full, this waits, and further connections wait in the listener's backlog.
    async fn admit(self: &Arc<Self>, doors: &mut JoinSet<()>, stream: TcpStream, source: IpAddr) {
        self.lock().statistics.connections += 1;
        if let Some((id, verdicts)) = self.open(source) {
            doors.spawn(door::open(Arc::clone(self), id, verdicts, stream));
            return;
        }
        let number = loop {
            let freed = self.freed.notified();
            match self.enqueue(source) {
                Enqueued::Yes(number) => break number,
                // Other sources are not to wait for this one.
                Enqueued::SourceFull => return,
                Enqueued::Full => {
                    let _ = tokio::time::timeout(RETRY_INTERVAL, freed).await;
                }
            }
        };
        let hub = Arc::clone(self);
        doors.spawn(async move {
            let (id, verdicts) = loop {
                let freed = hub.freed.notified();
                if let Some(opened) = hub.open(source) {
                    break opened;
                }
                let _ = tokio::time::timeout(RETRY_INTERVAL, freed).await;
            };
            hub.lock().queued.give_back(source, number);
            door::open(hub, id, verdicts, stream).await;
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
        let mut state = self.lock();
        let id = state.acceptor.open(clock::now(), source);
        let opened = id.map(|id| {
            // A connection gets a few verdicts at most.
            let (sender, verdicts) = mpsc::unbounded_channel();
            state.doors.insert(id, sender);
            (id, verdicts)
        });
        state.deliver();
        opened
    }

    fn on_frame(&self, id: ConnectionId, frame: Frame<Bytes>, exported: Option<&[u8]>) {
        let mut state = self.lock();
        state.acceptor.on_frame(clock::now(), id, frame, exported);
        state.deliver();
    }

    /// A connection is nobody's any more, or somebody's.
    fn leave(&self, id: ConnectionId, count: impl FnOnce(&mut ListenerStatistics)) {
        let mut state = self.lock();
        state.doors.remove(&id);
        state.acceptor.on_lost(clock::now(), id);
        count(&mut state.statistics);
        state.deliver();
        drop(state);
        self.freed.notify_waiters();
    }

    fn arrivals(&self, session: u64) -> Option<mpsc::Sender<Arrival>> {
        self.lock().sessions.get(&session).cloned()
    }

    pub(crate) fn confirm(&self, session: u64) {
        self.lock().acceptor.confirm(session);
    }

    pub(crate) fn prove(&self, session: u64) {
        let mut state = self.lock();
        state.acceptor.prove(session);
        state.deliver();
    }

    pub(crate) fn forget(&self, session: u64) {
        let mut state = self.lock();
        state.sessions.remove(&session);
        state.acceptor.forget(session);
        state.deliver();
    }

    /// The session has ended well. Its client is told so if it missed that.
    pub(crate) fn finish(&self, session: u64) {
        let mut state = self.lock();
        state.sessions.remove(&session);
        state.acceptor.finish(session);
        state.deliver();
    }

    /// Gives the application a client, or drops it if nobody accepts.
    pub(crate) fn announce(&self, accepted: Accepted) {
        if self.accepted.try_send(accepted).is_err() {
            self.lock().statistics.dropped += 1;
        }
    }

    /// Begins a session.
    fn begin(self: &Arc<Self>, hello: &Hello, ack: &HelloAck, key: SessionKey, subflow: Subflow) {
        let number = ack.session;
        let proof = self.session.psk.is_some();
        let now = clock::now();
        let settings = self.session.settings.clone();
        let mut session = Session::accept(now, settings, hello, ack, key, proof);
        let others = self.advertised.iter().filter(|address| Some(**address) != subflow.local);
        for (id, address) in (0..=u8::MAX).zip(others) {
            session.advertise(now, id, *address);
        }
        let (sender, arrivals) = mpsc::channel(ARRIVALS);
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

impl State {
    /// Hands verdicts to those who wait for them.
    fn deliver(&mut self) {
        while let Some(verdict) = self.acceptor.poll() {
            let id = match &verdict {
                Verdict::Send(id, _)
                | Verdict::Open(id, ..)
                | Verdict::Again(id, _)
                | Verdict::Joined(id, _)
                | Verdict::Close(id) => id,
            };
            if let Some(door) = self.doors.get(id) {
                // Whoever has gone needs no verdict.
                let _ = door.send(verdict);
            }
        }
    }
}
