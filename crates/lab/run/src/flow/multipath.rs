//! Counters of the subflows of a multipath flow, and the samples made from them.

use std::collections::BTreeMap;

use crate::SubflowSample;
use base::{FlowId, LinkId, Span, Time};
use serde::{Deserialize, Serialize};

/// The last observed state of a subflow. Counters count from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subflow {
    /// Number within the current run of the flow, from 0.
    pub id: u32,
    /// The path, named by the sender's link.
    pub path: LinkId,
    /// Payload bytes that the sender passed to its TCP connection, with retransmissions.
    pub sent: u64,
    /// Payload bytes that the receiver read from it, with duplicates.
    pub received: u64,
    pub retransmits: u64,
    /// Smoothed round-trip time.
    pub srtt: Option<Span>,
    pub window_bytes: Option<u64>,
    /// `connecting`, `active`, `stale`, `closing` or `closed`.
    pub state: &'static str,
}

/// The result of all subflows of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathResult {
    /// The path, named by the sender's link.
    pub path: LinkId,
    /// Number of subflows on the path.
    pub subflows: u64,
    /// Payload bytes that the sender passed to them, with retransmissions.
    pub sent_bytes: u64,
    /// Payload bytes received over them, with duplicates.
    pub received_bytes: u64,
    pub retransmits: u64,
}

/// Measures the longest time without bytes at a receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GapMeter {
    /// Time of the last byte, or of the start; `None` while no bytes are expected.
    since: Option<Time>,
    longest: Span,
    /// The longest since the last sample.
    recent: Span,
}

impl GapMeter {
    pub(crate) const fn begin(&mut self, now: Time) {
        self.since = Some(now);
    }

    pub(crate) fn on_bytes_received(&mut self, now: Time) {
        self.update(now);
        self.since = self.since.map(|_| now);
    }

    pub(crate) fn end(&mut self, now: Time) {
        self.update(now);
        self.since = None;
    }

    fn update(&mut self, now: Time) {
        if let Some(since) = self.since {
            self.recent = self.recent.max(now.since(since));
            self.longest = self.longest.max(self.recent);
        }
    }

    /// The longest gap of the interval that ends now; the gap may have started before it.
    pub(crate) fn cut(&mut self, now: Time) -> Span {
        self.update(now);
        std::mem::take(&mut self.recent)
    }

    pub(crate) const fn longest(&self) -> Span {
        self.longest
    }
}

#[derive(Debug)]
struct TrackedSubflow {
    now: Subflow,
    reported: Subflow,
    /// Whether it has changed since the last sample.
    changed: bool,
}

/// Subflows of a flow, over all its runs.
#[derive(Debug, Default)]
pub(crate) struct Subflows {
    /// Subflows by their number over all runs.
    tracked: BTreeMap<u32, TrackedSubflow>,
    /// Bytes reinjected on another subflow: in the current run, and in earlier runs.
    reinjected: Option<u64>,
    past_reinjected: u64,
    reported_reinjected: u64,
    /// Maximum of bytes out of order at the receiver: over all runs, and in this interval.
    reorder: Option<u64>,
    recent_reorder: u64,
    /// Maximum of bytes buffered at the receiver.
    buffered: Option<u64>,
    /// Number of subflows of earlier runs.
    offset: u32,
}

impl Subflows {
    pub(crate) fn observe(&mut self, mut subflow: Subflow) {
        subflow.id = subflow.id.saturating_add(self.offset);
        if let Some(known) = self.tracked.get_mut(&subflow.id) {
            known.changed |= known.now != subflow;
            known.now = subflow;
            return;
        }
        let reported = Subflow { sent: 0, received: 0, retransmits: 0, ..subflow };
        self.tracked.insert(subflow.id, TrackedSubflow { now: subflow, reported, changed: true });
    }

    pub(crate) fn observe_reinjected(&mut self, bytes: u64) {
        self.reinjected = Some(bytes);
    }

    pub(crate) fn observe_reorder(&mut self, bytes: u64) {
        self.recent_reorder = self.recent_reorder.max(bytes);
        self.reorder = self.reorder.max(Some(bytes));
    }

    pub(crate) fn observe_buffered(&mut self, bytes: u64) {
        self.buffered = self.buffered.max(Some(bytes));
    }

    pub(crate) fn cut(&mut self, at: Time, interval: Span, flow: FlowId) -> Vec<SubflowSample> {
        let mut samples = Vec::new();
        for subflow in self.tracked.values_mut() {
            let (now, last) = (&subflow.now, &subflow.reported);
            if !std::mem::take(&mut subflow.changed) && now.state == CLOSED {
                continue;
            }
            samples.push(SubflowSample {
                at,
                interval,
                flow,
                subflow: now.id,
                path: now.path,
                sent_bytes: now.sent.saturating_sub(last.sent),
                received_bytes: now.received.saturating_sub(last.received),
                rtt: now.srtt,
                cwnd_bytes: now.window_bytes,
                retransmits: now.retransmits.saturating_sub(last.retransmits),
                state: now.state,
            });
            subflow.reported = *now;
        }
        samples
    }

    /// Bytes reinjected and the maximum of bytes out of order since the last call.
    pub(crate) fn cut_counts(&mut self) -> (Option<u64>, Option<u64>) {
        let sum = self.reinjected();
        let reinjected = sum.map(|sum| sum.saturating_sub(self.reported_reinjected));
        self.reported_reinjected = sum.unwrap_or(0);
        let reorder = self.reorder.map(|_| std::mem::take(&mut self.recent_reorder));
        (reinjected, reorder)
    }

    /// Ends the current run and closes its subflows.
    pub(crate) fn close_run(&mut self) {
        for subflow in self.tracked.values_mut() {
            subflow.changed |= subflow.now.state != CLOSED;
            subflow.now.state = CLOSED;
            self.offset = self.offset.max(subflow.now.id.saturating_add(1));
        }
        self.past_reinjected += self.reinjected.as_mut().map_or(0, std::mem::take);
    }

    /// Reinjected bytes over all runs.
    pub(crate) fn reinjected(&self) -> Option<u64> {
        self.reinjected.map(|now| now + self.past_reinjected)
    }

    pub(crate) const fn reorder(&self) -> Option<u64> {
        self.reorder
    }

    pub(crate) const fn buffered(&self) -> Option<u64> {
        self.buffered
    }

    /// Results by path, in the order in which the paths were first used.
    pub(crate) fn into_results(self) -> Vec<PathResult> {
        let mut results: Vec<PathResult> = Vec::new();
        for TrackedSubflow { now, .. } in self.tracked.into_values() {
            let known = results.iter().position(|path| path.path == now.path);
            let at = known.unwrap_or(results.len());
            if known.is_none() {
                results.push(PathResult {
                    path: now.path,
                    subflows: 0,
                    sent_bytes: 0,
                    received_bytes: 0,
                    retransmits: 0,
                });
            }
            let path = &mut results[at];
            path.subflows += 1;
            path.sent_bytes += now.sent;
            path.received_bytes += now.received;
            path.retransmits += now.retransmits;
        }
        results
    }
}

const CLOSED: &str = "closed";
