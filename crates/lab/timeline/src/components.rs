//! The components of a run and the loop over them.

use base::Time;

use crate::{Moment, Rank};

/// The next deadline of each component; `None` if the component has none or does not
/// exist in the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextWakes {
    /// The network's deadline, at which packets may arrive.
    pub arrival: Option<Time>,
    /// See [`Components::on_lab_event`].
    pub lab_event: Option<Time>,
    /// See [`Components::on_timer`].
    pub timer: Option<Time>,
    /// See [`Components::on_gateway_wake`].
    pub gateway: Option<Time>,
    /// See [`Components::on_agreement_wake`].
    pub agreement: Option<Time>,
    /// See [`Components::on_sample`].
    pub sample: Option<Time>,
}

impl NextWakes {
    /// The earliest deadline.
    pub fn earliest(&self) -> Option<Time> {
        let others = self.first().map(|moment| moment.at);
        self.arrival.into_iter().chain(others).min()
    }

    /// The first deadline except that of arrivals.
    #[inline]
    fn first(&self) -> Option<Moment> {
        let mut first: Option<Moment> = None;
        for (at, rank) in [
            (self.lab_event, Rank::LabEvent),
            (self.timer, Rank::Timer),
            (self.gateway, Rank::Gateway),
            (self.agreement, Rank::Agreement),
            (self.sample, Rank::Sample),
        ] {
            if let Some(at) = at
                && first.is_none_or(|first| at < first.at)
            {
                first = Some(Moment::new(at, rank));
            }
        }
        first
    }
}

/// A network and the components that act on it. Each method handles the deadline that
/// [`NextWakes`] has for the component, which is `now`; for a run without the component, the
/// default method is sufficient.
pub trait Components {
    /// The next deadlines as of now.
    fn next_wakes(&self) -> NextWakes;

    /// Handles arrivals up to and including `until`, up to the first packets that leave the
    /// network. Returns whether any did; the loop then calls it again.
    fn on_arrivals(&mut self, until: Time) -> bool;

    /// Changes the network, and starts and stops flows.
    fn on_lab_event(&mut self, _now: Time) {}

    /// Handles the next timer of a simulated host.
    fn on_timer(&mut self, _now: Time) {}

    /// Handles the deadlines of Bundler gateways.
    fn on_gateway_wake(&mut self, _now: Time) {}

    /// Runs the agreement of flows on shares.
    fn on_agreement_wake(&mut self, _now: Time) {}

    /// Reads the counters for a sample.
    fn on_sample(&mut self, _now: Time) {}

    /// Handles the next event before `until`; returns whether there was one.
    #[inline]
    fn step(&mut self, until: Moment) -> bool {
        let next = self.next_wakes().first().filter(|next| *next < until);
        let limit = next.unwrap_or(until).last_arrivals();
        if limit.is_some_and(|limit| self.on_arrivals(limit)) {
            return true;
        }
        let Some(Moment { at, rank }) = next else { return false };
        match rank {
            Rank::LabEvent => self.on_lab_event(at),
            Rank::Timer => self.on_timer(at),
            Rank::Gateway => self.on_gateway_wake(at),
            Rank::Agreement => self.on_agreement_wake(at),
            // `first` does not return arrivals.
            Rank::Sample | Rank::Arrival => self.on_sample(at),
        }
        true
    }

    /// Handles all events before `until`.
    fn run_before(&mut self, until: Moment) {
        while self.step(until) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deadlines of components, packets in flight, and the handled events.
    #[derive(Default)]
    struct Script {
        wakes: Vec<Moment>,
        packets: Vec<Time>,
        handled: Vec<Moment>,
    }

    impl Script {
        fn on_wake(&mut self, at: Time, rank: Rank) {
            let moment = Moment::new(at, rank);
            self.wakes.retain(|other| *other != moment);
            self.handled.push(moment);
        }
    }

    impl Components for Script {
        fn next_wakes(&self) -> NextWakes {
            let next = |rank| {
                let wakes = self.wakes.iter().filter(|moment| moment.rank == rank);
                wakes.map(|moment| moment.at).min()
            };
            NextWakes {
                arrival: self.packets.iter().copied().min(),
                lab_event: next(Rank::LabEvent),
                timer: next(Rank::Timer),
                gateway: next(Rank::Gateway),
                agreement: next(Rank::Agreement),
                sample: next(Rank::Sample),
            }
        }

        fn on_arrivals(&mut self, until: Time) -> bool {
            let first = self.packets.iter().copied().filter(|at| *at <= until).min();
            let Some(at) = first else { return false };
            self.packets.retain(|other| *other != at);
            self.handled.push(Moment::new(at, Rank::Arrival));
            true
        }

        fn on_lab_event(&mut self, now: Time) {
            self.on_wake(now, Rank::LabEvent);
        }

        fn on_timer(&mut self, now: Time) {
            self.on_wake(now, Rank::Timer);
            // The packet crosses a link without delay.
            self.packets.push(now);
        }

        fn on_gateway_wake(&mut self, now: Time) {
            self.on_wake(now, Rank::Gateway);
        }

        fn on_agreement_wake(&mut self, now: Time) {
            self.on_wake(now, Rank::Agreement);
        }

        fn on_sample(&mut self, now: Time) {
            self.on_wake(now, Rank::Sample);
        }
    }

    const RANKS: [Rank; 6] =
        [Rank::LabEvent, Rank::Arrival, Rank::Timer, Rank::Gateway, Rank::Agreement, Rank::Sample];

    #[test]
    fn handles_ranks_in_order_at_equal_times() {
        let times = [0, 7].map(Time::from_nanos);
        let others = RANKS.iter().rev().filter(|rank| **rank != Rank::Arrival);
        let wakes = others.flat_map(|rank| times.map(|at| Moment::new(at, *rank))).collect();
        let mut script = Script { wakes, packets: times.to_vec(), ..Script::default() };
        assert_eq!(script.next_wakes().earliest(), Some(times[0]));
        script.run_before(Moment::after(times[1]));
        // A packet sent by a timer arrives before the ranks after timers.
        let mut ranks = RANKS.to_vec();
        ranks.insert(3, Rank::Arrival);
        let expected = times.iter().flat_map(|at| ranks.iter().map(|rank| Moment::new(*at, *rank)));
        assert_eq!(script.handled, expected.collect::<Vec<_>>());
    }

    #[test]
    fn stops_before_the_given_moment() {
        let at = Time::from_nanos(7);
        for (place, rank) in RANKS.into_iter().enumerate() {
            let wakes = RANKS.into_iter().filter(|rank| *rank != Rank::Arrival);
            let wakes = wakes.filter(|rank| *rank != Rank::Timer).map(|rank| Moment::new(at, rank));
            let mut script =
                Script { wakes: wakes.collect(), packets: vec![at], ..Script::default() };
            script.run_before(Moment::new(at, rank));
            let handled: Vec<Rank> = script.handled.iter().map(|moment| moment.rank).collect();
            let mut expected = RANKS[..place].to_vec();
            expected.retain(|rank| *rank != Rank::Timer);
            assert_eq!(handled, expected, "before {rank:?}");
        }
    }
}
