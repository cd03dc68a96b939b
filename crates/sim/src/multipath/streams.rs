//! The streams of a flow, and their subflows over the network.

mod driving;
mod observing;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::Time;
use fabric::EventQueue;
use mctcp::acceptor::ConnectionId;

use super::Shape;
use super::door::Door;
use super::stream::{Slab, Stream};
use super::subflow::Subflow;
use crate::app::{Given, News};
use crate::net::{EndId, Net};

/// The entry of the server's acceptor among the timers.
const DOOR: u32 = u32::MAX;

/// All streams of a flow.
#[derive(Debug)]
pub(crate) struct Streams {
    shape: Arc<Shape>,
    flow: u32,
    hash: u32,
    seeds: base::RandomStream,
    all: Slab<Stream>,
    subflows: Slab<Subflow>,
    door: Door,
    /// Connections that the acceptor has not decided on, and their subflows.
    doubtful: BTreeMap<ConnectionId, u32>,
    wakes: EventQueue<u32>,
    door_armed: Time,
    /// What applications have not heard yet; connections are numbers of streams.
    news: VecDeque<News>,
    /// Ends of subflows to which something was written, or whose TCP has moved.
    moved: Vec<(u32, usize)>,
    /// Subflows with a side that is over.
    ending: Vec<u32>,
    /// Subflows opened so far, and before the present run.
    opened: u32,
    before: u32,
    /// What is to be told of subflows and sessions that are gone.
    gone: Gone,
}

/// What subflows and sessions had counted that are gone.
#[derive(Debug, Default)]
struct Gone {
    subflows: Vec<outcome::Subflow>,
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

/// What applications ask of their streams.
impl Streams {
    pub(crate) fn new(given: &Given, shape: &Arc<Shape>) -> Self {
        let mut seeds = given.stream("sessions");
        let credit = shape.settings.receive_buffer.count();
        Self {
            door: Door::new(&shape.settings, credit, seed(&mut seeds)),
            shape: Arc::clone(shape),
            flow: given.flow,
            hash: given.hash,
            seeds,
            all: Slab::default(),
            subflows: Slab::default(),
            doubtful: BTreeMap::new(),
            wakes: EventQueue::default(),
            door_armed: Time::MAX,
            news: VecDeque::new(),
            moved: Vec::new(),
            opened: 0,
            ending: Vec::new(),
            before: 0,
            gone: Gone::default(),
        }
    }

    /// Opens a stream; `tag` comes back with [`Self::tag`].
    pub(crate) fn connect(&mut self, net: &Net, tag: u32) -> u32 {
        let seed = seed(&mut self.seeds);
        self.all.insert(Stream::connect(net.now, &self.shape, seed, tag))
    }

    pub(crate) fn tag_mut(&mut self, id: u32) -> Option<&mut u32> {
        self.all.get_mut(id).map(|stream| &mut stream.tag)
    }

    /// To be sent once it is flushed.
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

    /// Whether the server lets wait what arrives, instead of reading it.
    pub(crate) fn hold(&mut self, id: u32, held: bool) {
        if let Some(stream) = self.all.get_mut(id) {
            stream.hold(held);
        }
    }

    /// Sends what there is to send.
    pub(crate) fn flush(&mut self, net: &mut Net, id: u32) {
        self.settle(net, id);
    }

    /// Whether both ends are closed.
    pub(crate) fn is_over(&self, id: u32) -> bool {
        self.all.get(id).is_none_or(|stream| stream.ends.iter().all(|end| end.known.closed))
    }

    /// Resets a stream and forgets it.
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

    /// The application is done with a stream, whose connections end by themselves.
    pub(crate) fn forget(&mut self, id: u32) {
        if let Some(stream) = self.all.get_mut(id) {
            stream.forgotten = true;
            if stream.subflows.is_empty() {
                self.drop_stream(id);
            }
        }
    }

    /// The present run of the flow is over: what is left is reset.
    pub(crate) fn end_run(&mut self, net: &mut Net, tally: &mut outcome::Tally) {
        let left: Vec<u32> = self.all.keys().collect();
        for id in left {
            self.reset(net, id);
        }
        self.observe(net, tally);
        self.news.clear();
        self.gone = Gone::default();
        self.before = self.opened;
    }

    /// What applications have not heard yet; connections are numbers of streams.
    pub(crate) fn take_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }
}
