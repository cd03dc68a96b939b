//! Account of one hour of a peering.

use base::{Span, Time};
use bgp::MessageType;

use crate::{Gap, GapCause, Sender};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    pub open: u64,
    pub update: u64,
    pub notification: u64,
    pub keepalive: u64,
    pub route_refresh: u64,
    pub other: u64,
    pub bytes: u64,
}

impl Messages {
    pub const fn total(&self) -> u64 {
        let known = self.open + self.update + self.notification;
        known + self.keepalive + self.route_refresh + self.other
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    pub count: u64,
    /// Missing bytes (or packets of a capture).
    pub missing: u64,
    /// Captured bytes that belong to no whole message.
    pub skipped: u64,
}

/// Causes in the order of [`Hour::gaps`], with their names in reports.
pub const CAUSES: [(GapCause, &str); 9] = [
    (GapCause::Mirror, "mirror"),
    (GapCause::Unknown, "unknown"),
    (GapCause::Capture, "capture"),
    (GapCause::Start, "start"),
    (GapCause::Undecodable, "undecodable"),
    (GapCause::Unconfirmed, "unconfirmed"),
    (GapCause::Guessed, "guessed"),
    (GapCause::Cut, "cut"),
    (GapCause::End, "end"),
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hour {
    pub peer: Messages,
    pub local: Messages,
    /// Missing bytes of the neighbour, by cause in the order of [`CAUSES`].
    pub gaps: [Gaps; 9],
    pub local_gaps: Gaps,
    /// Number of resynchronisations after gaps.
    pub resyncs: u64,
    pub states: u64,
    /// Number of inferences of the encoding of messages.
    pub inferred: u64,
    pub reread: u64,
    pub up: Span,
    /// The session was up without a hold time: no keepalives are sent, so silence shows nothing.
    pub unproved: bool,
    pub seen: Option<(Time, Time)>,
    /// Blind seconds, one bit each.
    blind: Option<Box<[u64; WORDS]>>,
}

const SECONDS: u64 = 3600;
const WORDS: usize = SECONDS.div_ceil(64) as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    Down,
    /// Messages were received, nothing is missing, and no route was announced or withdrawn.
    Quiet,
    Whole,
    /// Messages were received, but not during the whole hour.
    Holes,
    /// No message was received although some may have been sent.
    Blind,
}

impl Verdict {
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
    /// Number of seconds in which messages may have been sent that were not captured.
    pub fn blind_seconds(&self) -> u32 {
        self.blind.iter().flat_map(|words| words.iter()).map(|word| word.count_ones()).sum()
    }

    pub const fn undecodable(&self) -> u64 {
        self.gaps[4].count
    }

    /// Gaps that lack bytes in the archive, in total.
    pub fn missing(&self) -> Gaps {
        let of = CAUSES.iter().zip(&self.gaps).filter(|((cause, _), _)| !cause.is_archived());
        of.fold(Gaps::default(), |sum, (_, of)| Gaps {
            count: sum.count + of.count,
            missing: sum.missing + of.missing,
            skipped: sum.skipped + of.skipped,
        })
    }

    pub fn verdict(&self) -> Verdict {
        let received = self.peer.total() > 0;
        let found = |wanted: fn(GapCause) -> bool| {
            CAUSES.iter().zip(&self.gaps).any(|((cause, _), of)| of.count > 0 && wanted(*cause))
        };
        let lost = found(GapCause::is_loss) || self.blind_seconds() > 0;
        // The capture began or ended in the middle of the session.
        let late =
            found(|cause| matches!(cause, GapCause::Start | GapCause::Unconfirmed | GapCause::End));
        match (received, lost || late) {
            (true, true) => Verdict::Holes,
            (true, false) if self.peer.update > 0 => Verdict::Whole,
            (true, false) => Verdict::Quiet,
            (false, true) => Verdict::Blind,
            (false, false) if self.unproved => Verdict::Blind,
            (false, false) if self.up > Span::ZERO => Verdict::Quiet,
            (false, false) => Verdict::Down,
        }
    }

    pub(super) fn count_message(&mut self, from: Sender, kind: MessageType, bytes: usize) {
        let messages = match from {
            Sender::Peer => &mut self.peer,
            Sender::Local => &mut self.local,
        };
        messages.bytes += bytes as u64;
        *match kind {
            MessageType::OPEN => &mut messages.open,
            MessageType::UPDATE => &mut messages.update,
            MessageType::NOTIFICATION => &mut messages.notification,
            MessageType::KEEPALIVE => &mut messages.keepalive,
            MessageType::ROUTE_REFRESH => &mut messages.route_refresh,
            _ => &mut messages.other,
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

    /// Marks each second that overlaps the interval, in nanoseconds of the hour.
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
