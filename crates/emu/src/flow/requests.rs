//! Requests that come whether or not those before have been answered, over connections that stay
//! open.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use base::{Bytes, FlowId, RandomStream, Time};
use lab::plan::{Flow, Tcp, Traffic};
use outcome::{Ideal, Tally};
use record::Transfer;
use sys::socket::{self, Interest, Readiness};
use transport::workload::{Arrivals, Sizes};

use super::rpc::End;
use super::traffic::{Connections, Endpoints, Progress, Scope, gone};
use super::transfers::MOST_AT_ONCE;
use super::{Observation, Placed, enter, tcp_options};

const LISTENER: u32 = 0;

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Request {
    start: Time,
    /// Size of the response.
    size: u64,
    /// What the server has yet to get of the request.
    asking: u64,
    /// What the client has yet to get of the response.
    missing: u64,
}

/// A connection and its request.
struct Channel {
    client: End,
    connected: bool,
    /// Once accepted.
    server: Option<End>,
    request: Option<Request>,
}

/// Slot 0 listens; connection n has slots 2 n + 1 and 2 n + 2.
pub(super) struct Requests {
    flow: FlowId,
    netns: Arc<OwnedFd>,
    from: IpAddr,
    to: SocketAddr,
    tcp: Tcp,
    dscp: u8,
    ideal: Option<Ideal>,
    listener: OwnedFd,
    request: Sizes,
    response: Sizes,
    arrivals: Arrivals,
    request_stream: RandomStream,
    response_stream: RandomStream,
    time_stream: RandomStream,
    /// Requests still to come.
    left: Option<u64>,
    next: Option<Time>,
    channels: Vec<Channel>,
    /// Positions by the client's port.
    ports: BTreeMap<u16, usize>,
    /// Positions of connections without a request, the longest idle first.
    idle: VecDeque<usize>,
    /// When requests came that have no connection yet.
    waiting: VecDeque<Time>,
    /// Requests without their whole response, those that wait too.
    open: u64,
}

impl Requests {
    pub(super) fn open(placed: &Placed, scope: &Scope<'_>) -> sys::Result<Self> {
        let Flow { traffic, dscp, name, .. } = &placed.flow;
        let Traffic::Requests { request, response, arrivals, count, streams, tcp } = traffic else {
            unreachable!("the driver opens flows of requests with this")
        };
        enter(&placed.netns[1])?;
        let (listener, to) = socket::listen(placed.addresses[1], tcp_options(tcp, true, *dscp))?;
        scope.add(&listener, LISTENER, Interest::Read)?;
        let mut time_stream = scope.random(name, "arrivals");
        let first = scope.now() + arrivals.first(&mut time_stream);
        let mut app = Self {
            flow: placed.id,
            netns: Arc::clone(&placed.netns[0]),
            from: placed.addresses[0],
            to,
            tcp: tcp.clone(),
            dscp: *dscp,
            ideal: placed.ideal,
            listener,
            request: request.clone(),
            response: response.clone(),
            arrivals: arrivals.clone(),
            request_stream: scope.random(name, "requests"),
            response_stream: scope.random(name, "responses"),
            time_stream,
            left: *count,
            next: Some(first),
            channels: Vec::new(),
            ports: BTreeMap::new(),
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
            open: 0,
        };
        for _ in 0..(*streams as usize).min(MOST_AT_ONCE) {
            let place = app.connect(scope)?;
            app.idle.push_back(place);
        }
        Ok(app)
    }

    /// Opens a connection and gives its position.
    fn connect(&mut self, scope: &Scope<'_>) -> sys::Result<usize> {
        enter(&self.netns)?;
        let options = tcp_options(&self.tcp, true, self.dscp);
        let socket = socket::connect(self.from, self.to, options)?;
        let port = socket::local_port(socket.as_fd())?;
        let place = self.channels.len();
        let slot = place as u32 * 2 + 1;
        scope.add(&socket, slot, Interest::Write)?;
        let client = End { socket, slot, unwritten: 0, wants_room: true };
        let channel = Channel { client, connected: false, server: None, request: None };
        self.channels.push(channel);
        self.ports.insert(port, place);
        Ok(place)
    }

    fn accept(&mut self, scope: &Scope<'_>) -> sys::Result<()> {
        while let Some(socket) = socket::accept(self.listener.as_fd())? {
            let port = socket::peer_port(socket.as_fd())?;
            let Some(place) = self.ports.get(&port).copied() else { continue };
            let slot = place as u32 * 2 + 2;
            scope.add(&socket, slot, Interest::Read)?;
            let end = End { socket, slot, unwritten: 0, wants_room: false };
            self.channels[place].server = Some(end);
        }
        Ok(())
    }

