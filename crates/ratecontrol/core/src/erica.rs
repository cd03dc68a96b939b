//! ERICA, explicit rate indication for congestion avoidance.
//!
//! Source: S. Kalyanaraman, R. Jain, S. Fahmy, R. Goyal, B. Vandalore, "The ERICA switch algorithm
//! for ABR traffic management in ATM networks", IEEE/ACM Transactions on Networking 8(1), 2000.
//!
//! **Problem.** Give each virtual circuit (session) at least an equal share of the link, and divide
//! the unused part among the others by the ratio of the link's load to its target.
//!
//! | [`Packet`] | fields | at links |
//! |---|---|---|
//! | downstream (forward RM) | CCR, ER (at first the demand), send time | the session's CCR is
//! recorded |
//! | upstream (backward RM) | the same | ER is lowered to the session's explicit rate |
//!
//! The paper's text was not available: the algorithm follows the summaries in the authors' related
//! reports (ATM Forum 96-1172, arXiv cs/9809040); the constants below are the usual ones.
//!
//! **Parts of the protocol in the code:**
//! - The basic algorithm, load factor z = input/target, `FairShare` = target/active VCs, `VCShare`
//!   = CCR/z: `measure` and `explicit_rate`.
//! - Fairness with `MaxAllocPrevious` and `MaxAllocCurrent` while z ≤ 1 + δ: the same.
//! - Fairness when a session rises from below `FairShare` (it gets that first): the same.
//! - At most one explicit rate for a session in an interval: `Entry::given`.
//! - Forward CCR and reverse ER (the latest CCR is used, feedback is written on the way back):
//!   `visit`.
//! - Counting active VCs, silent ones decaying by a factor: `table.rs`.
//!
//! Constants: target 95 % of the capacity, δ = 0.1, averaging interval 5 ms, decay 0.9. Loads up to
//! 1 + δ cause no change, so a link may stay 4.5 % above its capacity while no session joins or
//! leaves; this is ERICA without the queue control of ERICA+.
//!
//! Links store five values, and a table with six values per session.
use base::{Bandwidth, Span, Time};

use crate::bounds;
use crate::closed_loop::{Asks, ClosedLoop, MeasuringLink, Probe};
use crate::rcp::rate_of;
use crate::{Fate, Measured, Outbox, Result, SessionId, State, Towards, Visit};
use table::{INTERVAL, Table};

mod table;

/// Content of ERICA's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// CCR: current rate of the session in bit/s; 0 before its first rate.
    pub current: u64,
    /// ER: the least rate that links gave so far, in bit/s; at first the session's demand.
    pub explicit: u64,
    /// Time at which the source sent it.
    pub sent: Time,
}

impl Probe for Packet {
    fn new(now: Time, asks: &Asks) -> Self {
        Self { current: asks.current, explicit: asks.demand, sent: now }
    }

    fn sent(&self) -> Time {
        self.sent
    }

    fn rate(&self) -> u64 {
        self.explicit
    }
}

/// The protocol as a [`crate::RateController`].
pub type Erica = ClosedLoop<Link, Packet>;

impl MeasuringLink<Packet> for Link {
    const INTERVAL: Span = INTERVAL;

    fn with_capacity(capacity: Bandwidth) -> Result<Self> {
        Self::try_new(capacity)
    }
}

/// Target utilisation: the share of the capacity that sessions should use.
const TARGET: f64 = 0.95;
/// δ: the tolerated overload.
const DELTA: f64 = 0.1;
/// Minimum load factor: an idle link offers no session more than its target anyway.
const MIN_LOAD: f64 = 1e-9;

/// One direction of a link. Rates are in bit/s.
#[derive(Clone, Debug)]
pub struct Link {
    /// Target ABR capacity.
    target: f64,
    /// The load factor z.
    load: f64,
    fair_share: f64,
    /// Maximum rates given in the previous interval and in this one.
    most_previous: f64,
    most_current: f64,
    /// Number of the current interval, from 1.
    interval: u64,
    sessions: Table,
}

impl Link {
    pub(crate) fn try_new(capacity: Bandwidth) -> Result<Self> {
        let target = target(capacity)?;
        // Without sessions, the first one gets at most the whole target.
        Ok(Self {
            target,
            load: 1.0,
            fair_share: target,
            most_previous: target,
            most_current: target,
            interval: 1,
            sessions: Table::default(),
        })
    }

    /// Number of sessions in the table.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    fn explicit_rate(&mut self, session: SessionId) -> u64 {
        let entry = self.sessions.get_mut(session);
        if let Some(entry) = &entry
            && entry.given == self.interval
        {
            return entry.explicit;
        }
        let current = entry.as_ref().map_or(0.0, |entry| entry.current as f64);
        let mut rate = self.fair_share.max(current / self.load);
        if self.load <= 1.0 + DELTA {
            rate = rate.max(self.most_previous);
        }
        self.most_current = self.most_current.max(rate.min(self.target));
        // Rates are whole: a session that was given FairShare got it rounded down.
        if rate > self.fair_share && current < self.fair_share.floor() {
            rate = self.fair_share;
        }
        let rate = rate.min(self.target).max(1.0) as u64;
        if let Some(entry) = entry {
            entry.explicit = rate;
            entry.given = self.interval;
        }
        rate
    }
}

impl crate::Link<Packet> for Link {
    fn visit(&mut self, now: Time, at: Visit, packet: &mut Packet, _: &mut Outbox<Packet>) -> Fate {
        match at.towards {
            Towards::Destination => self.sessions.hear(now, at.session, packet.current),
            Towards::Source => {
                packet.explicit = packet.explicit.min(self.explicit_rate(at.session));
            }
        }
        Fate::Forward
    }

    fn measure(&mut self, now: Time, measured: &Measured) {
        let elapsed = measured.interval.as_secs_f64();
        if elapsed <= 0.0 {
            return;
        }
        self.load = (rate_of(measured.arrived, elapsed) / self.target).max(MIN_LOAD);
        let active = self.sessions.count_active(now);
        self.fair_share = self.target / active.max(1.0);
        self.most_previous = self.most_current;
        self.most_current = self.fair_share;
        self.interval += 1;
    }

    fn set_capacity(&mut self, _: Time, to: Bandwidth, _: &mut Outbox<Packet>) -> Result<()> {
        let target = target(to)?;
        let scale = target / self.target;
        self.target = target;
        self.load = (self.load / scale).max(MIN_LOAD);
        self.fair_share *= scale;
        self.most_previous *= scale;
        self.most_current *= scale;
        // Rates given in this interval were for another capacity.
        self.interval += 1;
        Ok(())
    }

    fn state(&self) -> State {
        State {
            numbers: 5 + Table::NUMBERS * self.sessions.len() as u64,
            bytes: (size_of::<Self>() + self.sessions.bytes()) as u64,
        }
    }
}

/// The target capacity, at least 1 bit/s because rates are whole.
fn target(capacity: Bandwidth) -> Result<f64> {
    Ok((bounds::capacity(capacity)? as f64 * TARGET).max(1.0))
}

#[cfg(test)]
mod tests;
