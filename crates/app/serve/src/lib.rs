//! Live access to the collector: a WebSocket with the protocol of RIS Live, the same
//! events as an HTTP stream, routes and peers as JSON, metrics for Prometheus, and BMP
//! sessions to monitoring stations.
//!
//! | path | response |
//! |---|---|
//! | `/v1/ws/` | WebSocket with RIS Live's messages |
//! | `/v1/stream/` | the same as server-sent events, or as JSON Lines with `?format=json` |
//! | `/v1/peers`, `/v1/routes?prefix=…` | peers, routes |
//! | `/status`, `/health`, `/metrics` | as of all long-running commands ([`ops`]) |
//!
//! The server only reads what the collector publishes. A slow client loses events and is notified.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "not a public interface")]

mod hub;
mod metrics;
mod query;
mod ris_live;
mod stations;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use collector_live::Board;
use collector_live::feed::Watch;
use tokio::net::TcpListener;
use tokio::sync::watch;

use hub::{Hub, Shared};
pub use metrics::Watched;
pub use stations::{Delivery, Stations};

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("cannot listen at {address}: {cause}")]
    Listen { address: SocketAddr, cause: std::io::Error },
    #[error("cannot start to serve: {0}")]
    Start(#[from] std::io::Error),
}

#[derive(Debug)]
pub struct Server {
    /// Bound address, with the port that the kernel chose if none was given.
    pub address: SocketAddr,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    /// Serves events and status of the collector `host` at `address` to at most `max_clients`. Each
    /// client uses a file descriptor; a rejected client uses it briefly.
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
        let slots = Arc::new(ops::Slots::new(max_clients));
        let http = named("http").spawn(move || {
            let (mut stopped, hub) = (stopped, Arc::clone(&shared.hub));
            let refused = || {
                hub.refused.fetch_add(1, Ordering::Relaxed);
            };
            runtime.block_on(async {
                tokio::select! {
                    () = ops::listen(&listener, router(shared), &slots, refused) => {}
                    _ = stopped.changed() => {}
                }
                // A blocked client does not detect the end of its connection.
                let gone = slots.wait_until_free();
                let _ = tokio::time::timeout(END_TIMEOUT / 2, gone).await;
            });
        })?;
        Ok(Self { address, stop, threads: vec![render, http] })
    }
}

impl Drop for Server {
    /// Ends connections. The reader of the feed ends with the collector.
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        join(&mut self.threads);
    }
}

const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Joins threads that end within [`END_TIMEOUT`]. A thread blocked by a client or by the feed ends
/// with the process.
fn join(threads: &mut Vec<JoinHandle<()>>) {
    let until = Instant::now() + END_TIMEOUT;
    while threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    for thread in threads.drain(..).filter(JoinHandle::is_finished) {
        let _ = thread.join();
    }
}

fn router(shared: Shared) -> Router {
    let mut watched = Watched::new(&shared.hub.host, shared.board.clone());
    watched.hub = Some(Arc::clone(&shared.hub));
    Router::new()
        .route("/", get(query::index))
        .route("/v1/peers", get(query::peers))
        .route("/v1/routes", get(query::routes))
        .route("/v1/ws", get(ris_live::websocket))
        .route("/v1/ws/", get(ris_live::websocket))
        .route("/v1/stream", get(ris_live::stream))
        .route("/v1/stream/", get(ris_live::stream))
        .with_state(shared)
        .merge(ops::router(Arc::new(watched)))
}
