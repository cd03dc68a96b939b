//! The end that receives transfers.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, OwnedFd};

use base::Time;
use sys::socket::{self, Interest};

use super::super::rendezvous::Receipt;
use super::super::traffic::Scope;

/// Maximum number of connections whose receipt was sent and that the sender, on another
/// agent, has not closed.
const MAX_ANSWERED: usize = 1024;

/// Received bytes discarded per call.
const DISCARD_BYTES: usize = 4 << 20;

struct Incoming {
    receiver: OwnedFd,
    port: u16,
    received: u64,
    answered: bool,
}

/// The result of an event at a receiver's socket.
pub(super) enum Arrival {
    Nothing,
    /// A transfer from this port has ended.
    Ended {
        port: u16,
        received: u64,
    },
    /// The last transfer from another agent has ended at this time.
    All(Time),
}

/// Receives transfers, each over a connection.
pub(super) struct Receivers {
    listener: OwnedFd,
    /// Number of transfers from another agent that have not ended.
    remaining: Option<u64>,
    /// The sender is on another agent.
    is_remote: bool,
    /// Whether bytes are read instead of discarded in the kernel.
    is_read: bool,
    /// Connections by slot.
    incoming: BTreeMap<u32, Incoming>,
    /// Slots of connections whose receipt was sent.
    answered: VecDeque<u32>,
    last_slot: u32,
}

impl Receivers {
    pub(super) fn new(
        listener: OwnedFd,
        remaining: Option<u64>,
        is_remote: bool,
        is_read: bool,
    ) -> Self {
        let (incoming, answered) = (BTreeMap::new(), VecDeque::new());
        Self { listener, remaining, is_remote, is_read, incoming, answered, last_slot: 0 }
    }

    /// Accepts connections from known ports.
    pub(super) fn accept(
        &mut self,
        scope: &Scope<'_>,
        is_known: impl Fn(u16) -> bool,
    ) -> sys::Result<()> {
        while let Some(receiver) = socket::accept(self.listener.as_fd())? {
            let port = socket::peer_port(receiver.as_fd())?;
            if !is_known(port) {
                continue;
            }
            let slot = self.new_slot();
            scope.add(&receiver, slot, Interest::Read)?;
            self.incoming.insert(slot, Incoming { receiver, port, received: 0, answered: false });
        }
        Ok(())
    }

    /// The next free even slot.
    fn new_slot(&mut self) -> u32 {
        loop {
            self.last_slot = self.last_slot % (u32::from(u16::MAX) - 1) + 2;
            if !self.incoming.contains_key(&self.last_slot) {
                return self.last_slot;
            }
        }
    }

    pub(super) fn on_ready(&mut self, scope: &mut Scope<'_>, slot: u32) -> sys::Result<Arrival> {
        // The connection may have been closed since the event.
        let Some(incoming) = self.incoming.get_mut(&slot) else { return Ok(Arrival::Nothing) };
        if incoming.answered {
            // The sender, on another agent, has received the receipt and closed the connection.
            self.incoming.remove(&slot);
            self.answered.retain(|answered| *answered != slot);
            return Ok(Arrival::Nothing);
        }
        let taken = if self.is_read {
            socket::read(incoming.receiver.as_fd(), scope.scratch)?
        } else {
            socket::discard(incoming.receiver.as_fd(), DISCARD_BYTES)?
        };
        match taken {
            None => Ok(Arrival::Nothing),
            Some(0) if self.is_remote => {
                let receipt = Receipt { at: scope.now(), received: incoming.received };
                receipt.send(incoming.receiver.as_fd())?;
                incoming.answered = true;
                Ok(self.answer(slot, receipt.at))
            }
            Some(0) => {
                let (port, received) = (incoming.port, incoming.received);
                // Both ends close at once, so that their ports are free again. If this fails, the
                // connection no longer exists.
                let _ = socket::reset_on_close(incoming.receiver.as_fd());
                self.incoming.remove(&slot);
                Ok(Arrival::Ended { port, received })
            }
            Some(count) => {
                incoming.received += count as u64;
                scope.counters.received += count as u64;
                Ok(Arrival::Nothing)
            }
        }
    }

    /// Sends the receipt to a sender on another agent, which will close the connection.
    fn answer(&mut self, slot: u32, at: Time) -> Arrival {
        self.answered.push_back(slot);
        if self.answered.len() > MAX_ANSWERED
            && let Some(oldest) = self.answered.pop_front()
        {
            self.incoming.remove(&oldest);
        }
        self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(1));
        if self.remaining == Some(0) { Arrival::All(at) } else { Arrival::Nothing }
    }

    /// Counts received bytes and resets unfinished connections.
    pub(super) fn close(&mut self, scope: &mut Scope<'_>) {
        for incoming in self.incoming.values().filter(|incoming| !incoming.answered) {
            while let Ok(Some(count @ 1..)) =
                socket::discard(incoming.receiver.as_fd(), DISCARD_BYTES)
            {
                scope.counters.received += count as u64;
            }
            // If this fails, the connection no longer exists.
            let _ = socket::reset_on_close(incoming.receiver.as_fd());
        }
        self.incoming.retain(|_, incoming| incoming.answered);
    }
}
