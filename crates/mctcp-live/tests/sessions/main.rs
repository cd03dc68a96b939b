//! Sessions between real sockets of the loopback device.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod failures;
mod relay;
mod strangers;
mod streams;

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use mctcp_live::{Accepted, Config, ListenerConfig, MctcpListener, MctcpStream, PathSpec};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Nothing here takes longer, unless it hangs.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it hangs")
}

/// A listener at so many addresses of the loopback device.
fn listener(addresses: u8, config: ListenerConfig) -> MctcpListener {
    let at: Vec<_> = (1..=addresses).map(|n| SocketAddr::from(([127, 0, 0, n], 0))).collect();
    MctcpListener::bind(&at, config).unwrap()
}

fn paths(listener: &MctcpListener) -> Vec<PathSpec> {
    listener.addresses().iter().map(|at| PathSpec::from(*at)).collect()
}

async fn accept(listener: &mut MctcpListener) -> MctcpStream {
    match soon(listener.accept()).await.unwrap() {
        Accepted::Session(stream) => stream,
        Accepted::Plain(plain) => panic!("not a session: {plain:?}"),
    }
}

/// Both ends of a session over so many paths.
async fn pair(addresses: u8, config: Config) -> (MctcpStream, MctcpStream, MctcpListener) {
    let session = Config { psk: config.psk.clone(), ..Config::default() };
    let mut listener = listener(addresses, ListenerConfig { session, ..Default::default() });
    let client = soon(MctcpStream::connect(paths(&listener), "target", config)).await.unwrap();
    let server = accept(&mut listener).await;
    (client, server, listener)
}

/// Writes `length` bytes that never repeat, finishes, and gives their hash.
async fn send(stream: &mut (impl AsyncWrite + Unpin), length: usize) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut piece = vec![0_u8; 100_000];
    let mut sent = 0;
    while sent < length {
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
    hash.finalize().into()
}

/// Reads to the end, and gives the length and hash of it all.
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
