//! The proxy: accepts connections of programs and opens sessions.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::dial::Dialer;
use super::gate::{Gate, Place};
use super::http_connect::{self, Status};
use super::ledger::{Counters, OpenConnection, Transport, inspect};
use super::outgoing::{EarlyData, Link, Outgoing, Peer};
use super::policy::Users;
use super::redirect::{self, Own, Redirection};
use super::serve::reply_of;
use super::socks::{self, Method, Parsed, Reply};
use super::status::Board;
use super::target::Target;
use super::{Error, Event, Result, SHUTDOWN_TIMEOUT, SharedState, Stop, report_until, runtime};
use mctcp_live::descriptors::Descriptors;

/// Timeout of a client's request; shorter if few places are free.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay after an error of `accept`, such as too few descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, Default)]
pub struct Proxy {
    /// The other end of its sessions.
    pub peer: Peer,
    /// Addresses for SOCKS5.
    pub socks: Vec<SocketAddr>,
    /// Addresses for HTTP CONNECT.
    pub http: Vec<SocketAddr>,
    /// Address for connections that netfilter redirects; and whether to install its rules.
    pub redirect: Option<(Redirection, bool)>,
    pub forwards: Vec<Forward>,
    /// Users of SOCKS5 and HTTP; `None`: no authentication.
    pub users: Option<Users>,
    /// Networks of allowed clients; empty: any.
    pub clients: Vec<IpNet>,
    /// Maximum number of clients served at once; others wait.
    pub max_clients: usize,
    pub board: Board,
}

/// A forwarded port: `127.0.0.1:5000=example.org:80`, `5000=example.org:80`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    pub listen: SocketAddr,
    pub target: Target,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((at, target)) = text.split_once('=') else {
            return Err("write LOCAL=HOST:PORT, such as 5000=example.org:80".to_owned());
        };
        let target = target.parse().map_err(|error| format!("{error}"))?;
        let port = || at.parse().ok().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
        let Some(listen) = at.parse().ok().or_else(port) else {
            return Err(format!("invalid port or ADDR:PORT `{at}`"));
        };
        Ok(Self { listen, target })
    }
}

/// Protocol of a listener's clients.
#[derive(Clone, Debug)]
enum ListenerProtocol {
    Socks,
    Http,
    Redirect,
    Forward(Target),
}

impl ListenerProtocol {
    fn name(&self) -> &'static str {
        match self {
            Self::Socks => "socks",
            Self::Http => "http",
            Self::Redirect => "redirect",
            Self::Forward(_) => "forward",
        }
    }
}

impl Proxy {
    fn listeners(&self) -> Vec<(SocketAddr, ListenerProtocol)> {
        let socks = self.socks.iter().map(|at| (*at, ListenerProtocol::Socks));
        let http = self.http.iter().map(|at| (*at, ListenerProtocol::Http));
        let redirect =
            self.redirect.iter().map(|(it, _)| (it.listen(), ListenerProtocol::Redirect));
        let forwards = self.forwards.iter();
        let forwards = forwards.map(|it| (it.listen, ListenerProtocol::Forward(it.target.clone())));
        socks.chain(http).chain(redirect).chain(forwards).collect()
    }

    /// Checks whether the options are consistent.
    ///
    /// # Errors
    /// If no listener is configured, or clients from any network could use
    /// it without authentication.
    pub fn check(&self) -> Result<()> {
        if self.listeners().is_empty() {
            let help = "add --socks ADDR:PORT, --http ADDR:PORT, --forward LOCAL=HOST:PORT, or \
                        --redirect ADDR:PORT with --capture CIDR[:PORT]";
            return Err(Error::option("proxy", "no listener is configured", help));
        }
        let open = self.socks.iter().map(|at| ("--socks", at));
        let open = open.chain(self.http.iter().map(|at| ("--http", at)));
        for (option, at) in open {
            if !at.ip().is_loopback() && self.users.is_none() && self.clients.is_empty() {
                let why = "any client could use the proxy without a password";
                let help = "add --users FILE, or --clients CIDR for the allowed clients, or \
                            listen at 127.0.0.1";
                return Err(Error::option(format!("{option} {at}"), why, help));
            }
        }
        Ok(())
    }
}

struct ProxyState {
    shared: SharedState,
    outgoing: Outgoing,
    users: Option<Users>,
    clients: Vec<IpNet>,
    slots: Semaphore,
    gate: Arc<Gate>,
}

