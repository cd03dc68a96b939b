//! Streams without faults.

use super::*;

#[tokio::test]
async fn echoes_bytes() {
    let (mut client, mut server, _listener) = pair(1, Config::default()).await;
    assert_eq!(server.target(), "target");
    in_time(client.write_all(b"hello")).await.unwrap();
    let mut request = [0; 5];
    in_time(server.read_exact(&mut request)).await.unwrap();
    in_time(server.write_all(&request)).await.unwrap();
    let mut reply = [0; 5];
    in_time(client.read_exact(&mut reply)).await.unwrap();
    assert_eq!(&reply, b"hello");
    assert_eq!(client.subflows().len(), 1, "little data needs no second connection");
}

#[tokio::test]
async fn ends_directions_separately() {
    let (mut client, mut server, _listener) = pair(2, Config::default()).await;
    in_time(client.write_all(b"question")).await.unwrap();
    in_time(client.shutdown()).await.unwrap();
    let mut question = String::new();
    in_time(server.read_to_string(&mut question)).await.unwrap();
    assert_eq!(question, "question");
    in_time(client.delivered()).await.unwrap();
    assert!(client.write_all(b"more").await.is_err());
    in_time(server.write_all(b"answer")).await.unwrap();
    in_time(server.shutdown()).await.unwrap();
    let mut answer = String::new();
    in_time(client.read_to_string(&mut answer)).await.unwrap();
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
    let received = in_time(receive(&mut server)).await;
    let (sent, statistics) = in_time(sender).await.unwrap();
    assert_eq!(received, (LENGTH, sent));
    // On a busy host a subflow may become stale, and its path gets another one.
    assert!(statistics.subflows_opened >= u64::from(addresses));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_20_mb_over_one_subflow() {
    transfer(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_20_mb_over_four_subflows() {
    transfer(4).await;
}

#[tokio::test]
async fn adds_and_removes_paths() {
    let (mut client, mut server, listener) = pair(1, Config::default()).await;
    in_time(client.write_all(b"a")).await.unwrap();
    in_time(server.read_u8()).await.unwrap();
    let further = client.add_path(PathSpec::from(listener.addresses()[0]));
    client.join_now();
    let count = |stream: &MctcpStream| stream.subflows().len();
    in_time(async {
        while (count(&client), count(&server)) != (2, 2) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(client.subflows().iter().all(|one| one.remote == Some(listener.addresses()[0])));
    client.remove_path(further);
    in_time(async {
        while (count(&client), count(&server)) != (1, 1) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    in_time(client.write_all(b"b")).await.unwrap();
    assert_eq!(in_time(server.read_u8()).await.unwrap(), b'b');
}

#[tokio::test]
async fn adds_paths_to_advertised_addresses() {
    let listener_config = ListenerConfig::default();
    let mut listener = listener(3, listener_config);
    let first = listener.addresses()[..1].iter().map(|at| PathSpec::from(*at));
    let client = connect(first, Config::default()).await;
    client.join_now();
    let _server = accept(&mut listener).await;
    in_time(async {
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
async fn uses_sockets_of_the_dial_function() {
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
    let _client = connect([path], config).await;
    let server = accept(&mut listener).await;
    assert_eq!(server.subflows()[0].remote.unwrap().ip(), local);
    assert_eq!(made.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test]
async fn split_halves_transfer_in_separate_tasks() {
    let (client, server, _listener) = pair(2, Config::default()).await;
    let both_ways = |stream: MctcpStream| async move {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let sender = tokio::spawn(async move { (send(&mut writer, 3_000_000).await, writer) });
        let received = receive(&mut reader).await;
        (sender.await.unwrap().0, received)
    };
    let ends = tokio::spawn(both_ways(client));
    let (sent, received) = in_time(both_ways(server)).await;
    let (other_sent, other_received) = in_time(ends).await.unwrap();
    assert_eq!((received, other_received), ((3_000_000, other_sent), (3_000_000, sent)));
}
