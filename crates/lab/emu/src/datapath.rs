//! The data path: threads that move packets between the namespaces' ports and the fabric.
//!
//! ```text
//! port ─ read, stamp ─▶ ingress (addresses, filters) ─▶ fabric ─▶ egress (merge, write) ─▶ port
//!                                                         │         └─▶ trunk ─▶ other agents
//!                                                         └─▶ routers' answers, captures, mirrors
//! ```

mod agreement;
mod buffer;
mod egress;
mod gateways;
mod ingress;
mod messages;
mod ports;
mod routers;
mod tap;
mod threads;
mod trunk;
mod wait;
mod worker;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use base::Span;
use cluster::AgentId;
use run::Change;
use run::waits::Waits;

use crate::{Error, Result};
pub(crate) use messages::{Batch, REALTIME_SHARE, Report, Setup};
use messages::{Command, Shared};
pub(crate) use worker::{MIN_STALL, REALTIME_PRIORITY};

/// Name of the data path's threads.
pub(crate) const THREAD: &str = "datapath";

/// A running data path.
pub(crate) struct Datapath {
    commands: Sender<Command>,
    waker: Arc<OwnedFd>,
    batches: Receiver<Batch>,
    shared: Shared,
    thread: JoinHandle<Report>,
}

impl Datapath {
    /// Starts the data path. Packets flow from now on, also before lab time zero.
    ///
    /// # Errors
    /// If the fabric rejects the plan, or the kernel cannot create a descriptor.
    pub(crate) fn start(setup: Setup) -> Result<Self> {
        let (commands, inbox) = mpsc::channel();
        let (outbox, batches) = mpsc::channel();
        let (ready, started) = mpsc::channel();
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let waker = rustix::event::eventfd(0, flags).map_err(|e| Error::Datapath(e.into()))?;
        let waker = Arc::new(waker);
        let waker_of_poller = Arc::clone(&waker);
        let shared = Shared::default();
        let copy = shared.clone();
        let thread = std::thread::Builder::new()
            .name(THREAD.to_owned())
            .spawn(move || match threads::build(setup, inbox, outbox, waker_of_poller) {
                Ok((mut worker, poller)) => {
                    let _ = ready.send(Ok(()));
                    worker.share(copy);
                    threads::run(worker, poller)
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                    Report::default()
                }
            })
            .map_err(Error::Datapath)?;
        started.recv().map_err(|_| Error::DatapathPanicked)??;
        Ok(Self { commands, waker, batches, shared, thread })
    }

    /// Schedules a change; a change whose time has passed takes effect immediately.
    pub(crate) fn change(&self, change: Change) {
        self.send(Command::Change(change));
    }

    /// Notifies the data path that an agent of the lab was lost.
    pub(crate) fn on_agent_lost(&self, agent: AgentId) {
        self.send(Command::AgentLost(agent));
    }

    /// Notifies the data path that an agent has returned.
    pub(crate) fn on_agent_restored(&self, agent: AgentId) {
        self.send(Command::AgentRestored(agent));
    }

    /// Sets the egress lead time of packets for an agent.
    pub(crate) fn set_lead(&self, agent: AgentId, lead: Span) {
        self.send(Command::SetLead(agent, lead));
    }

    /// Suspends real-time scheduling while the thread uses more than `share` of a CPU.
    pub(crate) fn limit_realtime(&self, share: f64) {
        self.send(Command::Realtime(share));
    }

    pub(crate) fn waits(&self) -> Arc<Waits> {
        Arc::clone(&self.shared.waits)
    }

    /// Sets whether batches contain the lateness.
    pub(crate) fn set_watched(&self, is_watched: bool) {
        self.shared.is_watched.store(is_watched, Ordering::Relaxed);
    }

    /// Whether the command outside should give the thread real-time priority. In a user namespace,
    /// only a resource limit permits it, which needs another privilege than the priority itself.
    pub(crate) fn requests_realtime(&self) -> bool {
        self.shared.requests_realtime.swap(false, Ordering::Relaxed)
    }

    /// The next batch of counters, if one is available.
    pub(crate) fn batch(&self) -> Option<Batch> {
        self.batches.try_recv().ok()
    }

    /// Whether the thread still runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Stops the data path, and returns its report and the remaining batches.
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
            // If the counter is full, the thread has not woken up yet and will handle it, too.
            let _ = rustix::io::write(self.waker.as_fd(), &1u64.to_ne_bytes());
        }
    }
}
