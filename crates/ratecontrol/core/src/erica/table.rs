//! A link's table of sessions, and the count of active ones.

use base::{Span, Time};

use crate::SessionId;
use crate::closed_loop::MAX_PROBE_INTERVAL;
use crate::session_table::SessionTable;

/// The averaging interval.
pub(super) const INTERVAL: Span = Span::from_millis(5);
/// Factor per interval for the contribution of a silent session.
const DECAY: f64 = 0.9;
/// Contribution below which a session is removed.
const FORGOTTEN: f64 = 0.1;

/// Entry of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// CCR, bit/s.
    pub(super) current: u64,
    /// ER of the interval `given`, bit/s.
    pub(super) explicit: u64,
    /// The interval in which `explicit` was computed; 0 for none.
    pub(super) given: u64,
    last_seen: Time,
    /// Time between its last two packets.
    gap: Span,
}

impl Entry {
    /// Its contribution to the count of active sessions: 1 while it sends. In the paper, links see
    /// cells of an active session in each interval; here they see its control packets, the next of
    /// which may follow only after a gap.
    //= deviation: a session counts as seen in an interval until its next control packet is overdue
    //= by another gap.
    fn part(&self, now: Time) -> f64 {
        let timeout = self.gap.as_nanos() * 2 + INTERVAL.as_nanos();
        let overdue = now.since(self.last_seen).as_nanos().saturating_sub(timeout);
        let intervals = overdue.div_ceil(INTERVAL.as_nanos());
        DECAY.powi(i32::try_from(intervals).unwrap_or(i32::MAX))
    }
}

/// The sessions of a link.
#[derive(Clone, Debug, Default)]
pub(super) struct Table(SessionTable<Entry>);

impl Table {
    /// Number of stored values per session.
    pub(super) const NUMBERS: u64 = 6;

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }

    pub(super) fn get_mut(&mut self, session: SessionId) -> Option<&mut Entry> {
        self.0.get_mut(session.0)
    }

    /// Processes a session's packet.
    pub(super) fn hear(&mut self, now: Time, session: SessionId, current: u64) {
        if let Some(entry) = self.0.get_mut(session.0) {
            entry.current = current;
            entry.gap = now.since(entry.last_seen).min(MAX_PROBE_INTERVAL);
            entry.last_seen = now;
            return;
        }
        let entry =
            Entry { current, explicit: 0, given: 0, last_seen: now, gap: MAX_PROBE_INTERVAL };
        self.0.insert(session.0, entry);
    }

    /// Ends an interval; returns the number of active sessions.
    pub(super) fn count_active(&mut self, now: Time) -> f64 {
        let mut active = 0.0;
        let mut forgotten = Vec::new();
        for (session, entry) in self.0.iter() {
            let part = entry.part(now);
            if part < FORGOTTEN {
                forgotten.push(session);
            } else {
                active += part;
            }
        }
        for session in forgotten {
            self.0.remove(session);
        }
        active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn sessions_that_fall_silent_decay_and_are_forgotten() {
        let mut table = Table::default();
        let mut now = at(0);
        for _ in 0..100 {
            now += INTERVAL;
            table.hear(now, SessionId(1), 5);
            table.hear(now, SessionId(2), 5);
        }
        // The timeout is two gaps and an interval.
        assert!((table.count_active(now + Span::from_millis(15)) - 2.0).abs() < 1e-9);
        now += Span::from_millis(20);
        table.hear(now, SessionId(2), 5);
        assert!((table.count_active(now) - 1.9).abs() < 1e-9);
        for _ in 0..30 {
            now += INTERVAL;
            table.hear(now, SessionId(2), 5);
            table.count_active(now);
        }
        assert_eq!(table.len(), 1);
        assert!(table.get_mut(SessionId(1)).is_none());
        assert!(table.get_mut(SessionId(2)).is_some());
    }

    #[test]
    fn a_session_is_given_time_for_its_second_packet() {
        let mut table = Table::default();
        table.hear(at(0), SessionId(9), 0);
        assert!((table.count_active(at(205)) - 1.0).abs() < 1e-9);
        assert!((table.count_active(at(215)) - 0.81).abs() < 1e-9);
        assert!(table.count_active(at(500)) < 1e-9);
        assert_eq!(table.len(), 0);
    }
}
