//! Everyone who is told what happens.

use base::Time;
use collector::integrity::Integrity;
use collector::rib::Rib;
use collector::{Event, Gap, Peering, Sink, State};

use crate::archive::{Loss, micros};
use crate::Writer;
use crate::feed::Feed;

/// Gaps that wait to be written; more than that at a time are counted in the account alone.
const GAPS: usize = 10_000;

/// All of them, in the order in which they are told.
pub(super) struct Sinks {
    pub(super) writer: Option<Writer>,
    pub(super) rib: Option<Rib>,
    pub(super) integrity: Integrity,
    pub(super) feeds: Vec<Feed>,
    /// Peerings as they were with their last change of state, by number.
    pub(super) peerings: Vec<Option<(Peering, State)>>,
    /// How many messages there were.
    pub(super) messages: u64,
    /// How many gaps there were.
    pub(super) gaps: u64,
    /// Those that the archive has not stated yet.
    pub(super) unstated: Vec<Loss>,
    /// The latest time that was told.
    pub(super) now: Time,
    /// When the capture last said that it dropped packets.
    pub(super) asked: Time,
}

impl Sink for Sinks {
    #[inline]
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        if let Some(writer) = &mut self.writer {
            writer.event(peering, event);
        }
        if let Some(rib) = &mut self.rib {
            rib.event(peering, event);
        }
        self.integrity.event(peering, event);
        for feed in &mut self.feeds {
            feed.event(peering, event);
        }
        match event {
            Event::Message { time, .. } => {
                self.now = self.now.max(*time);
                self.messages += 1;
                if self.peerings.get(peering.id.index()).is_none_or(Option::is_none) {
                    self.meet(peering, State::Idle);
                }
            }
            Event::State { time, new, .. } => {
                self.now = self.now.max(*time);
                self.meet(peering, *new);
            }
            Event::Gap(gap) => self.gap(peering, gap),
            Event::Reading(_) => {}
        }
    }
}

impl Sinks {
    #[cold]
    fn meet(&mut self, peering: &Peering, state: State) {
        let index = peering.id.index();
        if index >= self.peerings.len() {
            self.peerings.resize(index + 1, None);
        }
        self.peerings[index] = Some((*peering, state));
    }

    #[cold]
    fn gap(&mut self, peering: &Peering, gap: &Gap) {
        self.gaps += 1;
        if self.writer.is_some() && self.unstated.len() < GAPS {
            self.unstated.push(Loss::Stream {
                since_us: micros(gap.since),
                until_us: micros(gap.until),
                peer: peering.peer,
                peer_as: peering.peer_as.0,
                from: format!("{:?}", gap.from).to_lowercase(),
                cause: format!("{:?}", gap.cause).to_lowercase(),
                missing: gap.missing,
                skipped: gap.skipped,
            });
        }
    }

    /// The capture says that it dropped packets since it last said so.
    pub(super) fn dropped(&mut self, now: Time, interface: u32, packets: u64) {
        let since = std::mem::replace(&mut self.asked, now);
        if self.writer.is_some() && self.unstated.len() < GAPS {
            let (since_us, until_us) = (micros(since), micros(now));
            self.unstated.push(Loss::Captured { since_us, until_us, interface, packets });
        }
    }

    /// Hands on what waits for more to come with it.
    pub(super) fn flush(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.flush();
        }
        self.feeds.iter_mut().for_each(Feed::flush);
    }

    /// Time passes.
    pub(super) fn advance(&mut self, now: Time) {
        if let Some(writer) = &mut self.writer {
            writer.advance(now);
            if !self.unstated.is_empty() {
                writer.archive_mut().state(&self.unstated);
                self.unstated.clear();
            }
        }
        if let Some(rib) = &mut self.rib {
            rib.advance(now);
        }
        self.integrity.advance(now);
    }
}
