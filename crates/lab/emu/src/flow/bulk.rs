//! Bulk TCP: as fast as possible or at an offered rate, over one or several connections, or over
//! one multipath connection with verified content.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::{Bytes, Time};
use lab::plan::Tcp;
use run::FlowCounters;
use sys::socket::{self, Interest, Readiness};
use workload::BulkFlow;

use super::Placed;
use super::content::{Content, Damage};
use super::mptcp::{AdditionalPaths, SubflowMeter};
use super::rendezvous::{Dial, PartialReceipt, RECEIVER_SLOT, Receipt, Rendezvous};
use super::traffic::{CHUNK_BYTES, Connections, Endpoints, Progress, Scope, closed_error};

/// Maximum number of connections of a flow.
pub(super) const MAX_STREAMS: u32 = 1024;

/// Maximum number of messages written per turn; each costs a system call.
const MAX_MESSAGES_PER_TURN: u32 = 256;

/// Bytes of payload that are generated or compared at a time.
const VERIFIED_CHUNK_BYTES: usize = 64 << 10;

/// Received bytes discarded per call.
const DISCARD_BYTES: usize = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    /// The receiver's agent has not opened the port yet; next attempt at this time.
    Refused(Time),
    Sending,
    /// It has written everything that the application has offered so far.
    Idle,
    /// Everything is written, and the sending direction is closed.
    Finished,
    /// A receiver on another agent has acknowledged the end.
    Acknowledged,
}

struct Sender {
    /// `None` between a refused connection and the next attempt.
    socket: Option<OwnedFd>,
    state: State,
    /// Remaining bytes of the current message.
    message_left: u64,
    /// The receipt of a receiver on another agent.
    receipt: PartialReceipt,
}

struct Receiver {
    /// `None` after the sender has closed the connection.
    socket: Option<OwnedFd>,
    received: u64,
    /// It has received the end of the stream.
    ended: bool,
}

/// Slot 0 listens, slots 1 to `streams` send, the next `streams` receive. An end on another agent
/// has no slots here.
pub(super) struct Bulk {
    listener: Option<OwnedFd>,
    streams: usize,
    dial: Option<Dial>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    flow: BulkFlow,
    /// Length of a message; `None`: one message without end.
    message: Option<u64>,
    /// Sum of the receipts from another agent, with the latest end time.
    receipts: Receipt,
    multipath: Option<MultipathState>,
}

/// Verified content and subflows of a multipath flow, which has one connection.
struct MultipathState {
    content: Content,
    meter: SubflowMeter,
}

impl Bulk {
    pub(super) fn open(
        placed: &Placed,
        rendezvous: Rendezvous,
        flow: BulkFlow,
        (tcp, streams, message): (&Tcp, u32, Option<Bytes>),
        scope: &mut Scope<'_>,
    ) -> sys::Result<Self> {
        let others = AdditionalPaths::of(placed);
        if others.is_some() {
            scope.paths.prepare(placed, scope.queue)?;
        }
        let dial = Dial::new(placed, rendezvous.to, tcp, message.is_some());
        let mut senders = Vec::new();
        for slot in 1..=streams {
            let Some(dial) = &dial else { break };
            let socket = dial.connect()?;
            scope.add(&socket, slot, Interest::Write)?;
            if let Some(others) = &others {
                scope.paths.expect(others, socket.as_fd(), dial.port())?;
            }
            senders.push(Sender {
                socket: Some(socket),
                state: State::Connecting,
                message_left: 0,
                receipt: PartialReceipt::default(),
            });
        }
        let now = scope.now();
        if rendezvous.receiver.is_some() {
            scope.counters.start_gap_measurement(now);
        }
        let multipath = others.map(|_| MultipathState {
            content: Content::new(scope.random(&placed.flow.name, "content")),
            meter: SubflowMeter::new(placed),
        });
        Ok(Self {
            listener: rendezvous.receiver,
            streams: streams as usize,
            dial,
            senders,
            receivers: Vec::new(),
            flow,
            message: message.map(Bytes::count),
            receipts: Receipt { at: now, received: 0 },
            multipath,
        })
    }

    fn accept(&mut self, scope: &Scope<'_>) -> sys::Result<()> {
        let Some(listener) = &self.listener else { return Ok(()) };
        while let Some(socket) = socket::accept(listener.as_fd())? {
            let slot = 1 + self.streams + self.receivers.len();
            scope.add(&socket, slot as u32, self.interest())?;
            let socket = Some(socket);
            self.receivers.push(Receiver { socket, received: 0, ended: false });
        }
        Ok(())
    }

    /// Events that a receiver waits for.
    const fn interest(&self) -> Interest {
        if self.flow.is_paused() { Interest::Nothing } else { Interest::Read }
    }

