//! Bulk transfer over MCTCP: as fast as it goes or as an application offers it, and checked.

use base::Time;
use lab::plan::{Flow, Pausing, Traffic};
use mctcp_live::{Connecting, MctcpStream};
use outcome::Tally;
use sys::socket::Readiness;

use super::super::Placed;
use super::super::content::Content;
use super::super::offer::Offer;
use super::super::traffic::{CHUNK, Endpoints, Progress, Scope};
use super::{Meter, Site, failed};

/// Payload that is written, or read and compared, at once.
const PIECE: usize = 64 << 10;
/// The same in one turn.
const TURN: usize = 1 << 20;

/// A session that carries one stream.
pub(in super::super) struct Bulk {
    site: Site,
    connecting: Option<Connecting>,
    client: Option<MctcpStream>,
    server: Option<MctcpStream>,
    content: Content,
    offer: Option<Offer>,
    /// Payload not yet written; `None`: without end.
    remaining: Option<u64>,
    sent: u64,
    received: u64,
    finished: bool,
    /// All that was offered is written, and more will be.
    idle: bool,
    /// When the receiver does not read.
    pausing: Pausing,
    meter: Meter,
}

impl Bulk {
    pub(in super::super) fn open(placed: &Placed, scope: &mut Scope<'_>) -> sys::Result<Self> {
        let Flow { traffic: Traffic::Bulk { size, rate, pause, tcp, .. }, name, .. } = &placed.flow
        else {
            unreachable!("the driver opens bulk flows with this")
        };
        let site = Site::open(placed, tcp, scope)?;
        let connecting = site.connect(name);
        let now = scope.now();
        scope.tally.begin_waiting(now);
        // The first turn asks how the connection does.
        site.bell.ring();
        Ok(Self {
            site,
            connecting: Some(connecting),
            client: None,
            server: None,
            content: Content::new(scope.random(name, "content")),
            offer: rate.map(|rate| Offer::new(rate, now)),
            remaining: size.map(base::Bytes::count),
            sent: 0,
            received: 0,
            finished: false,
            idle: false,
            pausing: Pausing::begin(*pause, now),
            meter: Meter::new(placed),
        })
    }

    fn turn(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        if let Some(connecting) = &mut self.connecting
            && let Some(connected) = connecting.try_finish(&self.site.waker)
        {
            let client = connected.map_err(failed)?;
            self.meter.client = Some(client.observer());
            (self.client, self.connecting) = (Some(client), None);
        }
        if self.server.is_none()
            && let Some(server) = self.site.accept()?
        {
            self.meter.server = Some(server.observer());
            self.server = Some(server);
        }
        self.write(scope)?;
        self.read(scope)
    }

    fn write(&mut self, scope: &mut Scope<'_>) -> sys::Result<()> {
        let Some(client) = &mut self.client else { return Ok(()) };
        let mut budget = TURN;
        self.idle = false;
        while !self.finished {
            let left = self.remaining.unwrap_or(u64::MAX);
            if left == 0 {
                client.finish_writing().map_err(failed)?;
                self.finished = true;
                break;
            }
            let room = self.offer.as_ref().map_or(left, |offer| offer.room(scope.now(), left));
            if room == 0 {
                self.idle = true;
                break;
            }
            if budget == 0 {
                self.site.bell.ring();
                break;
            }
            let length = usize::try_from(room).unwrap_or(PIECE).min(PIECE).min(budget);
            let data = &mut scope.scratch[..length];
            self.content.fill(self.sent, data);
            let written = client.try_write(data, &self.site.waker).map_err(failed)?;
            let Some(count) = written else { break };
            budget -= count;
            let count = count as u64;
            self.sent += count;
            scope.tally.sent += count;
            self.remaining = self.remaining.map(|left| left - count);
            if let Some(offer) = &mut self.offer {
                offer.wrote(count);
            }
        }
        Ok(())
    }

    fn read(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        let Some(server) = self.server.as_mut().filter(|_| !self.pausing.is_paused()) else {
            return Ok(Progress::Going);
        };
        let (data, comparison) = scope.scratch.split_at_mut(CHUNK - PIECE);
        let mut budget = TURN;
        loop {
            let read = server.try_read(data, &self.site.waker).map_err(failed)?;
            let Some(count) = read else { return Ok(Progress::Going) };
            let now = scope.clock.now();
            let checked = match count {
                0 => Content::check_end(self.received, self.sent),
                _ => self.content.check(self.received, &data[..count], comparison),
            };
            if let Err(damage) = checked {
                return Ok(Progress::Damaged(damage));
            }
            if count == 0 {
                server.finish_writing().map_err(failed)?;
                return Ok(Progress::Done(now));
            }
            self.received += count as u64;
            scope.tally.received += count as u64;
            scope.tally.heard(now);
            budget = budget.saturating_sub(count);
            if budget == 0 {
                self.site.bell.ring();
                return Ok(Progress::Going);
            }
        }
    }
}

impl Endpoints for Bulk {
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
        self.pausing.advance(scope.now());
        self.turn(scope)
    }

    fn deadline(&self) -> Option<Time> {
        let offer = self.offer.as_ref().filter(|_| self.idle);
        let next = offer.map(|offer| offer.next(self.remaining.unwrap_or(u64::MAX)));
        [next, self.pausing.deadline()].into_iter().flatten().min()
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
