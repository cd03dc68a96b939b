//! The sinks of all events.

use base::{Span, Time};
use bgp::{Message, MessageType};
use collector::integrity::{Integrity, Settings};
use collector::rib::Rib;
use collector::{Event, Gap, GapCause, MirrorId, Peering, Sender, Sink, State};

use super::control::Control;
use super::tables::Tables;
use crate::Writer;
use crate::archive::{Loss, micros};
use crate::feed::Feed;
use crate::pipeline::later;
use crate::{Error, Result};

/// Maximum number of gaps to be written; more at a time are counted in the account only.
const GAPS: usize = 10_000;

/// Maximum number of interfaces with a known time of the last drop report.
const INTERFACES: usize = 1_024;

/// Interval at which the account advances.
const ACCOUNT: Span = Span::from_secs(1);

/// All sinks, in the order of calls.
pub(super) struct Sinks {
    pub(super) writer: Option<Writer>,
    pub(super) control: Option<Control>,
    pub(super) rib: Option<Rib>,
    pub(super) integrity: Integrity,
    pub(super) feeds: Vec<Feed>,
    /// Peerings at their last change of state, by number.
    pub(super) peerings: Vec<Option<Box<(Peering, State)>>>,
    /// Mirrors of peerings since the last call.
    pub(super) new_mirrors: Vec<MirrorId>,
    pub(super) messages: u64,
    pub(super) gaps: u64,
    /// Archived messages that cannot be decoded.
    pub(super) undecodable: u64,
    /// Sessions whose router's end was guessed, which nothing confirmed.
    pub(super) guessed: u64,
    pub(super) unstated: Vec<Loss>,
    pub(super) now: Time,
    /// Time of the last drop report by interface, and of the first one.
    pub(super) asked: Vec<(u32, Time)>,
    pub(super) begun: Time,
    pub(super) accounted: Time,
    /// Files of routes, which contain the events before their instant.
    pub(super) tables: Option<Tables>,
    table_at: Time,
    /// The first error of a file of routes.
    pub(super) table_error: Option<Error>,
}

impl Sink for Sinks {
    #[inline]
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        if let Event::Message { time, .. } | Event::State { time, .. } = event
            && *time >= self.table_at
        {
            self.reach(*time);
        }
        if let Some(writer) = &mut self.writer {
            writer.event(peering, event);
        }
        if let Some(control) = &mut self.control {
            control.event(peering, event);
        }
        if let Some(rib) = &mut self.rib {
            rib.event(peering, event);
        }
        self.integrity.event(peering, event);
        for feed in &mut self.feeds {
            feed.event(peering, event);
        }
        if let Event::Message { time, message, .. } = event
            && message.kind() == MessageType::ROUTE_REFRESH
        {
            self.pass_removals(peering, *time);
        }
        match event {
            Event::Message { time, .. } => {
                self.now = later(self.now, *time);
                self.messages += 1;
                if self.peerings.get(peering.id.index()).is_none_or(Option::is_none) {
                    self.meet(peering, State::Idle);
                }
            }
            Event::State { time, new, .. } => {
                self.now = later(self.now, *time);
                self.meet(peering, *new);
            }
            Event::Gap(gap) => self.gap(peering, gap),
            Event::Reading(_) => {}
        }
    }

    fn forget_peering(&mut self, peering: &Peering) {
        self.writer.forget_peering(peering);
        if let Some(control) = &mut self.control {
            control.forget_peering(peering);
        }
        self.rib.forget_peering(peering);
        self.integrity.forget_peering(peering);
        if let Some(place) = self.peerings.get_mut(peering.id.index()) {
            *place = None;
        }
    }
}

impl Sinks {
    pub(super) fn new(writer: Option<Writer>, rib: Option<Rib>, feeds: Vec<Feed>) -> Self {
        Self {
            control: writer.as_ref().map(|writer| Control::new(writer.archive().folder())),
            writer,
            rib,
            integrity: Integrity::new(Settings::default()),
            feeds,
            peerings: Vec::new(),
            new_mirrors: Vec::new(),
            messages: 0,
            gaps: 0,
            undecodable: 0,
            guessed: 0,
            unstated: Vec::new(),
            now: Time::ZERO,
            asked: Vec::new(),
            begun: Time::ZERO,
            accounted: Time::ZERO,
            tables: None,
            table_at: Time::MAX,
            table_error: None,
        }
    }

    pub(super) fn set_tables(&mut self, tables: Tables) {
        self.table_at = tables.due();
        self.tables = Some(tables);
    }

    /// Makes the files of routes of instants before an event at `time`.
    #[cold]
    fn reach(&mut self, time: Time) {
        // A damaged time is later than that of all packets until now.
        let time = later(self.now, time);
        self.with_tables(|tables, rib, writer| tables.reach(time, rib, writer));
    }

