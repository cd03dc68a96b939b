//! What is collected, live, for whoever asks: a WebSocket that RIS Live's clients understand, the
//! same as a stream over HTTP, routes and peers as JSON, metrics for Prometheus, and BMP sessions
//! to monitoring stations.
//!
//! | path | what |
//! |---|---|
//! | `/v1/ws/` | WebSocket with RIS Live's messages |
//! | `/v1/stream/` | the same as server-sent events, or as JSON Lines with `?format=json` |
//! | `/v1/peers`, `/v1/routes?prefix=…` | peerings, routes |
//! | `/metrics` | Prometheus' text format |
//!
//! Everything here reads what the collector put up; a slow reader loses events, and is told.
#![forbid(unsafe_code)]

mod hub;
mod listen;
mod metrics;
mod query;
mod stations;
mod stream;
#[cfg(test)]
mod tests;
mod websocket;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use collector::MirrorId;
use collector::text::ris_live::host_of;
use collector_live::Board;
use collector_live::feed::Watch;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use hub::Hub;
pub use stations::Stations;

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened at.
    #[error("cannot listen at {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        cause: std::io::Error,
    },
    /// A thread or the runtime cannot be started.
    #[error("cannot start to serve: {0}")]
    Start(#[from] std::io::Error),
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    /// Where it listens: with the port that the kernel chose if none was asked for.
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

/// What all requests see.
#[derive(Clone, Debug)]
struct Shared {
    hub: Arc<Hub>,
    board: Board,
    /// Set when the server ends: connections that have no end of their own then end too.
    stop: watch::Receiver<bool>,
}

impl Shared {
    /// The hosts that messages can have: the collector, and each mirror after the first that has
    /// a session.
    fn hosts(&self) -> Vec<String> {
        let status = self.board.status();
        let mirrors = status.peerings.iter().map(|(peering, ..)| peering.mirror);
        let others: BTreeSet<MirrorId> = mirrors.filter(|mirror| mirror.0 > 1).collect();
        let all = std::iter::once(MirrorId::NONE).chain(others);
        all.map(|mirror| host_of(&self.hub.host, mirror)).collect()
    }
}

impl Server {
    /// Serves events and status of the collector called `host` at `address`, to at most
    /// `max_clients` at a time. Each takes a file descriptor, and a refused one for a moment too.
    pub fn start(
        address: SocketAddr,
        host: &str,
        events: Watch,
        board: Board,
        max_clients: usize,
    ) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime
            .block_on(TcpListener::bind(address))
            .map_err(|cause| Error::Listen { address, cause })?;
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let hub = Arc::new(Hub::new(host, Arc::clone(&events.lost)));
        let shared = Shared { hub: Arc::clone(&hub), board, stop: stopped.clone() };
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let render = named("feed").spawn(move || hub.run(&events.batches))?;
        let slots = Arc::new(Semaphore::new(max_clients));
        let http = named("http").spawn(move || {
            let (mut stopped, hub) = (stopped, Arc::clone(&shared.hub));
            runtime.block_on(async {
                tokio::select! {
                    () = listen::listen(listener, router(shared), Arc::clone(&slots), hub) => {}
                    _ = stopped.changed() => {}
                }
                // A client that reads nothing does not see its connection end.
                let gone = slots.acquire_many(max_clients as u32);
                let _ = tokio::time::timeout(GRACE / 2, gone).await;
            });
        })?;
        Ok(Self { address, stop, threads: vec![render, http] })
    }
}

impl Drop for Server {
    /// Ends connections. The reader of the feed ends with the collector's end of it.
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        join(&mut self.threads);
    }
}

/// How long those who are connected may take to see the end.
const GRACE: Duration = Duration::from_secs(2);

/// Waits for threads to end. One that cannot, since somebody takes nothing of what it sends or
/// the feed that it reads goes on, keeps nobody: it ends with that or with the process.
fn join(threads: &mut Vec<JoinHandle<()>>) {
    let until = Instant::now() + GRACE;
    while threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    for thread in threads.drain(..).filter(JoinHandle::is_finished) {
        let _ = thread.join();
    }
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/", get(query::index))
        .route("/metrics", get(metrics::metrics))
        .route("/v1/peers", get(query::peers))
        .route("/v1/routes", get(query::routes))
        .route("/v1/ws", get(websocket::upgrade))
        .route("/v1/ws/", get(websocket::upgrade))
        .route("/v1/stream", get(stream::stream))
        .route("/v1/stream/", get(stream::stream))
        .with_state(shared)
}
