//! The sending end of a channel.

use std::collections::VecDeque;

use base::{Span, Time};

use super::{Ack, Frame};

/// A frame in flight.
#[derive(Clone, Copy, Debug)]
struct Slot<P> {
    packet: P,
    /// The number of its last transmission.
    transmission: u64,
    sent: Time,
    arrived: bool,
}

/// Stores packets until they are acknowledged.
#[derive(Clone, Debug)]
pub struct Sender<P> {
    /// The number of the first slot's frame.
    first: u64,
    slots: VecDeque<Slot<P>>,
    waiting: VecDeque<P>,
    room: usize,
    transmissions: u64,
    /// Smoothed round trip and deviation (RFC 6298) in nanoseconds; 0 before
    /// the first acknowledgement.
    smooth: u64,
    deviation: u64,
    /// Number of timeouts since the last progress.
    silent: u32,
    deadline: Option<Time>,
}

/// The window and its queue are full; contains the rejected packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full<P>(pub P);

impl<P: Copy> Sender<P> {
    /// Maximum number of frames in flight; as many as an acknowledgement describes.
    pub const WINDOW: usize = 64;
    /// Timeout before the first acknowledgement.
    const FIRST: u64 = 100_000_000;
    /// Minimum timeout in addition to the round trip: a shorter one does not indicate a loss.
    const MIN_SLACK: u64 = 1_000_000;
    /// Maximum timeout, unless round trips are longer. A link that is down is probed
    /// at this interval.
    const MAX_TIMEOUT: u64 = 1_000_000_000;

    /// A sender that queues at most `room` packets in addition to those in the window.
    pub fn new(room: usize) -> Self {
        Self {
            first: 0,
            slots: VecDeque::new(),
            waiting: VecDeque::new(),
            room,
            transmissions: 0,
            smooth: 0,
            deviation: 0,
            silent: 0,
            deadline: None,
        }
    }

    /// Number of stored packets.
    pub fn held(&self) -> usize {
        self.slots.len() + self.waiting.len()
    }

    /// Deadline of the next [`Sender::on_wake`].
    pub fn next_wake(&self) -> Option<Time> {
        self.deadline
    }

    /// Accepts a packet; adds frames to send to `out`.
    ///
    /// # Errors
    /// [`Full`] with the packet if there is no room.
    pub fn send(&mut self, now: Time, packet: P, out: &mut Vec<Frame<P>>) -> Result<(), Full<P>> {
        if self.slots.len() >= Self::WINDOW && self.waiting.len() >= self.room {
            return Err(Full(packet));
        }
        self.waiting.push_back(packet);
        self.fill(now, out);
        Ok(())
    }

    /// Processes an acknowledgement.
    pub fn acknowledge(&mut self, now: Time, ack: Ack, out: &mut Vec<Frame<P>>) {
        let sent = self.slots.iter().find(|slot| slot.transmission == ack.transmission);
        if let Some(slot) = sent {
            let sample = now.since(slot.sent);
            self.learn(sample);
        }
        let mut is_new = false;
        for (number, slot) in (self.first..).zip(&mut self.slots) {
            let arrived = match number.checked_sub(ack.next) {
                None => true,
                Some(0) => false,
                Some(ahead) => ahead <= 64 && ack.later >> (ahead - 1) & 1 == 1,
            };
            is_new |= arrived && !slot.arrived;
            slot.arrived |= arrived;
        }
        while self.slots.front().is_some_and(|slot| slot.arrived) {
            self.slots.pop_front();
            self.first += 1;
        }
        if is_new {
            self.silent = 0;
            self.deadline = None;
        }
        // Links preserve the order: frames sent before the acknowledged transmission
        // would have arrived.
        for index in 0..self.slots.len() {
            if !self.slots[index].arrived && self.slots[index].transmission < ack.transmission {
                self.transmit(index, now, out);
            }
        }
        self.fill(now, out);
        self.arm(now);
    }

    /// Handles the deadline from [`Sender::next_wake`].
    pub fn on_wake(&mut self, now: Time, out: &mut Vec<Frame<P>>) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.silent += 1;
        self.deadline = None;
        // The first frame has not arrived; its acknowledgement will describe the others.
        if !self.slots.is_empty() {
            self.transmit(0, now, out);
        }
        self.arm(now);
    }

    fn learn(&mut self, sample: Span) {
        let sample = sample.as_nanos().clamp(1, u64::MAX / 16);
        if self.smooth == 0 {
            (self.smooth, self.deviation) = (sample, sample / 2);
        } else {
            self.deviation = (3 * self.deviation + self.smooth.abs_diff(sample)) / 4;
            self.smooth = (7 * self.smooth + sample) / 8;
        }
    }

    /// Sends queued packets while the window has room.
    fn fill(&mut self, now: Time, out: &mut Vec<Frame<P>>) {
        while self.slots.len() < Self::WINDOW {
            let Some(packet) = self.waiting.pop_front() else { break };
            self.slots.push_back(Slot { packet, transmission: 0, sent: now, arrived: false });
            self.transmit(self.slots.len() - 1, now, out);
        }
        self.arm(now);
    }

    fn transmit(&mut self, index: usize, now: Time, out: &mut Vec<Frame<P>>) {
        self.transmissions += 1;
        let slot = &mut self.slots[index];
        (slot.transmission, slot.sent) = (self.transmissions, now);
        out.push(Frame {
            number: self.first + index as u64,
            transmission: slot.transmission,
            packet: slot.packet,
        });
    }

    /// Sets the timer if it is not running and frames are in flight.
    fn arm(&mut self, now: Time) {
        if self.slots.is_empty() {
            self.deadline = None;
        } else if self.deadline.is_none() {
            let slack = (4 * self.deviation).max(self.smooth / 4).max(Self::MIN_SLACK);
            let first = if self.smooth == 0 { Self::FIRST } else { self.smooth + slack };
            let wait =
                first.saturating_mul(1 << self.silent.min(16)).min(first.max(Self::MAX_TIMEOUT));
            self.deadline = Some(now + Span::from_nanos(wait));
        }
    }
}