    pub(super) fn with_tables(
        &mut self,
        work: impl FnOnce(&mut Tables, &mut Rib, Option<&Writer>) -> Result<()>,
    ) {
        let (Some(tables), Some(rib)) = (&mut self.tables, &mut self.rib) else { return };
        if let Err(error) = work(tables, rib, self.writer.as_ref()) {
            self.table_error.get_or_insert(error);
        }
        self.table_at = tables.due();
    }

    #[cold]
    fn meet(&mut self, peering: &Peering, state: State) {
        let index = peering.id.index();
        if self.peerings.get(index).is_none_or(Option::is_none) && peering.mirror != MirrorId::NONE
        {
            self.new_mirrors.push(peering.mirror);
        }
        if index >= self.peerings.len() {
            self.peerings.resize_with(index + 1, || None);
        }
        self.peerings[index] = Some(Box::new((*peering, state)));
    }

    /// Passes withdrawals of routes that the end of a route refresh removed.
    #[cold]
    fn pass_removals(&mut self, peering: &Peering, time: Time) {
        let Some(rib) = &mut self.rib else { return };
        for update in rib.take_removals() {
            let Some(message) = Message::split(&update) else { continue };
            let event = Event::Message { time, from: Sender::Peer, message };
            let feeds = self.feeds.iter_mut().filter(|feed| feed.with_removals);
            feeds.for_each(|feed| feed.event(peering, &event));
        }
    }

    #[cold]
    fn gap(&mut self, peering: &Peering, gap: &Gap) {
        *match gap.cause {
            GapCause::Undecodable => &mut self.undecodable,
            GapCause::Guessed => &mut self.guessed,
            _ => &mut self.gaps,
        } += 1;
        if self.writer.is_some() && self.unstated.len() < GAPS {
            self.unstated.push(Loss::Stream {
                since_us: micros(gap.since),
                until_us: micros(gap.until),
                mirror: peering.mirror.0,
                peer: peering.peer,
                peer_as: peering.peer_as.0,
                from: format!("{:?}", gap.from).to_lowercase(),
                cause: format!("{:?}", gap.cause).to_lowercase(),
                missing: gap.missing,
                skipped: gap.skipped,
            });
        }
    }

    /// Records the packets that the capture dropped since its last report.
    pub(super) fn dropped(&mut self, now: Time, interface: u32, packets: u64) {
        let asked = self.asked.iter_mut().find(|(known, _)| *known == interface);
        let since = asked.map(|(_, asked)| std::mem::replace(asked, now));
        if since.is_none() && self.asked.len() < INTERFACES {
            self.asked.push((interface, now));
        }
        let since = since.unwrap_or(self.begun).min(now);
        if packets > 0 && self.writer.is_some() && self.unstated.len() < GAPS {
            let (since_us, until_us) = (micros(since), micros(now));
            self.unstated.push(Loss::Captured { since_us, until_us, interface, packets });
        }
    }

    /// Delivers the queued batch.
    pub(super) fn flush(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.flush();
        }
        self.feeds.iter_mut().for_each(Feed::flush);
    }

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
        if self.begun == Time::ZERO {
            self.begun = now;
        }
        // Visits each peering.
        if later(self.accounted, now) >= self.accounted + ACCOUNT || now < self.accounted {
            self.accounted = now;
            self.integrity.advance(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Archive;
    use crate::archive::{GAPS, Options, read_ledger};

    #[test]
    fn states_dropped_packets_since_last_poll() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path(), Options::default()).unwrap();
        let at = |seconds| Time::from_nanos(1_700_000_000_000_000_000 + seconds * 1_000_000_000);
        let writer = Writer::new(archive, collector::archive::Settings::default());
        let mut sinks = Sinks::new(Some(writer), None, Vec::new());
        sinks.advance(at(0));
        sinks.dropped(at(10), 1, 5);
        sinks.dropped(at(10), 2, 0);
        sinks.dropped(at(11), 1, 0);
        sinks.dropped(at(12), 1, 7);
        sinks.dropped(at(12), 2, 9);
        sinks.advance(at(12));
        drop(sinks);
        let stated: Vec<Loss> = read_ledger(&folder.path().join(GAPS)).unwrap();
        let loss = |since: u64, until, interface, packets| {
            let (since_us, until_us) = (micros(at(since)), micros(at(until)));
            Loss::Captured { since_us, until_us, interface, packets }
        };
        assert_eq!(stated, [loss(0, 10, 1, 5), loss(11, 12, 1, 7), loss(10, 12, 2, 9)]);
    }
}
