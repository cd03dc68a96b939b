//! Requests in UDP datagrams, each answered or given up before the next is sent.

use std::os::fd::{AsFd, OwnedFd};

use base::{RandomStream, Span, Time};
use lab::plan::{Flow, Traffic};
use outcome::{Datagrams, Tally};
use sys::socket::{self, Interest, Readiness};
use transport::workload::Think;

use super::datagram::{Header, LENGTH};
use super::meeting::{DOOR, Meeting};
use super::traffic::{Endpoints, Progress, Scope};
use super::{Placed, enter};

/// Socket buffers asked for.
pub(super) const BUFFER: usize = 256 << 10;

const CLIENT: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The present request was sent at this time.
    Waiting(Time),
    /// The next is sent at this time.
    Resting(Time),
}

/// Slot 0 is the server, slot 1 the client.
pub(super) struct Queries {
    client: Option<Client>,
    server: Option<OwnedFd>,
    response: usize,
    damaged: u64,
}

struct Client {
    socket: OwnedFd,
    request: usize,
    count: Option<u64>,
    interval: Span,
    think: Think,
    timeout: Span,
    thoughts: RandomStream,
    turn: Turn,
    sent: u64,
    answered: u64,
    lost: u64,
}

impl Queries {
    pub(super) fn open(placed: &Placed, meeting: Meeting, scope: &Scope<'_>) -> sys::Result<Self> {
        let Flow { traffic, dscp, name, .. } = &placed.flow;
        let Traffic::Queries { request, response, count, interval, think, timeout } = traffic
        else {
            unreachable!("the driver opens queries with this")
        };
        let rest = |size: &base::Bytes| (size.count() as usize).saturating_sub(LENGTH);
        let Meeting { door: server, to, mut from } = meeting;
        let mut client = None;
        if let Some(netns) = &placed.netns[0] {
            enter(netns)?;
            let (socket, at) = socket::udp_at(from, *dscp, BUFFER)?;
            from = at;
            socket::set_peer(socket.as_fd(), to)?;
            socket::set_arrival_stamps(socket.as_fd())?;
            scope.add(&socket, CLIENT, Interest::Read)?;
            client = Some(Client {
                socket,
                request: rest(request),
                count: *count,
                interval: *interval,
                think: *think,
                timeout: *timeout,
                thoughts: scope.random(name, "thoughts"),
                turn: Turn::Resting(scope.now()),
                sent: 0,
                answered: 0,
                lost: 0,
            });
        }
        if let (Some(server), Some(netns)) = (&server, &placed.netns[1]) {
            enter(netns)?;
            socket::set_peer(server.as_fd(), from)?;
        }
        Ok(Self { client, server, response: rest(response), damaged: 0 })
    }

    /// Sends back every request that has arrived.
    fn answer(&mut self, scope: &Scope<'_>) {
        let Some(server) = &self.server else { return };
        let mut heads = Vec::new();
        let damaged = &mut self.damaged;
        let got =
            socket::receive_datagrams::<LENGTH>(server.as_fd(), |arrival| {
                match Header::decode(&arrival.head[..arrival.length.min(LENGTH)]) {
                    Some(header) => heads.push(header.encode()),
                    None => *damaged += 1,
                }
            });
        // An error message of the network (RFC 1122, 4.1.3.3) is no reason to end.
        if got.is_err() {
            return;
        }
        for head in heads {
            let rest = &scope.payload[..self.response];
            // As for requests.
            let _ = socket::send_datagrams(server.as_fd(), &[head], rest);
        }
    }

    fn on_answers(&mut self, scope: &mut Scope<'_>) -> Progress {
        let Some(client) = &mut self.client else { return Progress::Going };
        let present = client.sent.wrapping_sub(1);
        let (mut at, damaged, clock) = (None, &mut self.damaged, scope.clock);
        let _ = socket::receive_datagrams::<LENGTH>(client.socket.as_fd(), |arrival| {
            match Header::decode(&arrival.head[..arrival.length.min(LENGTH)]) {
                // Answers to requests that were given up are nobody's.
                Some(header) if header.sequence == present => {
                    at = Some(clock.time_at(arrival.at).as_nanos().saturating_sub(header.sent));
                }
                Some(_) => {}
                None => *damaged += 1,
            }
        });
        let (Some(latency), Turn::Waiting(since)) = (at, client.turn) else {
            return Progress::Going;
        };
        client.answered += 1;
        scope.tally.received += (LENGTH + self.response) as u64;
        scope.tally.responses += 1;
        scope.tally.record_latency(latency);
        client.over(scope, since)
    }
}

impl Client {
    fn ask(&mut self, scope: &mut Scope<'_>) -> Progress {
        if self.count.is_some_and(|count| self.sent >= count) {
            return Progress::Done(scope.now());
        }
        let head = Header { sequence: self.sent, sent: scope.now().as_nanos() }.encode();
        let rest = &scope.payload[..self.request];
        // What the kernel refuses is lost like what the network loses: the timeout comes.
        if let Ok(Some(1..)) = socket::send_datagrams(self.socket.as_fd(), &[head], rest) {
            scope.tally.sent += (LENGTH + self.request) as u64;
        }
        self.sent += 1;
        self.turn = Turn::Waiting(scope.now());
        Progress::Going
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
        if slot == DOOR {
            self.answer(scope);
            return Ok(Progress::Going);
        }
        Ok(self.on_answers(scope))
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        let now = scope.now();
        let Some(client) = &mut self.client else { return Ok(Progress::Going) };
        Ok(match client.turn {
            Turn::Resting(until) if until <= now => client.ask(scope),
            Turn::Waiting(since) if since + client.timeout <= now => {
                client.lost += 1;
                client.over(scope, since)
            }
            _ => Progress::Going,
        })
    }

    fn deadline(&self) -> Option<Time> {
        let client = self.client.as_ref()?;
        Some(match client.turn {
            Turn::Waiting(since) => since + client.timeout,
            Turn::Resting(until) => until,
        })
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        let client = self.client.as_ref();
        let [sent, received, lost] =
            client.map_or([0; 3], |client| [client.sent, client.answered, client.lost]);
        let damaged = self.damaged;
        tally.observe_datagrams(Datagrams {
            sent,
            received,
            lost,
            damaged,
            ..Datagrams::default()
        });
    }

    fn close(&mut self, _scope: &mut Scope<'_>) {}
}
