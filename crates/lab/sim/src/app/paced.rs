//! UDP: numbered datagrams on a source's schedule, or at the rate that rate control assigns.

use base::{Bandwidth, Bytes, Span, Time};
use run::FlowCounters;
use workload::{PacedFlow, PacedSender, Pattern, Source};

use super::{Progress, Scope};
use crate::net::{SessionRequest, mix};

#[derive(Debug)]
pub(crate) struct Paced {
    flow: PacedFlow,
    /// Distinguishes the datagrams of this run from those of earlier ones.
    hash: u32,
    is_controlled: bool,
}

impl Paced {
    pub(super) fn open(
        scope: &mut Scope<'_>,
        (rate, packet, size): (Bandwidth, Bytes, Option<Bytes>),
        pattern: &Pattern,
    ) -> Self {
        let (now, random) = (scope.net.now, scope.parameters.stream("datagrams"));
        let source = Source::new(pattern.clone(), rate, packet, now, random);
        let sender = PacedSender::new(source, size, scope.parameters.spec.duration, now);
        Self::new(scope, sender, false)
    }

    /// A sender at the rate that rate control assigns.
    pub(super) fn controlled(
        scope: &mut Scope<'_>,
        demand: Option<Bandwidth>,
        packet: Bytes,
        size: Option<Bytes>,
    ) -> Self {
        let flow = scope.parameters.flow;
        let datagram = (packet, scope.net.datagram_headers(flow));
        let duration = scope.parameters.spec.duration;
        let sender = PacedSender::controlled(datagram, size, duration, scope.net.now);
        let this = Self::new(scope, sender, true);
        let demand = demand.unwrap_or(Bandwidth::MAX);
        let join = SessionRequest::Join { flow, hash: this.hash, demand };
        scope.net.session_requests.push_back(join);
        this
    }

    fn new(scope: &mut Scope<'_>, sender: PacedSender, is_controlled: bool) -> Self {
        *scope.opened += 1;
        let hash = mix(scope.parameters.hash, *scope.opened);
        let path_delay = scope.parameters.ideal.one_way();
        let flow = PacedFlow::open(Some(sender), true, path_delay, scope.net.now);
        Self { flow, hash, is_controlled }
    }

    /// Whether a packet belongs to this run.
    pub(crate) const fn owns(&self, hash: u32) -> bool {
        self.hash == hash
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.flow.next_wake()
    }

    pub(super) fn on_wake(&mut self, scope: &mut Scope<'_>) -> Progress {
        let (now, flow) = (scope.net.now, scope.parameters.flow);
        while let Some(sender) = self.flow.sender()
            && let Some((count, payload)) = sender.due(now, u64::MAX)
        {
            for sequence in (sender.sent()..).take(count as usize) {
                scope.net.send_datagram(flow, 0, self.hash, sequence, payload);
            }
            scope.tally.sent += count * u64::from(payload);
            self.flow.on_sent(now, count);
        }
        self.leave_when_finished(scope);
        self.flow.on_wake(now)
    }

    pub(crate) fn on_datagram(
        &mut self,
        now: Time,
        tally: &mut FlowCounters,
        sequence: u64,
        payload: u32,
        delay: Span,
    ) -> Progress {
        if !self.flow.on_datagram(sequence, now, delay) {
            return Progress::Going;
        }
        tally.received += u64::from(payload);
        tally.record_delay(delay.as_nanos());
        self.flow.progress()
    }

    /// Counts a corrupt datagram.
    pub(crate) fn on_damaged(&mut self) {
        self.flow.on_damaged();
    }

    pub(super) fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        let progress = self.flow.expire(scope.net.now);
        self.leave_when_finished(scope);
        progress
    }

    pub(super) fn observe(&self, tally: &mut FlowCounters) {
        tally.observe_datagrams(self.flow.counts());
    }

    /// Applies a new rate from rate control; `None` pauses the sender.
    pub(super) fn on_rate(&mut self, now: Time, rate: Option<Bandwidth>) {
        if let Some(sender) = self.flow.sender() {
            sender.set_rate(now, rate);
        }
    }

    /// Leaves the rate-control session if there is nothing more to send.
    fn leave_when_finished(&mut self, scope: &mut Scope<'_>) {
        if self.flow.sender().is_some_and(|sender| sender.is_finished()) {
            self.leave(scope);
        }
    }

    /// Leaves the rate-control session.
    pub(super) fn leave(&self, scope: &mut Scope<'_>) {
        if self.is_controlled {
            let flow = scope.parameters.flow;
            scope.net.session_requests.push_back(SessionRequest::Leave { flow });
        }
    }

    /// Ends the flow: datagrams that arrive later do not count.
    pub(super) fn cease(&mut self, now: Time) {
        self.flow.close(now);
    }
}
