//! Pauses of a receiver.

use base::{Span, Time};

/// A period in which a bulk flow's receiver reads nothing, from the flow's start. Received data
/// stays in its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Time at which it stops reading.
    pub from: Span,
    /// Time at which it resumes reading, later than `from`.
    pub until: Span,
}

/// The pause of a running flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pausing {
    began: Time,
    /// `None` once it is over.
    pause: Option<Pause>,
    paused: bool,
}

impl Pausing {
    /// The pause of a flow that starts now.
    pub(crate) fn begin(pause: Option<Pause>, now: Time) -> Self {
        let mut this = Self { began: now, pause, paused: false };
        this.advance(now);
        this
    }

    /// Whether the receiver does not read.
    pub(crate) const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Time of the next change.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.pause.map(|pause| self.began + if self.paused { pause.until } else { pause.from })
    }

    /// Updates the state; returns whether it has changed.
    pub(crate) fn advance(&mut self, now: Time) -> bool {
        let before = self.paused;
        if let Some(Pause { from, until }) = self.pause {
            let since = now.since(self.began);
            self.paused = from <= since && since < until;
            self.pause = self.pause.filter(|_| since < until);
        }
        self.paused != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_begins_and_ends_once() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let pause = Pause { from: Span::from_millis(10), until: Span::from_millis(40) };
        let mut pausing = Pausing::begin(Some(pause), at(100));
        assert_eq!((pausing.is_paused(), pausing.deadline()), (false, Some(at(110))));
        assert!(!pausing.advance(at(109)) && pausing.advance(at(110)) && !pausing.advance(at(120)));
        assert_eq!((pausing.is_paused(), pausing.deadline()), (true, Some(at(140))));
        assert!(pausing.advance(at(150)) && !pausing.advance(at(151)));
        assert_eq!((pausing.is_paused(), pausing.deadline()), (false, None));
    }

    #[test]
    fn pause_may_begin_at_the_start_or_be_missed() {
        let pause = Pause { from: Span::ZERO, until: Span::from_millis(5) };
        let mut pausing = Pausing::begin(Some(pause), Time::ZERO);
        assert!(pausing.is_paused());
        assert!(pausing.advance(Time::ZERO + Span::from_millis(9)) && !pausing.is_paused());
        let late = Pause { from: Span::from_millis(1), ..pause };
        let mut pausing = Pausing::begin(Some(late), Time::ZERO);
        assert!(!pausing.advance(Time::ZERO + Span::from_millis(9)) && !pausing.is_paused());
        assert_eq!(pausing.deadline(), None);
        assert!(!Pausing::begin(None, Time::ZERO).is_paused());
    }
}
