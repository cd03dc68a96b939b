//! A connection between standard input and output and a target, like netcat.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::dial::Dialer;
use super::ledger::{ByteCounters, Counters, OpenConnection, Transport, inspect};
use super::outgoing::{EarlyData, Link, Outgoing, Peer};
use super::status::Board;
use super::target::Target;
use super::{Error, Event, Result, SharedState, Stop, runtime};

/// Maximum number of bytes per read.
const READ_BYTES: usize = 64 << 10;
/// Maximum wait for the server's end of the session after all data were delivered.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct Connect {
    pub target: Target,
    /// The other end of the session.
    pub peer: Peer,
    pub board: Board,
}

/// Result of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// `mctcp` or `tcp`.
    pub via: &'static str,
    /// Reason for the use of plain TCP.
    pub fallback: Option<String>,
    /// Bytes read from standard input.
    pub sent: u64,
    /// Bytes written to standard output.
    pub received: u64,
    /// Bytes retransmitted on another subflow.
    pub reinjected: u64,
    pub subflows: u64,
    pub seconds: f64,
}

/// Copies standard input to the target, and its answers to standard output, until both have ended.
/// `None`: it was stopped before.
///
/// # Errors
/// If the target cannot be reached, or the connection breaks.
pub fn run(
    connect: &Connect,
    stop: &Stop,
    report: &mut dyn FnMut(&Event),
) -> Result<Option<Summary>> {
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        tokio::select! {
            result = self::connect(connect, report) => result.map(Some),
            () = stop.0.notified() => Ok(None),
        }
    });
    // A read of the standard input cannot be cancelled.
    runtime.shutdown_background();
    result
}

async fn connect(connect: &Connect, report: &mut dyn FnMut(&Event)) -> Result<Summary> {
    let started = Instant::now();
    let target = &connect.target;
    let outgoing = Outgoing::new(connect.peer.clone(), Dialer::default());
    let mut link = outgoing.open(target, &mut EarlyData::new(Vec::new(), None)).await?;
    let (shared, _events) = SharedState::new(&connect.board);
    connect.board.begin("connect", Vec::new());
    let (transport, fallback) = match &link {
        Link::Mctcp(_) => (Transport::Mctcp, None),
        Link::Plain(plain) => (Transport::Plain, Some(plain.why.clone())),
    };
    let counters = &shared.ledger.counters;
    Counters::add(if fallback.is_some() { &counters.fallbacks } else { &counters.sessions });
    if let Some(why) = &fallback {
        report(&Event::Fallback { target: target.to_string(), why: why.clone() });
    }
    let observer = link.observer();
    let session = observer.clone().map(inspect);
    let (client, name) = ("standard input".to_owned(), target.to_string());
    let connection = OpenConnection::new("connect", transport, client, name, session);
    let entry = shared.ledger.enter(connection);
    let failed = |cause| Error::socket("communicate with", target, cause);
    match &mut link {
        Link::Plain(plain) => {
            pump(&mut plain.stream, &entry.bytes).await.map_err(failed)?;
        }
        Link::Mctcp(stream) => {
            if pump(stream, &entry.bytes).await.map_err(failed)? {
                stream.delivered().await?;
                // Both directions have ended without error, so a timeout is not an error.
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, stream.closed()).await;
            }
        }
    }
    let statistics = observer.map(|session| session.stats()).unwrap_or_default();
    Ok(Summary {
        via: transport.name(),
        fallback,
        sent: entry.bytes.sent.load(Ordering::Relaxed),
        received: entry.bytes.received.load(Ordering::Relaxed),
        reinjected: statistics.reinjected,
        subflows: statistics.subflows_opened,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Copies both directions until both have ended or the output is closed. Returns whether
/// both have ended.
async fn pump(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    bytes: &ByteCounters,
) -> std::io::Result<bool> {
    let (mut from, mut to) = tokio::io::split(stream);
    let up = async {
        let mut input = tokio::io::stdin();
        copy(&mut input, &mut to, &bytes.sent).await?;
        to.shutdown().await
    };
    let down = async {
        let mut output = tokio::io::stdout();
        copy(&mut from, &mut output, &bytes.received).await
    };
    let both = async { tokio::try_join!(up, down) };
    let done = tokio::select! {
        done = both => done,
        () = output_closed() => return Ok(false),
    };
    match done {
        // The reader has closed the output.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|_| true),
    }
}

/// Waits until the output is closed: without this, only the next write would detect it. A file is
/// never closed by its reader.
async fn output_closed() {
    let wait = || {
        let output = std::io::stdout();
        // `poll` always reports errors, without requested events.
        let mut watched = [PollFd::new(&output, PollFlags::empty())];
        while poll(&mut watched, None) == Err(Errno::INTR) {}
        watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    };
    if !tokio::task::spawn_blocking(wait).await.unwrap_or(false) {
        std::future::pending::<()>().await;
    }
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    count: &std::sync::atomic::AtomicU64,
) -> std::io::Result<()> {
    let mut bytes = vec![0; READ_BYTES];
    loop {
        let length = from.read(&mut bytes).await?;
        if length == 0 {
            return Ok(());
        }
        to.write_all(&bytes[..length]).await?;
        to.flush().await?;
        count.fetch_add(length as u64, Ordering::Relaxed);
    }
}
