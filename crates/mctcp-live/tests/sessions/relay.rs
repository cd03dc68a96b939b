//! A path between a client and a server that can go silent or break.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a relay does with what comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Passes it on.
    Passing,
    /// Passes on what the client sends, and nothing that the server sends.
    OneWay,
    /// Neither reads nor writes, and accepts nobody: a cable that is cut.
    Silent,
    /// Resets its connections.
    Broken,
}

impl Mood {
    fn accepts(self) -> bool {
        self.passes(From::Client)
    }

    /// Whether what comes from this end is passed on.
    fn passes(self, from: From) -> bool {
        self == Self::Passing || (self == Self::OneWay && from == From::Client)
    }
}

/// The end that bytes come from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Client,
    Server,
}

/// Passes connections on to one address.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    mood: watch::Sender<Mood>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mood, moods) = watch::channel(Mood::Passing);
        let task = tokio::spawn(accept(listener, server, moods));
        Self { address, mood, task }
    }

    pub(crate) fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, mut moods: watch::Receiver<Mood>) {
    loop {
        if moods.wait_for(|mood| mood.accepts()).await.is_err() {
            return;
        }
        let Ok((client, _)) = listener.accept().await else { return };
        if !moods.borrow().accepts() {
            continue;
        }
        let Ok(server) = TcpStream::connect(server).await else { continue };
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        tokio::spawn(pass(from_client, to_server, moods.clone(), From::Client));
        tokio::spawn(pass(from_server, to_client, moods.clone(), From::Server));
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut moods: watch::Receiver<Mood>,
    end: From,
) {
    let mut bytes = vec![0; 16 << 10];
    loop {
        let mood = *moods.borrow_and_update();
        match mood {
            _ if mood.passes(end) => {
                let count = tokio::select! {
                    changed = moods.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        continue;
                    }
                    count = from.read(&mut bytes) => count.unwrap_or(0),
                };
                if count == 0 || to.write_all(&bytes[..count]).await.is_err() {
                    return;
                }
            }
            Mood::Broken => {
                let _ = to.as_ref().set_zero_linger();
                return;
            }
            _ => {
                if moods.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}
