//! Applications: what flows do with the network. One kind a file.

mod assigned;
mod bulk;
mod paced;
mod queries;
mod requests;
mod rpc;
mod transfers;

use std::sync::Arc;

use base::{Bandwidth, Bytes, RandomStream, Span, Time};
use lab::plan::Traffic;
use outcome::{Ideal, Tally};
use record::Transfer;
use transport::tcp::{Config, Statistics};

use crate::multipath::{Shape, Streams};
use crate::net::{EndId, Net, State, mix};
pub(crate) use bulk::Bulk;
pub(crate) use paced::Paced;
pub(crate) use queries::Queries;
pub(crate) use requests::Requests;
pub(crate) use rpc::Rpc;
pub(crate) use transfers::Transfers;

/// A running application.
#[derive(Debug)]
pub(crate) enum App {
    Bulk(Box<Bulk>),
    Transfers(Box<Transfers>),
    Paced(Box<Paced>),
    Rpc(Rpc),
    Requests(Box<Requests>),
    Queries(Box<Queries>),
}

/// How far a flow has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It goes on.
    Going,
    /// Everything was delivered, the last of it at this time.
    Done(Time),
    /// It was cut short, and ended at this time.
    Cut(Time),
    /// Its connection broke.
    Failed(&'static str),
}

/// What a flow is given for all of its runs.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    /// Its number in the sorted plan.
    pub(crate) flow: u32,
    /// Its number in the original plan.
    pub(crate) id: base::FlowId,
    /// Keys its random streams.
    pub(crate) name: Box<str>,
    pub(crate) start: Time,
    /// As the plan has it; shared by flows that do the same.
    pub(crate) spec: Arc<Spec>,
    /// Tells its packets from other flows'.
    pub(crate) hash: u32,
    /// How its connections behave; shared by flows whose behave alike.
    pub(crate) config: Arc<Config>,
    /// Shared by flows whose paths are alike.
    pub(crate) ideal: Arc<Ideal>,
    /// How it uses several paths, if it does.
    pub(crate) multipath: Option<Arc<Shape>>,
}

/// What a flow does.
#[derive(Debug, PartialEq)]
pub(crate) struct Spec {
    pub(crate) traffic: Traffic,
    /// It ends after this even if it has more to send.
    pub(crate) duration: Option<Span>,
    /// The run's seed.
    pub(crate) seed: u64,
}

impl Spec {
    /// Whether it ends by itself.
    pub(crate) fn is_finite(&self) -> bool {
        let amount = match &self.traffic {
            Traffic::Bulk { size, .. }
            | Traffic::Paced { size, .. }
            | Traffic::Controlled { size, .. } => size.is_some(),
            Traffic::Rpc { count, .. }
            | Traffic::Transfers { count, .. }
            | Traffic::Requests { count, .. }
            | Traffic::Queries { count, .. } => count.is_some(),
        };
        amount || self.duration.is_some()
    }
}

impl Given {
    /// The random stream of one of its purposes.
    pub(crate) fn stream(&self, purpose: &str) -> RandomStream {
        RandomStream::new(self.spec.seed, &format!("flow/{}/{purpose}", self.name))
    }
}

/// What an application may use while it is called.
pub(crate) struct Scope<'a> {
    pub(crate) net: &'a mut Net,
    /// What goes over several paths; connections are then streams.
    pub(crate) streams: Option<&'a mut Streams>,
    pub(crate) given: &'a Given,
    pub(crate) tally: &'a mut Tally,
    /// Transfers that are over.
    pub(crate) transfers: &'a mut Vec<Transfer>,
    /// Connections that the flow has opened so far.
    pub(crate) opened: &'a mut u32,
}

