//! One end of a stream over several subflows.
//!
//! A driver owns the TCP connections. It reports their events and frames to the session, and
//! executes the outputs of [`Session::poll`]. After every call that takes `now`, or after several
//! at the same time, it calls `poll` until that returns `None`, then checks
//! [`next_wake`](Session::next_wake).
//!
//! | file | content |
//! |---|---|
//! | `opening` | HELLO, JOIN and their answers |
//! | `paths`, `upkeep` | the client's paths; deadlines |
//! | `subflow` | one TCP connection and its progress |
//! | `sending`, `transmit`, `reinject` | the send buffer; frames to subflows; retransmission on
//! others |
//! | `receiving`, `acknowledge` | reassembly and credit; DACKs |
//! | `incoming` | effects of received frames |
//! | `stale` | subflows without progress |
//! | `closing` | FIN, RESET, end of the session |
//! | `status` | status and statistics |
//!
//! These files are one state machine: they depend on this module and on each other.

mod acknowledge;
mod closing;
mod incoming;
mod opening;
mod paths;
mod receiving;
mod reinject;
mod sending;
mod stale;
mod status;
mod subflow;
#[cfg(test)]
mod tests;
mod transmit;
mod upkeep;

use std::collections::VecDeque;

use base::{Bytes, Time};

use crate::frame::{Frame, Limits, Priority};
use crate::payload::Payload;
use crate::scheduler::{Scheduler, SubflowView};
use crate::secret::{Nonces, SessionKey};
use crate::{PathId, PathInfo, Reason, Settings, SubflowId};
use acknowledge::Acknowledging;
use opening::Client;
use paths::Path;
use receiving::Reassembly;
use sending::{Outgoing, Slots};
use subflow::Subflow;

pub use opening::Opening;
pub use status::{Statistics, SubflowState, SubflowStatus};

/// A task for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<P> {
    /// Client: open a TCP connection on this path; report [`connected`](Session::connected) or
    /// [`connect_failed`](Session::connect_failed).
    Connect(PathId),
    /// Client: cancel the connection attempt on this path.
    Abandon(PathId),
    /// Send a frame on a subflow, after the earlier ones.
    Send {
        /// The subflow that carries it.
        subflow: SubflowId,
        /// The frame's number on the subflow.
        path_seq: u32,
        /// The frame to encode.
        frame: Frame<P>,
    },
    /// Close a subflow after its queued data, or at once with a TCP reset.
    Close {
        /// The subflow to close.
        subflow: SubflowId,
        /// Whether to reset the connection at once.
        abort: bool,
    },
    /// Report the TCP state of this subflow ([`on_path_info`](Session::on_path_info)).
    Inspect(SubflowId),
    /// An event for the application or the operator.
    Event(Event),
}

/// An event of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete.
    Established,
    /// Received data are available, or the peer's stream has ended.
    Readable,
    /// The send buffer has room again.
    Writable,
    /// Both streams have ended, and both ends have received everything.
    Closed,
    /// The session failed; undelivered data are lost.
    Failed {
        /// The cause, as in RESET.
        reason: Reason,
        /// Whether the peer sent the reason.
        by_peer: bool,
    },
    /// A subflow can carry data.
    SubflowUp(SubflowId),
    /// A subflow makes no progress: its data are sent on others.
    SubflowStale(SubflowId),
    /// A subflow makes progress again.
    SubflowRevived(SubflowId),
    /// A subflow has ended.
    SubflowDown(SubflowId),
    /// The peer advertises an additional address, to which paths can be added.
    AddressAdded(u8, std::net::SocketAddr),
    /// The peer withdrew this address.
    AddressRemoved(u8),
}

/// How a TCP connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer sent FIN, and all earlier bytes were received.
    Finished,
    /// The connection was reset, or failed.
    Failed,
}

/// Phase of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// HELLO was not answered yet.
    Opening,
    Established,
    Closed,
    Failed(Reason),
}

/// Maximum number of subflows, including stale ones; each has a bit in [`Slots`].
const MAX_SLOTS: usize = 32;

