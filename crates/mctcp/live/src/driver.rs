//! The task that owns a session's sockets.
//!
//! One turn reads the sockets, passes the events to the session, executes its outputs and writes.
//! The session is locked only while it is called, so that the application's reads and writes do not
//! wait for the kernel.

mod client;
mod server;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use base::{Bytes, Time};
use mctcp::session::{Event, Output};
use mctcp::{Reason, SubflowId};
use tokio::time::Sleep;

use crate::config::Config;
use crate::error::Error;
use crate::shared::{Ended, Shared, State};
use crate::subflow::{Inbound, Subflow};
use crate::system;

pub(crate) use client::Client;
pub(crate) use server::{Arrival, Kind, Server};

/// Maximum number of consecutive turns before other tasks run.
const MAX_TURNS: usize = 16;
/// Maximum number of bytes read from one subflow before the others.
const MAX_READ_BYTES: usize = 256 << 10;

/// State specific to client or server.
#[derive(Debug)]
pub(crate) enum Role {
    Client(Client),
    Server(Server),
}

/// Drives a session until it ends.
#[derive(Debug)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
    config: Arc<Config>,
    role: Role,
    subflows: Vec<Subflow>,
    inbox: Vec<(SubflowId, Inbound)>,
    /// Subflows whose room has changed.
    changed: Vec<(SubflowId, u64)>,
    /// Tasks to wake because of events.
    wakers: Vec<Waker>,
    has_progress: bool,
    /// There are new connections that were not polled yet.
    has_new_connections: bool,
    timer: Pin<Box<Sleep>>,
    /// Time for which the timer is set, if it is.
    armed: Option<Time>,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, config: Arc<Config>, role: Role) -> Self {
        Self {
            shared,
            config,
            role,
            subflows: Vec::new(),
            inbox: Vec::new(),
            changed: Vec::new(),
            wakers: Vec::new(),
            has_progress: false,
            has_new_connections: false,
            timer: Box::pin(tokio::time::sleep(std::time::Duration::ZERO)),
            armed: None,
        }
    }

    /// Adds the connection of a subflow of the session.
    pub(crate) fn add(&mut self, state: &mut State, subflow: Subflow) {
        let room = Bytes::new(subflow.room());
        state.session.set_room(system::now(), subflow.id, room);
        state.addresses.insert(subflow.id, (subflow.local, subflow.remote));
        self.subflows.push(subflow);
        self.has_new_connections = true;
    }

    /// Spawns the driver's task.
    pub(crate) fn spawn(self) {
        let shared = Arc::clone(&self.shared);
        let driver = Arc::new(Mutex::new(self));
        shared.set_driver(Arc::downgrade(&driver));
        tokio::spawn(Task(driver));
    }

    /// Runs one turn in place of the sleeping task. Returns whether the task must continue.
    pub(crate) fn step(&mut self, cx: &mut Context<'_>) -> bool {
        self.turn(cx) || self.is_done() || self.arm(cx)
    }

    fn is_done(&self) -> bool {
        self.subflows.is_empty() && self.shared.lock().ended.is_some()
    }

    /// Runs one turn. Returns whether another one may find work.
    fn turn(&mut self, cx: &mut Context<'_>) -> bool {
        let mut again = false;
        for subflow in &mut self.subflows {
            again |= subflow.poll_receive(cx, MAX_READ_BYTES, &mut self.inbox);
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        self.has_new_connections = false;
        self.run_session(cx, &mut state);
        let has_more = state.session.unsent().is_positive();
        drop(state);
        self.wake_others();
        if let Role::Server(server) = &mut self.role {
            server.announce();
        }
        // Without unsent data, changed room is reported later.
        let has_room = self.send(cx);
        again || self.has_new_connections || !self.inbox.is_empty() || (has_room && has_more)
    }

    /// Passes events to the session and executes its outputs.
    fn run_session(&mut self, cx: &mut Context<'_>, state: &mut State) {
        let now = system::now();
        match &mut self.role {
            Role::Client(_) => self.take_connected(cx, state, now),
            Role::Server(_) => self.take_arrivals(cx, state, now),
        }
        for (id, room) in self.changed.drain(..) {
            state.session.set_room(now, id, Bytes::new(room));
        }
        let mut inbox = std::mem::take(&mut self.inbox);
        for (id, inbound) in inbox.drain(..) {
            self.on_inbound(state, now, id, inbound);
        }
        self.inbox = inbox;
        if state.session.next_wake().is_some_and(|at| at <= now) {
            state.session.on_wake(now);
        }
        while let Some(output) = state.session.poll() {
            self.execute(state, now, output);
        }
        self.drain_dropped_stream(state, now);
        if state.ended.is_some() {
            self.end(state);
        }
        match &mut state.driver {
            Some(known) => known.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
    }

    /// Processes an event of a subflow.
    fn on_inbound(&mut self, state: &mut State, now: Time, id: SubflowId, inbound: Inbound) {
        if let Role::Client(client) = &mut self.role {
            let others = self.subflows.len() > 1 || client.has_untried(state);
            if !client.inspect(state, now, id, &inbound, others) {
                return;
            }
        }
        let is_proof = matches!(inbound, Inbound::Frame(_, mctcp::Frame::Proof(_)));
        match inbound {
            Inbound::Frame(path_seq, frame) => state.session.on_frame(now, id, path_seq, frame),
            Inbound::Violation(error) => state.session.on_error(now, id, &error),
            Inbound::Ended(end) => state.session.on_end(now, id, end),
        }
        if let Role::Server(server) = &mut self.role {
            if state.session.is_confirmed() {
                server.confirm();
            }
            if is_proof && state.session.failed().is_none() {
                server.prove();
            }
        }
    }

    fn execute(&mut self, state: &mut State, now: Time, output: Output<bytes::Bytes>) {
        match output {
            Output::Send { subflow, path_seq, frame } => {
                if let Some(subflow) = self.subflow(subflow) {
                    subflow.queue(path_seq, frame);
                }
            }
            Output::Inspect(id) => {
                if let Some(info) = self.subflow(id).and_then(Subflow::inspect) {
                    state.session.on_path_info(now, id, info);
                }
            }
            Output::Close { subflow: id, abort } => {
                state.addresses.remove(&id);
                match self.subflow(id) {
                    Some(subflow) if abort => subflow.abort(),
                    Some(subflow) => subflow.close(now),
                    None => {}
                }
            }
            Output::Connect(path) => {
                if let Role::Client(client) = &mut self.role {
                    client.connect(state, path, &self.config);
                    self.has_new_connections = true;
                }
            }
            Output::Abandon(path) => {
                if let Role::Client(client) = &mut self.role {
                    client.abandon(path);
                }
            }
            Output::Event(event) => self.on_event(state, event),
        }
    }

    fn subflow(&mut self, id: SubflowId) -> Option<&mut Subflow> {
        self.subflows.iter_mut().find(|subflow| subflow.id == id)
    }

    fn on_event(&mut self, state: &mut State, event: Event) {
        match event {
            Event::Established => {
                state.is_established = true;
                self.has_progress = true;
            }
            Event::Readable => self.wakers.extend(state.reader.take()),
            Event::Writable => self.wakers.extend(state.writer.take()),
            Event::Closed => {
                state.end(Ended::Closed);
                if let Role::Server(server) = &mut self.role {
                    server.finish();
                }
            }
            Event::Failed { reason, by_peer } => {
                let error = match &self.role {
                    Role::Client(client) => client.failure(state, reason, by_peer),
                    Role::Server(_) => Error::Ended { reason, by_peer },
                };
                state.end(Ended::Failed(error));
            }
            Event::AddressAdded(_, address) => {
                if self.config.follow && matches!(self.role, Role::Client(_)) {
                    client::follow(state, address, self.config.further.as_ref());
                }
            }
            Event::SubflowUp(_)
            | Event::SubflowStale(_)
            | Event::SubflowRevived(_)
            | Event::SubflowDown(_)
            | Event::AddressRemoved(_) => {}
        }
    }

    /// The application has dropped the stream: the session continues until its data are delivered.
    fn drain_dropped_stream(&mut self, state: &mut State, now: Time) {
        let delivered = state.is_delivered();
        self.has_progress |= delivered;
        let Some(dropped) = state.dropped_at else { return };
        // If the peer has finished too, the session closes without an abort.
        let is_unused = delivered && !state.session.is_done();
        if state.ended.is_none() && (is_unused || now >= dropped + self.config.linger) {
            state.session.abort(now, Reason::Aborted);
            while let Some(output) = state.session.poll() {
                self.execute(state, now, output);
            }
        }
    }

    /// Wakes all waiting tasks when the session has ended.
    fn end(&mut self, state: &mut State) {
        self.wakers.extend(state.wakers());
        self.has_progress = true;
        if let Role::Client(client) = &mut self.role {
            client.abandon_all();
        }
    }

    fn wake_others(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
        if std::mem::take(&mut self.has_progress) {
            self.shared.progress.notify_waiters();
        }
    }

    /// Writes queued data and closes subflows. Returns whether one has new room.
    fn send(&mut self, cx: &mut Context<'_>) -> bool {
        let now = system::now();
        let before = self.changed.len();
        for subflow in &mut self.subflows {
            match subflow.poll_send(cx) {
                Ok(true) => self.changed.push((subflow.id, subflow.room())),
                Ok(false) => {}
                Err(_) => subflow.fail(&mut self.inbox),
            }
        }
        self.subflows.retain_mut(|subflow| !subflow.poll_close(cx, now));
        self.changed[before..].iter().any(|(_, room)| *room > 0)
    }

    /// Sets the timer for the earliest deadline.
    fn arm(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(deadline) = self.deadline() else { return false };
        // The timer is only set earlier: an early expiry is cheaper than setting it at each turn.
        if self.armed.is_none_or(|armed| deadline < armed) {
            self.timer.as_mut().reset(system::instant(deadline));
            self.armed = Some(deadline);
        }
        if self.timer.as_mut().poll(cx).is_ready() {
            self.armed = None;
            return true;
        }
        false
    }

    fn deadline(&self) -> Option<Time> {
        let state = self.shared.lock();
        let linger = state.dropped_at.map(|at| at + self.config.linger);
        let own = [state.session.next_wake(), linger]
            .into_iter()
            .filter(|_| state.ended.is_none())
            .flatten();
        own.chain(self.subflows.iter().filter_map(Subflow::deadline)).min()
    }
}

/// The task. While it sleeps, a writer of the stream may run a turn in its place.
struct Task(Arc<Mutex<Driver>>);

impl Future for Task {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut driver = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..MAX_TURNS {
            let again = driver.turn(cx);
            if driver.is_done() {
                return Poll::Ready(());
            }
            if !again && !driver.arm(cx) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.end(Ended::Failed(Error::Gone));
        self.wakers.extend(state.wakers());
        drop(state);
        self.has_progress = true;
        self.wake_others();
    }
}
