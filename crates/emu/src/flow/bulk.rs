//! Bulk TCP: as fast as it goes or as an application offers it, over one or several connections,
//! or over one with several paths, whose payload is checked.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::Time;
use lab::plan::{Flow, Pausing, Traffic};
use outcome::Tally;
use sys::socket::{self, Interest, Readiness};

use super::Placed;
use super::content::{Content, Damage};
use super::meeting::{Awaited, DOOR, Dial, Meeting, Receipt};
use super::mptcp::{Others, SubflowMeter};
use super::offer::Offer;
use super::traffic::{CHUNK, Connections, Endpoints, Progress, Scope, gone};

/// Connections of one flow at most.
pub(super) const MAX_STREAMS: u32 = 1024;

/// Messages written in one turn at most: a system call each.
const MESSAGES: u32 = 256;

/// Payload that is made, or compared, at once.
const PIECE: usize = 64 << 10;

/// Received bytes discarded at once.
const DISCARD: usize = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    /// The receiver's machine is not as far; another attempt at this time.
    Refused(Time),
    Sending,
    /// It has written all that the application offered so far.
    Idle,
    /// All is written, the end is announced.
    Finished,
    /// A receiver on another machine has said that it has seen it.
    Acknowledged,
}

struct Sender {
    /// `None` while there is none after a refusal.
    socket: Option<OwnedFd>,
    state: State,
    /// Bytes of the message that is being written still to be written.
    message_left: u64,
    /// What a receiver on another machine will say at the end.
    receipt: Awaited,
}

struct Receiver {
    /// `None` once the sender has gone.
    socket: Option<OwnedFd>,
    received: u64,
    /// It has seen the end.
    ended: bool,
}

/// Slot 0 listens, slots 1 to `streams` send, the next `streams` receive. An end on another
/// machine has neither connections nor slots here.
pub(super) struct Bulk {
    listener: Option<OwnedFd>,
    streams: usize,
    dial: Option<Dial>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    /// Payload not yet written, shared by all connections, and what was.
    remaining: Option<u64>,
    written: u64,
    /// Length of a message; `None`: one endless message.
    message: Option<u64>,
    /// Connections whose receiver has seen the end.
    delivered: usize,
    /// What receivers on another machine have said: the latest end, and all bytes.
    receipts: Receipt,
    /// The rate at which there is something to write; `None`: there always is.
    offer: Option<Offer>,
    /// When the receivers do not read.
    pausing: Pausing,
    multipath: Option<Several>,
}

/// What there is of a flow over several paths, which is one connection.
struct Several {
    content: Content,
    meter: SubflowMeter,
    sent: u64,
    received: u64,
}

