//! Requests over one connection, each answered before the next is sent.

use base::{RandomStream, Span, Time};
use lab::plan::Traffic;
use outcome::Tally;
use transport::workload::{Sizes, Think};

use super::flow::{Progress, Scope};
use super::net::{Net, News};

/// A client, its server and the connection between them.
pub(super) struct Rpc {
    /// There and back.
    streams: [u32; 2],
    request: Sizes,
    response: Sizes,
    think: Think,
    interval: Span,
    left: Option<u64>,
    requests: RandomStream,
    responses: RandomStream,
    thoughts: RandomStream,
    issued: Time,
}

impl Rpc {
    pub(super) fn open(scope: &mut Scope<'_>) -> Self {
        let Traffic::Rpc { request, response, count, interval, think, .. } =
            &scope.given.spec.traffic
        else {
            unreachable!("only flows of requests are opened as such")
        };
        Self {
            request: request.clone(),
            response: response.clone(),
            think: *think,
            interval: *interval,
            left: *count,
            requests: scope.random("requests"),
            responses: scope.random("responses"),
            thoughts: scope.random("thoughts"),
            issued: scope.now(),
            streams: scope.connect(0, true),
        }
    }

    pub(super) fn on_news(&mut self, scope: &mut Scope<'_>, news: News) -> Progress {
        match news {
            News::Ready { .. } | News::Wake { .. } => self.ask(scope),
            News::Arrived { stream } if stream == self.streams[0] => {
                let size = self.response.draw(&mut self.responses).max(1);
                scope.net.send(self.streams[1], size as f64);
                Progress::Going
            }
            News::Arrived { .. } => self.answered(scope),
            _ => Progress::Going,
        }
    }

    fn ask(&mut self, scope: &mut Scope<'_>) -> Progress {
        if self.left == Some(0) {
            return Progress::Done(scope.now());
        }
        self.left = self.left.map(|left| left - 1);
        let size = self.request.draw(&mut self.requests).max(1);
        self.issued = scope.now();
        scope.tally.sent += size;
        scope.net.send(self.streams[0], size as f64);
        Progress::Going
    }

    fn answered(&mut self, scope: &mut Scope<'_>) -> Progress {
        let now = scope.now();
        scope.tally.responses += 1;
        scope.tally.received += scope.net.arrived(self.streams[1], true);
        scope.tally.record_latency(now.since(self.issued).as_nanos());
        if self.left == Some(0) {
            return Progress::Done(now);
        }
        let thought = now + self.think.draw(&mut self.thoughts);
        let next = thought.max(self.issued + self.interval);
        if next > now {
            scope.wake(next);
            return Progress::Going;
        }
        self.ask(scope)
    }

    pub(super) fn observe(&mut self, net: &mut Net, tally: &mut Tally) {
        let (rtt, window) = net.observe(self.streams[0]);
        tally.received += net.arrived(self.streams[1], false);
        tally.retransmits = self.streams.iter().map(|stream| net.lost(*stream)).sum();
        tally.srtt = Some(rtt);
        tally.window_bytes = Some(window);
    }

    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        for stream in self.streams {
            scope.net.close(stream);
        }
    }
}
