//! What a front has done and is doing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base::Span;
use mctcp::session::{Statistics, SubflowState};

use crate::{ListenerStatistics, Observer, SubflowInfo};

/// How a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// In a session of MCTCP.
    Mctcp,
    /// In plain TCP.
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

/// Bytes of a program's streams.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Towards the other end of the session.
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
}

/// One subflow as it is now.
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

/// Asked about a session for as long as it is there.
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

/// A connection that is being carried.
pub(crate) struct Carried {
    /// Which front it came through.
    pub(crate) front: &'static str,
    pub(crate) via: Via,
    pub(crate) client: String,
    pub(crate) target: String,
    pub(crate) since: Instant,
    pub(crate) tally: Arc<Tally>,
    pub(crate) session: Option<Box<dyn Inspect>>,
}

/// Numbers that only grow.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Sessions that were established.
    pub(crate) sessions: AtomicU64,
    /// Connections that went on in plain TCP, as the other end does not speak MCTCP.
    pub(crate) fallbacks: AtomicU64,
    /// Clients turned away: not allowed, not understood, too many.
    pub(crate) refused: AtomicU64,
    /// Connections whose target could not be reached.
    pub(crate) failed: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// What connections that are over have added up to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) reinjected: u64,
    pub(crate) subflows: u64,
}

/// All of it. Each connection is there from [`Ledger::enter`] until what that gives is dropped.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) counters: Counters,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) past: Past,
    /// What a server's listener has seen.
    pub(crate) listener: Option<ListenerStatistics>,
    pub(crate) carried: BTreeMap<u64, Carried>,
    next: u64,
}

impl Ledger {
    /// A panic elsewhere leaves numbers that can still be read.
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

/// A connection's place in the ledger.
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
