//! Transfers: a TCP connection for each, with sizes and starts that are drawn.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};

use base::{Bytes, FlowId, RandomStream, Span, Time};
use lab::plan::{Flow, Traffic};
use outcome::{Ideal, Tally};
use record::Transfer;
use sys::socket::{self, Interest, Readiness, TcpInfo};
use transport::workload::{Arrivals, Sizes};

use super::content::Content;
use super::meeting::{Awaited, DOOR, Dial, Meeting, Receipt};
use super::mptcp::Others;
use super::traffic::{CHUNK, Connections, Endpoints, Progress, Scope, gone};
use super::{Observation, Placed};

/// Transfers at once; more wait for their turn, and their waiting counts.
pub(super) const MOST_AT_ONCE: usize = 512;

/// Connections with a receipt of which the sender, on another machine, has not let go.
const MOST_ANSWERED: usize = 1024;

/// Received bytes discarded at once.
const DISCARD: usize = 4 << 20;

/// One transfer under way, at its sender.
struct Active {
    /// `None` while there is none after a refusal; the next attempt is then.
    sender: Option<OwnedFd>,
    again: Option<Time>,
    /// The sender's port.
    port: u16,
    start: Time,
    size: u64,
    unwritten: u64,
    connected: bool,
    /// What a receiver on another machine will say at the end.
    receipt: Awaited,
}

/// The same at its receiver.
struct Incoming {
    receiver: OwnedFd,
    /// The sender's port.
    port: u16,
    received: u64,
    answered: bool,
}

/// Slot 0 listens; each end of a transfer takes the next slot, so that an event for one that has
/// just ended is not taken for another's.
pub(super) struct Transfers {
    flow: FlowId,
    listener: Option<OwnedFd>,
    /// The paths beside the first of each, if they have several.
    others: Option<Others>,
    ideal: Option<Ideal>,
    /// `None`: the sender is on another machine.
    dial: Option<Dial>,
    sizes: Sizes,
    arrivals: Arrivals,
    size_stream: RandomStream,
    time_stream: RandomStream,
    /// Transfers still to be started, and still to arrive.
    left: Option<u64>,
    coming: Option<u64>,
    /// When the next one starts; `None`: after another's end, or never.
    next: Option<Time>,
    /// By slot.
    active: BTreeMap<u32, Active>,
    incoming: BTreeMap<u32, Incoming>,
    /// Slots of both ends by the sender's port; the second is there once accepted.
    ports: BTreeMap<u16, (u32, Option<u32>)>,
    /// Slots of those in `incoming` that have their receipt.
    answered: VecDeque<u32>,
    last_slot: u32,
    /// When the last one ended.
    last_end: Time,
    /// Segments sent again by transfers that have ended.
    retransmits: u64,
}

impl Transfers {
    pub(super) fn open(
        placed: &Placed,
        meeting: Meeting,
        scope: &mut Scope<'_>,
    ) -> sys::Result<Self> {
        let Flow { traffic, name, .. } = &placed.flow;
        let Traffic::Transfers { sizes, arrivals, count, tcp } = traffic else {
            unreachable!("the driver opens flows of transfers with this")
        };
        let others = Others::of(placed);
        if others.is_some() {
            scope.paths.prepare(placed, scope.queue)?;
        }
        let dial = Dial::new(placed, meeting.to, tcp, false);
        let mut time_stream = scope.random(name, "arrivals");
        let first = scope.now() + arrivals.first(&mut time_stream);
        Ok(Self {
            flow: placed.id,
            listener: meeting.door,
            others,
            ideal: placed.ideal,
            next: dial.as_ref().map(|_| first),
            left: count.filter(|_| dial.is_some()),
            coming: *count,
            dial,
            sizes: sizes.clone(),
            arrivals: arrivals.clone(),
            size_stream: scope.random(name, "sizes"),
            time_stream,
            active: BTreeMap::new(),
            incoming: BTreeMap::new(),
            ports: BTreeMap::new(),
            answered: VecDeque::new(),
            last_slot: DOOR,
            last_end: scope.now(),
            retransmits: 0,
        })
    }