impl Scope<'_> {
    fn now(&self) -> Time {
        self.net.now
    }

    /// Opens a connection; `tag` comes back with everything that is heard of it. The caller
    /// flushes once it has written.
    fn connect(&mut self, tag: u32) -> u32 {
        if let Some(streams) = &mut self.streams {
            return streams.connect(self.net, tag);
        }
        *self.opened += 1;
        let hash = mix(self.given.hash, *self.opened);
        self.net.connect(self.given.flow, &self.given.config, hash, tag)
    }

    /// The application's own number for a connection, while there is one.
    fn tag(&mut self, connection: u32) -> Option<&mut u32> {
        match &mut self.streams {
            Some(streams) => streams.tag_mut(connection),
            None => self.net.connection(connection).map(|connection| &mut connection.tag),
        }
    }

    /// Gives payload to an end, which sends it when it is flushed.
    fn write(&mut self, connection: u32, side: usize, bytes: u64) {
        if let Some(streams) = &mut self.streams {
            streams.write(connection, side, bytes);
        } else if let Some(connection) = self.net.connection(connection) {
            connection.ends[side].tcp.write(bytes);
        }
    }

    /// Gives an end payload for ever.
    fn write_unlimited(&mut self, connection: u32, side: usize) {
        if let Some(streams) = &mut self.streams {
            streams.write_unlimited(connection, side);
        } else if let Some(connection) = self.net.connection(connection) {
            connection.ends[side].tcp.write_unlimited();
        }
    }

    /// No more will be written to an end.
    fn finish(&mut self, connection: u32, side: usize) {
        if let Some(streams) = &mut self.streams {
            streams.finish(connection, side);
        } else if let Some(connection) = self.net.connection(connection) {
            connection.ends[side].tcp.finish();
        }
    }

    /// Whether the server lets wait what arrives, instead of reading it.
    fn hold(&mut self, connection: u32, held: bool) {
        if let Some(streams) = &mut self.streams {
            streams.hold(connection, held);
        } else if let Some(connection) = self.net.connection(connection) {
            connection.ends[1].holds = held;
        }
    }

    /// What has waited for the server and is not held any more. Streams tell of it as of what
    /// arrives.
    fn take_waiting(&mut self, connection: u32) -> u64 {
        match self.streams {
            Some(_) => 0,
            None => self.net.connection(connection).map_or(0, |entry| entry.ends[1].read()),
        }
    }

    /// Sends what an end has to send.
    pub(crate) fn flush(&mut self, end: EndId) {
        match &mut self.streams {
            Some(streams) => streams.flush(self.net, end.connection()),
            None => self.net.flush(end),
        }
    }

    /// Whether both ends of a connection are closed.
    fn is_over(&mut self, connection: u32) -> bool {
        if let Some(streams) = &self.streams {
            return streams.is_over(connection);
        }
        let entry = self.net.connection(connection);
        entry.is_none_or(|entry| entry.ends.iter().all(|end| end.tcp.is_closed()))
    }

    /// Forgets a connection that is over.
    fn forget(&mut self, connection: u32) {
        match &mut self.streams {
            Some(streams) => streams.forget(connection),
            None => self.net.close(connection),
        }
    }

    /// Resets a connection and forgets it.
    fn reset(&mut self, connection: u32) {
        if let Some(streams) = &mut self.streams {
            return streams.reset(self.net, connection);
        }
        if let Some(entry) = self.net.connection(connection) {
            entry.ends[0].tcp.abort();
            self.net.flush(EndId::new(connection, 0));
        }
        self.net.close(connection);
    }

    /// What both ends know of a connection.
    fn statistics(&self, connection: u32) -> Option<[Statistics; 2]> {
        match &self.streams {
            Some(streams) => streams.statistics(self.net, connection),
            None => self.net.statistics(connection),
        }
    }

    /// Payload that the client has sent over a connection, repetitions left out.
    fn sent(&self, connection: u32) -> u64 {
        if let Some(streams) = &self.streams {
            return streams.sent(connection);
        }
        let statistics = self.net.statistics(connection);
        statistics.map_or(0, |[client, _]| (client.acked + client.in_flight).count())
    }
}

/// What an application hears of one of its connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    pub(crate) end: EndId,
    /// Payload that arrived in order.
    pub(crate) bytes: u64,
    /// The end's state, if it is new.
    pub(crate) state: Option<State>,
}

impl News {
    fn is_closed(&self) -> bool {
        self.state.is_some_and(|state| state.closed)
    }
}

