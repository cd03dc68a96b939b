//! Connections and counters of a proxy or server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base::Span;
use mctcp::session::{Statistics, SubflowState};

use mctcp_live::{ListenerStatistics, Observer, SubflowInfo};

/// Transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    Mctcp,
    Plain,
}

impl Via {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mctcp => "mctcp",
            Self::Plain => "tcp",
        }
    }
}

/// Byte counters of one connection.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Bytes towards the other end of the session.
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
}

/// Current state of one subflow.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SubflowRow {
    pub(crate) id: u32,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
    pub(crate) state: SubflowState,
    pub(crate) backup: bool,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) reinjected: u64,
    pub(crate) retransmits: u64,
    pub(crate) srtt_s: Option<f64>,
    pub(crate) cwnd: u64,
}

/// Access to the state of a session while it exists.
pub(crate) trait Inspect: Send + Sync {
    fn statistics(&self) -> Statistics;
    fn subflows(&self) -> Vec<SubflowRow>;
}

impl Inspect for Observer {
    fn statistics(&self) -> Statistics {
        self.stats()
    }

    fn subflows(&self) -> Vec<SubflowRow> {
        let row = |subflow: SubflowInfo| {
            let status = subflow.status;
            SubflowRow {
                id: status.id.0,
                local: subflow.local,
                remote: subflow.remote,
                state: status.state,
                backup: status.priority.backup,
                sent: status.sent.count(),
                received: status.received.count(),
                reinjected: status.reinjected.count(),
                retransmits: status.info.retransmits,
                srtt_s: status.info.srtt.map(Span::as_secs_f64),
                cwnd: status.info.cwnd.count(),
            }
        };
        Self::subflows(self).into_iter().map(row).collect()
    }
}

/// A current connection.
pub(crate) struct Carried {
    /// Kind of listener that accepted it.
    pub(crate) front: &'static str,
    pub(crate) via: Via,
    pub(crate) client: String,
    pub(crate) target: String,
    pub(crate) since: Instant,
    pub(crate) tally: Arc<Tally>,
    pub(crate) session: Option<Box<dyn Inspect>>,
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
pub(crate) struct Past {
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
    pub(crate) past: Past,
    /// Counters of a server's listener.
    pub(crate) listener: Option<ListenerStatistics>,
    pub(crate) carried: BTreeMap<u64, Carried>,
    next: u64,
}

impl Ledger {
    /// Locks the state even after a panic elsewhere: its numbers can still be read.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(self: &Arc<Self>, carried: Carried) -> Entry {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let tally = Arc::clone(&carried.tally);
        state.carried.insert(number, carried);
        Entry { ledger: Arc::clone(self), number, tally }
    }
}

/// A connection's entry in the ledger.
pub(crate) struct Entry {
    ledger: Arc<Ledger>,
    number: u64,
    pub(crate) tally: Arc<Tally>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self.ledger.lock();
        let Some(carried) = state.carried.remove(&self.number) else { return };
        let past = &mut state.past;
        past.sent += carried.tally.sent.load(Ordering::Relaxed);
        past.received += carried.tally.received.load(Ordering::Relaxed);
        if let Some(session) = &carried.session {
            let statistics = session.statistics();
            past.reinjected += statistics.reinjected;
            past.subflows += statistics.subflows_opened;
        }
    }
}
