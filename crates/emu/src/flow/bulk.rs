//! Bulk TCP: as fast as it goes or as an application offers it, over one or several connections,
//! or over one with several paths, whose payload is checked.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base::Time;
use lab::plan::{Flow, Pausing, Traffic};
use outcome::Tally;
use sys::socket::{self, Interest, Readiness, TcpOptions};

use super::content::{Content, Damage};
use super::mptcp::{Others, SubflowMeter};
use super::offer::Offer;
use super::traffic::{CHUNK, Connections, Endpoints, Progress, Scope, gone};
use super::{Placed, enter};

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
    Sending,
    /// It has written all that the application offered so far.
    Idle,
    /// All is written, the end is announced.
    Finished,
}

struct Sender {
    socket: OwnedFd,
    state: State,
    /// Bytes of the message that is being written still to be written.
    message_left: u64,
}

/// Slot 0 listens, slots 1 to `streams` send, the next `streams` receive.
pub(super) struct Bulk {
    listener: OwnedFd,
    senders: Vec<Sender>,
    receivers: Vec<OwnedFd>,
    /// Payload not yet written, shared by all connections.
    remaining: Option<u64>,
    /// Length of a message; `None`: one endless message.
    message: Option<u64>,
    /// Connections whose receiver has seen the end.
    delivered: usize,
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
    pub(super) fn open(placed: &Placed, scope: &mut Scope<'_>) -> sys::Result<Self> {
        let Flow {
            traffic: Traffic::Bulk { size, rate, pause, tcp, streams, message },
            dscp,
            name,
            ..
        } = &placed.flow
        else {
            unreachable!("the driver opens bulk flows with this")
        };
        let options = super::tcp_options(tcp, message.is_some(), *dscp);
        let others = Others::of(placed);
        if others.is_some() {
            scope.paths.prepare(placed, scope.queue)?;
        }
        enter(&placed.netns[1])?;
        let receiving = TcpOptions { congestion: None, ..options };
        let (listener, at) = super::listen(placed, receiving)?;
        scope.add(&listener, 0, Interest::Read)?;
        enter(&placed.netns[0])?;
        let mut senders = Vec::with_capacity(*streams as usize);
        for slot in 1..=*streams {
            let socket = socket::connect(placed.addresses[0], at, options)?;
            scope.add(&socket, slot, Interest::Write)?;
            if let Some(others) = &others {
                scope.paths.expect(others, socket.as_fd(), at.port())?;
            }
            senders.push(Sender { socket, state: State::Connecting, message_left: 0 });
        }
        let remaining = size.map(base::Bytes::count);
        let message = message.map(base::Bytes::count);
        let receivers = Vec::with_capacity(senders.len());
        let now = scope.now();
        scope.tally.begin_waiting(now);
        let multipath = others.map(|_| Several {
            content: Content::new(scope.random(name, "content")),
            meter: SubflowMeter::new(placed),
            sent: 0,
            received: 0,
        });
        let offer = rate.map(|rate| Offer::new(rate, now));
        Ok(Self {
            listener,
            senders,
            receivers,
            remaining,
            message,
            delivered: 0,
            offer,
            pausing: Pausing::begin(*pause, now),
            multipath,
        })
    }

    fn accept(&mut self, scope: &Scope<'_>) -> sys::Result<()> {
        while let Some(socket) = socket::accept(self.listener.as_fd())? {
            let slot = 1 + self.senders.len() + self.receivers.len();
            scope.add(&socket, slot as u32, self.interest())?;
            self.receivers.push(socket);
        }
        Ok(())
    }

    /// What receivers wait for.
    const fn interest(&self) -> Interest {
        if self.pausing.is_paused() { Interest::Nothing } else { Interest::Read }
    }

    fn send(&mut self, scope: &mut Scope<'_>, index: usize, failed: bool) -> sys::Result<()> {
        let sender = &mut self.senders[index];
        if failed {
            socket::pending_error(sender.socket.as_fd())?;
            return Err(gone());
        }
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
                socket::finish_writing(sender.socket.as_fd())?;
                scope.modify(&sender.socket, index as u32 + 1, Interest::Nothing)?;
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
                scope.modify(&sender.socket, index as u32 + 1, Interest::Nothing)?;
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
            let Some(sent) = write(sender.socket.as_fd(), data)? else { break };
            messages -= u32::from(ends);
            scope.tally.sent += sent as u64;
            if let Some(offer) = &mut self.offer {
                offer.wrote(sent as u64);
            }
            if let Some(several) = &mut self.multipath {
                several.sent += sent as u64;
            }
            sender.message_left -= sent as u64;
            if let Some(left) = &mut self.remaining {
                *left -= sent as u64;
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
        let socket = &self.receivers[index];
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
        match taken {
            None => {}
            Some(0) => {
                let slot = 1 + self.senders.len() + index;
                scope.modify(socket, slot as u32, Interest::Nothing)?;
                self.delivered += 1;
                if self.delivered == self.senders.len() {
                    return Ok(Progress::Done(scope.now()));
                }
            }
            Some(count) => {
                scope.tally.received += count as u64;
                let now = scope.now();
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
        let slot = slot as usize;
        if slot == 0 {
            self.accept(scope)?;
        } else if slot <= self.senders.len() {
            self.send(scope, slot - 1, readiness.failed)?;
        } else {
            return self.receive(scope, slot - 1 - self.senders.len(), readiness.failed);
        }
        Ok(Progress::Going)
    }

    /// The application has something to write again, or begins or ends its pause.
    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        if self.pausing.advance(scope.now()) {
            let slots = 1 + self.senders.len() as u32..;
            for (slot, receiver) in slots.zip(&self.receivers) {
                scope.modify(receiver, slot, self.interest())?;
            }
        }
        for index in 0..self.senders.len() {
            let sender = &self.senders[index];
            if sender.state == State::Idle {
                scope.modify(&sender.socket, index as u32 + 1, Interest::Write)?;
                self.send(scope, index, false)?;
            }
        }
        Ok(Progress::Going)
    }

    fn deadline(&self) -> Option<Time> {
        let idle = self.senders.iter().any(|sender| sender.state == State::Idle);
        let offer = self.offer.as_ref().filter(|_| idle);
        let next = offer.map(|offer| offer.next(self.remaining.unwrap_or(u64::MAX)));
        [next, self.pausing.deadline()].into_iter().flatten().min()
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        if let (Some(several), [sender, ..]) = (&mut self.multipath, &self.senders[..]) {
            let receiver = self.receivers.first().map(AsFd::as_fd);
            several.meter.observe(tally, sender.socket.as_fd(), receiver);
            return;
        }
        let mut connections = Connections::default();
        for sender in &self.senders {
            connections.add(sender.socket.as_fd());
        }
        connections.report(tally);
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        for receiver in self.receivers.iter().filter(|_| !self.pausing.is_paused()) {
            while let Ok(Some(count @ 1..)) = socket::discard(receiver.as_fd(), DISCARD) {
                scope.tally.received += count as u64;
            }
        }
        if self.delivered < self.senders.len() {
            // Undelivered data would otherwise be sent until long after the flow's end. Where
            // this fails the connection is gone already.
            for socket in self.senders.iter().map(|s| &s.socket).chain(&self.receivers) {
                let _ = socket::reset_on_close(socket.as_fd());
            }
        }
    }
}
