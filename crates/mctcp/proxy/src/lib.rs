//! MCTCP for unmodified programs: proxies and the server.
//!
//! ```text
//! program ── SOCKS5 · HTTP CONNECT · netfilter · a forwarded port ──> proxy ═══> server ──> target
//!            standard input and output ────────────────────────────> connect ══╝
//! ```
//!
//! The session's HELLO contains the target. The server's stream then starts with one byte, the
//! result of the connection to the target as a reply code of RFC 1928 §6. Without a target, the
//! server uses its default target and sends only the target's bytes. If the peer does not support
//! MCTCP, plain TCP to the target replaces the session, and is counted.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "internal to the command line")]

pub mod connect;
mod dial;
mod error;
mod fallback;
mod gate;
pub mod http_connect;
mod ledger;
mod outgoing;
mod paths;
pub mod policy;
pub mod proxy;
pub mod redirect;
mod relay;
pub mod serve;
pub mod socks;
pub mod status;
pub mod target;
pub mod tls;

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use base::Bytes;
use mctcp::settings::EARLY_CREDIT;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc};

use ledger::Ledger;
use status::Board;

pub use error::{Error, Result};
pub use ipnet::IpNet;
pub use outgoing::Peer;
pub use paths::PathOption;

/// Default port of servers: the RFC number of Multipath TCP.
pub const PORT: u16 = 8684;
/// Maximum number of queued events; further ones are dropped.
const MAX_QUEUED_EVENTS: usize = 1024;
/// Maximum time for the tasks of connections to end at the shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Requests a proxy or server to stop. Clones stop the same one.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Notify>);

impl Stop {
    /// Requests the stop, from any thread, before or after the start.
    pub fn ask(&self) {
        self.0.notify_one();
    }
}

/// Events of a proxy or server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It listens: kind of listener, and address.
    Ready(Vec<(&'static str, String)>),
    /// The netfilter rules are installed.
    Installed,
    /// A connection is established.
    Opened {
        client: String,
        target: String,
        /// `mctcp` or `tcp`.
        via: &'static str,
    },
    /// A connection continues over plain TCP.
    Fallback { target: String, why: String },
    /// A client was rejected.
    Refused {
        client: String,
        /// The requested target, if known.
        target: Option<String>,
        why: String,
    },
    /// A target could not be reached.
    Failed { client: String, target: String, why: String },
    /// A connection has ended.
    Closed {
        client: String,
        target: String,
        /// Bytes from the client.
        sent: u64,
        /// Bytes to the client.
        received: u64,
        /// Error that ended the connection, if any.
        why: Option<String>,
    },
}

/// State shared by all connections.
struct SharedState {
    ledger: Arc<Ledger>,
    events: mpsc::Sender<Event>,
}

impl SharedState {
    fn new(board: &Board) -> (Self, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(MAX_QUEUED_EVENTS);
        (Self { ledger: Arc::clone(board.ledger()), events }, receiver)
    }

    fn report(&self, event: Event) {
        // An event above the maximum of queued ones is dropped.
        let _ = self.events.try_send(event);
    }
}

/// Checks whether this host has a congestion control, and this process may use it.
///
/// # Errors
/// If it does not, or may not.
pub fn check_congestion(name: &str) -> Result<()> {
    let socket = sys::socket::tcp_socket(Ipv4Addr::LOCALHOST.into())?;
    let Err(error) = sys::socket::set_congestion(socket.as_fd(), name) else { return Ok(()) };
    let (loaded, allowed) = sys::socket::congestion_controls()?;
    let option = format!("--congestion {name}");
    if error.is_denied() {
        let help = format!("without CAP_NET_ADMIN use one of {}", allowed.join(", "));
        return Err(Error::option(option, "only privileged users may use it", help));
    }
    let help = format!("use one that the kernel has loaded: {}", loaded.join(", "));
    Err(Error::option(option, "the kernel does not have it", help))
}

/// Checks the size of a session's buffers.
///
/// # Errors
/// If they are smaller than the data that may follow HELLO.
pub fn check_buffer(size: Bytes) -> Result<()> {
    if size >= EARLY_CREDIT {
        return Ok(());
    }
    let help = format!("use at least {EARLY_CREDIT}");
    Err(Error::option(format!("--buffer {size}"), "the buffer is too small", help))
}

fn runtime() -> Result<Runtime> {
    let threads = sys::sched::cpus().clamp(1, 4);
    let mut builder = Builder::new_multi_thread();
    let built = builder.worker_threads(threads).thread_name("mctcp").enable_all().build();
    built.map_err(|cause| Error::file("start", "threads", cause))
}

/// Reports events until a stop is requested.
async fn report_until(
    stop: &Stop,
    mut events: mpsc::Receiver<Event>,
    report: &mut dyn FnMut(&Event),
) {
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => report(&event),
                None => return stop.0.notified().await,
            },
            () = stop.0.notified() => return,
        }
    }
}
