//! Limits the accepted clients of a proxy that are not served yet.
//!
//! A client takes a place when it is accepted. It must send its request, then waits for a slot, and
//! releases its place when it gets one. Idle clients cannot block others: when few places are free,
//! a new client replaces one that has sent no request for [`MIN_REQUEST_TIMEOUT`]. Without such a
//! client, the proxy accepts no further connections until a place is free, and they wait in the
//! listener's backlog.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quota::{Admission, Quota};
use tokio::sync::Notify;

use mctcp_live::descriptors::{CHECK_INTERVAL, Descriptors};

const MAX_PLACES: usize = 1024;
/// Minimum time that a client has for its request, even if no place is free.
const MIN_REQUEST_TIMEOUT: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct Gate {
    state: Mutex<State>,
    /// A place was released.
    freed: Notify,
    descriptors: Descriptors,
}

#[derive(Debug)]
struct State {
    quota: Quota<u64>,
    /// By number, so the oldest is first.
    held: BTreeMap<u64, Holder>,
    next: u64,
}

#[derive(Debug)]
struct Holder {
    source: IpAddr,
    since: Instant,
    /// Its request is incomplete.
    is_request_pending: bool,
    evicted: Arc<Notify>,
}

/// A client's place, released when dropped.
#[derive(Debug)]
pub(super) struct Place {
    gate: Arc<Gate>,
    number: u64,
    evicted: Arc<Notify>,
}

impl Gate {
    /// A gate with places for half of the usable descriptors; one source gets at most half of them.
    pub(super) fn new(descriptors: Descriptors) -> Self {
        let half = usize::try_from(descriptors.usable() / 2).unwrap_or(MAX_PLACES);
        let places = half.clamp(2, MAX_PLACES);
        let quota = Quota::new(places, places / 2);
        let state = State { quota, held: BTreeMap::new(), next: 0 };
        Self { state: Mutex::new(state), freed: Notify::new(), descriptors }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until descriptors are free for another connection of `listener`.
    pub(super) async fn wait_for_descriptors(&self, listener: impl AsFd) {
        while self.descriptors.are_short(&listener) {
            self.lock().evict(Instant::now(), |_| true);
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    /// Waits for a place for a client from `source`.
    pub(super) async fn enter(self: &Arc<Self>, source: IpAddr) -> Place {
        loop {
            let freed = self.freed.notified();
            if let Some(place) = self.try_enter(Instant::now(), source) {
                return place;
            }
            // By then an older client may be replaceable.
            let _ = tokio::time::timeout(MIN_REQUEST_TIMEOUT / 10, freed).await;
        }
    }

    fn try_enter(self: &Arc<Self>, now: Instant, source: IpAddr) -> Option<Place> {
        let mut state = self.lock();
        let is_own = |holder: &Holder| holder.source == source;
        let has_place = match state.quota.look(source) {
            Admission::Free => true,
            Admission::SourceFull(_) => state.evict(now, is_own),
            Admission::InsteadOf(newest) => {
                let greatest = state.held.get(&newest).map(|holder| holder.source);
                state.evict(now, |holder| Some(holder.source) == greatest)
            }
            Admission::Full => state.evict(now, |_| true),
        };
        if !has_place {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.quota.take(source, number);
        let evicted = Arc::new(Notify::new());
        let holder =
            Holder { source, since: now, is_request_pending: true, evicted: Arc::clone(&evicted) };
        state.held.insert(number, holder);
        Some(Place { gate: Arc::clone(self), number, evicted })
    }
}

impl State {
    /// Evicts the oldest candidate without a request for too long; returns whether there was one.
    fn evict(&mut self, now: Instant, is_candidate: impl Fn(&Holder) -> bool) -> bool {
        let mut pending =
            self.held.iter().filter(|(_, it)| it.is_request_pending && is_candidate(it));
        let idle = |holder: &Holder| now.duration_since(holder.since) >= MIN_REQUEST_TIMEOUT;
        let Some((&number, _)) = pending.next().filter(|(_, holder)| idle(holder)) else {
            return false;
        };
        if let Some(holder) = self.remove(number) {
            holder.evicted.notify_one();
        }
        true
    }

    fn remove(&mut self, number: u64) -> Option<Holder> {
        let holder = self.held.remove(&number)?;
        self.quota.give_back(holder.source, number);
        Some(holder)
    }
}

impl Place {
    /// Waits until another client takes the place.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Marks the request as complete: the client keeps the place until it has a slot.
    pub(super) fn mark_requested(&self) {
        if let Some(holder) = self.gate.lock().held.get_mut(&self.number) {
            holder.is_request_pending = false;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.gate.lock().remove(self.number);
        self.gate.freed.notify_waiters();
    }
}
