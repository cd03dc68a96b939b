//! Requests over one connection, each answered before the next is sent.

use base::{RandomStream, Span, Time};
use lab::plan::Traffic;
use outcome::Tally;
use transport::workload::{Sizes, Think};

use super::{News, Observed, Progress, Scope};
use crate::net::{EndId, Net};

/// A client, its server and the connection between them.
#[derive(Debug)]
pub(crate) struct Rpc {
    connection: u32,
    request: Sizes,
    response: Sizes,
    think: Think,
    /// From one request to the next at least.
    interval: Span,
    /// Requests still to be sent; `None`: without end.
    left: Option<u64>,
    requests: RandomStream,
    responses: RandomStream,
    thoughts: RandomStream,
    turn: Turn,
    /// When the present request was sent.
    issued: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Connecting,
    /// The server has yet to get so much of the request.
    Asking(u64),
    /// The client has yet to get so much of the response.
    Answering(u64),
    Resting(Time),
}

impl Rpc {
    pub(super) fn open(scope: &mut Scope<'_>) -> Self {
        let Traffic::Rpc { request, response, count, interval, think, .. } = &scope.given.traffic
        else {
            unreachable!("only flows of requests are opened as such")
        };
        let stream = |what: &str| {
            RandomStream::new(scope.given.seed, &format!("flow/{}/{what}", scope.given.name))
        };
        let mut app = Self {
            connection: 0,
            request: request.clone(),
            response: response.clone(),
            think: *think,
            interval: *interval,
            left: *count,
            requests: stream("requests"),
            responses: stream("responses"),
            thoughts: stream("thoughts"),
            turn: Turn::Connecting,
            issued: scope.now(),
        };
        app.connection = scope.connect(0);
        scope.net.flush(EndId::new(app.connection, 0));
        app
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        match self.turn {
            Turn::Resting(until) => Some(until),
            _ => None,
        }
    }

    pub(super) fn on_wake(&mut self, scope: &mut Scope<'_>) -> Progress {
        match self.turn {
            Turn::Resting(until) if until <= scope.now() => self.ask(scope),
            _ => Progress::Going,
        }
    }

    fn ask(&mut self, scope: &mut Scope<'_>) -> Progress {
        if let Some(left) = &mut self.left {
            if *left == 0 {
                return Progress::Done(scope.now());
            }
            *left -= 1;
        }
        let size = self.request.draw(&mut self.requests).max(1);
        self.issued = scope.now();
        self.turn = Turn::Asking(size);
        scope.tally.sent += size;
        scope.write(self.connection, 0, size);
        scope.net.flush(EndId::new(self.connection, 0));
        Progress::Going
    }

    pub(super) fn on_news(&mut self, scope: &mut Scope<'_>, news: &News) -> Progress {
        if news.end.side() == 0 {
            scope.tally.received += news.bytes;
        }
        let established = news.state.is_some_and(|state| state.established);
        match (self.turn, news.end.side()) {
            (Turn::Connecting, 0) if established => return self.ask(scope),
            (Turn::Asking(missing), 1) => {
                let missing = missing.saturating_sub(news.bytes);
                self.turn = Turn::Asking(missing);
                if missing == 0 {
                    let size = self.response.draw(&mut self.responses).max(1);
                    scope.write(self.connection, 1, size);
                    self.turn = Turn::Answering(size);
                }
            }
            (Turn::Answering(missing), 0) => {
                let missing = missing.saturating_sub(news.bytes);
                self.turn = Turn::Answering(missing);
                if missing == 0 {
                    return self.answered(scope);
                }
            }
            _ => {}
        }
        if news.is_closed() {
            return Progress::Failed("its connection was given up");
        }
        Progress::Going
    }

    fn answered(&mut self, scope: &mut Scope<'_>) -> Progress {
        let now = scope.now();
        scope.tally.responses += 1;
        scope.tally.record_latency(now.since(self.issued).as_nanos());
        if self.left == Some(0) {
            return Progress::Done(now);
        }
        let thought = now + self.think.draw(&mut self.thoughts);
        let next = thought.max(self.issued + self.interval);
        if next > now {
            self.turn = Turn::Resting(next);
            return Progress::Going;
        }
        self.ask(scope)
    }

    pub(super) fn observe(&mut self, net: &mut Net, tally: &mut Tally) {
        let mut observed = Observed::default();
        observed.add(net, self.connection);
        observed.report(tally);
    }

    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        scope.reset(self.connection);
    }
}
