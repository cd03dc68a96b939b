//! Events for clients, without blocking the collector.
//!
//! The collector's thread copies events into a batch and offers whole batches to a bounded channel.
//! A slow reader loses batches, and the loss is counted. Only a feed of files waits for its reader.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use base::Time;
use bgp::Message;
use collector::{Event, Gap, Peering, Reading, Reason, Sender, Sink, State};

const BATCH: usize = 64 << 10;
const EVENTS: usize = 1024;
/// Maximum number of batches waiting for a reader: 16 MiB of messages.
const MAX_PENDING_HOURS: usize = 256;

#[derive(Debug)]
enum Kept {
    Message { time: Time, from: Sender, bytes: Range<u32> },
    State { time: Time, old: State, new: State, reason: Reason },
    Gap(Gap),
    Reading(Reading),
}

#[derive(Debug, Default)]
pub struct Batch {
    peerings: Vec<Peering>,
    events: Vec<(u32, Kept)>,
    bytes: Vec<u8>,
}

impl Batch {
    /// Events in order, each with its peering at the time.
    pub fn events(&self) -> impl Iterator<Item = (&Peering, Event<'_>)> {
        self.events.iter().filter_map(|(peering, kept)| {
            let event = match kept {
                Kept::Message { time, from, bytes } => {
                    let bytes = &self.bytes[bytes.start as usize..bytes.end as usize];
                    let message = Message::split(bytes)?;
                    Event::Message { time: *time, from: *from, message }
                }
                Kept::State { time, old, new, reason } => {
                    Event::State { time: *time, old: *old, new: *new, reason: *reason }
                }
                Kept::Gap(gap) => Event::Gap(*gap),
                Kept::Reading(reading) => Event::Reading(*reading),
            };
            Some((&self.peerings[*peering as usize], event))
        })
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    fn push(&mut self, peering: &Peering, event: &Event<'_>) {
        let known = self.peerings.iter().rposition(|known| known == peering);
        let index = known.unwrap_or_else(|| {
            self.peerings.push(*peering);
            self.peerings.len() - 1
        }) as u32;
        let kept = match *event {
            Event::Message { time, from, message } => {
                let start = self.bytes.len() as u32;
                self.bytes.extend_from_slice(message.bytes());
                Kept::Message { time, from, bytes: start..self.bytes.len() as u32 }
            }
            Event::State { time, old, new, reason } => Kept::State { time, old, new, reason },
            Event::Gap(gap) => Kept::Gap(gap),
            Event::Reading(reading) => Kept::Reading(reading),
        };
        self.events.push((index, kept));
    }
}

#[derive(Debug)]
pub struct Feed {
    sender: SyncSender<Batch>,
    /// The reader also receives UPDATEs for routes that end without a message of the peer.
    pub(crate) with_removals: bool,
    /// The collector waits for the reader, as for files: no event is lost.
    waits: bool,
    batch: Batch,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
pub struct Watch {
    pub batches: Receiver<Batch>,
    /// Events lost with dropped batches.
    pub lost: Arc<AtomicU64>,
}

/// A feed and its only reader, which may serve many clients.
pub fn feed() -> (Feed, Watch) {
    let (sender, batches) = sync_channel(MAX_PENDING_HOURS);
    let lost = Arc::new(AtomicU64::new(0));
    let feed = Feed {
        sender,
        with_removals: false,
        waits: false,
        batch: Batch::default(),
        lost: Arc::clone(&lost),
    };
    (feed, Watch { batches, lost })
}

/// A feed for a reader that keeps routes: it also receives withdrawals of the routes that the
/// peer did not announce again in a route refresh (RFC 7313).
pub fn feed_with_removals() -> (Feed, Watch) {
    let (mut feed, watch) = feed();
    feed.with_removals = true;
    (feed, watch)
}

impl Feed {
    /// A feed that loses no event: the collector waits for the reader.
    #[must_use]
    pub fn waiting(self) -> Self {
        Self { waits: true, ..self }
    }

    /// Offers the events since the last call. Call it when idle, and at least
    /// every few milliseconds.
    pub fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        let batch = std::mem::take(&mut self.batch);
        if self.waits {
            let events = batch.len() as u64;
            if self.sender.send(batch).is_err() {
                self.lost.fetch_add(events, Ordering::Relaxed);
            }
            return;
        }
        if let Err(TrySendError::Full(batch)) = self.sender.try_send(batch) {
            self.lost.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
    }
}

impl Sink for Feed {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        self.batch.push(peering, event);
        if self.batch.bytes.len() >= BATCH || self.batch.len() >= EVENTS {
            self.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use bgp::Asn;
    use collector::{MirrorId, PeeringId};

    use super::*;

    fn peering(number: u32) -> Peering {
        Peering {
            peer_as: Asn(65001),
            local_as: Asn(65000),
            certain: true,
            ..Peering::new(
                PeeringId(number),
                MirrorId(0),
                Ipv4Addr::new(10, 0, 0, 1).into(),
                Ipv4Addr::new(10, 0, 0, 2).into(),
            )
        }
    }

    fn keepalive() -> [u8; 19] {
        let mut bytes = [0xff; 19];
        bytes[16..].copy_from_slice(&[0, 19, 4]);
        bytes
    }

    #[test]
    fn delivers_events_unchanged() {
        let (mut feed, watch) = feed();
        let bytes = keepalive();
        let message = Message::split(&bytes).unwrap();
        for number in 0..3 {
            let time = Time::from_nanos(number.into());
            feed.event(&peering(number % 2), &Event::Message { time, from: Sender::Peer, message });
        }
        feed.flush();
        let batch = watch.batches.recv().unwrap();
        let seen: Vec<u32> = batch.events().map(|(peering, _)| peering.id.0).collect();
        assert_eq!(seen, [0, 1, 0]);
        for (number, (_, event)) in batch.events().enumerate() {
            let Event::Message { time, message, .. } = event else { panic!("{event:?}") };
            assert_eq!((time.as_nanos(), message.bytes()), (number as u64, &bytes[..]));
        }
    }

    #[test]
    fn drops_batches_of_blocked_reader() {
        let (mut feed, watch) = feed();
        let bytes = keepalive();
        let message = Message::split(&bytes).unwrap();
        let sent = (MAX_PENDING_HOURS + 2) * EVENTS;
        for _ in 0..sent {
            feed.event(
                &peering(0),
                &Event::Message { time: Time::ZERO, from: Sender::Peer, message },
            );
        }
        let got: usize = watch.batches.try_iter().map(|batch| batch.len()).sum();
        assert_eq!(got as u64 + watch.lost.load(Ordering::Relaxed), sent as u64);
        assert_eq!(got, MAX_PENDING_HOURS * EVENTS);
    }
}
