//! Transfers over MCTCP, a session for each.

use std::collections::{BTreeMap, BTreeSet};

use base::{Bytes, FlowId, RandomStream, Span, Time};
use lab::plan::{Flow, Traffic};
use mctcp_live::{Connecting, MctcpStream};
use outcome::Tally;
use record::Transfer;
use sys::socket::Readiness;
use transport::workload::{Arrivals, Sizes};

use super::super::traffic::{Endpoints, Progress, Scope, gone};
use super::super::transfers::MOST_AT_ONCE;
use super::super::{Observation, Placed};
use super::{Site, failed, retransmits};

/// One transfer under way.
struct Active {
    start: Time,
    size: u64,
    unwritten: u64,
    unread: u64,
    connecting: Option<Connecting>,
    client: Option<MctcpStream>,
    server: Option<MctcpStream>,
}

/// Transfers of a flow, by the numbers that their sessions ask for.
pub(in super::super) struct Transfers {
    flow: FlowId,
    site: Site,
    sizes: Sizes,
    arrivals: Arrivals,
    size_stream: RandomStream,
    time_stream: RandomStream,
    /// Transfers still to be started.
    left: Option<u64>,
    /// When the next one starts; `None`: after another's end, or never.
    next: Option<Time>,
    active: BTreeMap<u64, Active>,
    last: u64,
    /// Segments sent again by transfers that have ended.
    retransmits: u64,
}

impl Transfers {
    pub(in super::super) fn open(placed: &Placed, scope: &mut Scope<'_>) -> sys::Result<Self> {
        let Flow { traffic, name, .. } = &placed.flow;
        let Traffic::Transfers { sizes, arrivals, count, tcp } = traffic else {
            unreachable!("the driver opens flows of transfers with this")
        };
        let mut time_stream = scope.random(name, "arrivals");
        let first = scope.now() + arrivals.first(&mut time_stream);
        Ok(Self {
            flow: placed.id,
            site: Site::open(placed, tcp, scope)?,
            sizes: sizes.clone(),
            arrivals: arrivals.clone(),
            size_stream: scope.random(name, "sizes"),
            time_stream,
            left: *count,
            next: Some(first),
            active: BTreeMap::new(),
            last: 0,
            retransmits: 0,
        })
    }

    /// Starts what is due, as far as there is room.
    fn start_due(&mut self, scope: &mut Scope<'_>) {
        while let Some(start) = self.next.filter(|next| *next <= scope.now()) {
            if self.active.len() == MOST_AT_ONCE {
                break;
            }
            self.last += 1;
            let size = self.sizes.draw(&mut self.size_stream).max(1);
            let connecting = Some(self.site.connect(&self.last.to_string()));
            let (client, server) = (None, None);
            let (unwritten, unread) = (size, size);
            let active = Active { start, size, unwritten, unread, connecting, client, server };
            self.active.insert(self.last, active);
            scope.tally.transfers_started += 1;
            self.left = self.left.map(|left| left - 1);
            let more = !self.arrivals.is_closed_loop() && self.left != Some(0);
            self.next = more.then(|| start + self.arrivals.gap(&mut self.time_stream));
            self.site.bell.ring();
        }
    }

    fn turn(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        while let Some(server) = self.site.accept()? {
            let number = server.target().parse().ok();
            if let Some(active) = number.and_then(|number: u64| self.active.get_mut(&number)) {
                active.server = Some(server);
            }
        }
        let mut complete = BTreeSet::new();
        for (number, active) in &mut self.active {
            if active.turn(&self.site, scope)? {
                complete.insert(*number);
            }
        }
        for number in complete {
            self.complete(scope, number);
        }
        self.start_due(scope);
        let done = self.left == Some(0) && self.active.is_empty();
        Ok(if done { Progress::Done(scope.now()) } else { Progress::Going })
    }

    fn complete(&mut self, scope: &mut Scope<'_>, number: u64) {
        let Some(active) = self.active.remove(&number) else { return };
        let now = scope.now();
        let retransmits = active.client.as_ref().map(retransmits);
        self.retransmits += retransmits.unwrap_or(0);
        let transfer = self.transfer(&active, Some(now.since(active.start)), retransmits);
        scope.tally.transfer(&transfer);
        (scope.sink)(Observation::Transfer(transfer));
        if self.arrivals.is_closed_loop() && self.left != Some(0) {
            self.next = Some(now + self.arrivals.gap(&mut self.time_stream));
        }
    }

    fn transfer(
        &self,
        active: &Active,
        completion: Option<Span>,
        retransmits: Option<u64>,
    ) -> Transfer {
        let size = Bytes::new(active.size);
        let (flow, start) = (self.flow, active.start);
        Transfer { flow, start, size, completion, ideal: None, retransmits }
    }
}

impl Active {
    /// Goes on; whether all has arrived.
    fn turn(&mut self, site: &Site, scope: &mut Scope<'_>) -> sys::Result<bool> {
        if let Some(connecting) = &mut self.connecting
            && let Some(connected) = connecting.try_finish(&site.waker)
        {
            self.client = Some(connected.map_err(failed)?);
            self.connecting = None;
        }
        if let Some(client) = &mut self.client {
            while self.unwritten > 0 {
                let most = usize::try_from(self.unwritten).unwrap_or(usize::MAX);
                let data = &scope.payload[..most.min(scope.payload.len())];
                let Some(count) = client.try_write(data, &site.waker).map_err(failed)? else {
                    break;
                };
                self.unwritten -= count as u64;
                scope.tally.sent += count as u64;
                if self.unwritten == 0 {
                    client.finish_writing().map_err(failed)?;
                }
            }
        }
        let Some(server) = &mut self.server else { return Ok(false) };
        while let Some(count) = server.try_read(scope.scratch, &site.waker).map_err(failed)? {
            self.unread = self.unread.saturating_sub(count as u64);
            scope.tally.received += count as u64;
            if count == 0 {
                if self.unread > 0 {
                    return Err(gone());
                }
                server.finish_writing().map_err(failed)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Endpoints for Transfers {
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
        self.turn(scope)
    }

    fn deadline(&self) -> Option<Time> {
        self.next.filter(|_| self.active.len() < MOST_AT_ONCE)
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        let clients = self.active.values().filter_map(|active| active.client.as_ref());
        let now: u64 = clients.map(retransmits).sum();
        tally.retransmits = tally.retransmits.max(self.retransmits + now);
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        for active in std::mem::take(&mut self.active).into_values() {
            (scope.sink)(Observation::Transfer(self.transfer(&active, None, None)));
        }
    }
}
