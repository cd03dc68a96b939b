//! The connections of a client.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use base::{FlowId, RandomStream, Time};
use run::Ideal;
use sys::socket::{self, Interest, Readiness, TcpInfo};
use workload::{Event, Report, Side, Transport};

use super::super::content::{Content, Damage};
use super::super::mptcp::AdditionalPaths;
use super::super::rendezvous::{Dial, PartialReceipt};
use super::super::traffic::{CHUNK_BYTES, MAX_CONNECTIONS, Scope, closed_error};
use super::super::{Observation, Placed};
use super::end::End;
use super::server::MAX_NUMBER_BYTES;

struct Connection {
    /// `None` between a refused connection and the next attempt.
    end: Option<End>,
    retry_at: Option<Time>,
    connected: bool,
    tag: u32,
    /// The client's port.
    port: u16,
    /// Number and size of a request of which nothing has been written yet.
    message: Option<(Option<u32>, u64)>,
    /// Total bytes that the client sends over it, if known.
    payload: Option<u64>,
    finished: bool,
    /// The receipt of a server on another agent.
    receipt: PartialReceipt,
}

/// A client's connections, by slot.
pub(super) struct Client {
    flow: FlowId,
    name: String,
    ideal: Option<Ideal>,
    dial: Dial,
    /// The paths of each connection other than the first, for multipath flows.
    others: Option<AdditionalPaths>,
    connections: BTreeMap<u32, Connection>,
    /// Slots by port.
    ports: BTreeMap<u16, u32>,
    last_slot: u32,
    /// Retransmissions of closed connections.
    retransmits: u64,
    /// An error during a call of the state machine.
    pub(super) error: Option<sys::Error>,
}

/// The result of an event at a client's socket.
pub(super) enum Seen {
    Nothing,
    Event(Event),
    Damaged(Damage),
}

impl Client {
    pub(super) fn new(placed: &Placed, dial: Dial, others: Option<AdditionalPaths>) -> Self {
        Self {
            flow: placed.id,
            name: placed.flow.name.clone(),
            ideal: placed.ideal,
            dial,
            others,
            connections: BTreeMap::new(),
            ports: BTreeMap::new(),
            last_slot: 0,
            retransmits: 0,
            error: None,
        }
    }

    /// The slot of the connection from a port to a server on this agent.
    pub(super) fn slot(&self, port: u16) -> Option<u32> {
        self.ports.get(&port).copied()
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = &End> {
        self.connections.values().filter_map(|connection| connection.end.as_ref())
    }

    pub(super) const fn past_retransmits(&self) -> u64 {
        self.retransmits
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.connections.values().filter_map(|connection| connection.retry_at).min()
    }

    /// Retries refused connections.
    pub(super) fn redial(&mut self, scope: &Scope<'_>) -> sys::Result<()> {
        let now = scope.now();
        for (slot, connection) in &mut self.connections {
            if connection.retry_at.is_some_and(|retry_at| retry_at <= now) {
                connection.end = Some(dial(&self.dial, scope, *slot)?);
                connection.retry_at = None;
            }
        }
        Ok(())
    }

    /// The next free odd slot. Slots are not reused at once, so that a late event of a closed
    /// connection does not affect a new one; tokens have 16 bits for the slot.
    fn new_slot(&mut self) -> u32 {
        loop {
            self.last_slot = (self.last_slot + 2) % (u32::from(u16::MAX) - 1);
            let slot = self.last_slot + 1;
            if !self.connections.contains_key(&slot) {
                return slot;
            }
        }
    }

    fn connect(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        tag: u32,
        payload: Option<u64>,
    ) -> sys::Result<()> {
        let end = dial(&self.dial, scope, slot)?;
        let port = socket::local_port(end.socket.as_fd())?;
        if let Some(others) = &self.others {
            scope.paths.expect(others, end.socket.as_fd(), self.dial.port())?;
        }
        self.ports.insert(port, slot);
        let connection = Connection {
            end: Some(end),
            retry_at: None,
            connected: false,
            tag,
            port,
            message: payload.map(|size| (None, size)),
            payload,
            finished: false,
            receipt: PartialReceipt::default(),
        };
        self.connections.insert(slot, connection);
        Ok(())
    }

    pub(super) fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Seen> {
        // The connection may have been closed since the event.
        let Some(connection) = self.connections.get_mut(&slot) else { return Ok(Seen::Nothing) };
        let Some(end) = &connection.end else { return Ok(Seen::Nothing) };
        if connection.finished && self.dial.is_remote() {
            // Read first: a receipt that arrived before the connection failed is valid.
            let Some(receipt) = connection.receipt.read(&end.socket)? else {
                return Ok(Seen::Nothing);
            };
            return Ok(self.on_receipt(slot, receipt.received, receipt.at));
        }
        if readiness.failed {
            let error =
                socket::pending_error(end.socket.as_fd()).err().unwrap_or_else(closed_error);
            if connection.connected {
                return Err(error);
            }
            connection.retry_at = Some(self.dial.next_attempt(error, scope.now())?);
            connection.end = None;
            return Ok(Seen::Nothing);
        }
        let mut event = Event::new(slot, Side::Client, scope.now());
        if readiness.writable && !connection.connected {
            connection.connected = true;
            event.established = true;
            self.dial.connected();
        }
        connection.write(scope)?;
        if readiness.readable
            && let Some(end) = &connection.end
            && !connection.finished
        {
            event.bytes = end.read()?;
        }
        let is_news = event.established || event.bytes > 0;
        Ok(if is_news { Seen::Event(event) } else { Seen::Nothing })
    }

    /// The event for a server's receipt: it has received this many bytes and the end of the stream.
    pub(super) fn on_receipt(&self, slot: u32, received: u64, at: Time) -> Seen {
        let payload = self.connections.get(&slot).and_then(|connection| connection.payload);
        if let Err(damage) = Content::check_end(received, payload.unwrap_or(received)) {
            return Seen::Damaged(damage);
        }
        Seen::Event(Event { bytes: received, ..Event::new(slot, Side::Server, at) })
    }
}

fn dial(dial: &Dial, scope: &Scope<'_>, slot: u32) -> sys::Result<End> {
    let socket = dial.connect()?;
    scope.add(&socket, slot, Interest::Write)?;
    Ok(End { socket, slot, unwritten: 0, wants_room: true })
}

impl Connection {
    /// Writes pending bytes, once the connection is established.
    fn write(&mut self, scope: &mut Scope<'_>) -> sys::Result<()> {
        let Some(end) = self.end.as_mut().filter(|_| self.connected) else { return Ok(()) };
        match self.message {
            Some((Some(number), size)) => {
                let length = usize::try_from(size).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
                let data = &mut scope.scratch[..length];
                let label = MAX_NUMBER_BYTES.min(length);
                data[..label].copy_from_slice(&number.to_le_bytes()[..label]);
                let Some(count) = socket::write(end.socket.as_fd(), data)? else {
                    return end.wait_for_room(scope, true);
                };
                end.unwritten = size - count as u64;
                scope.counters.sent += count as u64;
            }
            Some((None, size)) => end.unwritten = size,
            None => {}
        }
        self.message = None;
        scope.counters.sent += end.write(scope)?;
        if self.payload.is_some() && end.unwritten == 0 && !self.finished {
            socket::finish_writing(end.socket.as_fd())?;
            self.finished = true;
        }
        Ok(())
    }
}

/// Access to a client's connections during a call of its state machine.
pub(in super::super) struct Wire<'a, 's> {
    pub(super) client: &'a mut Client,
    pub(super) scope: &'a mut Scope<'s>,
}

impl Transport for Wire<'_, '_> {
    fn now(&self) -> Time {
        self.scope.start()
    }

