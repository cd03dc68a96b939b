//! One end: a session, its application, and invariants that are checked at every step.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use base::{RandomStream, Time};
use bytes::Bytes;
use mctcp::frame::Frame;
use mctcp::session::{Session, SubflowState};
use mctcp::settings::EARLY_CREDIT;
use mctcp::{Reason, Settings, SubflowId};

use super::script::Application;

/// A prime, so that no power of two is a period of the stream.
const STREAM_PERIOD_BYTES: usize = 1_048_573;
const MAX_PIECE_BYTES: usize = 64 << 10;

/// `length` bytes of either end's stream, from a position on.
fn stream(side: usize, at: u64, length: usize) -> Bytes {
    static TABLES: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    let tables = TABLES.get_or_init(|| {
        ["client", "server"].map(|name| {
            let mut rng = RandomStream::new(1, name);
            let mut table: Vec<u8> = (0..STREAM_PERIOD_BYTES).map(|_| rng.bits() as u8).collect();
            table.extend_from_within(..MAX_PIECE_BYTES);
            table
        })
    });
    let from = (at % STREAM_PERIOD_BYTES as u64) as usize;
    Bytes::from_static(&tables[side][from..from + length.min(MAX_PIECE_BYTES)])
}

pub(crate) struct End {
    side: usize,
    pub(crate) session: Session<Bytes>,
    settings: Settings,
    application: Application,
    written: u64,
    finished: bool,
    pub(crate) read: u64,
    pub(crate) done: bool,
    resumes_reading: Time,
    /// Maximum time between two reads.
    pub(crate) max_read_gap_s: f64,
    last_read: Option<Time>,
    /// Credit limit from the peer.
    credit: u64,
    /// Pieces that each subflow has carried.
    carried: BTreeSet<(SubflowId, u64)>,
    /// Bytes of the stream sent for the first time.
    reach: u64,
    pub(crate) by_peer: Option<Reason>,
    /// Texts of its RESET frames.
    resets: BTreeSet<String>,
    pub(crate) buffered_peak: u64,
}

impl End {
    pub(crate) fn new(
        side: usize,
        session: Session<Bytes>,
        settings: &Settings,
        application: &Application,
    ) -> Self {
        Self {
            side,
            session,
            settings: settings.clone(),
            application: application.clone(),
            written: 0,
            finished: false,
            read: 0,
            done: false,
            resumes_reading: Time::ZERO,
            max_read_gap_s: 0.0,
            last_read: None,
            credit: EARLY_CREDIT.count(),
            carried: BTreeSet::new(),
            reach: 0,
            by_peer: None,
            resets: BTreeSet::new(),
            buffered_peak: 0,
        }
    }

    /// Whether it has nothing more to do.
    pub(crate) fn is_over(&self) -> bool {
        (self.session.is_closed() && self.done) || self.session.failed().is_some()
    }

    /// Time of the application's next spontaneous action.
    pub(crate) fn next_wake(&self, now: Time) -> Option<Time> {
        let read = (self.resumes_reading > now).then_some(self.resumes_reading);
        let write =
            (!self.finished && self.application.starts > now).then_some(self.application.starts);
        let wakes = [self.session.next_wake(), read, write, self.pace(now)];
        wakes.into_iter().flatten().min()
    }

    /// Bytes of the next write.
    fn piece(&self) -> u64 {
        (self.application.writes - self.written).min(self.application.chunk as u64)
    }

    fn pace(&self, now: Time) -> Option<Time> {
        let rate = self.application.rate?;
        let next = base::Bytes::new(self.written + self.piece());
        let due = self.application.starts + rate.time_for(next);
        (!self.finished && due > now && self.session.writable().is_positive()).then_some(due)
    }

    pub(crate) fn stop_reading(&mut self, until: Time) {
        self.resumes_reading = until;
    }

    /// Writes and reads as much as possible; returns whether it did anything.
    pub(crate) fn act(&mut self, now: Time) -> bool {
        let wrote = self.write(now);
        let read = now >= self.resumes_reading && self.take(now);
        wrote || read
    }

