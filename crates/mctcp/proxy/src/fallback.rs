//! Plain TCP instead of sessions: which servers are temporarily not tried, and the limit
//! of plain connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Error, Result};

/// Time for which an unreachable server is not tried. With [`TRIAL_TIMEOUT`], sessions are used
/// again at most 5 s after the server is reachable.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// The same for a target that used another protocol, without `--server`.
const FOREIGN_INTERVAL: Duration = Duration::from_secs(60);
/// Timeout for the one client that tries the server again while others use plain TCP.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum number of remembered servers.
const MAX_REMEMBERED: usize = 1024;

/// Reason for a missing session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// No connection was established, or it broke.
    Unreachable,
    /// A connection was established, but nothing was received on it.
    Silent,
    /// The answer used another protocol.
    Foreign,
}

#[derive(Debug)]
struct Failure {
    /// Time of the next attempt.
    retry_at: Instant,
    interval: Duration,
    why: String,
}

/// State shared by the connections of a proxy.
#[derive(Debug)]
pub(super) struct Fallbacks {
    state: Mutex<State>,
    max: usize,
}

#[derive(Debug, Default)]
struct State {
    failures: BTreeMap<String, Failure>,
    /// Number of plain connections by target, and in total.
    open: BTreeMap<String, usize>,
    total: usize,
}

/// A slot for a plain connection, released when dropped.
#[derive(Debug)]
pub(super) struct PlainSlot {
    fallbacks: Arc<Fallbacks>,
    target: String,
}

impl Fallbacks {
    pub(super) fn new(max: usize) -> Self {
        Self { state: Mutex::default(), max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reason why a server must not be tried now. `None`: try it.
    pub(super) fn recent_failure(&self, now: Instant, server: &str) -> Option<String> {
        let mut state = self.lock();
        let failure = state.failures.get_mut(server)?;
        if now < failure.retry_at {
            return Some(failure.why.clone());
        }
        failure.retry_at = now + TRIAL_TIMEOUT;
        None
    }

    /// Records that a session with a server failed. `is_target`: it was not configured as a server.
    pub(super) fn record_failure(
        &self,
        now: Instant,
        server: &str,
        why: &str,
        cause: Cause,
        is_target: bool,
    ) {
        let mut state = self.lock();
        if state.failures.len() >= MAX_REMEMBERED {
            state.failures.retain(|_, failure| failure.retry_at > now);
        }
        if state.failures.len() >= MAX_REMEMBERED {
            return;
        }
        let before = state.failures.get(server).map(|failure| failure.interval);
        let interval = match cause {
            Cause::Foreign if is_target => FOREIGN_INTERVAL,
            // Many services wait for more bytes before they answer, and each attempt takes seconds.
            Cause::Silent if is_target => {
                before.map_or(RETRY_INTERVAL, |before| (before * 2).min(FOREIGN_INTERVAL))
            }
            _ => RETRY_INTERVAL,
        };
        let failure = Failure { retry_at: now + interval, interval, why: why.to_owned() };
        state.failures.insert(server.to_owned(), failure);
    }

    /// Records that a session with a server was established.
    pub(super) fn record_success(&self, server: &str) {
        self.lock().failures.remove(server);
    }

    /// Takes a slot for a plain connection.
    ///
    /// # Errors
    /// [`Error::PlainLimit`] if all slots are taken. One target gets at most a quarter of them.
    pub(super) fn enter(self: &Arc<Self>, target: &str) -> Result<PlainSlot> {
        let mut state = self.lock();
        let max_target = self.max.div_ceil(4);
        if state.total >= self.max {
            return Err(Error::PlainLimit { to: String::new(), max: self.max });
        }
        let count = state.open.entry(target.to_owned()).or_default();
        if *count >= max_target {
            return Err(Error::PlainLimit { to: format!(" to {target}"), max: max_target });
        }
        *count += 1;
        state.total += 1;
        Ok(PlainSlot { fallbacks: Arc::clone(self), target: target.to_owned() })
    }
}

impl Drop for PlainSlot {
    fn drop(&mut self) {
        let mut state = self.fallbacks.lock();
        state.total -= 1;
        if let Some(count) = state.open.get_mut(&self.target) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&self.target);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_one_client_at_a_time_retries_a_server() {
        let (fallbacks, mut now) = (Fallbacks::new(8), Instant::now());
        assert_eq!(fallbacks.recent_failure(now, "s"), None);
        for cause in [Cause::Unreachable, Cause::Silent, Cause::Foreign] {
            fallbacks.record_failure(now, "s", "no route", cause, false);
            assert_eq!(fallbacks.recent_failure(now, "s").as_deref(), Some("no route"));
            now += SECOND;
            assert_eq!(fallbacks.recent_failure(now, "s"), None, "{cause:?}");
            assert!(fallbacks.recent_failure(now, "s").is_some(), "{cause:?}: a second trial");
            // The client of the trial has disconnected.
            now += 4 * SECOND;
            assert_eq!(fallbacks.recent_failure(now, "s"), None, "{cause:?}");
        }
        fallbacks.record_success("s");
        assert_eq!(
            (fallbacks.recent_failure(now, "s"), fallbacks.recent_failure(now, "s")),
            (None, None)
        );
    }

    #[test]
    fn retries_targets_of_another_protocol_less_often() {
        let (fallbacks, mut now) = (Fallbacks::new(8), Instant::now());
        fallbacks.record_failure(now, "t", "", Cause::Foreign, true);
        assert!(fallbacks.recent_failure(now + 59 * SECOND, "t").is_some());
        fallbacks.record_success("t");
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            fallbacks.record_failure(now, "t", "", Cause::Silent, true);
            now += (seconds - 1) * SECOND;
            assert!(fallbacks.recent_failure(now, "t").is_some(), "{seconds}");
            now += SECOND;
            assert!(fallbacks.recent_failure(now, "t").is_none(), "{seconds}");
        }
        fallbacks.record_failure(now, "t", "", Cause::Unreachable, true);
        assert!(fallbacks.recent_failure(now + SECOND, "t").is_none());
    }

    #[test]
    fn limits_plain_connections_per_target_and_in_total() {
        let fallbacks = Arc::new(Fallbacks::new(8));
        let held: Vec<_> = (0..2).map(|_| fallbacks.enter("a").unwrap()).collect();
        let error = fallbacks.enter("a").unwrap_err().to_string();
        assert!(error.contains("2 plain TCP connections to a are open"), "{error}");
        let others: Vec<_> =
            ["b", "b", "c", "c", "d", "d"].map(|it| fallbacks.enter(it).unwrap()).into();
        let error = fallbacks.enter("e").unwrap_err().to_string();
        assert!(error.contains("8 plain TCP connections are open"), "{error}");
        drop(held);
        drop(fallbacks.enter("a").unwrap());
        drop(others);
        assert!(fallbacks.lock().open.is_empty() && fallbacks.lock().total == 0);
    }
}
