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