    fn on_sender(
        &mut self,
        scope: &mut Scope<'_>,
        index: usize,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        let (sender, dial) = (&mut self.senders[index], &mut self.dial);
        let (Some(socket), Some(dial)) = (&sender.socket, dial) else {
            return Ok(Progress::Going);
        };
        if sender.state == State::Finished && dial.is_remote() {
            // Read first: a receipt that arrived before the connection failed is valid.
            let Some(receipt) = sender.receipt.read(socket)? else { return Ok(Progress::Going) };
            scope.modify(socket, index as u32 + 1, Interest::Nothing)?;
            sender.state = State::Acknowledged;
            return Ok(self.take(receipt));
        }
        if sender.state == State::Acknowledged {
            sender.socket = None;
            return Ok(Progress::Going);
        }
        if readiness.failed {
            let error = socket::pending_error(socket.as_fd()).err().unwrap_or_else(closed_error);
            if sender.state != State::Connecting {
                return Err(error);
            }
            sender.state = State::Refused(dial.next_attempt(error, scope.now())?);
            sender.socket = None;
            return Ok(Progress::Going);
        }
        dial.connected();
        self.send(scope, index)?;
        Ok(Progress::Going)
    }

    /// Handles the receipt of a receiver on another agent.
    fn take(&mut self, receipt: Receipt) -> Progress {
        self.receipts.at = self.receipts.at.max(receipt.at);
        self.receipts.received += receipt.received;
        if !self.flow.on_end() {
            return Progress::Going;
        }
        match Content::check_end(self.receipts.received, self.flow.written()) {
            Ok(()) => Progress::Done(self.receipts.at),
            Err(damage) => Progress::Damaged(damage),
        }
    }

    fn send(&mut self, scope: &mut Scope<'_>, index: usize) -> sys::Result<()> {
        let slot = index as u32 + 1;
        let sender = &mut self.senders[index];
        let Some(socket) = &sender.socket else { return Ok(()) };
        if matches!(sender.state, State::Connecting | State::Idle) {
            sender.state = State::Sending;
        }
        let (mut budget, mut messages) = (CHUNK_BYTES, MAX_MESSAGES_PER_TURN);
        while sender.state == State::Sending && budget > 0 && messages > 0 {
            if sender.message_left == 0 {
                sender.message_left = self.message.unwrap_or(u64::MAX).min(self.flow.left());
            }
            if sender.message_left == 0 {
                socket::finish_writing(socket.as_fd())?;
                let is_remote = self.dial.as_ref().is_some_and(Dial::is_remote);
                let awaited = if is_remote { Interest::Read } else { Interest::Nothing };
                scope.modify(socket, slot, awaited)?;
                sender.state = State::Finished;
                break;
            }
            // A message without end shares the remaining payload with the other connections.
            sender.message_left = sender.message_left.min(self.flow.left());
            if sender.message_left == 0 {
                continue;
            }
            let room = self.flow.writable(scope.now()).min(sender.message_left);
            if room == 0 {
                scope.modify(socket, slot, Interest::Nothing)?;
                sender.state = State::Idle;
                break;
            }
            let length = budget.min(usize::try_from(room).unwrap_or(CHUNK_BYTES));
            let data = match &self.multipath {
                Some(multipath) => {
                    let data = &mut scope.scratch[..length.min(VERIFIED_CHUNK_BYTES)];
                    multipath.content.fill(self.flow.written(), data);
                    &*data
                }
                None => &scope.payload[..length],
            };
            let length = data.len();
            // Each message is sent in its own segments.
            let ends = self.message.is_some() && length as u64 == sender.message_left;
            let write = if ends { socket::write_record } else { socket::write };
            let Some(sent) = write(socket.as_fd(), data)? else { break };
            messages -= u32::from(ends);
            let taken = sent as u64;
            scope.counters.sent += taken;
            self.flow.on_written(taken);
            sender.message_left -= taken;
            budget -= sent;
            if sent < length {
                break;
            }
        }
        Ok(())
    }

    fn receive(
        &mut self,
        scope: &mut Scope<'_>,
        index: usize,
        failed: bool,
    ) -> sys::Result<Progress> {
        let Some(receiver) = self.receivers.get_mut(index) else { return Ok(Progress::Going) };
        let Some(socket) = &receiver.socket else { return Ok(Progress::Going) };
        if receiver.ended {
            // The sender, on another agent, has received the receipt and closed the connection.
            receiver.socket = None;
            return Ok(Progress::Going);
        }
        if self.flow.is_paused() {
            if failed {
                // Without an error, the event queue would report the closed connection repeatedly.
                socket::pending_error(socket.as_fd())?;
                return Err(closed_error());
            }
            return Ok(Progress::Going);
        }
        let taken = match &self.multipath {
            None => socket::discard(socket.as_fd(), DISCARD_BYTES)?,
            Some(multipath) => match multipath.take(&self.flow, scope, socket.as_fd())? {
                Ok(taken) => taken,
                Err(damage) => return Ok(Progress::Damaged(damage)),
            },
        };
        let now = scope.now();
        match taken {
            None => {}
            Some(0) => {
                let slot = 1 + self.streams + index;
                scope.modify(socket, slot as u32, Interest::Nothing)?;
                receiver.ended = true;
                if self.dial.is_none() {
                    let receipt = Receipt { at: now, received: receiver.received };
                    receipt.send(socket.as_fd())?;
                }
                if self.flow.on_end() {
                    return Ok(Progress::Done(now));
                }
            }
            Some(count) => {
                receiver.received += count as u64;
                self.flow.on_received(count as u64);
                scope.counters.received += count as u64;
                scope.counters.on_bytes_received(now);
            }
        }
        Ok(Progress::Going)
    }
}

