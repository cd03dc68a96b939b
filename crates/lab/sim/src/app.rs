//! The traffic applications of flows, one module for each kind.
//!
//! This module and `multipath` depend on each other: a flow's parameters include its multipath
//! configuration, and multipath sessions pass stream events to the application.

mod bulk;
mod connections;
mod paced;
mod queries;

use std::sync::Arc;

use base::{Bandwidth, Bytes, RandomStream, Span, Time};
use lab::plan::Traffic;
use run::{FlowCounters, Ideal, Transfer};
use transport::tcp::{Config, Statistics};
pub(crate) use workload::Progress;
use workload::{BulkFlow, RequestsFlow, RpcFlow, TransfersFlow, Workload};

use crate::multipath::{Shape, Streams};
use crate::net::{EndId, Net, State, mix};
pub(crate) use bulk::Bulk;
pub(crate) use paced::Paced;
pub(crate) use queries::Queries;

#[derive(Debug)]
pub(crate) enum App {
    Bulk(Box<Bulk>),
    Transfers(Box<TransfersFlow>),
    Paced(Box<Paced>),
    Rpc(RpcFlow),
    Requests(Box<RequestsFlow>),
    Queries(Box<Queries>),
}

/// Parameters of a flow, constant over all of its runs.
#[derive(Clone, Debug)]
pub(crate) struct FlowParameters {
    /// Its number in the sorted plan.
    pub(crate) flow: u32,
    /// Its number in the original plan.
    pub(crate) id: base::FlowId,
    /// Key of its random streams.
    pub(crate) name: Box<str>,
    pub(crate) start: Time,
    /// The plan's settings; flows with equal settings share them.
    pub(crate) spec: Arc<Spec>,
    /// Distinguishes its packets from those of other flows.
    pub(crate) hash: u32,
    /// TCP configuration; flows with equal configurations share it.
    pub(crate) config: Arc<Config>,
    /// Completion times without other traffic; flows with equal paths share them.
    pub(crate) ideal: Arc<Ideal>,
    /// `None` for flows over a single path.
    pub(crate) multipath: Option<Arc<Shape>>,
}

/// Traffic and duration of a flow.
#[derive(Debug, PartialEq)]
pub(crate) struct Spec {
    pub(crate) traffic: Traffic,
    /// The flow ends after this time even if it has more to send.
    pub(crate) duration: Option<Span>,
    pub(crate) seed: u64,
}

impl Spec {
    /// Whether the flow ends without a stop event: it has a duration or its traffic is finite.
    pub(crate) fn is_finite(&self) -> bool {
        self.traffic.is_finite() || self.duration.is_some()
    }
}

impl FlowParameters {
    pub(crate) fn stream(&self, purpose: &str) -> RandomStream {
        RandomStream::new(self.spec.seed, &format!("flow/{}/{purpose}", self.name))
    }
}

/// The context of a call to an application.
pub(crate) struct Scope<'a> {
    pub(crate) net: &'a mut Net,
    /// Multipath streams. If present, connection numbers are stream numbers.
    pub(crate) streams: Option<&'a mut Streams>,
    pub(crate) parameters: &'a FlowParameters,
    pub(crate) tally: &'a mut FlowCounters,
    pub(crate) transfers: &'a mut Vec<Transfer>,
    /// Number of connections that the flow has opened.
    pub(crate) opened: &'a mut u32,
    /// Counters of connections that the current run has closed.
    pub(crate) past: &'a mut Option<Box<Observed>>,
}

