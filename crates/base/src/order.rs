//! The order of all that happens in a run, for both clocks and for replays.
//!
//! A [`Moment`] is a time and a [`Rank`]. What has the earliest moment comes first; within a
//! moment, what was scheduled first. Whatever arises at the present time takes its turn by its
//! rank: a packet that a timer sends over a link without delay arrives before the next timer.

use crate::{Span, Time};

/// What comes first at equal times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// Events of the lab: the network changes, flows start and stop.
    LabEvent,
    /// Packets reach the end of a link.
    Arrival,
    /// Hosts act: timers of simulated hosts, and packets that programs have sent. Packets that lab
    /// events cause hosts to send have this rank too.
    Timer,
    /// Gateways of bundles act.
    Gateway,
    /// Flows agree on shares.
    Agreement,
    /// Counters are read.
    Sample,
}

/// A place in the order of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    /// The time.
    pub at: Time,
    /// The place at that time.
    pub rank: Rank,
}

impl Moment {
    /// Comes never.
    pub const NEVER: Self = Self { at: Time::MAX, rank: Rank::Sample };

    /// A place in the order.
    pub const fn new(at: Time, rank: Rank) -> Self {
        Self { at, rank }
    }

    /// The end of all that happens at a time.
    pub fn after(at: Time) -> Self {
        Self::new(at + Span::from_nanos(1), Rank::LabEvent)
    }

    /// The last time whose arrivals come before this; `None` where none do.
    fn last_arrivals(self) -> Option<Time> {
        if self.rank > Rank::Arrival {
            return Some(self.at);
        }
        self.at.as_nanos().checked_sub(1).map(Time::from_nanos)
    }
}

/// A network and what acts on it, in the order of their moments. A driver adds a clock.
pub trait Timeline {
    /// Lets packets arrive, up to and including `until`, and takes the first that come out of the
    /// network. Returns whether any came out.
    fn arrive(&mut self, until: Time) -> bool;

    /// The earliest moment of all but arrivals; [`Moment::NEVER`] without any.
    fn next_moment(&self) -> Moment;

    /// Does what [`Self::next_moment`] said.
    fn meet(&mut self, moment: Moment);

    /// Does the next of what comes before `until`; returns whether there was something.
    fn step(&mut self, until: Moment) -> bool {
        let next = self.next_moment();
        let limit = next.min(until).last_arrivals();
        if limit.is_some_and(|limit| self.arrive(limit)) {
            return true;
        }
        if next < until {
            self.meet(next);
        }
        next < until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moments that come one after the other, and what arises from some of them.
    #[derive(Default)]
    struct Script {
        due: Vec<Moment>,
        packets: Vec<Time>,
        seen: Vec<Moment>,
    }

    impl Timeline for Script {
        fn arrive(&mut self, until: Time) -> bool {
            let first = self.packets.iter().copied().filter(|at| *at <= until).min();
            let Some(at) = first else { return false };
            self.packets.retain(|other| *other != at);
            self.seen.push(Moment::new(at, Rank::Arrival));
            true
        }

        fn next_moment(&self) -> Moment {
            self.due.iter().copied().min().unwrap_or(Moment::NEVER)
        }

        fn meet(&mut self, moment: Moment) {
            self.due.retain(|other| *other != moment);
            self.seen.push(moment);
            if moment.rank == Rank::Timer {
                self.packets.push(moment.at);
            }
        }
    }

    const RANKS: [Rank; 6] =
        [Rank::LabEvent, Rank::Arrival, Rank::Timer, Rank::Gateway, Rank::Agreement, Rank::Sample];

    #[test]
    fn meets_ranks_in_order_at_equal_times() {
        let times = [0, 7].map(Time::from_nanos);
        let others = RANKS.iter().rev().filter(|rank| **rank != Rank::Arrival);
        let due = others.flat_map(|rank| times.map(|at| Moment::new(at, *rank))).collect();
        let mut script = Script { due, packets: times.to_vec(), ..Script::default() };
        while script.step(Moment::after(times[1])) {}
        // A packet that a timer has sent arrives before what comes after timers.
        let mut ranks = RANKS.to_vec();
        ranks.insert(3, Rank::Arrival);
        let expected = times.iter().flat_map(|at| ranks.iter().map(|rank| Moment::new(*at, *rank)));
        assert_eq!(script.seen, expected.collect::<Vec<_>>());
    }

    #[test]
    fn stops_before_the_given_moment() {
        let at = Time::from_nanos(7);
        for (place, rank) in RANKS.into_iter().enumerate() {
            let due = RANKS.into_iter().filter(|rank| *rank != Rank::Arrival);
            let due = due.filter(|rank| *rank != Rank::Timer).map(|rank| Moment::new(at, rank));
            let mut script = Script { due: due.collect(), packets: vec![at], ..Script::default() };
            while script.step(Moment::new(at, rank)) {}
            let met: Vec<Rank> = script.seen.iter().map(|moment| moment.rank).collect();
            let mut expected = RANKS[..place].to_vec();
            expected.retain(|rank| *rank != Rank::Timer);
            assert_eq!(met, expected, "before {rank:?}");
        }
    }
}
