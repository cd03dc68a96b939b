//! Requests over one connection, each answered before the next is sent.

use base::{RandomStream, Span, Time};
use lab::plan::Traffic;
use transport::workload::{Sizes, Think};

use super::{Given, News, Observed, Progress, Scope};
use crate::net::EndId;

/// As many requests as there is time for.
const ENDLESS: u64 = u64::MAX;

/// A client, its server and the connection between them.
#[derive(Debug)]
pub(crate) struct Rpc {
    connection: u32,
    /// Requests still to be sent; [`ENDLESS`] without an end.
    left: u64,
    turn: Turn,
    /// When the present request was sent.
    issued: Time,
    /// `None` where nothing is drawn.
    dice: Option<Box<Dice>>,
}

/// What sizes and times are drawn from.
#[derive(Debug)]
struct Dice {
    requests: RandomStream,
    responses: RandomStream,
    thoughts: RandomStream,
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
        let given = scope.given;
        let (request, response, count, _, think) = terms(given);
        let fixed = matches!(
            (request, response, think),
            (Sizes::Fixed(_), Sizes::Fixed(_), Think::Fixed(_))
        );
        let dice = || Dice {
            requests: given.stream("requests"),
            responses: given.stream("responses"),
            thoughts: given.stream("thoughts"),
        };
        let connection = scope.connect(0);
        scope.flush(EndId::new(connection, 0));
        Self {
            connection,
            left: count.unwrap_or(ENDLESS),
            turn: Turn::Connecting,
            issued: scope.now(),
            dice: (!fixed).then(|| Box::new(dice())),
        }
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
        if self.left == 0 {
            return Progress::Done(scope.now());
        }
        if self.left != ENDLESS {
            self.left -= 1;
        }
        let (request, ..) = terms(scope.given);
        let size = draw(request, self.dice.as_deref_mut().map(|dice| &mut dice.requests));
        self.issued = scope.now();
        self.turn = Turn::Asking(size);
        scope.tally.sent += size;
        scope.write(self.connection, 0, size);
        scope.flush(EndId::new(self.connection, 0));
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
                    let (_, response, ..) = terms(scope.given);
                    let dice = self.dice.as_deref_mut().map(|dice| &mut dice.responses);
                    let size = draw(response, dice);
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
        if self.left == 0 {
            return Progress::Done(now);
        }
        let (.., interval, think) = terms(scope.given);
        let thought = match (think, self.dice.as_deref_mut()) {
            (Think::Fixed(span), _) => *span,
            (drawn, Some(dice)) => drawn.draw(&mut dice.thoughts),
            (Think::Exponential(mean), None) => *mean,
        };
        let next = (now + thought).max(self.issued + interval);
        if next > now {
            self.turn = Turn::Resting(next);
            return Progress::Going;
        }
        self.ask(scope)
    }

    pub(super) fn observe(&mut self, scope: &mut Scope<'_>) {
        let mut observed = Observed::default();
        observed.add(scope, self.connection);
        observed.report(scope.tally);
    }

    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        scope.reset(self.connection);
    }
}

/// Request, response, their number, the time between requests, and the think time.
fn terms(given: &Given) -> (&Sizes, &Sizes, Option<u64>, Span, &Think) {
    let Traffic::Rpc { request, response, count, interval, think, .. } = &given.spec.traffic else {
        unreachable!("only flows of requests are opened as such")
    };
    (request, response, *count, *interval, think)
}

/// A size of at least 1 B; there are dice wherever one is drawn.
fn draw(sizes: &Sizes, dice: Option<&mut RandomStream>) -> u64 {
    match (sizes, dice) {
        (Sizes::Fixed(bytes), _) => bytes.count().max(1),
        (drawn, Some(dice)) => drawn.draw(dice).max(1),
        (drawn, None) => drawn.mean() as u64,
    }
}
