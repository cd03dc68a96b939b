//! The ledgers of a run and their input.

use crate::{FlowSample, RecorderHandle, SubflowSample, Transfer};
use base::Time;
use bundler::sendbox::{Status, Transition};
use fabric::{LinkStats, QueueLevel, Share};
use lab::plan::Plan;

use crate::{BundleLedger, FlowLedger, LinkLedger, ShareLedger};

pub(crate) mod bundles;
pub(crate) mod links;
pub(crate) mod shares;

/// Counters of a whole network at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The time at which they were read.
    pub at: Time,
    /// Counters since the start by position: up and down of link 0, up and down of link 1, …
    /// Unchanged positions may be omitted.
    pub links: Vec<(u32, LinkStats, QueueLevel)>,
    /// Shares of the flows of the collapsed model.
    pub shares: Vec<Share>,
    /// Statuses of bundles, in the order of the plan; `None` while a sendbox is stopped.
    pub bundles: Vec<Option<Status>>,
    /// State changes of bundles since the previous batch, by the bundle's position.
    pub bundle_changes: Vec<(u32, Transition)>,
}

/// Convert counters to the samples, summaries and expectation results of a run.
#[derive(Debug)]
pub struct Ledgers {
    pub links: LinkLedger,
    /// Shares of flows of the collapsed model.
    pub shares: ShareLedger,
    pub bundles: BundleLedger,
    pub flows: FlowLedger,
    recorder: RecorderHandle,
}

impl Ledgers {
    /// Ledgers whose samples go to `recorder`.
    pub fn new(plan: &Plan, recorder: RecorderHandle) -> Self {
        Self {
            links: LinkLedger::new(plan, recorder.clone()),
            shares: ShareLedger::new(plan, recorder.clone()),
            bundles: BundleLedger::new(plan, recorder.clone()),
            flows: FlowLedger::new(plan),
            recorder,
        }
    }

    pub fn enter(&mut self, batch: Batch) {
        let links = batch.links.into_iter();
        let links = links.map(|(position, stats, level)| (position as usize, stats, level));
        self.links.enter_changed(batch.at, links);
        self.shares.enter(batch.at, batch.shares);
        for (bundle, transition) in &batch.bundle_changes {
            self.bundles.transition(*bundle as usize, transition);
        }
        self.bundles.enter(batch.at, batch.bundles);
    }

    pub fn flow(&mut self, sample: FlowSample) {
        self.flows.enter(&sample);
        self.recorder.flow(sample);
    }

    pub fn subflow(&mut self, sample: SubflowSample) {
        self.flows.enter_subflow(&sample);
        self.recorder.subflow(sample);
    }

    pub fn transfer(&mut self, transfer: Transfer) {
        self.recorder.transfer(transfer);
    }
}
