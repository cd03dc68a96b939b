//! The streams of a flow, and their subflows over the network.

mod driving;
mod observing;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::Time;
use fabric::EventQueue;
use mctcp::acceptor::ConnectionId;

use super::Shape;
use super::pending::PendingConnections;
use super::stream::{Slab, Stream};
use super::subflow::Subflow;
use crate::app::{ConnectionEvent, FlowParameters};
use crate::net::{EndId, Net};

/// The acceptor's timer key.
const PENDING: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Streams {
    shape: Arc<Shape>,
    flow: u32,
    hash: u32,
    seeds: base::RandomStream,
    all: Slab<Stream>,
    subflows: Slab<Subflow>,
    pending: PendingConnections,
    /// Connections that the acceptor has not decided on, and their subflows.
    doubtful: BTreeMap<ConnectionId, u32>,
    wakes: EventQueue<u32>,
    pending_armed: Time,
    /// Events for applications; connection numbers are stream numbers.
    events: VecDeque<ConnectionEvent>,
    /// Subflow ends with new data to send or progress in TCP.
    moved: Vec<(u32, usize)>,
    /// Subflows that have ended on a side.
    ending: Vec<u32>,
    /// Number of subflows opened, in total and before the current run.
    opened: u32,
    before: u32,
    /// Counters of removed subflows and sessions.
    gone: Gone,
}

/// Counters of removed subflows and sessions.
#[derive(Debug, Default)]
struct Gone {
    subflows: Vec<run::Subflow>,
    reinjected: u64,
    reorder: u64,
}

fn seed(random: &mut base::RandomStream) -> [u8; 32] {
    let mut seed = [0; 32];
    for piece in seed.chunks_exact_mut(8) {
        piece.copy_from_slice(&random.bits().to_le_bytes());
    }
    seed
}

/// The operations of applications on their streams.
impl Streams {
    pub(crate) fn new(parameters: &FlowParameters, shape: &Arc<Shape>) -> Self {
        let mut seeds = parameters.stream("sessions");
        let credit = shape.settings.receive_buffer.count();
        Self {
            pending: PendingConnections::new(&shape.settings, credit, seed(&mut seeds)),
            shape: Arc::clone(shape),
            flow: parameters.flow,
            hash: parameters.hash,
            seeds,
            all: Slab::default(),
            subflows: Slab::default(),
            doubtful: BTreeMap::new(),
            wakes: EventQueue::default(),
            pending_armed: Time::MAX,
            events: VecDeque::new(),
            moved: Vec::new(),
            opened: 0,
            ending: Vec::new(),
            before: 0,
            gone: Gone::default(),
        }
    }

    /// Opens a stream; [`Self::tag`] returns `tag`.
    pub(crate) fn connect(&mut self, net: &Net, tag: u32) -> u32 {
        let seed = seed(&mut self.seeds);
        self.all.insert(Stream::connect(net.now, &self.shape, seed, tag))
    }

    pub(crate) fn tag_mut(&mut self, id: u32) -> Option<&mut u32> {
        self.all.get_mut(id).map(|stream| &mut stream.tag)
    }

    /// Queues payload at an end; `flush` sends it.
    pub(crate) fn write(&mut self, id: u32, side: usize, bytes: u64) {
        if let Some(stream) = self.all.get_mut(id) {
            stream.write(side, bytes);
        }
    }

    pub(crate) fn write_unlimited(&mut self, id: u32, side: usize) {
        if let Some(stream) = self.all.get_mut(id) {
            stream.write_unlimited(side);
        }
    }

    pub(crate) fn finish(&mut self, id: u32, side: usize) {
        if let Some(stream) = self.all.get_mut(id) {
            stream.finish(side);
        }
    }

    /// Whether the server leaves received data in the receive buffer instead of reading it.
    pub(crate) fn hold(&mut self, id: u32, held: bool) {
        if let Some(stream) = self.all.get_mut(id) {
            stream.hold(held);
        }
    }

    /// Sends queued data.
    pub(crate) fn flush(&mut self, net: &mut Net, id: u32) {
        self.settle(net, id);
    }

    /// Whether both ends are closed.
    pub(crate) fn is_over(&self, id: u32) -> bool {
        self.all.get(id).is_none_or(|stream| stream.ends.iter().all(|end| end.known.closed))
    }

    /// Resets a stream and removes it.
    pub(crate) fn reset(&mut self, net: &mut Net, id: u32) {
        let Some(stream) = self.all.get_mut(id) else { return };
        stream.forgotten = true;
        for at in stream.subflows.clone() {
            if let Some(subflow) = self.subflows.get(at)
                && let Some(connection) = net.connection(subflow.connection)
            {
                connection.ends[0].tcp.abort();
                net.flush(EndId::new(subflow.connection, 0));
            }
            self.remove(net, at);
        }
        self.drop_stream(id);
    }

    /// Releases a stream: the application has closed it, and its connections end without it.
    pub(crate) fn forget(&mut self, id: u32) {
        if let Some(stream) = self.all.get_mut(id) {
            stream.forgotten = true;
            if stream.subflows.is_empty() {
                self.drop_stream(id);
            }
        }
    }

    /// Ends the current run of the flow: resets the remaining streams.
    pub(crate) fn end_run(&mut self, net: &mut Net, tally: &mut run::FlowCounters) {
        let left: Vec<u32> = self.all.keys().collect();
        for id in left {
            self.reset(net, id);
        }
        self.observe(net, tally);
        self.events.clear();
        self.gone = Gone::default();
        self.before = self.opened;
    }

    /// The next event for the application; connection numbers are stream numbers.
    pub(crate) fn take_event(&mut self) -> Option<ConnectionEvent> {
        self.events.pop_front()
    }
}
