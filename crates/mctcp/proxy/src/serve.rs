//! The server: accepts sessions and connects them to targets.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mctcp::acceptor::Limits;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::rustls::ServerConfig;

use super::dial::{Dialer, lookup};
use super::ledger::{Carried, Counters, Inspect, Via};
use super::policy::Policy;
use super::relay::relay;
use super::socks::Reply;
use super::status::Board;
use super::target::{Host, Target};
use super::tls::ServerTls;
use super::{Error, Event, GRACE, Result, SharedState, Stop, runtime, tell_until};
use mctcp_live::{Accepted, Config, Encryption, ListenerConfig, MctcpListener, MctcpStream, Plain};

/// Interval at which the listener's counters are read.
const TICK: Duration = Duration::from_millis(500);

/// Options of a server.
#[derive(Clone, Debug, Default)]
pub struct Serve {
    /// Addresses of its listeners.
    pub listen: Vec<SocketAddr>,
    /// Addresses to advertise; if empty, those of the listeners.
    pub advertise: Vec<SocketAddr>,
    /// Target of sessions that request none.
    pub to: Option<Target>,
    /// Targets that sessions may request; `None`: the default, see [`Serve::policy`].
    pub allow: Option<Policy>,
    pub config: Config,
    /// TLS, and whether clients must authenticate with a certificate.
    pub tls: Option<(Arc<ServerConfig>, bool)>,
    /// Whether clients without MCTCP are connected to [`Self::to`] too. Never if
    /// clients must authenticate.
    pub fallback: bool,
    /// Max sessions and handshakes.
    pub limits: Limits,
    pub board: Board,
}

impl Serve {
    fn is_authenticated(&self) -> bool {
        self.config.psk.is_some() || self.tls.as_ref().is_some_and(|(_, clients)| *clients)
    }

    /// Targets that sessions may request: the configured rules. Without rules, none if there is a
    /// default target, otherwise all.
    ///
    /// # Errors
    /// If clients from any network could reach any target.
    pub fn policy(&self) -> Result<Policy> {
        if let Some(policy) = &self.allow {
            return Ok(policy.clone());
        }
        if self.to.is_some() {
            return Ok(Policy::default());
        }
        let open = self.listen.iter().find(|at| !at.ip().is_loopback());
        match open {
            Some(at) if !self.is_authenticated() => {
                let why = "any client could connect to any target through this server";
                let help = "add --key-file FILE or --tls-ca FILE to authenticate clients, \
                            --allow CIDR|HOST[:PORT] to limit the targets, or --to HOST:PORT";
                Err(Error::option(format!("--listen {at}"), why, help))
            }
            _ => Ok(Policy::everything()),
        }
    }
}

struct Server {
    desk: SharedState,
    policy: Policy,
    to: Option<Target>,
    takes_plain: bool,
    dialer: Dialer,
}

/// Serves until it is stopped.
///
/// # Errors
/// If the options are inconsistent, or it cannot listen.
pub fn run(serve: &Serve, stop: &Stop, tell: &mut dyn FnMut(&Event)) -> Result<()> {
    let policy = serve.policy()?;
    // Without the privilege the current limit applies.
    let _ = sys::limits::raise_open_files();
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let (desk, events) = SharedState::new(&serve.board);
        let encrypt = |(tls, _): &(Arc<ServerConfig>, bool)| -> Arc<dyn Encryption> {
            Arc::new(ServerTls(Arc::clone(tls)))
        };
        let mut listener_config = ListenerConfig {
            session: serve.config.clone(),
            encryption: serve.tls.as_ref().map(encrypt),
            reserve_descriptors: true,
            limits: serve.limits.clone(),
            ..ListenerConfig::default()
        };
        if !serve.advertise.is_empty() {
            listener_config.advertise = Some(serve.advertise.clone());
        }
        let listener = MctcpListener::bind(&serve.listen, listener_config)?;
        let at = listener.addresses().iter().map(|at| ("mctcp", at.to_string()));
        let at: Vec<_> = at.collect();
        serve.board.begin("serve", at.clone());
        desk.tell(Event::Ready(at));
        let takes_plain = serve.fallback && serve.config.psk.is_none() && serve.tls.is_none();
        let listeners = listener.addresses().to_vec();
        let dialer = Dialer { listeners, ..Dialer::default() };
        let server = Arc::new(Server { desk, policy, to: serve.to.clone(), takes_plain, dialer });
        tokio::select! {
            result = accept(server, listener) => return result,
            () = tell_until(stop, events, tell) => {}
        }
        Ok(())
    });
    runtime.shutdown_timeout(GRACE);
    result
}

async fn accept(server: Arc<Server>, mut listener: MctcpListener) -> Result<()> {
    let mut tasks = JoinSet::new();
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                server.desk.ledger.lock().listener = Some(listener.stats());
            }
            accepted = listener.accept() => {
                let server = Arc::clone(&server);
                match accepted? {
                    Accepted::Session(stream) => tasks.spawn(server.carry(stream)),
                    Accepted::Plain(plain) => tasks.spawn(server.carry_plain(plain)),
                };
            }
            Some(_) = tasks.join_next() => {}
        }
    }
}

