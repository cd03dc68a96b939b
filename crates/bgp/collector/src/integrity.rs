//! Integrity account: received and missing data by peering and hour. It distinguishes a quiet
//! neighbour from a collector that receives nothing.
//!
//! A peering is *quiet* if its session is up, the neighbour sent keepalives in time, and nothing is
//! missing. It is *blind* in each second with missing bytes of the neighbour, and from the end of
//! the hold time after the last message.

mod hour;
mod render;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use base::{Span, Time};
use bgp::open::Open;
use bgp::{Message, MessageType};

use crate::{Event, Gap, Peering, Sender, Sink, State};

pub use hour::{CAUSES, Gaps, Hour, Messages, Verdict};
pub use render::hour_name;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Number of retained hours per peering and for the capture, at least 1; older hours move to
    /// [`Integrity::finished`].
    pub hours: usize,
    pub hold_time: Span,
    /// Maximum number of hours queued for [`Integrity::finished`]; above it the oldest are dropped.
    pub waiting: usize,
}

impl Default for Settings {
    /// 24 hours; 180 s, the longest common hold time; 65,536.
    fn default() -> Self {
        Self { hours: 24, hold_time: Span::from_secs(180), waiting: 65_536 }
    }
}

/// Counters of the capture since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    pub frames: u64,
    pub bytes: u64,
    /// Packets that the kernel or the file reports as dropped.
    pub dropped: u64,
    /// Packets lost between router and capture, by sequence numbers of tunnels.
    pub mirror_lost: u64,
    /// Segments dropped because of a wrong checksum.
    pub bad_checksums: u64,
    /// Segments whose checksum could not be verified: their damage is not detected.
    pub unverified_checksums: u64,
    pub unreadable: u64,
}

