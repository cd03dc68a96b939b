//! Requests in UDP datagrams, each answered or given up before the next is sent.

use base::{RandomStream, Span, Time};
use lab::plan::Traffic;
use outcome::{Datagrams, Tally};
use transport::workload::Think;

use super::{Given, Progress, Scope};
use crate::net::mix;

/// A client and its server.
#[derive(Debug)]
pub(crate) struct Queries {
    /// Hash of the client's datagrams; the server's follows from it.
    hash: u32,
    /// Requests sent so far; the last one's number and one.
    sent: u64,
    answered: u64,
    lost: u64,
    turn: Turn,
    thoughts: RandomStream,
}

#[derive(Clone, Copy, Debug)]
enum Turn {
    /// The present request was sent at this time.
    Waiting(Time),
    /// The next is sent at this time.
    Resting(Time),
}

impl Queries {
    pub(super) fn open(scope: &mut Scope<'_>) -> Self {
        *scope.opened += 1;
        Self {
            hash: mix(scope.given.hash, *scope.opened),
            sent: 0,
            answered: 0,
            lost: 0,
            turn: Turn::Resting(scope.now()),
            thoughts: scope.given.stream("thoughts"),
        }
    }

    pub(super) fn deadline(&self, given: &Given) -> Time {
        match self.turn {
            Turn::Waiting(since) => since + terms(given).timeout,
            Turn::Resting(until) => until,
        }
    }

    pub(super) fn on_wake(&mut self, scope: &mut Scope<'_>) -> Progress {
        let now = scope.now();
        match self.turn {
            Turn::Resting(until) if until <= now => self.ask(scope),
            Turn::Waiting(since) if since + terms(scope.given).timeout <= now => {
                self.lost += 1;
                self.over(scope, since)
            }
            _ => Progress::Going,
        }
    }

    fn ask(&mut self, scope: &mut Scope<'_>) -> Progress {
        let Terms { request, count, .. } = terms(scope.given);
        if count.is_some_and(|count| self.sent >= count) {
            return Progress::Done(scope.now());
        }
        scope.net.send_datagram(scope.given.flow, 0, self.hash, self.sent, request);
        scope.tally.sent += u64::from(request);
        self.sent += 1;
        self.turn = Turn::Waiting(scope.now());
        Progress::Going
    }

    /// A datagram has arrived that was sent with this hash.
    pub(super) fn on_datagram(
        &mut self,
        scope: &mut Scope<'_>,
        hash: u32,
        sequence: u64,
    ) -> Progress {
        let Terms { response, .. } = terms(scope.given);
        let answer = mix(self.hash, 1);
        if hash == self.hash {
            scope.net.send_datagram(scope.given.flow, 1, answer, sequence, response);
            return Progress::Going;
        }
        let Turn::Waiting(since) = self.turn else { return Progress::Going };
        // Answers to requests that were given up are nobody's.
        if hash != answer || sequence + 1 != self.sent {
            return Progress::Going;
        }
        self.answered += 1;
        scope.tally.received += u64::from(response);
        scope.tally.responses += 1;
        scope.tally.record_latency(scope.now().since(since).as_nanos());
        self.over(scope, since)
    }

    /// The request that was sent at `since` is over: when is the next?
    fn over(&mut self, scope: &mut Scope<'_>, since: Time) -> Progress {
        let Terms { interval, think, .. } = terms(scope.given);
        let now = scope.now();
        let next = (now + think.draw(&mut self.thoughts)).max(since + interval);
        self.turn = Turn::Resting(next);
        if next > now { Progress::Going } else { self.ask(scope) }
    }

    pub(super) fn observe(&self, tally: &mut Tally) {
        tally.observe_datagrams(Datagrams {
            sent: self.sent,
            received: self.answered,
            lost: self.lost,
            ..Datagrams::default()
        });
    }
}

/// What the plan says of them.
struct Terms {
    request: u32,
    response: u32,
    count: Option<u64>,
    interval: Span,
    think: Think,
    timeout: Span,
}

fn terms(given: &Given) -> Terms {
    let Traffic::Queries { request, response, count, interval, think, timeout } =
        &given.spec.traffic
    else {
        unreachable!("only flows of queries are opened as such")
    };
    let bytes = |size: base::Bytes| u32::try_from(size.count()).unwrap_or(u32::MAX);
    Terms {
        request: bytes(*request),
        response: bytes(*response),
        count: *count,
        interval: *interval,
        think: *think,
        timeout: *timeout,
    }
}
