//! What a stream's halves and its driver share.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Waker};

use base::Time;
use bytes::Bytes;
use mctcp::session::Session;
use mctcp::{PathId, SubflowId};
use tokio::sync::Notify;

use crate::clock;
use crate::config::PathSpec;
use crate::driver::Driver;
use crate::error::Error;

/// One session.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// For those who take a turn themselves.
    driver: OnceLock<Weak<Mutex<Driver>>>,
    /// The session has come a step further: connected, established, delivered, over.
    pub(crate) progress: Notify,
}

/// Its state; nobody waits while holding it.
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
    /// A connection is up.
    pub(crate) is_connected: bool,
    pub(crate) is_established: bool,
    /// Nothing more will be written.
    pub(crate) is_finished: bool,
    /// When the application dropped the stream.
    pub(crate) dropped: Option<Time>,
    pub(crate) over: Option<Over>,
}

/// How a session ended.
#[derive(Clone, Debug)]
pub(crate) enum Over {
    /// Both streams came to their ends.
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
                dropped: None,
                over: None,
            }),
            driver: OnceLock::new(),
            progress: Notify::new(),
        }
    }

    /// A panic elsewhere leaves a state that can still be read and ended.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and has the driver look at it.
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
        // There is one driver for each session.
        let _ = self.driver.set(driver);
    }

    /// Takes a turn in the place of the driver, which sleeps: what was written leaves without a
    /// change of tasks.
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

    /// Waits until `reached` gives something.
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
        self.session.add_path(clock::now(), id, priority);
        id
    }

    /// Ends the session in the eyes of the application.
    pub(crate) fn end(&mut self, over: Over) {
        self.over.get_or_insert(over);
    }

    /// Whether everything that was written has been acknowledged, its end included.
    pub(crate) fn is_delivered(&self) -> bool {
        self.is_finished && self.session.is_delivered()
    }

    /// The error that reads and writes give now, if any.
    pub(crate) fn failure(&self) -> Option<Error> {
        match &self.over {
            Some(Over::Failed(error)) => Some(error.clone()),
            _ => None,
        }
    }

    /// Everybody who waits.
    pub(crate) fn wakers(&mut self) -> impl Iterator<Item = Waker> + use<> {
        [self.reader.take(), self.writer.take()].into_iter().flatten()
    }
}
