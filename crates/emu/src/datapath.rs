//! The data path: one thread that moves packets between the namespaces' ports and the fabric.
//!
//! ```text
//! port ─ read, stamp ─▶ ingress (addresses, filters) ─▶ fabric ─▶ egress (merge, write) ─▶ port
//!                                                         │         └─▶ trunk ─▶ other members
//!                                                         └─▶ routers' answers, captures, mirrors
//! ```

mod boxes;
mod buffer;
mod council;
mod egress;
mod ingress;
mod ports;
mod routers;
mod tap;
mod trunk;
mod wait;
mod worker;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use base::{Histogram, Span, Time};
use cluster::AgentId;
use cluster::control::TrunkState;
use cluster::trunk::TrunkStatistics;
use fabric::{Forwarding, LinkStats, QueueLevel};
use lab::plan::Plan;
use outcome::Change;
use record::calls::{CallReport, CallWriter};
use record::{CaptureId, RecorderHandle};

use crate::clock::LabClock;
use crate::enclosure::Enclosure;
use crate::piece::{Piece, Sockets};
use crate::{Error, Result};

pub(crate) use council::Talk;

/// Share of a CPU above which real-time scheduling is given up for a while, so that the programs
/// under test get their turn and the kernel's own throttle (95 %) never strikes.
pub(crate) const REALTIME_SHARE: f64 = 0.7;

/// What the data path is told before it starts.
pub(crate) struct Setup {
    /// The network to emulate.
    pub(crate) plan: Arc<Plan>,
    /// The ports.
    pub(crate) enclosure: Arc<Enclosure>,
    /// Routes at the start.
    pub(crate) forwarding: Box<dyn Forwarding + Send>,
    /// Where captures go.
    pub(crate) recorder: RecorderHandle,
    /// The capture of each interface, by `IfaceId`; `None` where it is not captured.
    pub(crate) captures: Vec<Option<CaptureId>>,
    /// The capture of each mirror session that goes to a file, by `MirrorId`.
    pub(crate) mirror_captures: Vec<Option<CaptureId>>,
    /// The lab's time.
    pub(crate) clock: LabClock,
    /// Where the fabric's calls go, if they are recorded.
    pub(crate) calls: Option<CallWriter>,
    /// What of the lab is here, where it is not all of it, and how the rest is reached.
    pub(crate) piece: Option<(Arc<Piece>, Sockets)>,
}

enum Command {
    Change(Change),
    Lose(AgentId),
    Regain(AgentId),
    Lead(AgentId, Span),
    Realtime(f64),
    Finish,
}

/// Counters of all links at one moment.
#[derive(Debug)]
pub(crate) struct Batch {
    /// When they were read.
    pub(crate) at: Time,
    /// Counters since the start, up and down of link 0, up and down of link 1, …
    pub(crate) links: Vec<(LinkStats, QueueLevel)>,
    /// What the flows of the collapsed model have of the network.
    pub(crate) shares: Vec<fabric::Share>,
    /// How bundles do, in the order of the plan; `None` while a sendbox is stopped.
    pub(crate) bundles: Vec<Option<bundler::sendbox::Status>>,
    /// Changes of bundles' states since the batch before.
    pub(crate) bundle_changes: Vec<middlebox::Change>,
    /// Packets delivered so far.
    pub(crate) delivered: u64,
    /// What the trunks have brought so far, by member; empty where there are none.
    pub(crate) trunks: Vec<TrunkState>,
}

