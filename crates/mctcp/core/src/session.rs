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
use opening::Greeting;
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
    /// Handshake state of the client, also required for joins.
    greeting: Option<Greeting>,
    key: Option<SessionKey>,
    number: u64,
    /// Nonce of the server.
    server_nonce: [u8; 32],
    /// Limits of the peer; our own until those are known.
    peer: Limits,
    /// Received data may go to the application: the peer's proof is valid or not required.
    released: bool,
    /// Client: both streams were delivered, but the server does not have the
    /// last acknowledgement yet.
    done: bool,
    /// The client has received `HELLO_ACK`. DATA alone do not show it: they may follow
    /// an unanswered HELLO.
    confirmed: bool,
    outgoing: Outgoing<P>,
    incoming: Reassembly<P>,
    acknowledging: Acknowledging,
    subflows: Vec<Subflow<P>>,
    paths: Vec<Path>,
    /// Further subflows are useful.
    multipath: bool,
    /// Control frames whose subflow ended, and that no other subflow carries yet.
    orphans: Vec<Frame<P>>,
    outputs: VecDeque<Output<P>>,
    /// Buffer for the scheduler's input, kept to avoid allocations.
    views: Vec<SubflowView>,
    now: Time,
    born: Time,
    received_at: Time,
    probed: Time,
    /// Time since which there is no subflow.
    lost: Option<Time>,
    /// Time of the next inspection of TCP.
    inspect_at: Option<Time>,
    /// A write was rejected because the send buffer was full.
    wants_room: bool,
    /// Whether data waited for credit since the last call of the scheduler, and since which time.
    blocked: bool,
    blocked_since: Option<Time>,
    /// Bytes of copies of first and last pieces.
    copied: u64,
    /// End of the wait that the scheduler requested.
    scheduler_wait: Option<Time>,
    /// Width and time of the last WISH.
    wished: (u64, Time),
    /// Reason for which a peer was rejected; another path may lead to the right peer.
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
            greeting: None,
            key: None,
            number: 0,
            server_nonce: [0; 32],
            peer: settings.limits(false),
            released: true,
            done: false,
            confirmed: false,
            outgoing,
            incoming,
            acknowledging: Acknowledging::default(),
            subflows: Vec::new(),
            paths: Vec::new(),
            multipath: false,
            orphans: Vec::new(),
            outputs: VecDeque::new(),
            views: Vec::new(),
            now,
            born: now,
            received_at: now,
            probed: now,
            lost: None,
            inspect_at: None,
            wants_room: false,
            blocked: false,
            blocked_since: None,
            copied: 0,
            scheduler_wait: None,
            wished: (0, now),
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
        self.wants_room |= rest.is_some();
        rest
    }

    /// Number of bytes that [`write`](Self::write) accepts now.
    pub fn writable(&self) -> Bytes {
        Bytes::new(if self.is_over() { 0 } else { self.outgoing.room() })
    }

    /// The next piece of the peer's stream.
    pub fn read(&mut self, now: Time) -> Option<P> {
        self.now = now;
        if !self.released {
            return None;
        }
        let payload = self.incoming.read()?;
        if self.incoming.has_credit() {
            self.acknowledging.hurry();
        }
        Some(payload)
    }

    /// Whether the peer's stream has ended and was read completely.
    pub fn read_finished(&self) -> bool {
        self.released && self.incoming.is_read()
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
            self.born = now;
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
        if let Some((stale, _)) = path.stale {
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

    /// Server: withdraws an address.
    pub fn withdraw(&mut self, now: Time, id: u8) {
        self.now = now;
        self.send_control(Frame::RemoveAddress(id));
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
        let is_alone = self.active() == 0;
        let Some(subflow) = self.subflow_mut(id) else { return };
        let moved = subflow.learn(now, info);
        let revived = moved && subflow.is_revived_by_progress(is_alone);
        let stuck = subflow.is_active() && subflow.is_stuck(now);
        if moved && subflow.hello_unanswered_at().is_some() {
            self.greeting.iter_mut().for_each(|greeting| greeting.delivered = Some(now));
        }
        if revived {
            self.revive(id);
        } else if stuck {
            self.grow_stale(id, false);
        }
    }

    fn subflow(&self, id: SubflowId) -> Option<&Subflow<P>> {
        self.subflows.iter().find(|subflow| subflow.id == id)
    }

    fn subflow_mut(&mut self, id: SubflowId) -> Option<&mut Subflow<P>> {
        self.subflows.iter_mut().find(|subflow| subflow.id == id)
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// A bit that no subflow uses.
    fn free_slot(&self) -> Option<Slots> {
        let used = self.subflows.iter().fold(0, |used, subflow| used | subflow.slot);
        let free = (!used).trailing_zeros() as usize;
        (free < MAX_SLOTS).then(|| 1 << free)
    }

    /// Sends a frame on a subflow.
    fn send(&mut self, id: SubflowId, frame: Frame<P>) {
        let now = self.now;
        let Some(subflow) = self.subflow_mut(id) else { return };
        let path_seq = subflow.number();
        let length = frame.wire_length() as u64;
        subflow.give(now, length);
        if matches!(frame, Frame::Data { .. } | Frame::Fin { .. } | Frame::Ping(_)) {
            subflow.expect_dack(now, path_seq);
        }
        self.inspect_soon();
        self.outputs.push_back(Output::Send { subflow: id, path_seq, frame });
    }

    /// Sends a frame that must be delivered, on the best subflow.
    fn send_control(&mut self, frame: Frame<P>) {
        match self.best() {
            Some(id) => self.send_reliably(id, frame),
            None => self.orphans.push(frame),
        }
    }

    fn send_reliably(&mut self, id: SubflowId, frame: Frame<P>) {
        if let Some(subflow) = self.subflow_mut(id) {
            let number = subflow.sends;
            subflow.controls.push_back((number, frame.clone()));
        }
        self.send(id, frame);
    }

    /// The subflow on which a small frame is expected to arrive first.
    fn best(&self) -> Option<SubflowId> {
        let rank = |s: &&Subflow<P>| (!s.is_active(), s.is_suspect(self.now), s.srtt(), s.id);
        let usable = self.subflows.iter().filter(|subflow| subflow.is_usable());
        usable.min_by_key(rank).map(|subflow| subflow.id)
    }
}
