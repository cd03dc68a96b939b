//! Transfers: a TCP connection for each, with sizes and starts that are drawn.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use base::{Bytes, FlowId, RandomStream, Span, Time};
use lab::plan::{Flow, Tcp, Traffic};
use outcome::{Ideal, Tally};
use record::Transfer;
use sys::socket::{self, Interest, Readiness, TcpInfo};
use transport::workload::{Arrivals, Sizes};

use super::content::Content;
use super::mptcp::Others;
use super::traffic::{CHUNK, Connections, Endpoints, Progress, Scope, gone};
use super::{Observation, Placed, enter, tcp_options};

/// Transfers at once; more wait for their turn, and their waiting counts.
pub(super) const MOST_AT_ONCE: usize = 512;

/// Received bytes discarded at once.
const DISCARD: usize = 4 << 20;

const LISTENER: u32 = 0;

/// One transfer under way.
struct Active {
    sender: OwnedFd,
    slot: u32,
    start: Time,
    size: u64,
    unwritten: u64,
    received: u64,
    connected: bool,
    /// The other end and its slot, once accepted.
    receiver: Option<(OwnedFd, u32)>,
}

/// Slot 0 listens; each transfer takes the next two slots, so that an event for one that has
/// just ended is not taken for another's.
pub(super) struct Transfers {
    flow: FlowId,
    netns: Arc<OwnedFd>,
    from: IpAddr,
    to: SocketAddr,
    tcp: Tcp,
    /// The paths beside the first of each, if they have several.
    others: Option<Others>,
    dscp: u8,
    ideal: Option<Ideal>,
    listener: OwnedFd,
    sizes: Sizes,
    arrivals: Arrivals,
    size_stream: RandomStream,
    time_stream: RandomStream,
    /// Transfers still to be started.
    left: Option<u64>,
    /// When the next one starts; `None`: after another's end, or never.
    next: Option<Time>,
    /// By the sender's port.
    active: BTreeMap<u16, Active>,
    /// Ports by slot, even and odd.
    slots: BTreeMap<u32, u16>,
    last_slot: u32,
    /// Segments sent again by transfers that have ended.
    retransmits: u64,
}

impl Transfers {
    pub(super) fn open(placed: &Placed, scope: &mut Scope<'_>) -> sys::Result<Self> {
        let Flow { traffic, dscp, name, .. } = &placed.flow;
        let Traffic::Transfers { sizes, arrivals, count, tcp } = traffic else {
            unreachable!("the driver opens flows of transfers with this")
        };
        let others = Others::of(placed);
        if others.is_some() {
            scope.paths.prepare(placed, scope.queue)?;
        }
        enter(&placed.netns[1])?;
        let options = tcp_options(tcp, false, *dscp);
        let (listener, to) = super::listen(placed, options)?;
        scope.add(&listener, LISTENER, Interest::Read)?;
        let mut time_stream = scope.random(name, "arrivals");
        let first = scope.now() + arrivals.first(&mut time_stream);
        Ok(Self {
            flow: placed.id,
            netns: Arc::clone(&placed.netns[0]),
            from: placed.addresses[0],
            to,
            tcp: tcp.clone(),
            others,
            dscp: *dscp,
            ideal: placed.ideal,
            listener,
            sizes: sizes.clone(),
            arrivals: arrivals.clone(),
            size_stream: scope.random(name, "sizes"),
            time_stream,
            left: *count,
            next: Some(first),
            active: BTreeMap::new(),
            slots: BTreeMap::new(),
            last_slot: LISTENER,
            retransmits: 0,
        })
    }

    /// Starts what is due, as far as there is room.
    fn start_due(&mut self, scope: &mut Scope<'_>) -> sys::Result<()> {
        while let Some(start) = self.next.filter(|next| *next <= scope.now()) {
            if self.active.len() == MOST_AT_ONCE {
                break;
            }
            self.start(scope, start)?;
            self.left = self.left.map(|left| left - 1);
            let more = !self.arrivals.is_closed_loop() && self.left != Some(0);
            self.next = more.then(|| start + self.arrivals.gap(&mut self.time_stream));
        }
        Ok(())
    }

    fn start(&mut self, scope: &mut Scope<'_>, start: Time) -> sys::Result<()> {
        enter(&self.netns)?;
        let options = tcp_options(&self.tcp, false, self.dscp);
        let sender = socket::connect(self.from, self.to, options)?;
        let port = socket::local_port(sender.as_fd())?;
        if let Some(others) = &self.others {
            scope.paths.expect(others, sender.as_fd(), self.to.port())?;
        }
        let slot = self.new_slot(port);
        scope.add(&sender, slot, Interest::Write)?;
        let size = self.sizes.draw(&mut self.size_stream).max(1);
        let active = Active {
            sender,
            slot,
            start,
            size,
            unwritten: size,
            received: 0,
            connected: false,
            receiver: None,
        };
        self.active.insert(port, active);
        scope.tally.transfers_started += 1;
        Ok(())
    }

    /// The next slot that is free; tokens have 16 bits for it.
    fn new_slot(&mut self, port: u16) -> u32 {
        loop {
            self.last_slot = self.last_slot % u32::from(u16::MAX) + 1;
            if !self.slots.contains_key(&self.last_slot) {
                self.slots.insert(self.last_slot, port);
                return self.last_slot;
            }
        }
    }

