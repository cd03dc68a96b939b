//! What a multipath flow has counted, by subflow, and the samples that are cut from it.

use std::collections::BTreeMap;

use base::{FlowId, LinkId, Span, Time};
use record::SubflowSample;
use serde::{Deserialize, Serialize};

/// A subflow as it was last observed. Counters count since its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subflow {
    /// Its number within the present run of the flow, from 0.
    pub id: u32,
    /// Its path, by the sender's link.
    pub path: LinkId,
    /// Payload bytes that the sender handed to its TCP connection, repetitions included.
    pub sent: u64,
    /// Payload bytes that the receiver took from it, repetitions included.
    pub received: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Smoothed round-trip time.
    pub srtt: Option<Span>,
    /// Congestion window, in bytes.
    pub window_bytes: Option<u64>,
    /// What it is doing: `connecting`, `active`, `stale`, `closing` or `closed`.
    pub state: &'static str,
}

/// What all subflows over one path came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathResult {
    /// The path, by the sender's link.
    pub path: LinkId,
    /// Subflows there were on it.
    pub subflows: u64,
    /// Payload bytes that the sender handed to them, repetitions included.
    pub sent_bytes: u64,
    /// Payload bytes that arrived over them, repetitions included.
    pub received_bytes: u64,
    /// Segments sent again.
    pub retransmits: u64,
}

/// The longest time without a byte at a receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    /// Since when nothing has come; `None`: nobody waits.
    since: Option<Time>,
    /// The longest over all, and the longest that was not over when the last sample was cut.
    longest: Span,
    recent: Span,
}

impl Silence {
    pub(crate) const fn begin(&mut self, now: Time) {
        self.since = Some(now);
    }

    /// Something came.
    pub(crate) fn heard(&mut self, now: Time) {
        self.note(now);
        self.since = self.since.map(|_| now);
    }

    pub(crate) fn end(&mut self, now: Time) {
        self.note(now);
        self.since = None;
    }

    fn note(&mut self, now: Time) {
        if let Some(since) = self.since {
            self.recent = self.recent.max(now.since(since));
            self.longest = self.longest.max(self.recent);
        }
    }

    /// The longest of the interval that ends now, reckoned from its own beginning.
    pub(crate) fn cut(&mut self, now: Time) -> Span {
        self.note(now);
        std::mem::take(&mut self.recent)
    }

    pub(crate) const fn longest(&self) -> Span {
        self.longest
    }
}

#[derive(Debug)]
struct Kept {
    now: Subflow,
    reported: Subflow,
    /// Something has changed since the last sample.
    fresh: bool,
}

/// Subflows of a flow, over all its runs.
#[derive(Debug, Default)]
pub(crate) struct Subflows {
    /// By number.
    kept: BTreeMap<u32, Kept>,
    /// Bytes sent again over another subflow: in the present run, and before.
    reinjected: Option<u64>,
    past_reinjected: u64,
    reported_reinjected: u64,
    /// The most bytes that waited at the receiver for earlier ones: ever, and in this interval.
    reorder: Option<u64>,
    recent_reorder: u64,
    /// The most bytes that a receiver kept, in order or not.
    buffered: Option<u64>,
    /// The runs before this had so many numbers.
    offset: u32,
}

impl Subflows {
    pub(crate) fn observe(&mut self, mut subflow: Subflow) {
        subflow.id = subflow.id.saturating_add(self.offset);
        if let Some(kept) = self.kept.get_mut(&subflow.id) {
            kept.fresh |= kept.now != subflow;
            kept.now = subflow;
            return;
        }
        let reported = Subflow { sent: 0, received: 0, retransmits: 0, ..subflow };
        self.kept.insert(subflow.id, Kept { now: subflow, reported, fresh: true });
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
        for kept in self.kept.values_mut() {
            let (now, last) = (&kept.now, &kept.reported);
            if !std::mem::take(&mut kept.fresh) && now.state == CLOSED {
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
            kept.reported = *now;
        }
        samples
    }

    /// Bytes sent again over another subflow, and the most that waited, since the last call.
    pub(crate) fn cut_counts(&mut self) -> (Option<u64>, Option<u64>) {
        let sum = self.reinjected();
        let again = sum.map(|sum| sum.saturating_sub(self.reported_reinjected));
        self.reported_reinjected = sum.unwrap_or(0);
        let waited = self.reorder.map(|_| std::mem::take(&mut self.recent_reorder));
        (again, waited)
    }

    /// The present run is over: its subflows are, too.
    pub(crate) fn close_run(&mut self) {
        for kept in self.kept.values_mut() {
            kept.fresh |= kept.now.state != CLOSED;
            kept.now.state = CLOSED;
            self.offset = self.offset.max(kept.now.id.saturating_add(1));
        }
        self.past_reinjected += self.reinjected.as_mut().map_or(0, std::mem::take);
    }

    pub(crate) fn reinjected(&self) -> Option<u64> {
        self.reinjected.map(|now| now + self.past_reinjected)
    }

    pub(crate) const fn reorder(&self) -> Option<u64> {
        self.reorder
    }

    pub(crate) const fn buffered(&self) -> Option<u64> {
        self.buffered
    }

    /// By path, in the order in which the paths were first used.
    pub(crate) fn into_results(self) -> Vec<PathResult> {
        let mut results: Vec<PathResult> = Vec::new();
        for Kept { now, .. } in self.kept.into_values() {
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

/// The state of a subflow that is gone.
const CLOSED: &str = "closed";