    /// Takes in what is due, and sends what has a connection.
    fn begin_due(&mut self, scope: &mut Scope<'_>) -> sys::Result<()> {
        while let Some(start) = self.next.filter(|next| *next <= scope.now()) {
            self.waiting.push_back(start);
            self.open += 1;
            scope.tally.transfers_started += 1;
            self.left = self.left.map(|left| left - 1);
            let more = self.left != Some(0);
            self.next = more.then(|| start + self.arrivals.gap(&mut self.time_stream));
        }
        while let Some(start) = self.waiting.front().copied() {
            let place = match self.idle.pop_front() {
                Some(place) => place,
                None if self.channels.len() < MOST_AT_ONCE => self.connect(scope)?,
                None => break,
            };
            self.waiting.pop_front();
            let asking = self.request.draw(&mut self.request_stream).max(1);
            let size = self.response.draw(&mut self.response_stream).max(1);
            let channel = &mut self.channels[place];
            channel.request = Some(Request { start, size, asking, missing: size });
            channel.client.unwritten = asking;
            if channel.connected {
                scope.tally.sent += channel.client.write(scope)?;
            }
        }
        Ok(())
    }

    fn on_client(
        &mut self,
        scope: &mut Scope<'_>,
        place: usize,
        readiness: Readiness,
    ) -> sys::Result<()> {
        let channel = &mut self.channels[place];
        if readiness.failed {
            socket::pending_error(channel.client.socket.as_fd())?;
            return Err(gone());
        }
        if readiness.writable {
            channel.connected = true;
            scope.tally.sent += channel.client.write(scope)?;
        }
        if !readiness.readable {
            return Ok(());
        }
        let got = channel.client.read()?;
        scope.tally.received += got;
        let Some(request) = &mut channel.request else { return Ok(()) };
        request.missing = request.missing.saturating_sub(got);
        if request.missing == 0 {
            let request = *request;
            channel.request = None;
            let transfer = self.transfer(&request, Some(scope.now()));
            scope.tally.responses += 1;
            scope.tally.transfer(&transfer);
            (scope.sink)(Observation::Transfer(transfer));
            self.open -= 1;
            self.idle.push_back(place);
            self.begin_due(scope)?;
        }
        Ok(())
    }

    fn on_server(
        &mut self,
        scope: &Scope<'_>,
        place: usize,
        readiness: Readiness,
    ) -> sys::Result<()> {
        let Channel { server: Some(server), request, .. } = &mut self.channels[place] else {
            return Ok(());
        };
        if readiness.failed {
            socket::pending_error(server.socket.as_fd())?;
            return Err(gone());
        }
        if readiness.readable {
            let got = server.read()?;
            if let Some(request) = request
                && request.asking > 0
            {
                request.asking = request.asking.saturating_sub(got);
                if request.asking == 0 {
                    server.unwritten += request.size;
                }
            }
        }
        server.write(scope)?;
        Ok(())
    }

    fn transfer(&self, request: &Request, end: Option<Time>) -> Transfer {
        let size = Bytes::new(request.size);
        Transfer {
            flow: self.flow,
            start: request.start,
            size,
            completion: end.map(|end| end.since(request.start)),
            ideal: self.ideal.map(|ideal| ideal.answer(size)),
            retransmits: None,
        }
    }

    fn progress(&self, scope: &Scope<'_>) -> Progress {
        if self.left == Some(0) && self.open == 0 {
            Progress::Done(scope.now())
        } else {
            Progress::Going
        }
    }
}

impl Endpoints for Requests {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        let place = slot.saturating_sub(1) as usize / 2;
        match slot {
            LISTENER => self.accept(scope)?,
            _ if slot % 2 == 1 => self.on_client(scope, place, readiness)?,
            _ => self.on_server(scope, place, readiness)?,
        }
        Ok(self.progress(scope))
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        self.begin_due(scope)?;
        Ok(self.progress(scope))
    }

    fn deadline(&self) -> Option<Time> {
        self.next
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        let mut connections = Connections::default();
        for channel in &self.channels {
            connections.add(channel.client.socket.as_fd());
            if let Some(server) = &channel.server {
                connections.add_retransmits(server.socket.as_fd());
            }
        }
        connections.report(tally);
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        for channel in std::mem::take(&mut self.channels) {
            if let Some(request) = &channel.request {
                (scope.sink)(Observation::Transfer(self.transfer(request, None)));
            }
            for end in [Some(channel.client), channel.server].into_iter().flatten() {
                // Where this fails the connection is gone already.
                let _ = socket::reset_on_close(end.socket.as_fd());
            }
        }
    }
}
