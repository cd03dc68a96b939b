//! Paced UDP over the kernel's sockets. Slot 0 receives, slot 1 sends.

use std::os::fd::{AsFd, OwnedFd};

use base::{Span, Time};
use run::{FlowCounters, Ideal};
use rustix::io::Errno;
use sys::socket::{self, BATCH, Interest, Readiness};
use workload::datagram::{END_LENGTH, Header, LENGTH};
use workload::{PacedFlow, PacedSender, Pattern, Source};

use super::rendezvous::{RECEIVER_SLOT, Rendezvous};
use super::traffic::{Endpoints, Progress, Scope, combine_progress};
use super::{Placed, enter};

/// Requested size of socket buffers.
pub(super) const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Maximum number of batches received per turn. They hold more datagrams than a sender's turn, so
/// that a burst after a pause does not overflow the receiver.
const MAX_RECEIVE_BATCHES: usize = 16;

/// Maximum number of datagrams sent per turn.
const MAX_SENT_DATAGRAMS: u64 = 4 * BATCH as u64;

const SENDER_SLOT: u32 = 1;

pub(super) struct Paced {
    flow: PacedFlow,
    sender: Option<OwnedFd>,
    receiver: Option<OwnedFd>,
}

impl Paced {
    /// Opens a flow with the rate, packet size, total size and pattern of its datagrams.
    pub(super) fn open(
        placed: &Placed,
        rendezvous: Rendezvous,
        (rate, packet, size): (base::Bandwidth, base::Bytes, Option<base::Bytes>),
        pattern: &Pattern,
        scope: &Scope<'_>,
    ) -> sys::Result<Self> {
        let Rendezvous { receiver, to, mut from } = rendezvous;
        let (flow, now) = (&placed.flow, scope.start());
        let (mut sender, mut paced) = (None, None);
        if let Some(netns) = &placed.netns[0] {
            enter(netns)?;
            let (socket, at) = socket::udp_at(from, flow.dscp, SOCKET_BUFFER_BYTES)?;
            from = at;
            socket::set_peer(socket.as_fd(), to)?;
            let interest = if receiver.is_none() { Interest::Read } else { Interest::Nothing };
            scope.add(&socket, SENDER_SLOT, interest)?;
            let random = scope.random(&flow.name, "datagrams");
            let source = Source::new(pattern.clone(), rate, packet, now, random);
            paced = Some(PacedSender::new(source, size, flow.duration, now));
            sender = Some(socket);
        }
        if let (Some(receiver), Some(netns)) = (&receiver, &placed.netns[1]) {
            enter(netns)?;
            socket::set_peer(receiver.as_fd(), from)?;
            socket::set_arrival_stamps(receiver.as_fd())?;
        }
        let path_delay = placed.ideal.as_ref().map_or(Span::ZERO, Ideal::one_way);
        let flow = PacedFlow::open(paced, receiver.is_some(), path_delay, now);
        Ok(Self { flow, sender, receiver })
    }

    /// Sends due datagrams, at most [`MAX_SENT_DATAGRAMS`].
    fn send(&mut self, scope: &mut Scope<'_>) {
        let (Some(socket), now) = (&self.sender, scope.now()) else { return };
        let mut turn = MAX_SENT_DATAGRAMS;
        while turn > 0 {
            let Some(sender) = self.flow.sender() else { return };
            let Some((count, payload)) = sender.due(now, turn.min(BATCH as u64)) else { break };
            let rest = (payload as usize).saturating_sub(LENGTH);
            let stamp = scope.now().as_nanos();
            let mut heads = [[0; LENGTH]; BATCH];
            let heads = &mut heads[..count as usize];
            for (head, sequence) in heads.iter_mut().zip(sender.sent()..) {
                *head = Header { sequence, sent: stamp }.encode();
            }
            let used = if let Ok(Some(taken)) = submit(socket, heads, &scope.payload[..rest]) {
                scope.counters.sent += (taken * (LENGTH + rest)) as u64;
                self.flow.on_sent(now, taken as u64);
                taken as u64
            } else {
                sender.on_refused();
                1
            };
            turn = turn.saturating_sub(used.max(1));
        }
        self.announce(now);
    }

