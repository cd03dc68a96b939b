//! The client's part of the driver: opens connections, detects servers without MCTCP.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use base::Time;
use mctcp::session::End;
use mctcp::{Frame, PathId, Reason, SubflowId, secret};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};

use super::{Driver, Role};
use crate::config::{Config, Further, PathSpec};
use crate::error::Error;
use crate::shared::{Ended, State};
use crate::socket::{self, Opened};
use crate::subflow::{Inbound, Subflow};

/// Maximum number of paths, including those to advertised addresses.
const MAX_PATHS: usize = 16;

/// State of a client's driver.
#[derive(Debug)]
pub(crate) struct Client {
    /// Handle for writers that run turns on threads outside the runtime.
    runtime: Handle,
    connecting: JoinSet<(PathId, io::Result<Opened>)>,
    attempts: BTreeMap<PathId, AbortHandle>,
    /// Paths with at least one attempt.
    tried: BTreeSet<PathId>,
    /// Secrets that TLS exports for each connection, until the session is established.
    exported: BTreeMap<SubflowId, Box<[u8]>>,
    /// Error of the last attempt.
    last_error: Option<Arc<io::Error>>,
    psk: Option<Arc<[u8]>>,
    /// An MCTCP frame of the peer was received.
    has_received: bool,
}

impl Client {
    /// Must be called within a runtime, which opens the connections.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            runtime: Handle::current(),
            connecting: JoinSet::new(),
            attempts: BTreeMap::new(),
            tried: BTreeSet::new(),
            exported: BTreeMap::new(),
            last_error: None,
            psk: config.psk.clone(),
            has_received: false,
        }
    }

    /// Starts an attempt on a path.
    pub(super) fn connect(&mut self, state: &State, path: PathId, config: &Arc<Config>) {
        let Some(spec) = state.paths.get(&path).cloned() else { return };
        self.tried.insert(path);
        let config = Arc::clone(config);
        let attempt = async move { (path, socket::connect(spec, config).await) };
        let attempt = self.connecting.spawn_on(attempt, &self.runtime);
        if let Some(before) = self.attempts.insert(path, attempt) {
            before.abort();
        }
    }

    pub(super) fn abandon(&mut self, path: PathId) {
        if let Some(attempt) = self.attempts.remove(&path) {
            attempt.abort();
        }
    }

    pub(super) fn abandon_all(&mut self) {
        self.connecting.abort_all();
    }

    fn set_secret(&self, state: &mut State, exported: Option<&[u8]>) {
        if exported.is_some() {
            state.session.set_secret(secret::shared(self.psk.as_deref(), exported));
        }
    }

    /// Whether there are paths without an attempt.
    pub(super) fn has_untried(&self, state: &State) -> bool {
        state.paths.keys().any(|path| !self.tried.contains(path))
    }

    /// Handles an event before the session; returns `false` if it is not for the session.
    pub(super) fn inspect(
        &mut self,
        state: &mut State,
        now: Time,
        id: SubflowId,
        inbound: &Inbound,
        others: bool,
    ) -> bool {
        match inbound {
            Inbound::Frame(_, frame) => {
                self.has_received = true;
                if matches!(frame, Frame::HelloAck(_)) && !state.is_established {
                    // The server derives the key from the first HELLO that it received.
                    self.set_secret(state, self.exported.get(&id).map(|secret| &**secret));
                    self.exported.clear();
                }
                true
            }
            Inbound::Violation(mctcp::Error::Preamble { .. } | mctcp::Error::Version { .. }) => {
                if state.is_established || self.has_received {
                    // The session continues on other paths: only this one leads to another service.
                    state.session.on_end(now, id, End::Failed);
                } else {
                    fail_opening(state, now, Error::NotMctcp);
                }
                false
            }
            Inbound::Ended(_) => {
                let alone = !others && self.connecting.is_empty();
                if alone && !state.is_established && !self.has_received {
                    fail_opening(state, now, Error::Disconnected);
                    return false;
                }
                true
            }
            Inbound::Violation(_) => true,
        }
    }

    /// Converts the failure of a session to an error for the application.
    pub(super) fn failure(&self, state: &State, reason: Reason, by_peer: bool) -> Error {
        let ended = Error::Ended { reason, by_peer };
        if by_peer || state.is_established || self.has_received {
            return ended;
        }
        match (reason, &self.last_error) {
            (Reason::Timeout, _) if state.is_connected => Error::NoAnswer,
            (Reason::Timeout | Reason::Target, Some(error)) => Error::Connect(Arc::clone(error)),
            (Reason::Timeout | Reason::Target, None) => {
                Error::Connect(Arc::new(io::ErrorKind::TimedOut.into()))
            }
            _ => ended,
        }
    }
}

/// Ends the session before it was established.
fn fail_opening(state: &mut State, now: Time, error: Error) {
    state.end(Ended::Failed(error));
    state.session.abort(now, Reason::Protocol);
}

/// Adds paths to an advertised address of the server.
pub(super) fn follow(state: &mut State, address: SocketAddr, further: Option<&Further>) {
    let known: Vec<PathSpec> = state.paths.values().cloned().collect();
    let paths = if let Some(further) = further {
        further(address, &known)
    } else {
        let fits =
            |path: &&PathSpec| path.local.is_none_or(|local| local.is_ipv4() == address.is_ipv4());
        let to = |path: &PathSpec| PathSpec { remote: address, ..path.clone() };
        known.iter().filter(fits).map(to).collect()
    };
    for spec in paths {
        let is_known = state.paths.values().any(|known| *known == spec);
        if !is_known && state.paths.len() < MAX_PATHS {
            state.add_path(spec);
        }
    }
}

impl Driver {
    /// Reports completed attempts to the session.
    pub(super) fn take_connected(&mut self, cx: &mut Context<'_>, state: &mut State, now: Time) {
        loop {
            let Role::Client(client) = &mut self.role else { return };
            let Poll::Ready(Some(done)) = client.connecting.poll_join_next(cx) else { return };
            // A cancelled attempt has no result.
            let Ok((path, result)) = done else { continue };
            client.attempts.remove(&path);
            match result {
                Ok(opened) => {
                    if !state.is_connected {
                        client.set_secret(state, opened.exported.as_deref());
                    }
                    let Some(id) = state.session.connected(now, path) else { continue };
                    client.exported.extend(opened.exported.map(|secret| (id, secret)));
                    state.is_connected = true;
                    self.has_progress = true;
                    let mut subflow = Subflow::new(id, opened.wire, self.config.max_frame());
                    subflow.registered = opened.registered;
                    self.add(state, subflow);
                }
                Err(error) => {
                    client.last_error = Some(Arc::new(error));
                    state.session.connect_failed(now, path);
                }
            }
        }
    }
}
