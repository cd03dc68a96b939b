//! The server: accepts sessions and connects them to targets.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use mctcp::acceptor::Limits;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::rustls::ServerConfig;

use super::dial::{Dialer, lookup};
use super::ledger::{Counters, Inspect, OpenConnection, Transport, inspect};
use super::policy::Policy;
use super::relay::SERVER;
use super::socks::Reply;
use super::status::Board;
use super::target::{Host, Target};
use super::tls::ServerTls;
use super::{Error, Event, Result, SHUTDOWN_TIMEOUT, SharedState, Stop, report_until, runtime};
use mctcp_live::{Accepted, Config, Encryption, ListenerConfig, MctcpListener, MctcpStream, Plain};

/// Interval at which the listener's counters are read.
const COUNTER_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, Default)]
pub struct Serve {
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
    shared: SharedState,
    policy: Policy,
    to: Option<Target>,
    accepts_plain: bool,
    dialer: Dialer,
}

/// Serves until it is stopped.
///
/// # Errors
/// If the options are inconsistent, or it cannot listen.
pub fn run(serve: &Serve, stop: &Stop, report: &mut dyn FnMut(&Event)) -> Result<()> {
    let policy = serve.policy()?;
    // Without the privilege the current limit applies.
    let _ = sys::limits::raise_open_files();
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let (shared, events) = SharedState::new(&serve.board);
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
        let at = listener.addresses().iter().map(|at| (SERVER, at.to_string()));
        let at: Vec<_> = at.collect();
        serve.board.begin("serve", at.clone());
        shared.report(Event::Ready(at));
        let accepts_plain = serve.fallback && serve.config.psk.is_none() && serve.tls.is_none();
        let listeners = listener.addresses().to_vec();
        let dialer = Dialer { listeners, ..Dialer::default() };
        let server =
            Arc::new(Server { shared, policy, to: serve.to.clone(), accepts_plain, dialer });
        tokio::select! {
            result = accept(server, listener) => return result,
            () = report_until(stop, events, report) => {}
        }
        Ok(())
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

async fn accept(server: Arc<Server>, mut listener: MctcpListener) -> Result<()> {
    let mut tasks = JoinSet::new();
    let mut ticks = tokio::time::interval(COUNTER_INTERVAL);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                server.shared.ledger.lock().listener = Some(listener.stats());
            }
            accepted = listener.accept() => {
                let server = Arc::clone(&server);
                match accepted? {
                    Accepted::Session(stream) => tasks.spawn(server.serve_session(stream)),
                    Accepted::Plain(plain) => tasks.spawn(server.serve_plain(plain)),
                };
            }
            Some(_) = tasks.join_next() => {}
        }
    }
}

impl Server {
    async fn serve_session(self: Arc<Self>, mut stream: MctcpStream) {
        let subflows = stream.subflows();
        let client = subflows.iter().find_map(|subflow| subflow.remote);
        let client = client.map_or_else(String::new, |at| at.to_string());
        let wanted = stream.target().to_owned();
        Counters::add(&self.shared.ledger.counters.sessions);
        let connected = self.connect(&wanted).await;
        let named = !wanted.is_empty();
        let (target, to_target) = match connected {
            Ok(connected) => connected,
            Err((reply, why)) => {
                let shown = named.then(|| wanted.escape_debug().to_string());
                self.reject(client, shown, reply, why);
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
        let session = inspect(stream.observer());
        self.relay(stream, to_target, (client, target), Some(session)).await;
    }

    /// Serves a client without MCTCP.
    async fn serve_plain(self: Arc<Self>, plain: Plain) {
        let client = plain.stream.peer_addr().map_or_else(|_| String::new(), |at| at.to_string());
        if !self.accepts_plain {
            let why = "it does not support MCTCP".to_owned();
            return self.reject(client, None, Reply::NotAllowed, why);
        }
        let (target, mut to_target) = match self.connect("").await {
            Ok(connected) => connected,
            Err((reply, why)) => return self.reject(client, None, reply, why),
        };
        Counters::add(&self.shared.ledger.counters.fallbacks);
        let why = format!("{client} does not support MCTCP");
        self.shared.report(Event::Fallback { target: target.clone(), why });
        if to_target.write_all(&plain.head).await.is_ok() {
            self.relay(plain.stream, to_target, (client, target), None).await;
        }
    }

    async fn relay(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        to_target: TcpStream,
        (client, target): (String, String),
        session: Option<Inspect>,
    ) {
        let transport = if session.is_some() { Transport::Mctcp } else { Transport::Plain };
        let connection = OpenConnection::new(SERVER, transport, client, target, session);
        self.shared.relay(connection, 0, to_target, &mut stream).await;
    }

    fn reject(&self, client: String, target: Option<String>, reply: Reply, why: String) {
        let counters = &self.shared.ledger.counters;
        if reply == Reply::NotAllowed {
            Counters::add(&counters.refused);
            self.shared.report(Event::Refused { client, target, why });
        } else {
            Counters::add(&counters.failed);
            let target = target.unwrap_or_default();
            self.shared.report(Event::Failed { client, target, why });
        }
    }

    /// Connects to the target that a session requested.
    async fn connect(&self, wanted: &str) -> Result<(String, TcpStream), (Reply, String)> {
        let refused = |why: &str| (Reply::NotAllowed, why.to_owned());
        let target = if wanted.is_empty() {
            self.to.clone().ok_or_else(|| refused("it requests no target, and --to is not set"))?
        } else {
            wanted.parse::<Target>().map_err(|error| (Reply::Failure, error.to_string()))?
        };
        let is_default = wanted.is_empty();
        if !is_default && !self.policy.may_permit(&target) {
            return Err(refused("not allowed"));
        }
        let failed = |error: Error| (reply_of(&error), error.to_string());
        let mut addresses = lookup(&target).await.map_err(failed)?;
        if !is_default {
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
