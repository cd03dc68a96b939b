//! The interface between the driver and the kinds of traffic.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::{RandomStream, Span, Time};
use run::FlowCounters;
use sys::socket::{Interest, Readiness, ReadyQueue, TcpInfo};

use super::FlowSink;
use super::content::Damage;
use super::mctcp::Sessions;
use super::mptcp::PathManagers;
use crate::clock::LabClock;

/// Payload written per call; a power of two that fits the cache of a core.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// Maximum number of simultaneously open connections of a flow; further transfers and requests
/// wait, and their waiting time counts.
pub(super) const MAX_CONNECTIONS: usize = 512;

/// The sockets of one active flow. An error ends only this flow.
pub(super) trait Endpoints: Send {
    /// Handles an event of socket `slot`.
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress>;

    /// Handles the deadline of `next_wake`.
    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress>;

    /// The next deadline, at which `on_wake` must be called.
    fn next_wake(&self) -> Option<Time>;

    /// Handles the end of the flow's duration: stops sending.
    fn expire(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        Ok(Progress::Cut(scope.now()))
    }

    /// Updates the counters from those of the kernel.
    fn observe(&mut self, counters: &mut FlowCounters);

    /// Ends the flow: counts received data and closes all sockets. `observe` is called afterwards.
    /// A receiver whose sender is on another agent may be kept and called for socket events, so
    /// that it can answer the sender.
    fn close(&mut self, scope: &mut Scope<'_>);

    /// After `close`: the last position of one end of a paced flow, see
    /// [`run::FlowResult::edges`].
    fn edge(&self) -> Option<u64> {
        None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Going,
    /// Everything was delivered, the last of it at this time.
    Done(Time),
    /// It ended early, at this time.
    Cut(Time),
    /// Received data differs from sent data.
    Damaged(Damage),
}

/// Combines the result of a state machine's call with an error during the call.
pub(super) fn combine_progress(
    progress: workload::Progress,
    error: Option<sys::Error>,
) -> sys::Result<Progress> {
    match (progress, error) {
        (_, Some(error)) => Err(error),
        (workload::Progress::Going, None) => Ok(Progress::Going),
        (workload::Progress::Done(at), None) => Ok(Progress::Done(at)),
        (workload::Progress::Cut(at), None) => Ok(Progress::Cut(at)),
        (workload::Progress::Failed(_), None) => Err(closed_error()),
    }
}

/// The context of a call to a flow.
pub(super) struct Scope<'a> {
    pub(super) queue: &'a ReadyQueue,
    /// Token of its slot 0.
    pub(super) base: u64,
    pub(super) counters: &'a mut FlowCounters,
    /// Payload: [`CHUNK_BYTES`] zero bytes.
    pub(super) payload: &'a [u8],
    /// Buffer for generated or received payload: [`CHUNK_BYTES`] bytes.
    pub(super) scratch: &'a mut [u8],
    /// Path managers for Multipath TCP.
    pub(super) paths: &'a mut PathManagers,
    pub(super) sessions: &'a mut Sessions,
    /// The start of the run that is being opened.
    pub(super) opening: Option<Time>,
    pub(super) clock: &'a LabClock,
    /// Seed of the flows' random streams.
    pub(super) seed: u64,
    /// Receives ended transfers.
    pub(super) sink: &'a mut FlowSink,
}

impl Scope<'_> {
    /// Adds a socket to the event queue as slot `slot`.
    pub(super) fn add(&self, fd: &OwnedFd, slot: u32, interest: Interest) -> sys::Result<()> {
        self.queue.add(fd.as_fd(), self.base | u64::from(slot), interest)
    }

    /// Changes the events that the queue waits for.
    pub(super) fn modify(&self, fd: &OwnedFd, slot: u32, interest: Interest) -> sys::Result<()> {
        self.queue.modify(fd.as_fd(), self.base | u64::from(slot), interest)
    }

    /// A random stream of a flow for one purpose. The virtual clock uses the same names, so that a
    /// lab has the same workload on both clocks.
    pub(super) fn random(&self, flow: &str, what: &str) -> RandomStream {
        RandomStream::new(self.seed, &format!("flow/{flow}/{what}"))
    }

    /// The current lab time.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// The start of the run that is being opened, otherwise the current lab time. A schedule that
    /// begins at the planned start has the same phase as on the virtual clock.
    pub(super) fn start(&self) -> Time {
        self.opening.unwrap_or_else(|| self.now())
    }
}

/// RTT, congestion window and retransmissions of a set of connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    count: u64,
    srtt_micros: u64,
    window_bytes: u64,
    retransmits: u64,
}

impl Connections {
    /// Adds a connection if the kernel returns its statistics.
    pub(super) fn add(&mut self, socket: BorrowedFd<'_>) {
        let Ok(info) = TcpInfo::read(socket) else { return };
        self.retransmits += u64::from(info.retransmits);
        if info.srtt_micros > 0 {
            self.count += 1;
            self.srtt_micros += u64::from(info.srtt_micros);
            self.window_bytes += u64::from(info.window_segments) * u64::from(info.segment_bytes);
        }
    }

    /// Adds retransmissions of closed connections.
    pub(super) fn add_past(&mut self, retransmits: u64) {
        self.retransmits += retransmits;
    }

    /// Adds only the retransmissions of an end, whose RTT is not that of the flow.
    pub(super) fn add_retransmits(&mut self, socket: BorrowedFd<'_>) {
        self.retransmits += TcpInfo::read(socket).map_or(0, |info| u64::from(info.retransmits));
    }

    /// Writes the mean RTT and the sums to `counters`.
    pub(super) fn report(&self, counters: &mut FlowCounters) {
        counters.retransmits = self.retransmits.max(counters.retransmits);
        if let Some(mean) = self.srtt_micros.checked_div(self.count) {
            counters.srtt = Some(Span::from_micros(mean));
            counters.window_bytes = Some(self.window_bytes);
        }
    }
}

/// The error of a closed connection for which the kernel reports none.
pub(super) fn closed_error() -> sys::Error {
    sys::Error::from_errno("socket", rustix::io::Errno::PIPE.raw_os_error())
}
