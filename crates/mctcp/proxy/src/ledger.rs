//! Connections and counters of a proxy or server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mctcp::session::Statistics;
use mctcp_live::{ListenerStatistics, Observer, SubflowInfo};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Mctcp,
    Plain,
}

impl Transport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mctcp => "mctcp",
            Self::Plain => "tcp",
        }
    }
}

/// Byte counters of one connection.
#[derive(Debug, Default)]
pub(crate) struct ByteCounters {
    /// Bytes towards the other end of the session.
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
}

/// Reads the state of a session.
pub(crate) type Inspect = Box<dyn Fn() -> (Statistics, Vec<SubflowInfo>) + Send + Sync>;

pub(crate) fn inspect(session: Observer) -> Inspect {
    Box::new(move || (session.stats(), session.subflows()))
}

pub(crate) struct OpenConnection {
    /// Kind of listener that accepted it.
    pub(crate) listener: &'static str,
    pub(crate) transport: Transport,
    pub(crate) client: String,
    pub(crate) target: String,
    pub(crate) since: Instant,
    pub(crate) bytes: Arc<ByteCounters>,
    pub(crate) session: Option<Inspect>,
}

impl OpenConnection {
    pub(crate) fn new(
        listener: &'static str,
        transport: Transport,
        client: String,
        target: String,
        session: Option<Inspect>,
    ) -> Self {
        let (since, bytes) = (Instant::now(), Arc::default());
        Self { listener, transport, client, target, since, bytes, session }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) sessions: AtomicU64,
    /// Connections over plain TCP, because the other end does not support MCTCP.
    pub(crate) fallbacks: AtomicU64,
    /// Rejected clients: not allowed, invalid request, or limit reached.
    pub(crate) refused: AtomicU64,
    /// Connections with an unreachable target.
    pub(crate) failed: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Totals of ended connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClosedTotals {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) reinjected: u64,
    pub(crate) subflows: u64,
}

/// All connections and counters. A connection is listed from [`Ledger::enter`] until its
/// entry is dropped.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) counters: Counters,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) closed: ClosedTotals,
    /// Counters of a server's listener.
    pub(crate) listener: Option<ListenerStatistics>,
    pub(crate) open: BTreeMap<u64, OpenConnection>,
    next: u64,
}

impl Ledger {
    /// Locks the state even after a panic elsewhere: its numbers can still be read.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(self: &Arc<Self>, connection: OpenConnection) -> Entry {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let bytes = Arc::clone(&connection.bytes);
        state.open.insert(number, connection);
        Entry { ledger: Arc::clone(self), number, bytes }
    }
}

/// A connection's entry in the ledger.
pub(crate) struct Entry {
    ledger: Arc<Ledger>,
    number: u64,
    pub(crate) bytes: Arc<ByteCounters>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self.ledger.lock();
        let Some(connection) = state.open.remove(&self.number) else { return };
        let closed = &mut state.closed;
        closed.sent += connection.bytes.sent.load(Ordering::Relaxed);
        closed.received += connection.bytes.received.load(Ordering::Relaxed);
        if let Some(session) = &connection.session {
            let (statistics, _) = session();
            closed.reinjected += statistics.reinjected;
            closed.subflows += statistics.subflows_opened;
        }
    }
}
