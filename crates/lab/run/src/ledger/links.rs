//! Turns counters of links into samples, and retains the data for summaries and expectations.

use crate::{DropReason, FlowSample, LinkSample, RecorderHandle, SubflowSample};
use base::{Direction, Histogram, LinkId, Time};
use fabric::{Fabric, LinkStats, QueueLevel};
use lab::expect::Subject;
use lab::plan::Plan;

use crate::start::topology;

/// Turns counters of links into samples.
#[derive(Debug)]
pub struct LinkLedger {
    recorder: RecorderHandle,
    at: Time,
    pub(crate) last: Vec<LinkStats>,
    pub(crate) queue_max_bytes: Vec<u64>,
    /// Positions whose counters are reported: all but access links of hosts for generated sessions.
    pub(crate) reported: Vec<bool>,
    /// Positions whose samples are recorded.
    sampled: Vec<bool>,
    /// Positions whose samples are retained, because an expectation names them.
    named: Vec<bool>,
    pub(crate) samples: Vec<LinkSample>,
}

impl LinkLedger {
    /// A ledger whose samples go to `recorder`.
    pub fn new(plan: &Plan, recorder: RecorderHandle) -> Self {
        let positions = plan.links.len() * 2;
        let mut named = vec![false; positions];
        for expectation in &plan.expectations {
            if let Subject::Link(link, direction) = expectation.metric.subject {
                named[link.index() * 2 + direction.index()] = true;
            }
        }
        let (reported, sampled) = topology::positions(plan, &named);
        Self {
            recorder,
            reported,
            sampled,
            at: Time::ZERO,
            last: vec![LinkStats::default(); positions],
            queue_max_bytes: vec![0; positions],
            named,
            samples: Vec::new(),
        }
    }

    /// Enters the counters of all links at `at`, counted since the start: up and down of link 0, up
    /// and down of link 1, … as returned by [`link_counters`].
    pub fn enter(&mut self, at: Time, links: impl IntoIterator<Item = (LinkStats, QueueLevel)>) {
        let positions = links.into_iter().enumerate().take(self.last.len());
        self.enter_changed(at, positions.map(|(at, (stats, level))| (at, stats, level)));
    }

    /// Whether the counters of each position are reported.
    pub fn reported(&self) -> &[bool] {
        &self.reported
    }

    /// Like [`Self::enter`], with positions; omitted positions are unchanged.
    pub fn enter_changed(
        &mut self,
        at: Time,
        links: impl IntoIterator<Item = (usize, LinkStats, QueueLevel)>,
    ) {
        let interval = at.since(self.at);
        for (position, stats, level) in links {
            let peak = &mut self.queue_max_bytes[position];
            *peak = level.peak_bytes.max(*peak);
            let last = &self.last[position];
            let is_idle = stats == *last && level.peak_packets == 0 && level.peak_bytes == 0;
            if interval.is_positive() && !is_idle {
                let direction = Direction::BOTH[position % 2];
                let link = LinkId::at(position / 2);
                let mut sample = LinkSample::empty(at, interval, link, direction);
                sample.sent_packets = stats.sent_packets - last.sent_packets;
                sample.sent_bytes = stats.sent_bytes - last.sent_bytes;
                sample.queue_packets = level.packets;
                sample.queue_bytes = level.bytes;
                sample.queue_max_bytes = level.peak_bytes;
                sample.queue_delay_max = (sample.sent_bytes > 0).then_some(level.peak_delay);
                for reason in fabric::DropReason::ALL {
                    sample.drops[DropReason::from(reason).index()] =
                        stats.drops[reason.index()] - last.drops[reason.index()];
                }
                sample.marks = stats.marked - last.marked;
                if self.named[position] {
                    self.samples.push(sample.clone());
                }
                if self.sampled[position] {
                    self.recorder.link(sample);
                }
            }
            self.last[position] = stats;
        }
        self.at = at;
    }
}

/// Retains the samples of flows named by an expectation.
#[derive(Debug, Default)]
pub struct FlowLedger {
    named: Vec<bool>,
    pub(crate) samples: Vec<FlowSample>,
    pub(crate) subflows: Vec<SubflowSample>,
}

impl FlowLedger {
    /// A ledger for the expectations of `plan`.
    pub fn new(plan: &Plan) -> Self {
        let mut named = vec![false; plan.flows.len()];
        for expectation in &plan.expectations {
            if let Some(flow) = expectation.metric.subject.flow() {
                named[flow.index()] = true;
            }
        }
        Self { named, samples: Vec::new(), subflows: Vec::new() }
    }

    /// Retains the sample if an expectation names the flow.
    pub fn enter(&mut self, sample: &FlowSample) {
        if self.named.get(sample.flow.index()) == Some(&true) {
            self.samples.push(sample.clone());
        }
    }

    /// Retains the sample of a subflow if an expectation names the flow.
    pub fn enter_subflow(&mut self, sample: &SubflowSample) {
        if self.named.get(sample.flow.index()) == Some(&true) {
            self.subflows.push(*sample);
        }
    }
}

/// All directions of `links` links, in the ledger's order.
fn directions(links: usize) -> impl Iterator<Item = (LinkId, Direction)> {
    (0..links).flat_map(|link| Direction::BOTH.map(|direction| (LinkId::at(link), direction)))
}

/// The counters of a fabric's links for [`LinkLedger::enter`]. Resets the peaks.
pub fn link_counters<B: Clone + 'static>(
    fabric: &mut Fabric<B>,
    links: usize,
) -> Vec<(LinkStats, QueueLevel)> {
    let read = |(link, direction)| {
        let level = fabric.take_queue_level(link, direction);
        (fabric.stats(link, direction).clone(), level)
    };
    directions(links).map(read).collect()
}

/// Takes the queueing delays of each direction of a fabric's links, in the ledger's order.
pub fn take_queue_delays<B: Clone + 'static>(
    fabric: &mut Fabric<B>,
    links: usize,
) -> Vec<Histogram> {
    directions(links).map(|(link, direction)| fabric.take_queue_delays(link, direction)).collect()
}
