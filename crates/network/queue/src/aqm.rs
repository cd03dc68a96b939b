//! Active queue management of one list of packets, and the FIFO queue that uses it.

use std::fmt::Debug;

use base::{RandomStream, Time};

use crate::backlog::{Backlog, Load};
use crate::{DropReason, Queue, Queued, Verdicts};

/// The state of an algorithm for one list: of a FIFO queue, or of a flow of a fair queue.
pub(crate) trait Aqm: Debug + Default + PartialEq + Send {
    /// Parameters, the same for all flows of a queue.
    type Parameters: Debug + Send;

    /// Handles an arrival, which may be dropped or marked, before the limit is checked. Returns it
    /// if it is to be queued.
    fn arrive(
        &mut self,
        _now: Time,
        _parameters: &Self::Parameters,
        entry: Queued,
        _backlog: &Backlog,
        _random: &mut RandomStream,
        _verdicts: &mut Verdicts,
    ) -> Option<Queued> {
        Some(entry)
    }

    /// The next packet to transmit; packets before it may be dropped.
    fn dequeue(
        &mut self,
        now: Time,
        parameters: &Self::Parameters,
        backlog: &mut Backlog,
        load: &mut Load,
        verdicts: &mut Verdicts,
    ) -> Option<Queued>;
}

/// No active queue management.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Unmanaged;

impl Aqm for Unmanaged {
    type Parameters = ();

    fn dequeue(
        &mut self,
        _now: Time,
        _parameters: &Self::Parameters,
        backlog: &mut Backlog,
        load: &mut Load,
        _verdicts: &mut Verdicts,
    ) -> Option<Queued> {
        backlog.pop(load)
    }
}

/// A FIFO queue with active queue management.
#[derive(Debug)]
pub(crate) struct Managed<A: Aqm> {
    parameters: A::Parameters,
    random: RandomStream,
    state: A,
    backlog: Backlog,
}

impl<A: Aqm> Managed<A> {
    pub(crate) fn new(parameters: A::Parameters, random: RandomStream) -> Self {
        Self { parameters, random, state: A::default(), backlog: Backlog::default() }
    }
}

impl<A: Aqm> Queue for Managed<A> {
    fn enqueue(&mut self, now: Time, entry: Queued, load: &mut Load, verdicts: &mut Verdicts) {
        if load.is_full(entry.size) {
            return verdicts.drop(entry, DropReason::QueueFull);
        }
        let Self { parameters, random, state, backlog } = self;
        if let Some(entry) = state.arrive(now, parameters, entry, backlog, random, verdicts) {
            backlog.push(entry, load);
        }
    }

    fn dequeue(&mut self, now: Time, load: &mut Load, verdicts: &mut Verdicts) -> Option<Queued> {
        self.state.dequeue(now, &self.parameters, &mut self.backlog, load, verdicts)
    }

    fn push(&mut self, entry: Queued, load: &mut Load) {
        self.backlog.push(entry, load);
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.backlog.drain()
    }
}
