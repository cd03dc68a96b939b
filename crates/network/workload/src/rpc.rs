//! Requests over one connection, each answered before the next is sent.

use std::sync::Arc;

use base::{RandomStream, Span, Time};

use crate::{Event, Progress, Report, Side, Sizes, Think, Transport, Workload};

#[derive(Clone, Debug, PartialEq)]
pub struct Rpc {
    /// Payload of a request.
    pub request: Sizes,
    /// Payload of a response.
    pub response: Sizes,
    /// Number of requests; `None`: until the end.
    pub count: Option<u64>,
    /// Minimum interval of requests; zero: no minimum.
    pub interval: Span,
    /// Time from a response to the next request.
    pub think: Think,
}

/// The state of an RPC flow.
#[derive(Debug)]
pub struct RpcFlow {
    spec: Arc<Rpc>,
    connection: u32,
    /// Requests sent so far.
    sent: u64,
    turn: Turn,
    /// Send time of the last request.
    issued: Time,
    /// When the last request was due. A late one does not delay the following ones.
    due: Time,
    /// `None` if the flow has no random values, which saves memory in labs with very many flows.
    random: Option<Box<Random>>,
}

#[derive(Debug)]
struct Random {
    requests: RandomStream,
    responses: RandomStream,
    thoughts: RandomStream,
}

#[derive(Clone, Copy, Debug)]
enum Turn {
    Connecting,
    Exchange {
        /// Bytes of the request that the server has not received yet.
        unserved: u64,
        /// Bytes of the response that the client has not received yet.
        missing: u64,
    },
    Resting(Time),
}

impl RpcFlow {
    pub fn open(spec: &Arc<Rpc>, transport: &mut impl Transport) -> Self {
        let fixed = matches!(
            (&spec.request, &spec.response, &spec.think),
            (Sizes::Fixed(_), Sizes::Fixed(_), Think::Fixed(_))
        );
        let random = (!fixed).then(|| {
            Box::new(Random {
                requests: transport.random("requests"),
                responses: transport.random("responses"),
                thoughts: transport.random("thoughts"),
            })
        });
        let connection = transport.connect(0, None);
        let (spec, issued) = (Arc::clone(spec), transport.now());
        Self { spec, connection, sent: 0, turn: Turn::Connecting, issued, due: issued, random }
    }

    /// Sends the request that is due at `due`.
    fn ask(&mut self, transport: &mut impl Transport, due: Time) -> Progress {
        if self.is_last() {
            return Progress::Done(transport.now());
        }
        let random = self.random.as_deref_mut();
        let [request, response] = match random {
            Some(random) => [
                self.spec.request.draw(&mut random.requests),
                self.spec.response.draw(&mut random.responses),
            ],
            None => [&self.spec.request, &self.spec.response].map(|sizes| sizes.mean() as u64),
        }
        .map(|size| size.max(1));
        (self.issued, self.due) = (transport.now(), due);
        self.turn = Turn::Exchange { unserved: request, missing: response };
        let number = self.sent as u32;
        self.sent += 1;
        transport.request(self.connection, number, request);
        Progress::Going
    }

    fn is_last(&self) -> bool {
        self.spec.count.is_some_and(|count| self.sent >= count)
    }

    fn answered(&mut self, transport: &mut impl Transport) -> Progress {
        let now = transport.now();
        transport.report(Report::Response(now.since(self.issued)));
        if self.is_last() {
            return Progress::Done(now);
        }
        let thought = match (self.spec.think, self.random.as_deref_mut()) {
            (think, Some(random)) => think.draw(&mut random.thoughts),
            (Think::Fixed(span) | Think::Exponential(span), None) => span,
        };
        let next = (now + thought).max(self.due + self.spec.interval);
        if next > now {
            self.turn = Turn::Resting(next);
            return Progress::Going;
        }
        self.ask(transport, now)
    }
}

impl Workload for RpcFlow {
    const RECEIVER: Side = Side::Client;

    fn next_wake(&self) -> Option<Time> {
        match self.turn {
            Turn::Resting(until) => Some(until),
            _ => None,
        }
    }

    fn on_wake(&mut self, transport: &mut impl Transport) -> Progress {
        match self.turn {
            Turn::Resting(until) if until <= transport.now() => self.ask(transport, until),
            _ => Progress::Going,
        }
    }

    fn on_event(&mut self, transport: &mut impl Transport, event: &Event) -> Progress {
        match (&mut self.turn, event.side) {
            (Turn::Connecting, Side::Client) if event.established => {
                let now = transport.now();
                return self.ask(transport, now);
            }
            (Turn::Exchange { unserved: unserved @ 1.., missing }, Side::Server) => {
                *unserved = unserved.saturating_sub(event.bytes);
                if *unserved == 0 {
                    transport.respond(self.connection, *missing);
                }
            }
            (Turn::Exchange { missing, .. }, Side::Client) => {
                *missing = missing.saturating_sub(event.bytes);
                if *missing == 0 {
                    return self.answered(transport);
                }
            }
            _ => {}
        }
        if event.closed {
            return Progress::Failed("its connection was aborted");
        }
        Progress::Going
    }

    fn connections(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.connection)
    }

    fn close(&mut self, transport: &mut impl Transport) {
        transport.reset(self.connection);
    }
}