impl Scope<'_> {
    /// Opens a connection with a tag. The caller calls `flush` after it has written.
    fn open(&mut self, tag: u32) -> u32 {
        if let Some(streams) = &mut self.streams {
            return streams.driver().connect(self.net.now, tag);
        }
        *self.opened += 1;
        let hash = mix(self.parameters.hash, *self.opened);
        self.net.connect(self.parameters.flow, &self.parameters.config, hash, tag)
    }

    /// The application's tag of a connection, if the connection exists.
    fn tag_mut(&mut self, connection: u32) -> Option<&mut u32> {
        match &mut self.streams {
            Some(streams) => streams.driver().tag_mut(connection),
            None => self.net.connection(connection).map(|connection| &mut connection.tag),
        }
    }

    /// Queues payload at an end; `flush` sends it.
    fn write(&mut self, connection: u32, side: usize, bytes: u64) {
        if let Some(streams) = &mut self.streams {
            streams.driver().write(connection, side, bytes);
        } else if let Some(connection) = self.net.connection(connection) {
            connection.ends[side].tcp.write(bytes);
        }
    }

    /// Queues an unlimited amount of payload at an end.
    fn write_unlimited(&mut self, connection: u32, side: usize) {
        if let Some(streams) = &mut self.streams {
            streams.driver().write(connection, side, u64::MAX);
        } else if let Some(connection) = self.net.connection(connection) {
            connection.ends[side].tcp.write_unlimited();
        }
    }

    /// Closes an end for writing.
    fn finish(&mut self, connection: u32, side: usize) {
        if let Some(streams) = &mut self.streams {
            streams.driver().finish(connection, side);
        } else if let Some(connection) = self.net.connection(connection) {
            connection.ends[side].tcp.finish();
        }
    }

    /// Whether the server leaves received data in the receive buffer instead of reading it.
    fn hold(&mut self, connection: u32, held: bool) {
        if let Some(streams) = &mut self.streams {
            streams.driver().hold(connection, held);
        } else if let Some(connection) = self.net.connection(connection) {
            connection.ends[1].holds = held;
        }
    }

    /// Takes data that was buffered while the server did not read. Streams report this data like
    /// newly received data.
    fn take_waiting(&mut self, connection: u32) -> u64 {
        match self.streams {
            Some(_) => 0,
            None => self.net.connection(connection).map_or(0, |entry| entry.ends[1].read()),
        }
    }

    /// Sends the queued segments of an end.
    pub(crate) fn flush(&mut self, end: EndId) {
        match &mut self.streams {
            Some(streams) => streams.flush(self.net, end.connection()),
            None => self.net.flush(end),
        }
    }

    /// TCP statistics of both ends of a connection.
    fn statistics(&self, connection: u32) -> Option<[Statistics; 2]> {
        match &self.streams {
            Some(streams) => streams.statistics(self.net, connection),
            None => self.net.statistics(connection),
        }
    }

    /// Payload that the client has sent over a connection, without retransmissions.
    fn sent(&self, connection: u32) -> u64 {
        if let Some(streams) = &self.streams {
            return streams.sent(connection);
        }
        let statistics = self.net.statistics(connection);
        statistics.map_or(0, |[client, _]| (client.acked + client.in_flight).count())
    }
}

/// An event of one of the application's connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionEvent {
    pub(crate) end: EndId,
    /// Payload received in order.
    pub(crate) bytes: u64,
    /// The end's state, if it has changed.
    pub(crate) state: Option<State>,
}

impl ConnectionEvent {
    fn is_closed(&self) -> bool {
        self.state.is_some_and(|state| state.closed)
    }
}

impl App {
    /// Starts a run of a flow.
    pub(crate) fn open(scope: &mut Scope<'_>) -> Self {
        let parameters = scope.parameters;
        match &parameters.spec.traffic {
            Traffic::Bulk { size, streams, rate, pause, .. } => {
                let flow = BulkFlow::open((*size, *rate), *pause, *streams, scope.net.now);
                Self::Bulk(Box::new(Bulk::open(scope, flow, *streams)))
            }
            Traffic::Transfers { spec, .. } => {
                Self::Transfers(Box::new(TransfersFlow::open(spec, scope)))
            }
            Traffic::Paced { rate, packet, size, pattern } => {
                Self::Paced(Box::new(Paced::open(scope, (*rate, *packet, *size), pattern)))
            }
            Traffic::Controlled { demand, packet, size } => {
                Self::Paced(Box::new(Paced::controlled(scope, *demand, *packet, *size)))
            }
            Traffic::Rpc { spec, .. } => Self::Rpc(RpcFlow::open(spec, scope)),
            Traffic::Requests { spec, .. } => {
                Self::Requests(Box::new(RequestsFlow::open(spec, scope)))
            }
            Traffic::Queries(spec) => Self::Queries(Box::new(Queries::open(spec, scope))),
        }
    }