impl Server {
    async fn carry(self: Arc<Self>, mut stream: MctcpStream) {
        let subflows = stream.subflows();
        let client = subflows.iter().find_map(|subflow| subflow.remote);
        let client = client.map_or_else(String::new, |at| at.to_string());
        let wanted = stream.target().to_owned();
        Counters::add(&self.desk.ledger.counters.sessions);
        let connected = self.connect(&wanted).await;
        let named = !wanted.is_empty();
        let (target, there) = match connected {
            Ok(connected) => connected,
            Err((reply, why)) => {
                let shown = named.then(|| wanted.escape_debug().to_string());
                self.turn_away(client, shown, reply, why);
                if named {
                    // If this fails, the client has disconnected.
                    let _ = stream.write_all(&[reply.code()]).await;
                    let _ = stream.shutdown().await;
                }
                return;
            }
        };
        if named && stream.write_all(&[Reply::Succeeded.code()]).await.is_err() {
            return;
        }
        let watched = Some(Box::new(stream.observer()) as Box<dyn Inspect>);
        self.relay(stream, there, (client, target), watched).await;
    }

    /// Serves a client without MCTCP.
    async fn carry_plain(self: Arc<Self>, plain: Plain) {
        let client = plain.stream.peer_addr().map_or_else(|_| String::new(), |at| at.to_string());
        if !self.takes_plain {
            let why = "it does not speak MCTCP".to_owned();
            return self.turn_away(client, None, Reply::NotAllowed, why);
        }
        let (target, mut there) = match self.connect("").await {
            Ok(connected) => connected,
            Err((reply, why)) => return self.turn_away(client, None, reply, why),
        };
        Counters::add(&self.desk.ledger.counters.fallbacks);
        let why = format!("{client} does not speak MCTCP");
        self.desk.tell(Event::Fallback { target: target.clone(), why });
        if there.write_all(&plain.head).await.is_ok() {
            self.relay(plain.stream, there, (client, target), None).await;
        }
    }

    async fn relay(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        there: TcpStream,
        (client, target): (String, String),
        session: Option<Box<dyn Inspect>>,
    ) {
        let via = if session.is_some() { Via::Mctcp } else { Via::Plain };
        let entry = self.desk.ledger.enter(Carried {
            front: "mctcp",
            via,
            client: client.clone(),
            target: target.clone(),
            since: Instant::now(),
            tally: Arc::default(),
            session,
        });
        let (shown, via) = (target.clone(), via.name());
        self.desk.tell(Event::Opened { client: client.clone(), target: shown, via });
        let result = relay(there, &mut stream, &entry.tally).await;
        let why = result.err().map(|error| error.to_string());
        // Bytes received from the target are sent to the client.
        let sent = entry.tally.received.load(Ordering::Relaxed);
        let received = entry.tally.sent.load(Ordering::Relaxed);
        self.desk.tell(Event::Closed { client, target, sent, received, why });
    }

    fn turn_away(&self, client: String, target: Option<String>, reply: Reply, why: String) {
        let counters = &self.desk.ledger.counters;
        match (reply, target) {
            (Reply::NotAllowed, target) => {
                Counters::add(&counters.refused);
                self.desk.tell(Event::Refused { client, target, why });
            }
            (_, target) => {
                Counters::add(&counters.failed);
                let target = target.unwrap_or_default();
                self.desk.tell(Event::Failed { client, target, why });
            }
        }
    }

    /// Connects to the target that a session requested.
    async fn connect(&self, wanted: &str) -> Result<(String, TcpStream), (Reply, String)> {
        let refused = |why: &str| (Reply::NotAllowed, why.to_owned());
        let target = if wanted.is_empty() {
            self.to.clone().ok_or_else(|| refused("it names no target, and there is no --to"))?
        } else {
            wanted.parse::<Target>().map_err(|error| (Reply::Failure, error.to_string()))?
        };
        let own = wanted.is_empty();
        if !own && !self.policy.may_permit(&target) {
            return Err(refused("not allowed"));
        }
        let failed = |error: Error| (reply_of(&error), error.to_string());
        let mut addresses = lookup(&target).await.map_err(failed)?;
        if !own {
            addresses.retain(|address| self.policy.permits(&target, address.ip()));
            if addresses.is_empty() {
                return Err(refused("its addresses are not allowed"));
            }
        }
        let (stream, _) = self.dialer.connect(&target, addresses).await.map_err(failed)?;
        let shown = match (&target.host, stream.peer_addr()) {
            (Host::Name(_), Ok(address)) => format!("{target} ({})", address.ip()),
            _ => target.to_string(),
        };
        Ok((shown, stream))
    }
}

/// Reply code for an error.
pub(super) fn reply_of(error: &Error) -> Reply {
    match error {
        Error::Socket { cause, .. } => Reply::of_error(cause),
        Error::Target { why, .. } => *why,
        Error::Session(error) => Reply::of_error(&io::Error::from(error.clone())),
        Error::NoFallback { cause, .. } | Error::Plain { cause, .. } => reply_of(cause),
        Error::SelfConnection { .. } => Reply::NotAllowed,
        Error::NoPath(_) => Reply::NetworkUnreachable,
        _ => Reply::Failure,
    }
}
