//! Hosts without a certificate flood an agent's port with connections, while another agent joins.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketType, sockopt};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::bench::{installed, until};
use super::loopback::Loopback;

/// Number of connections that are held open; closed ones are replaced.
const HELD_CONNECTIONS: usize = 300;
/// Interval of their replacement. More would use up the local ports, for 60 s (TIME-WAIT).
const REPLACEMENT_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of connections that fail: 100 per second.
const FAILED_CONNECTION_INTERVAL: Duration = Duration::from_millis(10);
/// Failed connections before the other agent starts: for 3 s.
const MIN_FAILED_CONNECTIONS: usize = 300;

/// The source address of a connection, by its number. Each test has separate ones, because each
/// address has its own local ports.
type Source = fn(usize) -> Ipv4Addr;

/// 65,536 sources.
fn many_sources(number: usize) -> Ipv4Addr {
    let [.., high, low] = number.to_be_bytes();
    Ipv4Addr::new(127, 1, high, low)
}

struct Flood {
    to: SocketAddr,
    source: Source,
    opened: AtomicUsize,
    failed: AtomicUsize,
    has_ended: AtomicBool,
}

/// Ends a flood when it is dropped.
struct EndGuard<'a>(&'a AtomicBool);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Flood {
    /// Opens a connection and sends `first`.
    fn connect(&self, first: &[u8]) -> std::io::Result<TcpStream> {
        let source = (self.source)(self.opened.fetch_add(1, Ordering::Relaxed));
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        rustix::net::bind(&socket, &SocketAddr::from((source, 0)))?;
        rustix::net::connect(&socket, &self.to)?;
        let mut stream = TcpStream::from(socket);
        stream.write_all(first)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// Holds connections open that have sent `first`, and replaces closed ones.
    fn hold(&self, first: &[u8]) {
        let mut held: Vec<Option<TcpStream>> = (0..HELD_CONNECTIONS).map(|_| None).collect();
        while !self.has_ended.load(Ordering::Relaxed) {
            for stream in &mut held {
                if !stream.as_mut().is_some_and(is_open) {
                    *stream = self.connect(first).ok();
                }
            }
            std::thread::sleep(REPLACEMENT_INTERVAL);
        }
    }

    /// Opens connections that fail at once.
    fn fail(&self, fail: fn(&TcpStream)) {
        while !self.has_ended.load(Ordering::Relaxed) {
            if let Ok(stream) = self.connect(b"GET / HTTP/1.1\r\nHost: agent\r\n\r\n") {
                fail(&stream);
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
            std::thread::sleep(FAILED_CONNECTION_INTERVAL);
        }
    }
}

fn is_open(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0; 4096]) {
        Ok(received) => received > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

fn client_hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let name = ServerName::IpAddress(IpAddr::from(Ipv4Addr::LOCALHOST).into());
    let mut hello = Vec::new();
    ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut hello).unwrap();
    hello
}

/// Lets m2 join m1 at `agent` while connections from `source` are held open that have sent `first`,
/// and others fail: after garbage, `fail` is called and the connection is closed.
fn m2_joins(
    cluster: &mut Loopback,
    agent: SocketAddr,
    source: Source,
    first: &[u8],
    fail: fn(&TcpStream),
) {
    let (opened, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let flood = Flood { to: agent, source, opened, failed, has_ended: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let _ends = EndGuard(&flood.has_ended);
        scope.spawn(|| flood.hold(first));
        scope.spawn(|| flood.fail(fail));
        until("the flood", || {
            (flood.failed.load(Ordering::Relaxed) >= MIN_FAILED_CONNECTIONS).then_some(())
        });
        let since = Instant::now();
        cluster.start("m2", Some(agent));
        until("m2 to join", || cluster.printed("m2").contains("agent m1 is alive").then_some(()));
        let joined = since.elapsed();
        cluster.await_pair(agent);
        let answered = since.elapsed();
        eprintln!(
            "m2 has joined after {joined:.2?}, the coordinator has both after {answered:.2?}"
        );
        let failed = flood.failed.load(Ordering::Relaxed);
        until("the flood to continue", || {
            (flood.failed.load(Ordering::Relaxed) > failed).then_some(())
        });
    });
    let opened = flood.opened.load(Ordering::Relaxed);
    eprintln!("{opened} connections, of which {} failed", flood.failed.load(Ordering::Relaxed));
    assert!(!cluster.printed("m2").contains("certificate"), "{}", cluster.printed("m2"));
}

#[test]
fn agent_joins_during_silent_connections_and_garbage() {
    let mut cluster = Loopback::new();
    let agent = cluster.start("m1", None);
    m2_joins(&mut cluster, agent, |_| Ipv4Addr::LOCALHOST, b"", |_| ());
}

#[test]
fn agent_joins_during_unfinished_handshakes() {
    let mut cluster = Loopback::new();
    let agent = cluster.start("m1", None);
    m2_joins(&mut cluster, agent, |_| Ipv4Addr::new(127, 2, 0, 1), &client_hello(), |_| ());
}

#[test]
fn agent_joins_during_resets() {
    let mut cluster = Loopback::new();
    let agent = cluster.start("m1", None);
    let reset = |stream: &TcpStream| {
        sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
    };
    m2_joins(&mut cluster, agent, |_| Ipv4Addr::new(127, 2, 0, 2), b"", reset);
}

#[test]
fn agent_joins_during_unfinished_handshakes_of_many_sources() {
    let mut cluster = Loopback::new();
    let agent = cluster.start("m1", None);
    m2_joins(&mut cluster, agent, many_sources, &client_hello(), |_| ());
}

#[test]
fn silent_connections_leave_descriptors_for_agents() {
    if !installed("silent_connections_leave_descriptors_for_agents", &["prlimit"]) {
        return;
    }
    let mut cluster = Loopback::new();
    cluster.descriptors = Some(100);
    let agent = cluster.start("m1", None);
    cluster.descriptors = None;
    m2_joins(&mut cluster, agent, |_| Ipv4Addr::new(127, 2, 0, 3), b"", |_| ());
}
