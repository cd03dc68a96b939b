//! Receivers that do not read for a while.

use base::{Span, Time};

/// A time in which a bulk flow's receiver reads nothing, reckoned from the flow's start. What
/// arrives meanwhile waits in its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// It reads until then.
    pub from: Span,
    /// It reads again, later than `from`.
    pub until: Span,
}

/// Keeps a running flow to its pause as time goes by.
#[derive(Clone, Copy, Debug)]
pub struct Pausing {
    began: Time,
    /// What is left of it.
    pause: Option<Pause>,
    paused: bool,
}

impl Pausing {
    /// That of a flow which starts now.
    pub fn begin(pause: Option<Pause>, now: Time) -> Self {
        let mut this = Self { began: now, pause, paused: false };
        this.advance(now);
        this
    }

    /// Whether the receiver is to read nothing.
    pub const fn is_paused(&self) -> bool {
        self.paused
    }

    /// When that changes next.
    pub fn deadline(&self) -> Option<Time> {
        self.pause.map(|pause| self.began + if self.paused { pause.until } else { pause.from })
    }

    /// It is `now`; tells whether the receiver has to begin or to end its pause.
    pub fn advance(&mut self, now: Time) -> bool {
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
    fn a_pause_begins_and_ends_once() {
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
    fn a_pause_may_be_there_from_the_start_or_be_missed() {
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
