//! Drives the sessions of both ends of streams over the connections of any [`Transport`], sans-IO.
//!
//! ```text
//! application → Driver: a session at each end → subflows → Transport: connections
//! ```
//!
//! The transport reports events with [`Driver::on_event`] and [`Driver::on_wake`], and passes the
//! events of [`Driver::take_event`] to the application. Side 0 is the client, side 1 the server.

mod stream;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::{Bytes, RandomStream, Time};

use crate::acceptor::{Acceptor, ConnectionId, Limits};
use crate::frame::Priority;
use crate::scheduler::SchedulerKind;
use crate::session::{End, Statistics, SubflowState};
use crate::{Error, Frame, PathId, PathInfo, Payload, Session, Settings, SubflowId};
use stream::{Slab, Stream};

/// Minimum buffer of a session.
const MIN_BUFFER: Bytes = Bytes::new(64 << 10);

/// A limit that no flow reaches: a lab may have any number of clients.
const UNLIMITED: usize = u32::MAX as usize;

/// The connections of subflows. `L` is the transport's state of a connection.
pub trait Transport<P, L> {
    /// The current time.
    fn now(&self) -> Time;
    /// Opens the connection of subflow `key`, the `number`th of the driver, on a path.
    fn open(&mut self, path: PathId, key: u32, number: u32) -> Option<L>;
    /// Queues a frame of one side; returns its length, which for the first frame includes the
    /// preamble.
    fn send(&mut self, link: &mut L, side: usize, path_seq: u32, frame: Frame<P>) -> u64;
    /// Sends the queued data of one side.
    fn flush(&mut self, link: &mut L, side: usize);
    /// The next input of one side.
    fn receive(&mut self, link: &mut L, side: usize) -> Option<Input<P>>;
    /// Number of bytes that one side accepts now.
    fn room(&mut self, link: &mut L, side: usize) -> u64;
    /// The TCP state of one side.
    fn info(&mut self, link: &mut L, side: usize) -> Option<PathInfo>;
    /// Closes one side after its queued data, or at once with a reset.
    fn close(&mut self, link: &mut L, side: usize, abort: bool);
    /// Whether one side is closed, so that it can be released.
    fn is_closed(&mut self, link: &mut L, side: usize) -> bool;
    /// Removes a connection; returns the retransmissions and timeouts of both its ends.
    fn release(&mut self, link: L, status: SubflowStatus) -> [u64; 2];
    /// At most `bytes` bytes of the stream of one side, from offset `at` on.
    fn produce(&mut self, side: usize, at: u64, bytes: u64) -> P;
    /// Takes bytes that the application of one side has received.
    fn consume(&mut self, side: usize, payload: P);
}

/// An input of one side of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<P> {
    /// The next frame and its number on the connection.
    Frame(u32, Frame<P>),
    /// The peer has violated the protocol.
    Violation(Error),
    /// The connection has ended.
    Ended(End),
}

/// Settings and paths of a driver's sessions.
#[derive(Clone, Debug)]
pub struct Setup {
    settings: Settings,
    paths: Vec<Priority>,
}

impl Setup {
    /// Sessions over paths that may be backups. Paths are repeated if there are more subflows.
    /// `window`: the requested size of socket buffers.
    pub fn new(
        scheduler: SchedulerKind,
        max_subflows: u8,
        backups: &[bool],
        window: Option<Bytes>,
    ) -> Self {
        let mut settings = Settings { scheduler, max_subflows, ..Settings::default() };
        if let Some(window) = window {
            // The kernel, too, doubles the requested size.
            let buffer = Bytes::new(2 * window.count()).max(MIN_BUFFER);
            (settings.send_buffer, settings.receive_buffer) = (buffer, buffer);
            settings.autotune = false;
        }
        let count = backups.len().max(usize::from(max_subflows));
        let path = |backup: &bool| Priority { backup: *backup, weight: 1 };
        let paths = backups.iter().cycle().take(count).map(path).collect();
        Self { settings, paths }
    }

    /// Maximum payload of a frame in bytes.
    pub fn max_frame(&self) -> u16 {
        self.settings.limits(false).frame
    }
}

/// A change at one end of a stream, for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEvent {
    /// The result of [`Driver::connect`].
    pub stream: u32,
    /// 0: the client, 1: the server.
    pub side: usize,
    /// Bytes received in order.
    pub bytes: u64,
    /// The end's state, if it has changed.
    pub state: Option<StreamState>,
}

/// State of an end of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    /// It is writable.
    pub established: bool,
    /// The peer's stream has ended and was read completely.
    pub finished: bool,
    /// The session has ended or failed.
    pub closed: bool,
}

