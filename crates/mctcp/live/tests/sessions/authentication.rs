//! TLS, pre-shared keys, and peers of other protocols.

use std::sync::Arc;

use mctcp::Reason;
use mctcp::frame::{Hello, Limits, PREAMBLE};
use mctcp::secret::hello_token;
use mctcp_live::Error;
use mctcp_proxy::tls::{ClientTls, ServerTls};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::*;

fn with_psk(psk: &[u8]) -> Config {
    Config { psk: Some(Arc::from(psk)), ..Config::default() }
}

/// Both sides of TLS with a new certificate.
fn tls() -> (Arc<ServerTls>, Arc<ClientTls>) {
    let made = rcgen::generate_simple_self_signed(vec!["server.test".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let chain = vec![made.cert.der().clone()];
    let server = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = "server.test".try_into().unwrap();
    let client = ClientTls { config: Arc::new(client), name };
    (Arc::new(ServerTls(Arc::new(server.unwrap()))), Arc::new(client))
}

fn encrypted(tls: Arc<ServerTls>) -> ListenerConfig {
    ListenerConfig { encryption: Some(tls), ..ListenerConfig::default() }
}

/// Sends over two subflows, and checks what arrives.
async fn transfers(mut client: MctcpStream, mut server: MctcpStream) {
    const LENGTH: usize = 3_000_000;
    let sender = tokio::spawn(async move {
        let sent = send(&mut client, LENGTH).await;
        client.delivered().await.unwrap();
        (sent, client.stats())
    });
    let received = in_time(receive(&mut server)).await;
    let (sent, statistics) = in_time(sender).await.unwrap();
    assert_eq!(received, (LENGTH, sent));
    // On a busy host a subflow may become stale, and its path gets another one.
    assert!(statistics.subflows_opened >= 2, "the join was not proven");
}

#[tokio::test]
async fn transfers_over_tls() {
    let (server_side, client_side) = tls();
    let mut listener = listener(2, encrypted(server_side));
    let config = Config { encryption: Some(client_side), ..Config::default() };
    let client = connect(paths(&listener), config).await;
    let server = accept(&mut listener).await;
    transfers(client, server).await;
}

#[tokio::test]
async fn rejects_plain_sessions_where_tls_is_required() {
    let (server_side, _) = tls();
    let mut listener = listener(1, encrypted(server_side));
    let plain = MctcpStream::connect(paths(&listener), "", Config::default());
    let client = in_time(plain).await.unwrap();
    assert!(in_time(client.established()).await.is_err());
    // A connection of another protocol goes to the application.
    let mut other = TcpStream::connect(listener.addresses()[0]).await.unwrap();
    other.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let Accepted::Plain(mut plain) = in_time(listener.accept()).await.unwrap() else {
        panic!("expected a session")
    };
    let mut request = [0; 3];
    in_time(plain.stream.read_exact(&mut request)).await.unwrap();
    assert_eq!((&plain.head[..], &request), (&b""[..], b"GET"));
}

#[tokio::test]
async fn rejects_a_wrong_certificate() {
    let (server_side, _) = tls();
    let (_, other_client) = tls();
    let listener = listener(1, encrypted(server_side));
    let config = Config { encryption: Some(other_client), ..Config::default() };
    let error = in_time(MctcpStream::connect(paths(&listener), "", config)).await.unwrap_err();
    assert!(matches!(error, Error::Connect(_)), "{error}");
}

#[tokio::test]
async fn transfers_with_a_pre_shared_key() {
    let (client, server, _listener) = pair(2, with_psk(b"known to both")).await;
    transfers(client, server).await;
}

#[tokio::test]
async fn wrong_key_opens_no_session() {
    for config in [with_psk(b"another"), Config::default()] {
        let session = with_psk(b"known to both");
        let mut listener = listener(1, ListenerConfig { session, ..Default::default() });
        let client = connect(paths(&listener), config).await;
        let error = in_time(async {
            let mut client = client;
            client.write_all(b"let me in").await?;
            client.read_u8().await
        });
        let cause = error.await.unwrap_err().into_inner().unwrap();
        let cause = *cause.downcast::<Error>().unwrap();
        let wrong = matches!(cause, Error::Ended { reason: Reason::Authentication, .. });
        assert!(wrong, "{cause:?}");
        let none = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
        assert!(none.is_err(), "the application got a other_client: {none:?}");
    }
}

/// Bytes of a HELLO whose token was created with this key.
fn hello(number: u32, psk: &[u8]) -> Vec<u8> {
    let mut nonce = [0; 32];
    nonce[..4].copy_from_slice(&number.to_be_bytes());
    let limits = Limits { subflows: 1, frame: 16_384, idle: 60, resume: 30, proof: true };
    let token = hello_token(psk, &nonce, 0, "");
    let (subflow, target) = (mctcp::SubflowId(0), String::new());
    let hello = Hello { nonce, subflow, credit: 0, limits, target, token };
    let mut bytes = PREAMBLE.to_vec();
    mctcp::Frame::<bytes::Bytes>::Hello(hello).encode_header(0, &mut bytes);
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hellos_without_the_key_open_no_session() {
    let psk: &[u8] = b"known to both";
    let mut config = ListenerConfig { session: with_psk(psk), ..Default::default() };
    config.limits.sessions = 4;
    let mut listener = listener(1, config);
    let at = listener.addresses()[0];
    let mut flood = Vec::new();
    let mut sessions = Vec::new();
    for number in 0..400_u32 {
        let socket = TcpSocket::new_v4().unwrap();
        let source = format!("127.3.{}.{}:0", number % 16, 1 + number / 16);
        socket.bind(source.parse().unwrap()).unwrap();
        let mut stream = in_time(socket.connect(at)).await.unwrap();
        stream.write_all(&hello(number, b"another")).await.unwrap();
        flood.push(stream);
        if number % 100 == 99 {
            let client = connect(paths(&listener), with_psk(psk)).await;
            in_time(client.established()).await.unwrap();
            sessions.push((client, accept(&mut listener).await));
        }
    }
    // Each connection was rejected and closed.
    for stream in &mut flood {
        let mut request = Vec::new();
        let _ = in_time(stream.read_to_end(&mut request)).await;
    }
    assert_eq!((listener.stats().sessions, sessions.len()), (4, 4));
}

#[tokio::test]
async fn client_reports_a_server_of_another_protocol() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let answers: [(&[u8], bool); 3] =
        [(b"220 mail.test ESMTP\r\n", true), (b"no", false), (b"", false)];
    for (answer, is_other_protocol) in answers {
        let mut client = connect([PathSpec::from(at)], Config::default()).await;
        client.write_all(b"EHLO client.test\r\n").await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        server.write_all(answer).await.unwrap();
        server.shutdown().await.unwrap();
        let error = in_time(client.established()).await.unwrap_err();
        // Only bytes of another protocol prove that the peer does not support MCTCP.
        let is_right = match error {
            Error::NotMctcp => is_other_protocol,
            Error::Disconnected => !is_other_protocol,
            _ => false,
        };
        assert!(is_right, "{error} after {answer:?}");
        let again: Vec<u8> = client.reclaim().concat();
        assert_eq!(again, b"EHLO client.test\r\n");
    }
}

#[tokio::test]
async fn client_times_out_on_a_silent_server() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let mut config = Config::default();
    config.settings.handshake = base::Span::from_millis(300);
    let client = connect([PathSpec::from(at)], config).await;
    let error = in_time(client.established()).await.unwrap_err();
    assert!(matches!(error, Error::NoAnswer), "{error}");
}

#[tokio::test]
async fn server_passes_connections_of_other_protocols_on() {
    let mut listener = listener(1, ListenerConfig::default());
    let at = listener.addresses()[0];
    for request in ["GET / HTTP/1.1\r\n\r\n", "x"] {
        let mut client = TcpStream::connect(at).await.unwrap();
        client.write_all(request.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let Accepted::Plain(mut plain) = in_time(listener.accept()).await.unwrap() else {
            panic!("expected a session")
        };
        let mut rest = String::new();
        in_time(plain.stream.read_to_string(&mut rest)).await.unwrap();
        let head = std::str::from_utf8(&plain.head).unwrap();
        assert_eq!(head.to_owned() + &rest, request);
    }
    assert_eq!(listener.stats().plain, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_work_despite_2000_half_open_connections() {
    let mut config = ListenerConfig::default();
    config.limits.handshake = base::Span::from_millis(500);
    let mut listener = listener(2, config);
    let at = listener.addresses()[0];
    let mut client = connect(paths(&listener), Config::default()).await;
    let mut server = accept(&mut listener).await;
    let mut half_open = Vec::new();
    for number in 0..2_000_u32 {
        let local = format!("127.1.{}.{}:0", number % 16, 1 + number / 16 % 200);
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(local.parse().unwrap()).unwrap();
        // Some send nothing, some an incomplete message, some join an unknown session.
        let Ok(mut stream) = in_time(socket.connect(at)).await else { continue };
        let mut join = [&PREAMBLE[..], &[3, 0, 0, 42, 0, 0, 0, 0], &[7; 50]].concat();
        join.truncate([0, 4, join.len()][number as usize % 3]);
        let _ = stream.write_all(&join).await;
        half_open.push(stream);
    }
    // The listener accepts connections later than the kernel does.
    in_time(async {
        while listener.stats().connections < half_open.len() as u64 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let statistics = listener.stats();
    assert!(statistics.refused + statistics.failed > 0, "{statistics:?}");
    // Existing sessions are not affected.
    let sender = tokio::spawn(async move { send(&mut client, 1_000_000).await });
    let received = in_time(receive(&mut server)).await;
    assert_eq!(received, (1_000_000, in_time(sender).await.unwrap()));
    // New clients wait until the silent ones time out.
    in_time(async {
        loop {
            let connect = MctcpStream::connect(paths(&listener), "", Config::default());
            if let Ok(mut client) = connect.await
                && client.established().await.is_ok()
            {
                let mut server = accept(&mut listener).await;
                // Its second connection may still be too early.
                let sender = tokio::spawn(async move { send(&mut client, 1_000_000).await });
                let received = receive(&mut server).await;
                return assert_eq!(received, (1_000_000, sender.await.unwrap()));
            }
        }
    })
    .await;
}
