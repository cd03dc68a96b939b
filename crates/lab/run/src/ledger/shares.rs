//! Turns shares of the flows of the collapsed model into samples.

use std::collections::BTreeMap;

use crate::{FlowKind, RecorderHandle, ShareSample};
use base::{IfaceId, NodeId, Span, Time};
use fabric::Share;
use lab::plan::Plan;

/// Time after which the counters of an absent flow are removed.
const FLOW_TIMEOUT: Span = Span::from_secs(2);

/// Turns shares into samples.
#[derive(Debug)]
pub struct ShareLedger {
    recorder: RecorderHandle,
    at: Time,
    nodes: Vec<NodeId>,
    last_samples: BTreeMap<(IfaceId, IfaceId, u32, Time), LastSample>,
}

#[derive(Clone, Copy, Debug)]
struct LastSample {
    at: Time,
    sent: u64,
}

impl ShareLedger {
    /// A ledger whose samples go to `recorder`.
    pub fn new(plan: &Plan, recorder: RecorderHandle) -> Self {
        let nodes = plan.ifaces.iter().map(|iface| iface.node).collect();
        Self { recorder, at: Time::ZERO, nodes, last_samples: BTreeMap::new() }
    }

    /// Enters the shares of all flows at `at`. Interfaces have the plan's numbers.
    pub fn enter(&mut self, at: Time, shares: impl IntoIterator<Item = Share>) {
        let interval = at.since(self.at);
        self.at = at;
        if !interval.is_positive() {
            return;
        }
        let samples = shares.into_iter().map(|share| self.sample(at, interval, &share)).collect();
        self.recorder.shares(samples);
        self.last_samples.retain(|_, last| at.since(last.at) <= FLOW_TIMEOUT);
    }

    fn sample(&mut self, at: Time, interval: Span, share: &Share) -> ShareSample {
        let now = LastSample { at, sent: share.sent };
        let before = self.last_samples.insert((share.from, share.to, share.flow, share.since), now);
        let sent = before.map_or(0, |last| last.sent);
        ShareSample {
            at,
            interval,
            from: self.nodes[share.from.index()],
            to: self.nodes[share.to.index()],
            flow: share.flow,
            kind: if share.stream { FlowKind::Stream } else { FlowKind::Datagram },
            share: share.share.map(base::Bandwidth::bits_per_sec),
            demand: share.most.map(base::Bandwidth::bits_per_sec),
            sent_bytes: share.sent.saturating_sub(sent),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sample::shares;
    use crate::{Recorder, RecorderOptions, RunFolder};
    use base::Bandwidth;

    use super::*;

    #[test]
    fn samples_count_bytes_of_their_interval() {
        let plan = crate::tests::star();
        let names: Vec<String> = plan.nodes.iter().map(|node| node.name.clone()).collect();
        let node = |name: &str| NodeId::at(names.iter().position(|n| n == name).unwrap());
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "shares").unwrap();
        let options = RecorderOptions { nodes: names.clone(), ..RecorderOptions::default() };
        let recorder = Recorder::start(&folder, &options).unwrap();
        let mut ledger = ShareLedger::new(&plan, recorder.handle());
        let second = |n| Time::ZERO + Span::from_secs(n);
        let of = |sent| Share {
            // Link 0 leads from the router to `a`, link 1 to `b`.
            from: IfaceId(1),
            to: IfaceId(3),
            flow: 9,
            stream: true,
            share: Some(Bandwidth::from_bits_per_sec(5_000_000)),
            most: None,
            since: Time::ZERO,
            sent,
        };
        let free = Share {
            stream: false,
            share: None,
            most: Some(Bandwidth::from_bits_per_sec(77)),
            flow: 10,
            ..of(5)
        };
        ledger.enter(Time::ZERO, [of(0)]);
        ledger.enter(second(1), [of(100), free]);
        ledger.enter(second(2), [of(250)]);
        // Absent, back before the timeout, and restarted.
        ledger.enter(second(3), []);
        ledger.enter(second(4), [of(260)]);
        ledger.enter(second(5), [Share { since: second(4), ..of(270) }]);
        assert!(recorder.finish().error.is_none());
        let rows = shares::read(&folder.file(shares::FILE), &names).unwrap();
        let sent: Vec<_> = rows.iter().filter(|r| r.flow == 9).map(|r| r.sent_bytes).collect();
        assert_eq!(sent, [100, 150, 10, 270]);
        let (first, free) = (rows[0], rows[1]);
        assert_eq!((first.from, first.to), (node("a"), node("b")));
        assert_eq!((first.share, first.demand), (Some(5_000_000), None));
        assert_eq!((free.kind, free.share, free.demand), (FlowKind::Datagram, None, Some(77)));
    }
}