impl App {
    /// Begins a run of a flow.
    pub(crate) fn open(scope: &mut Scope<'_>) -> Self {
        let given = scope.given;
        match &given.spec.traffic {
            Traffic::Bulk { size, streams, rate, pause, .. } => {
                Self::Bulk(Box::new(Bulk::open(scope, *size, *streams, *rate, *pause)))
            }
            Traffic::Transfers { sizes, arrivals, count, .. } => {
                Self::Transfers(Box::new(Transfers::open(scope, sizes, arrivals, *count)))
            }
            Traffic::Paced { .. } | Traffic::Controlled { .. } => {
                Self::Paced(Box::new(Paced::open(scope)))
            }
            Traffic::Rpc { .. } => Self::Rpc(Rpc::open(scope)),
            Traffic::Requests { .. } => Self::Requests(Box::new(Requests::open(scope))),
            Traffic::Queries { .. } => Self::Queries(Box::new(Queries::open(scope))),
        }
    }

    /// When to call [`Self::on_wake`].
    pub(crate) fn deadline(&self, given: &Given) -> Option<Time> {
        match self {
            Self::Bulk(app) => app.deadline(),
            Self::Transfers(app) => app.deadline(),
            Self::Paced(app) => Some(app.deadline()),
            Self::Rpc(app) => app.deadline(),
            Self::Requests(app) => app.deadline(),
            Self::Queries(app) => Some(app.deadline(given)),
        }
    }

    /// The deadline has come.
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

    /// Payload has arrived over a connection, or its state has changed. The end is flushed
    /// afterwards.
    pub(crate) fn on_news(&mut self, scope: &mut Scope<'_>, news: &News) -> Progress {
        match self {
            Self::Bulk(app) => app.on_news(scope, news),
            Self::Transfers(app) => app.on_news(scope, news),
            Self::Paced(_) | Self::Queries(_) => Progress::Going,
            Self::Rpc(app) => app.on_news(scope, news),
            Self::Requests(app) => app.on_news(scope, news),
        }
    }

    /// A datagram has arrived whole that was sent with this hash; for those that answer them.
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

    /// The flow's duration is over: send no more.
    pub(crate) fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        match self {
            Self::Paced(app) => app.expire(scope),
            _ => Progress::Cut(scope.now()),
        }
    }

    /// Rate control says what data may use; `None`: nothing, for now.
    pub(crate) fn on_rate(&mut self, now: Time, rate: Option<Bandwidth>) -> Progress {
        if let Self::Paced(app) = self {
            app.on_rate(now, rate);
        }
        Progress::Going
    }

    /// Counts what the connections count.
    pub(crate) fn observe(&mut self, scope: &mut Scope<'_>) {
        match self {
            Self::Bulk(app) => app.observe(scope),
            Self::Transfers(app) => app.observe(scope),
            Self::Paced(app) => app.observe(scope.tally),
            Self::Rpc(app) => app.observe(scope),
            Self::Requests(app) => app.observe(scope),
            Self::Queries(app) => app.observe(scope.tally),
        }
        if let Some(streams) = &mut scope.streams {
            streams.observe(scope.net, scope.tally);
        }
    }

    /// The flow is over: nothing is waited for any more. [`Self::observe`] and [`Self::close`]
    /// follow.
    pub(crate) fn cease(&mut self, now: Time) {
        if let Self::Paced(app) = self {
            app.cease(now);
        }
    }

    /// Closes the connections.
    pub(crate) fn close(&mut self, scope: &mut Scope<'_>) {
        match self {
            Self::Bulk(app) => app.close(scope),
            Self::Transfers(app) => app.close(scope),
            Self::Paced(app) => app.close(scope),
            Self::Rpc(app) => app.close(scope),
            Self::Requests(app) => app.close(scope),
            Self::Queries(_) => {}
        }
    }
}

/// Round-trip time, congestion window and retransmissions of some connections.
#[derive(Clone, Copy, Debug, Default)]
struct Observed {
    count: u64,
    srtt_nanos: u64,
    window: Bytes,
    retransmits: u64,
    timeouts: u64,
}

impl Observed {
    /// Takes in the sending end of a connection, and of the other end its retransmissions.
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

    /// Puts the mean round-trip time and the sums into `tally`.
    fn report(&self, tally: &mut Tally) {
        tally.retransmits = self.retransmits;
        tally.timeouts = Some(self.timeouts);
        if let Some(mean) = self.srtt_nanos.checked_div(self.count) {
            tally.srtt = Some(Span::from_nanos(mean));
            tally.window_bytes = Some(self.window.count());
        }
    }
}
