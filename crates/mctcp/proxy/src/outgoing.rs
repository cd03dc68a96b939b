//! Connections to targets: in a session if the other end supports MCTCP, otherwise over plain TCP.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mctcp::settings::EARLY_CREDIT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, Error as TlsError};

use super::dial::{Dialer, lookup};
use super::fallback::{Cause, Fallbacks, PlainSlot};
use super::paths::{self, PathOption};
use super::socks::Reply;
use super::target::{Host, Target};
use super::tls::ClientTls;
use super::{Error, Result};
use mctcp_live::{Config, MctcpStream, Observer, Registered};

/// Timeout of the first connection, if plain TCP may replace the session.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Max plain connections by default.
const DEFAULT_MAX_PLAIN: usize = 512;
/// Maximum number of bytes sent before the session is established.
const MAX_EARLY_BYTES: usize = EARLY_CREDIT.count() as usize;
/// Maximum number of these bytes per read.
const READ_BYTES: usize = 16 << 10;

/// The other end of sessions, and the paths to it.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Addresses of one server; if empty, each target is expected to support MCTCP.
    pub servers: Vec<Target>,
    /// Local addresses to use; if empty, all that have a route.
    pub paths: Vec<PathOption>,
    pub config: Config,
    /// TLS, and the server's name if it differs from [`Self::servers`].
    pub tls: Option<(Arc<ClientConfig>, Option<ServerName<'static>>)>,
    /// Whether plain TCP may replace a session if neither a key nor TLS is configured.
    pub fallback: bool,
    /// Whether it may do so with a key or TLS.
    pub allow_plain: bool,
    /// Maximum number of plain connections that replace sessions; one target gets at most a
    /// quarter. 0: 512.
    pub max_plain: usize,
}

impl Peer {
    /// Whether plain TCP may replace a session.
    pub fn may_fall_back(&self) -> bool {
        let is_protected = self.config.psk.is_some() || self.tls.is_some();
        self.allow_plain || (self.fallback && !is_protected)
    }
}

/// A connection to a target.
#[derive(Debug)]
pub(crate) enum Link {
    Mctcp(Box<MctcpStream>),
    Plain(Plain),
}

/// A plain connection.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) stream: TcpStream,
    /// Reason for the missing session.
    pub(crate) why: String,
    _registered: Option<Registered>,
    _slot: PlainSlot,
}

/// First bytes of a client, before its target is connected: they are sent right after HELLO, so
/// that a request and its response take as many round trips as without a session.
#[derive(Debug)]
pub(crate) struct EarlyData<'a> {
    head: Vec<u8>,
    /// Source of more bytes; a client that waits for a response sends none.
    client: Option<&'a mut TcpStream>,
    /// Number of bytes sent early.
    pub(crate) count: u64,
}

impl<'a> EarlyData<'a> {
    pub(crate) fn new(head: Vec<u8>, client: Option<&'a mut TcpStream>) -> Self {
        Self { head, client, count: 0 }
    }

    fn take(&mut self) -> Vec<u8> {
        self.count += self.head.len() as u64;
        std::mem::take(&mut self.head)
    }

    /// The next bytes, never empty. Cancel safe.
    async fn more(&mut self) -> Vec<u8> {
        let left =
            MAX_EARLY_BYTES.saturating_sub(usize::try_from(self.count).unwrap_or(usize::MAX));
        if let Some(client) = self.client.as_mut().filter(|_| left > 0) {
            let mut bytes = vec![0; left.min(READ_BYTES)];
            // The next reader gets the end or the error again.
            if let Ok(count @ 1..) = client.read(&mut bytes).await {
                bytes.truncate(count);
                self.count += count as u64;
                return bytes;
            }
            self.client = None;
        }
        std::future::pending().await
    }
}

/// The session could not be established.
struct SessionError {
    error: Error,
    /// Undelivered bytes of the client.
    undelivered: Vec<Bytes>,
}

impl From<Error> for SessionError {
    fn from(error: Error) -> Self {
        Self { error, undelivered: Vec::new() }
    }
}

#[derive(Debug)]
pub(crate) struct Outgoing {
    peer: Peer,
    dialer: Arc<Dialer>,
    fallbacks: Arc<Fallbacks>,
}

impl Outgoing {
    pub(crate) fn new(mut peer: Peer, dialer: Dialer) -> Self {
        let dialer = Arc::new(dialer);
        if dialer.is_marked {
            let dialer = Arc::clone(&dialer);
            peer.config.dial = Some(Arc::new(move |path| dialer.socket(path.remote.ip())));
        }
        peer.config.connections = Some(dialer.connections.clone());
        let options = peer.paths.clone();
        peer.config.further =
            Some(Arc::new(move |address, known| paths::further(&options, address, known)));
        let max_plain = if peer.max_plain == 0 { DEFAULT_MAX_PLAIN } else { peer.max_plain };
        Self { peer, dialer, fallbacks: Arc::new(Fallbacks::new(max_plain)) }
    }