    fn accept(&mut self, scope: &Scope<'_>) -> sys::Result<()> {
        while let Some(socket) = socket::accept(self.listener.as_fd())? {
            let port = socket::peer_port(socket.as_fd())?;
            if !self.active.contains_key(&port) {
                continue;
            }
            let slot = self.new_slot(port);
            scope.add(&socket, slot, Interest::Read)?;
            if let Some(active) = self.active.get_mut(&port) {
                active.receiver = Some((socket, slot));
            }
        }
        Ok(())
    }

    /// Everything was delivered: both ends go at once, so that their ports are free again.
    fn complete(&mut self, scope: &mut Scope<'_>, port: u16) {
        let Some(active) = self.active.remove(&port) else { return };
        if let Some(others) = &self.others {
            scope.paths.forget(others, port);
        }
        let now = scope.now();
        let retransmits = TcpInfo::read(active.sender.as_fd()).ok();
        let retransmits = retransmits.map(|info| u64::from(info.retransmits));
        self.retransmits += retransmits.unwrap_or(0);
        let transfer = self.transfer(&active, Some(now.since(active.start)), retransmits);
        scope.tally.transfer(&transfer);
        (scope.sink)(Observation::Transfer(transfer));
        self.drop_ends(active);
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
        let ideal = self.ideal.map(|ideal| ideal.completion(size));
        Transfer { flow: self.flow, start: active.start, size, completion, ideal, retransmits }
    }

    fn drop_ends(&mut self, active: Active) {
        self.slots.remove(&active.slot);
        let receiver = active.receiver.map(|(socket, slot)| {
            self.slots.remove(&slot);
            socket
        });
        for socket in [Some(active.sender), receiver].into_iter().flatten() {
            // Where this fails the connection is gone already.
            let _ = socket::reset_on_close(socket.as_fd());
        }
    }

    fn progress(&self, scope: &Scope<'_>) -> Progress {
        if self.left == Some(0) && self.active.is_empty() {
            Progress::Done(scope.now())
        } else {
            Progress::Going
        }
    }
}

impl Active {
    fn write(&mut self, scope: &mut Scope<'_>) -> sys::Result<()> {
        let mut budget = CHUNK;
        while self.unwritten > 0 && budget > 0 {
            let length = usize::try_from(self.unwritten).unwrap_or(usize::MAX).min(budget);
            let data = &scope.payload[..length];
            let Some(sent) = socket::write(self.sender.as_fd(), data)? else { return Ok(()) };
            scope.tally.sent += sent as u64;
            self.unwritten -= sent as u64;
            budget -= sent;
            if self.unwritten == 0 {
                socket::finish_writing(self.sender.as_fd())?;
                scope.modify(&self.sender, self.slot, Interest::Nothing)?;
            }
        }
        Ok(())
    }
}

impl Endpoints for Transfers {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        if slot == LISTENER {
            self.accept(scope)?;
            return Ok(Progress::Going);
        }
        // An event that was on its way when its transfer ended.
        let Some(port) = self.slots.get(&slot).copied() else { return Ok(Progress::Going) };
        let Some(active) = self.active.get_mut(&port) else { return Ok(Progress::Going) };
        if slot == active.slot {
            if readiness.failed {
                socket::pending_error(active.sender.as_fd())?;
                return Err(gone());
            }
            active.connected |= readiness.writable;
            if active.connected {
                active.write(scope)?;
            }
            return Ok(Progress::Going);
        }
        let Some((receiver, _)) = &active.receiver else { return Ok(Progress::Going) };
        let taken = if self.others.is_some() {
            socket::read(receiver.as_fd(), scope.scratch)?
        } else {
            socket::discard(receiver.as_fd(), DISCARD)?
        };
        match taken {
            None => {}
            Some(0) => {
                if let Err(damage) = Content::check_end(active.received, active.size) {
                    return Ok(Progress::Damaged(damage));
                }
                self.complete(scope, port);
                self.start_due(scope)?;
                return Ok(self.progress(scope));
            }
            Some(count) => {
                active.received += count as u64;
                scope.tally.received += count as u64;
            }
        }
        Ok(Progress::Going)
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        self.start_due(scope)?;
        Ok(self.progress(scope))
    }

    fn deadline(&self) -> Option<Time> {
        self.next.filter(|_| self.active.len() < MOST_AT_ONCE)
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        let mut connections = Connections::default();
        connections.add_past(self.retransmits);
        for active in self.active.values() {
            connections.add(active.sender.as_fd());
        }
        connections.report(tally);
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        for active in std::mem::take(&mut self.active).into_values() {
            let info = TcpInfo::read(active.sender.as_fd());
            self.retransmits += info.map_or(0, |info| u64::from(info.retransmits));
            if let Some((receiver, _)) = &active.receiver {
                while let Ok(Some(count @ 1..)) = socket::discard(receiver.as_fd(), DISCARD) {
                    scope.tally.received += count as u64;
                }
            }
            let unfinished = self.transfer(&active, None, None);
            (scope.sink)(Observation::Transfer(unfinished));
            self.drop_ends(active);
        }
    }
}