    fn random(&self, purpose: &str) -> RandomStream {
        self.scope.random(&self.client.name, purpose)
    }

    fn max_connections(&self) -> usize {
        MAX_CONNECTIONS
    }

    fn connect(&mut self, tag: u32, payload: Option<u64>) -> u32 {
        let slot = self.client.new_slot();
        if let Err(error) = self.client.connect(self.scope, slot, tag, payload) {
            self.client.error.get_or_insert(error);
        }
        slot
    }

    fn tag(&mut self, connection: u32) -> Option<u32> {
        self.client.connections.get(&connection).map(|connection| connection.tag)
    }

    fn set_tag(&mut self, connection: u32, tag: u32) {
        if let Some(connection) = self.client.connections.get_mut(&connection) {
            connection.tag = tag;
        }
    }

    fn request(&mut self, connection: u32, number: u32, bytes: u64) {
        let Some(connection) = self.client.connections.get_mut(&connection) else { return };
        connection.message = Some((Some(number), bytes));
        if let Err(error) = connection.write(self.scope) {
            self.client.error.get_or_insert(error);
        }
    }

    /// The server responds without this, since it may be on another agent.
    fn respond(&mut self, _connection: u32, _bytes: u64) {}

    fn release(&mut self, connection: u32) -> bool {
        self.client.retransmits += self.retransmits(connection).unwrap_or(0);
        self.reset(connection);
        if let Some(connection) = self.client.connections.remove(&connection) {
            self.client.ports.remove(&connection.port);
            if let Some(others) = &self.client.others {
                self.scope.paths.forget(others, connection.port);
            }
        }
        true
    }

    /// Dropping the connection resets it.
    fn reset(&mut self, connection: u32) {
        let connection = self.client.connections.get(&connection);
        if let Some(end) = connection.and_then(|connection| connection.end.as_ref()) {
            // If this fails, the connection no longer exists.
            let _ = socket::reset_on_close(end.socket.as_fd());
        }
    }

    fn retransmits(&mut self, connection: u32) -> Option<u64> {
        let end = self.client.connections.get(&connection)?.end.as_ref()?;
        let info = TcpInfo::read(end.socket.as_fd()).ok()?;
        Some(u64::from(info.retransmits))
    }

    fn report(&mut self, report: Report) {
        let Client { flow, ideal, .. } = self.client;
        if let Some(transfer) = self.scope.counters.report(*flow, ideal.as_ref(), report) {
            (self.scope.sink)(Observation::Transfer(transfer));
        }
    }
}