    /// Whether this process opened a client's connection.
    pub(crate) fn is_own(&self, client: &TcpStream) -> bool {
        self.dialer.connections.contain(client)
    }

    /// Connects to a target. Bytes that the client sends meanwhile are sent early.
    pub(crate) async fn open(&self, target: &Target, early: &mut EarlyData<'_>) -> Result<Link> {
        let servers = match self.peer.servers.as_slice() {
            [] => std::slice::from_ref(target),
            servers => servers,
        };
        let (peer, is_target) = (&servers[0], self.peer.servers.is_empty());
        let name = peer.to_string();
        let recent = if self.peer.may_fall_back() {
            self.fallbacks.recent_failure(Instant::now(), &name)
        } else {
            None
        };
        let (why, undelivered) = match recent {
            Some(why) => (why, Vec::new()),
            None => match self.session(servers, target, early).await {
                Ok(stream) => {
                    self.fallbacks.record_success(&name);
                    return Ok(Link::Mctcp(stream));
                }
                Err(SessionError { error, undelivered }) => {
                    let Some(cause) = cause(&error) else { return Err(error) };
                    if !self.peer.may_fall_back() {
                        return Err(Error::NoFallback { peer: peer.clone(), cause: error.into() });
                    }
                    let why = format!("{peer}: {error}");
                    self.fallbacks.record_failure(Instant::now(), &name, &why, cause, is_target);
                    (why, undelivered)
                }
            },
        };
        let undelivered =
            if undelivered.is_empty() { vec![early.take().into()] } else { undelivered };
        let plain = self.plain(target, &why, undelivered).await;
        plain.map(Link::Plain).map_err(|cause| Error::Plain { session: why, cause: cause.into() })
    }

    async fn plain(&self, target: &Target, why: &str, undelivered: Vec<Bytes>) -> Result<Plain> {
        let slot = self.fallbacks.enter(&target.to_string())?;
        let addresses = lookup(target).await?;
        let (mut stream, registered) = self.dialer.connect(target, addresses).await?;
        for piece in undelivered {
            let sent = stream.write_all(&piece).await;
            sent.map_err(|cause| Error::socket("send to", target, cause))?;
        }
        Ok(Plain { stream, why: why.to_owned(), _registered: registered, _slot: slot })
    }

    async fn session(
        &self,
        servers: &[Target],
        target: &Target,
        early: &mut EarlyData<'_>,
    ) -> Result<Box<MctcpStream>, SessionError> {
        let mut addresses = Vec::new();
        for server in servers {
            addresses.extend(self.dialer.foreign(server, lookup(server).await?)?);
        }
        let paths = paths::find(&self.peer.paths, &addresses)?;
        let mut config = self.peer.config.clone();
        if let Some((tls, name)) = &self.peer.tls {
            let name = match name {
                Some(name) => name.clone(),
                None => server_name(&servers[0])?,
            };
            config.encryption = Some(Arc::new(ClientTls { config: Arc::clone(tls), name }));
        }
        let has_server = !self.peer.servers.is_empty();
        let text = if has_server { target.to_string() } else { String::new() };
        let connect = MctcpStream::connect(paths, &text, config);
        let stream = if self.peer.may_fall_back() {
            let connected = timeout(CONNECT_TIMEOUT, connect).await;
            let late = |_| mctcp_live::Error::Connect(Arc::new(ErrorKind::TimedOut.into()));
            connected.map_err(late).and_then(|connected| connected)
        } else {
            connect.await
        };
        let stream = stream.map_err(Error::from)?;
        let mut stream = Box::new(stream);
        match self.establish(&mut stream, target, early).await {
            Ok(()) => Ok(stream),
            Err(error) => Err(SessionError { error, undelivered: stream.reclaim() }),
        }
    }

    /// Sends early data until the session and the connection to the target are established.
    async fn establish(
        &self,
        stream: &mut MctcpStream,
        target: &Target,
        early: &mut EarlyData<'_>,
    ) -> Result<()> {
        let has_server = !self.peer.servers.is_empty();
        let failed = |cause| Error::socket("request", target, cause);
        stream.write_all(&early.take()).await.map_err(failed)?;
        loop {
            let answer = async {
                stream.established().await?;
                // The first byte is always sent, or the session ends.
                Ok::<u8, Error>(if has_server {
                    stream.read_u8().await.map_err(failed)?
                } else {
                    0
                })
            };
            let more = tokio::select! {
                answer = answer => return match answer.map(Reply::of)? {
                    Some(Reply::Succeeded) => Ok(()),
                    why => {
                        let why = why.unwrap_or(Reply::Failure);
                        Err(Error::Target { target: target.clone(), why })
                    }
                },
                more = early.more() => more,
            };
            stream.write_all(&more).await.map_err(failed)?;
        }
    }
}

