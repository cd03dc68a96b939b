//! Fronts: MCTCP for programs that know nothing of it.
//!
//! ```text
//! program ── SOCKS5 · HTTP CONNECT · netfilter · a forwarded port ──> proxy ═══> server ──> target
//!            standard input and output ────────────────────────────> connect ══╝
//! ```
//!
//! A session's HELLO names the target. Then the server's stream begins with one byte, which says
//! how the connection to the target went, in the numbers of RFC 1928 §6; without a target, the
//! server has one of its own and sends nothing but its bytes. Where the other end does not speak
//! MCTCP, plain TCP to the target takes the session's place, and is counted.

pub mod connect;
mod dial;
mod error;
mod fallback;
mod gate;
pub mod http_connect;
mod ledger;
mod monitor;
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

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::Bytes;
use mctcp::settings::EARLY_CREDIT;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc};

use ledger::Ledger;
use monitor::Named;
use status::Board;

pub use error::{Error, Result};
pub use ipnet::IpNet;
pub use outgoing::Peer;
pub use paths::PathOption;

/// Port of servers, unless told otherwise: the number of the document that MPTCP is in.
pub const PORT: u16 = 8684;
/// Events that wait to be told; when there are more, the newest are left out.
const EVENTS: usize = 1024;
/// Connections in progress have this long to notice that it is over.
const GRACE: Duration = Duration::from_millis(500);

/// Asks a front to end. Clones ask the same one.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Notify>);

impl Stop {
    /// From whatever thread, before or after the front has begun.
    pub fn ask(&self) {
        self.0.notify_one();
    }
}

/// How a front is watched.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Socket of the file system that tells the status.
    pub status: Option<PathBuf>,
    /// Where metrics are served over HTTP.
    pub metrics: Option<SocketAddr>,
}

/// What a front tells while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It accepts connections: the front's name, and where.
    Ready(Vec<(&'static str, String)>),
    /// There is no status socket, and why.
    Unwatched(String),
    /// Netfilter's rules are in force.
    Installed,
    /// A connection is carried.
    Opened {
        /// The client.
        client: String,
        /// The target.
        target: String,
        /// `mctcp` or `tcp`.
        via: &'static str,
    },
    /// A connection goes on in plain TCP.
    Fallback {
        /// The target.
        target: String,
        /// What the other end did.
        why: String,
    },
    /// A client was turned away.
    Refused {
        /// The client.
        client: String,
        /// What it wanted, as far as it said.
        target: Option<String>,
        /// Why not.
        why: String,
    },
    /// A target could not be reached.
    Failed {
        /// The client.
        client: String,
        /// The target.
        target: String,
        /// What happened.
        why: String,
    },
    /// A connection has ended.
    Closed {
        /// The client.
        client: String,
        /// The target.
        target: String,
        /// Bytes from the client.
        sent: u64,
        /// Bytes to the client.
        received: u64,
        /// What broke it, if anything did.
        why: Option<String>,
    },
}

/// What all connections of a front share.
struct Desk {
    ledger: Arc<Ledger>,
    events: mpsc::Sender<Event>,
}

impl Desk {
    fn new() -> (Self, mpsc::Receiver<Event>) {
        let (events, receiver) = mpsc::channel(EVENTS);
        (Self { ledger: Arc::default(), events }, receiver)
    }

    fn tell(&self, event: Event) {
        // A full queue means that nobody listens fast enough.
        let _ = self.events.try_send(event);
    }

    /// Begins to answer those who ask how the front does.
    async fn watch(
        &self,
        watch: &Watch,
        role: &'static str,
        listens: Vec<(&'static str, String)>,
    ) -> Result<impl Future<Output = ()> + use<>> {
        let named = match &watch.status {
            Some(path) => Some(Named::bind(path)?),
            None => match status::default_path().map(|path| Named::bind(&path)) {
                Some(Ok(named)) => Some(named),
                // Nobody asked for it, and it is not needed.
                Some(Err(error)) => {
                    self.tell(Event::Unwatched(error.to_string()));
                    None
                }
                None => None,
            },
        };
        let http = match watch.metrics {
            Some(address) => Some(listen(address).await?),
            None => None,
        };
        let board = Board::new(role, listens, Arc::clone(&self.ledger));
        Ok(monitor::serve(named, http, Arc::new(Mutex::new(board))))
    }
}

/// Whether this machine has a congestion control, and lets us use it.
///
/// # Errors
/// If not.
pub fn check_congestion(name: &str) -> Result<()> {
    let socket = sys::socket::tcp_socket(Ipv4Addr::LOCALHOST.into())?;
    let Err(error) = sys::socket::set_congestion(socket.as_fd(), name) else { return Ok(()) };
    let (loaded, allowed) = sys::socket::congestion_controls()?;
    let option = format!("--congestion {name}");
    if error.is_denied() {
        let help = format!("without privileges there are {}", allowed.join(", "));
        return Err(Error::option(option, "it is not for everybody", help));
    }
    let help = format!("the kernel has loaded {}", loaded.join(", "));
    Err(Error::option(option, "this machine does not have it", help))
}

/// Whether a session can do with buffers of this size.
///
/// # Errors
/// If they are smaller than what may follow HELLO.
pub fn check_buffer(size: Bytes) -> Result<()> {
    if size >= EARLY_CREDIT {
        return Ok(());
    }
    let help = format!("a session needs {EARLY_CREDIT} at least");
    Err(Error::option(format!("--buffer {size}"), "it is too small", help))
}

async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|cause| Error::socket("listen at", address, cause))
}

fn runtime() -> Result<Runtime> {
    let threads = sys::sched::cpus().clamp(1, 4);
    let mut builder = Builder::new_multi_thread();
    let built = builder.worker_threads(threads).thread_name("mctcp").enable_all().build();
    built.map_err(|cause| Error::file("start", "threads", cause))
}

/// Tells events until somebody asks to stop.
async fn tell_until(stop: &Stop, mut events: mpsc::Receiver<Event>, tell: &mut dyn FnMut(&Event)) {
    loop {
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => tell(&event),
                None => return stop.0.notified().await,
            },
            () = stop.0.notified() => return,
        }
    }
}
