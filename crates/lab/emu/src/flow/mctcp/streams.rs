//! RPC, requests and transfers over MCTCP sessions.

use std::collections::BTreeMap;

use base::{FlowId, RandomStream, Time};
use lab::plan::Tcp;
use mctcp_live::{Connecting, MctcpStream};
use run::FlowCounters;
use sys::socket::Readiness;
use workload::{Event, Report, Side, Transport, Workload};

use super::super::traffic::{
    Endpoints, MAX_CONNECTIONS, Progress, Scope, closed_error, combine_progress,
};
use super::super::{Observation, Placed};
use super::{Meter, Site, failed, retransmits};

/// Both ends of a session, and their unwritten bytes.
struct Session {
    tag: u32,
    connecting: Option<Connecting>,
    client: Option<MctcpStream>,
    server: Option<MctcpStream>,
    unwritten: [u64; 2],
    /// Total bytes that the client sends, if known.
    payload: Option<u64>,
    finished: bool,
    /// Bytes that the server has received.
    received: u64,
}

/// The sessions of a flow, by the session number that the client requests.
pub(in super::super) struct Sessions {
    flow: FlowId,
    name: String,
    site: Site,
    all: BTreeMap<u32, Session>,
    last: u32,
    meter: Meter,
    /// Retransmissions of closed sessions.
    retransmits: u64,
    /// An error during a call of the state machine.
    error: Option<sys::Error>,
}

/// A flow over MCTCP on the wall clock.
pub(in super::super) struct Streams<W> {
    flow: W,
    sessions: Sessions,
}

impl<W: Workload> Streams<W> {
    pub(in super::super) fn open(
        placed: &Placed,
        tcp: &Tcp,
        scope: &mut Scope<'_>,
        open: impl FnOnce(&mut Wire<'_, '_>) -> W,
    ) -> sys::Result<Self> {
        let mut sessions = Sessions {
            flow: placed.id,
            name: placed.flow.name.clone(),
            site: Site::open(placed, tcp, scope)?,
            all: BTreeMap::new(),
            last: 0,
            meter: Meter::new(placed),
            retransmits: 0,
            error: None,
        };
        let flow = open(&mut Wire { sessions: &mut sessions, scope });
        Ok(Self { flow, sessions })
    }

    /// Calls the state machine.
    fn turn(
        &mut self,
        scope: &mut Scope<'_>,
        turn: impl FnOnce(&mut W, &mut Wire<'_, '_>) -> workload::Progress,
    ) -> sys::Result<Progress> {
        let progress = turn(&mut self.flow, &mut Wire { sessions: &mut self.sessions, scope });
        combine_progress(progress, self.sessions.error.take())
    }
}

impl Sessions {
    fn accept(&mut self) -> sys::Result<()> {
        while let Some(server) = self.site.accept()? {
            let number = server.target().parse().ok();
            if let Some(session) = number.and_then(|number: u32| self.all.get_mut(&number)) {
                self.meter.server.get_or_insert_with(|| server.observer());
                session.server = Some(server);
            }
        }
        Ok(())
    }

    /// The event of a newly established session, if it is established.
    fn connected(&mut self, number: u32, now: Time) -> sys::Result<Option<Event>> {
        let Some(session) = self.all.get_mut(&number) else { return Ok(None) };
        let Some(connecting) = &mut session.connecting else { return Ok(None) };
        let Some(connected) = connecting.try_finish(&self.site.waker) else { return Ok(None) };
        let client = connected.map_err(failed)?;
        self.meter.client.get_or_insert_with(|| client.observer());
        session.client = Some(client);
        session.connecting = None;
        Ok(Some(Event { established: true, ..Event::new(number, Side::Client, now) }))
    }

    /// Writes pending bytes of both ends, and reads received bytes.
    fn advance(
        &mut self,
        scope: &mut Scope<'_>,
        number: u32,
        side: Side,
        receiver: Side,
    ) -> sys::Result<Option<Event>> {
        let Some(session) = self.all.get_mut(&number) else { return Ok(None) };
        session.write(&self.site, scope, Side::Client)?;
        session.write(&self.site, scope, Side::Server)?;
        let stream = match side {
            Side::Client => &mut session.client,
            Side::Server => &mut session.server,
        };
        let Some(stream) = stream else { return Ok(None) };
        let (mut bytes, mut ended) = (0, false);
        while let Some(count) = stream.try_read(scope.scratch, &self.site.waker).map_err(failed)? {
            if count == 0 {
                ended = true;
                break;
            }
            bytes += count as u64;
        }
        if side == receiver {
            scope.counters.received += bytes;
        }
        let mut event = Event::new(number, side, scope.now());
        match (side, session.payload) {
            (Side::Server, Some(payload)) => {
                session.received += bytes;
                if ended && session.received < payload {
                    return Err(closed_error());
                }
                if ended {
                    stream.finish_writing().map_err(failed)?;
                    event.bytes = session.received;
                }
            }
            _ if ended && session.payload.is_none() => return Err(closed_error()),
            _ => event.bytes = bytes,
        }
        Ok((event.bytes > 0).then_some(event))
    }
}

