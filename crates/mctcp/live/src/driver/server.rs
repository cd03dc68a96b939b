//! The server's part of the driver: adds the subflows that its listener has verified.

use std::sync::Arc;
use std::task::{Context, Poll};

use base::Time;
use mctcp::frame::Join;
use mctcp::{Decoder, SubflowId};
use tokio::sync::mpsc;

use super::{Driver, Role};
use crate::listener::{Accepted, Hub};
use crate::queue::Queue;
use crate::shared::State;
use crate::stream::MctcpStream;
use crate::subflow::{Subflow, Wire};

/// A connection that was assigned to a session.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) wire: Wire,
    pub(crate) decoder: Decoder,
    pub(crate) queue: Queue,
    pub(crate) kind: Kind,
}

/// How the connection was assigned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// It proved that it belongs to the session.
    Joined(Join),
    /// It repeats the session's HELLO.
    RepeatedHello(SubflowId),
}

/// State of a server's driver.
#[derive(Debug)]
pub(crate) struct Server {
    hub: Arc<Hub>,
    session: u64,
    arrivals: mpsc::Receiver<Arrival>,
    is_confirmed: bool,
    /// The session ended without error.
    is_finished: bool,
    /// The stream until the client's proof, and then until it is passed to the application.
    unproven: Option<MctcpStream>,
    proven: Option<MctcpStream>,
}

impl Server {
    pub(crate) fn new(
        hub: Arc<Hub>,
        session: u64,
        arrivals: mpsc::Receiver<Arrival>,
        unproven: Option<MctcpStream>,
    ) -> Self {
        Self {
            hub,
            session,
            arrivals,
            is_confirmed: false,
            is_finished: false,
            unproven,
            proven: None,
        }
    }

    /// Reports that the client has received `HELLO_ACK`.
    pub(super) fn confirm(&mut self) {
        if !std::mem::replace(&mut self.is_confirmed, true) {
            self.hub.mark_confirmed(self.session);
        }
    }

    /// Reports the client's proof.
    pub(super) fn prove(&mut self) {
        self.proven = self.unproven.take();
        if self.proven.is_some() {
            self.hub.mark_proven(self.session);
        }
    }

    /// Reports that the session has ended without error.
    pub(super) fn finish(&mut self) {
        self.is_finished = true;
        self.hub.finish(self.session);
    }

    /// Passes the stream to the application after the client's proof.
    pub(super) fn announce(&mut self) {
        if let Some(stream) = self.proven.take() {
            self.hub.announce(Accepted::Session(stream));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.is_finished {
            self.hub.remove(self.session);
        }
    }
}

impl Driver {
    /// Adds the assigned connections.
    pub(super) fn take_arrivals(&mut self, cx: &mut Context<'_>, state: &mut State, now: Time) {
        loop {
            let Role::Server(server) = &mut self.role else { return };
            let Poll::Ready(Some(arrival)) = server.arrivals.poll_recv(cx) else { return };
            let (id, wanted) = match arrival.kind {
                Kind::Joined(join) => (join.subflow, state.session.attach(now, &join)),
                Kind::RepeatedHello(id) => (id, state.session.attach_repeated_hello(now, id)),
            };
            if wanted {
                let Arrival { wire, decoder, queue, .. } = arrival;
                self.add(state, Subflow::adopt(id, wire, decoder, queue));
            }
        }
    }
}
