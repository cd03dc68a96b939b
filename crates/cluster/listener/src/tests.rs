use std::sync::Arc;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

use super::*;

const NAME: &str = "agent.example.org";
/// Timeout that is longer than any test.
const LONG: Duration = Duration::from_secs(60);

/// A listener in a task that ends with the first complete handshake.
async fn listen(timeout: Duration) -> (SocketAddr, Arc<ClientConfig>, JoinHandle<SocketAddr>) {
    let own = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
    let server = ServerConfig::builder().with_no_client_auth();
    let server = server.with_single_cert(vec![own.cert.der().clone()], key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let tls = TlsAcceptor::from(Arc::new(server));
    let mut listener = builder(tls).handshake_timeout(timeout).listen(listener);
    let accepting = tokio::spawn(async move {
        let Ok((_, from)) = listener.accept().await;
        from
    });
    (at, Arc::new(client), accepting)
}

async fn connect(at: SocketAddr) -> TcpStream {
    TcpStream::connect(at).await.unwrap()
}

/// Waits until the other end closes the connection.
async fn is_closed(mut stream: TcpStream) -> bool {
    !matches!(stream.read(&mut [0; 4096]).await, Ok(1..))
}

fn client_hello(config: Arc<ClientConfig>) -> Vec<u8> {
    let name = ServerName::try_from(NAME).unwrap();
    let mut hello = Vec::new();
    ClientConnection::new(config, name).unwrap().write_tls(&mut hello).unwrap();
    hello
}

/// Stops the clock of Tokio until the result is dropped, at most for LONG. A listener that waits
/// for a time does not continue meanwhile.
fn stop_clock() -> std::sync::mpsc::Sender<()> {
    let (end, ended) = std::sync::mpsc::channel();
    drop(tokio::task::spawn_blocking(move || ended.recv_timeout(LONG)));
    end
}

/// No pause after a failed handshake, and no wait for a silent connection.
#[tokio::test(start_paused = true)]
async fn failed_handshakes_and_silent_connections_delay_no_other_handshake() {
    let (at, client, accepting) = listen(LONG).await;
    let (began, _stopped) = (Instant::now(), stop_clock());
    let mut held = Vec::new();
    for _ in 0..max_connections() {
        held.push(connect(at).await);
        connect(at).await.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    }
    let stream = connect(at).await;
    let own = stream.local_addr().unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    let secured = TlsConnector::from(client).connect(name, stream).await;
    assert_eq!(Instant::now() - began, Duration::ZERO, "the handshake waited for the clock");
    let _secured = secured.unwrap();
    assert_eq!(accepting.await.unwrap(), own);
}

#[tokio::test]
async fn new_silent_connection_replaces_the_oldest_silent_one_of_its_source() {
    let (at, client, accepting) = listen(LONG).await;
    let mut started = connect(at).await;
    let hello = client_hello(client);
    started.write_all(&hello[..1]).await.unwrap();
    let mut silent = Vec::new();
    for _ in 0..=max_connections() / 2 {
        silent.push(connect(at).await);
    }
    assert!(is_closed(silent.remove(0)).await);
    let second = silent[0].try_read(&mut [0]).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::WouldBlock, "the second one is open");
    started.write_all(&hello[1..]).await.unwrap();
    assert_eq!(started.read_u8().await.unwrap(), 22, "the handshake continues");
    accepting.abort();
    let _ = accepting.await;
    for stream in silent {
        assert!(is_closed(stream).await, "the dropped listener closes all connections");
    }
}

#[tokio::test(start_paused = true)]
async fn handshakes_from_one_source_replace_the_oldest_one() {
    let (at, client, _accepting) = listen(LONG).await;
    let (began, _stopped) = (Instant::now(), stop_clock());
    let hello = client_hello(client);
    let mut started = Vec::new();
    for _ in 0..=max_connections() / 2 {
        let mut stream = connect(at).await;
        stream.write_all(&hello[..1]).await.unwrap();
        started.push(stream);
    }
    assert!(is_closed(started.remove(0)).await);
    assert_eq!(Instant::now() - began, Duration::ZERO, "closed after the timeout only");
}

#[tokio::test]
async fn closes_silent_connections_and_unfinished_handshakes_after_the_timeout() {
    let (at, client, _accepting) = listen(Duration::from_millis(50)).await;
    let silent = connect(at).await;
    let mut started = connect(at).await;
    started.write_all(&client_hello(client)[..10]).await.unwrap();
    assert!(is_closed(silent).await && is_closed(started).await);
}