/// Runs the proxy until it is stopped.
///
/// # Errors
/// If the options are inconsistent, it cannot listen, or netfilter rejects the rules.
pub fn run(proxy: &Proxy, stop: &Stop, report: &mut dyn FnMut(&Event)) -> Result<()> {
    proxy.check()?;
    // Without the privilege the current limit applies.
    let _ = sys::limits::raise_open_files();
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let (shared, events) = SharedState::new(&proxy.board);
        let mut listeners = Vec::new();
        let (mut at, mut addresses) = (Vec::new(), Vec::new());
        for (address, protocol) in proxy.listeners() {
            let bound = TcpListener::bind(address).await;
            let listener = bound.map_err(|cause| Error::socket("listen at", address, cause))?;
            let address = listener.local_addr().unwrap_or(address);
            at.push((protocol.name(), address.to_string()));
            addresses.push(address);
            listeners.push((listener, protocol));
        }
        proxy.board.begin("proxy", at.clone());
        // Rules are installed last and removed first, so that they never redirect to a closed port.
        let installed = match &proxy.redirect {
            Some((redirection, true)) => Some(redirection.install()?),
            _ => None,
        };
        if installed.is_some() {
            shared.report(Event::Installed);
        }
        shared.report(Event::Ready(at));
        let redirection = proxy.redirect.as_ref().map(|(redirection, _)| redirection);
        let is_marked = redirection.is_some_and(|it| it.own() == Own::Marked);
        let dialer = Dialer { is_marked, listeners: addresses, ..Dialer::default() };
        let state = Arc::new(ProxyState {
            shared,
            outgoing: Outgoing::new(proxy.peer.clone(), dialer),
            users: proxy.users.clone(),
            clients: proxy.clients.clone(),
            slots: Semaphore::new(proxy.max_clients.clamp(1, Semaphore::MAX_PERMITS)),
            gate: Arc::new(Gate::new(Descriptors::of_process())),
        });
        let mut tasks = JoinSet::new();
        for (listener, protocol) in listeners {
            tasks.spawn(accept(Arc::clone(&state), listener, protocol));
        }
        report_until(stop, events, report).await;
        drop(installed);
        Ok(())
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

async fn accept(state: Arc<ProxyState>, listener: TcpListener, protocol: ListenerProtocol) {
    let mut tasks = JoinSet::new();
    loop {
        while tasks.try_join_next().is_some() {}
        state.gate.wait_for_descriptors(&listener).await;
        match listener.accept().await {
            Ok((stream, client)) => {
                let place = state.gate.enter(client.ip()).await;
                let (state, protocol) = (Arc::clone(&state), protocol.clone());
                tasks.spawn(
                    async move { state.serve_client(stream, client, &protocol, place).await },
                );
            }
            Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

/// A rejected client that has received a response, and the reason.
struct Refusal {
    target: Option<String>,
    why: String,
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        refusal(error.to_string())
    }
}

fn refusal(why: impl Into<String>) -> Refusal {
    Refusal { target: None, why: why.into() }
}

/// Reads until a message is complete; the bytes after it stay in `bytes`.
async fn read_message<T, E: std::error::Error>(
    stream: &mut TcpStream,
    bytes: &mut Vec<u8>,
    parse: impl Fn(&[u8]) -> Result<Parsed<T>, E>,
) -> Result<Result<T, E>, Refusal> {
    loop {
        match parse(bytes) {
            Ok(Parsed::Complete(message, length)) => {
                bytes.drain(..length);
                return Ok(Ok(message));
            }
            Ok(Parsed::Partial) => {}
            Err(error) => return Ok(Err(error)),
        }
        // A parser that requires more than this has already failed.
        if bytes.len() > http_connect::MAX_REQUEST_BYTES {
            return Err(refusal("its request is too long"));
        }
        if stream.read_buf(bytes).await? == 0 {
            return Err(refusal("it closed the connection before it sent a request"));
        }
    }
}

impl ProxyState {
    async fn serve_client(
        &self,
        mut stream: TcpStream,
        from: SocketAddr,
        protocol: &ListenerProtocol,
        place: Place,
    ) {
        let client = from.to_string();
        let ledger = &self.shared.ledger;
        let refused = |refusal: Refusal| {
            Counters::add(&ledger.counters.refused);
            let (client, target) = (client.clone(), refusal.target);
            self.shared.report(Event::Refused { client, target, why: refusal.why });
        };
        let address = from.ip().to_canonical();
        if !self.clients.is_empty() && !self.clients.iter().any(|net| net.contains(&address)) {
            return refused(refusal("its address is not allowed by --clients"));
        }
        if self.outgoing.is_own(&stream) {
            // The redirected connection ends together with this one.
            let _ = sys::socket::reset_on_close(stream.as_fd());
            return refused(refusal("it is a connection of this proxy, redirected to itself"));
        }
        // It may fail on a closed connection; the next read reports it.
        let _ = stream.set_nodelay(true);
        let reading = timeout(REQUEST_TIMEOUT, self.read_request(&mut stream, protocol));
        let request = tokio::select! {
            request = reading => request,
            () = place.evicted() => {
                let why = "it sent no request, and the limit of pending clients is reached";
                return refused(refusal(why));
            }
        };
        let (target, head) = match request {
            Ok(Ok(request)) => request,
            Ok(Err(refusal)) => return refused(refusal),
            Err(_) => {
                let limit = REQUEST_TIMEOUT.as_secs();
                return refused(refusal(format!("it sent no request within {limit} s")));
            }
        };
        place.mark_requested();
        // Clients above the limit wait here; their data stay in their sockets.
        let Ok(_slot) = self.slots.acquire().await else { return };
        drop(place);
        // Clients of these protocols send no data before the reply.
        let waits = matches!(protocol, ListenerProtocol::Socks | ListenerProtocol::Http);
        let mut early = EarlyData::new(head, (!waits).then_some(&mut stream));
        let opened = self.outgoing.open(&target, &mut early).await;
        let early_bytes = early.count;
        let link = match opened {
            Ok(link) => link,
            Err(error) => {
                Counters::add(&ledger.counters.failed);
                let _ = send_result(&mut stream, protocol, Err(&error)).await;
                let (target, why) = (target.to_string(), error.to_string());
                return self.shared.report(Event::Failed { client, target, why });
            }
        };
        // A disconnected client is detected when data are copied.
        let _ = send_result(&mut stream, protocol, Ok(())).await;
        self.relay(stream, client, protocol, &target, link, early_bytes).await;
    }

    async fn relay(
        &self,
        stream: TcpStream,
        client: String,
        protocol: &ListenerProtocol,
        target: &Target,
        mut link: Link,
        early_bytes: u64,
    ) {
        let counters = &self.shared.ledger.counters;
        let target = target.to_string();
        let transport = match &link {
            Link::Mctcp(_) => {
                Counters::add(&counters.sessions);
                Transport::Mctcp
            }
            Link::Plain(plain) => {
                Counters::add(&counters.fallbacks);
                let (target, why) = (target.clone(), plain.why.clone());
                self.shared.report(Event::Fallback { target, why });
                Transport::Plain
            }
        };
        let session = link.observer().map(inspect);
        let name = protocol.name();
        let connection = OpenConnection::new(name, transport, client, target, session);
        match &mut link {
            Link::Mctcp(other) => {
                self.shared.relay(connection, early_bytes, stream, other).await;
            }
            Link::Plain(plain) => {
                self.shared.relay(connection, early_bytes, stream, &mut plain.stream).await;
            }
        }
    }

    /// Reads a client's request: the target, and the first bytes for it.
    async fn read_request(
        &self,
        stream: &mut TcpStream,
        protocol: &ListenerProtocol,
    ) -> Result<(Target, Vec<u8>), Refusal> {
        match protocol {
            ListenerProtocol::Socks => self.read_socks_request(stream).await,
            ListenerProtocol::Http => self.read_http_request(stream).await,
            ListenerProtocol::Forward(target) => Ok((target.clone(), Vec::new())),
            ListenerProtocol::Redirect => {
                let address = redirect::destination(stream.as_fd())
                    .map_err(|error| refusal(error.to_string()))?;
                Ok((Target::of(address), Vec::new()))
            }
        }
    }

    async fn read_socks_request(
        &self,
        stream: &mut TcpStream,
    ) -> Result<(Target, Vec<u8>), Refusal> {
        let mut bytes = Vec::new();
        let method = if self.users.is_some() { Method::Password } else { Method::None };
        let greeting = |bytes: &[u8]| socks::greeting(bytes, method);
        if let Err(error) = read_message(stream, &mut bytes, greeting).await? {
            stream.write_all(&socks::greeting_reply(None)).await?;
            return Err(refusal(error.to_string()));
        }
        stream.write_all(&socks::greeting_reply(Some(method))).await?;
        if let Some(users) = &self.users {
            let given = read_message(stream, &mut bytes, socks::credentials).await?;
            let given = given.map_err(|error| refusal(error.to_string()))?;
            let is_valid = users.contain(&given);
            stream.write_all(&socks::credentials_reply(is_valid)).await?;
            if !is_valid {
                let name = String::from_utf8_lossy(&given.name).escape_debug().to_string();
                return Err(refusal(format!("name or password of {name} is wrong")));
            }
        }
        match read_message(stream, &mut bytes, socks::request).await? {
            Ok(target) => Ok((target, bytes)),
            Err(error) => {
                stream.write_all(&socks::request_reply(error.reply(), None)).await?;
                Err(refusal(error.to_string()))
            }
        }
    }

    async fn read_http_request(
        &self,
        stream: &mut TcpStream,
    ) -> Result<(Target, Vec<u8>), Refusal> {
        let mut bytes = Vec::new();
        let request = match read_message(stream, &mut bytes, http_connect::request).await? {
            Ok(request) => request,
            Err(error) => {
                let text = http_connect::reply(error.status(), &error.to_string());
                stream.write_all(text.as_bytes()).await?;
                return Err(refusal(error.to_string()));
            }
        };
        if let Some(users) = &self.users
            && !request.credentials.as_ref().is_some_and(|given| users.contain(given))
        {
            let why = "name or password is missing or wrong";
            let text = http_connect::reply(Status::Authentication, why);
            stream.write_all(text.as_bytes()).await?;
            return Err(Refusal { target: Some(request.target.to_string()), why: why.to_owned() });
        }
        Ok((request.target, bytes))
    }
}

/// Reports the result of the connection to its target to a client, if its protocol allows it.
async fn send_result(
    stream: &mut TcpStream,
    protocol: &ListenerProtocol,
    outcome: Result<(), &Error>,
) -> io::Result<()> {
    let reply = outcome.map_or_else(reply_of, |()| Reply::Succeeded);
    match protocol {
        ListenerProtocol::Socks => stream.write_all(&socks::request_reply(reply, None)).await,
        ListenerProtocol::Http => {
            let status = match reply {
                Reply::Succeeded => Status::Connected,
                Reply::NotAllowed => Status::Forbidden,
                Reply::Expired => Status::Timeout,
                _ => Status::BadGateway,
            };
            let why = outcome.err().map_or_else(String::new, ToString::to_string);
            stream.write_all(http_connect::reply(status, &why).as_bytes()).await
        }
        ListenerProtocol::Redirect | ListenerProtocol::Forward(_) => match outcome {
            Ok(()) => Ok(()),
            // Closes the connection as the target itself would have.
            Err(_) => sys::socket::reset_on_close(stream.as_fd()).map_err(io::Error::other),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_forwards() {
        let forward: Forward = "5000=example.org:80".parse().unwrap();
        assert_eq!(forward.listen, "127.0.0.1:5000".parse().unwrap());
        assert_eq!(forward.target, "example.org:80".parse().unwrap());
        let forward: Forward = "[::]:5000=[::1]:80".parse().unwrap();
        assert_eq!(forward.listen, "[::]:5000".parse().unwrap());
        for (text, part) in [
            ("5000", "LOCAL=HOST:PORT"),
            ("x=example.org:80", "invalid port or ADDR:PORT"),
            ("5000=example.org", "no port"),
        ] {
            let error = text.parse::<Forward>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn requires_limits_for_a_public_proxy() {
        let error = Proxy::default().check().unwrap_err();
        assert!(error.is_usage() && error.help().unwrap().contains("--socks"), "{error}");
        let open = Proxy { socks: vec!["0.0.0.0:1080".parse().unwrap()], ..Proxy::default() };
        let error = open.check().unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("--socks 0.0.0.0:1080"), "{error}");
        let clients = vec!["10.0.0.0/8".parse().unwrap()];
        Proxy { clients, ..open.clone() }.check().unwrap();
        Proxy { users: Some(Users::default()), ..open }.check().unwrap();
        let local = Proxy { http: vec!["[::1]:3128".parse().unwrap()], ..Proxy::default() };
        local.check().unwrap();
    }
}
