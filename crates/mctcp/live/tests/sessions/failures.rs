//! Sessions with failing paths or ends.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mctcp::Reason;
use mctcp_live::Error;

use super::relay::{Mode, Relay};
use super::*;

/// A listener at one address, and relays to it.
async fn relayed(count: usize, session: Config) -> (MctcpListener, Vec<Relay>) {
    let listener = listener(1, ListenerConfig { session, ..Default::default() });
    let mut relays = Vec::new();
    for _ in 0..count {
        relays.push(Relay::to(listener.addresses()[0]).await);
    }
    (listener, relays)
}

fn through(relays: &[Relay]) -> Vec<PathSpec> {
    relays.iter().map(|relay| PathSpec::from(relay.address)).collect()
}

fn set_all(relays: &[Relay], mode: Mode) {
    for relay in relays {
        relay.set(mode);
    }
}

/// A configuration that uses only the configured paths.
fn without_following() -> Config {
    Config { follow: false, ..Config::default() }
}

/// Sends over three relays, sets modes of some after delays, and checks that all data arrive.
async fn assert_survives(steps: &[(u64, Range<usize>, Mode)]) {
    const LENGTH: usize = 30_000_000;
    let (mut listener, relays) = relayed(3, Config::default()).await;
    let mut client = connect(through(&relays), without_following()).await;
    client.join_now();
    let mut server = accept(&mut listener).await;
    // The transfer must not end before the faults.
    let over = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&over);
    let sender = tokio::spawn(async move {
        let is_over = || is_over.load(Ordering::Relaxed);
        let sent = send_until(&mut client, LENGTH, is_over).await;
        client.delivered().await.map(|()| (sent, client.stats()))
    });
    // The server's end stays until the client has received the acknowledgement of all data.
    let receiver = tokio::spawn(async move { (receive(&mut server).await, server) });
    for (delay_ms, range, mode) in steps {
        tokio::time::sleep(Duration::from_millis(*delay_ms)).await;
        set_all(&relays[range.clone()], *mode);
    }
    over.store(true, Ordering::Relaxed);
    let (received, _server) = in_time(receiver).await.unwrap();
    let (sent, statistics) = in_time(sender).await.unwrap().unwrap();
    assert!(received == sent && sent.0 >= LENGTH, "{} of {} B", received.0, sent.0);
    let repaired = statistics.subflows_lost + statistics.reinjected;
    assert!(repaired > 0, "no path failed: {statistics:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivers_all_when_connections_break() {
    assert_survives(&[(60, 0..1, Mode::Broken), (60, 1..2, Mode::Broken)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivers_all_when_all_connections_break() {
    assert_survives(&[(60, 0..3, Mode::Broken), (300, 0..3, Mode::Passing)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivers_all_when_paths_go_silent() {
    assert_survives(&[(60, 0..2, Mode::Silent)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivers_all_when_relays_drop_acknowledged_data() {
    assert_survives(&[(60, 0..2, Mode::Dropping)]).await;
}

#[tokio::test]
async fn connects_over_the_second_path_when_the_first_is_dead() {
    let (mut listener, relays) = relayed(1, Config::default()).await;
    // Connections to this address get neither an answer nor an error (RFC 5737).
    let unreachable = PathSpec::from(SocketAddr::from(([192, 0, 2, 1], 9)));
    let paths = [vec![unreachable], through(&relays)].concat();
    let mut client = connect(paths, without_following()).await;
    in_time(client.established()).await.unwrap();
    let mut server = accept(&mut listener).await;
    in_time(client.write_all(b"over the other")).await.unwrap();
    in_time(client.shutdown()).await.unwrap();
    let mut request = String::new();
    in_time(server.read_to_string(&mut request)).await.unwrap();
    assert_eq!(request, "over the other");
}

#[tokio::test]
async fn reports_refused_paths() {
    let (listener, _) = relayed(0, Config::default()).await;
    let paths = paths(&listener);
    drop(listener);
    let error = in_time(MctcpStream::connect(paths, "", without_following())).await.unwrap_err();
    let Error::Connect(cause) = &error else { panic!("{error}") };
    assert_eq!(cause.kind(), std::io::ErrorKind::ConnectionRefused);
    let none = in_time(MctcpStream::connect([], "", without_following())).await.unwrap_err();
    assert!(matches!(none, Error::NoPath));
}

#[tokio::test]
async fn dropping_a_stream_resets_the_peer() {
    let (mut client, mut server, _listener) = pair(1, Config::default()).await;
    in_time(client.write_all(b"half a sent")).await.unwrap();
    let mut request = [0; 11];
    in_time(server.read_exact(&mut request)).await.unwrap();
    drop(client);
    let error = in_time(server.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let cause = error.into_inner().unwrap().downcast::<Error>().unwrap();
    assert!(matches!(*cause, Error::Ended { reason: Reason::Aborted, by_peer: true }), "{cause}");
}

#[tokio::test]
async fn delivers_all_when_a_finished_stream_is_dropped() {
    let (mut client, mut server, _listener) = pair(2, Config::default()).await;
    let sender = tokio::spawn(async move { send(&mut client, 3_000_000).await });
    // The stream is dropped before much of it is read.
    let sent = in_time(sender).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(in_time(receive(&mut server)).await, (3_000_000, sent));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closes_when_both_ends_finish_at_once() {
    for _ in 0..50 {
        let (mut client, mut server, _listener) = pair(2, Config::default()).await;
        let (one, other) = tokio::join!(client.write_all(b"ping"), server.write_all(b"pong"));
        one.and(other).unwrap();
        let (one, other) = tokio::join!(client.shutdown(), server.shutdown());
        one.and(other).unwrap();
        let (mut reply, mut request) = (String::new(), String::new());
        let (one, other) = in_time(async {
            tokio::join!(client.read_to_string(&mut reply), server.read_to_string(&mut request))
        })
        .await;
        assert_eq!((one.unwrap(), other.unwrap()), (4, 4));
        in_time(async { tokio::join!(client.delivered(), server.delivered()) }).await.0.unwrap();
        assert_eq!((&*reply, &*request), ("pong", "ping"));
    }
}

/// Data after HELLO do not show that the client has the answer.
#[tokio::test]
async fn repeats_hello_after_its_answer_was_lost() {
    let (mut listener, relays) = relayed(2, Config::default()).await;
    set_all(&relays, Mode::OneWay);
    let mut client = connect(through(&relays), without_following()).await;
    in_time(client.write_all(b"ping")).await.unwrap();
    in_time(client.shutdown()).await.unwrap();
    let mut server = accept(&mut listener).await;
    let mut request = String::new();
    in_time(server.read_to_string(&mut request)).await.unwrap();
    assert_eq!(request, "ping");
    in_time(server.write_all(b"pong")).await.unwrap();
    in_time(server.shutdown()).await.unwrap();
    set_all(&relays, Mode::Broken);
    tokio::time::sleep(Duration::from_millis(5)).await;
    set_all(&relays, Mode::Passing);
    let mut reply = String::new();
    in_time(client.read_to_string(&mut reply)).await.unwrap();
    assert_eq!(reply, "pong");
    in_time(client.closed()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delivers_all_when_connections_break_at_the_end() {
    let (mut listener, relays) = relayed(2, Config::default()).await;
    for wait in 0..16 {
        let mut client = connect(through(&relays), without_following()).await;
        in_time(client.write_all(b"ping")).await.unwrap();
        let mut server = accept(&mut listener).await;
        in_time(server.write_all(b"pong")).await.unwrap();
        in_time(client.shutdown()).await.unwrap();
        in_time(server.shutdown()).await.unwrap();
        tokio::time::sleep(Duration::from_micros(50 * wait)).await;
        set_all(&relays, Mode::Broken);
        tokio::time::sleep(Duration::from_millis(5)).await;
        set_all(&relays, Mode::Passing);
        let (mut reply, mut request) = (String::new(), String::new());
        in_time(client.read_to_string(&mut reply)).await.unwrap();
        in_time(server.read_to_string(&mut request)).await.unwrap();
        assert_eq!((&*reply, &*request), ("pong", "ping"));
        // Whether the server also ends without error is tested on the virtual clock: here a relay's
        // FIN may overtake its reset, and a client cannot distinguish it from the server's FIN.
        in_time(client.closed()).await.unwrap();
    }
}