    /// Starts what is due, as far as there is room, and tries again what was refused.
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
        let Some(dial) = &self.dial else { return Ok(()) };
        let now = scope.now();
        let due = |active: &Active| active.again.is_some_and(|again| again <= now);
        for (slot, active) in self.active.iter_mut().filter(|(_, active)| due(active)) {
            let sender = dial.connect()?;
            scope.add(&sender, *slot, Interest::Write)?;
            (active.sender, active.again) = (Some(sender), None);
        }
        Ok(())
    }

    fn start(&mut self, scope: &mut Scope<'_>, start: Time) -> sys::Result<()> {
        let Some(dial) = &self.dial else { return Ok(()) };
        let sender = dial.connect()?;
        let port = socket::local_port(sender.as_fd())?;
        if let Some(others) = &self.others {
            scope.paths.expect(others, sender.as_fd(), dial.port())?;
        }
        let slot = self.new_slot();
        scope.add(&sender, slot, Interest::Write)?;
        let size = self.sizes.draw(&mut self.size_stream).max(1);
        let active = Active {
            sender: Some(sender),
            again: None,
            port,
            start,
            size,
            unwritten: size,
            connected: false,
            receipt: Awaited::default(),
        };
        self.active.insert(slot, active);
        self.ports.insert(port, (slot, None));
        scope.tally.transfers_started += 1;
        Ok(())
    }

    /// The next slot that is free; tokens have 16 bits for it.
    fn new_slot(&mut self) -> u32 {
        loop {
            self.last_slot = self.last_slot % u32::from(u16::MAX) + 1;
            let slot = self.last_slot;
            if !self.active.contains_key(&slot) && !self.incoming.contains_key(&slot) {
                return slot;
            }
        }
    }

    fn accept(&mut self, scope: &Scope<'_>) -> sys::Result<()> {
        while let Some(listener) = &self.listener
            && let Some(receiver) = socket::accept(listener.as_fd())?
        {
            let port = socket::peer_port(receiver.as_fd())?;
            if self.dial.is_some() && !self.ports.contains_key(&port) {
                continue;
            }
            let slot = self.new_slot();
            scope.add(&receiver, slot, Interest::Read)?;
            if let Some((_, of_receiver)) = self.ports.get_mut(&port) {
                *of_receiver = Some(slot);
            }
            let incoming = Incoming { receiver, port, received: 0, answered: false };
            self.incoming.insert(slot, incoming);
        }
        Ok(())
    }

    fn on_sender(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        let (Some(active), Some(dial)) = (self.active.get_mut(&slot), &mut self.dial) else {
            return Ok(Progress::Going);
        };
        let Some(sender) = &active.sender else { return Ok(Progress::Going) };
        if active.unwritten == 0 && dial.is_far() {
            let Some(receipt) = active.receipt.read(sender)? else { return Ok(Progress::Going) };
            return self.complete(scope, slot, receipt);
        }
        if readiness.failed {
            let error = socket::pending_error(sender.as_fd()).err().unwrap_or_else(gone);
            if active.connected {
                return Err(error);
            }
            (active.sender, active.again) = (None, Some(dial.again(error, scope.now())?));
            return Ok(Progress::Going);
        }
        if readiness.writable && !active.connected {
            active.connected = true;
            dial.connected();
        }
        if active.connected {
            active.write(scope, slot, dial.is_far())?;
        }
        Ok(Progress::Going)
    }

    fn on_receiver(&mut self, scope: &mut Scope<'_>, slot: u32) -> sys::Result<Progress> {
        let Some(incoming) = self.incoming.get_mut(&slot) else { return Ok(Progress::Going) };
        if incoming.answered {
            // The sender, on another machine, has its receipt and is gone.
            self.incoming.remove(&slot);
            self.answered.retain(|answered| *answered != slot);
            return Ok(Progress::Going);
        }
        let taken = if self.others.is_some() {
            socket::read(incoming.receiver.as_fd(), scope.scratch)?
        } else {
            socket::discard(incoming.receiver.as_fd(), DISCARD)?
        };
        match taken {
            None => Ok(Progress::Going),
            Some(0) => {
                let receipt = Receipt { at: scope.now(), received: incoming.received };
                if self.dial.is_none() {
                    receipt.send(incoming.receiver.as_fd())?;
                    incoming.answered = true;
                    return Ok(self.answer(slot, receipt.at));
                }
                let sender = self.ports.get(&incoming.port).copied();
                let Some((sender, _)) = sender else { return Ok(Progress::Going) };
                self.complete(scope, sender, receipt)
            }
            Some(count) => {
                incoming.received += count as u64;
                scope.tally.received += count as u64;
                Ok(Progress::Going)
            }
        }
    }

    /// A sender on another machine has its receipt, and will let go of the connection.
    fn answer(&mut self, slot: u32, at: Time) -> Progress {
        self.answered.push_back(slot);
        if self.answered.len() > MOST_ANSWERED
            && let Some(oldest) = self.answered.pop_front()
        {
            self.incoming.remove(&oldest);
        }
        self.coming = self.coming.map(|coming| coming.saturating_sub(1));
        if self.coming == Some(0) { Progress::Done(at) } else { Progress::Going }
    }

    /// Everything was delivered: both ends go at once, so that their ports are free again.
    fn complete(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        receipt: Receipt,
    ) -> sys::Result<Progress> {
        let Some(active) = self.active.remove(&slot) else { return Ok(Progress::Going) };
        if let Err(damage) = Content::check_end(receipt.received, active.size) {
            return Ok(Progress::Damaged(damage));
        }
        if let Some(others) = &self.others {
            scope.paths.forget(others, active.port);
        }
        let retransmits = active.retransmits();
        self.retransmits += retransmits.unwrap_or(0);
        let transfer = self.transfer(&active, Some(receipt.at.since(active.start)), retransmits);
        scope.tally.transfer(&transfer);
        (scope.sink)(Observation::Transfer(transfer));
        self.drop_ends(active);
        self.last_end = self.last_end.max(receipt.at);
        if self.arrivals.is_closed_loop() && self.left != Some(0) {
            let gap = self.arrivals.gap(&mut self.time_stream);
            self.next = Some((receipt.at + gap).max(scope.now()));
        }
        self.start_due(scope)?;
        Ok(self.progress())
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

    /// Lets go of a transfer's ends, as far as they are here.
    fn drop_ends(&mut self, active: Active) {
        let slot = self.ports.remove(&active.port).and_then(|(_, receiver)| receiver);
        let receiver = slot.and_then(|slot| self.incoming.remove(&slot)).map(|end| end.receiver);
        for socket in [active.sender, receiver].into_iter().flatten() {
            // Where this fails the connection is gone already.
            let _ = socket::reset_on_close(socket.as_fd());
        }
    }

    fn progress(&self) -> Progress {
        if self.dial.is_some() && self.left == Some(0) && self.active.is_empty() {
            Progress::Done(self.last_end)
        } else {
            Progress::Going
        }
    }
}