impl Capture {
    fn minus(self, earlier: Self) -> Self {
        Self {
            frames: self.frames.saturating_sub(earlier.frames),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            dropped: self.dropped.saturating_sub(earlier.dropped),
            mirror_lost: self.mirror_lost.saturating_sub(earlier.mirror_lost),
            bad_checksums: self.bad_checksums.saturating_sub(earlier.bad_checksums),
            unverified_checksums: self
                .unverified_checksums
                .saturating_sub(earlier.unverified_checksums),
            unreadable: self.unreadable.saturating_sub(earlier.unreadable),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            bytes: self.bytes + other.bytes,
            dropped: self.dropped + other.dropped,
            mirror_lost: self.mirror_lost + other.mirror_lost,
            bad_checksums: self.bad_checksums + other.bad_checksums,
            unverified_checksums: self.unverified_checksums + other.unverified_checksums,
            unreadable: self.unreadable + other.unreadable,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    pub peering: Peering,
    /// Start in hours since 1970.
    pub hour: u64,
    pub seen: Hour,
}

#[derive(Debug)]
pub struct Integrity {
    settings: Settings,
    watches: Vec<Option<Box<Watch>>>,
    capture: VecDeque<(u64, Capture)>,
    counted: Capture,
    finished: VecDeque<Finished>,
    forgotten: u64,
}

#[derive(Debug)]
struct Watch {
    peering: Peering,
    state: State,
    /// Hold times in the OPENs of the neighbour and the router, in seconds.
    proposed: [Option<u16>; 2],
    /// If the session is up: end of the time that is accounted for.
    up: Option<Time>,
    alive: Time,
    /// Hours since 1970, oldest first.
    hours: VecDeque<(u64, Hour)>,
}

const HOUR: u64 = 3_600_000_000_000;

/// Splits the time from `since` to `until` into hours; returns the last `most` parts.
fn parts(since: Time, until: Time, most: usize) -> impl Iterator<Item = (u64, u64, u64)> {
    let (since, until) = (since.as_nanos(), until.as_nanos());
    let last = until / HOUR;
    let first = (since / HOUR).max(last.saturating_sub(most as u64 - 1));
    (first..=last).filter_map(move |hour| {
        let (from, to) = (since.max(hour * HOUR), until.min((hour + 1) * HOUR));
        (from <= to).then_some((hour, from - hour * HOUR, to - hour * HOUR))
    })
}

impl Watch {
    fn hold_time(&self, settings: &Settings) -> Option<Span> {
        let proposed = self.proposed.iter().flatten().min();
        let span =
            proposed.map_or(settings.hold_time, |seconds| Span::from_secs((*seconds).into()));
        // Without a hold time neither side sends keepalives, so silence shows nothing.
        (span > Span::ZERO).then_some(span)
    }

    /// The account of `hour`, or of the oldest retained hour if `hour` is older.
    fn hour(&mut self, hour: u64) -> &mut Hour {
        let place = match self.hours.back() {
            Some((last, _)) if *last == hour => self.hours.len() - 1,
            _ => match self.hours.binary_search_by_key(&hour, |kept| kept.0) {
                Ok(place) => place,
                Err(place) => {
                    self.hours.insert(place, (hour, Hour::default()));
                    place
                }
            },
        };
        &mut self.hours[place].1
    }

    /// Accounts for the time until `now`: as up, and as blind after silence of the neighbour.
    fn pass(&mut self, now: Time, settings: &Settings) {
        /// A larger step backward means that the clock was set.
        const STEP: Span = Span::from_secs(3600);
        let Some(since) = self.up else { return };
        if since >= now {
            if since.since(now) > STEP {
                (self.up, self.alive) = (Some(now), now);
            }
            return;
        }
        let hold = self.hold_time(settings);
        for (number, from, to) in parts(since, now, settings.hours).filter(|part| part.1 < part.2) {
            let hour = self.hour(number);
            hour.up = hour.up.saturating_add(Span::from_nanos(to - from));
            hour.unproved |= hold.is_none();
        }
        self.up = Some(now);
        let silent = since.max(hold.map_or(now, |hold| self.alive + hold));
        if silent < now {
            for (hour, from, to) in parts(silent, now, settings.hours) {
                self.hour(hour).blind(from, to);
            }
        }
    }

    fn message(&mut self, time: Time, from: Sender, message: Message<'_>) {
        if message.kind() == MessageType::OPEN
            && let Ok(open) = Open::parse(message.body())
        {
            self.proposed[usize::from(from == Sender::Local)] = Some(open.hold_time);
        }
        if from == Sender::Peer {
            self.alive = self.alive.max(time);
        }
        let hour = self.hour(time.as_nanos() / HOUR);
        hour.count_message(from, message.kind(), message.bytes().len());
        hour.at(time);
    }

    fn gap(&mut self, gap: &Gap, settings: &Settings) {
        let hour = self.hour(gap.until.as_nanos() / HOUR);
        hour.gap(gap);
        hour.at(gap.until);
        // The router did not receive its own messages, unreadable messages are present, and the
        // time before a capture is not observed.
        if gap.from == Sender::Peer && gap.cause.is_loss() {
            for (hour, from, to) in parts(gap.since, gap.until, settings.hours) {
                self.hour(hour).blind(from, to.max(from + 1));
            }
        }
    }

    fn state(&mut self, time: Time, new: State) {
        self.state = new;
        self.hour(time.as_nanos() / HOUR).states += 1;
        self.hour(time.as_nanos() / HOUR).at(time);
        match (new, self.up) {
            (State::Established, None) => {
                self.up = Some(time);
                self.alive = time;
            }
            (State::Established, Some(_)) => {}
            (..) => {
                self.up = None;
                if new == State::Idle {
                    self.proposed = [None; 2];
                }
            }
        }
    }
}

impl Integrity {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings: Settings { hours: settings.hours.max(1), ..settings },
            watches: Vec::new(),
            capture: VecDeque::new(),
            counted: Capture::default(),
            finished: VecDeque::new(),
            forgotten: 0,
        }
    }

