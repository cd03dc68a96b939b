//! What happens to a session when paths or ends fail.

use mctcp::Reason;
use mctcp_live::Error;

use super::relay::{Mood, Relay};
use super::*;

/// A listener at one address, and relays that lead to it.
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

fn set_all(relays: &[Relay], mood: Mood) {
    for relay in relays {
        relay.set(mood);
    }
}

/// Only the paths that are given.
fn given() -> Config {
    Config { follow: false, ..Config::default() }
}

/// Sends over relays, which `trouble` does something to, and checks that all arrives.
async fn survives<F: Future<Output = Vec<Relay>>>(trouble: impl FnOnce(Vec<Relay>) -> F) {
    const LENGTH: usize = 30_000_000;
    let (mut listener, relays) = relayed(3, Config::default()).await;
    let connect = MctcpStream::connect(through(&relays), "", given());
    let mut client = soon(connect).await.unwrap();
    client.join_now();
    let mut server = accept(&mut listener).await;
    let sender = tokio::spawn(async move {
        let sent = send(&mut client, LENGTH).await;
        client.delivered().await.map(|()| (sent, client.stats()))
    });
    // The server's end stays until the client knows that all has arrived.
    let receiver = tokio::spawn(async move { (receive(&mut server).await, server) });
    let relays = soon(trouble(relays)).await;
    let (received, _server) = soon(receiver).await.unwrap();
    let (sent, statistics) = soon(sender).await.unwrap().unwrap();
    assert_eq!(received, (LENGTH, sent));
    let missed = statistics.subflows_lost + statistics.reinjected;
    assert!(missed > 0, "no path was missed: {statistics:?}");
    drop(relays);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_with_connections_that_break() {
    survives(async |relays: Vec<Relay>| {
        for relay in &relays[..2] {
            tokio::time::sleep(Duration::from_millis(60)).await;
            relay.set(Mood::Broken);
        }
        relays
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_all_connections_break() {
    survives(async |relays: Vec<Relay>| {
        tokio::time::sleep(Duration::from_millis(60)).await;
        set_all(&relays, Mood::Broken);
        tokio::time::sleep(Duration::from_millis(300)).await;
        set_all(&relays, Mood::Passing);
        relays
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_with_paths_that_go_silent() {
    survives(async |relays: Vec<Relay>| {
        tokio::time::sleep(Duration::from_millis(60)).await;
        relays[0].set(Mood::Silent);
        relays[1].set(Mood::Silent);
        relays
    })
    .await;
}

#[tokio::test]
async fn a_dead_first_path_is_not_waited_for() {
    let (mut listener, relays) = relayed(1, Config::default()).await;
    // Nobody answers there (RFC 5737), and nobody says so.
    let dead = PathSpec::from(SocketAddr::from(([192, 0, 2, 1], 9)));
    let paths = [vec![dead], through(&relays)].concat();
    let mut client = soon(MctcpStream::connect(paths, "", given())).await.unwrap();
    soon(client.established()).await.unwrap();
    let mut server = accept(&mut listener).await;
    soon(client.write_all(b"over the other")).await.unwrap();
    soon(client.shutdown()).await.unwrap();
    let mut said = String::new();
    soon(server.read_to_string(&mut said)).await.unwrap();
    assert_eq!(said, "over the other");
}

#[tokio::test]
async fn refused_paths_are_told() {
    let (listener, _) = relayed(0, Config::default()).await;
    let paths = paths(&listener);
    drop(listener);
    let error = soon(MctcpStream::connect(paths, "", given())).await.unwrap_err();
    let Error::Connect(cause) = &error else { panic!("{error}") };
    assert_eq!(cause.kind(), std::io::ErrorKind::ConnectionRefused);
    let none = soon(MctcpStream::connect([], "", given())).await.unwrap_err();
    assert!(matches!(none, Error::NoPath));
}

#[tokio::test]
async fn a_dropped_stream_is_aborted_and_the_peer_told() {
    let (mut client, mut server, _listener) = pair(1, Config::default()).await;
    soon(client.write_all(b"half a sent")).await.unwrap();
    let mut said = [0; 11];
    soon(server.read_exact(&mut said)).await.unwrap();
    drop(client);
    let error = soon(server.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let cause = error.into_inner().unwrap().downcast::<Error>().unwrap();
    assert!(matches!(*cause, Error::Ended { reason: Reason::Aborted, by_peer: true }), "{cause}");
}

#[tokio::test]
async fn a_finished_stream_may_be_dropped() {
    let (mut client, mut server, _listener) = pair(2, Config::default()).await;
    let sender = tokio::spawn(async move { send(&mut client, 3_000_000).await });
    // The stream is gone before much of it is read.
    let sent = soon(sender).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(soon(receive(&mut server)).await, (3_000_000, sent));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ends_may_finish_at_once() {
    for _ in 0..50 {
        let (mut client, mut server, _listener) = pair(2, Config::default()).await;
        let (one, other) = tokio::join!(client.write_all(b"ping"), server.write_all(b"pong"));
        one.and(other).unwrap();
        let (one, other) = tokio::join!(client.shutdown(), server.shutdown());
        one.and(other).unwrap();
        let (mut heard, mut said) = (String::new(), String::new());
        let (one, other) = soon(async {
            tokio::join!(client.read_to_string(&mut heard), server.read_to_string(&mut said))
        })
        .await;
        assert_eq!((one.unwrap(), other.unwrap()), (4, 4));
        soon(async { tokio::join!(client.delivered(), server.delivered()) }).await.0.unwrap();
        assert_eq!((&*heard, &*said), ("pong", "ping"));
    }
}

/// Data that follow HELLO do not show that the client has the answer.
#[tokio::test]
async fn hello_is_repeated_after_its_answer_was_lost() {
    let (mut listener, relays) = relayed(2, Config::default()).await;
    set_all(&relays, Mood::OneWay);
    let mut client = soon(MctcpStream::connect(through(&relays), "", given())).await.unwrap();
    soon(client.write_all(b"ping")).await.unwrap();
    soon(client.shutdown()).await.unwrap();
    let mut server = accept(&mut listener).await;
    let mut said = String::new();
    soon(server.read_to_string(&mut said)).await.unwrap();
    assert_eq!(said, "ping");
    soon(server.write_all(b"pong")).await.unwrap();
    soon(server.shutdown()).await.unwrap();
    set_all(&relays, Mood::Broken);
    tokio::time::sleep(Duration::from_millis(5)).await;
    set_all(&relays, Mood::Passing);
    let mut heard = String::new();
    soon(client.read_to_string(&mut heard)).await.unwrap();
    assert_eq!(heard, "pong");
    soon(client.closed()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_break_while_a_session_ends_lose_nothing() {
    let (mut listener, relays) = relayed(2, Config::default()).await;
    for wait in 0..16 {
        let connect = MctcpStream::connect(through(&relays), "", given());
        let mut client = soon(connect).await.unwrap();
        soon(client.write_all(b"ping")).await.unwrap();
        let mut server = accept(&mut listener).await;
        soon(server.write_all(b"pong")).await.unwrap();
        soon(client.shutdown()).await.unwrap();
        soon(server.shutdown()).await.unwrap();
        tokio::time::sleep(Duration::from_micros(50 * wait)).await;
        set_all(&relays, Mood::Broken);
        tokio::time::sleep(Duration::from_millis(5)).await;
        set_all(&relays, Mood::Passing);
        let (mut heard, mut said) = (String::new(), String::new());
        soon(client.read_to_string(&mut heard)).await.unwrap();
        soon(server.read_to_string(&mut said)).await.unwrap();
        assert_eq!((&*heard, &*said), ("pong", "ping"));
        // That the server ends well too is for the virtual clock to show: here a relay's FIN may
        // overtake its reset, and a client takes that for the server's.
        soon(client.closed()).await.unwrap();
    }
}