/// Reason for a missing session, if plain TCP may replace it. A local error, or an unauthenticated
/// peer, does not permit plain TCP.
fn cause(error: &Error) -> Option<Cause> {
    use mctcp_live::Error as Session;
    match error {
        Error::NoPath(_) | Error::Session(Session::Disconnected) => Some(Cause::Unreachable),
        Error::Session(Session::NoAnswer) => Some(Cause::Silent),
        Error::Session(Session::NotMctcp) => Some(Cause::Foreign),
        Error::Session(Session::Connect(cause)) => match cause.get_ref() {
            Some(inner) => match inner.downcast_ref() {
                Some(TlsError::InvalidMessage(_)) => Some(Cause::Foreign),
                _ => None,
            },
            None => is_remote(cause.kind()).then_some(Cause::Unreachable),
        },
        _ => None,
    }
}

/// Whether an error of connecting is caused by the peer or by the path to it.
fn is_remote(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::TimedOut
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::UnexpectedEof
    )
}

fn server_name(server: &Target) -> Result<ServerName<'static>> {
    let text = match &server.host {
        Host::Address(address) => address.to_string(),
        Host::Name(name) => name.clone(),
    };
    ServerName::try_from(text.clone()).map_err(|_| {
        let help = "give the name in its certificate with --tls-name NAME";
        Error::option(format!("--server {server}"), "it is not a valid TLS server name", help)
    })
}

impl Link {
    /// An observer of the session, if there is one.
    pub(crate) fn observer(&self) -> Option<Observer> {
        match self {
            Self::Mctcp(stream) => Some(stream.observer()),
            Self::Plain(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn falls_back_only_for_peers_without_mctcp() {
        let of = |error: io::Error| Error::from(mctcp_live::Error::Connect(Arc::new(error)));
        let kind = |kind: ErrorKind| cause(&of(kind.into()));
        assert_eq!(cause(&mctcp_live::Error::NotMctcp.into()), Some(Cause::Foreign));
        assert_eq!(cause(&mctcp_live::Error::NoAnswer.into()), Some(Cause::Silent));
        assert_eq!(kind(ErrorKind::ConnectionRefused), Some(Cause::Unreachable));
        assert_eq!(kind(ErrorKind::TimedOut), Some(Cause::Unreachable));
        assert_eq!(kind(ErrorKind::AddrNotAvailable), None);
        assert_eq!(kind(ErrorKind::PermissionDenied), None);
        let tls = |error: TlsError| cause(&of(io::Error::new(ErrorKind::InvalidData, error)));
        assert_eq!(tls(TlsError::NoCertificatesPresented), None);
        let strange = tokio_rustls::rustls::InvalidMessage::InvalidContentType;
        assert_eq!(tls(TlsError::InvalidMessage(strange)), Some(Cause::Foreign));
        let ended = mctcp_live::Error::Ended { reason: mctcp::Reason::Timeout, by_peer: false };
        assert_eq!(cause(&ended.into()), None);
    }

    #[test]
    fn key_prevents_fallback_without_allow_plain() {
        let mut peer = Peer { fallback: true, ..Peer::default() };
        assert!(peer.may_fall_back());
        peer.config.psk = Some(Arc::from(&b"0123456789abcdef"[..]));
        assert!(!peer.may_fall_back());
        peer.allow_plain = true;
        assert!(peer.may_fall_back());
    }

    #[tokio::test]
    async fn sends_early_data_to_a_peer_without_mctcp() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::of(listener.local_addr().unwrap());
        let service = tokio::spawn(async move {
            // A service that sends first, in another protocol.
            let (mut first, _) = listener.accept().await.unwrap();
            first.write_all(b"220 ready\r\n").await.unwrap();
            let (mut second, _) = listener.accept().await.unwrap();
            let mut bytes = [0; 5];
            second.read_exact(&mut bytes).await.unwrap();
            bytes
        });
        let peer = Peer { fallback: true, ..Peer::default() };
        let outgoing = Outgoing::new(peer, Dialer::default());
        let mut early = EarlyData::new(b"hello".to_vec(), None);
        let link = outgoing.open(&target, &mut early).await.unwrap();
        assert!(matches!(link, Link::Plain(_)) && early.count == 5);
        assert_eq!(&service.await.unwrap(), b"hello");
        let why = outgoing.fallbacks.recent_failure(Instant::now(), &target.to_string()).unwrap();
        assert!(why.contains("another protocol"), "{why}");
    }
}
