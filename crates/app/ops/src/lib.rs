//! Operations of long-running commands: status, health and metrics over HTTP, at a Unix socket and
//! a TCP address; and state messages to the service manager.
//!
//! | path | response |
//! |---|---|
//! | `/status` | the status as JSON |
//! | `/health` | 200 while the command is healthy, otherwise 503 |
//! | `/metrics` | metrics in the text format of `OpenMetrics`, which Prometheus reads |
#![forbid(unsafe_code)]
#![allow(missing_docs)]

mod error;
mod listen;
mod metrics;
pub mod service;
mod socket;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use base::Metric;
use serde_json::{Value, json};
use tokio::sync::oneshot;

pub use error::Error;
pub use listen::{MAX_REFUSED, Slots, listen};
pub use metrics::text;
use service::ServiceState;
use socket::Socket;
pub use socket::read_status;

/// A command with status, health and metrics.
pub trait Source: Send + Sync + 'static {
    fn prefix(&self) -> &'static str;
    /// The status: a JSON object with the field `schema`.
    fn status(&self) -> Value;
    fn metrics(&self) -> Vec<Metric>;
    fn is_healthy(&self) -> bool {
        true
    }
}

const MAX_CLIENTS: usize = 16;

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    /// The bound TCP address, with the port chosen by the kernel if none was given.
    pub address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves the Unix socket `socket` and the TCP address `address`. The socket of a dead
    /// process is replaced.
    ///
    /// # Errors
    /// If the socket or the address is in use or cannot be bound.
    pub fn start(
        source: Arc<dyn Source>,
        socket: Option<&Path>,
        address: Option<SocketAddr>,
    ) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let _entered = runtime.enter();
        let local = socket.map(Socket::bind).transpose()?;
        let network = address.map(listen::bind).transpose()?;
        let address = network.as_ref().map(tokio::net::TcpListener::local_addr).transpose()?;
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            let watched = Arc::clone(&source);
            let router = router(source);
            let slots = Arc::new(Slots::new(MAX_CLIENTS));
            let answer = async {
                let local = async {
                    match &local {
                        Some(local) => listen(&local.listener, router.clone(), &slots, || {}).await,
                        None => std::future::pending().await,
                    }
                };
                let network = async {
                    match &network {
                        Some(network) => listen(network, router.clone(), &slots, || {}).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = local => {}
                    () = network => {}
                    () = report_health(&*watched, service::watchdog_interval()) => {}
                    _ = stopped => {}
                }
            };
            runtime.block_on(answer);
            // Slow clients do not delay the end of the process.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("ops".to_owned()).spawn(work)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reports to the service manager at this interval while the command is healthy.
async fn report_health(source: &dyn Source, interval: Option<Duration>) {
    let Some(interval) = interval else { return std::future::pending().await };
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        if source.is_healthy() {
            // After a failure, the service manager restarts the command.
            let _ = service::report(ServiceState::Healthy);
        }
    }
}

/// The routes of this crate, for servers with additional routes.
pub fn router(source: Arc<dyn Source>) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .with_state(source)
}

async fn status(State(source): State<Arc<dyn Source>>) -> Response {
    Json(source.status()).into_response()
}

async fn health(State(source): State<Arc<dyn Source>>) -> Response {
    let is_healthy = source.is_healthy();
    let code = if is_healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(json!({"healthy": is_healthy}))).into_response()
}

async fn metrics(State(source): State<Arc<dyn Source>>) -> Response {
    let kind = [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)];
    (kind, text(source.prefix(), source.metrics())).into_response()
}
