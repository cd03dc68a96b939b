//! The live view: serves the page of `web/` on loopback, and the messages of [`run::live`] over a
//! WebSocket; and the metrics of a running lab.
//!
//! | path | response |
//! |---|---|
//! | `/?token=…` | once: a cookie, and a redirect to `/` |
//! | `/`, files | the page, with the cookie |
//! | `/ws` | WebSocket: messages of [`run::live`], requests of the page |
//! | `/terminal` | WebSocket: a shell on a host of a lab on the wall clock |
//!
//! A watcher of a running lab is a watcher of the lab's registry socket ([`emu::control`]), which
//! drops frames for slow readers. After the end of the lab, and for a finished run, frames come
//! from the run folder. A run on the virtual clock has a separate socket: [`Simulation`].
//!
//! `access`, `socket` and `terminal` use `Shared`, the state of the server that starts them.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "not a public interface")]

mod access;
mod assets;
mod metrics;
mod simulation;
mod socket;
mod terminal;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use emu::control::WatchedRun;
use run::live::FinishedRun;
use tokio::sync::{OnceCell, Semaphore, watch};

use access::Access;
pub use metrics::{Follower, LabMetrics, MAX_ELEMENTS};
pub use simulation::Simulation;
pub use terminal::MAX_TERMINALS;

/// Maximum number of watchers.
pub use emu::control::MAX_WATCHERS;

/// Maximum number of connections: watchers, terminals, and requests for files.
const MAX_CONNECTIONS: usize = 2 * MAX_WATCHERS + MAX_TERMINALS;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{0} is not a loopback address; the live view is for users of this machine only")]
    NotLoopback(SocketAddr),
    #[error("cannot listen at {address}: {cause}")]
    Listen { address: SocketAddr, cause: io::Error },
    #[error("cannot start to serve: {0}")]
    Start(#[from] io::Error),
}

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Server {
    /// The bound address, with the port chosen by the kernel if none was given.
    pub address: SocketAddr,
    /// The URL for a browser, which can be used once.
    pub url: String,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) run: WatchedRun,
    pub(crate) access: Access,
    pub(crate) watchers: Arc<Semaphore>,
    pub(crate) terminals: Arc<Semaphore>,
    /// The frames of the run, once it has ended and a watcher needs them.
    pub(crate) finished: OnceCell<Arc<FinishedRun>>,
    pub(crate) stop: watch::Receiver<bool>,
}

impl Server {
    /// Serves a run at a loopback address.
    ///
    /// # Errors
    /// If it is not a loopback address, or cannot be bound.
    pub fn start(address: SocketAddr, run: WatchedRun) -> Result<Self, Error> {
        if !address.ip().is_loopback() {
            return Err(Error::NotLoopback(address));
        }
        let failed = |cause| Error::Listen { address, cause };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (access, token) = Access::new(address)?;
        let (stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared {
            run,
            access,
            watchers: Arc::new(Semaphore::new(MAX_WATCHERS)),
            terminals: Arc::new(Semaphore::new(MAX_TERMINALS)),
            finished: OnceCell::new(),
            stop: stopped.clone(),
        });
        let serve = move || {
            let mut stopped = stopped;
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
                let slots = Arc::new(ops::Slots::new(MAX_CONNECTIONS));
                tokio::select! {
                    () = ops::listen(&listener, router(shared), &slots, || {}) => {}
                    _ = stopped.changed() => {}
                }
            });
            // Slow clients do not delay the end of the process.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(serve)?;
        let url = format!("http://{address}/?token={token}");
        Ok(Self { address, url, stop, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/ws", get(socket::upgrade))
        .route("/terminal", get(terminal::upgrade))
        .fallback(assets::serve)
        .layer(from_fn_with_state(Arc::clone(&shared), access::check))
        .with_state(shared)
}
