//! Bulk TCP: as fast as it goes, over one or several connections.

use std::os::fd::{AsFd, OwnedFd};

use base::Time;
use lab::plan::{Flow, Traffic};
use outcome::Tally;
use sys::socket::{self, Interest, Readiness, TcpOptions};

use super::traffic::{CHUNK, Connections, Endpoints, Progress, Scope, gone};
use super::{Placed, enter};

/// Connections of one flow at most.
pub(super) const MAX_STREAMS: u32 = 1024;

/// Messages written in one turn at most: a system call each.
const MESSAGES: u32 = 256;

/// Received bytes discarded at once.
const DISCARD: usize = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Sending,
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
}

impl Bulk {
    pub(super) fn open(placed: &Placed, scope: &Scope<'_>) -> sys::Result<Self> {
        let Flow { traffic: Traffic::Bulk { size, tcp, streams, message, .. }, dscp, .. } =
            &placed.flow
        else {
            unreachable!("the driver opens bulk flows with this")
        };
        let options = super::tcp_options(tcp, message.is_some(), *dscp);
        enter(&placed.netns[1])?;
        let receiving = TcpOptions { congestion: None, ..options };
        let (listener, at) = socket::listen(placed.addresses[1], receiving)?;
        scope.add(&listener, 0, Interest::Read)?;
        enter(&placed.netns[0])?;
        let mut senders = Vec::with_capacity(*streams as usize);
        for slot in 1..=*streams {
            let socket = socket::connect(placed.addresses[0], at, options)?;
            scope.add(&socket, slot, Interest::Write)?;
            senders.push(Sender { socket, state: State::Connecting, message_left: 0 });
        }
        let remaining = size.map(base::Bytes::count);
        let message = message.map(base::Bytes::count);
        let receivers = Vec::with_capacity(senders.len());
        Ok(Self { listener, senders, receivers, remaining, message, delivered: 0 })
    }

    fn accept(&mut self, scope: &Scope<'_>) -> sys::Result<()> {
        while let Some(socket) = socket::accept(self.listener.as_fd())? {
            let slot = 1 + self.senders.len() + self.receivers.len();
            scope.add(&socket, slot as u32, Interest::Read)?;
            self.receivers.push(socket);
        }
        Ok(())
    }

    fn send(&mut self, scope: &mut Scope<'_>, index: usize, failed: bool) -> sys::Result<()> {
        let sender = &mut self.senders[index];
        if failed {
            socket::pending_error(sender.socket.as_fd())?;
            return Err(gone());
        }
        if sender.state == State::Connecting {
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
            let length = budget.min(usize::try_from(most).unwrap_or(CHUNK));
            let data = &scope.payload[..length];
            // Each message is to leave in segments of its own.
            let ends = self.message.is_some() && length as u64 == sender.message_left;
            let write = if ends { socket::write_record } else { socket::write };
            let Some(sent) = write(sender.socket.as_fd(), data)? else { break };
            messages -= u32::from(ends);
            scope.tally.sent += sent as u64;
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

    fn receive(&mut self, scope: &mut Scope<'_>, index: usize) -> sys::Result<Progress> {
        let socket = &self.receivers[index];
        match socket::discard(socket.as_fd(), DISCARD)? {
            None => {}
            Some(0) => {
                let slot = 1 + self.senders.len() + index;
                scope.modify(socket, slot as u32, Interest::Nothing)?;
                self.delivered += 1;
                if self.delivered == self.senders.len() {
                    return Ok(Progress::Done(scope.now()));
                }
            }
            Some(count) => scope.tally.received += count as u64,
        }
        Ok(Progress::Going)
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
            return self.receive(scope, slot - 1 - self.senders.len());
        }
        Ok(Progress::Going)
    }

    fn on_wake(&mut self, _scope: &mut Scope<'_>) -> sys::Result<Progress> {
        Ok(Progress::Going)
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> Progress {
        Progress::Cut(scope.now())
    }

    fn observe(&mut self, tally: &mut Tally) {
        let mut connections = Connections::default();
        for sender in &self.senders {
            connections.add(sender.socket.as_fd());
        }
        connections.report(tally);
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        for receiver in &self.receivers {
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
