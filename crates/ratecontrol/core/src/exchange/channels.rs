//! Reliable channels over the links: [`crate::reliable`] in each direction of each link.

use base::Time;

use super::{Event, Exchange};
use crate::reliable::{Ack, Frame, Receiver, Sender};
use crate::{RateController, Result, State, Visit};

/// A packet, and its visit after the channel.
type Carried<P> = (Visit, P);

/// One direction of a link's reliable channel.
pub(super) struct Channel<P> {
    sender: Sender<Carried<P>>,
    receiver: Receiver,
    wake: Option<Time>,
    /// Maximum number of packets stored by the sender.
    peak: usize,
}

/// An event of a channel. Frames and acknowledgements contain the number of earlier outages.
#[derive(Clone, Copy)]
pub(super) enum Signal<P> {
    Frame { outages: u32, frame: Frame<Carried<P>> },
    Answer { outages: u32, ack: Ack },
    Wake,
}

impl<R: RateController> Exchange<R> {
    /// From now on neighbours retransmit lost packets. Must be called before any session joins.
    /// Buffers are unlimited, because each session has only one packet in flight.
    pub fn make_reliable(&mut self) {
        let channel = || Channel {
            sender: Sender::new(usize::MAX),
            receiver: Receiver::new(),
            wake: None,
            peak: 0,
        };
        self.channels = (0..2 * self.links.len()).map(|_| channel()).collect();
    }

    /// Maximum state of the two ends of a link's channels: packets, and additional values of the
    /// channels (window, counters, round trip, timer; two values at the receiver).
    pub fn channel_state(&self, link: u32) -> State {
        let first = 2 * link as usize;
        let ends = self.channels.get(first..first + 2).unwrap_or_default();
        let held: usize = ends.iter().map(|channel| channel.peak).sum();
        let ends = ends.len();
        let bytes = ends * (size_of::<Sender<Carried<R::Packet>>>() + size_of::<Receiver>())
            + held * size_of::<Carried<R::Packet>>();
        State { numbers: (held + 8 * ends) as u64, bytes: bytes as u64 }
    }

    /// Passes a packet to the channel over `link`.
    pub(super) fn entrust(&mut self, link: u32, visit: Visit, packet: R::Packet) {
        let channel = 2 * link + u32::from(visit.towards == crate::Towards::Source);
        let mut frames = Vec::new();
        let known = &mut self.channels[channel as usize];
        known.sender.send(self.now, (visit, packet), &mut frames).expect("room has no limit");
        known.peak = known.peak.max(known.sender.held());
        self.put(channel, frames);
    }

    /// Handles an event of a channel; result as in [`Exchange::happen`].
    pub(super) fn signalled(
        &mut self,
        channel: u32,
        signal: Signal<R::Packet>,
    ) -> Result<Option<u32>> {
        let known = &mut self.channels[channel as usize];
        let present = self.links[channel as usize / 2].outages;
        let mut frames = Vec::new();
        match signal {
            Signal::Frame { outages, .. } | Signal::Answer { outages, .. }
                if outages != present =>
            {
                self.counters.lost += 1;
            }
            Signal::Frame { frame, .. } => {
                let (carried, ack) = known.receiver.receive(frame);
                self.counters.acknowledgements += 1;
                if let Some(outages) = self.survives(channel) {
                    // Acknowledgements use the opposite direction.
                    let at = self.now + self.delay(channel ^ 1);
                    let answer = Signal::Answer { outages, ack };
                    self.queue.push(at, Event::Signal(channel, answer));
                }
                if let Some((visit, packet)) = carried {
                    return self.arrived(visit, packet);
                }
            }
            Signal::Answer { ack, .. } => {
                known.sender.acknowledge(self.now, ack, &mut frames);
                self.put(channel, frames);
            }
            Signal::Wake => {
                if known.wake == Some(self.now) {
                    known.wake = None;
                    known.sender.on_wake(self.now, &mut frames);
                    self.put(channel, frames);
                }
            }
        }
        Ok(None)
    }

    /// Sends frames over the link and sets the channel's timer.
    fn put(&mut self, channel: u32, frames: Vec<Frame<Carried<R::Packet>>>) {
        for frame in frames {
            self.counters.crossings += 1;
            if let Some(outages) = self.survives(channel) {
                let at = self.now + self.delay(channel);
                let frame = Signal::Frame { outages, frame };
                self.queue.push(at, Event::Signal(channel, frame));
            }
        }
        let known = &mut self.channels[channel as usize];
        let wake = known.sender.next_wake();
        if wake != known.wake {
            known.wake = wake;
            if let Some(wake) = wake {
                self.queue.push(wake, Event::Signal(channel, Signal::Wake));
            }
        }
    }

    /// Samples a crossing of a channel's link: its outage count, or `None` if the packet is lost.
    fn survives(&mut self, channel: u32) -> Option<u32> {
        let place = &self.links[channel as usize / 2];
        let lost = self.loss.as_mut().is_some_and(|(loss, rng)| rng.chance(*loss));
        if lost || !place.up {
            self.counters.lost += 1;
            return None;
        }
        Some(place.outages)
    }

    fn delay(&self, channel: u32) -> base::Span {
        let wire = &self.links[channel as usize / 2].wire;
        if channel.is_multiple_of(2) { wire.delay } else { wire.back }
    }
}