    /// The next deadline, at which [`Self::on_wake`] must be called.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        match self {
            Self::Bulk(app) => app.next_wake(),
            Self::Transfers(app) => app.next_wake(),
            Self::Paced(app) => app.next_wake(),
            Self::Rpc(app) => app.next_wake(),
            Self::Requests(app) => app.next_wake(),
            Self::Queries(app) => Some(app.next_wake()),
        }
    }

    /// Handles the deadline of [`Self::next_wake`].
    pub(crate) fn on_wake(&mut self, scope: &mut Scope<'_>) -> Progress {
        match self {
            Self::Bulk(app) => app.on_wake(scope),
            Self::Transfers(app) => app.on_wake(scope),
            Self::Paced(app) => app.on_wake(scope),
            Self::Rpc(app) => app.on_wake(scope),
            Self::Requests(app) => app.on_wake(scope),
            Self::Queries(app) => app.on_wake(scope),
        }
    }

    /// Handles received payload or a changed connection state. The caller flushes
    /// the end afterwards.
    pub(crate) fn on_event(&mut self, scope: &mut Scope<'_>, event: &ConnectionEvent) -> Progress {
        match self {
            Self::Bulk(app) => app.on_event(scope, event),
            Self::Transfers(app) => connections::on_event(&mut **app, scope, event),
            Self::Paced(_) | Self::Queries(_) => Progress::Going,
            Self::Rpc(app) => connections::on_event(app, scope, event),
            Self::Requests(app) => connections::on_event(&mut **app, scope, event),
        }
    }

    /// Handles an intact datagram that was sent with this hash; only request servers
    /// and clients do.
    pub(crate) fn on_datagram(
        &mut self,
        scope: &mut Scope<'_>,
        hash: u32,
        sequence: u64,
    ) -> Progress {
        match self {
            Self::Queries(app) => app.on_datagram(scope, hash, sequence),
            _ => Progress::Going,
        }
    }

    /// Handles the end of the flow's duration: stops sending.
    pub(crate) fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        match self {
            Self::Paced(app) => app.expire(scope),
            _ => Progress::Cut(scope.net.now),
        }
    }

    /// Applies a new rate from rate control; `None` pauses the flow.
    pub(crate) fn on_rate(&mut self, now: Time, rate: Option<Bandwidth>) -> Progress {
        if let Self::Paced(app) = self {
            app.on_rate(now, rate);
        }
        Progress::Going
    }

    /// Updates the flow's counters from its connections.
    pub(crate) fn observe(&mut self, scope: &mut Scope<'_>) {
        match self {
            Self::Bulk(app) => app.observe(scope),
            Self::Transfers(app) => connections::observe(&**app, scope),
            Self::Paced(app) => app.observe(scope.tally),
            Self::Rpc(app) => connections::observe(app, scope),
            Self::Requests(app) => connections::observe(&**app, scope),
            Self::Queries(app) => app.observe(scope.tally),
        }
        if let Some(streams) = &mut scope.streams {
            streams.observe(scope.net, scope.tally);
        }
    }

    /// Ends the flow: later arrivals do not count. [`Self::observe`] and [`Self::close`] follow.
    pub(crate) fn cease(&mut self, now: Time) {
        if let Self::Paced(app) = self {
            app.cease(now);
        }
    }

    pub(crate) fn close(&mut self, scope: &mut Scope<'_>) {
        match self {
            Self::Bulk(app) => app.close(scope),
            Self::Transfers(app) => app.close(scope),
            Self::Paced(app) => app.leave(scope),
            Self::Rpc(app) => app.close(scope),
            Self::Requests(app) => app.close(scope),
            Self::Queries(_) => {}
        }
    }
}

/// RTT, congestion window and retransmissions of a set of connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observed {
    count: u64,
    srtt_nanos: u64,
    window: Bytes,
    retransmits: u64,
    timeouts: u64,
}

impl Observed {
    /// Adds the sending end of a connection, and the retransmissions of the receiving end.
    fn add(&mut self, scope: &Scope<'_>, connection: u32) {
        let Some(ends) = scope.statistics(connection) else { return };
        let [client, _] = &ends;
        if let Some(srtt) = client.srtt {
            self.count += 1;
            self.srtt_nanos += srtt.as_nanos();
            self.window += client.cwnd;
        }
        for statistics in &ends {
            self.retransmits += statistics.retransmits;
            self.timeouts += statistics.timeouts;
        }
    }

    /// Writes the mean RTT and the sums to `tally`.
    fn report(&self, tally: &mut FlowCounters) {
        tally.retransmits = self.retransmits;
        tally.timeouts = Some(self.timeouts);
        if let Some(mean) = self.srtt_nanos.checked_div(self.count) {
            tally.srtt = Some(Span::from_nanos(mean));
            tally.window_bytes = Some(self.window.count());
        }
    }
}
