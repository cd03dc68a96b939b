//! Request and response over one MCTCP session, one at a time.

use base::{RandomStream, Span, Time};
use lab::plan::{Flow, Traffic};
use mctcp_live::{Connecting, MctcpStream};
use outcome::Tally;
use sys::socket::Readiness;
use transport::workload::{Sizes, Think};

use super::super::Placed;
use super::super::traffic::{Endpoints, Progress, Scope, gone};
use super::{Meter, Site, failed};

/// One end, and what it still has to write.
struct End {
    stream: MctcpStream,
    unwritten: u64,
}

impl End {
    /// Writes what it can of what is unwritten; answers how much.
    fn write(&mut self, site: &Site, scope: &Scope<'_>) -> sys::Result<u64> {
        let mut written = 0;
        while self.unwritten > 0 {
            let most = usize::try_from(self.unwritten).unwrap_or(usize::MAX);
            let data = &scope.payload[..most.min(scope.payload.len())];
            let count = self.stream.try_write(data, &site.waker).map_err(failed)?;
            let Some(count) = count else { break };
            self.unwritten -= count as u64;
            written += count as u64;
        }
        Ok(written)
    }

    /// Takes what has arrived; answers how much.
    fn read(&mut self, site: &Site, scope: &mut Scope<'_>) -> sys::Result<u64> {
        let mut total = 0;
        while let Some(count) = self.stream.try_read(scope.scratch, &site.waker).map_err(failed)? {
            if count == 0 {
                return Err(gone());
            }
            total += count as u64;
        }
        Ok(total)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Connecting,
    /// So many bytes of the response are still to come.
    Awaiting(u64),
    /// The next request goes out at this time.
    Resting(Time),
}

/// A session whose client asks and whose server answers.
pub(in super::super) struct Rpc {
    site: Site,
    connecting: Option<Connecting>,
    client: Option<End>,
    server: Option<End>,
    turn: Turn,
    sizes: [Sizes; 2],
    streams: [RandomStream; 2],
    think: Think,
    thoughts: RandomStream,
    interval: Span,
    /// Requests still to be made.
    left: Option<u64>,
    issued: Time,
    /// Bytes of the present request that have not reached the server, and of its response.
    unasked: u64,
    response: u64,
    meter: Meter,
}

impl Rpc {
    pub(in super::super) fn open(placed: &Placed, scope: &mut Scope<'_>) -> sys::Result<Self> {
        let Flow { traffic, name, .. } = &placed.flow;
        let Traffic::Rpc { request, response, count, interval, think, tcp } = traffic else {
            unreachable!("the driver opens RPC flows with this")
        };
        let site = Site::open(placed, tcp, scope)?;
        let connecting = site.connect(name);
        site.bell.ring();
        Ok(Self {
            site,
            connecting: Some(connecting),
            client: None,
            server: None,
            turn: Turn::Connecting,
            sizes: [request.clone(), response.clone()],
            streams: [scope.random(name, "requests"), scope.random(name, "responses")],
            think: *think,
            thoughts: scope.random(name, "thoughts"),
            interval: *interval,
            left: *count,
            issued: Time::ZERO,
            unasked: 0,
            response: 0,
            meter: Meter::new(placed),
        })
    }

    fn issue(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        if self.left == Some(0) {
            return Ok(Progress::Done(scope.now()));
        }
        self.left = self.left.map(|left| left - 1);
        self.issued = scope.now();
        let [requests, responses] = &mut self.streams;
        self.unasked = self.sizes[0].draw(requests).max(1);
        self.response = self.sizes[1].draw(responses).max(1);
        self.turn = Turn::Awaiting(self.response);
        if let Some(client) = &mut self.client {
            client.unwritten = self.unasked;
            scope.tally.sent += client.write(&self.site, scope)?;
        }
        Ok(Progress::Going)
    }

    fn turn(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        if let Some(connecting) = &mut self.connecting
            && let Some(connected) = connecting.try_finish(&self.site.waker)
        {
            let stream = connected.map_err(failed)?;
            self.meter.client = Some(stream.observer());
            self.client = Some(End { stream, unwritten: 0 });
            self.connecting = None;
            if let done @ Progress::Done(_) = self.issue(scope)? {
                return Ok(done);
            }
        }
        self.serve(scope)?;
        self.ask(scope)
    }

    fn serve(&mut self, scope: &mut Scope<'_>) -> sys::Result<()> {
        if self.server.is_none()
            && let Some(stream) = self.site.accept()?
        {
            self.meter.server = Some(stream.observer());
            self.server = Some(End { stream, unwritten: 0 });
        }
        let Some(server) = &mut self.server else { return Ok(()) };
        let missing = self.unasked;
        self.unasked = missing.saturating_sub(server.read(&self.site, scope)?);
        if missing > 0 && self.unasked == 0 {
            server.unwritten += self.response;
        }
        server.write(&self.site, scope)?;
        Ok(())
    }

    fn ask(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        let Some(client) = &mut self.client else { return Ok(Progress::Going) };
        scope.tally.sent += client.write(&self.site, scope)?;
        let got = client.read(&self.site, scope)?;
        scope.tally.received += got;
        let Turn::Awaiting(missing) = self.turn else { return Ok(Progress::Going) };
        let missing = missing.saturating_sub(got);
        self.turn = Turn::Awaiting(missing);
        if missing > 0 {
            return Ok(Progress::Going);
        }
        let now = scope.now();
        scope.tally.responses += 1;
        scope.tally.record_latency(now.since(self.issued).as_nanos());
        let next = (self.issued + self.interval).max(now + self.think.draw(&mut self.thoughts));
        if self.left == Some(0) {
            return Ok(Progress::Done(now));
        }
        if next > now {
            self.turn = Turn::Resting(next);
            return Ok(Progress::Going);
        }
        self.issue(scope)
    }
}

impl Endpoints for Rpc {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        _slot: u32,
        _readiness: Readiness,
    ) -> sys::Result<Progress> {
        self.site.bell.hush();
        self.turn(scope)
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        match self.turn {
            Turn::Resting(until) if scope.now() >= until => self.issue(scope),
            _ => Ok(Progress::Going),
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self.turn {
            Turn::Resting(until) => Some(until),
            _ => None,
        }
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        self.meter.observe(tally);
    }

    /// Streams that are dropped without an end abort their session.
    fn close(&mut self, _scope: &mut Scope<'_>) {}
}