/// A connection of a stream.
#[derive(Debug)]
pub struct Subflow<L> {
    /// The transport's state.
    pub link: L,
    stream: u32,
    path: PathId,
    number: u32,
    sides: [Side; 2],
    /// The acceptor's identifier for it, until the acceptor has decided.
    doubtful: Option<ConnectionId>,
    /// Number of the acceptor's frames that it has carried.
    answers: u32,
    /// The subflow identifier in its HELLO.
    greeted: Option<SubflowId>,
}

/// One end of a subflow.
#[derive(Debug, Default)]
struct Side {
    /// The session's identifier for it; `None` before it is assigned to the session.
    id: Option<SubflowId>,
    /// The TCP handshake is complete.
    up: bool,
    /// It has ended: the session or the acceptor was notified, or has closed it.
    over: bool,
    /// The free send buffer that was last reported to the session.
    room: u64,
    /// Payload bytes, retransmissions included.
    sent: u64,
    received: u64,
}

impl<L> Subflow<L> {
    /// Whether the TCP handshake of one side is complete.
    pub const fn is_up(&self, side: usize) -> bool {
        self.sides[side].up
    }
}

/// Status of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubflowStatus {
    /// Its number among the driver's subflows.
    pub number: u32,
    /// Its path.
    pub path: PathId,
    /// Payload bytes of both directions, retransmissions included.
    pub sent: u64,
    /// Received payload bytes of both directions.
    pub received: u64,
    /// Whether the client's TCP handshake is complete.
    pub up: bool,
    /// `connecting`, `active`, `stale`, `closing` or `closed`.
    pub state: &'static str,
}

/// The streams of a flow, and their subflows. `L` is the transport's state of a connection.
#[derive(Debug)]
pub struct Driver<P, L> {
    setup: Arc<Setup>,
    seeds: RandomStream,
    streams: Slab<Stream<P>>,
    subflows: Slab<Subflow<L>>,
    acceptor: Acceptor,
    /// Connections that the acceptor has not decided on, and their subflows.
    doubtful: BTreeMap<ConnectionId, u32>,
    /// Deadlines in order of time and insertion: a stream, or `None` for the acceptor.
    wakes: BTreeMap<(Time, u64), Option<u32>>,
    inserted: u64,
    acceptor_armed: Time,
    events: VecDeque<StreamEvent>,
    /// Subflow ends with new data to send or progress in TCP.
    moved: Vec<(u32, usize)>,
    /// Subflows that have ended on a side.
    ending: Vec<u32>,
    opened: u32,
    /// Reinjected bytes and the peak of reordered bytes of removed streams.
    past: (u64, u64),
}

fn seed(random: &mut RandomStream) -> [u8; 32] {
    let mut seed = [0; 32];
    for piece in seed.chunks_exact_mut(8) {
        piece.copy_from_slice(&random.bits().to_le_bytes());
    }
    seed
}

/// The operations of applications on their streams.
impl<P: Payload, L> Driver<P, L> {
    /// A driver without streams.
    pub fn new(setup: &Arc<Setup>, mut seeds: RandomStream) -> Self {
        let limits = Limits {
            sessions: UNLIMITED,
            silent: UNLIMITED,
            silent_per_source: UNLIMITED,
            unproven: UNLIMITED,
            unproven_per_source: UNLIMITED,
            ..Limits::default()
        };
        let credit = setup.settings.receive_buffer.count();
        let grants = setup.settings.limits(false);
        Self {
            acceptor: Acceptor::new(limits, grants, credit, None, seed(&mut seeds)),
            setup: Arc::clone(setup),
            seeds,
            streams: Slab::default(),
            subflows: Slab::default(),
            doubtful: BTreeMap::new(),
            wakes: BTreeMap::new(),
            inserted: 0,
            acceptor_armed: Time::MAX,
            events: VecDeque::new(),
            moved: Vec::new(),
            ending: Vec::new(),
            opened: 0,
            past: (0, 0),
        }
    }

    /// Opens a stream with a tag.
    pub fn connect(&mut self, now: Time, tag: u32) -> u32 {
        let seed = seed(&mut self.seeds);
        self.streams.insert(Stream::connect(now, &self.setup, seed, tag))
    }

    /// The tag of a stream.
    pub fn tag_mut(&mut self, id: u32) -> Option<&mut u32> {
        self.streams.get_mut(id).map(|stream| &mut stream.tag)
    }

