//! Datagrams as a rate. Of a Poisson process, and of a trace, it is the mean.

use base::{RandomStream, Span, Time};
use lab::plan::Traffic;
use outcome::Tally;
use transport::workload::Pattern;

use super::flow::{self, Progress, Scope};
use super::net::{Net, News};
use super::stream::span;
use crate::net::UDP_HEADER;

/// A source of datagrams.
pub(super) struct Paced {
    /// Its datagrams in the network.
    id: u32,
    /// bit/s on the wire while on.
    rate: f64,
    /// Wire bits and payload bytes of a datagram.
    packet: f64,
    payload: f64,
    /// Lengths of on and off periods.
    periods: Option<(Span, Span, bool)>,
    random: RandomStream,
    on: bool,
    /// Seconds that it still has to be on; infinite without end.
    left: f64,
    since: Time,
    /// What earlier runs had sent and received, and what was told of this one.
    base: (f64, f64),
    told: (u64, u64),
    /// Set when all is sent: the last datagram arrives then.
    ends: Option<Time>,
    expired: bool,
}

impl Paced {
    pub(super) fn open(scope: &mut Scope<'_>, id: &mut Option<u32>) -> Self {
        let Traffic::Paced { rate, packet, size, pattern } = &scope.given.spec.traffic else {
            unreachable!("only flows of datagrams are opened as such")
        };
        let (mut payload, mut goodput) = (packet.count() as f64, rate.bits_per_sec() as f64);
        if let Pattern::Trace(trace) = pattern {
            let sum = trace.datagrams.iter().map(|(_, bytes)| bytes.count()).sum::<u64>() as f64;
            payload = sum / trace.datagrams.len().max(1) as f64;
            goodput = sum * 8.0 / trace.period.as_secs_f64();
        }
        let payload = payload.max(1.0);
        let beside = scope.net.datagram_header(scope.given.flow) + f64::from(UDP_HEADER);
        let wire = (payload + beside) * 8.0;
        let hash = scope.new_hash();
        let id = *id.get_or_insert_with(|| scope.net.add_datagrams(scope.given.flow, wire, hash));
        let mut app = Self {
            id,
            rate: goodput * (payload + beside) / payload,
            packet: wire,
            payload,
            periods: match pattern {
                Pattern::OnOff { on, off, exponential } => Some((*on, *off, *exponential)),
                _ => None,
            },
            random: scope.random("datagrams"),
            on: false,
            left: size.map_or(f64::INFINITY, |size| size.count() as f64 * 8.0 / goodput.max(1e-9)),
            since: scope.now(),
            base: scope.net.datagrams(id),
            told: (0, 0),
            ends: None,
            expired: false,
        };
        app.turn_on(scope);
        app
    }

    fn turn_on(&mut self, scope: &mut Scope<'_>) {
        self.on = true;
        self.since = scope.now();
        let on = self.periods.map(|(on, _, random)| self.period(on, random));
        scope.net.set_rate(self.id, self.rate);
        let seconds = on.map_or(f64::INFINITY, Span::as_secs_f64).min(self.left);
        if seconds.is_finite() {
            scope.wake(scope.now() + span(seconds));
        }
    }

    fn period(&mut self, mean: Span, exponential: bool) -> Span {
        if exponential {
            let nanos = -(1.0 - self.random.unit()).ln() * mean.as_nanos() as f64;
            return Span::from_nanos(nanos.round() as u64);
        }
        mean
    }

    pub(super) fn on_news(&mut self, scope: &mut Scope<'_>, news: News) -> Progress {
        if !matches!(news, News::Wake { .. }) {
            return Progress::Going;
        }
        let now = scope.now();
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
            Some((_, off, random)) if self.left > 1e-9 => {
                let off = self.period(off, random);
                scope.wake(now + off);
            }
            _ => self.finish(scope),
        }
        Progress::Going
    }

    /// All is sent: waits for the last datagram.
    fn finish(&mut self, scope: &mut Scope<'_>) {
        let end = scope.now() + scope.net.datagram_delay(self.id);
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

    pub(super) fn observe(&mut self, net: &mut Net, tally: &mut Tally) {
        let (sent, received) = net.datagrams(self.id);
        let counts = flow::datagrams(sent - self.base.0, received - self.base.1, self.packet);
        let bytes = |count: u64| (count as f64 * self.payload).round() as u64;
        let told = (bytes(counts.sent), bytes(counts.received));
        tally.sent += told.0.saturating_sub(self.told.0);
        tally.received += told.1.saturating_sub(self.told.1);
        self.told = (told.0.max(self.told.0), told.1.max(self.told.1));
        tally.observe_datagrams(counts);
        if self.on {
            tally.record_delay(net.datagram_delay(self.id).as_nanos());
        }
    }

    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        scope.net.set_rate(self.id, 0.0);
    }
}
