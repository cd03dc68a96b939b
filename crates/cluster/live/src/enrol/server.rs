//! The authority's side of an enrolment: one invitation, valid once and for a short time.

use std::io::ErrorKind;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use quota::Places;
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use sha2::{Digest, Sha256};

use super::{IO_TIMEOUT, Invitation, Request, Response, Secret, fingerprint, receive, send};
use crate::authority::Authority;
use crate::credentials::Role;
use crate::system::random;
use crate::{Error, Result};

const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Max number of concurrent connections, in total and of one address. A new connection replaces the
/// oldest one. Idle ones are closed after [`IO_TIMEOUT`].
const MAX_CONNECTIONS: usize = 256;
const MAX_CONNECTIONS_PER_ADDRESS: usize = 32;
/// Interval at which the listener is polled for connections.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The address on which an invitation listens.
#[derive(Clone, Debug)]
pub struct Host {
    /// Address of the socket: `host:port`.
    pub listen: String,
    /// Address that new machines use: `host` or `host:port`; `None`: the one of the socket.
    pub public: Option<String>,
}

pub struct Invite {
    authority: Authority,
    role: Role,
    name: Option<String>,
    days: u32,
    expires: Instant,
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    invitation: Invitation,
    used: Mutex<bool>,
    enrolled: Mutex<Vec<String>>,
    stops: AtomicBool,
}

impl Invite {
    /// Opens an invitation for one new `role`, valid for `lifetime`. With `name`, the certificate
    /// has that name, otherwise the requested one; it is valid for `days`.
    ///
    /// # Errors
    /// If the address is invalid or in use.
    pub fn open(
        authority: Authority,
        host: &Host,
        role: Role,
        name: Option<String>,
        days: u32,
        lifetime: Duration,
    ) -> Result<Self> {
        let failed = || Error::machine("listen for an enrolment");
        let listener = TcpListener::bind(&host.listen).map_err(failed())?;
        listener.set_nonblocking(true).map_err(failed())?;
        let bound = listener.local_addr().map_err(failed())?;
        let (tls, fingerprint) = server_config()?;
        let secret: Secret = random()?;
        let invitation = Invitation { host: public_host(host, bound)?, fingerprint, secret };
        Ok(Self {
            authority,
            role,
            name,
            days,
            expires: Instant::now() + lifetime,
            listener,
            tls,
            invitation,
            used: Mutex::default(),
            enrolled: Mutex::default(),
            stops: AtomicBool::new(false),
        })
    }

    /// The invitation, which must be passed to the new host over a confidential channel.
    pub fn invitation(&self) -> &Invitation {
        &self.invitation
    }

    /// Serves until a host has enrolled, and returns its name.
    ///
    /// # Errors
    /// If the invitation expires first.
    pub fn serve(&self) -> Result<String> {
        let mut names = self.serve_until(|names| !names.is_empty())?;
        names.pop().ok_or_else(|| Error::Enrolment {
            host: self.invitation.host.clone(),
            why: "the invitation has expired".to_owned(),
        })
    }

