//! One end of a stream over several subflows.
//!
//! A driver owns the TCP connections. It tells the session what happens to them and what arrives,
//! and carries out what [`Session::poll`] answers. After every call that takes `now`, or after
//! several at the same time, call `poll` until it gives `None`, then look at
//! [`next_wake`](Session::next_wake).
//!
//! | file | what |
//! |---|---|
//! | `opening` | HELLO, JOIN and their answers |
//! | `paths`, `upkeep` | the client's paths; deadlines |
//! | `subflow` | one TCP connection, its progress |
//! | `sending`, `transmit`, `hasten` | the send buffer; what goes where; what is sent again |
//! | `receiving`, `acknowledge` | reassembly and credit; DACKs |
//! | `incoming` | what each frame does |
//! | `closing` | FIN, RESET, the end |
//! | `status` | what a driver may ask |

mod acknowledge;
mod closing;
mod hasten;
mod incoming;
mod opening;
mod paths;
mod receiving;
mod sending;
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

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<P> {
    /// Client: open a TCP connection on this path; tell
    /// [`connected`](Session::connected) or [`connect_failed`](Session::connect_failed).
    Connect(PathId),
    /// Client: give up opening a connection on this path.
    Abandon(PathId),
    /// Send a frame on a subflow, after those before.
    Send {
        /// The subflow.
        subflow: SubflowId,
        /// The frame's number there.
        path_seq: u32,
        /// The frame.
        frame: Frame<P>,
    },
    /// Close a subflow: once what was sent has left, or at once with a reset of TCP.
    Close {
        /// The subflow.
        subflow: SubflowId,
        /// At once.
        abort: bool,
    },
    /// Tell what TCP knows of this subflow now ([`on_path_info`](Session::on_path_info)).
    Inspect(SubflowId),
    /// Something that the application or the operator may want to know.
    Event(Event),
}

/// What happened to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Both ends have heard of each other.
    Established,
    /// There is something to read, or the peer's stream has come to its end.
    Readable,
    /// There is room to write again.
    Writable,
    /// Both streams have come to their ends, and both ends know it.
    Closed,
    /// The session is over; what was not delivered is lost.
    Failed {
        /// Why.
        reason: Reason,
        /// Whether the peer said so.
        by_peer: bool,
    },
    /// A subflow carries data.
    SubflowUp(SubflowId),
    /// A subflow makes no progress: what it carried is sent elsewhere.
    SubflowStale(SubflowId),
    /// A subflow makes progress again.
    SubflowRevived(SubflowId),
    /// A subflow is gone.
    SubflowDown(SubflowId),
    /// The peer has told a further address: paths to it may be added.
    AddressAdded(u8, std::net::SocketAddr),
    /// The peer's address is gone.
    AddressRemoved(u8),
}

/// How a TCP connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer sent FIN, and all before it has arrived.
    Finished,
    /// It was reset, or broke.
    Failed,
}

/// How far a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// HELLO is to be sent, or was.
    Opening,
    Established,
    Closed,
    Failed(Reason),
}

/// Most subflows, stale ones included; each has a bit of [`Slots`].
const MOST_SLOTS: usize = 32;

/// One end of a stream.
#[derive(Debug)]
pub struct Session<P> {
    settings: Settings,
    scheduler: Box<dyn Scheduler>,
    nonces: Nonces,
    phase: Phase,
    /// What the client needs until the session is established, and for joins.
    greeting: Option<Greeting>,
    key: Option<SessionKey>,
    number: u64,
    /// The server's own.
    server_nonce: [u8; 32],
    /// Limits of the peer; until they are known, our own.
    peer: Limits,
    /// What came may be given to the application: the peer has proven itself, or need not.
    released: bool,
    /// Client: both streams were delivered, and the server has yet to hear so.
    done: bool,
    /// The peer knows of the session: data alone may follow a HELLO that was never answered.
    confirmed: bool,
    outgoing: Outgoing<P>,
    incoming: Reassembly<P>,
    acknowledging: Acknowledging,
    subflows: Vec<Subflow<P>>,
    paths: Vec<Path>,
    /// Further subflows are worth their while.
    multipath: bool,
    /// Control frames that lost their subflow and have no other yet.
    orphans: Vec<Frame<P>>,
    outputs: VecDeque<Output<P>>,
    /// For the scheduler; kept for its room.
    views: Vec<SubflowView>,
    now: Time,
    born: Time,
    heard: Time,
    probed: Time,
    /// Since when there has been no subflow.
    lost: Option<Time>,
    /// When TCP is asked next how it stands.
    inspect_at: Option<Time>,
    /// The application was refused.
    wants_room: bool,
    /// Data waited for credit since the scheduler was last asked, and since when it does.
    blocked: bool,
    blocked_since: Option<Time>,
    /// Bytes of copies of short and last pieces.
    copied: u64,
    /// Until when the scheduler wants to wait.
    scheduler_wait: Option<Time>,
    /// The last wish for credit: how much, and when.
    wished: (u64, Time),
    /// Why a peer was not believed, while another path may lead to the right one.
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
            heard: now,
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

