//! Requests in UDP datagrams, each answered or given up before the next is sent.

use std::os::fd::{AsFd, OwnedFd};

use base::{RandomStream, Span, Time};
use lab::plan::{Flow, Traffic};
use outcome::{Datagrams, Tally};
use sys::clock;
use sys::socket::{self, Interest, Readiness};
use transport::workload::Think;

use super::datagram::{Header, LENGTH};
use super::traffic::{Endpoints, Progress, Scope};
use super::{Placed, enter};

/// Socket buffers asked for.
const BUFFER: usize = 256 << 10;

const CLIENT: u32 = 1;
const SERVER: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The present request was sent at this time.
    Waiting(Time),
    /// The next is sent at this time.
    Resting(Time),
}

/// Slot 1 is the client, slot 2 the server.
pub(super) struct Queries {
    client: OwnedFd,
    server: OwnedFd,
    request: usize,
    response: usize,
    count: Option<u64>,
    interval: Span,
    think: Think,
    timeout: Span,
    thoughts: RandomStream,
    turn: Turn,
    sent: u64,
    answered: u64,
    lost: u64,
    damaged: u64,
}

impl Queries {
    pub(super) fn open(placed: &Placed, scope: &Scope<'_>) -> sys::Result<Self> {
        let Flow { traffic, dscp, name, .. } = &placed.flow;
        let Traffic::Queries { request, response, count, interval, think, timeout } = traffic
        else {
            unreachable!("the driver opens queries with this")
        };
        enter(&placed.netns[1])?;
        let (server, to) = socket::udp(placed.addresses[1], *dscp, BUFFER)?;
        enter(&placed.netns[0])?;
        let (client, from) = socket::udp(placed.addresses[0], *dscp, BUFFER)?;
        socket::set_peer(client.as_fd(), to)?;
        enter(&placed.netns[1])?;
        socket::set_peer(server.as_fd(), from)?;
        for socket in [&client, &server] {
            socket::set_arrival_stamps(socket.as_fd())?;
        }
        scope.add(&client, CLIENT, Interest::Read)?;
        scope.add(&server, SERVER, Interest::Read)?;
        let rest = |size: &base::Bytes| (size.count() as usize).saturating_sub(LENGTH);
        Ok(Self {
            client,
            server,
            request: rest(request),
            response: rest(response),
            count: *count,
            interval: *interval,
            think: *think,
            timeout: *timeout,
            thoughts: scope.random(name, "thoughts"),
            turn: Turn::Resting(scope.now()),
            sent: 0,
            answered: 0,
            lost: 0,
            damaged: 0,
        })
    }

    fn ask(&mut self, scope: &mut Scope<'_>) -> Progress {
        if self.count.is_some_and(|count| self.sent >= count) {
            return Progress::Done(scope.now());
        }
        let head = Header { sequence: self.sent, sent: clock::monotonic() }.encode();
        let rest = &scope.payload[..self.request];
        // What the kernel refuses is lost like what the network loses: the timeout comes.
        if let Ok(Some(1..)) = socket::send_datagrams(self.client.as_fd(), &[head], rest) {
            scope.tally.sent += (LENGTH + self.request) as u64;
        }
        self.sent += 1;
        self.turn = Turn::Waiting(scope.now());
        Progress::Going
    }

    /// Sends back every request that has arrived.
    fn answer(&mut self, scope: &Scope<'_>) {
        let mut heads = Vec::new();
        let damaged = &mut self.damaged;
        let got =
            socket::receive_datagrams::<LENGTH>(
                self.server.as_fd(),
                |arrival| match Header::decode(&arrival.head[..arrival.length.min(LENGTH)]) {
                    Some(header) => heads.push(header.encode()),
                    None => *damaged += 1,
                },
            );
        // An error message of the network (RFC 1122, 4.1.3.3) is no reason to end.
        if got.is_err() {
            return;
        }
        for head in heads {
            let rest = &scope.payload[..self.response];
            // As for requests.
            let _ = socket::send_datagrams(self.server.as_fd(), &[head], rest);
        }
    }

    fn on_answers(&mut self, scope: &mut Scope<'_>) -> Progress {
        let present = self.sent.wrapping_sub(1);
        let (mut at, damaged) = (None, &mut self.damaged);
        let _ = socket::receive_datagrams::<LENGTH>(self.client.as_fd(), |arrival| {
            match Header::decode(&arrival.head[..arrival.length.min(LENGTH)]) {
                // Answers to requests that were given up are nobody's.
                Some(header) if header.sequence == present => {
                    at = Some(arrival.at.saturating_sub(header.sent));
                }
                Some(_) => {}
                None => *damaged += 1,
            }
        });
        let (Some(latency), Turn::Waiting(since)) = (at, self.turn) else {
            return Progress::Going;
        };
        self.answered += 1;
        scope.tally.received += (LENGTH + self.response) as u64;
        scope.tally.responses += 1;
        scope.tally.record_latency(latency);
        self.over(scope, since)
    }

    /// The request that was sent at `since` is over: when is the next?
    fn over(&mut self, scope: &mut Scope<'_>, since: Time) -> Progress {
        let now = scope.now();
        let next = (now + self.think.draw(&mut self.thoughts)).max(since + self.interval);
        self.turn = Turn::Resting(next);
        if next > now { Progress::Going } else { self.ask(scope) }
    }
}

impl Endpoints for Queries {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        _readiness: Readiness,
    ) -> sys::Result<Progress> {
        if slot == SERVER {
            self.answer(scope);
            return Ok(Progress::Going);
        }
        Ok(self.on_answers(scope))
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        let now = scope.now();
        Ok(match self.turn {
            Turn::Resting(until) if until <= now => self.ask(scope),
            Turn::Waiting(since) if since + self.timeout <= now => {
                self.lost += 1;
                self.over(scope, since)
            }
            _ => Progress::Going,
        })
    }

    fn deadline(&self) -> Option<Time> {
        Some(match self.turn {
            Turn::Waiting(since) => since + self.timeout,
            Turn::Resting(until) => until,
        })
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        tally.observe_datagrams(Datagrams {
            sent: self.sent,
            received: self.answered,
            lost: self.lost,
            damaged: self.damaged,
            ..Datagrams::default()
        });
    }

    fn close(&mut self, _scope: &mut Scope<'_>) {}
}
