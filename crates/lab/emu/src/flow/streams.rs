//! RPC, requests and transfers over the kernel's TCP.
//!
//! Slot 0 listens; the client's connections have odd slots, the server's even ones.

mod client;
mod end;
mod receivers;
mod server;

use std::os::fd::AsFd;

use base::Time;
use lab::plan::Tcp;
use run::FlowCounters;
use sys::socket::{self, Readiness};
use workload::{Event, Side, Sizes, Workload};

use super::Placed;
use super::mptcp::{AdditionalPaths, SubflowMeter};
use super::rendezvous::{Dial, RECEIVER_SLOT, Rendezvous};
use super::traffic::{Connections, Endpoints, Progress, Scope, combine_progress};
use client::{Client, Seen, Wire};
use receivers::{Arrival, Receivers};
use server::{Exchanges, Server};

enum Accepting {
    Answers(Server),
    Receives(Receivers),
}

/// The sockets of a flow and its state machine.
pub(super) struct Streams<W> {
    client: Option<(W, Client)>,
    server: Option<Accepting>,
    /// The meter of the client's subflows, if it has several.
    meter: Option<SubflowMeter>,
}

impl<W: Workload> Streams<W> {
    /// A flow of requests with sizes of requests and responses.
    pub(super) fn answering(
        placed: &Placed,
        rendezvous: Rendezvous,
        scope: &mut Scope<'_>,
        (tcp, request, response): (&Tcp, &Sizes, &Sizes),
        open: impl FnOnce(&mut Wire<'_, '_>) -> W,
    ) -> sys::Result<Self> {
        let dial = Dial::new(placed, rendezvous.to, tcp, true);
        let is_remote = dial.is_none();
        let sizes = Exchanges::new(scope, &placed.flow.name, request, response);
        let server = rendezvous
            .receiver
            .map(|receiver| Accepting::Answers(Server::new(receiver, sizes, is_remote)));
        let mut this = Self::open(placed, scope, dial, server, open)?;
        this.meter = AdditionalPaths::of(placed).map(|_| SubflowMeter::new(placed));
        Ok(this)
    }

    /// A flow of transfers.
    pub(super) fn receiving(
        placed: &Placed,
        rendezvous: Rendezvous,
        scope: &mut Scope<'_>,
        (tcp, count): (&Tcp, Option<u64>),
        open: impl FnOnce(&mut Wire<'_, '_>) -> W,
    ) -> sys::Result<Self> {
        let dial = Dial::new(placed, rendezvous.to, tcp, false);
        let (is_remote, is_checked) = (dial.is_none(), AdditionalPaths::of(placed).is_some());
        let receivers =
            |receiver| Receivers::new(receiver, count.filter(|_| is_remote), is_remote, is_checked);
        let server = rendezvous.receiver.map(|receiver| Accepting::Receives(receivers(receiver)));
        Self::open(placed, scope, dial, server, open)
    }

    fn open(
        placed: &Placed,
        scope: &mut Scope<'_>,
        dial: Option<Dial>,
        server: Option<Accepting>,
        open: impl FnOnce(&mut Wire<'_, '_>) -> W,
    ) -> sys::Result<Self> {
        let others = AdditionalPaths::of(placed);
        if others.is_some() {
            scope.paths.prepare(placed, scope.queue)?;
        }
        let mut this = Self { client: None, server, meter: None };
        if let Some(dial) = dial {
            let mut client = Client::new(placed, dial, others);
            let flow = open(&mut Wire { client: &mut client, scope });
            client.error.take().map_or(Ok(()), Err)?;
            this.client = Some((flow, client));
        }
        Ok(this)
    }

    /// Calls the state machine.
    fn turn(
        &mut self,
        scope: &mut Scope<'_>,
        turn: impl FnOnce(&mut W, &mut Wire<'_, '_>) -> workload::Progress,
    ) -> sys::Result<Progress> {
        let Some((flow, client)) = &mut self.client else { return Ok(Progress::Going) };
        let progress = turn(flow, &mut Wire { client, scope });
        combine_progress(progress, client.error.take())
    }

