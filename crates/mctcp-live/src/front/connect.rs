//! One connection between standard input and output and a target, as netcat makes.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::dial::Dialer;
use super::ledger::{Carried, Counters, Inspect, Tally, Via};
use super::outgoing::{Early, Link, Outgoing, Peer};
use super::target::Target;
use super::{Desk, Error, Event, Result, Stop, Watch, runtime};

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
/// Longest wait for the server to hear that all has arrived, once all has.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What a connection is told.
#[derive(Clone, Debug)]
pub struct Connect {
    /// Where to.
    pub target: Target,
    /// The other end of the session.
    pub peer: Peer,
    /// How it is watched.
    pub watch: Watch,
}

/// How a connection went.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// `mctcp` or `tcp`.
    pub via: &'static str,
    /// Why it was not MCTCP.
    pub fallback: Option<String>,
    /// Bytes of the standard input.
    pub sent: u64,
    /// Bytes to the standard output.
    pub received: u64,
    /// Bytes that were sent again on another subflow.
    pub reinjected: u64,
    /// Subflows that carried data.
    pub subflows: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// Carries standard input to the target and what it says to standard output, until both have
/// ended. `None`: it was asked to stop before.
///
/// # Errors
/// If the target cannot be reached, or the connection breaks.
pub fn run(
    connect: &Connect,
    stop: &Stop,
    tell: &mut dyn FnMut(&Event),
) -> Result<Option<Summary>> {
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        tokio::select! {
            result = carry(connect, tell) => result.map(Some),
            () = stop.0.notified() => Ok(None),
        }
    });
    // Nobody can end a read of the standard input.
    runtime.shutdown_background();
    result
}

async fn carry(connect: &Connect, tell: &mut dyn FnMut(&Event)) -> Result<Summary> {
    let begun = Instant::now();
    let target = &connect.target;
    let outgoing = Outgoing::new(connect.peer.clone(), Dialer::default());
    let mut link = outgoing.open(target, &mut Early::new(Vec::new(), None)).await?;
    let (desk, _events) = Desk::new();
    let (via, fallback) = match &link {
        Link::Mctcp(_) => (Via::Mctcp, None),
        Link::Plain(plain) => (Via::Plain, Some(plain.why.clone())),
    };
    let counters = &desk.ledger.counters;
    Counters::add(if fallback.is_some() { &counters.fallbacks } else { &counters.sessions });
    if let Some(why) = &fallback {
        tell(&Event::Fallback { target: target.to_string(), why: why.clone() });
    }
    let observer = link.observer();
    let entry = desk.ledger.enter(Carried {
        front: "connect",
        via,
        client: "standard input".to_owned(),
        target: target.to_string(),
        since: begun,
        tally: Arc::default(),
        session: observer.clone().map(|it| Box::new(it) as Box<dyn Inspect>),
    });
    let monitor = desk.watch(&connect.watch, "connect", Vec::new()).await?;
    let failed = |cause| Error::socket("talk to", target, cause);
    let whole = tokio::select! {
        result = pump(&mut link, &entry.tally) => result.map_err(failed)?,
        () = monitor => false,
    };
    if let (Link::Mctcp(stream), true) = (&link, whole) {
        stream.delivered().await?;
        // Both directions have ended well, whatever becomes of this.
        let _ = tokio::time::timeout(LAST_WORD, stream.closed()).await;
    }
    let statistics = observer.map(|session| session.statistics()).unwrap_or_default();
    Ok(Summary {
        via: via.name(),
        fallback,
        sent: entry.tally.sent.load(Ordering::Relaxed),
        received: entry.tally.received.load(Ordering::Relaxed),
        reinjected: statistics.reinjected,
        subflows: statistics.subflows_opened,
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// Both directions, until both have ended, or nobody wants what comes. Whether both have.
async fn pump(link: &mut Link, tally: &Tally) -> std::io::Result<bool> {
    let (mut from, mut to) = tokio::io::split(link);
    let up = async {
        let mut input = tokio::io::stdin();
        copy(&mut input, &mut to, &tally.sent).await?;
        to.shutdown().await
    };
    let down = async {
        let mut output = tokio::io::stdout();
        copy(&mut from, &mut output, &tally.received).await
    };
    let both = async { tokio::try_join!(up, down) };
    let done = tokio::select! {
        done = both => done,
        () = left_alone() => return Ok(false),
    };
    match done {
        // Whoever reads the output has enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        other => other.map(|_| true),
    }
}

/// Waits until nobody reads the output any more, which a write would only tell once there is
/// something to write. Files are always read.
async fn left_alone() {
    let wait = || {
        let output = std::io::stdout();
        // Errors are told of without being asked for.
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
    let mut bytes = vec![0; PIECE];
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
