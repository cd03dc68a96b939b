//! Requests in UDP datagrams, each answered or timed out before the next is sent.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use base::{FlowId, Time};
use run::{Datagrams, FlowCounters};
use sys::socket::{self, Interest, Readiness};
use workload::datagram::{Header, LENGTH};
use workload::{QueriesFlow, QueryStep, Report};

use super::rendezvous::{RECEIVER_SLOT, Rendezvous};
use super::traffic::{Endpoints, Progress, Scope};
use super::{Placed, enter};

/// Requested size of socket buffers.
pub(super) const SOCKET_BUFFER_BYTES: usize = 256 << 10;

const CLIENT_SLOT: u32 = 1;

/// Slot 0 is the server, slot 1 the client.
pub(super) struct Queries {
    flow: FlowId,
    client: Option<Client>,
    server: Option<OwnedFd>,
    response: usize,
    damaged: u64,
}

struct Client {
    socket: OwnedFd,
    flow: QueriesFlow,
}

impl Queries {
    pub(super) fn open(
        spec: &Arc<workload::Queries>,
        placed: &Placed,
        rendezvous: Rendezvous,
        scope: &Scope<'_>,
    ) -> sys::Result<Self> {
        let Rendezvous { receiver: server, to, mut from } = rendezvous;
        let mut client = None;
        if let Some(netns) = &placed.netns[0] {
            enter(netns)?;
            let (socket, at) = socket::udp_at(from, placed.flow.dscp, SOCKET_BUFFER_BYTES)?;
            from = at;
            socket::set_peer(socket.as_fd(), to)?;
            socket::set_arrival_stamps(socket.as_fd())?;
            scope.add(&socket, CLIENT_SLOT, Interest::Read)?;
            let thoughts = scope.random(&placed.flow.name, "thoughts");
            client =
                Some(Client { socket, flow: QueriesFlow::open(spec, scope.start(), thoughts) });
        }
        if let (Some(server), Some(netns)) = (&server, &placed.netns[1]) {
            enter(netns)?;
            socket::set_peer(server.as_fd(), from)?;
        }
        Ok(Self { flow: placed.id, client, server, response: rest(spec.response), damaged: 0 })
    }

    /// Sends a response to every received request.
    fn answer(&mut self, scope: &Scope<'_>) {
        let Some(server) = &self.server else { return };
        let mut heads = Vec::new();
        let damaged = &mut self.damaged;
        let got =
            socket::receive_datagrams::<LENGTH>(server.as_fd(), |arrival| {
                match Header::decode(&arrival.head[..arrival.length.min(LENGTH)]) {
                    Some(header) => heads.push(header.encode()),
                    None => *damaged += 1,
                }
            });
        // An ICMP error (RFC 1122, 4.1.3.3) does not end the flow.
        if got.is_err() {
            return;
        }
        for head in heads {
            let rest = &scope.payload[..self.response];
            // A rejected response counts as lost, like a rejected request.
            let _ = socket::send_datagrams(server.as_fd(), &[head], rest);
        }
    }

    fn on_responses(&mut self, scope: &mut Scope<'_>) -> Progress {
        let Some(client) = &mut self.client else { return Progress::Going };
        let (mut arrived, damaged, clock) = (Vec::new(), &mut self.damaged, scope.clock);
        let _ = socket::receive_datagrams::<LENGTH>(client.socket.as_fd(), |arrival| {
            match Header::decode(&arrival.head[..arrival.length.min(LENGTH)]) {
                Some(header) => arrived.push((header.sequence, clock.time_at(arrival.at))),
                None => *damaged += 1,
            }
        });
        for (number, at) in arrived {
            let Some((latency, step)) = client.flow.on_response(scope.now(), number, at) else {
                continue;
            };
            scope.counters.received += (LENGTH + self.response) as u64;
            scope.counters.report(self.flow, None, Report::Response(latency));
            let progress = client.carry_out(scope, step);
            if progress != Progress::Going {
                return progress;
            }
        }
        Progress::Going
    }
}

/// Payload bytes of a datagram after its header.
fn rest(payload: base::Bytes) -> usize {
    (payload.count() as usize).saturating_sub(LENGTH)
}

impl Client {
    fn carry_out(&self, scope: &mut Scope<'_>, step: QueryStep) -> Progress {
        match step {
            QueryStep::Wait => {}
            QueryStep::Done => return Progress::Done(scope.now()),
            QueryStep::Send(sequence) => {
                let head = Header { sequence, sent: scope.now().as_nanos() }.encode();
                let rest = rest(self.flow.spec().request);
                let data = &scope.payload[..rest];
                // A datagram that the kernel rejects counts as lost: the request times out.
                if let Ok(Some(1..)) = socket::send_datagrams(self.socket.as_fd(), &[head], data) {
                    scope.counters.sent += (LENGTH + rest) as u64;
                }
            }
        }
        Progress::Going
    }
}

impl Endpoints for Queries {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        _readiness: Readiness,
    ) -> sys::Result<Progress> {
        if slot == RECEIVER_SLOT {
            self.answer(scope);
            return Ok(Progress::Going);
        }
        Ok(self.on_responses(scope))
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        let Some(client) = &mut self.client else { return Ok(Progress::Going) };
        let step = client.flow.on_wake(scope.now());
        Ok(client.carry_out(scope, step))
    }

    fn next_wake(&self) -> Option<Time> {
        self.client.as_ref().map(|client| client.flow.next_wake())
    }

    fn observe(&mut self, counters: &mut FlowCounters) {
        let counts = self.client.as_ref().map(|client| client.flow.counts());
        let damaged = self.damaged;
        counters.observe_datagrams(Datagrams { damaged, ..counts.unwrap_or_default() });
    }

    fn close(&mut self, _scope: &mut Scope<'_>) {}
}