    /// Sets the counters of the capture at `now`.
    pub fn capture(&mut self, now: Time, counted: Capture) {
        let new = counted.minus(std::mem::replace(&mut self.counted, counted));
        let hour = now.as_nanos() / HOUR;
        match self.capture.back_mut() {
            Some((last, known)) if *last >= hour => *known = known.plus(new),
            _ => self.capture.push_back((hour, new)),
        }
        if self.capture.len() > self.settings.hours {
            self.capture.pop_front();
        }
    }

    /// Advances the time; a silent capture is blind.
    pub fn advance(&mut self, now: Time) {
        for at in 0..self.watches.len() {
            if let Some(watch) = &mut self.watches[at] {
                watch.pass(now, &self.settings);
            }
            self.hand_out(at);
        }
    }

    /// Hours that are no longer retained, oldest first, for permanent storage.
    pub fn finished(&mut self) -> impl Iterator<Item = Finished> {
        self.finished.drain(..)
    }

    pub const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Retained hours of each peering, in hours since 1970.
    pub fn hours(&self) -> impl Iterator<Item = (&Peering, u64, &Hour)> {
        self.watches
            .iter()
            .flatten()
            .flat_map(|watch| watch.hours.iter().map(|(hour, seen)| (&watch.peering, *hour, seen)))
    }

    /// Retained hours of the capture, in hours since 1970.
    pub fn capture_hours(&self) -> impl Iterator<Item = (u64, &Capture)> {
        self.capture.iter().map(|(hour, counted)| (*hour, counted))
    }

    pub fn memory(&self) -> usize {
        let watches = self.watches.iter().flatten().map(|watch| {
            let maps: usize = watch.hours.iter().map(|(_, hour)| hour.memory()).sum();
            size_of::<Watch>() + watch.hours.capacity() * size_of::<(u64, Hour)>() + maps
        });
        watches.sum::<usize>()
            + self.watches.capacity() * size_of::<Option<Box<Watch>>>()
            + self.finished.capacity() * size_of::<Finished>()
            + self.capture.capacity() * size_of::<(u64, Capture)>()
    }

    fn hand_out(&mut self, at: usize) {
        while let Some(watch) = &mut self.watches[at]
            && watch.hours.len() > self.settings.hours
            && let Some((hour, seen)) = watch.hours.pop_front()
        {
            let finished = Finished { peering: watch.peering, hour, seen };
            self.put(finished);
        }
    }

    fn put(&mut self, finished: Finished) {
        if self.finished.len() >= self.settings.waiting {
            self.finished.pop_front();
            self.forgotten += 1;
        }
        self.finished.push_back(finished);
    }
}

impl Sink for Integrity {
    fn event(&mut self, peering: &Peering, event: &Event<'_>) {
        let at = peering.id.index();
        if at >= self.watches.len() {
            self.watches.resize_with(at + 1, || None);
        }
        let settings = self.settings;
        let watch = self.watches[at].get_or_insert_with(|| {
            Box::new(Watch {
                peering: *peering,
                state: State::Idle,
                proposed: [None; 2],
                up: None,
                alive: Time::ZERO,
                hours: VecDeque::new(),
            })
        });
        watch.peering = *peering;
        match event {
            Event::Message { time, from, message } => {
                watch.pass(*time, &settings);
                watch.message(*time, *from, *message);
            }
            Event::State { time, new, .. } => {
                watch.pass(*time, &settings);
                watch.state(*time, *new);
            }
            Event::Gap(gap) => watch.gap(gap, &settings),
            Event::Reading(reading) => {
                let hour = watch.hour(reading.time.as_nanos() / HOUR);
                hour.inferred += 1;
                hour.reread += reading.otherwise;
            }
        }
        if watch.hours.len() > settings.hours {
            self.hand_out(at);
        }
    }

    fn forget_peering(&mut self, peering: &Peering) {
        let watch = self.watches.get_mut(peering.id.index()).and_then(Option::take);
        let Some(watch) = watch else { return };
        for (hour, seen) in watch.hours {
            self.put(Finished { peering: watch.peering, hour, seen });
        }
    }
}
