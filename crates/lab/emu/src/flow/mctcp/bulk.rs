//! Bulk transfer over MCTCP: as fast as possible or at an offered rate, with verified content.

use base::Time;
use lab::plan::Tcp;
use mctcp_live::{Connecting, MctcpStream};
use run::FlowCounters;
use sys::socket::Readiness;
use workload::BulkFlow;

use super::super::Placed;
use super::super::content::Content;
use super::super::traffic::{CHUNK_BYTES, Endpoints, Progress, Scope};
use super::{Meter, Site, failed};

/// Bytes written, or read and compared, at a time.
const VERIFIED_CHUNK_BYTES: usize = 64 << 10;
/// Maximum bytes per turn.
const MAX_TURN_BYTES: usize = 1 << 20;

/// A session with one stream.
pub(in super::super) struct Bulk {
    site: Site,
    connecting: Option<Connecting>,
    client: Option<MctcpStream>,
    server: Option<MctcpStream>,
    content: Content,
    flow: BulkFlow,
    finished: bool,
    /// All payload offered so far is written.
    idle: bool,
    meter: Meter,
}

impl Bulk {
    pub(in super::super) fn open(
        placed: &Placed,
        flow: BulkFlow,
        tcp: &Tcp,
        scope: &mut Scope<'_>,
    ) -> sys::Result<Self> {
        let name = &placed.flow.name;
        let site = Site::open(placed, tcp, scope)?;
        let connecting = site.connect(name);
        let now = scope.now();
        scope.counters.start_gap_measurement(now);
        // The first turn checks the state of the connection.
        site.signal.set();
        Ok(Self {
            site,
            connecting: Some(connecting),
            client: None,
            server: None,
            content: Content::new(scope.random(name, "content")),
            flow,
            finished: false,
            idle: false,
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
        let mut budget = MAX_TURN_BYTES;
        self.idle = false;
        while !self.finished {
            if self.flow.is_written() {
                client.finish_writing().map_err(failed)?;
                self.finished = true;
                break;
            }
            let room = self.flow.writable(scope.now());
            if room == 0 {
                self.idle = true;
                break;
            }
            if budget == 0 {
                self.site.signal.set();
                break;
            }
            let length = usize::try_from(room)
                .unwrap_or(VERIFIED_CHUNK_BYTES)
                .min(VERIFIED_CHUNK_BYTES)
                .min(budget);
            let data = &mut scope.scratch[..length];
            self.content.fill(self.flow.written(), data);
            let written = client.try_write(data, &self.site.waker).map_err(failed)?;
            let Some(count) = written else { break };
            budget -= count;
            let count = count as u64;
            self.flow.on_written(count);
            scope.counters.sent += count;
        }
        Ok(())
    }

    fn read(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        let Some(server) = self.server.as_mut().filter(|_| !self.flow.is_paused()) else {
            return Ok(Progress::Going);
        };
        let (data, comparison) = scope.scratch.split_at_mut(CHUNK_BYTES - VERIFIED_CHUNK_BYTES);
        let mut budget = MAX_TURN_BYTES;
        loop {
            let read = server.try_read(data, &self.site.waker).map_err(failed)?;
            let Some(count) = read else { return Ok(Progress::Going) };
            let now = scope.clock.now();
            let checked = match count {
                0 => Content::check_end(self.flow.received(), self.flow.written()),
                _ => self.content.check(self.flow.received(), &data[..count], comparison),
            };
            if let Err(damage) = checked {
                return Ok(Progress::Damaged(damage));
            }
            if count == 0 {
                server.finish_writing().map_err(failed)?;
                return Ok(Progress::Done(now));
            }
            self.flow.on_received(count as u64);
            scope.counters.received += count as u64;
            scope.counters.on_bytes_received(now);
            budget = budget.saturating_sub(count);
            if budget == 0 {
                self.site.signal.set();
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
        self.site.signal.clear();
        self.turn(scope)
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        self.flow.on_wake(scope.now());
        self.turn(scope)
    }

    fn next_wake(&self) -> Option<Time> {
        self.flow.next_wake(self.idle)
    }

    fn observe(&mut self, counters: &mut FlowCounters) {
        self.meter.observe(counters);
    }

    /// Dropping a stream without ending it aborts the session.
    fn close(&mut self, _scope: &mut Scope<'_>) {}
}
