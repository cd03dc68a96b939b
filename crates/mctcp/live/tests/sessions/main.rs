//! Sessions between real sockets of the loopback device.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod authentication;
mod failures;
mod relay;
mod streams;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use mctcp_live::{Accepted, Config, ListenerConfig, MctcpListener, MctcpStream, PathSpec};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Panics if the future takes more than 60 s.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("not finished after 60 s")
}

/// A listener at this many addresses of the loopback device.
fn listener(addresses: u8, config: ListenerConfig) -> MctcpListener {
    let at: Vec<_> = (1..=addresses).map(|n| SocketAddr::from(([127, 0, 0, n], 0))).collect();
    MctcpListener::bind(&at, config).unwrap()
}

fn paths(listener: &MctcpListener) -> Vec<PathSpec> {
    listener.addresses().iter().map(|at| PathSpec::from(*at)).collect()
}

async fn accept(listener: &mut MctcpListener) -> MctcpStream {
    match in_time(listener.accept()).await.unwrap() {
        Accepted::Session(stream) => stream,
        Accepted::Plain(plain) => panic!("not a session: {plain:?}"),
    }
}

async fn connect(paths: impl IntoIterator<Item = PathSpec>, config: Config) -> MctcpStream {
    in_time(MctcpStream::connect(paths, "", config)).await.unwrap()
}

/// Both ends of a session over this many paths.
async fn pair(addresses: u8, config: Config) -> (MctcpStream, MctcpStream, MctcpListener) {
    let session = Config { psk: config.psk.clone(), ..Config::default() };
    let mut listener = listener(addresses, ListenerConfig { session, ..Default::default() });
    let client = in_time(MctcpStream::connect(paths(&listener), "target", config)).await.unwrap();
    let server = accept(&mut listener).await;
    (client, server, listener)
}

/// Writes `length` bytes without repetition, ends the stream, and returns their hash.
async fn send(stream: &mut (impl AsyncWrite + Unpin), length: usize) -> [u8; 32] {
    send_until(stream, length, || true).await.1
}

/// Writes at least `min_length` bytes, and continues until `is_over`; returns length and hash.
async fn send_until(
    stream: &mut (impl AsyncWrite + Unpin),
    min_length: usize,
    is_over: impl Fn() -> bool,
) -> (usize, [u8; 32]) {
    let mut hash = Sha256::new();
    let mut piece = vec![0_u8; 100_000];
    let (mut sent, mut length) = (0, min_length);
    while sent < length || !is_over() {
        if sent == length {
            length += piece.len();
        }
        for (at, byte) in piece.iter_mut().enumerate() {
            let number = (sent + at) as u64;
            *byte = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
        }
        let here = piece.len().min(length - sent);
        hash.update(&piece[..here]);
        stream.write_all(&piece[..here]).await.unwrap();
        sent += here;
    }
    stream.shutdown().await.unwrap();
    (sent, hash.finalize().into())
}

/// Reads to the end; returns length and hash.
async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> (usize, [u8; 32]) {
    let mut hash = Sha256::new();
    let mut piece = vec![0_u8; 70_000];
    let mut length = 0;
    loop {
        let count = stream.read(&mut piece).await.unwrap();
        if count == 0 {
            return (length, hash.finalize().into());
        }
        hash.update(&piece[..count]);
        length += count;
    }
}