    /// What the driver is to do next.
    pub fn poll(&mut self) -> Option<Output<P>> {
        if self.outputs.is_empty() {
            self.acknowledge();
            self.transmit();
        }
        self.outputs.pop_front()
    }

    /// Adds to the stream, and gives back what there is no room for;
    /// [`Event::Writable`] tells when there is room again.
    pub fn write(&mut self, now: Time, payload: P) -> Option<P> {
        self.now = now;
        if self.is_over() {
            return Some(payload);
        }
        let rest = self.outgoing.write(payload);
        self.wants_room |= rest.is_some();
        rest
    }

    /// Bytes that [`write`](Self::write) takes now.
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

    /// Whether the peer's stream has come to its end, and all of it was read.
    pub fn read_finished(&self) -> bool {
        self.released && self.incoming.is_read()
    }

    /// Another scheduler from now on.
    pub fn set_scheduler(&mut self, scheduler: Box<dyn Scheduler>) {
        self.scheduler = scheduler;
    }

    /// Client: a path to be used. The first one is tried at once.
    pub fn add_path(&mut self, now: Time, id: PathId, priority: Priority) {
        self.now = now;
        if self.is_over() || self.paths.iter().any(|path| path.id == id) {
            return;
        }
        if self.paths.is_empty() && self.subflows.is_empty() {
            self.born = now;
            self.heard = now;
        }
        self.paths.push(Path::new(id, priority));
        self.open_paths();
    }

    /// Client: a path is not to be used any more. What its subflow carries is waited for, for a
    /// second.
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

    /// Client: open further subflows now, however little there is to send.
    pub fn join_now(&mut self, now: Time) {
        self.now = now;
        self.multipath = true;
        self.open_paths();
    }

    /// Server: tells the client a further address, to which it may add paths.
    pub fn advertise(&mut self, now: Time, id: u8, address: std::net::SocketAddr) {
        self.now = now;
        self.send_control(Frame::AddAddress { id, address });
    }

    /// Server: an address is gone.
    pub fn withdraw(&mut self, now: Time, id: u8) {
        self.now = now;
        self.send_control(Frame::RemoveAddress(id));
    }

    /// The driver takes so much for a subflow now, from empty; each frame sent lessens it.
    pub fn set_room(&mut self, now: Time, id: SubflowId, room: Bytes) {
        self.now = now;
        let Some(subflow) = self.subflow_mut(id) else { return };
        subflow.set_room(room.count());
    }

    /// What TCP knows of a subflow.
    pub fn on_path_info(&mut self, now: Time, id: SubflowId, info: PathInfo) {
        self.now = now;
        let Some(subflow) = self.subflow_mut(id) else { return };
        let moved = subflow.learn(now, info);
        let stuck = subflow.is_active() && subflow.is_stuck(now);
        if moved && subflow.unanswered_at().is_some() {
            self.greeting.iter_mut().for_each(|greeting| greeting.delivered = Some(now));
        }
        let stale = self.subflow(id).is_some_and(Subflow::is_stale);
        if moved && stale {
            self.revive(id);
        } else if stuck {
            self.grow_stale(id);
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

    /// A bit that no subflow has.
    fn free_slot(&self) -> Option<Slots> {
        let used = self.subflows.iter().fold(0, |used, subflow| used | subflow.slot);
        let free = (!used).trailing_zeros() as usize;
        (free < MOST_SLOTS).then(|| 1 << free)
    }

    /// Sends a frame on a subflow.
    fn send(&mut self, id: SubflowId, frame: Frame<P>) {
        let now = self.now;
        let Some(subflow) = self.subflow_mut(id) else { return };
        let path_seq = subflow.number();
        let length = frame.wire_length() as u64;
        subflow.give(now, length);
        self.inspect_soon();
        self.outputs.push_back(Output::Send { subflow: id, path_seq, frame });
    }

    /// Sends a frame that has to arrive, on the best subflow.
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

    /// The subflow on which a small frame arrives first.
    fn best(&self) -> Option<SubflowId> {
        let rank = |subflow: &&Subflow<P>| (!subflow.is_active(), subflow.srtt(), subflow.id);
        let usable = self.subflows.iter().filter(|subflow| subflow.is_usable());
        usable.min_by_key(rank).map(|subflow| subflow.id)
    }
}
