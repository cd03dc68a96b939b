//! Positions in the order of a run.

use base::{Span, Time};

/// The rank of a component; at equal times the lowest rank is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// Lab events: the network changes, flows start and stop.
    LabEvent,
    /// Packets reach the end of a link.
    Arrival,
    /// Timers of simulated hosts fire, and packets that programs have sent enter the network.
    /// Packets that lab events cause hosts to send have this rank too.
    Timer,
    /// Deadlines of Bundler gateways.
    Gateway,
    /// The agreement of flows on shares.
    Agreement,
    /// Counters are read for samples.
    Sample,
}

/// A position in the order of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    /// Time of the event.
    pub at: Time,
    /// Rank at that time.
    pub rank: Rank,
}

impl Moment {
    /// The position of a component's events at a time.
    pub const fn new(at: Time, rank: Rank) -> Self {
        Self { at, rank }
    }

    /// The position after all events of a time.
    pub fn after(at: Time) -> Self {
        Self::new(at + Span::from_nanos(1), Rank::LabEvent)
    }

    /// The last time whose arrivals come before this position; `None` if there is none.
    pub(crate) fn last_arrivals(self) -> Option<Time> {
        if self.rank > Rank::Arrival {
            return Some(self.at);
        }
        self.at.as_nanos().checked_sub(1).map(Time::from_nanos)
    }
}