impl Bulk {
    pub(super) fn open(
        placed: &Placed,
        meeting: Meeting,
        scope: &mut Scope<'_>,
    ) -> sys::Result<Self> {
        let Flow {
            traffic: Traffic::Bulk { size, rate, pause, tcp, streams, message }, name, ..
        } = &placed.flow
        else {
            unreachable!("the driver opens bulk flows with this")
        };
        let others = Others::of(placed);
        if others.is_some() {
            scope.paths.prepare(placed, scope.queue)?;
        }
        let dial = Dial::new(placed, meeting.to, tcp, message.is_some());
        let mut senders = Vec::new();
        for slot in 1..=*streams {
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
                receipt: Awaited::default(),
            });
        }
        let now = scope.now();
        if meeting.door.is_some() {
            scope.tally.begin_waiting(now);
        }
        let multipath = others.map(|_| Several {
            content: Content::new(scope.random(name, "content")),
            meter: SubflowMeter::new(placed),
            sent: 0,
            received: 0,
        });
        Ok(Self {
            listener: meeting.door,
            streams: *streams as usize,
            dial,
            senders,
            receivers: Vec::new(),
            remaining: size.map(base::Bytes::count),
            written: 0,
            message: message.map(base::Bytes::count),
            delivered: 0,
            receipts: Receipt { at: now, received: 0 },
            offer: rate.map(|rate| Offer::new(rate, now)),
            pausing: Pausing::begin(*pause, now),
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

    /// What receivers wait for.
    const fn interest(&self) -> Interest {
        if self.pausing.is_paused() { Interest::Nothing } else { Interest::Read }
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
        if sender.state == State::Finished && dial.is_far() {
            // Read first: what was said before a connection failed holds.
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
            let error = socket::pending_error(socket.as_fd()).err().unwrap_or_else(gone);
            if sender.state != State::Connecting {
                return Err(error);
            }
            sender.state = State::Refused(dial.again(error, scope.now())?);
            sender.socket = None;
            return Ok(Progress::Going);
        }
        dial.connected();
        self.send(scope, index)?;
        Ok(Progress::Going)
    }

    /// A receiver on another machine has seen the end.
    fn take(&mut self, receipt: Receipt) -> Progress {
        self.delivered += 1;
        self.receipts.at = self.receipts.at.max(receipt.at);
        self.receipts.received += receipt.received;
        if self.delivered < self.streams {
            return Progress::Going;
        }
        match Content::check_end(self.receipts.received, self.written) {
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
        let (mut budget, mut messages) = (CHUNK, MESSAGES);
        while sender.state == State::Sending && budget > 0 && messages > 0 {
            if sender.message_left == 0 {
                let next = self.message.unwrap_or(u64::MAX);
                sender.message_left = self.remaining.map_or(next, |left| next.min(left));
            }
            if sender.message_left == 0 {
                socket::finish_writing(socket.as_fd())?;
                let is_far = self.dial.as_ref().is_some_and(Dial::is_far);
                let awaited = if is_far { Interest::Read } else { Interest::Nothing };
                scope.modify(socket, slot, awaited)?;
                sender.state = State::Finished;
                break;
            }
            // An endless message shares what remains with the other connections.
            let most = self.remaining.map_or(sender.message_left, |r| r.min(sender.message_left));
            if most == 0 {
                sender.message_left = 0;
                continue;
            }
            let room = self.offer.as_ref().map_or(most, |offer| offer.room(scope.now(), most));
            if room == 0 {
                scope.modify(socket, slot, Interest::Nothing)?;
                sender.state = State::Idle;
                break;
            }
            let length = budget.min(usize::try_from(room).unwrap_or(CHUNK));
            let data = match &self.multipath {
                Some(several) => {
                    let data = &mut scope.scratch[..length.min(PIECE)];
                    several.content.fill(several.sent, data);
                    &*data
                }
                None => &scope.payload[..length],
            };
            let length = data.len();
            // Each message is to leave in segments of its own.
            let ends = self.message.is_some() && length as u64 == sender.message_left;
            let write = if ends { socket::write_record } else { socket::write };
            let Some(sent) = write(socket.as_fd(), data)? else { break };
            messages -= u32::from(ends);
            let taken = sent as u64;
            scope.tally.sent += taken;
            self.written += taken;
            if let Some(offer) = &mut self.offer {
                offer.wrote(taken);
            }
            if let Some(several) = &mut self.multipath {
                several.sent += taken;
            }
            sender.message_left -= taken;
            if let Some(left) = &mut self.remaining {
                *left -= taken;
            }
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
            // The sender, on another machine, has its receipt and is gone.
            receiver.socket = None;
            return Ok(Progress::Going);
        }
        if self.pausing.is_paused() {
            if failed {
                // It would be told again and again.
                socket::pending_error(socket.as_fd())?;
                return Err(gone());
            }
            return Ok(Progress::Going);
        }
        let taken = match &mut self.multipath {
            None => socket::discard(socket.as_fd(), DISCARD)?,
            Some(several) => match several.take(scope, socket.as_fd())? {
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
                self.delivered += 1;
                if self.delivered == self.streams {
                    return Ok(Progress::Done(now));
                }
            }
            Some(count) => {
                receiver.received += count as u64;
                scope.tally.received += count as u64;
                scope.tally.heard(now);
            }
        }
        Ok(Progress::Going)
    }
}

impl Several {
    /// Takes what has arrived and checks it; the end only when all has come.
    fn take(
        &mut self,
        scope: &mut Scope<'_>,
        socket: BorrowedFd<'_>,
    ) -> sys::Result<Result<Option<usize>, Damage>> {
        let (data, comparison) = scope.scratch.split_at_mut(CHUNK - PIECE);
        let taken = socket::read(socket, data)?;
        let checked = match taken {
            None => Ok(()),
            Some(0) => Content::check_end(self.received, self.sent),
            Some(count) => self.content.check(self.received, &data[..count], comparison),
        };
        self.received += taken.unwrap_or(0) as u64;
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
        if slot == DOOR {
            self.accept(scope)?;
            return Ok(Progress::Going);
        }
        match (slot as usize - 1).checked_sub(self.streams) {
            None => self.on_sender(scope, slot as usize - 1, readiness),
            Some(index) => self.receive(scope, index, readiness.failed),
        }
    }

    /// The application has something to write again, or begins or ends its pause; or a connection
    /// was refused.
    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        let now = scope.now();
        if self.pausing.advance(now) {
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

    fn deadline(&self) -> Option<Time> {
        let idle = self.senders.iter().any(|sender| sender.state == State::Idle);
        let offer = self.offer.as_ref().filter(|_| idle);
        let next = offer.map(|offer| offer.next(self.remaining.unwrap_or(u64::MAX)));
        let again = self.senders.iter().filter_map(|sender| match sender.state {
            State::Refused(again) => Some(again),
            _ => None,
        });
        [next, self.pausing.deadline()].into_iter().flatten().chain(again).min()
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        let mut sockets = self.senders.iter().filter_map(|sender| sender.socket.as_ref());
        if let Some(several) = &mut self.multipath {
            let receiver = self.receivers.first().and_then(|receiver| receiver.socket.as_ref());
            if let Some(sender) = sockets.next() {
                several.meter.observe(tally, sender.as_fd(), receiver.map(AsFd::as_fd));
            }
            return;
        }
        let mut connections = Connections::default();
        sockets.for_each(|socket| connections.add(socket.as_fd()));
        connections.report(tally);
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        let receivers = || self.receivers.iter().filter_map(|receiver| receiver.socket.as_ref());
        for receiver in receivers().filter(|_| !self.pausing.is_paused()) {
            while let Ok(Some(count @ 1..)) = socket::discard(receiver.as_fd(), DISCARD) {
                scope.tally.received += count as u64;
            }
        }
        let senders = self.senders.iter().filter_map(|sender| sender.socket.as_ref());
        // Undelivered data would otherwise be sent until long after the flow's end; and a receiver
        // on another machine waits for its sender to go. Where this fails the connection is gone
        // already.
        let is_open = self.delivered < self.streams;
        let is_far = self.dial.as_ref().is_some_and(Dial::is_far);
        let senders = senders.filter(|_| is_open || is_far);
        for socket in senders.chain(receivers().filter(|_| is_open)) {
            let _ = socket::reset_on_close(socket.as_fd());
        }
    }
}
