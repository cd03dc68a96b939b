//! The interface between the state machines of traffic and their transports.

use base::{RandomStream, Span, Time};

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that opens the connection.
    Client,
    /// The end that accepts the connection.
    Server,
}

impl Side {
    /// 0 for the client, 1 for the server.
    pub const fn index(self) -> usize {
        match self {
            Self::Client => 0,
            Self::Server => 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Going,
    /// Everything was delivered, the last data at this time.
    Done(Time),
    /// Its duration ended first, at this time.
    Cut(Time),
    /// It failed, for this reason.
    Failed(&'static str),
}

/// An event at one end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The result of [`Transport::connect`].
    pub connection: u32,
    pub side: Side,
    pub at: Time,
    /// Payload bytes received in order.
    pub bytes: u64,
    /// Whether the handshake is complete.
    pub established: bool,
    /// Whether the other end has sent its last byte.
    pub finished: bool,
    /// Whether the end is closed: both directions have ended, or the connection failed.
    pub closed: bool,
}

impl Event {
    /// An event with no flags set.
    pub const fn new(connection: u32, side: Side, at: Time) -> Self {
        let (established, finished, closed) = (false, false, false);
        Self { connection, side, at, bytes: 0, established, finished, closed }
    }
}

/// A transfer, or a request with its response, that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    pub start: Time,
    pub size: u64,
    /// Duration; `None`: it was not delivered completely.
    pub duration: Option<Span>,
    /// Retransmitted segments, if they are counted per transfer.
    pub retransmits: Option<u64>,
}

/// An input of a flow's counters.
#[derive(Clone, Copy, Debug)]
pub enum Report {
    /// A transfer or request has started.
    Started,
    /// A response has arrived, this long after its request was sent.
    Response(Span),
    Transfer(Completion),
    Request(Completion),
}

/// The transport of a flow's payload: the kernel's sockets, simulated TCP, MCTCP
/// or the fluid engine.
///
/// The transport counts sent and received bytes, because a kernel accepts a payload in parts.
pub trait Transport {
    fn now(&self) -> Time;

    /// The flow's random stream for a purpose, the same on all transports.
    fn random(&self, purpose: &str) -> RandomStream;

    /// Maximum number of open connections.
    fn max_connections(&self) -> usize {
        usize::MAX
    }

    /// Opens a connection with a tag. If there is a payload, the client sends it and
    /// then ends its direction.
    fn connect(&mut self, tag: u32, payload: Option<u64>) -> u32;

    /// The tag of a connection, if the connection exists.
    fn tag(&mut self, connection: u32) -> Option<u32>;

    /// Changes the tag of a connection.
    fn set_tag(&mut self, connection: u32, tag: u32);

    /// The client sends a request of `bytes` bytes. `number` counts the flow's requests, so that a
    /// server on another host can distinguish them.
    fn request(&mut self, connection: u32, number: u32, bytes: u64);

    /// The server sends `bytes` bytes.
    fn respond(&mut self, connection: u32, bytes: u64);

    /// Ends the server's direction, on transports that report the end of the client's direction.
    fn finish(&mut self, _connection: u32) {}

    /// Releases a connection whose payload was delivered completely. `true`: the transport has
    /// removed the connection; `false`: it will report that both ends have closed.
    fn release(&mut self, connection: u32) -> bool;

    /// Whether both ends of a connection are closed.
    fn is_over(&mut self, _connection: u32) -> bool {
        true
    }

    /// Removes a closed connection.
    fn forget(&mut self, connection: u32) {
        self.release(connection);
    }

    /// Resets a connection and removes it.
    fn reset(&mut self, connection: u32);

    /// Segments that the client has retransmitted.
    fn retransmits(&mut self, connection: u32) -> Option<u64>;

    /// Updates the flow's counters.
    fn report(&mut self, report: Report);
}

/// A state machine of traffic over connections.
pub trait Workload {
    /// The end whose received bytes count for the flow.
    const RECEIVER: Side;

    /// The next deadline, at which [`Self::on_wake`] must be called.
    fn next_wake(&self) -> Option<Time>;

    fn on_wake(&mut self, transport: &mut impl Transport) -> Progress;

    /// Handles an event at one end of a connection.
    fn on_event(&mut self, transport: &mut impl Transport, event: &Event) -> Progress;

    fn connections(&self) -> impl Iterator<Item = u32>;

    /// Ends the flow: reports undelivered transfers and resets connections.
    fn close(&mut self, transport: &mut impl Transport);
}
