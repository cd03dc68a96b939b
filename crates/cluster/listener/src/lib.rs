//! The TLS listener of the cluster's bus.
//!
//! It replaces the crate of this name below Zenoh's TLS links, and has the part of its interface
//! that Zenoh uses. Zenoh sleeps 100 ms after each error of its listener, and the replaced crate
//! reports each failed handshake as an error. It also stops all handshakes while the process has no
//! file descriptor for another connection. This listener:
//!
//! - runs each handshake in a task, so that none waits for another one;
//! - never returns an error: it closes connections whose handshake fails or takes too long;
//! - limits the connections that have sent nothing, and those in a handshake, in total and per
//!   source: a new connection replaces the oldest. A silent connection never replaces one in a
//!   handshake.
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use quota::Places;
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Max number of silent connections, and of connections in a handshake. One source gets half.
const MAX_CONNECTIONS: usize = 256;
/// Pause after the system has refused to accept a connection, if there is none to close for it.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// Options of a listener.
#[derive(Clone)]
pub struct Builder {
    tls: TlsAcceptor,
    timeout: Duration,
}

/// Options of a listener whose connections are those of `tls`.
pub fn builder(tls: TlsAcceptor) -> Builder {
    Builder { tls, timeout: Duration::from_secs(10) }
}

impl Builder {
    /// Sets the time from the connection to the end of its handshake; the default is 10 s.
    #[must_use]
    pub fn handshake_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Accepts the connections of `listener`.
    pub fn listen(self, listener: TcpListener) -> TlsListener {
        let max = max_connections();
        TlsListener {
            listener,
            options: self,
            silent: Places::new(max, max / 2),
            handshakes: Places::new(max, max / 2),
            tasks: JoinSet::new(),
            next: 0,
        }
    }
}

/// At least half of the process's descriptors remain for other uses.
fn max_connections() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit / 4).unwrap_or(MAX_CONNECTIONS).clamp(2, MAX_CONNECTIONS)
}

/// A listener. When it is dropped, it closes all connections that it has not returned.
pub struct TlsListener {
    listener: TcpListener,
    options: Builder,
    silent: Places<AbortHandle>,
    handshakes: Places<AbortHandle>,
    tasks: JoinSet<Step>,
    /// Number of the next connection.
    next: u64,
}

/// The result of a connection's task.
struct Step {
    connection: Connection,
    result: Option<Progress>,
}

#[derive(Clone, Copy)]
struct Connection {
    number: u64,
    from: SocketAddr,
    deadline: Instant,
}

enum Progress {
    /// The first byte has arrived.
    Started(TcpStream),
    /// The handshake is complete.
    Secured(Box<TlsStream<TcpStream>>),
}

impl TlsListener {
    /// The next connection with a complete handshake. The future may be dropped at any time.
    ///
    /// # Errors
    /// Never: failed handshakes are closed, not returned.
    pub async fn accept(&mut self) -> Result<(TlsStream<TcpStream>, SocketAddr), Infallible> {
        loop {
            tokio::select! {
                // Connections that are no longer silent must not be replaced as silent ones.
                biased;
                Some(ended) = self.tasks.join_next() => {
                    let step = ended.ok();
                    if let Some(connection) = step.and_then(|step| self.proceed(step)) {
                        return Ok(connection);
                    }
                }
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, from)) => {
                        self.admit(stream, from);
                        // Lets the runtime deliver the first bytes of earlier connections.
                        tokio::task::yield_now().await;
                    }
                    Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                    Err(_) => self.free_descriptor().await,
                }
            }
        }
    }

    /// Closes a connection after the system has refused to accept another one.
    async fn free_descriptor(&mut self) {
        let oldest = self.silent.remove_oldest().or_else(|| self.handshakes.remove_oldest());
        if oldest.is_none() {
            sleep(RETRY_INTERVAL).await;
        }
        abort(oldest);
        tokio::task::yield_now().await;
    }

    /// Waits for the first byte of a connection.
    fn admit(&mut self, stream: TcpStream, from: SocketAddr) {
        let connection =
            Connection { number: self.next, from, deadline: Instant::now() + self.options.timeout };
        self.next += 1;
        let task = self.tasks.spawn(async move {
            let first = timeout_at(connection.deadline, stream.peek(&mut [0])).await;
            let has_started = matches!(first, Ok(Ok(1..)));
            Step { connection, result: has_started.then_some(Progress::Started(stream)) }
        });
        abort(self.silent.insert(from.ip(), connection.number, task));
    }

    /// Continues with a connection whose task has ended; returns it when its handshake is complete.
    fn proceed(&mut self, step: Step) -> Option<(TlsStream<TcpStream>, SocketAddr)> {
        let Step { connection, result } = step;
        let was_silent = self.silent.remove(connection.number).is_some();
        let was_in_handshake = self.handshakes.remove(connection.number).is_some();
        match result? {
            Progress::Started(stream) if was_silent => {
                let handshake = self.options.tls.accept(stream);
                let task = self.tasks.spawn(async move {
                    let secured = timeout_at(connection.deadline, handshake).await;
                    let secured = secured.ok().and_then(Result::ok).map(Box::new);
                    let result = secured.map(Progress::Secured);
                    Step { connection, result }
                });
                let source = connection.from.ip();
                abort(self.handshakes.insert(source, connection.number, task));
                None
            }
            Progress::Secured(stream) if was_in_handshake => Some((*stream, connection.from)),
            // It was replaced while its task ended.
            Progress::Started(_) | Progress::Secured(_) => None,
        }
    }
}

fn abort(task: Option<AbortHandle>) {
    if let Some(task) = task {
        task.abort();
    }
}
