//! Requests and responses in UDP datagrams.

use std::sync::Arc;

use run::FlowCounters;
use workload::{Progress, QueriesFlow, QueryStep, Report};

use super::Scope;
use crate::net::mix;

#[derive(Debug)]
pub(crate) struct Queries {
    client: QueriesFlow,
    /// Hash of the client's datagrams; the hash of the server's is derived from it.
    hash: u32,
}

impl Queries {
    pub(super) fn open(spec: &Arc<workload::Queries>, scope: &mut Scope<'_>) -> Self {
        *scope.opened += 1;
        let client = QueriesFlow::open(spec, scope.net.now, scope.parameters.stream("thoughts"));
        Self { client, hash: mix(scope.parameters.hash, *scope.opened) }
    }

    pub(super) fn next_wake(&self) -> base::Time {
        self.client.next_wake()
    }

    pub(super) fn on_wake(&mut self, scope: &mut Scope<'_>) -> Progress {
        let step = self.client.on_wake(scope.net.now);
        self.carry_out(scope, step)
    }

    fn carry_out(&self, scope: &mut Scope<'_>, step: QueryStep) -> Progress {
        match step {
            QueryStep::Wait => {}
            QueryStep::Done => return Progress::Done(scope.net.now),
            QueryStep::Send(number) => {
                let request = payload(self.client.spec().request);
                scope.net.send_datagram(scope.parameters.flow, 0, self.hash, number, request);
                scope.tally.sent += u64::from(request);
            }
        }
        Progress::Going
    }

    /// Handles a datagram that was sent with this hash.
    pub(super) fn on_datagram(
        &mut self,
        scope: &mut Scope<'_>,
        hash: u32,
        sequence: u64,
    ) -> Progress {
        let response = payload(self.client.spec().response);
        let of_server = mix(self.hash, 1);
        if hash == self.hash {
            scope.net.send_datagram(scope.parameters.flow, 1, of_server, sequence, response);
            return Progress::Going;
        }
        let now = scope.net.now;
        if hash != of_server {
            return Progress::Going;
        }
        let Some((latency, step)) = self.client.on_response(now, sequence, now) else {
            return Progress::Going;
        };
        scope.tally.received += u64::from(response);
        scope.tally.report(scope.parameters.id, None, Report::Response(latency));
        self.carry_out(scope, step)
    }

    pub(super) fn observe(&self, tally: &mut FlowCounters) {
        tally.observe_datagrams(self.client.counts());
    }
}

fn payload(size: base::Bytes) -> u32 {
    u32::try_from(size.count()).unwrap_or(u32::MAX)
}