/// What the data path says of itself at the end.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// By how much packets left later than the emulated network says.
    pub(crate) lateness: Histogram,
    /// How long packets may have waited, at most, before they were stamped.
    pub(crate) ingress: Histogram,
    /// From the arrival of a packet that told of a flow to all shares in force; where the lab has
    /// other members: from what they announced to the shares that follow here.
    pub(crate) notices: Histogram,
    /// What was said to other members of the lab, and by them.
    pub(crate) talk: Talk,
    /// What became of packets from and to other members of the lab, by `AgentId`.
    pub(crate) trunks: Vec<TrunkStatistics>,
    /// How long before they are due packets left for each other member, in the end.
    pub(crate) leads: Vec<Span>,
    /// Datagrams of other members that found no room in the socket.
    pub(crate) overrun: u64,
    /// Packets of other members for interfaces that are not here.
    pub(crate) astray: u64,
    /// Packets (segments) delivered.
    pub(crate) delivered: u64,
    /// Writes to ports; segments written together count once.
    pub(crate) writes: u64,
    /// Reads from ports.
    pub(crate) reads: u64,
    /// Packets of no known family or layout.
    pub(crate) malformed: u64,
    /// Packets that a node's kernel would not take: its interface was down.
    pub(crate) refused: u64,
    /// Packets that a node's kernel rejected as wrong, which it should never.
    pub(crate) rejected: u64,
    /// Packets dropped because the emulation had no memory left for them.
    pub(crate) memory_drops: u64,
    /// CPU time of the data path.
    pub(crate) cpu: Span,
    /// Wall time of the data path.
    pub(crate) wall: Span,
    /// Share of the time in which releases were gathered on a grid.
    pub(crate) gathered: f64,
    /// The least wake-up time, which was subtracted from arrivals.
    pub(crate) wake_up: Span,
    /// How long its thread waited for a CPU, where the kernel tells.
    pub(crate) cpu_wait: Option<Span>,
    /// Whether real-time scheduling was granted.
    pub(crate) realtime: bool,
    /// How long real-time scheduling was suspended.
    pub(crate) suspended: Span,
    /// How long packets waited in each link direction's queue, as the batches count them.
    pub(crate) queue_delays: Vec<Histogram>,
    /// Events of the fabric.
    pub(crate) events: u64,
    /// Hash over all deliveries.
    pub(crate) trace_hash: u64,
    /// What a reader of the results should know of boxes.
    pub(crate) warnings: Vec<String>,
    /// What became of the recording, if there is one.
    pub(crate) calls: Option<CallReport>,
}

/// A data path that runs.
pub(crate) struct Datapath {
    commands: Sender<Command>,
    bell: Arc<OwnedFd>,
    batches: Receiver<Batch>,
    thread: JoinHandle<Report>,
}

impl Datapath {
    /// Starts it. Packets flow from here on; the lab's time zero may still be ahead.
    ///
    /// # Errors
    /// If the fabric refuses the plan or the kernel a descriptor.
    pub(crate) fn start(setup: Setup) -> Result<Self> {
        let (commands, inbox) = mpsc::channel();
        let (outbox, batches) = mpsc::channel();
        let (ready, started) = mpsc::channel();
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let bell = rustix::event::eventfd(0, flags).map_err(|e| Error::Datapath(e.into()))?;
        let bell = Arc::new(bell);
        let ring = Arc::clone(&bell);
        let thread = std::thread::Builder::new()
            .name("datapath".to_owned())
            .spawn(move || match worker::Worker::try_new(setup, inbox, outbox, ring) {
                Ok(worker) => {
                    let _ = ready.send(Ok(()));
                    worker.run()
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                    Report::default()
                }
            })
            .map_err(Error::Datapath)?;
        started.recv().map_err(|_| Error::DatapathPanicked)??;
        Ok(Self { commands, bell, batches, thread })
    }

    /// Schedules a change; one whose time has passed takes effect at once.
    pub(crate) fn change(&self, change: Change) {
        self.send(Command::Change(change));
    }

    /// A member of the lab is gone.
    pub(crate) fn lose(&self, agent: AgentId) {
        self.send(Command::Lose(agent));
    }

    /// A member that was gone is there again.
    pub(crate) fn regain(&self, agent: AgentId) {
        self.send(Command::Regain(agent));
    }

    /// Packets for a member leave so long before they are due from now on.
    pub(crate) fn lead(&self, agent: AgentId, lead: Span) {
        self.send(Command::Lead(agent, lead));
    }

    /// Suspends real-time scheduling where its thread takes more than `share` of a CPU.
    pub(crate) fn limit_realtime(&self, share: f64) {
        self.send(Command::Realtime(share));
    }

    /// The next batch of counters, if there is one.
    pub(crate) fn batch(&self) -> Option<Batch> {
        self.batches.try_recv().ok()
    }

    /// Whether its thread still runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Stops it; the last batch can still be had from the receiver.
    ///
    /// # Errors
    /// If its thread panicked.
    pub(crate) fn finish(self) -> Result<(Report, Vec<Batch>)> {
        self.send(Command::Finish);
        let report = self.thread.join().map_err(|_| Error::DatapathPanicked)?;
        Ok((report, self.batches.try_iter().collect()))
    }

    fn send(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            // A full counter means that the thread has yet to wake: it will see this too.
            let _ = rustix::io::write(self.bell.as_fd(), &1u64.to_ne_bytes());
        }
    }
}