impl Active {
    fn write(&mut self, scope: &mut Scope<'_>, slot: u32, is_far: bool) -> sys::Result<()> {
        let Some(sender) = &self.sender else { return Ok(()) };
        let mut budget = CHUNK;
        while self.unwritten > 0 && budget > 0 {
            let length = usize::try_from(self.unwritten).unwrap_or(usize::MAX).min(budget);
            let data = &scope.payload[..length];
            let Some(sent) = socket::write(sender.as_fd(), data)? else { return Ok(()) };
            scope.tally.sent += sent as u64;
            self.unwritten -= sent as u64;
            budget -= sent;
            if self.unwritten == 0 {
                socket::finish_writing(sender.as_fd())?;
                let awaited = if is_far { Interest::Read } else { Interest::Nothing };
                scope.modify(sender, slot, awaited)?;
            }
        }
        Ok(())
    }

    fn retransmits(&self) -> Option<u64> {
        let info = TcpInfo::read(self.sender.as_ref()?.as_fd()).ok()?;
        Some(u64::from(info.retransmits))
    }
}

impl Endpoints for Transfers {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        if slot == DOOR {
            self.accept(scope)?;
            return Ok(Progress::Going);
        }
        // It may be neither: an event that was on its way when its transfer ended.
        if self.incoming.contains_key(&slot) {
            return self.on_receiver(scope, slot);
        }
        self.on_sender(scope, slot, readiness)
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        self.start_due(scope)?;
        Ok(self.progress())
    }

    fn deadline(&self) -> Option<Time> {
        let again = self.active.values().filter_map(|active| active.again).min();
        let next = self.next.filter(|_| self.active.len() < MOST_AT_ONCE);
        [again, next].into_iter().flatten().min()
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        let mut connections = Connections::default();
        connections.add_past(self.retransmits);
        for sender in self.active.values().filter_map(|active| active.sender.as_ref()) {
            connections.add(sender.as_fd());
        }
        connections.report(tally);
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        for incoming in self.incoming.values().filter(|incoming| !incoming.answered) {
            while let Ok(Some(count @ 1..)) = socket::discard(incoming.receiver.as_fd(), DISCARD) {
                scope.tally.received += count as u64;
            }
            // As below.
            let _ = socket::reset_on_close(incoming.receiver.as_fd());
        }
        self.incoming.retain(|_, incoming| incoming.answered);
        for active in std::mem::take(&mut self.active).into_values() {
            self.retransmits += active.retransmits().unwrap_or(0);
            (scope.sink)(Observation::Transfer(self.transfer(&active, None, None)));
            self.drop_ends(active);
        }
    }
}
