//! From packets to events: what files and interfaces have in common.

use std::ops::Range;

use base::{Span, Time};
use collector::decapsulate::{self, Decapsulator};
use collector::reassembly::{self, Reassembler};
use collector::session::{self, Sessions};
use collector::{Frame, LinkType, Sink};

/// Times may go back by this where inputs are in disorder; a clock that goes back by more was set,
/// or its time before was damaged.
const DISORDER: Span = Span::from_secs(3_600);

/// The time that it is when it was `now` and something is of the time `seen`.
#[inline]
pub(crate) fn later(now: Time, seen: Time) -> Time {
    if seen >= now || now.since(seen) > DISORDER { seen } else { now }
}

/// How packets are read.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What is looked for in packets.
    pub decapsulate: decapsulate::Settings,
    /// Limits of reassembly.
    pub reassembly: reassembly::Settings,
    /// What is known of sessions beforehand.
    pub sessions: session::Settings,
    /// Packets at the beginning that show whether checksums mean anything, before any of them is
    /// read. Zero where packets should not wait.
    pub learn: usize,
}

/// Time without packets after which those at the beginning are read, however few there are.
const MAX_LEARN_IDLE: Span = Span::from_secs(1);

/// Packets that wait until it is known whether checksums mean anything.
#[derive(Debug, Default)]
struct Early {
    frames: Vec<(Time, LinkType, u32, u32, Range<usize>)>,
    bytes: Vec<u8>,
}

impl Early {
    fn push(&mut self, frame: &Frame<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(frame.data);
        let place = start..self.bytes.len();
        self.frames.push((frame.time, frame.link, frame.interface, frame.length, place));
    }

    fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        self.frames.iter().map(|(time, link, interface, length, place)| Frame {
            time: *time,
            link: *link,
            interface: *interface,
            data: &self.bytes[place.clone()],
            length: *length,
        })
    }
}

/// Decapsulation, reassembly and sessions in a row. One thread owns it: nothing in it waits, and
/// packets in order take no memory.
#[derive(Debug)]
pub struct Pipeline<S> {
    decapsulator: Decapsulator,
    reassembler: Reassembler,
    sessions: Sessions<S>,
    early: Option<Early>,
    learn: usize,
    now: Time,
}

impl<S: Sink> Pipeline<S> {
    /// Before the first packet; `sink` is told what comes out.
    pub fn new(settings: Settings, sink: S) -> Self {
        Self {
            decapsulator: Decapsulator::new(settings.decapsulate),
            reassembler: Reassembler::new(settings.reassembly),
            sessions: Sessions::new(settings.sessions, sink),
            early: (settings.learn > 0).then(Early::default),
            learn: settings.learn,
            now: Time::ZERO,
        }
    }

    /// One more packet.
    #[inline]
    pub fn frame(&mut self, frame: &Frame<'_>) {
        if self.early.is_some() {
            return self.early(frame);
        }
        self.read(frame);
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
        if early.frames.len() >= self.learn {
            self.begin();
        }
    }

    /// Reads the packets that waited.
    fn begin(&mut self) {
        let Some(early) = self.early.take() else { return };
        self.decapsulator.learn(early.frames());
        for frame in early.frames() {
            self.read(&frame);
        }
    }

    /// The capture, or in live operation the clock, has come to `now`: to be called from time to
    /// time, also while packets come.
    pub fn advance(&mut self, now: Time) {
        self.now = later(self.now, now);
        self.reassembler.advance(now, &mut self.sessions);
        self.sessions.advance(now);
    }

    /// No packet has come for `idle`, and the clock of the capture is not the one of this moment:
    /// messages that are held back are handed on when they are due, and no other conclusion is
    /// drawn from the silence.
    pub fn idle(&mut self, idle: Span) {
        if idle >= MAX_LEARN_IDLE {
            self.begin();
        }
        if let Some(due) = self.sessions.held_until().filter(|due| *due <= self.now + idle) {
            self.sessions.advance(due);
        }
    }

    /// The time of the latest packet, or of [`Self::advance`].
    pub fn now(&self) -> Time {
        self.now
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        self.begin();
        let Self { decapsulator, reassembler, sessions, now, .. } = self;
        decapsulator.end(*now, &mut |segment| reassembler.segment(segment, sessions));
        self.reassembler.end(&mut self.sessions);
        self.sessions.finish();
    }

    /// The first step.
    pub fn decapsulator(&self) -> &Decapsulator {
        &self.decapsulator
    }

    /// The first step, to be asked for what tunnels lost.
    pub fn decapsulator_mut(&mut self) -> &mut Decapsulator {
        &mut self.decapsulator
    }

    /// The first step to be asked, and the third to be told.
    pub fn first_and_last(&mut self) -> (&Decapsulator, &mut Sessions<S>) {
        (&self.decapsulator, &mut self.sessions)
    }

    /// The second step.
    pub fn reassembler(&self) -> &Reassembler {
        &self.reassembler
    }

    /// The third step, and the sink behind it.
    pub fn sessions(&self) -> &Sessions<S> {
        &self.sessions
    }

    /// The third step, to be taught what an earlier run learned, or to reach the sink.
    pub fn sessions_mut(&mut self) -> &mut Sessions<S> {
        &mut self.sessions
    }

    /// The sink.
    pub fn sink_mut(&mut self) -> &mut S {
        self.sessions.sink_mut()
    }

    /// The sink, when all is over.
    pub fn into_sink(self) -> S {
        self.sessions.into_sink()
    }
}

#[cfg(test)]
mod tests;