/// One end of a stream.
#[derive(Debug)]
pub struct Session<P> {
    settings: Settings,
    scheduler: Box<dyn Scheduler>,
    nonces: Nonces,
    phase: Phase,
    /// State of the client's end; `None` at the server.
    client: Option<Client>,
    key: Option<SessionKey>,
    number: u64,
    /// Nonce of the server.
    server_nonce: [u8; 32],
    /// Limits of the peer; our own until those are known.
    peer: Limits,
    /// Received data may be delivered to the application: the proof is valid or not required.
    may_deliver: bool,
    /// Client: both streams were delivered. The session ends when the server closes its end.
    waits_for_close: bool,
    /// Server: the client has received `HELLO_ACK`. DATA do not show this: they may follow a HELLO
    /// without an answer.
    confirmed: bool,
    outgoing: Outgoing<P>,
    incoming: Reassembly<P>,
    acknowledging: Acknowledging,
    subflows: Vec<Subflow<P>>,
    paths: Vec<Path>,
    /// Enough data were transferred to open further subflows.
    multipath: bool,
    /// Control frames to send on the next usable subflow.
    pending_controls: Vec<Frame<P>>,
    outputs: VecDeque<Output<P>>,
    /// Buffer for the scheduler's input, kept to avoid allocations.
    views: Vec<SubflowView>,
    now: Time,
    started_at: Time,
    received_at: Time,
    probed_at: Time,
    no_subflow_since: Option<Time>,
    /// Time of the next inspection of TCP.
    inspect_at: Option<Time>,
    /// A write was rejected because the send buffer was full.
    write_blocked: bool,
    /// Data were without credit since the last call of the scheduler, and since which time.
    credit_blocked: bool,
    credit_blocked_since: Option<Time>,
    /// Bytes sent twice while the application paused.
    copied_bytes: u64,
    /// End of the wait that the scheduler requested.
    scheduler_wait_until: Option<Time>,
    /// Width and time of the last WISH.
    last_wish: (u64, Time),
    /// Reason for which the last peer was rejected before another path was tried.
    refusal: Option<Reason>,
    statistics: Statistics,
}

