//! The end that frames are sent from.

use std::collections::VecDeque;

use base::{Span, Time};

use super::{Ack, Frame};

/// A frame under way.
#[derive(Clone, Copy, Debug)]
struct Slot<P> {
    packet: P,
    /// The number of its last transmission.
    transmission: u64,
    sent: Time,
    arrived: bool,
}

/// Holds packets until they are known to have arrived.
#[derive(Clone, Debug)]
pub struct Sender<P> {
    /// The number of the first slot's frame.
    first: u64,
    slots: VecDeque<Slot<P>>,
    waiting: VecDeque<P>,
    room: usize,
    transmissions: u64,
    /// Smoothed round trip and deviation (RFC 6298), nanoseconds; 0 before the first answer.
    smooth: u64,
    deviation: u64,
    /// Timeouts since anything was confirmed.
    silent: u32,
    deadline: Option<Time>,
}

/// There is no room for another packet; it comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full<P>(pub P);

impl<P: Copy> Sender<P> {
    /// Frames under way at most; as many as an answer describes.
    pub const WINDOW: usize = 64;
    /// The time to wait for an answer before any has come.
    const FIRST: u64 = 100_000_000;
    /// Waited beyond the round trip at least: less is no sign of loss.
    const LEAST_SLACK: u64 = 1_000_000;
    /// The longest wait, unless round trips are longer. A link that is down is tried so often.
    const MOST: u64 = 1_000_000_000;

    /// One that holds at most `room` packets that wait for the window, beside those in it.
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

    /// Packets that it holds.
    pub fn held(&self) -> usize {
        self.slots.len() + self.waiting.len()
    }

    /// When to call [`Sender::on_wake`].
    pub fn next_wake(&self) -> Option<Time> {
        self.deadline
    }

    /// Takes a packet; frames to send are added to `out`.
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

    /// The receiver's answer has come.
    pub fn acknowledge(&mut self, now: Time, ack: Ack, out: &mut Vec<Frame<P>>) {
        let sent = self.slots.iter().find(|slot| slot.transmission == ack.transmission);
        if let Some(slot) = sent {
            let sample = now.since(slot.sent);
            self.learn(sample);
        }
        let mut news = false;
        for (number, slot) in (self.first..).zip(&mut self.slots) {
            let arrived = match number.checked_sub(ack.next) {
                None => true,
                Some(0) => false,
                Some(ahead) => ahead <= 64 && ack.later >> (ahead - 1) & 1 == 1,
            };
            news |= arrived && !slot.arrived;
            slot.arrived |= arrived;
        }
        while self.slots.front().is_some_and(|slot| slot.arrived) {
            self.slots.pop_front();
            self.first += 1;
        }
        if news {
            self.silent = 0;
            self.deadline = None;
        }
        // Links keep the order: what went before the answered transmission would be here.
        for index in 0..self.slots.len() {
            if !self.slots[index].arrived && self.slots[index].transmission < ack.transmission {
                self.transmit(index, now, out);
            }
        }
        self.fill(now, out);
        self.arm(now);
    }

    /// The time of [`Sender::next_wake`] has come.
    pub fn on_wake(&mut self, now: Time, out: &mut Vec<Frame<P>>) {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return;
        }
        self.silent += 1;
        self.deadline = None;
        // The first slot has not arrived, and its answer will tell of the others.
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

    /// Sends what waits while the window has room.
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

    /// Sets the timer if it isn't running and something is under way.
    fn arm(&mut self, now: Time) {
        if self.slots.is_empty() {
            self.deadline = None;
        } else if self.deadline.is_none() {
            let slack = (4 * self.deviation).max(self.smooth / 4).max(Self::LEAST_SLACK);
            let first = if self.smooth == 0 { Self::FIRST } else { self.smooth + slack };
            let wait = first.saturating_mul(1 << self.silent.min(16)).min(first.max(Self::MOST));
            self.deadline = Some(now + Span::from_nanos(wait));
        }
    }
}
