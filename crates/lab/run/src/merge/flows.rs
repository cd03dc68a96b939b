//! Joins samples of the two ends of a flow that were on different agents.

use std::collections::BTreeMap;

use crate::{FlowSample, SubflowSample, Transfer};
use base::{Span, Time};

use super::sums::take_due;
use crate::Ledgers;

/// Maximum number of samples that wait for the other end, if the times of a shard are wrong.
const MAX_PENDING_SAMPLES: usize = 1 << 20;

/// Samples of flows that are not yet entered.
#[derive(Debug)]
pub(super) struct Flows {
    interval: Span,
    /// By sampling period and flow; each with the number of its shard.
    samples: BTreeMap<(u64, u32), Vec<(usize, FlowSample)>>,
    /// By the end of their interval, flow and number.
    subflows: BTreeMap<(Time, u32, u32), SubflowSample>,
    /// By end time and a sequence number.
    transfers: BTreeMap<(Time, u64), Transfer>,
    count: u64,
}

impl Flows {
    pub(super) const fn new(interval: Span) -> Self {
        Self {
            interval,
            samples: BTreeMap::new(),
            subflows: BTreeMap::new(),
            transfers: BTreeMap::new(),
            count: 0,
        }
    }

    pub(super) fn sample(&mut self, source: usize, sample: FlowSample) {
        let key = (sample.period(self.interval), sample.flow.0);
        let known = self.samples.entry(key).or_default();
        let is_other_end = |other: usize| other != source && other != JOINED;
        match known.iter_mut().find(|(other, _)| is_other_end(*other)) {
            Some((other, end)) => {
                let empty = FlowSample::empty(end.at, end.interval, end.flow);
                *end = std::mem::replace(end, empty).join(sample);
                *other = JOINED;
            }
            None => known.push((source, sample)),
        }
    }

    pub(super) fn subflow(&mut self, sample: SubflowSample) {
        self.subflows.insert((sample.at, sample.flow.0, sample.subflow), sample);
    }

    pub(super) fn transfer(&mut self, transfer: Transfer) {
        let ended = transfer.start + transfer.completion.unwrap_or(Span::ZERO);
        self.count += 1;
        self.transfers.insert((ended, self.count), transfer);
    }

    /// Enters everything before `until`, in the order of time.
    pub(super) fn enter_until(&mut self, until: Time, ledgers: &mut Ledgers) {
        let period = until.as_nanos() / self.interval.as_nanos().max(1);
        let is_over = until == Time::MAX;
        while let Some((_, samples)) =
            take_due(&mut self.samples, MAX_PENDING_SAMPLES, |(own, _)| is_over || *own < period)
        {
            for (_, sample) in samples {
                ledgers.flow(sample);
            }
        }
        let is_due = |at: Time| is_over || at < until;
        while let Some((_, sample)) =
            take_due(&mut self.subflows, MAX_PENDING_SAMPLES, |key| is_due(key.0))
        {
            ledgers.subflow(sample);
        }
        while let Some((_, transfer)) =
            take_due(&mut self.transfers, MAX_PENDING_SAMPLES, |key| is_due(key.0))
        {
            ledgers.transfer(transfer);
        }
    }
}

/// The shard number of a sample that has both ends.
const JOINED: usize = usize::MAX;