    fn announce(&mut self, now: Time) {
        if let (Some(message), Some(socket)) = (self.flow.announcement(now), &self.sender) {
            // The announcement is repeated until it is answered.
            let _ = submit(socket, &[message.encode()], &[]);
        }
    }

    /// Receives replies of a receiver on another agent, and errors of earlier datagrams,
    /// which count as lost.
    fn receive_replies(&mut self, scope: &Scope<'_>) {
        let Some(socket) = &self.sender else { return };
        let (flow, now) = (&mut self.flow, scope.now());
        let _ = socket::pending_error(socket.as_fd());
        let _ = socket::receive_datagrams::<END_LENGTH>(socket.as_fd(), |arrival| {
            flow.on_reply(now, &arrival.head[..arrival.length.min(END_LENGTH)]);
        });
    }

    fn receive(&mut self, scope: &mut Scope<'_>, batches: usize) {
        let Some(socket) = &self.receiver else { return };
        let (flow, clock) = (&mut self.flow, scope.clock);
        for _ in 0..batches {
            let counters = &mut *scope.counters;
            let got = socket::receive_datagrams::<END_LENGTH>(socket.as_fd(), |arrival| {
                let head = &arrival.head[..arrival.length.min(END_LENGTH)];
                if let Some(delay) = flow.on_payload(head, clock.time_at(arrival.at)) {
                    counters.received += arrival.length as u64;
                    counters.record_delay(delay.as_nanos());
                }
            });
            // An ICMP error (RFC 1122, 4.1.3.3) does not end the flow.
            if !matches!(got, Ok(BATCH..)) {
                break;
            }
        }
    }

    fn reply(&mut self) {
        if let (Some(message), Some(socket)) = (self.flow.take_reply(), &self.receiver) {
            // The sender repeats its announcement if the reply is lost.
            let _ = socket::send_datagrams(socket.as_fd(), &[message.encode()], &[]);
        }
    }
}

fn submit<const N: usize>(
    socket: &OwnedFd,
    heads: &[[u8; N]],
    rest: &[u8],
) -> sys::Result<Option<usize>> {
    let sent = socket::send_datagrams(socket.as_fd(), heads, rest);
    match sent {
        // The error of an earlier datagram: the receiver's agent has not opened the port yet.
        Err(error) if error.errno() == Some(Errno::CONNREFUSED.raw_os_error()) => {
            socket::send_datagrams(socket.as_fd(), heads, rest)
        }
        other => other,
    }
}

impl Endpoints for Paced {
    fn on_ready(
        &mut self,
        scope: &mut Scope<'_>,
        slot: u32,
        _readiness: Readiness,
    ) -> sys::Result<Progress> {
        if slot == RECEIVER_SLOT {
            self.receive(scope, MAX_RECEIVE_BATCHES);
        } else {
            self.receive_replies(scope);
        }
        self.reply();
        combine_progress(self.flow.progress(), None)
    }

    fn on_wake(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        self.send(scope);
        if self.flow.is_timed_out(scope.now()) {
            self.receive(scope, usize::MAX);
        }
        let progress = self.flow.on_wake(scope.now());
        self.reply();
        combine_progress(progress, None)
    }

    fn next_wake(&self) -> Option<Time> {
        self.flow.next_wake()
    }

    fn expire(&mut self, scope: &mut Scope<'_>) -> sys::Result<Progress> {
        let progress = self.flow.expire(scope.now());
        self.announce(scope.now());
        combine_progress(progress, None)
    }

    fn observe(&mut self, counters: &mut FlowCounters) {
        let mut counts = self.flow.counts();
        if let Some(socket) = &self.receiver {
            counts.overrun = socket::dropped_on_arrival(socket.as_fd()).unwrap_or(0);
        }
        counters.observe_datagrams(counts);
    }

    fn edge(&self) -> Option<u64> {
        self.flow.edge()
    }

    fn close(&mut self, scope: &mut Scope<'_>) {
        self.receive(scope, usize::MAX);
        self.flow.close(scope.now());
    }
}