impl<P: Payload> Session<P> {
    fn new(settings: Settings, seed: [u8; 32], now: Time, credit: u64) -> Self {
        let outgoing = Outgoing::new(settings.send_buffer.count(), credit);
        let incoming = Reassembly::new(settings.receive_buffer.count(), settings.autotune);
        Self {
            scheduler: settings.scheduler.build(),
            nonces: Nonces::new(seed),
            phase: Phase::Opening,
            client: None,
            key: None,
            number: 0,
            server_nonce: [0; 32],
            peer: settings.limits(false),
            may_deliver: true,
            waits_for_close: false,
            confirmed: false,
            outgoing,
            incoming,
            acknowledging: Acknowledging::default(),
            subflows: Vec::new(),
            paths: Vec::new(),
            multipath: false,
            pending_controls: Vec::new(),
            outputs: VecDeque::new(),
            views: Vec::new(),
            now,
            started_at: now,
            received_at: now,
            probed_at: now,
            no_subflow_since: None,
            inspect_at: None,
            write_blocked: false,
            credit_blocked: false,
            credit_blocked_since: None,
            copied_bytes: 0,
            scheduler_wait_until: None,
            last_wish: (0, now),
            refusal: None,
            statistics: Statistics::default(),
            settings,
        }
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output<P>> {
        if self.outputs.is_empty() {
            self.acknowledge();
            self.transmit();
        }
        self.outputs.pop_front()
    }

    /// Appends to the stream and returns the part that exceeds the send buffer; [`Event::Writable`]
    /// reports room again.
    pub fn write(&mut self, now: Time, payload: P) -> Option<P> {
        self.now = now;
        if self.is_over() {
            return Some(payload);
        }
        let rest = self.outgoing.write(payload);
        self.write_blocked |= rest.is_some();
        rest
    }

    /// Number of bytes that [`write`](Self::write) accepts now.
    pub fn writable(&self) -> Bytes {
        Bytes::new(if self.is_over() { 0 } else { self.outgoing.room() })
    }

    /// The next piece of the peer's stream.
    pub fn read(&mut self, now: Time) -> Option<P> {
        self.now = now;
        if !self.may_deliver {
            return None;
        }
        let payload = self.incoming.read()?;
        if self.incoming.is_credit_update_due() {
            self.acknowledging.send_immediately();
        }
        Some(payload)
    }

    /// Whether the peer's stream has ended and was read completely.
    pub fn read_finished(&self) -> bool {
        self.may_deliver && self.incoming.is_read()
    }

    /// Replaces the scheduler.
    pub fn set_scheduler(&mut self, scheduler: Box<dyn Scheduler>) {
        self.scheduler = scheduler;
    }

    /// Client: adds a path. The first one is tried at once.
    pub fn add_path(&mut self, now: Time, id: PathId, priority: Priority) {
        self.now = now;
        if self.is_over() || self.paths.iter().any(|path| path.id == id) {
            return;
        }
        if self.paths.is_empty() && self.subflows.is_empty() {
            self.started_at = now;
            self.received_at = now;
        }
        self.paths.push(Path::new(id, priority));
        self.open_paths();
    }

    /// Client: stops using a path. Its subflow has 1 s to deliver its data.
    pub fn remove_path(&mut self, now: Time, id: PathId) {
        self.now = now;
        let Some(at) = self.paths.iter().position(|path| path.id == id) else { return };
        let path = self.paths.remove(at);
        match path.state {
            paths::State::Connecting { .. } => self.outputs.push_back(Output::Abandon(id)),
            paths::State::Up(subflow) => self.drain(subflow),
            paths::State::Idle | paths::State::Waiting { .. } => {}
        }
        if let Some(stale) = path.stale {
            self.drop_subflow(stale, true);
        }
    }

    /// Client: opens further subflows now, even if there is little to send.
    pub fn join_now(&mut self, now: Time) {
        self.now = now;
        self.multipath = true;
        self.open_paths();
    }

    /// Server: advertises an additional address, to which the client may add paths.
    pub fn advertise(&mut self, now: Time, id: u8, address: std::net::SocketAddr) {
        self.now = now;
        self.send_control(Frame::AddAddress { id, address });
    }

    /// Sets the number of bytes that the driver accepts for a subflow; each sent frame reduces it.
    pub fn set_room(&mut self, now: Time, id: SubflowId, room: Bytes) {
        self.now = now;
        let Some(subflow) = self.subflow_mut(id) else { return };
        subflow.set_room(room.count());
    }

    /// Updates the TCP state of a subflow.
    pub fn on_path_info(&mut self, now: Time, id: SubflowId, info: PathInfo) {
        self.now = now;
        let is_alone = self.active().next().is_none();
        let Some(subflow) = self.subflow_mut(id) else { return };
        let has_progress = subflow.update_info(now, info);
        let revived = has_progress && subflow.is_revived_by_progress(is_alone);
        let stuck = subflow.is_active() && subflow.is_stuck(now);
        if has_progress && subflow.hello_unanswered_at().is_some() {
            self.client.iter_mut().for_each(|client| client.delivered = Some(now));
        }
        if revived {
            self.revive(id);
        } else if stuck {
            self.mark_stale(id, false);
        }
    }

    fn subflow(&self, id: SubflowId) -> Option<&Subflow<P>> {
        self.subflows.iter().find(|subflow| subflow.id == id)
    }

    fn subflow_mut(&mut self, id: SubflowId) -> Option<&mut Subflow<P>> {
        self.subflows.iter_mut().find(|subflow| subflow.id == id)
    }

    fn find(&self, condition: impl Fn(&Subflow<P>) -> bool) -> Option<SubflowId> {
        self.subflows.iter().find(|subflow| condition(subflow)).map(|subflow| subflow.id)
    }

    fn ids(&self, condition: impl Fn(&Subflow<P>) -> bool) -> Vec<SubflowId> {
        self.subflows.iter().filter(|s| condition(s)).map(|subflow| subflow.id).collect()
    }

    fn slots(&self, condition: impl Fn(&Subflow<P>) -> bool) -> Slots {
        self.subflows.iter().filter(|s| condition(s)).fold(0, |all, subflow| all | subflow.slot)
    }

    fn active(&self) -> impl Iterator<Item = &Subflow<P>> + Clone {
        self.subflows.iter().filter(|subflow| subflow.is_active())
    }

    fn in_slots(&self, slots: Slots) -> impl Iterator<Item = &Subflow<P>> {
        self.subflows.iter().filter(move |subflow| subflow.slot & slots != 0)
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// A bit that no subflow uses.
    fn free_slot(&self) -> Option<Slots> {
        let free = (!self.slots(|_| true)).trailing_zeros() as usize;
        (free < MAX_SLOTS).then(|| 1 << free)
    }

    /// Sends a frame on a subflow.
    fn send(&mut self, id: SubflowId, frame: Frame<P>) {
        let now = self.now;
        let Some(subflow) = self.subflow_mut(id) else { return };
        let path_seq = subflow.take_path_seq();
        let length = frame.wire_length() as u64;
        subflow.count_sent(now, length);
        if matches!(frame, Frame::Data { .. } | Frame::Fin { .. } | Frame::Ping(_)) {
            subflow.expect_dack(now, path_seq);
        }
        self.schedule_inspection();
        self.outputs.push_back(Output::Send { subflow: id, path_seq, frame });
    }

    /// Sends a frame that must be delivered, on the best subflow.
    fn send_control(&mut self, frame: Frame<P>) {
        match self.best_subflow() {
            Some(id) => self.send_reliably(id, frame),
            None => self.pending_controls.push(frame),
        }
    }

    fn send_reliably(&mut self, id: SubflowId, frame: Frame<P>) {
        if let Some(subflow) = self.subflow_mut(id) {
            subflow.controls.push_back((subflow.next_path_seq, frame.clone()));
        }
        self.send(id, frame);
    }

    /// The subflow on which a small frame is expected to arrive first.
    fn best_subflow(&self) -> Option<SubflowId> {
        let rank = |s: &&Subflow<P>| (!s.is_active(), s.is_suspect(self.now), s.srtt(), s.id);
        let usable = self.subflows.iter().filter(|subflow| subflow.is_usable());
        usable.min_by_key(rank).map(|subflow| subflow.id)
    }
}
