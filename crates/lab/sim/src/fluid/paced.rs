//! Datagram sources as rates. A Poisson process or a trace has its mean rate.

use base::{Bandwidth, Bytes, RandomStream, Span, Time};
use run::FlowCounters;
use workload::{OnOff, Pattern, Progress};

use super::flow::{self, Scope};
use super::net::{Net, Notification};
use super::stream::span;
use crate::net::UDP_HEADER;

/// A source of datagrams.
pub(super) struct Paced {
    /// Its datagram flow in the network.
    id: u32,
    /// Wire bit/s in on periods.
    rate: f64,
    /// Wire bits and payload bytes of a datagram.
    packet: f64,
    payload: f64,
    /// Lengths of on and off periods, and whether the source is on.
    periods: Option<OnOff>,
    random: RandomStream,
    on: bool,
    /// Remaining on time in seconds; infinite without an end.
    left: f64,
    since: Time,
    /// Bits sent and received in earlier runs, and bytes of this run already in the counters.
    base: (f64, f64),
    reported: (u64, u64),
    /// Arrival time of the last datagram, once everything is sent.
    ends: Option<Time>,
    expired: bool,
}

impl Paced {
    pub(super) fn open(
        scope: &mut Scope<'_>,
        id: &mut Option<u32>,
        (rate, packet, size, pattern): (Bandwidth, Bytes, Option<Bytes>, &Pattern),
    ) -> Self {
        let (mut payload, mut goodput) = (packet.count() as f64, rate.bits_per_sec() as f64);
        if let Pattern::Trace(trace) = pattern {
            let sum = trace.datagrams.iter().map(|(_, bytes)| bytes.count()).sum::<u64>() as f64;
            payload = sum / trace.datagrams.len().max(1) as f64;
            goodput = sum * 8.0 / trace.period.as_secs_f64();
        }
        let payload = payload.max(1.0);
        let beside = scope.net.datagram_header(scope.parameters.flow) + f64::from(UDP_HEADER);
        let wire = (payload + beside) * 8.0;
        let hash = scope.new_hash();
        let id =
            *id.get_or_insert_with(|| scope.net.add_datagrams(scope.parameters.flow, wire, hash));
        let mut app = Self {
            id,
            rate: goodput * (payload + beside) / payload,
            packet: wire,
            payload,
            periods: match pattern {
                Pattern::OnOff(periods) => Some(*periods),
                _ => None,
            },
            random: scope.parameters.stream("datagrams"),
            on: false,
            left: size.map_or(f64::INFINITY, |size| size.count() as f64 * 8.0 / goodput.max(1e-9)),
            since: scope.net.now,
            base: scope.net.datagrams(id),
            reported: (0, 0),
            ends: None,
            expired: false,
        };
        app.turn_on(scope);
        app
    }

    fn turn_on(&mut self, scope: &mut Scope<'_>) {
        self.on = true;
        self.since = scope.net.now;
        let on = self.periods.map(|OnOff { on, lengths, .. }| lengths.draw(on, &mut self.random));
        scope.net.set_rate(self.id, self.rate);
        let seconds = on.map_or(f64::INFINITY, Span::as_secs_f64).min(self.left);
        if seconds.is_finite() {
            scope.wake(scope.net.now + span(seconds));
        }
    }

    pub(super) fn on_notification(
        &mut self,
        scope: &mut Scope<'_>,
        notification: Notification,
    ) -> Progress {
        if !matches!(notification, Notification::Wake { .. }) {
            return Progress::Going;
        }
        let now = scope.net.now;
        if let Some(end) = self.ends {
            return if self.expired { Progress::Cut(end) } else { Progress::Done(end) };
        }
        if !self.on {
            self.turn_on(scope);
            return Progress::Going;
        }
        self.on = false;
        self.left -= now.since(self.since).as_secs_f64();
        scope.net.set_rate(self.id, 0.0);
        match self.periods {
            Some(OnOff { off, lengths, .. }) if self.left > 1e-9 => {
                scope.wake(now + lengths.draw(off, &mut self.random));
            }
            _ => self.finish(scope),
        }
        Progress::Going
    }

    /// Waits for the last datagram, after everything is sent.
    fn finish(&mut self, scope: &mut Scope<'_>) {
        let end = scope.net.now + scope.net.datagram_delay(self.id);
        self.ends = Some(end);
        scope.wake(end);
    }

    pub(super) fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        if self.ends.is_none() {
            scope.net.set_rate(self.id, 0.0);
            self.on = false;
            self.expired = true;
            self.finish(scope);
        }
        Progress::Going
    }

    pub(super) fn observe(&mut self, net: &mut Net, tally: &mut FlowCounters) {
        let (sent, received) = net.datagrams(self.id);
        let counts = flow::datagrams(sent - self.base.0, received - self.base.1, self.packet);
        let bytes = |count: u64| (count as f64 * self.payload).round() as u64;
        let reported = (bytes(counts.sent), bytes(counts.received));
        tally.sent += reported.0.saturating_sub(self.reported.0);
        tally.received += reported.1.saturating_sub(self.reported.1);
        self.reported = (reported.0.max(self.reported.0), reported.1.max(self.reported.1));
        tally.observe_datagrams(counts);
        if self.on {
            tally.record_delay(net.datagram_delay(self.id).as_nanos());
        }
    }

    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        scope.net.set_rate(self.id, 0.0);
    }
}
