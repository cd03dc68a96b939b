//! What applications do with a stream when nothing goes wrong.

use super::*;

#[tokio::test]
async fn what_is_said_comes_back() {
    let (mut client, mut server, _listener) = pair(1, Config::default()).await;
    assert_eq!(server.target(), "target");
    soon(client.write_all(b"hello")).await.unwrap();
    let mut said = [0; 5];
    soon(server.read_exact(&mut said)).await.unwrap();
    soon(server.write_all(&said)).await.unwrap();
    let mut heard = [0; 5];
    soon(client.read_exact(&mut heard)).await.unwrap();
    assert_eq!(&heard, b"hello");
    assert_eq!(client.subflows().len(), 1, "little data needs no second connection");
}

#[tokio::test]
async fn each_direction_ends_by_itself() {
    let (mut client, mut server, _listener) = pair(2, Config::default()).await;
    soon(client.write_all(b"question")).await.unwrap();
    soon(client.shutdown()).await.unwrap();
    let mut question = String::new();
    soon(server.read_to_string(&mut question)).await.unwrap();
    assert_eq!(question, "question");
    soon(client.delivered()).await.unwrap();
    assert!(client.write_all(b"more").await.is_err());
    soon(server.write_all(b"answer")).await.unwrap();
    soon(server.shutdown()).await.unwrap();
    let mut answer = String::new();
    soon(client.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(answer, "answer");
}

async fn transfer(addresses: u8) {
    const LENGTH: usize = 20_000_000;
    let (mut client, mut server, _listener) = pair(addresses, Config::default()).await;
    let sender = tokio::spawn(async move {
        let sent = send(&mut client, LENGTH).await;
        client.delivered().await.unwrap();
        (sent, client.stats())
    });
    let received = soon(receive(&mut server)).await;
    let (sent, statistics) = soon(sender).await.unwrap();
    assert_eq!(received, (LENGTH, sent));
    assert_eq!(statistics.subflows_opened, u64::from(addresses));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_transfers_arrive_whole_over_one_subflow() {
    transfer(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_transfers_arrive_whole_over_four_subflows() {
    transfer(4).await;
}

#[tokio::test]
async fn paths_come_and_go() {
    let (mut client, mut server, listener) = pair(1, Config::default()).await;
    soon(client.write_all(b"a")).await.unwrap();
    soon(server.read_u8()).await.unwrap();
    let further = client.add_path(PathSpec::from(listener.addresses()[0]));
    client.join_now();
    let count = |stream: &MctcpStream| stream.subflows().len();
    soon(async {
        while (count(&client), count(&server)) != (2, 2) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(client.subflows().iter().all(|one| one.remote == Some(listener.addresses()[0])));
    client.remove_path(further);
    soon(async {
        while (count(&client), count(&server)) != (1, 1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    soon(client.write_all(b"b")).await.unwrap();
    assert_eq!(soon(server.read_u8()).await.unwrap(), b'b');
}

#[tokio::test]
async fn addresses_that_the_server_tells_of_become_paths() {
    let listener_config = ListenerConfig::default();
    let mut listener = listener(3, listener_config);
    let first = listener.addresses()[..1].iter().map(|at| PathSpec::from(*at));
    let connect = MctcpStream::connect(first, "", Config::default());
    let client = soon(connect).await.unwrap();
    client.join_now();
    let _server = accept(&mut listener).await;
    soon(async {
        while client.subflows().iter().filter(|one| one.remote.is_some()).count() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let mut remotes: Vec<_> = client.subflows().iter().filter_map(|one| one.remote).collect();
    remotes.sort_unstable();
    let mut addresses = listener.addresses().to_vec();
    addresses.sort_unstable();
    assert_eq!(remotes, addresses);
}

#[tokio::test]
async fn sockets_may_be_made_by_somebody_else() {
    let mut listener = listener(1, ListenerConfig::default());
    let made = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&made);
    let dial: mctcp_live::Dial = std::sync::Arc::new(move |path: &PathSpec| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        sys::socket::tcp_socket(path.remote.ip()).map_err(std::io::Error::other)
    });
    let local = "127.0.0.77".parse().unwrap();
    let path = PathSpec { local: Some(local), ..PathSpec::from(listener.addresses()[0]) };
    let config = Config { dial: Some(dial), ..Config::default() };
    let _client = soon(MctcpStream::connect([path], "", config)).await.unwrap();
    let server = accept(&mut listener).await;
    assert_eq!(server.subflows()[0].remote.unwrap().ip(), local);
    assert_eq!(made.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test]
async fn halves_of_a_stream_go_their_own_ways() {
    let (client, server, _listener) = pair(2, Config::default()).await;
    let both_ways = |stream: MctcpStream| async move {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let sender = tokio::spawn(async move { (send(&mut writer, 3_000_000).await, writer) });
        let received = receive(&mut reader).await;
        (sender.await.unwrap().0, received)
    };
    let ends = tokio::spawn(both_ways(client));
    let (sent, received) = soon(both_ways(server)).await;
    let (other_sent, other_received) = soon(ends).await.unwrap();
    assert_eq!((received, other_received), ((3_000_000, other_sent), (3_000_000, sent)));
}