    /// Ends [`Self::serve`].
    pub fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
    }

    /// Serves until `done` returns true for the enrolled names, until [`Self::stop`], or
    /// until the expiry.
    pub(super) fn serve_until(&self, done: impl Fn(&[String]) -> bool) -> Result<Vec<String>> {
        std::thread::scope(|scope| {
            let mut connections = Places::new(MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS);
            let mut accepted = 0;
            let served = loop {
                let names = self.enrolled.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let over = self.stops.load(Ordering::Relaxed) || Instant::now() >= self.expires;
                if done(&names) || over {
                    break Ok(names);
                }
                connections.retain(|connection: &Connection| !connection.is_over());
                match self.listener.accept() {
                    Ok((stream, from)) => {
                        let Ok(copy) = stream.try_clone() else { continue };
                        accepted += 1;
                        let since = Instant::now();
                        let thread = scope.spawn(move || drop(self.converse(stream)));
                        let new = Connection { since, copy, thread };
                        if let Some(replaced) = connections.insert(from.ip(), accepted, new) {
                            replaced.close();
                        }
                    }
                    Err(e)
                        if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
                    {
                        std::thread::sleep(POLL_INTERVAL);
                    }
                    Err(e) => break Err(Error::machine("accept an enrolment")(e)),
                }
            };
            connections.iter().for_each(Connection::close);
            served
        })
    }

    fn converse(&self, stream: TcpStream) -> std::io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(IO_TIMEOUT))?;
        stream.set_write_timeout(Some(IO_TIMEOUT))?;
        let session = ServerConnection::new(self.tls.clone()).map_err(std::io::Error::other)?;
        let mut stream = StreamOwned::new(session, stream);
        let request: Request = receive(&mut stream)?;
        let response = self.answer(&request, Instant::now());
        send(&mut stream, &response)?;
        stream.conn.send_close_notify();
        let closed = stream.conn.complete_io(&mut stream.sock);
        if matches!(response, Response::Signed { .. }) {
            let name = self.name_for(&request).to_owned();
            self.enrolled.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        }
        closed.map(drop)
    }

    fn name_for<'a>(&'a self, request: &'a Request) -> &'a str {
        self.name.as_ref().unwrap_or(&request.name)
    }

    pub(super) fn answer(&self, request: &Request, now: Instant) -> Response {
        let refused = |why: &str| Response::Refused { why: why.to_owned() };
        // The duration of this comparison does not reveal the secret.
        if Sha256::digest(request.secret) != Sha256::digest(self.invitation.secret) {
            return refused("the code is wrong");
        }
        if now >= self.expires {
            return refused("the invitation has expired: make another one");
        }
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if *used {
            return refused("the invitation has been used already: make another one");
        }
        let name = self.name_for(request);
        // Only the operator may renew the certificate of a name.
        let is_new = self.name.is_none();
        let signed = self.authority.sign(&request.csr, self.role, name, self.days, is_new);
        match signed.and_then(|cert| Ok((cert, self.authority.crl()?))) {
            Ok((cert, crl)) => {
                *used = true;
                Response::Signed { ca: self.authority.ca().to_owned(), cert, crl }
            }
            Err(error) => refused(&error.to_string()),
        }
    }
}

struct Connection<'scope> {
    since: Instant,
    copy: TcpStream,
    thread: ScopedJoinHandle<'scope, ()>,
}

impl Connection<'_> {
    /// Whether it has ended; after a timeout it is closed.
    fn is_over(&self) -> bool {
        if self.since.elapsed() > CONNECTION_TIMEOUT {
            self.close();
        }
        self.thread.is_finished()
    }

    fn close(&self) {
        let _ = self.copy.shutdown(Shutdown::Both);
    }
}

/// TLS with a new key, and the fingerprint of its certificate.
fn server_config() -> Result<(Arc<ServerConfig>, super::Fingerprint)> {
    let failed = |cause: String| Error::Certificate { action: "prepare an enrolment", cause };
    let key = KeyPair::generate().map_err(|e| failed(e.to_string()))?;
    let signed = CertificateParams::default().self_signed(&key);
    let certificate = signed.map_err(|e| failed(e.to_string()))?.der().clone();
    let fingerprint = fingerprint(&certificate);
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| {
            let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
            builder.with_no_client_auth().with_single_cert(vec![certificate], key)
        })
        .map_err(|e| failed(e.to_string()))?;
    Ok((Arc::new(config), fingerprint))
}

/// The address in the invitation.
fn public_host(host: &Host, bound: SocketAddr) -> Result<String> {
    if let Some(public) = &host.public {
        return crate::address::with_port(public, bound.port());
    }
    let unspecified = bound.ip().is_unspecified();
    let own = unspecified.then(crate::agent::first_address).flatten();
    let ip: IpAddr = own.unwrap_or(bound.ip());
    Ok(SocketAddr::new(ip, bound.port()).to_string())
}
