//! A path between a client and a server that can become silent or break.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How a relay treats received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Forwards all data.
    Passing,
    /// Forwards only the client's data.
    OneWay,
    /// Neither reads nor writes, and accepts no connection, like a cut cable.
    Silent,
    /// Reads and drops, and forwards nothing: the kernel acknowledges the lost data.
    Dropping,
    /// Resets its connections.
    Broken,
}

impl Mode {
    fn accepts(self) -> bool {
        self.passes(From::Client)
    }

    /// Whether data from this end are forwarded.
    fn passes(self, from: From) -> bool {
        self == Self::Passing || (self == Self::OneWay && from == From::Client)
    }
}

/// The sending end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Client,
    Server,
}

/// Forwards connections to one address.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    mode: watch::Sender<Mode>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, modes) = watch::channel(Mode::Passing);
        let task = tokio::spawn(accept(listener, server, modes));
        Self { address, mode, task }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, mut modes: watch::Receiver<Mode>) {
    loop {
        if modes.wait_for(|mode| mode.accepts()).await.is_err() {
            return;
        }
        let Ok((client, _)) = listener.accept().await else { return };
        if !modes.borrow().accepts() {
            continue;
        }
        let Ok(server) = TcpStream::connect(server).await else { continue };
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::spawn(pass(from_client, to_server, modes.clone(), From::Client));
        tokio::spawn(pass(from_server, to_client, modes.clone(), From::Server));
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut modes: watch::Receiver<Mode>,
    end: From,
) {
    let mut bytes = vec![0; 16 << 10];
    loop {
        let mode = *modes.borrow_and_update();
        match mode {
            _ if mode.passes(end) || mode == Mode::Dropping => {
                let count = tokio::select! {
                    changed = modes.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        continue;
                    }
                    count = from.read(&mut bytes) => count.unwrap_or(0),
                };
                if count == 0 {
                    return;
                }
                if mode != Mode::Dropping && to.write_all(&bytes[..count]).await.is_err() {
                    return;
                }
            }
            Mode::Broken => {
                let _ = to.as_ref().set_zero_linger();
                return;
            }
            _ => {
                if modes.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}
