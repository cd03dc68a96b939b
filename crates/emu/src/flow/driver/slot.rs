//! A flow and where it stands.

use base::{Span, Time};
use outcome::{Half, Outcome, Tally};

use super::super::Placed;
use super::super::meeting::Meeting;
use super::super::traffic::Endpoints;
use super::Shared;

pub(super) enum Phase {
    /// Its start is ahead.
    Waiting,
    Running(Box<dyn Endpoints>),
    /// The end on another machine has let go: a failure, unless there is reason for it by then.
    Failing {
        error: String,
        until: Time,
    },
    /// Perhaps with what the end on another machine has still to be told by.
    Ended(Option<Box<dyn Endpoints>>),
}

/// A flow and all that is known of it.
pub(super) struct Slot {
    pub(super) placed: Placed,
    pub(super) phase: Phase,
    /// Where its next run will take place, if the sender is on another machine; the error, if
    /// there is no such place.
    pub(super) next_meeting: Option<sys::Result<Meeting>>,
    pub(super) tally: Tally,
    pub(super) outcome: Outcome,
    /// What each run has told of where it ended.
    pub(super) edges: Vec<(u16, u64)>,
    /// Counts its runs, so that an old socket's events are not taken for a new one's.
    pub(super) generation: u16,
    pub(super) started: Option<Time>,
    /// Start of the present or last run.
    pub(super) run_started: Time,
    pub(super) expires: Option<Time>,
    /// The machine of its other end is lost: when that is a failure.
    pub(super) fails_at: Option<Time>,
    pub(super) ended: Option<Time>,
    pub(super) active: Span,
    pub(super) completion: Option<Span>,
    /// Its deadline in the heap.
    pub(super) scheduled: Option<Time>,
    /// It ran at some time since the last sample.
    pub(super) touched: bool,
}

impl Slot {
    pub(super) fn new(placed: Placed) -> Self {
        Self {
            placed,
            phase: Phase::Waiting,
            next_meeting: None,
            tally: Tally::default(),
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

    /// Whether it has an end of its own that has not come. The sender knows.
    pub(super) fn is_pending(&self) -> bool {
        let has_ended = matches!(self.phase, Phase::Ended(_));
        !has_ended && self.placed.flow.is_finite() && self.placed.half() != Half::Accepting
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let own = match &self.phase {
            Phase::Waiting => Some(self.placed.flow.start),
            Phase::Running(endpoints) => {
                [endpoints.deadline(), self.expires].into_iter().flatten().min()
            }
            Phase::Failing { until, .. } => {
                self.expires.map_or(Some(*until), |at| Some(at.min(*until)))
            }
            Phase::Ended(_) => return None,
        };
        [own, self.fails_at].into_iter().flatten().min()
    }

    /// Closes the sockets of a running flow. Those of a receiver are kept if the sender is on
    /// another machine.
    pub(super) fn close(&mut self, shared: &mut Shared, base: u64, at: Time) {
        let Phase::Running(mut endpoints) = std::mem::replace(&mut self.phase, Phase::Ended(None))
        else {
            return;
        };
        endpoints.close(&mut shared.scope(base, &mut self.tally));
        endpoints.observe(&mut self.tally);
        let edge = endpoints.edge().filter(|_| self.placed.is_split());
        self.edges.extend(edge.map(|edge| (self.generation, edge)));
        self.tally.end_waiting(at);
        self.tally.record_rtt();
        self.tally.close_run();
        self.active += at.since(self.run_started);
        self.ended = Some(at);
        if self.placed.half() == Half::Accepting {
            self.phase = Phase::Ended(Some(endpoints));
        }
    }
}
