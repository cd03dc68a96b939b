//! What the driver and the kinds of traffic ask of each other.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::{RandomStream, Span, Time};
use outcome::Tally;
use sys::socket::{Interest, Readiness, ReadyQueue, TcpInfo};

use super::FlowSink;
use super::content::Damage;
use super::mctcp::Sessions;
use super::mptcp::PathManagers;
use crate::clock::LabClock;

/// Payload that is written at once; a power of two that stays in a core's cache.
pub(super) const CHUNK: usize = 256 << 10;

/// The sockets of one running flow. An error ends the flow, nothing else.
pub(super) trait Endpoints: Send {
    /// Socket number `slot` is ready.
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress>;

    /// The deadline has come.
    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress>;

    /// When to call `on_wake`.
    fn deadline(&self) -> Option<Time>;

    /// The flow's duration is over: send no more.
    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress;

    /// Asks the kernel for what it counts.
    fn observe(&mut self, tally: &mut Tally);

    /// The flow is over: counts what has arrived, and lets nothing linger. `observe` comes after.
    /// A receiver whose sender is on another machine may be kept, and called when a socket is
    /// ready, so that the sender hears what it has to.
    fn close(&mut self, scope: &mut Scope<'_>);

    /// Once closed: what one half of a paced flow has to tell of where it ended, see
    /// [`outcome::FlowResult::edges`].
    fn edge(&self) -> Option<u64> {
        None
    }
}

/// How far a flow has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It goes on.
    Going,
    /// Everything was delivered, the last of it at this time.
    Done(Time),
    /// It was cut short, and ended at this time.
    Cut(Time),
    /// What arrived is not what was sent.
    Damaged(Damage),
}

/// What a flow may use while it is called.
pub(super) struct Scope<'a> {
    /// Where it waits.
    pub(super) queue: &'a ReadyQueue,
    /// Token of its slot 0.
    pub(super) base: u64,
    /// Its counters.
    pub(super) tally: &'a mut Tally,
    /// Payload: [`CHUNK`] zero bytes.
    pub(super) payload: &'a [u8],
    /// Room for payload that is made or has arrived: [`CHUNK`] bytes.
    pub(super) scratch: &'a mut [u8],
    /// What gives Multipath TCP connections their paths.
    pub(super) paths: &'a mut PathManagers,
    /// What drives MCTCP's sessions.
    pub(super) sessions: &'a mut Sessions,
    /// The lab's time.
    pub(super) clock: &'a LabClock,
    /// Keys the flows' random streams.
    pub(super) seed: u64,
    /// Takes transfers that have ended.
    pub(super) sink: &'a mut FlowSink,
}

impl Scope<'_> {
    /// Waits for a socket, from now on as slot `slot`.
    pub(super) fn add(&self, fd: &OwnedFd, slot: u32, interest: Interest) -> sys::Result<()> {
        self.queue.add(fd.as_fd(), self.base | u64::from(slot), interest)
    }

    /// Changes what to wait for.
    pub(super) fn modify(&self, fd: &OwnedFd, slot: u32, interest: Interest) -> sys::Result<()> {
        self.queue.modify(fd.as_fd(), self.base | u64::from(slot), interest)
    }

    /// What a flow draws from, by what it draws; the virtual clock names its streams alike, so
    /// that a lab has the same workload on both.
    pub(super) fn random(&self, flow: &str, what: &str) -> RandomStream {
        RandomStream::new(self.seed, &format!("flow/{flow}/{what}"))
    }

    /// The time.
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }
}

/// Round-trip time, congestion window and retransmissions of some connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    count: u64,
    srtt_micros: u64,
    window_bytes: u64,
    retransmits: u64,
}

impl Connections {
    /// Takes a connection in, if the kernel answers for it.
    pub(super) fn add(&mut self, socket: BorrowedFd<'_>) {
        let Ok(info) = TcpInfo::read(socket) else { return };
        self.retransmits += u64::from(info.retransmits);
        if info.srtt_micros > 0 {
            self.count += 1;
            self.srtt_micros += u64::from(info.srtt_micros);
            self.window_bytes += u64::from(info.window_segments) * u64::from(info.segment_bytes);
        }
    }

    /// Counts retransmissions of connections that are gone.
    pub(super) fn add_past(&mut self, retransmits: u64) {
        self.retransmits += retransmits;
    }

    /// Counts retransmissions only: of the end whose round-trip time is not the flow's.
    pub(super) fn add_retransmits(&mut self, socket: BorrowedFd<'_>) {
        self.retransmits += TcpInfo::read(socket).map_or(0, |info| u64::from(info.retransmits));
    }

    /// Puts the mean round-trip time and the sums into `tally`.
    pub(super) fn report(&self, tally: &mut Tally) {
        tally.retransmits = self.retransmits.max(tally.retransmits);
        if let Some(mean) = self.srtt_micros.checked_div(self.count) {
            tally.srtt = Some(Span::from_micros(mean));
            tally.window_bytes = Some(self.window_bytes);
        }
    }
}

/// The error of a connection that is gone without the kernel saying why.
pub(super) fn gone() -> sys::Error {
    sys::Error::from_errno("socket", rustix::io::Errno::PIPE.raw_os_error())
}