impl MultipathState {
    /// Reads received payload and verifies it; at the end of the stream also its length.
    fn take(
        &self,
        flow: &BulkFlow,
        scope: &mut Scope<'_>,
        socket: BorrowedFd<'_>,
    ) -> sys::Result<Result<Option<usize>, Damage>> {
        let (data, comparison) = scope.scratch.split_at_mut(CHUNK_BYTES - VERIFIED_CHUNK_BYTES);
        let taken = socket::read(socket, data)?;
        let checked = match taken {
            None => Ok(()),
            Some(0) => Content::check_end(flow.received(), flow.written()),
            Some(count) => self.content.check(flow.received(), &data[..count], comparison),
        };
        Ok(checked.map(|()| taken))
    }
}

impl Endpoints for Bulk {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        readiness: Readiness,
    ) -> sys::Result<Progress> {
        if slot == RECEIVER_SLOT {
            self.accept(scope)?;
            return Ok(Progress::Going);
        }
        match (slot as usize - 1).checked_sub(self.streams) {
            None => self.on_sender(scope, slot as usize - 1, readiness),
            Some(index) => self.receive(scope, index, readiness.failed),
        }
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        let now = scope.now();
        if self.flow.on_wake(now) {
            let slots = 1 + self.streams as u32..;
            for (slot, receiver) in slots.zip(&self.receivers) {
                if let (Some(socket), false) = (&receiver.socket, receiver.ended) {
                    scope.modify(socket, slot, self.interest())?;
                }
            }
        }
        for index in 0..self.senders.len() {
            let (slot, sender) = (index as u32 + 1, &mut self.senders[index]);
            match (sender.state, &sender.socket, &self.dial) {
                (State::Idle, Some(socket), _) => {
                    scope.modify(socket, slot, Interest::Write)?;
                    self.send(scope, index)?;
                }
                (State::Refused(again), _, Some(dial)) if again <= now => {
                    let socket = dial.connect()?;
                    scope.add(&socket, slot, Interest::Write)?;
                    (sender.socket, sender.state) = (Some(socket), State::Connecting);
                }
                _ => {}
            }
        }
        Ok(Progress::Going)
    }

    fn next_wake(&self) -> Option<Time> {
        let idle = self.senders.iter().any(|sender| sender.state == State::Idle);
        let again = self.senders.iter().filter_map(|sender| match sender.state {
            State::Refused(again) => Some(again),
            _ => None,
        });
        self.flow.next_wake(idle).into_iter().chain(again).min()
    }

    fn observe(&mut self, counters: &mut FlowCounters) {
        let mut sockets = self.senders.iter().filter_map(|sender| sender.socket.as_ref());
        if let Some(multipath) = &mut self.multipath {
            let receiver = self.receivers.first().and_then(|receiver| receiver.socket.as_ref());
            if let Some(sender) = sockets.next() {
                multipath.meter.observe(counters, sender.as_fd(), receiver.map(AsFd::as_fd));
            }
            return;
        }
        let mut connections = Connections::default();
        sockets.for_each(|socket| connections.add(socket.as_fd()));
        connections.report(counters);
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        let receivers = || self.receivers.iter().filter_map(|receiver| receiver.socket.as_ref());
        for receiver in receivers().filter(|_| !self.flow.is_paused()) {
            while let Ok(Some(count @ 1..)) = socket::discard(receiver.as_fd(), DISCARD_BYTES) {
                scope.counters.received += count as u64;
            }
        }
        let senders = self.senders.iter().filter_map(|sender| sender.socket.as_ref());
        // Otherwise the kernel would retransmit undelivered data until long after the flow's end,
        // and a receiver on another agent would wait for its sender to close. If this fails, the
        // connection no longer exists.
        let is_open = !self.flow.has_ended();
        let is_remote = self.dial.as_ref().is_some_and(Dial::is_remote);
        let senders = senders.filter(|_| is_open || is_remote);
        for socket in senders.chain(receivers().filter(|_| is_open)) {
            let _ = socket::reset_on_close(socket.as_fd());
        }
    }
}
