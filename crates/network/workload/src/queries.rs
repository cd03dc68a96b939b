//! Requests in single datagrams, each answered or timed out before the next is sent.

use std::sync::Arc;

use base::{Bytes, RandomStream, Span, Time};

use crate::{Datagrams, Think};

/// Parameters of a flow of queries.
#[derive(Clone, Debug, PartialEq)]
pub struct Queries {
    /// Payload of a request (16 B at least).
    pub request: Bytes,
    /// Payload of a response (16 B at least).
    pub response: Bytes,
    /// Number of requests; `None`: until the end.
    pub count: Option<u64>,
    /// Minimum interval of requests; zero: no minimum.
    pub interval: Span,
    /// Time from a response to the next request.
    pub think: Think,
    /// Time after which a request counts as lost.
    pub timeout: Span,
}

/// The client of a flow of queries.
#[derive(Debug)]
pub struct QueriesFlow {
    spec: Arc<Queries>,
    thoughts: RandomStream,
    turn: Turn,
    /// When the last request was due. A late one does not delay the following ones.
    due: Time,
    sent: u64,
    answered: u64,
    lost: u64,
}

#[derive(Clone, Copy, Debug)]
enum Turn {
    /// The last request was sent at this time.
    Waiting(Time),
    /// The next is sent at this time.
    Resting(Time),
}

/// The next action of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryStep {
    /// Wait for a response or deadline.
    Wait,
    /// Send the request with this number.
    Send(u64),
    /// All requests were answered or lost.
    Done,
}

impl QueriesFlow {
    /// A client whose first request is due now; its think times are from `thoughts`.
    pub fn open(spec: &Arc<Queries>, now: Time, thoughts: RandomStream) -> Self {
        let (spec, turn) = (Arc::clone(spec), Turn::Resting(now));
        Self { spec, thoughts, turn, due: Time::ZERO, sent: 0, answered: 0, lost: 0 }
    }

    /// The flow's parameters.
    pub fn spec(&self) -> &Queries {
        &self.spec
    }

    /// The next deadline, at which [`Self::on_wake`] must be called.
    pub fn next_wake(&self) -> Time {
        match self.turn {
            Turn::Waiting(since) => since + self.spec.timeout,
            Turn::Resting(until) => until,
        }
    }

    pub fn on_wake(&mut self, now: Time) -> QueryStep {
        match self.turn {
            Turn::Resting(until) if until <= now => self.ask(now, until),
            Turn::Waiting(since) if since + self.spec.timeout <= now => {
                self.lost += 1;
                self.rest(now)
            }
            _ => QueryStep::Wait,
        }
    }

    /// Handles the response to a request that arrived at `at`; `None` if it is a duplicate or not
    /// for the last request. Also returns the time since the request was sent.
    pub fn on_response(&mut self, now: Time, number: u64, at: Time) -> Option<(Span, QueryStep)> {
        let Turn::Waiting(since) = self.turn else { return None };
        if number + 1 != self.sent {
            return None;
        }
        self.answered += 1;
        Some((at.since(since), self.rest(now)))
    }

    /// Requests sent, answered (`received`) and lost.
    pub fn counts(&self) -> Datagrams {
        let Self { sent, answered: received, lost, .. } = *self;
        Datagrams { sent, received, lost, ..Datagrams::default() }
    }

    /// Sends the request that is due at `due`.
    fn ask(&mut self, now: Time, due: Time) -> QueryStep {
        if self.spec.count.is_some_and(|count| self.sent >= count) {
            return QueryStep::Done;
        }
        (self.turn, self.due) = (Turn::Waiting(now), due);
        self.sent += 1;
        QueryStep::Send(self.sent - 1)
    }

    /// Ends the last request.
    fn rest(&mut self, now: Time) -> QueryStep {
        let thought = self.spec.think.draw(&mut self.thoughts);
        let next = (now + thought).max(self.due + self.spec.interval);
        self.turn = Turn::Resting(next);
        if next > now { QueryStep::Wait } else { self.ask(now, now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_late_responses_and_counts_timeouts() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let spec = Queries {
            request: Bytes::new(40),
            response: Bytes::new(100),
            count: Some(2),
            interval: Span::from_millis(10),
            think: Think::Fixed(Span::ZERO),
            timeout: Span::from_millis(50),
        };
        let thoughts = RandomStream::new(1, "thoughts");
        let mut client = QueriesFlow::open(&Arc::new(spec), at(0), thoughts);
        assert_eq!(client.on_wake(at(0)), QueryStep::Send(0));
        assert_eq!(client.next_wake(), at(50));
        assert_eq!(client.on_wake(at(50)), QueryStep::Send(1));
        assert_eq!(client.on_response(at(51), 0, at(51)), None);
        let latency = Span::from_millis(3);
        assert_eq!(client.on_response(at(53), 1, at(53)), Some((latency, QueryStep::Wait)));
        assert_eq!(client.on_response(at(54), 1, at(54)), None);
        assert_eq!(client.on_wake(at(60)), QueryStep::Done);
        let counts = client.counts();
        assert_eq!([counts.sent, counts.received, counts.lost], [2, 1, 1]);
    }

    #[test]
    fn a_late_request_does_not_delay_the_next_one() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let spec = Queries {
            request: Bytes::new(40),
            response: Bytes::new(100),
            count: None,
            interval: Span::from_millis(10),
            think: Think::Fixed(Span::ZERO),
            timeout: Span::from_millis(50),
        };
        let thoughts = RandomStream::new(1, "thoughts");
        let mut client = QueriesFlow::open(&Arc::new(spec), at(0), thoughts);
        assert_eq!(client.on_wake(at(4)), QueryStep::Send(0));
        assert_eq!(client.next_wake(), at(54), "the timeout begins when it is sent");
        client.on_response(at(6), 0, at(6));
        assert_eq!(client.next_wake(), at(10));
        assert_eq!(client.on_wake(at(25)), QueryStep::Send(1));
        let latency = Span::from_millis(2);
        assert_eq!(client.on_response(at(27), 1, at(27)), Some((latency, QueryStep::Send(2))));
        client.on_response(at(28), 2, at(28));
        assert_eq!(client.next_wake(), at(37), "missed requests are not sent at once");
    }
}
