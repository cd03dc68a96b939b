//! ECF: waits for the fast subflow if it would complete earlier.
//!
//! Y.-S. Lim, E. Nahum, D. Towsley, R. Gibbens, *ECF: An MPTCP Path Scheduler to Manage
//! Heterogeneous Paths*, `CoNEXT` 2017, algorithm 1: with k bytes to send, the fast subflow
//! completes after (1 + k/CWND) of its round-trip times, the slow one after one of its round-trip
//! times. δ, the larger mean deviation, covers their jitter; β is the hysteresis of a decision to
//! wait.

use base::Time;

use super::{Choice, Scheduler, SubflowView, View, min_rtt, min_rtt_with_room};

const BETA: f64 = 0.25;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ecf {
    waiting: bool,
}

impl Scheduler for Ecf {
    fn pick(&mut self, _now: Time, session: &View, subflows: &[SubflowView]) -> Choice {
        let (Some(fast), Some(slow)) = (min_rtt(subflows), min_rtt_with_room(subflows)) else {
            return Choice::Wait(None);
        };
        if fast.id == slow.id {
            return Choice::Send(fast.id);
        }
        let unsent = session.unsent.count() as f64;
        let delta = fast.rtt_var.max(slow.rtt_var).as_secs_f64();
        let rounds = 1.0 + unsent / fast.window();
        let tolerance = 1.0 + if self.waiting { BETA } else { 0.0 };
        if rounds * fast.rtt() < tolerance * (slow.rtt() + delta) {
            // The fast one would complete first, and the slow one would take more than two
            // rounds of it.
            if unsent / slow.window() * slow.rtt() >= 2.0 * fast.rtt() + delta {
                self.waiting = true;
                return Choice::Wait(None);
            }
        } else {
            self.waiting = false;
        }
        Choice::Send(slow.id)
    }
}

#[cfg(test)]
mod tests {
    use super::super::views::{bulk, busy, idle};
    use super::*;
    use crate::SubflowId;
    use base::Bytes;

    fn pick(scheduler: &mut Ecf, unsent: u64) -> Choice {
        let session = View { unsent: Bytes::new(unsent), ..bulk() };
        scheduler.pick(Time::ZERO, &session, &[busy(0, 20, 10), idle(1, 200, 10)])
    }

    #[test]
    fn waits_for_the_fast_subflow_at_the_end_of_a_transfer() {
        let mut scheduler = Ecf::default();
        // At 25 kB per 20 ms, 250 kB arrive after 220 ms; those of the slow subflow after 201 ms.
        assert_eq!(pick(&mut scheduler, 250_000), Choice::Send(SubflowId(1)));
        assert_eq!(pick(&mut scheduler, 200_000), Choice::Wait(None));
        assert_eq!(pick(&mut scheduler, 250_000), Choice::Wait(None), "hysteresis");
        assert_eq!(pick(&mut scheduler, 300_000), Choice::Send(SubflowId(1)));
        assert_eq!(pick(&mut scheduler, 250_000), Choice::Send(SubflowId(1)));
    }

    #[test]
    fn uses_the_fast_subflow_when_it_has_room() {
        let subflows = [idle(0, 20, 10), idle(1, 200, 10)];
        let choice = Ecf::default().pick(Time::ZERO, &bulk(), &subflows);
        assert_eq!(choice, Choice::Send(SubflowId(0)));
    }
}