    fn write(&mut self, now: Time) -> bool {
        let mut did = false;
        if now < self.application.starts || self.finished || self.is_over() {
            return did;
        }
        loop {
            let length = self.piece();
            let offered = self
                .application
                .rate
                .map_or(u64::MAX, |rate| rate.bytes_in(now.since(self.application.starts)).count());
            if length == 0 || self.written + length > offered {
                break;
            }
            let piece = stream(self.side, self.written, length as usize);
            let given = piece.len();
            let rest = self.session.write(now, piece).map_or(0, |rest| rest.len());
            self.written += (given - rest) as u64;
            did |= rest < given;
            if rest > 0 {
                break;
            }
        }
        if self.written == self.application.writes {
            self.finished = true;
            self.session.finish(now);
            return true;
        }
        did
    }

    fn take(&mut self, now: Time) -> bool {
        let mut did = false;
        while let Some(piece) = self.session.read(now) {
            did = true;
            let mut rest = &piece[..];
            assert!(!rest.is_empty(), "an empty piece");
            while !rest.is_empty() {
                let expected = stream(1 - self.side, self.read, rest.len());
                assert!(expected == rest[..expected.len()], "wrong bytes at {}", self.read);
                self.read += expected.len() as u64;
                rest = &rest[expected.len()..];
            }
            if let Some(last) = self.last_read.replace(now) {
                self.max_read_gap_s = self.max_read_gap_s.max(now.since(last).as_secs_f64());
            }
        }
        if self.session.read_finished() && !self.done {
            self.done = true;
            return true;
        }
        did
    }

    /// Passes a frame of the peer to the session.
    pub(crate) fn on_received(&mut self, frame: &Frame<Bytes>) {
        match frame {
            Frame::HelloAck(ack) => self.credit = self.credit.max(ack.credit),
            Frame::Hello(hello) => self.credit = self.credit.max(hello.credit),
            Frame::Dack(dack) => self.credit = self.credit.max(dack.credit),
            _ => {}
        }
    }

    /// Checks a frame that the session sends.
    pub(crate) fn on_sent(&mut self, subflow: SubflowId, frame: &Frame<Bytes>) {
        match frame {
            Frame::Data { dsn, payload, .. } => {
                let end = dsn + payload.len() as u64;
                assert!(end <= self.credit, "DSN {end} beyond the credit {}", self.credit);
                assert!(*dsn <= self.reach, "a gap from {} to {dsn}", self.reach);
                self.reach = self.reach.max(end);
                assert!(payload.len() as u64 <= self.settings.max_frame.count());
                let new = self.carried.insert((subflow, *dsn));
                assert!(new, "DSN {dsn} twice on {subflow:?}");
            }
            Frame::Dack(dack) => {
                assert!(dack.ranges.len() <= mctcp::frame::MAX_RANGES);
                let ascending = dack.ranges.windows(2).all(|pair| pair[0].end < pair[1].start);
                let beyond = dack.ranges.first().is_none_or(|range| range.start > dack.next);
                assert!(ascending && beyond, "{dack:?}");
            }
            Frame::Reset { text, .. } => {
                self.resets.insert(text.clone());
            }
            Frame::Fin { length } => assert_eq!(*length, self.written, "FIN"),
            _ => {}
        }
    }

    /// Checks the invariants.
    pub(crate) fn check(&mut self) {
        let statistics = self.session.statistics();
        self.buffered_peak = self.buffered_peak.max(statistics.buffered);
        let max = self.settings.receive_buffer.count();
        assert!(statistics.buffered <= max + max / 5, "buffers {} B", statistics.buffered);
        let unacked = self.written - statistics.acked.min(self.written);
        let max = self.settings.send_buffer.count();
        assert!(unacked <= max + max / 5, "buffers {unacked} B to send");
        let opened = |state| matches!(state, SubflowState::Active | SubflowState::Draining);
        let used = self.session.subflows().filter(|subflow| opened(subflow.state)).count();
        let max = usize::from(self.settings.max_subflows);
        // Before the session is established every path may be tried; a stale one may recover.
        assert!(used <= 2 * max + 4, "{}", self.describe());
    }

    /// Remaining work, for messages.
    pub(crate) fn describe(&self) -> String {
        format!(
            "wrote {} of {}, read {}, done {}, over {}, {:?} {:?}, {:?}",
            self.written,
            self.application.writes,
            self.read,
            self.done,
            self.is_over(),
            self.session.failed(),
            self.resets,
            self.session.subflows().collect::<Vec<_>>(),
        )
    }
}