impl Session {
    fn write(&mut self, site: &Site, scope: &mut Scope<'_>, side: Side) -> sys::Result<()> {
        let stream = match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        };
        let (Some(stream), unwritten) = (stream, &mut self.unwritten[side.index()]) else {
            return Ok(());
        };
        while *unwritten > 0 {
            let most = usize::try_from(*unwritten).unwrap_or(usize::MAX);
            let data = &scope.payload[..most.min(scope.payload.len())];
            let Some(count) = stream.try_write(data, &site.waker).map_err(failed)? else { break };
            *unwritten -= count as u64;
            if side == Side::Client {
                scope.counters.sent += count as u64;
            }
        }
        if side == Side::Client && self.payload.is_some() && *unwritten == 0 && !self.finished {
            stream.finish_writing().map_err(failed)?;
            self.finished = true;
        }
        Ok(())
    }
}

/// Access to a flow's sessions during a call of its state machine.
pub(in super::super) struct Wire<'a, 's> {
    sessions: &'a mut Sessions,
    scope: &'a mut Scope<'s>,
}

impl Wire<'_, '_> {
    fn write(&mut self, number: u32, side: Side, bytes: u64) {
        let Some(session) = self.sessions.all.get_mut(&number) else { return };
        session.unwritten[side.index()] += bytes;
        if let Err(error) = session.write(&self.sessions.site, self.scope, side) {
            self.sessions.error.get_or_insert(error);
        }
    }
}

impl Transport for Wire<'_, '_> {
    fn now(&self) -> Time {
        self.scope.now()
    }

    fn random(&self, purpose: &str) -> RandomStream {
        self.scope.random(&self.sessions.name, purpose)
    }

    fn max_connections(&self) -> usize {
        MAX_CONNECTIONS
    }

    fn connect(&mut self, tag: u32, payload: Option<u64>) -> u32 {
        self.sessions.last += 1;
        let number = self.sessions.last;
        let session = Session {
            tag,
            connecting: Some(self.sessions.site.connect(&number.to_string())),
            client: None,
            server: None,
            unwritten: [payload.unwrap_or(0), 0],
            payload,
            finished: false,
            received: 0,
        };
        self.sessions.all.insert(number, session);
        // The next turn checks the state of the connection.
        self.sessions.site.signal.set();
        number
    }

    fn tag(&mut self, connection: u32) -> Option<u32> {
        self.sessions.all.get(&connection).map(|session| session.tag)
    }

    fn set_tag(&mut self, connection: u32, tag: u32) {
        if let Some(session) = self.sessions.all.get_mut(&connection) {
            session.tag = tag;
        }
    }

    fn request(&mut self, connection: u32, _number: u32, bytes: u64) {
        self.write(connection, Side::Client, bytes);
    }

    fn respond(&mut self, connection: u32, bytes: u64) {
        self.write(connection, Side::Server, bytes);
    }

    fn release(&mut self, connection: u32) -> bool {
        self.sessions.retransmits += self.retransmits(connection).unwrap_or(0);
        self.sessions.all.remove(&connection);
        true
    }

    /// Dropping a stream without ending it aborts the session.
    fn reset(&mut self, _connection: u32) {}

    fn retransmits(&mut self, connection: u32) -> Option<u64> {
        self.sessions.all.get(&connection)?.client.as_ref().map(retransmits)
    }

    fn report(&mut self, report: Report) {
        if let Some(transfer) = self.scope.counters.report(self.sessions.flow, None, report) {
            (self.scope.sink)(Observation::Transfer(transfer));
        }
    }
}

impl<W: Workload + Send> Endpoints for Streams<W> {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        _slot: u32,
        _readiness: Readiness,
    ) -> sys::Result<Progress> {
        self.sessions.site.signal.clear();
        self.sessions.accept()?;
        let numbers: Vec<u32> = self.sessions.all.keys().copied().collect();
        for number in numbers {
            if let Some(event) = self.sessions.connected(number, scope.now())? {
                self.turn(scope, |flow, wire| flow.on_event(wire, &event))?;
            }
            for side in [Side::Server, Side::Client] {
                let Some(event) = self.sessions.advance(scope, number, side, W::RECEIVER)? else {
                    continue;
                };
                let progress = self.turn(scope, |flow, wire| flow.on_event(wire, &event))?;
                if progress != Progress::Going {
                    return Ok(progress);
                }
            }
        }
        Ok(Progress::Going)
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        self.turn(scope, |flow, wire| flow.on_wake(wire))
    }

    fn next_wake(&self) -> Option<Time> {
        self.flow.next_wake()
    }

    fn observe(&mut self, counters: &mut FlowCounters) {
        if W::RECEIVER == Side::Client {
            return self.sessions.meter.observe(counters);
        }
        let clients = self.sessions.all.values().filter_map(|session| session.client.as_ref());
        let now: u64 = clients.map(retransmits).sum();
        counters.retransmits = counters.retransmits.max(self.sessions.retransmits + now);
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        self.flow.close(&mut Wire { sessions: &mut self.sessions, scope });
    }
}