    fn on_event(&mut self, scope: &mut Scope<'_>, event: &Event) -> sys::Result<Progress> {
        self.turn(scope, |flow, wire| flow.on_event(wire, event))
    }

    fn on_client(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        let Some((_, client)) = &mut self.client else { return Ok(Progress::Going) };
        match client.on_ready(scope, slot, readiness)? {
            Seen::Nothing => Ok(Progress::Going),
            Seen::Damaged(damage) => Ok(Progress::Damaged(damage)),
            Seen::Event(event) => {
                if event.side == Side::Client {
                    scope.counters.received += event.bytes;
                }
                self.on_event(scope, &event)
            }
        }
    }

    fn on_server(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        let arrival = match &mut self.server {
            Some(Accepting::Answers(server)) => return server.on_ready(scope, slot, readiness),
            Some(Accepting::Receives(receivers)) => receivers.on_ready(scope, slot)?,
            None => Arrival::Nothing,
        };
        let (port, received) = match arrival {
            Arrival::Nothing => return Ok(Progress::Going),
            Arrival::All(at) => return Ok(Progress::Done(at)),
            Arrival::Ended { port, received } => (port, received),
        };
        let Some((_, client)) = &self.client else { return Ok(Progress::Going) };
        let Some(slot) = client.slot(port) else { return Ok(Progress::Going) };
        match client.on_receipt(slot, received, scope.now()) {
            Seen::Nothing => Ok(Progress::Going),
            Seen::Damaged(damage) => Ok(Progress::Damaged(damage)),
            Seen::Event(event) => self.on_event(scope, &event),
        }
    }
}

impl<W: Workload + Send> Endpoints for Streams<W> {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        match (slot, &mut self.server) {
            (RECEIVER_SLOT, Some(Accepting::Answers(server))) => server.accept(scope)?,
            (RECEIVER_SLOT, Some(Accepting::Receives(receivers))) => {
                let client = self.client.as_ref().map(|(_, client)| client);
                receivers.accept(scope, |port| client.is_none_or(|c| c.slot(port).is_some()))?;
            }
            (slot, _) if slot % 2 == 1 => return self.on_client(scope, slot, readiness),
            _ => return self.on_server(scope, slot, readiness),
        }
        Ok(Progress::Going)
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        if let Some((_, client)) = &mut self.client {
            client.redial(scope)?;
        }
        self.turn(scope, |flow, wire| flow.on_wake(wire))
    }

    fn next_wake(&self) -> Option<Time> {
        let (flow, client) = self.client.as_ref()?;
        [flow.next_wake(), client.next_wake()].into_iter().flatten().min()
    }

    fn observe(&mut self, counters: &mut FlowCounters) {
        let mut connections = Connections::default();
        let client = self.client.as_ref().map(|(_, client)| client);
        let mut answering = None;
        if let Some(Accepting::Answers(server)) = &self.server {
            server.ends().for_each(|end| connections.add_retransmits(end.socket.as_fd()));
            answering = server.ends().next().map(|end| end.socket.as_fd());
        }
        let first = client.and_then(|client| client.ends().next());
        if let (Some(meter), Some(first)) = (&mut self.meter, first) {
            meter.observe(counters, first.socket.as_fd(), answering);
        }
        if let Some(client) = client {
            connections.add_past(client.past_retransmits());
            client.ends().for_each(|end| connections.add(end.socket.as_fd()));
        }
        connections.report(counters);
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        match &mut self.server {
            Some(Accepting::Receives(receivers)) => receivers.close(scope),
            Some(Accepting::Answers(server)) => {
                for end in server.ends() {
                    // If this fails, the connection no longer exists.
                    let _ = socket::reset_on_close(end.socket.as_fd());
                }
            }
            None => {}
        }
        if let Some((flow, client)) = &mut self.client {
            flow.close(&mut Wire { client, scope });
        }
    }
}