    /// Queues payload at an end, [`u64::MAX`]: without end; `flush` sends it.
    pub fn write(&mut self, id: u32, side: usize, bytes: u64) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.write(side, bytes);
        }
    }

    /// Ends the stream of one side after its payload.
    pub fn finish(&mut self, id: u32, side: usize) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.finish(side);
        }
    }

    /// Whether the server leaves received data in the receive buffer instead of reading it.
    pub fn hold(&mut self, id: u32, held: bool) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.hold(held);
        }
    }

    /// Sends queued data.
    pub fn flush(&mut self, transport: &mut impl Transport<P, L>, id: u32) {
        self.settle(transport, id);
    }

    /// Whether both ends are closed.
    pub fn is_over(&self, id: u32) -> bool {
        self.streams.get(id).is_none_or(|stream| stream.ends.iter().all(|end| end.known.closed))
    }

    /// Resets a stream and removes it.
    pub fn reset(&mut self, transport: &mut impl Transport<P, L>, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.forgotten = true;
        for at in stream.subflows.clone() {
            if let Some(subflow) = self.subflows.get_mut(at) {
                transport.close(&mut subflow.link, 0, true);
                transport.flush(&mut subflow.link, 0);
            }
            self.remove(transport, at);
        }
        self.drop_stream(id);
    }

    /// Releases a stream: the application has closed it, and its connections end without it.
    pub fn forget(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.forgotten = true;
            if stream.subflows.is_empty() {
                self.drop_stream(id);
            }
        }
    }

    /// Resets all streams; returns the number of subflows opened so far.
    pub fn end_run(&mut self, transport: &mut impl Transport<P, L>) -> u32 {
        for id in self.streams.keys() {
            self.reset(transport, id);
        }
        self.events.clear();
        self.opened
    }

    /// The next event for the application.
    pub fn take_event(&mut self) -> Option<StreamEvent> {
        self.events.pop_front()
    }
}

/// Status of streams and subflows.
impl<P: Payload, L> Driver<P, L> {
    /// A subflow by its key.
    pub fn subflow_mut(&mut self, key: u32) -> Option<&mut Subflow<L>> {
        self.subflows.get_mut(key)
    }

    /// Payload that the client's session has sent.
    pub fn sent(&self, id: u32) -> u64 {
        let session = self.streams.get(id).and_then(|stream| stream.sessions[0].as_ref());
        session.map_or(0, |session| session.statistics().sent)
    }

    /// The subflows of a stream, and retransmissions and timeouts of its removed subflows.
    pub fn subflows(&self, id: u32) -> Option<(impl Iterator<Item = &Subflow<L>>, [u64; 2])> {
        let stream = self.streams.get(id)?;
        let subflows = stream.subflows.iter().filter_map(|at| self.subflows.get(*at));
        Some((subflows, stream.past))
    }

    /// All streams.
    pub fn streams(&self) -> Vec<u32> {
        self.streams.keys()
    }

    /// Reinjected bytes, and the peaks of bytes received out of order and buffered, of all streams.
    pub fn statistics(&self) -> Statistics {
        let mut sum = Statistics { reinjected: self.past.0, ..Statistics::default() };
        sum.reorder_peak = self.past.1;
        for stream in self.streams.keys().into_iter().filter_map(|id| self.streams.get(id)) {
            for session in stream.sessions.iter().flatten() {
                let statistics = session.statistics();
                sum.reinjected += statistics.reinjected;
                sum.reorder_peak = sum.reorder_peak.max(statistics.reorder_peak);
                sum.buffered = sum.buffered.max(statistics.buffered);
            }
        }
        sum
    }

    /// Forgets the counters of removed streams.
    pub fn clear_past(&mut self) {
        self.past = (0, 0);
    }

    /// Status of a subflow.
    pub fn status(&self, subflow: &Subflow<L>) -> SubflowStatus {
        let sides = &subflow.sides;
        let session = self.streams.get(subflow.stream).and_then(|s| s.sessions[0].as_ref());
        SubflowStatus {
            number: subflow.number,
            path: subflow.path,
            sent: sides[0].sent + sides[1].sent,
            received: sides[0].received + sides[1].received,
            up: sides[0].up,
            state: sides[0].id.map_or("connecting", |id| state(session, id)),
        }
    }
}

fn state<P: Payload>(session: Option<&Session<P>>, id: SubflowId) -> &'static str {
    let known = session.and_then(|session| session.subflows().find(|known| known.id == id));
    match known.map(|known| known.state) {
        Some(SubflowState::Opening) => "connecting",
        Some(SubflowState::Active) => "active",
        Some(SubflowState::Stale) => "stale",
        Some(SubflowState::Draining) => "closing",
        None => "closed",
    }
}
