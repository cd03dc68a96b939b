//! The server: sessions come in, connections to targets go out.

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
use super::target::{Host, Target};
use super::{Desk, Error, Event, GRACE, Result, Stop, Watch, runtime, tell_until};
use crate::{Accepted, Config, ListenerConfig, MctcpListener, MctcpStream, Plain};

/// How often the listener's numbers are looked at.
const TICK: Duration = Duration::from_millis(500);

/// What a server is told.
#[derive(Clone, Debug, Default)]
pub struct Serve {
    /// Where it listens.
    pub listen: Vec<SocketAddr>,
    /// Addresses that clients are told of, if they are not those it listens at.
    pub advertise: Vec<SocketAddr>,
    /// Target of sessions that name none.
    pub to: Option<Target>,
    /// What sessions may name; `None`: the default, see [`Serve::policy`].
    pub allow: Option<Policy>,
    /// How sessions behave.
    pub config: Config,
    /// TLS, and whether clients have to say who they are.
    pub tls: Option<(Arc<ServerConfig>, bool)>,
    /// Whether clients that do not speak MCTCP are led to [`Self::to`], too. Never those who would
    /// have to prove themselves.
    pub fallback: bool,
    /// Max sessions and handshakes.
    pub limits: Limits,
    /// How it is watched.
    pub watch: Watch,
}

impl Serve {
    fn is_authenticated(&self) -> bool {
        self.config.psk.is_some() || self.tls.as_ref().is_some_and(|(_, clients)| *clients)
    }

    /// What sessions may name: what was allowed; without that nothing if there is a target of its
    /// own, else everything.
    ///
    /// # Errors
    /// If anybody could reach anything.
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
                let why = "anybody could connect to anything through it";
                let help = "add --key-file FILE or --tls-ca FILE, which clients have to know; or \
                            --allow CIDR|HOST[:PORT], what anybody may reach; or --to HOST:PORT";
                Err(Error::option(format!("--listen {at}"), why, help))
            }
            _ => Ok(Policy::everything()),
        }
    }
}

struct Server {
    desk: Desk,
    policy: Policy,
    to: Option<Target>,
    takes_plain: bool,
    dialer: Dialer,
}

/// Serves until it is asked to stop.
///
/// # Errors
/// If the options do not go together, or it cannot listen.
pub fn run(serve: &Serve, stop: &Stop, tell: &mut dyn FnMut(&Event)) -> Result<()> {
    let policy = serve.policy()?;
    // Without permission the present limit holds.
    let _ = sys::limits::raise_open_files();
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let (desk, events) = Desk::new();
        let mut listener_config = ListenerConfig {
            session: serve.config.clone(),
            tls: serve.tls.as_ref().map(|(tls, _)| Arc::clone(tls)),
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
        let monitor = desk.watch(&serve.watch, "serve", at.clone()).await?;
        desk.tell(Event::Ready(at));
        let takes_plain = serve.fallback && serve.config.psk.is_none() && serve.tls.is_none();
        let listeners = listener.addresses().to_vec();
        let dialer = Dialer { listeners, ..Dialer::default() };
        let server = Arc::new(Server { desk, policy, to: serve.to.clone(), takes_plain, dialer });
        tokio::select! {
            () = monitor => {}
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
                    // The client reads it, or is gone.
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

    /// A client that does not speak MCTCP.
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
        // What comes from the target goes towards the client.
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

    /// Connects with what a session named.
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

/// What a client is told of an error.
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
