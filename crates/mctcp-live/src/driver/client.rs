//! What only a client's driver does: opening connections, telling who does not speak MCTCP.

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
use crate::shared::{Over, State};
use crate::socket::{self, Opened};
use crate::subflow::{Inbound, Subflow};

/// Most paths that a server's addresses may bring a client to.
const MOST_PATHS: usize = 16;

/// A client's part of the driver.
#[derive(Debug)]
pub(crate) struct Client {
    /// Whoever writes takes the driver's turns, from threads that no runtime knows too.
    runtime: Handle,
    dials: JoinSet<(PathId, io::Result<Opened>)>,
    attempts: BTreeMap<PathId, AbortHandle>,
    /// Paths on which there was an attempt.
    tried: BTreeSet<PathId>,
    /// What TLS exports of each connection, until there is a session.
    exported: BTreeMap<SubflowId, Box<[u8]>>,
    /// Why the last attempt led to nothing.
    refusal: Option<Arc<io::Error>>,
    psk: Option<Arc<[u8]>>,
    /// The peer has said something in MCTCP.
    is_heard: bool,
}

impl Client {
    /// Within a runtime, where connections are to be opened.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            runtime: Handle::current(),
            dials: JoinSet::new(),
            attempts: BTreeMap::new(),
            tried: BTreeSet::new(),
            exported: BTreeMap::new(),
            refusal: None,
            psk: config.psk.clone(),
            is_heard: false,
        }
    }

    /// Begins an attempt on a path.
    pub(super) fn connect(&mut self, state: &State, path: PathId, config: &Arc<Config>) {
        let Some(spec) = state.paths.get(&path).cloned() else { return };
        self.tried.insert(path);
        let config = Arc::clone(config);
        let attempt = async move { (path, socket::connect(spec, config).await) };
        let attempt = self.dials.spawn_on(attempt, &self.runtime);
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
        self.dials.abort_all();
    }

    fn set_secret(&self, state: &mut State, exported: Option<&[u8]>) {
        if exported.is_some() {
            state.session.set_secret(secret::shared(self.psk.as_deref(), exported));
        }
    }

    /// Whether there are paths on which nothing was attempted yet.
    pub(super) fn has_untried(&self, state: &State) -> bool {
        state.paths.keys().any(|path| !self.tried.contains(path))
    }

    /// Looks at what came before the session does, which is not to hear of it if this is `false`.
    pub(super) fn judge(
        &mut self,
        state: &mut State,
        now: Time,
        id: SubflowId,
        inbound: &Inbound,
        others: bool,
    ) -> bool {
        match inbound {
            Inbound::Frame(_, frame) => {
                self.is_heard = true;
                if matches!(frame, Frame::HelloAck(_)) && !state.is_established {
                    // The server has the key of the first HELLO that it got.
                    self.set_secret(state, self.exported.get(&id).map(|secret| &**secret));
                    self.exported.clear();
                }
                true
            }
            Inbound::Wrong(mctcp::Error::Preamble { .. } | mctcp::Error::Version { .. }) => {
                if state.is_established || self.is_heard {
                    // Only this path leads elsewhere.
                    state.session.on_end(now, id, End::Failed);
                } else {
                    give_up(state, now, Error::NotMctcp);
                }
                false
            }
            Inbound::Ended(_) => {
                let alone = !others && self.dials.is_empty();
                if alone && !state.is_established && !self.is_heard {
                    give_up(state, now, Error::Disconnected);
                    return false;
                }
                true
            }
            Inbound::Wrong(_) => true,
        }
    }

    /// What the failure of a session is to the application.
    pub(super) fn failure(&self, state: &State, reason: Reason, by_peer: bool) -> Error {
        let ended = Error::Ended { reason, by_peer };
        if by_peer || state.is_established || self.is_heard {
            return ended;
        }
        match (reason, &self.refusal) {
            (Reason::Timeout, _) if state.is_connected => Error::NoAnswer,
            (Reason::Timeout | Reason::Target, Some(refusal)) => {
                Error::Connect(Arc::clone(refusal))
            }
            (Reason::Timeout | Reason::Target, None) => {
                Error::Connect(Arc::new(io::ErrorKind::TimedOut.into()))
            }
            _ => ended,
        }
    }
}

/// There will be no session.
fn give_up(state: &mut State, now: Time, error: Error) {
    state.end(Over::Failed(error));
    state.session.abort(now, Reason::Protocol);
}

/// Adds paths to a further address of the server.
pub(super) fn follow(state: &mut State, address: SocketAddr, further: Option<&Further>) {
    let known: Vec<PathSpec> = state.paths.values().cloned().collect();
    let fresh = if let Some(further) = further {
        further(address, &known)
    } else {
        let fits =
            |path: &&PathSpec| path.local.is_none_or(|local| local.is_ipv4() == address.is_ipv4());
        let to = |path: &PathSpec| PathSpec { remote: address, ..path.clone() };
        known.iter().filter(fits).map(to).collect()
    };
    for spec in fresh {
        let is_known = state.paths.values().any(|known| *known == spec);
        if !is_known && state.paths.len() < MOST_PATHS {
            state.add_path(spec);
        }
    }
}

impl Driver {
    /// Tells the session of attempts that have come to an end.
    pub(super) fn take_dialled(&mut self, cx: &mut Context<'_>, state: &mut State, now: Time) {
        loop {
            let Role::Client(client) = &mut self.role else { return };
            let Poll::Ready(Some(done)) = client.dials.poll_join_next(cx) else { return };
            // An attempt that was given up has nothing to tell.
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
                    client.refusal = Some(Arc::new(error));
                    state.session.connect_failed(now, path);
                }
            }
        }
    }
}
