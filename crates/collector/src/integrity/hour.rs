//! An hour of a peering.

use base::{Span, Time};
use bgp::MessageType;

use crate::{Gap, GapCause, Sender};

/// Messages that one side sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// OPENs.
    pub open: u64,
    /// UPDATEs.
    pub update: u64,
    /// NOTIFICATIONs.
    pub notification: u64,
    /// KEEPALIVEs.
    pub keepalive: u64,
    /// ROUTE-REFRESHes.
    pub route_refresh: u64,
    /// Messages of types that nobody defined.
    pub other: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Heard {
    /// Messages of all types.
    pub const fn total(&self) -> u64 {
        let known = self.open + self.update + self.notification;
        known + self.keepalive + self.route_refresh + self.other
    }
}

/// Gaps of one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// Bytes (or packets of a capture) that were never seen.
    pub missing: u64,
    /// Bytes that were seen and belong to no whole message.
    pub skipped: u64,
}

/// The causes in the order of [`Hour::gaps`], and what reports call them.
pub const CAUSES: [(GapCause, &str); 7] = [
    (GapCause::Mirror, "mirror"),
    (GapCause::Unknown, "unknown"),
    (GapCause::Capture, "capture"),
    (GapCause::Start, "start"),
    (GapCause::Undecodable, "undecodable"),
    (GapCause::Unconfirmed, "unconfirmed"),
    (GapCause::Guessed, "guessed"),
];

/// What was seen of a peering in an hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hour {
    /// What the neighbour sent.
    pub peer: Heard,
    /// What the router sent.
    pub local: Heard,
    /// What is missing of the neighbour's bytes, by cause in the order of [`CAUSES`].
    pub gaps: [Gaps; 7],
    /// What is missing of the router's, of all causes.
    pub local_gaps: Gaps,
    /// How often the next message had to be searched for behind a gap.
    pub resyncs: u64,
    /// Changes of state.
    pub states: u64,
    /// How often it was inferred how messages are to be read.
    pub inferred: u64,
    /// UPDATEs that had gone on under another reading.
    pub reread: u64,
    /// How long the session was up.
    pub up: Span,
    /// The session was up without a hold time: there are no keepalives, silence proves nothing.
    pub unproved: bool,
    /// First and last event.
    pub seen: Option<(Time, Time)>,
    /// Blind seconds: a bit each.
    blind: Option<Box<[u64; WORDS]>>,
}

const SECONDS: u64 = 3600;
const WORDS: usize = SECONDS.div_ceil(64) as usize;

/// What an hour is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// There was no session, and nothing is missing.
    Down,
    /// The neighbour was heard, nothing is missing, and it announced and withdrew nothing.
    Quiet,
    /// The neighbour was heard, nothing is missing.
    Whole,
    /// The neighbour was heard, but not all of the time.
    Holes,
    /// Nothing was heard of the neighbour, and something may have been sent.
    Blind,
}

impl Verdict {
    /// What reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Quiet => "quiet",
            Self::Whole => "whole",
            Self::Holes => "holes",
            Self::Blind => "blind",
        }
    }
}

impl Hour {
    /// Seconds in which something may have been sent that was not seen.
    pub fn blind_seconds(&self) -> u32 {
        self.blind.iter().flat_map(|words| words.iter()).map(|word| word.count_ones()).sum()
    }

    /// Whole messages that could not be read.
    pub const fn undecodable(&self) -> u64 {
        self.gaps[4].count
    }

    /// What the hour is worth.
    pub fn verdict(&self) -> Verdict {
        let heard = self.peer.total() > 0;
        let lost = self.gaps[..3].iter().any(|gaps| gaps.count > 0) || self.blind_seconds() > 0;
        // Where the capture began in the middle, what was before it was not seen.
        let late = self.gaps[3].count + self.gaps[5].count > 0;
        match (heard, lost || late) {
            (true, true) => Verdict::Holes,
            (true, false) if self.peer.update > 0 => Verdict::Whole,
            (true, false) => Verdict::Quiet,
            (false, true) => Verdict::Blind,
            (false, false) if self.unproved => Verdict::Blind,
            (false, false) if self.up > Span::ZERO => Verdict::Quiet,
            (false, false) => Verdict::Down,
        }
    }

    pub(super) fn heard(&mut self, from: Sender, kind: MessageType, bytes: usize) {
        let heard = match from {
            Sender::Peer => &mut self.peer,
            Sender::Local => &mut self.local,
        };
        heard.bytes += bytes as u64;
        *match kind {
            MessageType::OPEN => &mut heard.open,
            MessageType::UPDATE => &mut heard.update,
            MessageType::NOTIFICATION => &mut heard.notification,
            MessageType::KEEPALIVE => &mut heard.keepalive,
            MessageType::ROUTE_REFRESH => &mut heard.route_refresh,
            _ => &mut heard.other,
        } += 1;
    }

    pub(super) fn gap(&mut self, gap: &Gap) {
        let gaps = match gap.from {
            Sender::Local => &mut self.local_gaps,
            Sender::Peer => {
                let place = CAUSES.iter().position(|(cause, _)| *cause == gap.cause);
                &mut self.gaps[place.unwrap_or(1)]
            }
        };
        gaps.count += 1;
        gaps.missing += gap.missing;
        gaps.skipped += gap.skipped;
        if gap.skipped > 0 && !gap.cause.is_archived() {
            self.resyncs += 1;
        }
    }

    pub(super) fn at(&mut self, time: Time) {
        let (first, last) = self.seen.unwrap_or((time, time));
        self.seen = Some((first.min(time), last.max(time)));
    }

    /// Each second of which a part is between two times, in nanoseconds of the hour.
    pub(super) fn blind(&mut self, from: u64, until: u64) {
        let (first, end) = (from / 1_000_000_000, until.div_ceil(1_000_000_000).min(SECONDS));
        if first >= end {
            return;
        }
        let words = self.blind.get_or_insert_with(|| Box::new([0; WORDS]));
        for second in first..end {
            words[second as usize / 64] |= 1 << (second % 64);
        }
    }

    pub(super) fn memory(&self) -> usize {
        self.blind.as_ref().map_or(0, |_| WORDS * size_of::<u64>())
    }
}
