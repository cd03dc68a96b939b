//! From packets to events, for files and interfaces.

mod frames;
mod stamps;

use base::{Span, Time};
use collector::decapsulate::{self, Decapsulator};
use collector::reassembly::{self, Reassembler};
use collector::session::{self, Sessions};
use collector::{Frame, Sink};
use frames::Frames;
use stamps::Stamps;
pub(crate) use stamps::{DISORDER, later};

#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub decapsulate: decapsulate::Settings,
    pub reassembly: reassembly::Settings,
    pub sessions: session::Settings,
    /// Number of first packets that determine whether checksums are meaningful, before any is
    /// processed. Zero for no delay.
    pub learn: usize,
}

/// Time without packets after which the first ones are processed.
const MAX_LEARN_IDLE: Span = Span::from_secs(1);

/// Decapsulation, reassembly and sessions in a row, in one thread. It never waits, and packets in
/// order need no memory.
#[derive(Debug)]
pub struct Pipeline<S> {
    decapsulator: Decapsulator,
    reassembler: Reassembler,
    sessions: Sessions<S>,
    /// First packets, until it is known whether checksums are meaningful.
    early: Option<Frames>,
    learn: usize,
    stamps: Stamps,
    now: Time,
}

impl<S: Sink> Pipeline<S> {
    /// A pipeline before the first packet; events go to `sink`.
    pub fn new(settings: Settings, sink: S) -> Self {
        Self {
            decapsulator: Decapsulator::new(settings.decapsulate),
            reassembler: Reassembler::new(settings.reassembly),
            sessions: Sessions::new(settings.sessions, sink),
            early: (settings.learn > 0).then(Frames::default),
            learn: settings.learn,
            stamps: Stamps::default(),
            now: Time::ZERO,
        }
    }

    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>) {
        if self.early.is_some() {
            return self.early(frame);
        }
        self.stamped(frame);
    }

    /// Reads a packet when its time is certain.
    #[inline]
    fn stamped(&mut self, frame: &Frame<'_>) {
        if self.stamps.pass(frame.time) {
            return self.read(frame);
        }
        let decided = self.stamps.hold(frame);
        self.read_all(&decided);
    }

    fn read_all(&mut self, frames: &Frames) {
        frames.iter().for_each(|frame| self.read(&frame));
    }

    #[inline]
    fn read(&mut self, frame: &Frame<'_>) {
        let Self { decapsulator, reassembler, sessions, .. } = self;
        decapsulator.segments(frame, &mut |segment| reassembler.segment(segment, sessions));
        self.now = later(self.now, frame.time);
    }

    #[cold]
    fn early(&mut self, frame: &Frame<'_>) {
        let Some(early) = &mut self.early else { return };
        early.push(frame);
        if early.times().len() >= self.learn {
            self.begin();
        }
    }

    fn begin(&mut self) {
        let Some(early) = self.early.take() else { return };
        self.decapsulator.learn(early.iter());
        // Packets before the first time stamp were captured shortly before it.
        let first = early.times().iter().find(|time| **time > Time::ZERO);
        let first = first.copied().unwrap_or(Time::ZERO);
        for frame in early.iter() {
            let time = if frame.time == Time::ZERO { first } else { frame.time };
            self.stamped(&Frame { time, ..frame });
        }
    }

    /// Advances the time of the capture, or in live operation of the clock, to `now`. Call it
    /// periodically, even with packets.
    pub fn advance(&mut self, now: Time) {
        let decided = self.stamps.decide(now);
        self.read_all(&decided);
        self.now = later(self.now, now);
        self.reassembler.advance(now, &mut self.sessions);
        self.sessions.advance(now);
    }

    /// No packet has arrived for `idle`, and the capture's clock is not the current time: held
    /// messages are delivered when they are due, and no other conclusion is drawn.
    pub fn idle(&mut self, idle: Span) {
        if idle >= MAX_LEARN_IDLE {
            self.begin();
            let first = self.stamps.first();
            self.read_all(&first);
        }
        if let Some(due) = self.sessions.held_until().filter(|due| *due <= self.now + idle) {
            self.sessions.advance(due);
        }
    }

    /// Time of the latest packet, or of [`Self::advance`].
    pub fn now(&self) -> Time {
        self.now
    }

    /// Number of packets whose time was implausible and replaced by that of the packet before.
    pub fn implausible_times(&self) -> u64 {
        self.stamps.implausible()
    }

    pub fn finish(&mut self) {
        self.begin();
        let rest = self.stamps.finish();
        self.read_all(&rest);
        let Self { decapsulator, reassembler, sessions, now, .. } = self;
        decapsulator.end(*now, &mut |segment| reassembler.segment(segment, sessions));
        self.reassembler.end(&mut self.sessions);
        self.sessions.finish();
    }

    pub fn decapsulator(&self) -> &Decapsulator {
        &self.decapsulator
    }

    /// The first stage, for losses of tunnels.
    pub fn decapsulator_mut(&mut self) -> &mut Decapsulator {
        &mut self.decapsulator
    }

    /// The first and the third stage of the pipeline.
    pub fn first_and_last(&mut self) -> (&Decapsulator, &mut Sessions<S>) {
        (&self.decapsulator, &mut self.sessions)
    }

    pub fn reassembler(&self) -> &Reassembler {
        &self.reassembler
    }

    pub fn sessions(&self) -> &Sessions<S> {
        &self.sessions
    }

    pub fn sink_mut(&mut self) -> &mut S {
        self.sessions.sink_mut()
    }

    pub fn into_sink(self) -> S {
        self.sessions.into_sink()
    }
}

#[cfg(test)]
mod tests;
