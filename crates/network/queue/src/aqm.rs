//! Active queue management of one list of packets, and the FIFO queue that uses it.

use std::fmt::Debug;

use base::{RandomStream, Time};

use crate::backlog::{Backlog, full};
use crate::{DropReason, Queue, QueueLimit, Queued, Verdicts};

/// The state of an algorithm for one list: of a FIFO queue, or of a flow of a fair queue.
pub(crate) trait Aqm: Debug + Default + Send {
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
        verdicts: &mut Verdicts,
    ) -> Option<Queued>;
}

/// A FIFO queue with active queue management.
#[derive(Debug)]
pub(crate) struct Managed<A: Aqm> {
    parameters: A::Parameters,
    limit: QueueLimit,
    random: RandomStream,
    state: A,
    backlog: Backlog,
}

impl<A: Aqm> Managed<A> {
    pub(crate) fn new(parameters: A::Parameters, limit: QueueLimit, random: RandomStream) -> Self {
        Self { parameters, limit, random, state: A::default(), backlog: Backlog::new() }
    }
}

impl<A: Aqm> Queue for Managed<A> {
    fn enqueue(&mut self, now: Time, entry: Queued, verdicts: &mut Verdicts) {
        if full(self.limit, self.backlog.len(), self.backlog.bytes, entry.size) {
            return verdicts.drop(entry, DropReason::QueueFull);
        }
        let Self { parameters, random, state, backlog, .. } = self;
        if let Some(entry) = state.arrive(now, parameters, entry, backlog, random, verdicts) {
            backlog.push(entry);
        }
    }

    fn dequeue(&mut self, now: Time, verdicts: &mut Verdicts) -> Option<Queued> {
        self.state.dequeue(now, &self.parameters, &mut self.backlog, verdicts)
    }

    fn packets(&self) -> usize {
        self.backlog.len()
    }

    fn bytes(&self) -> u64 {
        self.backlog.bytes
    }

    fn drain(&mut self) -> Vec<Queued> {
        self.backlog.drain()
    }

    fn set_limit(&mut self, limit: QueueLimit) {
        self.limit = limit;
    }

    fn restore(&mut self, entries: Vec<Queued>) {
        for entry in entries {
            self.backlog.push(entry);
        }
    }
}
