//! State shared by a stream's halves and its driver.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Waker};

use base::Time;
use bytes::Bytes;
use mctcp::session::Session;
use mctcp::{PathId, SubflowId};
use tokio::sync::Notify;

use crate::config::PathSpec;
use crate::driver::Driver;
use crate::error::Error;
use crate::system;

/// State that stream and driver share.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The driver, for tasks that run a turn themselves.
    driver: OnceLock<Weak<Mutex<Driver>>>,
    /// The session has progressed: connected, established, delivered or ended.
    pub(crate) progress: Notify,
}

/// The state under the lock, which is held only for short times.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) session: Session<Bytes>,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
    /// The driver, while it sleeps.
    pub(crate) driver: Option<Waker>,
    pub(crate) paths: BTreeMap<PathId, PathSpec>,
    next_path: u16,
    /// Addresses of both ends of each subflow.
    pub(crate) addresses: BTreeMap<SubflowId, (Option<SocketAddr>, Option<SocketAddr>)>,
    /// A connection is established.
    pub(crate) is_connected: bool,
    pub(crate) is_established: bool,
    /// The application has ended its stream.
    pub(crate) is_finished: bool,
    /// Time at which the application dropped the stream.
    pub(crate) dropped_at: Option<Time>,
    pub(crate) ended: Option<Ended>,
}

/// How a session ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// Both streams ended.
    Closed,
    Failed(Error),
}

impl Shared {
    pub(crate) fn new(session: Session<Bytes>) -> Self {
        Self {
            state: Mutex::new(State {
                session,
                reader: None,
                writer: None,
                driver: None,
                paths: BTreeMap::new(),
                next_path: 0,
                addresses: BTreeMap::new(),
                is_connected: false,
                is_established: false,
                is_finished: false,
                dropped_at: None,
                ended: None,
            }),
            driver: OnceLock::new(),
            progress: Notify::new(),
        }
    }

    /// Locks the state even after a panic elsewhere: it can still be read and ended.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the driver.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        result
    }

    pub(crate) fn set_driver(&self, driver: Weak<Mutex<Driver>>) {
        // Each session has only one driver.
        let _ = self.driver.set(driver);
    }

    /// Runs a turn in place of the sleeping driver, so that written data are sent without
    /// a task switch.
    pub(crate) fn step(&self, sleeper: Waker) {
        let driver = self.driver.get().and_then(Weak::upgrade);
        let awake = driver.is_none_or(|driver| match driver.try_lock() {
            Ok(mut driver) => driver.step(&mut Context::from_waker(&sleeper)),
            Err(_) => true,
        });
        if awake {
            sleeper.wake();
        }
    }

    /// Waits until `reached` returns a result.
    pub(crate) async fn reach<T>(&self, reached: impl Fn(&mut State) -> Option<T>) -> T {
        loop {
            let mut step = std::pin::pin!(self.progress.notified());
            step.as_mut().enable();
            if let Some(result) = reached(&mut self.lock()) {
                return result;
            }
            step.await;
        }
    }
}

impl State {
    /// Adds a path.
    pub(crate) fn add_path(&mut self, spec: PathSpec) -> PathId {
        let id = PathId(self.next_path);
        self.next_path = self.next_path.wrapping_add(1);
        let priority = spec.priority;
        self.paths.insert(id, spec);
        self.session.add_path(system::now(), id, priority);
        id
    }

    /// Ends the session for the application.
    pub(crate) fn end(&mut self, ended: Ended) {
        self.ended.get_or_insert(ended);
    }

    /// Whether all written data and the end of the stream were acknowledged.
    pub(crate) fn is_delivered(&self) -> bool {
        self.is_finished && self.session.is_delivered()
    }

    /// The error that reads and writes return now, if any.
    pub(crate) fn failure(&self) -> Option<Error> {
        match &self.ended {
            Some(Ended::Failed(error)) => Some(error.clone()),
            _ => None,
        }
    }

    /// Wakers of all waiting tasks.
    pub(crate) fn wakers(&mut self) -> impl Iterator<Item = Waker> + use<> {
        [self.reader.take(), self.writer.take()].into_iter().flatten()
    }
}
