//! The state of a flow.

use base::{Span, Time};
use run::{FlowCounters, FlowEnds, Outcome};

use super::super::rendezvous::Rendezvous;
use super::super::traffic::Endpoints;
use super::super::{FlowOptions, Placed};
use super::Shared;

pub(super) enum Phase {
    /// It has not started yet.
    Waiting,
    Running(Box<dyn Endpoints>),
    /// The end on another agent has failed or closed; the flow fails at `until`
    /// unless it ends before.
    Failing {
        error: String,
        until: Time,
    },
    /// A receiver may still have to answer a sender on another agent.
    Ended(Option<Box<dyn Endpoints>>),
}

pub(super) struct Slot {
    pub(super) placed: Placed,
    pub(super) phase: Phase,
    /// The rendezvous of its next run, if the sender is on another agent; or the error if it
    /// could not be opened.
    pub(super) next_rendezvous: Option<sys::Result<Rendezvous>>,
    pub(super) counters: FlowCounters,
    pub(super) outcome: Outcome,
    /// See [`run::FlowResult::edges`].
    pub(super) edges: Vec<(u16, u64)>,
    /// Run number; distinguishes events of old and new sockets.
    pub(super) generation: u16,
    pub(super) started: Option<Time>,
    /// Start of the current or last run.
    pub(super) run_started: Time,
    pub(super) expires: Option<Time>,
    /// Time at which the flow fails because the agent of its other end is lost.
    pub(super) fails_at: Option<Time>,
    pub(super) ended: Option<Time>,
    pub(super) active: Span,
    pub(super) completion: Option<Span>,
    /// The flow's deadline in the heap.
    pub(super) scheduled: Option<Time>,
    /// Whether it was active since the last sample.
    pub(super) touched: bool,
}

impl Slot {
    pub(super) fn new(placed: Placed, options: &FlowOptions) -> Self {
        let counters = match &options.waits {
            Some((waits, tolerance)) => {
                FlowCounters::on_host(waits.clone(), *tolerance, &placed.flow.traffic)
            }
            None => FlowCounters::default(),
        };
        Self {
            placed,
            phase: Phase::Waiting,
            next_rendezvous: None,
            counters,
            outcome: Outcome::NotStarted,
            edges: Vec::new(),
            generation: 0,
            started: None,
            run_started: Time::ZERO,
            expires: None,
            fails_at: None,
            ended: None,
            active: Span::ZERO,
            completion: None,
            scheduled: None,
            touched: false,
        }
    }

    /// Whether it is finite and has not ended. Counted by the engine with the sender.
    pub(super) fn is_pending(&self) -> bool {
        let has_ended = matches!(self.phase, Phase::Ended(_));
        !has_ended
            && self.placed.flow.is_finite()
            && self.placed.local_ends() != FlowEnds::Accepting
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        let own = match &self.phase {
            Phase::Waiting => Some(self.placed.flow.start),
            Phase::Running(endpoints) => {
                [endpoints.next_wake(), self.expires].into_iter().flatten().min()
            }
            Phase::Failing { until, .. } => {
                self.expires.map_or(Some(*until), |at| Some(at.min(*until)))
            }
            Phase::Ended(_) => return None,
        };
        [own, self.fails_at].into_iter().flatten().min()
    }

    /// Closes the sockets of an active flow. A receiver's sockets are kept if the sender
    /// is on another agent.
    pub(super) fn close(&mut self, shared: &mut Shared, base: u64, at: Time) {
        let Phase::Running(mut endpoints) = std::mem::replace(&mut self.phase, Phase::Ended(None))
        else {
            return;
        };
        endpoints.close(&mut shared.scope(base, &mut self.counters));
        endpoints.observe(&mut self.counters);
        let edge = endpoints.edge().filter(|_| self.placed.is_split());
        self.edges.extend(edge.map(|edge| (self.generation, edge)));
        self.counters.stop_gap_measurement(at);
        self.counters.record_rtt();
        self.counters.close_run();
        self.active += at.since(self.run_started);
        self.ended = Some(at);
        if self.placed.local_ends() == FlowEnds::Accepting {
            self.phase = Phase::Ended(Some(endpoints));
        }
    }
}
